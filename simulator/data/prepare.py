"""From a source to its row of token ids: read, checked, encoded and memory-mapped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from simulator.data.encoders import TextEncoder
from simulator.data.manifest import IdManifest, digest, id_manifest, text_manifest
from simulator.data.readers.base import IdArray, IdReader
from simulator.data.readers.choose import id_reader, text_reader
from simulator.data.store import Encoded, load_or_write, smallest_dtype
from simulator.data.stream import TextStream, merged
from simulator.data.summary import SourceSummary
from simulator.data.vocabulary import TextSource
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError, SpecError

__all__ = ["PreparedSource", "no_tokenizer", "prepare_sources", "read_texts"]

_PIECE_CHARS = 2**16
"""Text is encoded in pieces of at least this length, each by itself, cut between lines or
documents; a subword never reaches across a cut."""

_PIECES_AT_ONCE = 16
_CHUNK_IDS = 2**22
_MAX_MARKS = 1000


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """A source whose ids can be read."""

    source: SourceSpec
    ids: IdArray
    """All ids in order, memory-mapped."""
    marks: tuple[tuple[int, int], ...]
    """(tokens, bytes of text) up to some places, rising; empty when the text is unknown."""
    files: frozenset[Path]
    """Real paths of the files it was read from."""
    summary: SourceSummary

    def text_bytes(self, begin: int, end: int) -> float | None:
        """Return the bytes of text of tokens ``begin`` to ``end``, linear between marks."""
        if not self.marks:
            return None
        tokens, text = zip(*self.marks, strict=True)
        low, high = np.interp([begin, end], tokens, text)
        return float(high - low)


def read_texts(sources: Sequence[SourceSpec], cache: Path) -> tuple[TextSource, ...]:
    """Read every source that holds text once; errors of the readers pass through.

    Raises
    ------
    DataError
        If all documents of a source are empty.
    """
    found = []
    for source in sources:
        reader = text_reader(source)
        if reader is None:
            continue
        manifest = text_manifest(source, reader, cache)
        if not manifest.num_bytes:
            raise DataError(
                reader.origin,
                "must hold text",
                f"{manifest.num_empty_documents} empty documents",
                "Name a source with text in it.",
            )
        found.append(TextSource(source, reader, manifest))
    return tuple(found)


def prepare_sources(
    sources: Sequence[SourceSpec], encoder: TextEncoder | None, vocab_size: int, cache: Path
) -> tuple[PreparedSource, ...]:
    """Return sources of text and ids ready to be read; errors of the readers pass through.

    Raises
    ------
    SpecError
        If there is text but no tokenizer.
    DataError
        If ids do not fit the vocabulary.
    """
    prepared = []
    for source in sources:
        reader = id_reader(source)
        if reader is not None:
            prepared.append(_prepare_ids(source, reader, vocab_size, cache))
            continue
        for text in read_texts([source], cache):
            if encoder is None:
                raise no_tokenizer(source)
            prepared.append(_prepare_text(text, encoder, cache))
    return tuple(prepared)


def no_tokenizer(source: SourceSpec) -> SpecError:
    """Return the error for text that nothing turns into ids."""
    return SpecError(
        "data.tokenizer.kind",
        f"must not be 'none' for a source of kind {source.kind!r}, which holds text",
        "none",
        "Use 'bytes', 'bpe' or 'file'.",
    )


def _prepare_text(text: TextSource, encoder: TextEncoder, cache: Path) -> PreparedSource:
    def pieces() -> Iterator[Encoded]:
        stream = merged(iter(TextStream(text.reader)), _PIECE_CHARS)
        while batch := list(islice(stream, _PIECES_AT_ONCE)):
            for piece, ids in zip(batch, encoder.encode(batch), strict=True):
                yield Encoded(ids, len(piece.encode()))

    manifest = text.manifest
    key = digest(manifest.sha256, encoder.identity, encoder.vocab_size, _PIECE_CHARS)
    stored = load_or_write(
        cache / "tokens" / key[:32],
        smallest_dtype(encoder.vocab_size),
        max(_PIECE_CHARS, manifest.num_bytes // _MAX_MARKS),
        pieces,
    )
    files = text.reader.files
    return PreparedSource(
        source=text.source,
        ids=stored.ids,
        marks=stored.meta.marks,
        files=frozenset(path.resolve() for path in files),
        summary=SourceSummary(
            kind=text.source.kind,
            origin=text.reader.origin,
            weight=text.source.weight,
            num_files=len(files),
            num_documents=manifest.num_documents,
            num_empty_documents=manifest.num_empty_documents,
            text_bytes=manifest.num_bytes,
            content_sha256=manifest.sha256,
            num_tokens=stored.meta.num_tokens,
            tokens_sha256=stored.meta.sha256,
        ),
    )


def _prepare_ids(
    source: SourceSpec, reader: IdReader, vocab_size: int, cache: Path
) -> PreparedSource:
    manifest = id_manifest(source, reader, cache)
    _check_ids(reader, manifest, vocab_size)
    files = reader.files
    return PreparedSource(
        source=source,
        ids=_one_array(reader, manifest, vocab_size, cache),
        marks=(),
        files=frozenset(path.resolve() for path in files),
        summary=SourceSummary(
            kind=source.kind,
            origin=reader.origin,
            weight=source.weight,
            num_files=len(files),
            num_documents=None,
            num_empty_documents=None,
            text_bytes=None,
            content_sha256=manifest.sha256,
            num_tokens=manifest.num_ids,
            tokens_sha256=manifest.sha256,
        ),
    )


def _one_array(reader: IdReader, manifest: IdManifest, vocab_size: int, cache: Path) -> IdArray:
    """Return the user's own file as it lies, or several joined in the cache."""
    if len(reader.files) == 1:
        return next(reader.arrays())
    dtype = smallest_dtype(vocab_size)

    def pieces() -> Iterator[Encoded]:
        for array in reader.arrays():
            for begin in range(0, array.size, _CHUNK_IDS):
                yield Encoded(array[begin : begin + _CHUNK_IDS], 0)

    folder = cache / "tokens" / digest(manifest.sha256, dtype.str)[:32]
    return load_or_write(folder, dtype, manifest.num_ids, pieces).ids


