"""The study loop: submit what is to be run, fold what happens, tell the search, decide the next.

It knows no library and no kind of worker: suggestions come from two callables, runs from an
executor, and everything it decides is in the ledger before it begins. Whoever calls it again with
the same directory goes on where the last one stopped.
"""

import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from simulator.prefix import divide
from simulator.records.events import (
    Notice,
    RunFinished,
    RunProgress,
    RunStarted,
    StageStarted,
    StudyFinished,
    StudyObserver,
    StudyStarted,
)
from simulator.records.layout import StudyLayout
from simulator.records.summary import StudySummary
from simulator.records.task import TrainTask
from simulator.records.types import ExecutionRecord, RunRecord, TrialRecord
from simulator.specs.errors import EighthscaleError, StoppedError
from sweeps.clock import Clock
from sweeps.executors import (
    Advanced,
    Began,
    Dropped,
    Ended,
    Executor,
    ExecutorEvent,
    Halted,
    Lost,
    StopUrgency,
    UrgencyFn,
    never,
)
from sweeps.objective import Observation, observe
from sweeps.outcome import summarise
from sweeps.search import AskFn, TellFn
from sweeps.space import apply
from sweeps.spec import SweepSpec
from sweeps.stages import next_round, num_planned
from sweeps.store import FINAL, Store, resume_command

__all__ = ["Surroundings", "run_study"]

POLL_SECONDS = 0.5
"""How long the driver may sleep before it looks at the clock and at interrupts."""

MAX_ATTEMPTS = 3
"""How often a run is begun when its workers die under it; the last time without its cohort, so that
one run which kills its workers fails alone."""

