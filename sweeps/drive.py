"""Everything a driver is besides its loop: the directory, the lock, signals, workers.

::

    start(root, sweep, opening, driver)      make a study and run it, or go on with the same one
    resume(root, driver, retry_failed=...)   go on with whatever study is there
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator.records.events import Notice, StudyObserver
from simulator.records.layout import StudyLayout
from simulator.records.summary import StudySummary
from simulator.records.task import CohortFn
from simulator.records.types import StudyRecord
from simulator.specs.codec import encode
from simulator.specs.errors import StudyError
from sweeps.backends.optuna import OptunaSearch
from sweeps.clock import Clock, timestamp
from sweeps.executors.process import ProcessExecutor, thread_environment
from sweeps.interrupts import Interrupts
from sweeps.lock import hold
from sweeps.machine import refuse_more_than_gpus
from sweeps.spec import BudgetSpec, SweepSpec
from sweeps.store import Store, resume_command
from sweeps.study import Surroundings, run_study

__all__ = ["Driver", "Opening", "resume", "start"]

_ABSENT = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who drives a study, and with what."""

    train: CohortFn
    """Carries out a cohort; imported in the workers only."""
    cache: Path
    """Folder of tokenizers and token ids."""
    observer: StudyObserver
    clock: Clock
    code_version: str
    num_workers: int | None = None
    """In place of the sweep's own number; changes no result."""
    num_gpus: int | None = None
    """That this machine has; None where nobody can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a new study directory holds beside the resolved sweep."""

    source: str
    """The user's file as it is."""
    plan: dict[str, Any]


def start(root: Path, sweep: SweepSpec, opening: Opening, driver: Driver) -> StudySummary:
    """Run ``sweep`` in ``root``; go on where an earlier driver of the same sweep stopped.

    Raises
    ------
    StudyError
        If ``root`` holds another study or other files, or has a driver.
    StoppedError
        If the budget is spent, somebody asked to stop, or the disk is full.
    SpecError
        If there are more workers than GPUs.
    """

    def prepare(store: Store) -> SweepSpec:
        if store.head() is None:
            head = StudyRecord(
                name=sweep.name,
                created=timestamp(driver.clock),
                code_version=driver.code_version,
                sweep=encode(sweep),
            )
            store.create(head, source=opening.source, plan=opening.plan)
        else:
            _refuse_other(store, sweep)
        return sweep

    layout = StudyLayout(root)
    with Store(layout).watching_disk():
        Store(layout).prepare_directory()  # refuses a strange folder before a lock is put there
    return _drive(layout, prepare, driver)


def resume(root: Path, driver: Driver, *, retry_failed: bool = False) -> StudySummary:
    """Go on with the study in ``root``, which holds all there is to know.

    Parameters
    ----------
    retry_failed
        Whether runs that failed or ran out of memory are run again.

    Raises
    ------
    StudyError
        If ``root`` holds no study, or has a driver.
    StoppedError
        As :func:`start`.
    """

    def prepare(store: Store) -> SweepSpec:
        if retry_failed:
            message = f"{store.forget_failures()} failed runs are tried again"
            driver.observer(Notice(message=message))
        return store.sweep()

    layout = StudyLayout(root)
    Store(layout).sweep()  # refuses what is no study, likewise
    return _drive(layout, prepare, driver)


def _drive(
    layout: StudyLayout, prepare: Callable[[Store], SweepSpec], driver: Driver
) -> StudySummary:
    store = Store(layout)
    with store.watching_disk(), Interrupts() as interrupts, hold(layout, driver.clock) as before:
        if before is not None:
            message = f"taking over from process {before.pid} ({before.since}), which is gone"
            driver.observer(Notice(message=message, severity="info"))
        sweep = prepare(store)
        if driver.num_workers is not None:
            sweep = replace(sweep, num_workers=driver.num_workers)
        device = sweep.execution.device
        refuse_more_than_gpus("--workers", sweep.num_workers, device, driver.num_gpus)
        search = OptunaSearch(sweep.space, sweep.search)
        with ProcessExecutor(
            driver.train,
            num_workers=sweep.num_workers,
            environment=thread_environment(sweep.execution.num_threads, device=device),
        ) as executor:
            return run_study(
                sweep,
                layout,
                executor,
                ask=search.ask,
                tell=search.tell,
                surroundings=Surroundings(
                    clock=driver.clock,
                    observer=driver.observer,
                    cache=driver.cache,
                    urgency=interrupts.urgency,
                    code_version=driver.code_version,
                ),
            )


def _refuse_other(store: Store, sweep: SweepSpec) -> None:
    """Refuse a directory whose study asks for other results."""
    difference = _first_difference(_essence(store.sweep()), _essence(sweep))
    if difference is not None:
        path, before, after = difference
        raise StudyError(
            str(store.layout.root),
            f"must be a study of this sweep, but its {path} is {before!r}",
            after,
            f"Name another folder with --out, or go on with the old one: "
            f"{resume_command(store.layout)}",
        )


def _essence(sweep: SweepSpec) -> dict[str, Any]:
    """Return what decides a study's results: all but who works on it and how long."""
    return encode(replace(sweep, num_workers=1, budget=BudgetSpec(max_wall_hours=None)))


def _first_difference(before: Any, after: Any, path: str = "") -> tuple[str, Any, Any] | None:
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        before, after = dict(enumerate(before)), dict(enumerate(after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return None if before == after else (path, before, after)
    for key in [*before, *(key for key in after if key not in before)]:
        inner = f"{path}.{key}" if path else str(key)
        found = _first_difference(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
        if found is not None:
            return found
    return None
