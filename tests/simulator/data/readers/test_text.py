"""Plain text, from a file or a folder."""

from pathlib import Path

import pytest

from simulator.data.readers.base import SEPARATOR
from simulator.data.readers.choose import text_reader
from simulator.data.stream import TextStream
from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError, SpecError


def _stream(path: Path, **changes: str) -> TextStream:
    reader = text_reader(SourceSpec(kind="text", path=str(path), **changes))  # type: ignore[arg-type]
    assert reader is not None
    return TextStream(reader)


def _write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())


def test_folder_is_read_by_name_and_joined_by_a_blank_line(tmp_path: Path) -> None:
    _write(tmp_path, b="second", a="first", c="third\n")
    assert "".join(_stream(tmp_path)) == "first\n\nsecond\n\nthird\n"


def test_empty_documents_are_skipped_and_counted(tmp_path: Path) -> None:
    """NVIDIA/Megatron-LM#62: the first document is empty."""
    _write(tmp_path, a="", b="text", c="", d="more")
    stream = _stream(tmp_path)
    assert "".join(stream) == f"text{SEPARATOR}more"
    assert (stream.num_documents, stream.num_empty_documents) == (2, 2)


def test_pattern_chooses_files_and_may_look_deeper(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    _write(tmp_path, a="yes")
    _write(tmp_path / "in", b="too")
    (tmp_path / "c.md").write_text("no")
    (tmp_path / ".hidden.txt").write_text("no")
    assert "".join(_stream(tmp_path, pattern="**/*.txt")) == "yes\n\ntoo"
    assert "".join(_stream(tmp_path, pattern="*.txt")) == "yes"


def test_newlines_and_marks_are_kept(tmp_path: Path) -> None:
    _write(tmp_path, a="\ufeffone\r\ntwo\rthree")
    assert "".join(_stream(tmp_path / "a.txt")) == "\ufeffone\r\ntwo\rthree"


def test_long_files_come_in_pieces_that_make_the_whole(tmp_path: Path) -> None:
    text = "".join(f"line {index} äöü\n" for index in range(20_000))
    _write(tmp_path, a=text)
    pieces = list(_stream(tmp_path / "a.txt"))
    assert len(pieces) > 1
    assert "".join(pieces) == text


def test_bytes_that_are_no_utf8_are_refused_with_their_offset(tmp_path: Path) -> None:
    data = b"fine\n" * 30_000 + b"caf\xe9"
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(DataError, match=r"must be UTF-8 text.*0xe9 at offset 150003"):
        list(_stream(tmp_path / "a.txt"))


def test_compressed_text_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.txt.zst").write_bytes(b"\x28\xb5\x2f\xfd\xff\xff")
    with pytest.raises(DataError, match=r"zstd-compressed.*Decompress it"):
        list(_stream(tmp_path / "a.txt.zst"))


def test_missing_path_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    with pytest.raises(DataError, match=r"must exist.*no 'corpra' in .*Did you mean '.*/corpora'"):
        _stream(tmp_path / "corpra" / "a.txt")


def test_folder_without_matching_files_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, a="text")
    with pytest.raises(DataError, match=r"at least one file that matches '\*\.md'; got \['a\.txt'"):
        _stream(tmp_path, pattern="*.md")


@pytest.mark.parametrize("pattern", ["/etc/*", ""])
def test_pattern_outside_the_folder_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SpecError, match=r"data\.sources\.pattern must be a file name pattern"):
        _stream(tmp_path, pattern=pattern)


def test_empty_file_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, a="")
    with pytest.raises(DataError, match="must not be empty; got '0 bytes'"):
        _stream(tmp_path / "a.txt")
