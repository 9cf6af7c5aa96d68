"""Token ids on disk, written once by whoever comes first and memory-mapped by everyone.

::

    CACHE/tokens/KEY/
      ids.bin     the ids, little-endian, nothing else
      meta.json   their type, number, hash and time; written last, so its presence means "whole"
      lock        held while the two are made

On opening, ``ids.bin`` must have the size and the modification time that ``meta.json`` recorded.
If only the time differs (a copied cache) it is hashed; if size or hash differ it is made again.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from simulator.data.readers.base import IdArray
from simulator.records.writing import write_atomically
from simulator.specs.base import spec
from simulator.specs.codec import canonical_json, decode_json
from simulator.specs.errors import DataError, SpecError

__all__ = ["Encoded", "StoredTokens", "TokenMeta", "load_or_write", "smallest_dtype"]

_READ_BYTES = 2**24


@dataclass(frozen=True, slots=True)
class Encoded:
    """Ids of one piece and the bytes of text they stand for (0 when unknown)."""

    ids: IdArray
    num_text_bytes: int


@spec
class TokenMeta:
    """What ``ids.bin`` holds."""

    dtype: str
    num_tokens: int
    sha256: str
    mtime_ns: int
    marks: tuple[tuple[int, int], ...]
    """(tokens, bytes of text) from the start up to some piece ends, rising, at most ~1,000."""


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """A row of ids in the cache."""

    ids: IdArray
    meta: TokenMeta


def smallest_dtype(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """Return the narrowest unsigned type that holds every id below ``vocab_size``."""
    wide: np.dtype[np.unsignedinteger] = np.dtype("<u4")
    if vocab_size <= 2**8:
        wide = np.dtype("u1")
    elif vocab_size <= 2**16:
        wide = np.dtype("<u2")
    return wide


def load_or_write(
    folder: Path,
    dtype: np.dtype[np.unsignedinteger],
    mark_bytes: int,
    make: Callable[[], Iterator[Encoded]],
) -> StoredTokens:
    """Return the stored ids of ``folder``, making them first if they are absent or damaged.

    Parameters
    ----------
    mark_bytes
        Least distance in bytes of text between two marks.
    make
        Gives the ids from the start; called by one process at a time.
    """
    stored = _load(folder)
    if stored is not None:
        return stored
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        stored = _load(folder)
        if stored is None:
            _write(folder, dtype, mark_bytes, make())
            stored = _load(folder)
    if stored is None:
        raise DataError(
            str(folder),
            "must hold what was just written",
            sorted(path.name for path in folder.iterdir()),
            "Check the disk, or choose another cache folder.",
        )
    return stored


def _load(folder: Path) -> StoredTokens | None:
    path = folder / "ids.bin"
    try:
        meta = decode_json(TokenMeta, (folder / "meta.json").read_bytes())
        status = path.stat()
    except (FileNotFoundError, SpecError):
        return None
    dtype = np.dtype(meta.dtype)
    if status.st_size != meta.num_tokens * dtype.itemsize:
        return None
    if status.st_mtime_ns != meta.mtime_ns and _sha256(path) != meta.sha256:
        return None
    if not meta.num_tokens:  # an empty file cannot be mapped
        return StoredTokens(np.empty(0, dtype=dtype), meta)
    # A plain array over the map: slicing np.memmap itself is several times slower.
    return StoredTokens(np.memmap(path, dtype=dtype, mode="r").view(np.ndarray), meta)


def _write(
    folder: Path,
    dtype: np.dtype[np.unsignedinteger],
    mark_bytes: int,
    pieces: Iterator[Encoded],
) -> None:
    (folder / "meta.json").unlink(missing_ok=True)
    draft = folder / "ids.bin.draft"
    sha, num_tokens, num_bytes = hashlib.sha256(), 0, 0
    marks = [(0, 0)]
    with draft.open("wb") as file:
        for piece in pieces:
            data = piece.ids.astype(dtype, copy=False).tobytes()
            file.write(data)
            sha.update(data)
            num_tokens += piece.ids.size
            num_bytes += piece.num_text_bytes
            if num_bytes - marks[-1][1] >= mark_bytes:
                marks.append((num_tokens, num_bytes))
        file.flush()
        os.fsync(file.fileno())
    if marks[-1] != (num_tokens, num_bytes):
        marks.append((num_tokens, num_bytes))
    path = folder / "ids.bin"
    draft.replace(path)
    meta = TokenMeta(
        dtype=dtype.str,
        num_tokens=num_tokens,
        sha256=sha.hexdigest(),
        mtime_ns=path.stat().st_mtime_ns,
        marks=tuple(marks),
    )
    write_atomically(folder / "meta.json", canonical_json(meta))


def _sha256(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            sha.update(data)
    return sha.hexdigest()
