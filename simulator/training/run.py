"""Carry out one run by itself."""

import time
from collections.abc import Callable

from simulator.records.task import ProgressFn, ShouldStopFn, TrainTask
from simulator.records.types import RunRecord
from simulator.training.cohort import execute_cohort
from simulator.training.corpora import OpenCorpora

__all__ = ["execute_run"]


def execute_run(
    task: TrainTask,
    report: ProgressFn,
    should_stop: ShouldStopFn,
    *,
    corpora: OpenCorpora | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> RunRecord:
    """Train one task to its end, write its folder, and return the record that was written last.

    See :func:`simulator.training.cohort.execute_cohort`, of which this is the case of one run.
    """
    listener = _OneRun(report, should_stop)
    execute_cohort([task], listener, corpora=corpora, clock=clock)
    return listener.records[0]


class _OneRun:
    """Listens to a cohort of one."""

    def __init__(self, report: ProgressFn, should_stop: ShouldStopFn) -> None:
        self._report = report
        self.should_stop = should_stop
        self.records: list[RunRecord] = []

    def began(self, task: TrainTask) -> None:
        pass

    def advanced(self, task: TrainTask, step: int, loss: float) -> None:
        del task
        self._report(step, loss)

    def ended(self, task: TrainTask, record: RunRecord) -> None:
        del task
        self.records.append(record)
