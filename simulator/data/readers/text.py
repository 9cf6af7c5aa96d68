"""Plain text: a file is a document, a folder is its files in order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.data.readers.files import read_head
from simulator.data.readers.magic import known_format
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError

__all__ = ["PlainTextReader", "decode_utf8", "read_text"]

_PIECE_BYTES = 2**16
"""A file is read in pieces of about this length, cut after a line end."""


@dataclass(frozen=True, slots=True)
class PlainTextReader:
    """Reads UTF-8 files as they are: no newline is translated, no mark removed."""

    source: SourceSpec
    files: tuple[Path, ...]
    """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """The path."""
        return self.source.path

    def documents(self) -> Iterator[Iterable[str]]:
        """Yield one document a file."""
        for path in self.files:
            yield read_text(path)


def read_text(path: Path) -> Iterator[str]:
    """Yield a file's text in pieces cut after line ends.

    Raises
    ------
    DataError
        If a byte is not UTF-8; names its offset.
    """
    offset = 0
    with path.open("rb") as file:
        while lines := file.readlines(_PIECE_BYTES):
            data = b"".join(lines)
            yield decode_utf8(data, path, offset)
            offset += len(data)


def decode_utf8(data: bytes, path: Path, offset: int) -> str:
    """Decode bytes that lie at ``offset`` of a file; errors as in :func:`read_text`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        known = known_format(read_head(path))
        what, fix = known or ("text in another encoding or no text at all", "Convert it to UTF-8.")
        raise DataError(
            str(path),
            "must be UTF-8 text",
            f"byte {data[error.start]:#04x} at offset {offset + error.start}; it may be {what}",
            fix,
        ) from None
