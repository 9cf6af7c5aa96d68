"""Events of a pretended study."""

from collections.abc import Iterator

from simulator.records.events import (
    RunFinished,
    RunProgress,
    RunStarted,
    StageStarted,
    StudyEvent,
    StudyStarted,
)
from simulator.records.types import RunRecord, RunStatus, TrialRecord
from tests.reports.studies import INCUMBENT, execution_record


def trial(config: int, seed: int = 0, label: str = "") -> TrialRecord:
    return TrialRecord(
        number=config,
        batch=0,
        purpose="finalist" if seed else "search",
        config=config,
        params=dict(INCUMBENT),
        seed=seed,
        label=label,
        fingerprint=f"{config:08x}{seed:08x}",
    )


def record(of: TrialRecord, loss: float | None, status: RunStatus = "complete") -> RunRecord:
    return RunRecord(
        fingerprint=of.fingerprint,
        purpose=of.purpose,
        status=status,
        reason="" if status == "complete" else "Training loss was not finite at step 9.",
        loss=loss,
        losses={},
        unigram_entropy=None,
        num_steps_done=100,
        num_tokens=1,
        train_flops=1.0,
        wall_seconds=10.0,
        execution=execution_record(),
        code_version="0",
    )


def begun(*, total: int = 10, done: int = 0) -> StudyStarted:
    return StudyStarted(
        name="toy", directory="d", total_planned_runs=total, num_runs_done=done, num_workers=2
    )


def started(of: TrialRecord) -> RunStarted:
    return RunStarted(trial=of, num_steps=100)


def advanced(of: TrialRecord, step: int, loss: float = 4.0) -> RunProgress:
    return RunProgress(fingerprint=of.fingerprint, step=step, num_steps=100, loss=loss)


def ended(of: TrialRecord, loss: float, *, is_reused: bool = False) -> RunFinished:
    return RunFinished(trial=of, record=record(of, loss), is_reused=is_reused)


def diverged(of: TrialRecord) -> RunFinished:
    return RunFinished(trial=of, record=record(of, None, "diverged"))


def short_study() -> Iterator[StudyEvent]:
    """Three configurations, then two of them again under another seed."""
    yield begun(total=5)
    yield StageStarted(name="search", num_runs=3)
    for config, loss in ((0, 3.5), (1, 3.4), (2, 3.6)):
        yield started(trial(config))
        yield advanced(trial(config), 50)
        yield ended(trial(config), loss)
    yield StageStarted(name="finalists", num_runs=2)
    for config, loss in ((1, 3.42), (0, 3.53)):
        yield started(trial(config, seed=1))
        yield ended(trial(config, seed=1), loss)
