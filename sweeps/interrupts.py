"""Ctrl-C and SIGTERM as a request: once to stop in order, twice to stop at once."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from sweeps.executors import StopUrgency

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts the signals that arrive while it is entered; nothing is torn out of its work."""

    def __init__(self) -> None:
        self._num_requests = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Listen from here on; only in a process's main thread."""
        self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def urgency(self) -> StopUrgency:
        """Return how urgently to stop."""
        if self._num_requests == 0:
            return "none"
        return "preempt" if self._num_requests == 1 else "kill"

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._num_requests += 1
