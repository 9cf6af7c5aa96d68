"""What the training loop works with: arguments, observers, policies, and no fourth kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.prefix import Stretch
from simulator.records.task import ShouldStopFn
from simulator.training.checkpoint import Checkpoints
from simulator.training.engine import Engine
from simulator.training.observers import Observer
from simulator.training.policies import Policy
from simulator.training.records import Evaluation, Health, StepValues, TokenArray

__all__ = ["RunEnd", "RunOutcome", "TrainingJob", "TrainingRun"]

RunEnd = Literal["complete", "diverged", "pruned", "preempted"]
"""How a run's training may end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One of the runs trained together."""

    identity: str
    """What its checkpoints are known by."""
    num_steps: int
    tokens_per_step: int
    assign: Callable[[int], None]
    """Give a row of the engine to the run, whose state will be copied there."""
    start: Callable[[int], None]
    """Give a row to the run and put its state before its first step there."""
    batches: Callable[[int], TokenArray]
    """Global batch by number: a pure function, so that resuming needs no replay."""
    schedule: Callable[[int], StepValues]
    """Learning rate and loss weights of an update, counted from 0: a pure function; K = 1."""
    is_eval_due: Callable[[int], bool]
    """Whether to evaluate and inspect once so many steps are finished."""
    is_checkpoint_due: Callable[[int], bool]
    checkpoints: Checkpoints
    observers: Sequence[Observer] = ()
    policies: Sequence[Policy] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How one of the runs trained together ended."""

    status: RunEnd
    num_steps: int
    """Steps finished when it ended."""
    num_steps_shared: int
    """Of those, the first ones, which were trained as another run's."""
    seconds: float
    """Its share of the time, that of earlier processes included."""
    row: int
    """Row of the engine it was in last; 0 where it was in none."""
    reason: str = ""
    """Plain sentence where a policy ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """Runs to be trained together."""

    engine: Engine
    num_rows: int
    """Rows of the engine."""
    runs: Sequence[TrainingRun]
    roots: Sequence[Stretch]
    """What the runs have in common."""
    evaluate: Callable[[int], Evaluation]
    """Evaluate the run in a row; K = 1."""
    inspect: Callable[[int, TokenArray], Health]
    """Look into the model in a row, with the batch just trained on; K = 1."""
    ended: Callable[[int, RunOutcome], None]
    """Called as soon as a run is over, with its place among ``runs``."""
    should_stop: ShouldStopFn
    """Asked after every step; true saves the state of all runs and ends the loop."""
    clock: Callable[[], float]
    """Seconds from any origin."""
