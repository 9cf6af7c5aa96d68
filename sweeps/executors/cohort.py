"""Carry out one cohort and say of each of its tasks what becomes of it."""

from collections.abc import Callable, Sequence

from simulator.records.task import CohortFn, ShouldStopFn, TrainTask
from simulator.records.types import RunRecord
from sweeps.executors import Advanced, Began, Dropped, Ended, ExecutorEvent, Halted
from sweeps.executors.faults import fault_of_machine

__all__ = ["carry_out"]


def carry_out(
    cohort: Sequence[TrainTask],
    train: CohortFn,
    tell: Callable[[ExecutorEvent], None],
    should_stop: ShouldStopFn,
) -> None:
    """Train ``cohort`` and ``tell`` every event of it; each task ends once.

    A full disk is told as ``Halted``, and what had not ended by then as ``Dropped``. Whatever else
    ``train`` raises is a defect and reaches the caller.
    """
    listener = _Teller(cohort, tell, should_stop)
    try:
        train(cohort, listener)
    except OSError as error:
        reason = fault_of_machine(error)
        if reason is None:
            raise
        tell(Halted(reason, is_resumable=True))
        for task in listener.unended:
            tell(Dropped(task))
    else:
        assert not listener.unended, "a training function left runs without an end"


class _Teller:
    """A ``RunListener`` that turns what it hears into events."""

    def __init__(
        self,
        cohort: Sequence[TrainTask],
        tell: Callable[[ExecutorEvent], None],
        should_stop: ShouldStopFn,
    ) -> None:
        self.unended = list(cohort)
        self._tell = tell
        self._should_stop = should_stop

    def began(self, task: TrainTask) -> None:
        self._tell(Began(task))

    def advanced(self, task: TrainTask, step: int, loss: float) -> None:
        self._tell(Advanced(task, step, loss))

    def ended(self, task: TrainTask, record: RunRecord) -> None:
        self.unended.remove(task)
        self._tell(Ended(task, record))

    def should_stop(self) -> bool:
        return self._should_stop()
