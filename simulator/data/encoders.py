"""From text to token ids: the protocol, and the encoder that needs no vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simulator.data.readers.base import IdArray

__all__ = ["BYTE_VOCAB_SIZE", "ByteEncoder", "TextEncoder"]


class TextEncoder(Protocol):
    """Turns text into ids; special tokens are never added."""

    @property
    def identity(self) -> str:
        """Name or hash under which its ids are cached; the same identity gives the same ids."""

    @property
    def vocab_size(self) -> int:
        """Ids it may give are below this."""

    def encode(self, pieces: Sequence[str]) -> list[IdArray]:
        """Return the ids of each piece of text by itself."""


BYTE_VOCAB_SIZE = 256
"""Ids of :class:`ByteEncoder`."""


@dataclass(frozen=True, slots=True)
class ByteEncoder:
    """The bytes of the UTF-8 text are the ids."""

    identity: str = "bytes"
    vocab_size: int = BYTE_VOCAB_SIZE

    def encode(self, pieces: Sequence[str]) -> list[IdArray]:
        """Return the bytes of each piece."""
        return [np.frombuffer(piece.encode(), dtype=np.uint8) for piece in pieces]
