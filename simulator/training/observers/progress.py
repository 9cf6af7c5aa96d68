"""Tell somebody outside how far a run is."""

from collections.abc import Callable

from simulator.training.records import LifeCycle, StepMade, TrainingRecord

__all__ = ["ProgressObserver"]


class ProgressObserver:
    """Calls ``began`` at the start, then ``report`` now and then and at the end.

    Parameters
    ----------
    began
        Called when the run is about to make its first step here.
    report
        Called with (steps finished, last training loss).
    clock
        Seconds from any origin.
    interval_seconds
        Least time between two calls.
    """

    def __init__(
        self,
        *,
        began: Callable[[], None],
        report: Callable[[int, float], None],
        clock: Callable[[], float],
        interval_seconds: float = 0.5,
    ) -> None:
        self._began = began
        self._report = report
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._due_at = -float("inf")
        self._unreported: StepMade | None = None

    def observe(self, record: TrainingRecord) -> None:
        """Report the start, a step when the last report is old enough, and the last one."""
        if isinstance(record, StepMade):
            self._unreported = record
            if self._clock() >= self._due_at:
                self._send()
        elif isinstance(record, LifeCycle):
            self._take_note(record.kind)

    def _take_note(self, kind: str) -> None:
        if kind == "started":
            self._began()
        elif kind == "ended":
            self._send()

    def _send(self) -> None:
        if self._unreported is not None:
            self._report(self._unreported.step, float(self._unreported.stats.loss[0]))
            self._due_at = self._clock() + self._interval_seconds
            self._unreported = None
