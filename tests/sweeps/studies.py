"""Studies of pretended runs in this process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.records.events import StudyEvent, StudyObserver
from simulator.records.layout import StudyLayout
from simulator.records.summary import StudySummary
from simulator.records.task import CohortFn
from simulator.records.types import TrialRecord
from sweeps.backends.optuna import OptunaSearch
from sweeps.clock import Clock, SimulatedClock
from sweeps.executors import Executor, UrgencyFn, never
from sweeps.executors.inline import InlineExecutor
from sweeps.spec import SearchSpec, SweepSpec
from sweeps.store import Store
from sweeps.study import Surroundings, run_study
from sweeps.testing import FakeTrainer
from tests.sweeps.sweep_specs import make_sweep

SEARCH: dict[str, Any] = {"sampler": "random", "num_trials": 7, "batch_size": 3, "seed": 1}


def small_sweep(**search: Any) -> SweepSpec:
    """Seven trials in batches of three, three seeds each for the noise and the finalists."""
    sweep = make_sweep(search=SearchSpec(**(SEARCH | search)))
    return replace(sweep, finalists=replace(sweep.finalists, num_seeds=3, noise_replicates=3))


def run_inline(
    root: Path,
    sweep: SweepSpec,
    train: CohortFn | None = None,
    *,
    executor: Executor | None = None,
    observer: StudyObserver = lambda event: None,
    clock: Clock | None = None,
    urgency: UrgencyFn = never,
) -> StudySummary:
    """Run or resume the study in ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    search = OptunaSearch(sweep.space, sweep.search)
    return run_study(
        sweep,
        StudyLayout(root),
        executor or InlineExecutor(train or FakeTrainer(), urgency=urgency),
        ask=search.ask,
        tell=search.tell,
        surroundings=Surroundings(
            clock=clock or SimulatedClock(),
            observer=observer,
            cache=root / "cache",
            urgency=urgency,
        ),
    )


def ledger(root: Path) -> tuple[TrialRecord, ...]:
    return Store(StudyLayout(root)).trials()


def statuses(root: Path) -> dict[int, str]:
    """Status of each trial's run by trial number."""
    store = Store(StudyLayout(root))
    found = {}
    for trial in store.trials():
        record = store.record(trial.fingerprint)
        found[trial.number] = record.status if record else "none"
    return found


def results(root: Path) -> list[tuple[TrialRecord, str, float | None]]:
    """What a study is about: the ledger, with each run's status and loss."""
    store = Store(StudyLayout(root))
    rows = []
    for trial in store.trials():
        record = store.record(trial.fingerprint)
        assert record is not None, trial
        rows.append((trial, record.status, record.loss))
    return rows


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.events: list[StudyEvent] = []

    def __call__(self, event: StudyEvent) -> None:
        self.events.append(event)

    def of(self, kind: type) -> Sequence[Any]:
        return [event for event in self.events if isinstance(event, kind)]
