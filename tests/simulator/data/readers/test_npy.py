"""NumPy arrays of ids."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from simulator.data.readers.base import IdArray
from simulator.data.readers.choose import id_reader
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError


def _arrays(path: Path) -> list[IdArray]:
    reader = id_reader(SourceSpec(kind="npy", path=str(path)))
    assert reader is not None
    return list(reader.arrays())


def _save(folder: Path, array: np.ndarray, name: str = "a.npy") -> Path:
    np.save(folder / name, array)
    return folder / name


@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2", "int32", "uint32", "int64"])
def test_integers_of_any_width_are_read(tmp_path: Path, dtype: str) -> None:
    (ids,) = _arrays(_save(tmp_path, np.arange(200).astype(dtype)))
    assert np.array_equal(ids, np.arange(200))


def test_array_is_mapped_and_not_loaded(tmp_path: Path) -> None:
    (ids,) = _arrays(_save(tmp_path, np.arange(200)))
    assert isinstance(ids.base, np.memmap) or isinstance(getattr(ids.base, "base", None), np.memmap)
    assert not ids.flags.writeable


def test_rows_follow_one_another(tmp_path: Path) -> None:
    (ids,) = _arrays(_save(tmp_path, np.arange(12).reshape(3, 4)))
    assert np.array_equal(ids, np.arange(12))


def test_folder_of_shards_is_read_by_name(tmp_path: Path) -> None:
    _save(tmp_path, np.array([3, 4]), "b.npy")
    _save(tmp_path, np.array([1, 2]), "a.npy")
    assert np.concatenate(_arrays(tmp_path)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1.0, 2.0]), "must hold integers; got 'float64'"),
        (np.array([True, False]), "must hold integers; got 'bool'"),
        (np.array([], dtype=np.int32), "must not be empty"),
        (np.asfortranarray(np.ones((3, 4), dtype=int)), "must be in C order"),
    ],
)
def test_array_that_holds_no_row_of_ids_is_refused(
    tmp_path: Path, array: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        _arrays(_save(tmp_path, array))


class _Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path, str]]:
        return Path.write_text, (self.path, "unpickled")


def test_object_array_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "a.npy"
    np.save(path, np.array([_Bomb(trace)], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="without Python objects, which are never loaded"):
        _arrays(path)
    assert not trace.exists()


def test_pickle_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "a.npy"
    path.write_bytes(pickle.dumps(_Bomb(trace)))
    with pytest.raises(DataError, match="a pickle, which is never loaded"):
        _arrays(path)
    assert not trace.exists()


def test_headerless_ids_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.arange(100, dtype=np.uint16).tofile(path)
    with pytest.raises(DataError, match=r'looks like headerless ids.*Use kind = "raw"'):
        _arrays(path)


def test_archive_is_recognised(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.arange(4))
    with pytest.raises(DataError, match="a zip archive"):
        _arrays(tmp_path / "a.npz")


def test_array_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path, np.arange(1000))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"must be a complete \.npy array"):
        _arrays(path)


@pytest.mark.parametrize("length", [3, 6, 8, 12, 40])
def test_header_that_was_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    path = _save(tmp_path, np.arange(1000))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match=r"\.npy"):
        _arrays(path)


@pytest.mark.needs_shared
def test_public_sample_is_read(shared_data: Path) -> None:
    (ids,) = _arrays(shared_data / "formats" / "raw" / "tokens_u16.npy")
    assert (ids.size, int(ids.max()), int(ids.sum(dtype=np.int64))) == (89_148, 4095, 76_697_322)
