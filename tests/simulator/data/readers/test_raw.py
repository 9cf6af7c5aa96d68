"""Headerless ids."""

import struct
from pathlib import Path

import numpy as np
import pytest

from simulator.data.readers.base import IdArray
from simulator.data.readers.choose import id_reader
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError


def _ids(path: Path, dtype: str = "uint16") -> IdArray:
    reader = id_reader(SourceSpec(kind="raw", path=str(path), dtype=dtype))  # type: ignore[arg-type]
    assert reader is not None
    (ids,) = reader.arrays()
    return ids


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "uint32", "int64"])
def test_little_endian_ids_are_read(tmp_path: Path, dtype: str) -> None:
    wanted = np.array([1, 2, 250], dtype=np.dtype(dtype).newbyteorder("<"))
    (tmp_path / "a.bin").write_bytes(wanted.tobytes())
    assert _ids(tmp_path / "a.bin", dtype).tolist() == [1, 2, 250]


def test_odd_number_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"12345")
    with pytest.raises(DataError, match=r"whole number of uint16 ids.*5 bytes, 1 too many"):
        _ids(tmp_path / "a.bin")


def test_empty_file_is_refused(tmp_path: Path) -> None:
    """EleutherAI/gpt-neox#648: an empty file cannot be mapped."""
    (tmp_path / "train.bin").write_bytes(b"")
    with pytest.raises(DataError, match="must not be empty"):
        _ids(tmp_path / "train.bin")


def test_empty_shard_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"12")
    (tmp_path / "b.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"b\.bin must not be empty"):
        _ids(tmp_path)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (struct.pack("<3i", 20240520, 1, 100), "an llm.c file.*Drop its 1,024-byte header"),
        (struct.pack("<3i", 20240801, 7, 100), "an llm.c file"),
        (b"\x93NUMPY\x01\x00", r'a NumPy \.npy array.*Use kind = "npy"'),
        (b"MMIDIDX\x00\x00\x01", "index of a Megatron data set"),
        (b"PAR1", "a parquet file"),
    ],
)
def test_file_with_a_format_of_its_own_is_refused(
    tmp_path: Path, head: bytes, message: str
) -> None:
    (tmp_path / "a.bin").write_bytes(head.ljust(1026, b"\x00"))
    with pytest.raises(DataError, match=f"must be headerless.*{message}"):
        _ids(tmp_path / "a.bin")


@pytest.mark.needs_shared
def test_public_sample_is_read(shared_data: Path) -> None:
    ids = _ids(shared_data / "formats" / "raw" / "nanogpt_train.bin")
    assert (ids.size, int(ids.max()), int(ids.sum(dtype=np.int64))) == (89_148, 4095, 76_697_322)
    assert ids[:4].tolist() == [1516, 333, 13, 2243]
