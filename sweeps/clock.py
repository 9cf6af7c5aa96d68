"""The clock as an argument, so that budgets and dates can be tested without waiting."""

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SimulatedClock", "WallClock", "timestamp"]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return seconds since 1970, UTC."""


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since 1970, UTC."""
        return time.time()


class SimulatedClock:
    """A clock that moves by a fixed amount whenever it is read.

    Parameters
    ----------
    start
        What it shows first, seconds since 1970.
    tick_seconds
        By how much each reading advances it.
    """

    def __init__(self, start: float = 0.0, *, tick_seconds: float = 0.0) -> None:
        self._now = start
        self._tick_seconds = tick_seconds

    def now(self) -> float:
        """Return the simulated time, then advance it."""
        now = self._now
        self._now += self._tick_seconds
        return now


def timestamp(clock: Clock) -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="seconds")
