"""JSON lines: one document a line, its text under one key."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.data.readers.text import decode_utf8
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError

__all__ = ["JsonLinesReader"]


@dataclass(frozen=True, slots=True)
class JsonLinesReader:
    """Reads files of JSON objects, one a line; lines of white space only are passed over."""

    source: SourceSpec
    files: tuple[Path, ...]
    """Every file that is read, in order."""

    @property
    def origin(self) -> str:
        """The path and the key."""
        return f"{self.source.path} (key {self.source.text_key!r})"

    def documents(self) -> Iterator[Iterable[str]]:
        """Yield one document a line.

        Raises
        ------
        DataError
            For the first line that is no JSON object or lacks the text; names its number.
        """
        for path in self.files:
            offset = 0
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        text = decode_utf8(line, path, offset)
                        yield (_text_of(text, self.source.text_key, f"{path}, line {number}"),)
                    offset += len(line)


def _text_of(line: str, key: str, where: str) -> str:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            where, f"must be valid JSON ({error})", line.strip()[:80], "Correct the line."
        ) from None
    if not isinstance(row, dict):
        raise DataError(where, "must be a JSON object", type(row).__name__, "Write {...}.")
    if key not in row:
        raise DataError(where, f"must have the key {key!r}", sorted(row), "Set text_key.")
    text = row[key]
    if not isinstance(text, str):
        raise DataError(where, f"must hold text under {key!r}", type(text).__name__, "Give text.")
    # JSON can spell half a surrogate pair, which no UTF-8 text can hold.
    lone = next((ord(char) for char in text if "\ud800" <= char <= "\udfff"), None)
    if lone is not None:
        raise DataError(
            where, "must hold whole characters", f"lone surrogate U+{lone:04X}", "Remove it."
        )
    return text
