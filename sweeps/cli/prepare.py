"""From a command's argument to a draft and its plan."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from simulator.specs.errors import SpecError
from sweeps.backends.optuna import OptunaSearch
from sweeps.data_outlook import look_at_data
from sweeps.device_memory import DeviceMemory, count_gpus
from sweeps.draft import Draft
from sweeps.file import SweepFile, load_sweep
from sweeps.machine import Machine, look_at_machine, refuse_more_than_gpus
from sweeps.plan import make_plan
from sweeps.plan_types import SweepPlan
from sweeps.resolve import draft_sweep
from sweeps.sharing import plan_sharing
from sweeps.tables.search import RunTable
from sweeps.tables.target import DataTable, TargetTable

__all__ = ["plan_file", "plan_source"]

SWEEP_FILE_NAME = "SWEEP.toml"

_GIB = 2**30


def plan_source(
    source: str,
    *,
    memory_gib: float | None,
    tokens: int | None,
    working_directory: Path,
    environment: Mapping[str, str],
) -> SweepPlan:
    """Return the plan of a sweep file, or of a target alone with every default.

    Parameters
    ----------
    source
        Ends in ``.toml`` or is a folder with a ``SWEEP.toml``; anything else names a target.
    memory_gib
        Memory of the device; null to find it out.
    tokens
        Of a target alone; null where they are published.
    environment
        Of this process.

    Raises
    ------
    SpecError, DataError
        If the file or the target cannot be planned.
    """
    path = working_directory / Path(source).expanduser()
    if (path / SWEEP_FILE_NAME).is_file():
        path = path / SWEEP_FILE_NAME
    if path.suffix == ".toml":
        if tokens is not None:
            raise SpecError(
                "--tokens", "is for a target alone", tokens, f"Write target.tokens into {source}."
            )
        file = load_sweep(path)
        machine = _machine(file.run.device, environment, memory_gib)
        _, made = plan_file(file, root=path.parent, machine=machine)
        return made
    table = TargetTable(config=source, tokens=tokens)
    device = "cpu" if count_gpus() is None else "cuda"
    machine = _machine(device, environment, memory_gib)
    return _plan_target(table, root=working_directory, device=device, machine=machine)


def plan_file(
    file: SweepFile, *, root: Path, machine: Machine, num_workers: int | None = None
) -> tuple[Draft, SweepPlan]:
    """Return the draft and the plan of a sweep file.

    Parameters
    ----------
    root
        Folder of the file.
    num_workers
        In place of the file's own number; null to leave it. Changes neither rows nor results.

    Raises
    ------
    SpecError, DataError
        If the file cannot be planned, or has more workers than GPUs.
    """
    draft = draft_sweep(file, root=root, machine=machine)
    if num_workers is not None:
        device = draft.execution.device
        refuse_more_than_gpus("--workers", num_workers, device, machine.num_gpus)
        draft = replace(draft, num_workers=num_workers)
    data = look_at_data(file.data, draft.proxy.model, root=root)
    search = OptunaSearch(draft.space, draft.search)
    sharing = plan_sharing(draft, search.ask, search.tell)
    return draft, make_plan(draft, data=data, memory=machine.memory, sharing=sharing)


def _plan_target(table: TargetTable, *, root: Path, device: str, machine: Machine) -> SweepPlan:
    nothing = DataTable(sources=())
    file = SweepFile(target=table, data=nothing, run=RunTable(device=device))
    return make_plan(draft_sweep(file, root=root, machine=machine), memory=machine.memory)


def _machine(device: str, environment: Mapping[str, str], memory_gib: float | None) -> Machine:
    """Return this machine, with the memory that was given in place of its own."""
    machine = look_at_machine(device, environment)
    if memory_gib is None:
        return machine
    if memory_gib <= 0:
        raise SpecError("--memory-gib", "must be positive", memory_gib, "Give the device's GiB.")
    memory = DeviceMemory(name="the device given", total_bytes=round(memory_gib * _GIB))
    return replace(machine, memory=memory)
