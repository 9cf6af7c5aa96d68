"""One driver a study directory.

The lock is the kernel's and ends with its process, however that dies. ``owner.json`` beside it says
in words who holds it; a driver that was killed leaves it behind, which is how a stale lock shows.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator

from filelock import FileLock, Timeout

from simulator.records.layout import StudyLayout
from simulator.records.owner import Owner, is_owner_alive, process_start, read_owner
from simulator.records.writing import write_atomically
from simulator.specs.codec import encode
from simulator.specs.errors import StudyError
from sweeps.clock import Clock, timestamp

__all__ = ["hold"]


@contextlib.contextmanager
def hold(layout: StudyLayout, clock: Clock) -> Iterator[Owner | None]:
    """Hold the study's lock; yield the dead owner whose lock was taken over, if there was one.

    Raises
    ------
    StudyError
        If another driver lives, or may live, on the study; with its process, machine and start.
    """
    lock = FileLock(layout.lock, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise _refusal(layout, read_owner(layout.owner)) from None
    except PermissionError as error:
        raise StudyError(
            str(layout.root), "must be a folder that may be written", str(error), "Copy it first."
        ) from None
    try:
        before = read_owner(layout.owner)
        if before is not None and _may_live(before):
            raise _refusal(layout, before)
        me = Owner(
            pid=os.getpid(),
            host=socket.gethostname(),
            since=timestamp(clock),
            process_start=process_start(os.getpid()),
        )
        write_atomically(layout.owner, json.dumps(encode(me)) + "\n")
        try:
            yield before
        finally:
            layout.owner.unlink(missing_ok=True)
    finally:
        lock.release()


def _refusal(layout: StudyLayout, owner: Owner | None) -> StudyError:
    if owner is None:
        found = "a driver that has just started or is about to end"
        fix = "Wait until it has ended."
    else:
        found = f"process {owner.pid} on {owner.host}, driving it since {owner.since}"
        fix = (
            "Wait until it has ended, or stop it; if it is surely gone, delete "
            f"{layout.owner.name} in the folder."
        )
    return StudyError(str(layout.root), "must have no other driver", found, fix)


def _may_live(owner: Owner) -> bool:
    """Return whether ``owner``, whose lock is free, may still be at work.

    That happens where the file system ignores locks, and where somebody deleted the lock file.
    """
    is_this_process = owner.host == socket.gethostname() and owner.pid == os.getpid()
    return not is_this_process and is_owner_alive(owner)
