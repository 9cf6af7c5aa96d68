"""Who drives a study, as ``owner.json`` says, and whether that process still lives."""

import os
import socket
from pathlib import Path

from simulator.specs.base import spec
from simulator.specs.codec import decode_json
from simulator.specs.errors import SpecError

__all__ = ["Owner", "is_owner_alive", "process_start", "read_owner"]


@spec
class Owner:
    """Who drives a study."""

    pid: int
    host: str
    since: str
    """ISO 8601, UTC."""
    process_start: str
    """Start of the process as the kernel counts it, to tell it from a later one with the same
    number; empty where the system does not say."""


def read_owner(path: Path) -> Owner | None:
    """Return the owner named in ``path``; None where nobody is."""
    try:
        return decode_json(Owner, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, SpecError):
        return None


def is_owner_alive(owner: Owner) -> bool:
    """Return whether ``owner`` may still be at work.

    A process on another machine cannot be asked and counts as alive.
    """
    if owner.host != socket.gethostname():
        return True
    if not _is_running(owner.pid):
        return False
    start = process_start(owner.pid)
    return not (start and owner.process_start) or start == owner.process_start


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as somebody else
        return True
    return True


def process_start(pid: int) -> str:
    """Return field 22 of Linux's ``/proc/PID/stat``: clock ticks from boot to the start.

    Empty where the system does not say.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
