"""Files are whole or absent."""

from pathlib import Path

import pytest

from simulator.records.writing import append_lines, write_atomically

FULL_DISK = Path("/dev/full")  # every write to it fails with "no space left on device"


def test_atomic_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_atomically(path, "a long first version")
    write_atomically(path, "second")
    assert path.read_text() == "second"
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_failed_atomic_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_atomically(path, "a file cannot replace a folder that is not empty")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_lines_are_appended_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    append_lines(path, ["one"])
    append_lines(path, ["two", "drei: ü"])
    assert path.read_text(encoding="utf-8") == "one\ntwo\ndrei: ü\n"


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs program: a Linux /dev/full")
def test_full_disk_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.symlink_to(FULL_DISK)
    with pytest.raises(OSError, match="No space left"):
        append_lines(path, ["one"])
