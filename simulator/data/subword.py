"""Subword tokenizers: the only file that imports the ``tokenizers`` library.

A ``tokenizer.json`` is used as it is, but that special tokens are never added and nothing is
truncated or padded. Our own is a byte-level BPE, so that every text can be spelt.
"""

import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulator.data.readers.base import IdArray
from simulator.specs.errors import SpecError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

try:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
except ImportError:
    _is_installed = False
else:
    _is_installed = True

__all__ = ["MIN_VOCAB_SIZE", "SubwordEncoder", "library_version", "read_vocab_size", "train_bpe"]

MIN_VOCAB_SIZE = 257
"""The 256 bytes and at least one merge."""


class SubwordEncoder:
    """Encodes with a ``tokenizer.json``; the library's object is made at the first use."""

    def __init__(self, text: str, *, identity: str, vocab_size: int) -> None:
        self._text = text
        self._tokenizer: Tokenizer | None = None
        self.identity = identity
        self.vocab_size = vocab_size

    def encode(self, pieces: Sequence[str]) -> list[IdArray]:
        """Return the ids of each piece by itself."""
        if self._tokenizer is None:
            self._tokenizer = _parse(self._text)
        encodings = self._tokenizer.encode_batch_fast(list(pieces), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]


def library_version() -> str:
    """Return the version of the library.

    Raises
    ------
    SpecError
        If it is not installed.
    """
    _require_library()
    return importlib.metadata.version("tokenizers")


def read_vocab_size(text: str) -> int:
    """Return the number of ids of a ``tokenizer.json``, added tokens included.

    Raises
    ------
    SpecError
        If it is no such file.
    """
    vocabulary = _parse(text).get_vocab(with_added_tokens=True)
    return max(vocabulary.values(), default=-1) + 1


def train_bpe(texts: Iterator[str], vocab_size: int) -> str:
    """Return the ``tokenizer.json`` of a byte-level BPE trained on ``texts``.

    Raises
    ------
    SpecError
        If the texts do not yield so many different pieces.
    """
    _require_library()
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    found = tokenizer.get_vocab_size()
    if found < vocab_size:
        raise SpecError(
            "data.tokenizer.vocab_size",
            f"must not exceed the {found} ids that the text yields",
            vocab_size,
            f"Use {found} or fewer, kind 'bytes', or more text.",
        )
    return str(tokenizer.to_str())


def _parse(text: str) -> "Tokenizer":
    _require_library()
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:
        # The library raises bare Exception and nothing narrower for a document it cannot read.
        if type(error) is not Exception:
            raise
        raise SpecError(
            "data.tokenizer.path",
            "must name a tokenizer.json of the tokenizers library",
            str(error),
            "Save it with tokenizer.save('tokenizer.json').",
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _require_library() -> None:
    if not _is_installed:
        raise SpecError(
            "data.tokenizer.kind",
            "of 'bpe' and 'file' needs the tokenizers library",
            "not installed",
            "pip install 'eighthscale[data]', or use kind 'bytes'.",
        )