def _check_ids(reader: IdReader, manifest: IdManifest, vocab_size: int) -> None:
    """Refuse ids outside the vocabulary, and types that cannot hold the vocabulary at all."""
    is_inside = manifest.min_id >= 0 and manifest.max_id < vocab_size
    for path, array in zip(reader.files, reader.arrays(), strict=True):
        largest = int(np.iinfo(array.dtype).max)
        if largest < vocab_size - 1:
            raise DataError(
                str(path),
                f"must be of a type that holds every id of the vocabulary ({vocab_size})",
                f"{array.dtype.name}, which ends at {largest}",
                "The ids may have wrapped around when they were written: write them again as"
                " int32 or uint32, or correct data.tokenizer.vocab_size.",
            )
        if not is_inside:
            _refuse_outside(path, array, vocab_size)


def _refuse_outside(path: Path, array: IdArray, vocab_size: int) -> None:
    for begin in range(0, array.size, _CHUNK_IDS):
        chunk = array[begin : begin + _CHUNK_IDS]
        outside = (chunk < 0) | (chunk >= vocab_size)
        if outside.any():
            index = int(outside.argmax())
            raise DataError(
                str(path),
                f"must hold ids from 0 to {vocab_size - 1} (vocabulary of {vocab_size})",
                f"id {int(chunk[index])} at position {begin + index}",
                "Correct data.tokenizer.vocab_size or the tokenizer the ids were made with; if"
                " every id looks wrong, the dtype or a header is.",
            )
