"""Carry out one run: from its task to its record, whatever happens on the way."""

import contextlib
import errno
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from simulator.counting.flops import flops_per_token
from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.task import ProgressFn, ShouldStopFn, TrainTask
from simulator.records.types import EvalPoint, RunRecord, RunStatus
from simulator.records.version import code_version
from simulator.records.writing import write_atomically
from simulator.specs.codec import canonical_json, encode, fingerprint
from simulator.specs.errors import SpecError, UserInputError
from simulator.specs.run import RunSpec
from simulator.training.assemble import solo_job
from simulator.training.checkpoint import CheckpointFolder
from simulator.training.corpora import OpenCorpora
from simulator.training.evaluate import final_steps
from simulator.training.loop import train
from simulator.training.machine import describe_execution
from simulator.training.observers.json_lines import JsonLinesObserver
from simulator.training.observers.progress import ProgressObserver

__all__ = ["execute_run"]

_LOG = logging.getLogger(__name__)

_SETTLED: tuple[RunStatus, ...] = ("complete", "pruned", "diverged")
"""Outcomes that training again would only repeat."""

_NO_RECORD_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The disk takes no more, or nothing: no fault of the run, and no record could be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What a record says about how a run ended."""

    status: RunStatus
    reason: str
    num_steps: int
    seconds: float
    losses: dict[str, float]
    unigram_entropy: float | None = None
    exact_entropy: float | None = None


def execute_run(
    task: TrainTask,
    report: ProgressFn,
    should_stop: ShouldStopFn,
    *,
    corpora: OpenCorpora | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> RunRecord:
    """Train one task to its end, write its folder, and return the record that was written last.

    A folder that already holds a settled record (complete, pruned, diverged) is returned as it
    is. A run that was interrupted goes on from its last checkpoint; when that cannot be used, it
    starts over and its record says so.

    Parameters
    ----------
    corpora
        Corpora this process has opened already; a worker hands over the same object every time.
    clock
        Seconds from any origin.

    Raises
    ------
    OSError
        If the disk is full or read-only. No record is left then: with room on the disk the run
        can be taken up again. Every other fault of the run is a record's status.
    """
    layout = RunLayout(task.directory)
    settled = _settled_record(layout)
    if settled is not None:
        return settled
    layout.root.mkdir(parents=True, exist_ok=True)
    write_atomically(layout.spec, canonical_json(task.spec) + "\n")
    begun = clock()
    checkpoints = CheckpointFolder(layout.checkpoint, identity=fingerprint(task.spec))
    with _threads(task.execution.num_threads):
        try:
            result = _train(task, report, should_stop, corpora or OpenCorpora(), checkpoints, clock)
        except (UserInputError, OSError, MemoryError, RuntimeError) as error:
            result = _fault(task, error, clock() - begun)
    record = _record(task, result)
    write_atomically(layout.record, json.dumps(encode(record), indent=2) + "\n")
    if record.status in _SETTLED:
        checkpoints.discard()
    return record


def _settled_record(layout: RunLayout) -> RunRecord | None:
    """Return the record of a run that is over; a folder in any other state is trained again."""
    record = RunReader(layout, has_driver=False).record
    return record if record is not None and record.status in _SETTLED else None


@contextlib.contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _train(
    task: TrainTask,
    report: ProgressFn,
    should_stop: ShouldStopFn,
    corpora: OpenCorpora,
    checkpoints: CheckpointFolder,
    clock: Callable[[], float],
) -> _Result:
    _check_vocabulary(task.spec)
    corpus = corpora.corpus(task.spec, cache=task.cache_directory)
    layout = RunLayout(task.directory)
    job = solo_job(
        task.spec,
        task.execution,
        corpus,
        checkpoints=checkpoints,
        observers=(JsonLinesObserver(layout), ProgressObserver(report, clock=clock)),
        should_stop=should_stop,
        clock=clock,
    )
    outcome = train(job)
    row = outcome.rows[0]
    note = _note(checkpoints)
    return _Result(
        status=row.status,
        reason=" ".join(filter(None, [_reason(row.status, row.reason), note])),
        num_steps=row.num_steps,
        seconds=outcome.seconds,
        losses=_smoothed(task.spec, layout) if row.status == "complete" else {},
        unigram_entropy=corpus.unigram_entropy,
        exact_entropy=corpus.exact_entropy,
    )


def _check_vocabulary(spec: RunSpec) -> None:
    needed = spec.data.tokenizer.vocab_size
    if spec.model.vocab_size < needed:
        raise SpecError(
            "run.model.vocab_size",
            f"must be at least data.tokenizer.vocab_size ({needed})",
            spec.model.vocab_size,
            "Use a model that knows every id of the data.",
        )


def _reason(status: RunStatus, reason: str) -> str:
    return "stopped on request; goes on from its checkpoint" if status == "preempted" else reason


def _note(checkpoints: CheckpointFolder) -> str:
    """Say that a checkpoint could not be used, in the record and in the log."""
    if not checkpoints.faults:
        return ""
    note = f"(its checkpoint could not be taken up: {'; '.join(checkpoints.faults)})"
    _LOG.warning("%s", note)
    return note


def _smoothed(spec: RunSpec, layout: RunLayout) -> dict[str, float]:
    """Return the mean loss of the final evaluations, by validation set."""
    wanted = final_steps(spec.eval, spec.num_steps)
    points: list[EvalPoint] = [
        point for point in RunReader(layout, has_driver=False).evals() if point.step in wanted
    ]
    assert len(points) == len(wanted), (wanted, points)
    return {
        item.name: sum(point.loss[item.name] for point in points) / len(points)
        for item in spec.data.validation
    }


def _fault(
    task: TrainTask, error: UserInputError | OSError | MemoryError | RuntimeError, seconds: float
) -> _Result:
    """Return how a run ended that raised ``error``; raise it again if it was not the run's fault.

    A CPU allocation that fails is a plain ``RuntimeError`` in torch; its text is the only mark.
    """
    status: RunStatus = "failed"
    reason = str(error)
    if (
        isinstance(error, (MemoryError, torch.OutOfMemoryError))
        or "can't allocate memory" in reason
    ):
        status, reason = "oom", _memory_reason(task, reason)
    elif isinstance(error, RuntimeError) or _is_machine_fault(error):
        raise error
    steps = RunReader(RunLayout(task.directory), has_driver=False).steps()
    return _Result(
        status=status,
        reason=reason,
        num_steps=steps[-1].step if steps else 0,
        seconds=seconds,
        losses={},
    )


def _is_machine_fault(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_RECORD_ERRNOS


def _memory_reason(task: TrainTask, reason: str) -> str:
    micro_batch = task.execution.micro_batch_sequences
    first_line = (reason or "allocation failed").splitlines()[0]
    return (
        f"out of memory on {task.execution.device} with execution.micro_batch_sequences = "
        f"{micro_batch}: {first_line} Lower it; the result stays the same."
    )


def _record(task: TrainTask, result: _Result) -> RunRecord:
    spec = task.spec
    num_tokens = result.num_steps * spec.batch.global_batch_tokens
    flops = flops_per_token(spec.model, spec.batch.seq_len).training_with_mtp
    return RunRecord(
        fingerprint=fingerprint(spec),
        purpose=task.purpose,
        status=result.status,
        reason=result.reason,
        loss=result.losses.get(spec.data.validation[0].name),
        losses=result.losses,
        unigram_entropy=result.unigram_entropy,
        exact_entropy=result.exact_entropy,
        num_steps_done=result.num_steps,
        num_tokens=num_tokens,
        train_flops=flops * num_tokens,
        wall_seconds=result.seconds,
        execution=describe_execution(task.execution),
        code_version=code_version(),
    )
