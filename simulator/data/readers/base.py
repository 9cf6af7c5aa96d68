"""What a reader offers: the files it reads, where they come from, and their content in order."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["SEPARATOR", "IdArray", "IdReader", "TextReader"]

IdArray = npt.NDArray[np.integer[Any]]
"""Token ids of any integer type, one-dimensional."""

SEPARATOR = "\n\n"
"""Stands between documents: a blank line."""


class TextReader(Protocol):
    """Reads a format that holds text."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """Where the text comes from, in words, with a version if there is one."""

    def documents(self) -> Iterator[Iterable[str]]:
        """Yield each document as pieces of text that follow one another; read lazily."""


class IdReader(Protocol):
    """Reads a format that holds token ids."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """Where the ids come from, in words, with a version if there is one."""

    def arrays(self) -> Iterator[IdArray]:
        """Yield memory-mapped arrays of ids that follow one another."""
