"""What is known of a study while it runs: a value that every event turns into the next."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reports.rows import name_of
from simulator.records.events import (
    Notice,
    RunFinished,
    RunProgress,
    RunStarted,
    StageStarted,
    StudyEvent,
    StudyFinished,
    StudyStarted,
)
from simulator.records.types import TrialRecord

__all__ = ["EndedRun", "RunningRun", "StudyProgress", "fold"]

MIN_NOISE_RUNS = 2
"""Degrees of freedom from which the noise so far is worth showing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun:
    """A run on its way."""

    trial: TrialRecord
    step: int
    num_steps: int
    loss: float | None
    """Last training loss, nats per token."""
    started: float

    @property
    def name(self) -> str:
        """What its configuration is called."""
        return name_of(self.trial.config, self.trial.label)

    @property
    def fraction(self) -> float:
        """Share of its steps that are done."""
        return min(1.0, self.step / max(1, self.num_steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that ended, well or not."""

    trial: TrialRecord
    status: str
    reason: str
    loss: float | None
    seconds: float
    is_reused: bool

    @property
    def name(self) -> str:
        """What its configuration is called."""
        return name_of(self.trial.config, self.trial.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """A study as far as it has come; times are of the caller's clock, in seconds."""

    name: str = ""
    directory: str = ""
    started: float = 0.0
    num_planned: int = 0
    num_workers: int = 1
    stage: str = ""
    running: Mapping[str, RunningRun] = field(default_factory=dict)
    """By fingerprint."""
    ended: tuple[EndedRun, ...] = ()

    @property
    def num_ended(self) -> int:
        """Runs that ended, those of earlier drivers included."""
        return len(self.ended)

    @property
    def best(self) -> EndedRun | None:
        """The run of the lowest loss among the first seeds, which all configurations share."""
        runs = [run for run in self.ended if run.loss is not None]
        first = min((run.trial.seed for run in runs), default=0)
        first_runs = [run for run in runs if run.trial.seed == first]
        return min(first_runs, key=lambda run: run.loss or 0.0, default=None)

    @property
    def noise(self) -> float | None:
        """Standard deviation over seeds, pooled over configurations; nats."""
        losses: dict[int, list[float]] = {}
        for run in self.ended:
            if run.loss is not None:
                losses.setdefault(run.trial.config, []).append(run.loss)
        squares, degrees = 0.0, 0
        for values in losses.values():
            mean = math.fsum(values) / len(values)
            squares += math.fsum((value - mean) ** 2 for value in values)
            degrees += len(values) - 1
        return math.sqrt(squares / degrees) if degrees >= MIN_NOISE_RUNS else None

    def above_best(self, run: EndedRun) -> float | None:
        """Return how far a run lies above the best configuration under the same seed, nats.

        Where the best has not been run under that seed, its own first seed stands in.
        """
        best = self.best
        if best is None or best.loss is None or run.loss is None:
            return None
        same = [
            other.loss
            for other in self.ended
            if other.trial.config == best.trial.config and other.trial.seed == run.trial.seed
        ]
        reference = next((loss for loss in same if loss is not None), best.loss)
        return run.loss - reference

    @property
    def fraction(self) -> float:
        """Share of the planned runs that is done, running ones counted by their steps."""
        done = self.num_ended + math.fsum(run.fraction for run in self.running.values())
        return min(1.0, done / self.num_planned) if self.num_planned else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Return the time to the end at this driver's own pace so far; None before it has one."""
        own = sum(not run.is_reused for run in self.ended)
        done = own + math.fsum(run.fraction for run in self.running.values())
        left = self.num_planned - self.num_ended - (done - own)
        elapsed = now - self.started
        if done < 0.05 or elapsed <= 0:
            return None
        return max(0.0, left) * elapsed / done


def fold(progress: StudyProgress, event: StudyEvent, now: float) -> StudyProgress:
    """Return what is known after ``event``."""
    match event:
        case StudyStarted():
            return StudyProgress(
                name=event.name,
                directory=event.directory,
                started=now,
                num_planned=event.total_planned_runs,
                num_workers=event.num_workers,
            )
        case StageStarted():
            # Nothing is planned after the finalists: from here on the number of runs is known.
            is_last = event.name == "finalists"
            planned = progress.num_ended + event.num_runs if is_last else progress.num_planned
            return replace(progress, stage=event.name, num_planned=planned)
        case RunStarted(trial=trial):
            run = RunningRun(trial=trial, step=0, num_steps=event.num_steps, loss=None, started=now)
            return replace(progress, running={**progress.running, trial.fingerprint: run})
        case RunProgress():
            return _advanced(progress, event)
        case RunFinished():
            return _ended(progress, event)
        case Notice() | StudyFinished():
            return progress


def _advanced(progress: StudyProgress, event: RunProgress) -> StudyProgress:
    run = progress.running.get(event.fingerprint)
    if run is None:
        return progress
    run = replace(run, step=event.step, num_steps=event.num_steps, loss=event.loss)
    return replace(progress, running={**progress.running, event.fingerprint: run})


def _ended(progress: StudyProgress, event: RunFinished) -> StudyProgress:
    record, trial = event.record, event.trial
    run = EndedRun(
        trial=trial,
        status=record.status,
        reason=record.reason,
        loss=record.loss if record.status == "complete" else None,
        seconds=record.wall_seconds,
        is_reused=event.is_reused,
    )
    others = {f: other for f, other in progress.running.items() if f != trial.fingerprint}
    ended = (*progress.ended, run)
    return replace(
        progress,
        running=others,
        ended=ended,
        num_planned=max(progress.num_planned, len(ended) + len(others)),
    )
