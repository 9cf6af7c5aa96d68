"""Carry out a cohort of runs: from their tasks to their records, whatever happens on the way."""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from simulator.data import Corpus
from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.task import RunListener, TrainTask
from simulator.records.types import RunRecord, RunStatus
from simulator.records.writing import write_atomically
from simulator.specs.codec import canonical_json, encode, fingerprint
from simulator.specs.errors import SpecError, UserInputError
from simulator.specs.run import RunSpec
from simulator.training.assemble import RunDoors, device_job
from simulator.training.checkpoint import CheckpointFolder
from simulator.training.corpora import OpenCorpora
from simulator.training.job import RunOutcome
from simulator.training.loop import train
from simulator.training.observers.json_lines import JsonLinesObserver
from simulator.training.observers.progress import ProgressObserver
from simulator.training.recording import (
    RunFault,
    RunResult,
    fault,
    is_out_of_memory,
    make_record,
    smoothed_losses,
)

__all__ = ["execute_cohort"]

_LOG = logging.getLogger(__name__)

_SETTLED: tuple[RunStatus, ...] = ("complete", "pruned", "diverged")
"""Outcomes that training again would only repeat."""


def execute_cohort(
    tasks: Sequence[TrainTask],
    listener: RunListener,
    *,
    corpora: OpenCorpora | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Train tasks of one shape together, each to its end, and write their folders.

    A run whose folder already holds a settled record (complete, pruned, diverged) is not trained
    again. A run that was interrupted goes on from its last checkpoint, or from that of a run that
    shared its steps until then; when none can be used, it starts over and its record says so. If
    the memory does not hold all rows, half as many are tried.

    Parameters
    ----------
    tasks
        Their specifications differ in optimiser, schedule, length, evaluation and seeds only; their
        execution is the same.
    corpora
        Corpora this process has opened already; a worker hands over the same object every time.
    clock
        Seconds from any origin.

    Raises
    ------
    OSError
        If the disk is full or read-only. Runs that have not ended leave no record then: with room
        on the disk they can be taken up again. Every other fault is a record's status.
    """
    cohort = _Cohort(listener, corpora or OpenCorpora(), clock)
    for task in tasks:
        cohort.admit(task)
    cohort.train()


class _Cohort:
    """Tasks that have not ended."""

    def __init__(
        self, listener: RunListener, corpora: OpenCorpora, clock: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._corpora = corpora
        self._clock = clock
        self._members: list[_Member] = []

    def admit(self, task: TrainTask) -> None:
        """Take a task on, unless it is settled."""
        record = RunReader(RunLayout(task.directory), has_driver=False).record
        if record is not None and record.status in _SETTLED:
            self._listener.ended(task, record)
        else:
            self._members.append(_Member(task, self._listener, self._clock))

    def train(self) -> None:
        """Bring every task to its end, with fewer rows where the memory does not hold them."""
        num_rows = self._members[0].task.execution.num_rows if self._members else 0
        while self._members:
            begun = self._clock()
            try:
                self._attempt(num_rows)
            except (UserInputError, OSError, MemoryError, RuntimeError) as error:
                if num_rows == 1 or not is_out_of_memory(error):
                    self._fail(error, self._clock() - begun)
                    return
                _LOG.warning("out of memory with %d runs side by side; trying half", num_rows)
            num_rows //= 2

    def _attempt(self, num_rows: int) -> None:
        members = tuple(self._members)
        first = members[0].task
        assert all(_shape(member.task.spec) == _shape(first.spec) for member in members)
        _check_vocabulary(first.spec)
        corpus = self._corpora.corpus(first.spec, cache=first.cache_directory)

        def end(number: int, outcome: RunOutcome) -> None:
            members[number].end(outcome, corpus, num_rows=job.num_rows)
            self._members.remove(members[number])

        with _threads(first.execution.num_threads):
            job = device_job(
                [member.task.spec for member in members],
                replace(first.execution, num_rows=num_rows),
                corpus,
                compiled=first.cache_directory / "compiled",
                doors=[member.doors for member in members],
                ended=end,
                should_stop=self._listener.should_stop,
                clock=self._clock,
            )
            train(job)

    def _fail(self, error: RunFault, seconds: float) -> None:
        share = seconds / len(self._members)
        results = [fault(member.task, error, share) for member in self._members]
        for member, result in zip(self._members, results, strict=True):
            member.record(result)
        self._members.clear()


class _Member:
    """One run of a cohort and its folder."""

    def __init__(self, task: TrainTask, listener: RunListener, clock: Callable[[], float]) -> None:
        self.task = task
        self._listener = listener
        self._layout = RunLayout(task.directory)
        self._layout.root.mkdir(parents=True, exist_ok=True)
        write_atomically(self._layout.spec, canonical_json(task.spec) + "\n")
        self._checkpoints = CheckpointFolder(
            self._layout.checkpoint, identity=fingerprint(task.spec)
        )
        progress = ProgressObserver(
            began=lambda: listener.began(task),
            report=lambda step, loss: listener.advanced(task, step, loss),
            clock=clock,
        )
        self.doors = RunDoors(
            checkpoints=self._checkpoints, observers=(JsonLinesObserver(self._layout), progress)
        )

    def end(self, outcome: RunOutcome, corpus: Corpus, *, num_rows: int) -> None:
        """Write down how training ended."""
        status = outcome.status
        is_complete = status == "complete"
        result = RunResult(
            status=status,
            reason=" ".join(filter(None, [_reason(outcome), self._note()])),
            num_steps=outcome.num_steps,
            num_steps_shared=outcome.num_steps_shared,
            seconds=outcome.seconds,
            losses=smoothed_losses(self.task.spec, self._layout) if is_complete else {},
            num_rows=num_rows,
            row=outcome.row,
            unigram_entropy=corpus.unigram_entropy,
            exact_entropy=corpus.exact_entropy,
        )
        self.record(result)

    def record(self, result: RunResult) -> None:
        """Write the record, and clear away what no one needs after it."""
        record: RunRecord = make_record(self.task, result)
        write_atomically(self._layout.record, json.dumps(encode(record), indent=2) + "\n")
        if record.status in _SETTLED:
            self._checkpoints.discard()
        self._listener.ended(self.task, record)

    def _note(self) -> str:
        """Say that a checkpoint could not be used, in the record and in the log."""
        faults = self._checkpoints.faults
        if not faults:
            return ""
        note = f"(its checkpoint could not be taken up: {'; '.join(faults)})"
        _LOG.warning("%s", note)
        return note


@contextlib.contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _shape(spec: RunSpec) -> tuple[object, ...]:
    """Return what all runs of a cohort have in common: all that is built once for them."""
    optimizer = (spec.optimizer.kind, spec.optimizer.muon_scale, spec.optimizer.eps)
    return spec.model, spec.parametrisation, spec.data, spec.batch, optimizer


def _check_vocabulary(spec: RunSpec) -> None:
    needed = spec.data.tokenizer.vocab_size
    if spec.model.vocab_size < needed:
        raise SpecError(
            "run.model.vocab_size",
            f"must be at least data.tokenizer.vocab_size ({needed})",
            spec.model.vocab_size,
            "Use a model that knows every id of the data.",
        )


def _reason(outcome: RunOutcome) -> str:
    is_preempted = outcome.status == "preempted"
    return "stopped on request; goes on from its checkpoint" if is_preempted else outcome.reason
