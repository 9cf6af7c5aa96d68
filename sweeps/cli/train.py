"""What a worker runs; torch is imported there and never in the driver."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.records.task import ProgressFn, ShouldStopFn, TrainTask
from simulator.records.types import RunRecord

if TYPE_CHECKING:
    from simulator.training.corpora import OpenCorpora

__all__ = ["Trainer"]


@dataclass(slots=True)
class Trainer:
    """Trains tasks one after the other and keeps their corpora open."""

    corpora: "OpenCorpora | None" = None
    """Opened by the worker; empty where it is sent from."""

    def __call__(self, task: TrainTask, report: ProgressFn, should_stop: ShouldStopFn) -> RunRecord:
        """Train one task; see ``simulator.training.run.execute_run``."""
        from simulator.training.corpora import OpenCorpora
        from simulator.training.run import execute_run

        if self.corpora is None:
            self.corpora = OpenCorpora()
        return execute_run(task, report, should_stop, corpora=self.corpora)
