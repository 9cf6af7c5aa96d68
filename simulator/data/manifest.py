"""What a source's files hold, found by reading them once and remembered by size and time.

A manifest is trusted as long as every file keeps its path, size and modification time. Reading a
source again costs a look at its folder instead of its content.
"""

import hashlib
import json
from pathlib import Path
from typing import TypeVar

import numpy as np

from simulator.data.readers.base import IdReader, TextReader
from simulator.data.stream import TextStream
from simulator.records.writing import write_atomically
from simulator.specs.base import spec
from simulator.specs.codec import canonical_json, decode_json
from simulator.specs.data import SourceSpec
from simulator.specs.errors import SpecError

__all__ = ["IdManifest", "TextManifest", "digest", "id_manifest", "text_manifest"]

_VERSION = 1
"""Counts up when readers change what they make of the same files."""

_CHUNK_IDS = 2**22

_T = TypeVar("_T")


@spec
class TextManifest:
    """Content of a text source."""

    sha256: str
    """Of the UTF-8 text with its separators."""
    num_bytes: int
    num_documents: int
    """Documents that are not empty."""
    num_empty_documents: int
    """Documents that were skipped."""


@spec
class IdManifest:
    """Content of a source of token ids."""

    sha256: str
    """Of the ids as the files hold them, with their type."""
    num_ids: int
    min_id: int
    max_id: int


def text_manifest(source: SourceSpec, reader: TextReader, cache: Path) -> TextManifest:
    """Return what a text source holds; errors of its reader pass through."""
    path = _manifest_path(source, reader.files, cache)
    known = _load(TextManifest, path)
    if known is not None:
        return known
    stream = TextStream(reader)
    sha, num_bytes = hashlib.sha256(), 0
    for piece in stream:
        data = piece.encode()
        sha.update(data)
        num_bytes += len(data)
    manifest = TextManifest(
        sha256=sha.hexdigest(),
        num_bytes=num_bytes,
        num_documents=stream.num_documents,
        num_empty_documents=stream.num_empty_documents,
    )
    return _store(manifest, path)


def id_manifest(source: SourceSpec, reader: IdReader, cache: Path) -> IdManifest:
    """Return what a source of ids holds; errors of its reader pass through."""
    path = _manifest_path(source, reader.files, cache)
    known = _load(IdManifest, path)
    if known is not None:
        return known
    sha, num_ids, lows, highs = hashlib.sha256(), 0, [], []
    for array in reader.arrays():
        sha.update(array.dtype.str.encode())
        for begin in range(0, array.size, _CHUNK_IDS):
            chunk = np.ascontiguousarray(array[begin : begin + _CHUNK_IDS])
            sha.update(chunk.data)
            lows.append(int(chunk.min()))
            highs.append(int(chunk.max()))
        num_ids += array.size
    manifest = IdManifest(
        sha256=sha.hexdigest(), num_ids=num_ids, min_id=min(lows), max_id=max(highs)
    )
    return _store(manifest, path)


def digest(*parts: object) -> str:
    """Return the SHA-256 of plain values in JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _manifest_path(source: SourceSpec, files: tuple[Path, ...], cache: Path) -> Path:
    marks = []
    for path in files:
        status = path.stat()
        marks.append((str(path), status.st_size, status.st_mtime_ns))
    key = digest(_VERSION, source.kind, source.dtype, source.text_key, marks)
    return cache / "manifests" / f"{key[:32]}.json"


def _load(cls: type[_T], path: Path) -> _T | None:
    """Return a stored manifest, ``None`` if it is absent or damaged."""
    try:
        return decode_json(cls, path.read_bytes())
    except (FileNotFoundError, SpecError):
        return None


def _store(manifest: _T, path: Path) -> _T:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, canonical_json(manifest))
    return manifest
