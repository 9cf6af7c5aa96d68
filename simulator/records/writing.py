"""Write files so that a crash at any moment leaves them whole or absent."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["append_lines", "write_atomically"]


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text`` in one step; a reader sees the old or the new.

    Raises
    ------
    OSError
        If the disk is full or may not be written; the old file is then untouched.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append ``lines`` to the file at ``path``, all of them by one write, and wait for the disk.

    Raises
    ------
    OSError
        If the disk is full or may not be written; what a short write left is taken back.
    """
    is_new = not path.exists()
    with path.open("ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        content = "".join(f"{line}\n" for line in lines).encode()
        try:
            written = file.write(content)
            if written != len(content):  # a disk that fills up takes a part
                file.write(content[written:])
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):  # devices cannot be cut
                file.truncate(end)
            raise
    if is_new:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
