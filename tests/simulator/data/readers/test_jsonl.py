"""JSON lines."""

import json
from pathlib import Path

import pytest

from simulator.data.readers.choose import text_reader
from simulator.data.stream import TextStream
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError


def _stream(path: Path, text_key: str = "text") -> TextStream:
    reader = text_reader(SourceSpec(kind="jsonl", path=str(path), text_key=text_key))
    assert reader is not None
    return TextStream(reader)


def _write(folder: Path, *lines: str) -> Path:
    path = folder / "a.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_lines_become_documents(tmp_path: Path) -> None:
    path = _write(tmp_path, '{"text": "one"}', "", '{"meta": 1, "text": "two\\n"}')
    assert "".join(_stream(path)) == "one\n\ntwo\n"


def test_text_is_found_under_the_key_named(tmp_path: Path) -> None:
    path = _write(tmp_path, '{"content": "one", "text": "other"}')
    assert "".join(_stream(path, "content")) == "one"


def test_empty_first_document_is_skipped_and_counted(tmp_path: Path) -> None:
    """NVIDIA/Megatron-LM#62."""
    stream = _stream(_write(tmp_path, '{"text": ""}', '{"text": "one"}'))
    assert "".join(stream) == "one"
    assert (stream.num_documents, stream.num_empty_documents) == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'text': 'one'}", "must be valid JSON"),
        ("[" * 100_000, "must be valid JSON"),
        ('["one"]', "must be a JSON object; got 'list'"),
        ('{"txt": "one"}', r"must have the key 'text'; got \['txt'\]"),
        ('{"text": 1}', "must hold text under 'text'; got 'int'"),
        ('{"text": null}', "must hold text under 'text'; got 'NoneType'"),
        (r'{"text": "\ud83d"}', r"must hold whole characters; got 'lone surrogate U\+D83D"),
    ],
)
def test_bad_line_is_refused_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    path = _write(tmp_path, '{"text": "fine"}', line, '{"text": "fine"}')
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2 {message}"):
        list(_stream(path))


def test_surrogate_pairs_are_whole_characters(tmp_path: Path) -> None:
    path = _write(tmp_path, r'{"text": "\ud83d\ude00"}')
    assert "".join(_stream(path)) == "\U0001f600"


def test_bytes_that_are_no_utf8_are_refused_with_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "fine"}\n{"text": "\xff"}\n')
    with pytest.raises(DataError, match="0xff at offset 27"):
        list(_stream(path))


@pytest.mark.needs_shared
def test_public_sample_has_every_document(shared_data: Path) -> None:
    path = shared_data / "formats" / "jsonl" / "wiki.jsonl"
    stream = _stream(path)
    text = "".join(stream)
    rows = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert text == "\n\n".join(rows)
    assert stream.num_documents == 600
