"""Finding the files of a source, with errors that say what is there instead."""

import difflib
import os
from pathlib import Path

from simulator.specs.data import SourceSpec
from simulator.specs.errors import DataError, SpecError

__all__ = ["list_files", "read_head", "require_path"]


def require_path(path: Path) -> None:
    """Check that a path exists.

    Raises
    ------
    DataError
        If it does not; names the deepest folder that exists and the nearest name in it.
    """
    if path.exists():
        return
    missing, parent = path, path.parent
    while not parent.exists() and parent != parent.parent:
        missing, parent = parent, parent.parent
    names = sorted(entry.name for entry in parent.iterdir()) if parent.is_dir() else []
    close = difflib.get_close_matches(missing.name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {str(parent / close[0])!r}?" if close else "Correct the path."
    raise DataError(str(path), "must exist", f"no {missing.name!r} in {parent}", hint)


def list_files(source: SourceSpec) -> tuple[Path, ...]:
    """Return the files of a source: the file itself, or a folder's by pattern, sorted by name.

    Files whose name starts with a dot are left out.

    Raises
    ------
    DataError
        If the path does not exist, a folder has no matching file, a file may not be read, or a
        lone file is empty.
    """
    path = Path(source.path)
    require_path(path)
    files = _matching(path, source.pattern) if path.is_dir() else (path,)
    if not files:
        names = sorted(entry.name for entry in path.iterdir())[:5]
        raise DataError(
            str(path),
            f"must hold at least one file that matches {source.pattern!r}",
            names,
            "Correct the pattern; use '**/*' to look into folders.",
        )
    for file in files:
        if not os.access(file, os.R_OK):
            raise DataError(str(file), "must be readable", "no permission", "Change its mode.")
    if len(files) == 1 and files[0].stat().st_size == 0:
        raise DataError(str(files[0]), "must not be empty", "0 bytes", "Name a file with data.")
    return files


def read_head(path: Path, num_bytes: int = 16) -> bytes:
    """Return the first bytes of a file."""
    with path.open("rb") as file:
        return file.read(num_bytes)


def _matching(folder: Path, pattern: str) -> tuple[Path, ...]:
    try:
        found = [path for path in folder.glob(pattern) if path.is_file()]
    except (ValueError, NotImplementedError) as error:
        raise SpecError(
            "data.sources.pattern",
            f"must be a file name pattern relative to {folder} ({error})",
            pattern,
            "Use a pattern such as '*.txt'.",
        ) from None
    visible = [path for path in found if not path.name.startswith(".")]
    return tuple(sorted(visible, key=lambda path: path.relative_to(folder).as_posix()))
