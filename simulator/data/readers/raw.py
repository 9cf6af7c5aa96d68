"""Headerless files of little-endian integers, as nanoGPT and OLMo write them; memory-mapped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.data.readers.base import IdArray
from simulator.data.readers.files import read_head
from simulator.data.readers.magic import known_format
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError

__all__ = ["RawReader"]


@dataclass(frozen=True, slots=True)
class RawReader:
    """Reads files that are nothing but ids of the source's ``dtype``."""

    source: SourceSpec
    files: tuple[Path, ...]
    """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """The path and the type."""
        return f"{self.source.path} (headerless {self.source.dtype})"

    def arrays(self) -> Iterator[IdArray]:
        """Yield one array a file.

        Raises
        ------
        DataError
            If a file has a format of its own, is empty, or is not a whole number of ids.
        """
        for path in self.files:
            yield self._load(path)

    def _load(self, path: Path) -> IdArray:
        known = known_format(read_head(path))
        if known is not None:
            raise DataError(str(path), "must be headerless", f"{known[0]}", known[1])
        dtype = np.dtype(self.source.dtype).newbyteorder("<")
        num_bytes = path.stat().st_size
        if num_bytes == 0:
            raise DataError(str(path), "must not be empty", "0 bytes", "Name a file with data.")
        if num_bytes % dtype.itemsize:
            raise DataError(
                str(path),
                f"must be a whole number of {self.source.dtype} ids ({dtype.itemsize} bytes each)",
                f"{num_bytes} bytes, {num_bytes % dtype.itemsize} too many",
                "Correct the dtype, or the file was cut short: write it again.",
            )
        ids: IdArray = np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)
        return ids
