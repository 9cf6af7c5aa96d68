"""One piece of work for a worker: what to train, how, and where to write."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulator.records.types import RunPurpose, RunRecord
from simulator.specs.run import ExecutionSpec, RunSpec

__all__ = ["ProgressFn", "ShouldStopFn", "TrainFn", "TrainTask"]


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


ProgressFn = Callable[[int, float], None]
"""Called now and then with (steps finished, last training loss)."""

ShouldStopFn = Callable[[], bool]
"""Asked after every step; true means: save a checkpoint, return a ``preempted`` record."""

TrainFn = Callable[[TrainTask, ProgressFn, ShouldStopFn], RunRecord]
"""Trains one task to its end, writes its folder, returns the record it wrote.

Faults of the run itself (divergence, out of memory, bad data) come back as a record's status;
a full disk raises ``OSError`` and leaves no record, so that the run can be taken up again; beyond
that only a defect of ours raises.
"""
