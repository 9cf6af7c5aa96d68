"""From what the user says about the tokenizer to an encoder, trained or read and cached.

::

    CACHE/tokenizers/KEY/
      tokenizer.json   trained once for (text, vocabulary, library version)
      sha256           its hash; a file that does not match is made again
      lock             held while the two are made
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from filelock import FileLock

from simulator.data.encoders import BYTE_VOCAB_SIZE, ByteEncoder, TextEncoder
from simulator.data.manifest import TextManifest, digest
from simulator.data.readers.base import TextReader
from simulator.data.readers.files import require_path
from simulator.data.stream import TextStream, merged
from simulator.data.subword import (
    MIN_VOCAB_SIZE,
    SubwordEncoder,
    library_version,
    read_vocab_size,
    train_bpe,
)
from simulator.records.writing import write_atomically
from simulator.specs.data import SourceSpec, TokenizerChoice, TokenizerSpec
from simulator.specs.errors import DataError, SpecError

__all__ = ["TRAINING_BYTES", "TextSource", "find_vocab_size", "make_encoder", "sample_text"]

TRAINING_BYTES = 8 * 10**6
"""Text a BPE is trained on at most, taken evenly from all sources. Training on 26 MB of source
code took 80 s of wall time on 2 busy cores; the rest would change few merges."""

_PIECE_CHARS = 2**15


@dataclass(frozen=True, slots=True)
class TextSource:
    """A source of text that has been read once."""

    source: SourceSpec
    reader: TextReader
    manifest: TextManifest


def find_vocab_size(choice: TokenizerChoice) -> int:
    """Return the number of ids for a tokenizer of text (every kind but ``none``).

    Raises
    ------
    SpecError
        If the size asked for does not go with the kind.
    DataError
        If the user's ``tokenizer.json`` does not exist or is no text.
    """
    asked = choice.vocab_size
    if choice.kind == "bytes":
        if asked not in (None, BYTE_VOCAB_SIZE):
            raise _wrong_size("must be 256 or left out for kind 'bytes'", asked, "Leave it out.")
        return BYTE_VOCAB_SIZE
    if choice.kind == "bpe":
        if asked is None or asked < MIN_VOCAB_SIZE:
            rule = f"must be given and >= {MIN_VOCAB_SIZE} for kind 'bpe'"
            raise _wrong_size(rule, asked, "Try 4096.")
        return asked
    found = read_vocab_size(_read_tokenizer(Path(choice.path)))
    if asked is not None and asked < found:
        rule = f"must be at least the tokenizer's own {found} ids"
        raise _wrong_size(rule, asked, "Leave it out or raise it.")
    return asked or found


def make_encoder(
    tokenizer: TokenizerSpec, texts: Sequence[TextSource], cache: Path
) -> TextEncoder | None:
    """Return the encoder of a tokenizer, ``None`` for kind ``none``.

    Parameters
    ----------
    texts
        The training sources that hold text; a BPE is trained on them.
    """
    match tokenizer.kind:
        case "none":
            return None
        case "bytes":
            return ByteEncoder()
        case "bpe":
            text = _trained_bpe(texts, tokenizer.vocab_size, cache)
        case "file":
            text = _read_tokenizer(Path(tokenizer.path))
    return SubwordEncoder(text, identity=_sha256(text), vocab_size=tokenizer.vocab_size)


def _trained_bpe(texts: Sequence[TextSource], vocab_size: int, cache: Path) -> str:
    if not texts:
        raise SpecError(
            "data.tokenizer.kind",
            "of 'bpe' needs at least one training source of text",
            "none",
            "Use kind 'none' for sources that hold ids.",
        )
    hashes = [text.manifest.sha256 for text in texts]
    key = digest(hashes, vocab_size, library_version(), TRAINING_BYTES)
    folder = cache / "tokenizers" / key[:32]
    known = _load(folder)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        known = _load(folder)
        if known is not None:
            return known
        trained = train_bpe(sample_text(texts, TRAINING_BYTES), vocab_size)
        write_atomically(folder / "tokenizer.json", trained)
        write_atomically(folder / "sha256", _sha256(trained))
        return trained


def sample_text(texts: Sequence[TextSource], max_bytes: int) -> Iterator[str]:
    """Yield pieces spread evenly over all text, at most ``max_bytes`` in sum."""
    share = min(1.0, max_bytes / sum(text.manifest.num_bytes for text in texts))
    room = max_bytes
    streams = (merged(iter(TextStream(text.reader)), _PIECE_CHARS) for text in texts)
    for index, piece in enumerate(chain.from_iterable(streams)):
        if math.ceil((index + 1) * share) > math.ceil(index * share):
            data = piece.encode()[:room]
            room -= len(data)
            yield data.decode(errors="ignore")


def _load(folder: Path) -> str | None:
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        sha256 = (folder / "sha256").read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _sha256(text) == sha256 else None


def _read_tokenizer(path: Path) -> str:
    require_path(path)
    if path.is_dir():
        raise DataError(str(path), "must be a file", "a folder", "Name the tokenizer.json in it.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        found = f"a byte that is not UTF-8 at offset {error.start}"
        raise DataError(str(path), "must be a JSON text", found, "Name a tokenizer.json.") from None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _wrong_size(rule: str, found: int | None, fix: str) -> SpecError:
    return SpecError("data.tokenizer.vocab_size", rule, found, fix)
