"""The default corpus: the sources of the installed SymPy, which comes wherever torch is.

Real text under the BSD licence, byte-identical for a version: version 1.14.0 has 1,532 files and,
joined by blank lines, 26,171,880 bytes. Nothing is imported; the files are only read.
"""

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.data.readers.base import SEPARATOR
from simulator.data.readers.text import read_text
from simulator.specs.errors import DataError

__all__ = ["SympyReader", "find_sympy"]


@dataclass(frozen=True, slots=True)
class SympyReader:
    """Reads every Python file of a SymPy installation, sorted by path, as one document."""

    version: str
    files: tuple[Path, ...]
    """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """The version; its content does not depend on the machine."""
        return f"sympy {self.version} sources"

    def documents(self) -> Iterator[Iterable[str]]:
        """Yield one document: all files, the empty ones too, joined by blank lines."""
        yield self._pieces()

    def _pieces(self) -> Iterator[str]:
        for index, path in enumerate(self.files):
            if index:
                yield SEPARATOR
            yield from read_text(path)


def find_sympy() -> SympyReader:
    """Return a reader of the installed SymPy.

    Raises
    ------
    DataError
        If it is not installed.
    """
    found = importlib.util.find_spec("sympy")
    if found is None or found.origin is None:
        raise DataError(
            "sympy", "must be installed to be read as text", "nothing", "pip install sympy."
        )
    root = Path(found.origin).parent
    files = sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix())
    return SympyReader(importlib.metadata.version("sympy"), tuple(files))
