"""How runs are executed: one protocol, its events, and its implementations.

Work is submitted by the cohort: runs that one worker trains together. Events speak of single tasks.
Every task of a cohort ends in exactly one of ``Ended``, ``Lost`` and ``Dropped``; ``Began`` and
``Advanced`` come before it. ``Halted`` speaks of the machine, not of a task: nothing can go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from simulator.records.task import TrainTask
from simulator.records.types import RunRecord

__all__ = [
    "Advanced",
    "Began",
    "Dropped",
    "Ended",
    "Executor",
    "ExecutorEvent",
    "Halted",
    "Lost",
    "StopUrgency",
    "UrgencyFn",
    "never",
]


@dataclass(frozen=True, slots=True)
class Began:
    """A worker took up the task."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Advanced:
    """The task is on its way."""

    task: TrainTask
    step: int
    """Optimiser steps finished."""
    loss: float
    """Last training loss, nats per token."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The task came to an end of its own, or was asked to stop and did (``preempted``)."""

    task: TrainTask
    record: RunRecord


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker died under the task; what it had written is still there."""

    task: TrainTask
    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The task will not be carried out: the executor was stopped, or the machine cannot go on."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Halted:
    """The machine cannot go on: its disk is full, or no worker can be started."""

    reason: str
    is_resumable: bool
    """Whether freeing the machine's resources is enough to go on."""


ExecutorEvent = Began | Advanced | Ended | Lost | Dropped | Halted

StopUrgency = Literal["none", "drain", "preempt", "kill"]
"""``drain``: start no other cohort; ``preempt``: save a checkpoint and end; ``kill``: end now."""

UrgencyFn = Callable[[], StopUrgency]
"""Tells how urgently work should stop; asked often."""


class Executor(Protocol):
    """Carries out cohorts; the order in which their tasks end is its own affair."""

    def submit(self, cohort: Sequence[TrainTask]) -> None:
        """Take on one cohort, which is not empty; it begins when a worker is free."""

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:
        """Return what happened since the last call; wait up to ``timeout_seconds`` for it."""

    def stop(self, urgency: StopUrgency) -> None:
        """Take on nothing more and end what runs as urgently as said; may be called again."""


def never() -> StopUrgency:
    """Return ``none``: nobody asks to stop."""
    return "none"
