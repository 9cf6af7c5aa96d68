"""What a worker runs; torch is imported there and never in the driver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.records.task import RunListener, TrainTask

if TYPE_CHECKING:
    from simulator.training.corpora import OpenCorpora

__all__ = ["Trainer"]


@dataclass(slots=True)
class Trainer:
    """Trains cohorts one after the other and keeps their corpora open."""

    corpora: "OpenCorpora | None" = None
    """Opened by the worker; empty where it is sent from."""

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        """Train one cohort; see ``simulator.training.cohort.execute_cohort``."""
        from simulator.training.cohort import execute_cohort
        from simulator.training.corpora import OpenCorpora

        if self.corpora is None:
            self.corpora = OpenCorpora()
        execute_cohort(tasks, listener, corpora=self.corpora)
