"""The training loop: one for every engine, for one run or for K trained together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.records.task import ShouldStopFn
from simulator.training.checkpoint import Checkpoints
from simulator.training.engine import Engine
from simulator.training.observers import Observer
from simulator.training.policies import Policy, Verdict, consult
from simulator.training.position import Position, RowOutcome
from simulator.training.records import (
    BoolArray,
    Evaluation,
    EvaluationMade,
    Health,
    HealthTaken,
    LifeCycle,
    StepMade,
    StepStats,
    StepValues,
    TokenArray,
    TrainingRecord,
)

__all__ = ["TrainingJob", "TrainingOutcome", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What :func:`train` works with: arguments, observers, policies, and no fourth kind."""

    engine: Engine
    num_rows: int
    """K: runs the engine trains together."""
    num_steps: int
    tokens_per_step: int
    """Of each run."""
    batches: Callable[[int], TokenArray]
    """Global batch by number: a pure function, so that resuming needs no replay."""
    schedule: Callable[[int], StepValues]
    """Learning rates and loss weights of an update, counted from 0: a pure function."""
    evaluate: Callable[[], Evaluation]
    inspect: Callable[[TokenArray], Health]
    """Look into the models, with the batch just trained on."""
    is_eval_due: Callable[[int], bool]
    """Whether to evaluate and inspect once so many steps are finished."""
    is_checkpoint_due: Callable[[int], bool]
    checkpoints: Checkpoints
    observers: Sequence[Observer] = ()
    policies: Sequence[Policy] = ()
    should_stop: ShouldStopFn
    """Asked after every step; true saves the state and ends the loop."""
    clock: Callable[[], float]
    """Seconds from any origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOutcome:
    """How the runs trained together ended."""

    rows: tuple[RowOutcome, ...]
    seconds: float
    """Time spent on them, earlier processes included."""


def train(job: TrainingJob) -> TrainingOutcome:
    """Train K runs to their end, from their last checkpoint if there is one.

    Returns
    -------
    TrainingOutcome
        When ``should_stop`` ended the loop, runs still going are ``preempted`` and their state is
        in the checkpoints.

    Raises
    ------
    OSError
        If a checkpoint or an observer cannot write.
    """
    begun = job.clock()
    at = _resume(job)
    while at.step < job.num_steps and at.active.any():
        values = job.schedule(at.step)
        asked = job.clock()
        tokens = job.batches(at.num_batches)
        loaded = job.clock()
        stats = job.engine.forward_backward(tokens, values)
        computed = job.clock()
        verdicts = consult(job.policies, at.step + 1, stats)
        if _goes_back(job, at, verdicts):
            continue
        updated = _judged(job, at, verdicts)
        if not at.active.any():
            break
        judged = job.clock()
        job.engine.apply(values, updated)
        times = (loaded - asked, computed - loaded, job.clock() - judged)
        _advance(job, at, values, stats, times)
        if job.is_eval_due(at.step):
            _measure(job, at, tokens, stats)
        is_stopped = at.step < job.num_steps and job.should_stop()
        if is_stopped or job.is_checkpoint_due(at.step):
            _save(job, at, begun)
        if is_stopped:
            return _end(job, at, begun, is_complete=False)
    return _end(job, at, begun, is_complete=True)


def _tell(job: TrainingJob, record: TrainingRecord) -> None:
    for observer in job.observers:
        observer.observe(record)


def _resume(job: TrainingJob) -> Position:
    """Take up the last checkpoint, or start."""
    saved = job.checkpoints.restore(job.engine.state())
    if saved is None:
        job.checkpoints.discard()
        at = Position.start(job.num_rows)
    else:
        at = Position.from_state(saved["position"])
        for policy, state in zip(job.policies, saved["policies"], strict=True):
            policy.restore(state)
    _tell(job, LifeCycle(kind="started", step=at.step))
    return at


def _goes_back(job: TrainingJob, at: Position, verdicts: Sequence[Verdict]) -> bool:
    """Rewind if a policy asks for it and there is something to go back to.

    The batches consumed since then are not read again, and the policies keep their memory: they
    know that they have been here before.
    """
    reasons = [verdict.reason for verdict in verdicts if verdict.action == "rewind"]
    saved = job.checkpoints.restore(job.engine.state()) if reasons else None
    if saved is None:
        return False
    then = Position.from_state(saved["position"])
    at.step, at.num_batches = then.step, at.num_batches + 1
    at.num_clipped, at.num_since_health = then.num_clipped, then.num_since_health
    _tell(job, LifeCycle(kind="rewound", step=at.step, reason=reasons[0]))
    return True


def _judged(job: TrainingJob, at: Position, verdicts: Sequence[Verdict]) -> BoolArray:
    """Stop the runs that are to stop; return which ones this step updates, shape [K]."""
    updated = at.active
    for row, verdict in enumerate(verdicts):
        if not updated[row] or verdict.action == "go_on":
            continue
        updated[row] = False
        if verdict.action == "skip":
            continue
        lacking = " (no checkpoint to go back to)" if verdict.action == "rewind" else ""
        reason = verdict.reason + lacking
        at.rows[row] = RowOutcome(status=verdict.status, num_steps=at.step, reason=reason)
        _tell(job, LifeCycle(kind="row_stopped", step=at.step, row=row, reason=reason))
    return updated


def _advance(
    job: TrainingJob,
    at: Position,
    values: StepValues,
    stats: StepStats,
    times: tuple[float, float, float],
) -> None:
    at.step += 1
    at.num_batches += 1
    at.num_clipped = at.num_clipped + stats.is_clipped
    at.num_since_health += 1
    data_seconds, forward_backward_seconds, apply_seconds = times
    made = StepMade(
        step=at.step,
        tokens=at.step * job.tokens_per_step,
        lr=values.lr,
        stats=stats,
        data_seconds=data_seconds,
        forward_backward_seconds=forward_backward_seconds,
        apply_seconds=apply_seconds,
    )
    _tell(job, made)


def _measure(job: TrainingJob, at: Position, tokens: TokenArray, stats: StepStats) -> None:
    """Evaluate and take a health point."""
    taken = HealthTaken(
        step=at.step,
        health=job.inspect(tokens),
        max_violation=stats.max_violation,
        clipped_fraction=at.num_clipped / at.num_since_health,
    )
    begun = job.clock()
    evaluation = job.evaluate()
    made = EvaluationMade(
        step=at.step,
        tokens=at.step * job.tokens_per_step,
        evaluation=evaluation,
        seconds=job.clock() - begun,
    )
    at.num_clipped, at.num_since_health = np.zeros(job.num_rows), 0
    _tell(job, taken)
    _tell(job, made)


def _save(job: TrainingJob, at: Position, begun: float) -> None:
    _tell(job, LifeCycle(kind="checkpoint", step=at.step))
    state = {
        "position": at.state(seconds=_seconds(job, at, begun)),
        "policies": [policy.state() for policy in job.policies],
    }
    job.checkpoints.save(at.step, job.engine.state(), state)


def _end(job: TrainingJob, at: Position, begun: float, *, is_complete: bool) -> TrainingOutcome:
    _tell(job, LifeCycle(kind="ended", step=at.step))
    rows = tuple(
        replace(row, status="complete" if is_complete else "preempted", num_steps=at.step)
        if row.status == "running"
        else row
        for row in at.rows
    )
    return TrainingOutcome(rows=rows, seconds=_seconds(job, at, begun))


def _seconds(job: TrainingJob, at: Position, begun: float) -> float:
    return at.seconds_before + job.clock() - begun
