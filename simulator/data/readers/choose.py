"""From a source's kind to its reader: the one place that names every format."""

from simulator.data.readers.base import IdReader, TextReader
from simulator.data.readers.files import list_files
from simulator.data.readers.jsonl import JsonLinesReader
from simulator.data.readers.npy import NpyReader
from simulator.data.readers.raw import RawReader
from simulator.data.readers.sympy_sources import find_sympy
from simulator.data.readers.text import PlainTextReader
from simulator.specs.data import SourceSpec

__all__ = ["id_reader", "text_reader"]


def text_reader(source: SourceSpec) -> TextReader | None:
    """Return the reader of a source that holds text, ``None`` for any other."""
    match source.kind:
        case "text":
            return PlainTextReader(source, list_files(source))
        case "jsonl":
            return JsonLinesReader(source, list_files(source))
        case "sympy":
            return find_sympy()
        case "npy" | "raw" | "synthetic":
            return None


def id_reader(source: SourceSpec) -> IdReader | None:
    """Return the reader of a source that holds token ids, ``None`` for any other."""
    match source.kind:
        case "npy":
            return NpyReader(source, list_files(source))
        case "raw":
            return RawReader(source, list_files(source))
        case "text" | "jsonl" | "sympy" | "synthetic":
            return None
