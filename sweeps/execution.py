"""How runs are executed: by how many workers, how many at a time, compiled or not."""

from dataclasses import dataclass

from simulator.counting.memory import state_bytes
from simulator.specs.model import ModelSpec
from simulator.specs.run import ExecutionSpec
from sweeps.device_memory import STATE_SHARE
from sweeps.horizon import Horizon
from sweeps.machine import Machine, refuse_more_than_gpus
from sweeps.tables.search import RunTable

__all__ = ["ResolvedExecution", "resolve_compile", "resolve_execution"]

MICRO_BATCH_TOKENS = 16_384
"""Tokens of one forward pass, all rows together, where the user names none: enough to fill a GPU,
few enough for one that holds a proxy. Ours."""

CHECKPOINTS_PER_RUN = 10

MAX_CPU_ROWS = 4
"""On one core the gain of training runs side by side is had with this many."""

GPU_ROWS = 16
"""Fewer leave a GPU waiting for its host at the widths of proxies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExecution:
    """Execution without anything automatic."""

    spec: ExecutionSpec
    num_workers: int
    compile_reason: str
    """Why steps are compiled or not, a plain phrase."""


def resolve_execution(
    table: RunTable, horizon: Horizon, model: ModelSpec, *, batch_size: int, machine: Machine
) -> ResolvedExecution:
    """Return how the runs of a sweep are executed.

    Parameters
    ----------
    batch_size
        Suggestions made at a time.
    machine
        Decides where the table leaves something out.

    Raises
    ------
    SpecError
        If there are more workers than GPUs.
    """
    if table.workers is not None:
        refuse_more_than_gpus("run.workers", table.workers, table.device, machine.num_gpus)
    num_rows, num_workers = _rows_and_workers(table, model, batch_size, machine)
    is_compiled, compile_reason = resolve_compile(table)
    sequences = max(1, MICRO_BATCH_TOKENS // (horizon.batch.seq_len * num_rows))
    interval = table.checkpoint_interval_steps
    execution = ExecutionSpec(
        device=table.device,
        precision=table.precision or ("fp32" if table.device == "cpu" else "bf16"),
        micro_batch_sequences=min(
            table.micro_batch_sequences or sequences, horizon.batch.global_batch_sequences
        ),
        num_threads=table.threads,
        checkpoint_interval_steps=(
            max(1, horizon.num_steps // CHECKPOINTS_PER_RUN) if interval is None else interval
        ),
        num_rows=num_rows,
        shares_prefixes=table.share_prefixes,
        is_compiled=is_compiled,
    )
    return ResolvedExecution(spec=execution, num_workers=num_workers, compile_reason=compile_reason)


def resolve_compile(table: RunTable) -> tuple[bool, str]:
    """Return whether steps are compiled, and why."""
    if table.compile == "auto":
        return False, 'run.compile = "auto" does not compile yet'
    return table.compile, "as run.compile says"


def _rows_and_workers(
    table: RunTable, model: ModelSpec, batch_size: int, machine: Machine
) -> tuple[int, int]:
    """Return rows and workers: the table's, else what the machine can use.

    On CPU a worker a core, but no more than a batch has cohorts or the memory holds models.
    """
    room = _room(model, machine)
    if table.device != "cpu":
        rows = table.cohort_rows or max(1, GPU_ROWS if room is None else min(GPU_ROWS, room))
        gpus = machine.num_gpus if table.device == "cuda" else 1
        return rows, table.workers or max(1, gpus or 1)
    cores = max(1, machine.num_cores // table.threads)
    most = table.workers or max(1, min(cores, room if room is not None else cores))
    rows = table.cohort_rows or max(1, min(MAX_CPU_ROWS, _share(batch_size, most)))
    if table.cohort_rows is None and room is not None:
        rows = max(1, min(rows, room // most))
    return rows, table.workers or min(most, _share(batch_size, rows))


def _room(model: ModelSpec, machine: Machine) -> int | None:
    """Return how many models with their training state the device holds; null where unknown."""
    if machine.memory is None:
        return None
    return int(STATE_SHARE * machine.memory.total_bytes) // state_bytes(model)


def _share(total: int, parts: int) -> int:
    return -(-total // parts)
