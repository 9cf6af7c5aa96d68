"""Tell faults of the machine, which ruin no run, from all others."""

import errno

__all__ = ["fault_of_machine"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def fault_of_machine(error: OSError) -> str | None:
    """Return a sentence where ``error`` says that the disk takes no more; None for other errors."""
    if error.errno not in _FULL:
        return None
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror}{where}"
