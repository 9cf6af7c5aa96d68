"""Which code wrote a record."""

import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["code_version"]

_DISTRIBUTION = "eighthscale"
_ROOT = Path(__file__).resolve().parents[2]


def code_version() -> str:
    """Return the version of this tool, with the commit when run from a checkout: ``0.1.0+g1a2b``.

    A part that cannot be found out is left out.
    """
    try:
        number = version(_DISTRIBUTION)
    except PackageNotFoundError:
        number = "0"
    commit = _commit() if (_ROOT / ".git").exists() else ""
    return f"{number}+g{commit}" if commit else number


def _commit() -> str:
    command = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
