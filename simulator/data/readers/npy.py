"""NumPy ``.npy`` files of token ids, memory-mapped; nothing pickled is ever loaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.data.readers.base import IdArray
from simulator.data.readers.files import read_head
from simulator.data.readers.magic import known_format
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError

__all__ = ["NpyReader"]

_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class NpyReader:
    """Reads integer arrays; rows of a two-dimensional array follow one another."""

    source: SourceSpec
    files: tuple[Path, ...]
    """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """The path."""
        return self.source.path

    def arrays(self) -> Iterator[IdArray]:
        """Yield one array a file.

        Raises
        ------
        DataError
            If a file is no ``.npy``, holds anything but integers, or is cut short.
        """
        for path in self.files:
            yield _load(path)


def _load(path: Path) -> IdArray:
    head = read_head(path)
    if not head.startswith(_MAGIC):
        raise _not_npy(path, head)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(
            str(path),
            "must be a complete .npy array without Python objects, which are never loaded",
            str(error),
            "Save plain integers: numpy.save(path, ids.astype('uint16')).",
        ) from None
    if array.dtype.kind not in "iu":
        raise DataError(
            str(path), "must hold integers", str(array.dtype), "Save token ids as uint16 or int32."
        )
    if not array.size:
        raise DataError(str(path), "must not be empty", array.shape, "Name a file with data.")
    if not array.flags.c_contiguous:
        raise DataError(
            str(path),
            "must be in C order, so that rows follow one another",
            f"Fortran order, shape {array.shape}",
            "Save numpy.ascontiguousarray(ids).",
        )
    ids: IdArray = array.view(np.ndarray).reshape(-1)
    return ids


def _not_npy(path: Path, head: bytes) -> DataError:
    found, fix = known_format(head) or _guess(path, head)
    rule = "must be a .npy file (first bytes \\x93NUMPY)"
    return DataError(str(path), rule, f"first bytes {head[:6]!r}: {found}", fix)


def _guess(path: Path, head: bytes) -> tuple[str, str]:
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle, which is never loaded", "Save plain integers with numpy.save."
    if path.stat().st_size % 2 == 0:
        return (
            "no header; it looks like headerless ids under the wrong name",
            'Use kind = "raw" with the dtype it was written in (mostly "uint16").',
        )
    return "no format we know", "Save the ids with numpy.save."
