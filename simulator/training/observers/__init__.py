"""Observers: what watches a run, reads frozen records and decides nothing."""

from typing import Protocol

from simulator.training.records import TrainingRecord

__all__ = ["Observer"]


class Observer(Protocol):
    """Reads what happens to the runs trained together, in order."""

    def observe(self, record: TrainingRecord) -> None:
        """Take note of ``record``.

        Raises
        ------
        OSError
            If it cannot be written down; the run then ends as failed.
        """
        ...
