"""Run cohorts one after the other in this process: the executor of tests and notebooks."""

from collections import deque
from collections.abc import Sequence

from simulator.records.task import CohortFn, TrainTask
from sweeps.executors import Dropped, ExecutorEvent, StopUrgency, UrgencyFn, never
from sweeps.executors.cohort import carry_out

__all__ = ["InlineExecutor"]


class InlineExecutor:
    """An executor whose only worker is the caller.

    Parameters
    ----------
    train
        Carries out a cohort. What it raises reaches the caller, unless the machine is at fault.
    urgency
        Asked after every step, as nobody can call ``stop`` while a cohort is under way.
    """

    def __init__(self, train: CohortFn, *, urgency: UrgencyFn = never) -> None:
        self._train = train
        self._urgency = urgency
        self._queue: deque[Sequence[TrainTask]] = deque()
        self._dropped: list[ExecutorEvent] = []
        self._is_stopped = False

    def submit(self, cohort: Sequence[TrainTask]) -> None:
        """Queue one cohort; drop it if the executor was stopped."""
        if self._is_stopped:
            self._dropped += [Dropped(task) for task in cohort]
        else:
            self._queue.append(cohort)

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:  # noqa: ARG002
        """Run the next cohort to its end and return what happened."""
        if self._dropped:
            dropped, self._dropped = tuple(self._dropped), []
            return dropped
        return self._run(self._queue.popleft()) if self._queue else ()

    def stop(self, urgency: StopUrgency) -> None:
        """Drop what has not begun."""
        if urgency != "none":
            self._is_stopped = True
            self._dropped += [Dropped(task) for cohort in self._queue for task in cohort]
            self._queue.clear()

    def _run(self, cohort: Sequence[TrainTask]) -> tuple[ExecutorEvent, ...]:
        happened: list[ExecutorEvent] = []

        def should_stop() -> bool:
            return self._urgency() in ("preempt", "kill")

        carry_out(cohort, self._train, happened.append, should_stop)
        return tuple(happened)