_URGENCIES: tuple[StopUrgency, ...] = ("none", "drain", "preempt", "kill")
_STAGES = {"search": "search", "noise": "noise", "finalist": "finalists"}
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a study is given besides what it is about."""

    clock: Clock
    observer: StudyObserver
    cache: Path
    """Folder of tokenizers and token ids."""
    urgency: UrgencyFn = never
    """Whether somebody asks to stop."""
    code_version: str = ""


def run_study(
    sweep: SweepSpec,
    layout: StudyLayout,
    executor: Executor,
    *,
    ask: AskFn,
    tell: TellFn,
    surroundings: Surroundings,
) -> StudySummary:
    """Bring the study in ``layout`` to its end and return its outcome; the caller holds its lock.

    Raises
    ------
    StoppedError
        If the budget is spent, somebody asked to stop, or the disk is full; with the command that
        goes on.
    StudyError
        If the ledger or a record is damaged.
    """
    return _Study(sweep, layout, executor, ask, tell, surroundings).run()


class _Study:
    def __init__(
        self,
        sweep: SweepSpec,
        layout: StudyLayout,
        executor: Executor,
        ask: AskFn,
        tell: TellFn,
        surroundings: Surroundings,
    ) -> None:
        self._sweep = sweep
        self._store = Store(layout)
        self._executor = executor
        self._ask, self._tell = ask, tell
        self._around = surroundings
        self._started = surroundings.clock.now()
        self._ledger: list[TrialRecord] = []
        self._records: dict[str, RunRecord] = {}
        self._told: list[Observation] = []
        self._waiting: dict[str, TrialRecord] = {}
        self._cohort_of: dict[str, int] = {}
        """Number of a run's cohort in its last round, by fingerprint."""
        self._attempts: Counter[str] = Counter()
        self._lost: defaultdict[str, list[TrialRecord]] = defaultdict(list)
        """What is to be begun again, by the reason of the loss."""
        self._stopping: StopUrgency = "none"

    def run(self) -> StudySummary:
        with self._store.watching_disk():
            before = self._store.trials()
            self._announce(before)
            for trials in _rounds(before):
                self._carry_out(trials)
            while trials := next_round(self._sweep, self._ledger, self._records, self._ask):
                self._store.append(trials)
                self._carry_out(trials)
            planned = self._store.planned_flags()
            summary = summarise(self._sweep, self._ledger, self._records, planned=planned)
            self._store.write_summary(summary)
        self._around.observer(StudyFinished(summary=summary))
        return summary

    def _announce(self, ledger: Sequence[TrialRecord]) -> None:
        done = {t.fingerprint for t in ledger if self._store.record(t.fingerprint) is not None}
        self._around.observer(
            StudyStarted(
                name=self._sweep.name,
                directory=str(self._store.layout.root),
                total_planned_runs=num_planned(self._sweep),
                num_runs_done=len(done),
                num_workers=self._sweep.num_workers,
                delta_fraction=self._sweep.finalists.delta_fraction,
            )
        )

    def _carry_out(self, trials: Sequence[TrialRecord]) -> None:
        """Run one round to its end, then tell the search what it taught."""
        stage = trials[0].purpose
        if stage not in {trial.purpose for trial in self._ledger}:
            new = {trial.fingerprint for trial in trials} - self._records.keys()
            size = self._sweep.search.num_trials if stage == "search" else len(new)
            self._around.observer(StageStarted(name=_STAGES[stage], num_runs=size))
        self._ledger += trials
        for trial in trials:
            record = self._store.record(trial.fingerprint)
            if record is None:
                self._waiting.setdefault(trial.fingerprint, trial)
            else:
                self._finish(trial, record, is_reused=True)
        self._submit(trials)
        self._work_off()
        if stage == "search":
            ceiling = log(self._sweep.base.model.vocab_size)
            seen = observe(trials, self._records, earlier=self._told, ceiling=ceiling)
            self._told += seen
            self._tell(seen)

    def _submit(self, trials: Sequence[TrialRecord]) -> None:
        """Submit the waiting runs of a round, divided as if none of its runs were finished."""
        execution = self._sweep.execution
        tasks = {trial.fingerprint: self._task(trial) for trial in trials}
        fingerprints = [*tasks]
        cohorts = divide(
            [task.spec for task in tasks.values()],
            num_rows=execution.num_rows,
            is_shared=execution.shares_prefixes,
        )
        for number, places in enumerate(cohorts):
            cohort = [fingerprints[place] for place in places]
            self._cohort_of |= dict.fromkeys(cohort, number)
            waiting = [tasks[member] for member in cohort if member in self._waiting]
            if waiting:
                self._executor.submit(waiting)

    def _work_off(self) -> None:
        """Have every waiting run carried out.

        Raises
        ------
        StoppedError
            If some could not be, because the work had to stop.
        """
        unfinished = dict(self._waiting)
        while self._waiting:
            self._heed()
            for event in self._executor.events(POLL_SECONDS):
                self._fold(event)
            self._begin_again()
        left = [f for f in unfinished if f not in self._records]
        if left:
            raise StoppedError(
                f"stopped with {len(self._records)} runs finished and stored, "
                f"{len(left)} of this round to go. Resume with: "
                f"{resume_command(self._store.layout)}"
            )

    def _task(self, trial: TrialRecord) -> TrainTask:
        return TrainTask(
            spec=apply(self._sweep, trial.params, trial.seed),
            execution=self._sweep.execution,
            purpose=trial.purpose,
            directory=self._store.layout.run(trial.fingerprint).root,
            cache_directory=self._around.cache,
        )

    def _heed(self) -> None:
        """Stop as urgently as somebody asks, or when the budget is spent."""
        wanted = self._around.urgency()
        hours = self._sweep.budget.max_wall_hours
        spent = (self._around.clock.now() - self._started) / _SECONDS_PER_HOUR
        if wanted == "none" and hours is not None and spent >= hours:
            wanted = "drain"
        if _URGENCIES.index(wanted) > _URGENCIES.index(self._stopping):
            self._stopping = wanted
            self._notice(_WHY[wanted], severity="amber")
            self._executor.stop(wanted)

    def _fold(self, event: ExecutorEvent) -> None:
        if isinstance(event, Halted):
            raise self._halted(event)
        fingerprint = event.task.directory.name
        trial = self._waiting[fingerprint]
        num_steps = event.task.spec.num_steps
        match event:
            case Began():
                self._around.observer(RunStarted(trial=trial, num_steps=num_steps))
            case Advanced(step=step, loss=loss):
                self._around.observer(
                    RunProgress(fingerprint=fingerprint, step=step, num_steps=num_steps, loss=loss)
                )
            case Ended(record=record) if record.status in FINAL:
                self._finish(trial, record)
            case Ended(record=record):
                self._lose(trial, f"ended as {record.status!r} unasked")
            case Lost(reason=reason):
                self._lose(trial, reason)
            case Dropped():
                del self._waiting[fingerprint]

    def _finish(self, trial: TrialRecord, record: RunRecord, *, is_reused: bool = False) -> None:
        """Take in a run's outcome; observers hear of a run that several trials share once."""
        is_known = trial.fingerprint in self._records
        self._records[trial.fingerprint] = record
        self._waiting.pop(trial.fingerprint, None)
        if not is_known:
            self._around.observer(RunFinished(trial=trial, record=record, is_reused=is_reused))

    def _lose(self, trial: TrialRecord, reason: str) -> None:
        """Try a run whose worker died once more, as long as it may be the worker's fault."""
        stored = self._store.record(trial.fingerprint)
        self._attempts[trial.fingerprint] += 1
        attempts = self._attempts[trial.fingerprint]
        if stored is not None:  # its last act was to write the record
            self._finish(trial, stored)
        elif self._stopping != "none":
            del self._waiting[trial.fingerprint]
        elif attempts < MAX_ATTEMPTS:
            self._lost[reason].append(trial)
        else:
            record = self._failed(trial, f"its worker was lost {attempts} times ({reason})")
            self._store.write_record(record)
            self._finish(trial, record)

    def _begin_again(self) -> None:
        """Submit what was lost: a cohort's runs together, those tried for the last time alone."""
        cohorts: defaultdict[tuple[int, str], list[TrainTask]] = defaultdict(list)
        for reason, trials in self._lost.items():
            numbers = ", ".join(str(trial.number) for trial in trials)
            self._notice(f"begun again, as the worker was lost ({reason}): trial {numbers}")
            for trial in trials:
                is_last = self._attempts[trial.fingerprint] == MAX_ATTEMPTS - 1
                alone = trial.fingerprint if is_last else ""
                cohorts[self._cohort_of[trial.fingerprint], alone].append(self._task(trial))
        self._lost.clear()
        for cohort in cohorts.values():
            self._executor.submit(cohort)

    def _failed(self, trial: TrialRecord, reason: str) -> RunRecord:
        execution = self._sweep.execution
        return RunRecord(
            fingerprint=trial.fingerprint,
            purpose=trial.purpose,
            status="failed",
            reason=reason,
            loss=None,
            losses={},
            unigram_entropy=None,
            num_steps_done=0,
            num_tokens=0,
            train_flops=0.0,
            wall_seconds=0.0,
            execution=ExecutionRecord(
                device=execution.device,
                device_name="",
                precision=execution.precision,
                num_rows=1,
                row=0,
                num_threads=execution.num_threads,
                torch_version="",
                host=socket.gethostname(),
                pid=os.getpid(),
            ),
            code_version=self._around.code_version,
        )

    def _halted(self, event: Halted) -> EighthscaleError:
        if not event.is_resumable:
            return EighthscaleError(event.reason)
        return StoppedError(
            f"the machine cannot go on: {event.reason}. What was finished is stored. "
            f"Resume with: {resume_command(self._store.layout)}"
        )

    def _notice(self, message: str, severity: str = "info") -> None:
        self._around.observer(Notice(message=message, severity=severity))


_WHY: dict[StopUrgency, str] = {
    "drain": "the wall-clock budget is spent: cohorts under way end, no others begin",
    "preempt": "stopping: the running trials are saved; interrupt once more to stop at once",
    "kill": "stopping at once: the running trials go on from their last checkpoint later",
}


def _rounds(ledger: Sequence[TrialRecord]) -> Iterator[Sequence[TrialRecord]]:
    """Yield the trials that were decided together."""
    start = 0
    while start < len(ledger):
        end = start + ledger[start].round_size
        yield ledger[start:end]
        start = end
