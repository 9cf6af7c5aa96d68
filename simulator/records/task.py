"""One piece of work for a worker: what to train, how, and where to write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simulator.records.types import RunPurpose, RunRecord
from simulator.specs.run import ExecutionSpec, RunSpec

__all__ = ["CohortFn", "ProgressFn", "RunListener", "ShouldStopFn", "TrainTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTask:
    """One run to execute; crosses process boundaries."""

    spec: RunSpec
    execution: ExecutionSpec
    purpose: RunPurpose
    directory: Path
    """The run's own folder; see ``simulator.records.layout.RunLayout``."""
    cache_directory: Path
    """Where tokenizers and token ids are cached; may be shared by processes."""


class RunListener(Protocol):
    """What a cohort tells about its runs while it trains, and whom it asks whether to go on."""

    def began(self, task: TrainTask) -> None:
        """Note that the run's first step here is about to be made; it may have earlier ones."""
        ...

    def advanced(self, task: TrainTask, step: int, loss: float) -> None:
        """Note now and then that ``step`` steps are finished, with the last training loss."""
        ...

    def ended(self, task: TrainTask, record: RunRecord) -> None:
        """Note that the run is over; ``record`` is in its folder."""
        ...

    def should_stop(self) -> bool:
        """Return whether to save unfinished runs and end them ``preempted``; asked every step."""
        ...


CohortFn = Callable[[Sequence[TrainTask], RunListener], None]
"""Trains one cohort: runs that differ in nothing but their optimiser, schedule, horizon and seeds,
under one execution. Each writes its folder and ends once, in no promised order.

Faults of a run itself (divergence, out of memory, bad data) come back as its record's status; a
full disk raises ``OSError`` and leaves no record, so that unfinished runs can be taken up again;
beyond that only a defect of ours raises.
"""

ProgressFn = Callable[[int, float], None]
"""Called now and then with (steps finished, last training loss)."""

ShouldStopFn = Callable[[], bool]
"""Asked after every step; true means: save a checkpoint, return a ``preempted`` record."""
