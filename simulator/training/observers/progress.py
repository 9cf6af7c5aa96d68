"""Tell somebody outside how far a run is."""

from collections.abc import Callable

from simulator.records.task import ProgressFn
from simulator.training.records import LifeCycle, StepMade, TrainingRecord

__all__ = ["ProgressObserver"]


class ProgressObserver:
    """Calls ``report`` with (steps finished, last training loss), now and then and at the end.

    Parameters
    ----------
    clock
        Seconds from any origin.
    interval_seconds
        Least time between two calls.
    row
        Which of the runs trained together is reported.
    """

    def __init__(
        self,
        report: ProgressFn,
        *,
        clock: Callable[[], float],
        interval_seconds: float = 0.5,
        row: int = 0,
    ) -> None:
        self._report = report
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._row = row
        self._due_at = -float("inf")
        self._unreported: StepMade | None = None

    def observe(self, record: TrainingRecord) -> None:
        """Report a step when the last report is old enough, and whatever is left at the end."""
        if isinstance(record, StepMade):
            self._unreported = record
            if self._clock() >= self._due_at:
                self._send()
        elif isinstance(record, LifeCycle) and record.kind == "ended":
            self._send()

    def _send(self) -> None:
        if self._unreported is not None:
            self._report(self._unreported.step, float(self._unreported.stats.loss[self._row]))
            self._due_at = self._clock() + self._interval_seconds
            self._unreported = None
