"""What is written down of how a run ended."""

import errno
from dataclasses import dataclass

import torch

from simulator.counting.flops import flops_per_token
from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.task import TrainTask
from simulator.records.types import EvalPoint, RunRecord, RunStatus
from simulator.records.version import code_version
from simulator.specs.codec import fingerprint
from simulator.specs.errors import UserInputError
from simulator.specs.run import RunSpec
from simulator.training.evaluate import final_steps
from simulator.training.machine import describe_execution

__all__ = ["RunFault", "RunResult", "fault", "is_out_of_memory", "make_record", "smoothed_losses"]

RunFault = UserInputError | OSError | MemoryError | RuntimeError
"""What may be raised on behalf of a run and end as its record."""

_NO_RECORD_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The disk takes no more, or nothing: no fault of the run, and no record could be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a record says about how a run ended."""

    status: RunStatus
    reason: str
    num_steps: int
    seconds: float
    losses: dict[str, float]
    num_steps_shared: int = 0
    num_rows: int = 1
    row: int = 0
    unigram_entropy: float | None = None
    exact_entropy: float | None = None


def smoothed_losses(spec: RunSpec, layout: RunLayout) -> dict[str, float]:
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


def is_out_of_memory(error: RunFault) -> bool:
    """Return whether an allocation failed; on the CPU its text is the only mark of it."""
    is_marked = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return is_marked or "can't allocate memory" in str(error)


def fault(task: TrainTask, error: RunFault, seconds: float) -> RunResult:
    """Return how a run ended under which ``error`` was raised.

    Raises
    ------
    OSError, RuntimeError
        ``error`` itself, if it was not the run's fault.
    """
    status: RunStatus = "failed"
    reason = str(error)
    if is_out_of_memory(error):
        status, reason = "oom", _memory_reason(task, reason)
    elif isinstance(error, RuntimeError) or _is_machine_fault(error):
        raise error
    steps = RunReader(RunLayout(task.directory), has_driver=False).steps()
    return RunResult(
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


def make_record(task: TrainTask, result: RunResult) -> RunRecord:
    """Return the record of a run that ended with ``result``."""
    spec = task.spec
    step_tokens = spec.batch.global_batch_tokens
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
        num_steps_shared=result.num_steps_shared,
        num_tokens=result.num_steps * step_tokens,
        train_flops=flops * (result.num_steps - result.num_steps_shared) * step_tokens,
        wall_seconds=result.seconds,
        execution=describe_execution(task.execution, num_rows=result.num_rows, row=result.row),
        code_version=code_version(),
    )
