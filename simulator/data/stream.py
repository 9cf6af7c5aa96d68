"""The one row of text that the documents of a source make."""

from collections.abc import Iterator

from simulator.data.readers.base import SEPARATOR, TextReader

__all__ = ["TextStream", "merged"]


class TextStream:
    """Pieces of text that follow one another, with a blank line between documents.

    Empty documents are skipped. The counts are those of the last complete iteration.
    """

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader
        self.num_documents = 0
        self.num_empty_documents = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the pieces, none of them empty."""
        self.num_documents = self.num_empty_documents = 0
        for document in self._reader.documents():
            is_empty = True
            for piece in filter(None, document):
                if is_empty and self.num_documents:
                    yield SEPARATOR
                is_empty = False
                yield piece
            self.num_documents += not is_empty
            self.num_empty_documents += is_empty


def merged(pieces: Iterator[str], min_chars: int) -> Iterator[str]:
    """Yield the same text in pieces of at least ``min_chars`` characters, but for the last."""
    waiting: list[str] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= min_chars:
            yield "".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield "".join(waiting)
