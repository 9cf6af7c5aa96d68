"""From a command's argument to a draft and its plan."""

from dataclasses import replace
from pathlib import Path

from simulator.specs.errors import SpecError
from sweeps.data_outlook import look_at_data
from sweeps.device_memory import DeviceMemory, detect_memory
from sweeps.draft import Draft
from sweeps.file import SweepFile, load_sweep
from sweeps.plan import make_plan
from sweeps.plan_types import SweepPlan
from sweeps.resolve import draft_sweep
from sweeps.tables.search import RunTable
from sweeps.tables.target import DataTable, TargetTable

__all__ = ["plan_file", "plan_source"]

SWEEP_FILE_NAME = "SWEEP.toml"

_GIB = 2**30


def plan_source(
    source: str, *, memory_gib: float | None, tokens: int | None, working_directory: Path
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
        _, made = plan_file(load_sweep(path), root=path.parent, memory_gib=memory_gib)
        return made
    table = TargetTable(config=source, tokens=tokens)
    return _plan_target(table, root=working_directory, memory_gib=memory_gib)


def plan_file(
    file: SweepFile, *, root: Path, memory_gib: float | None, num_workers: int | None = None
) -> tuple[Draft, SweepPlan]:
    """Return the draft and the plan of a sweep file.

    Parameters
    ----------
    root
        Folder of the file.
    num_workers
        In place of the file's own number; null to leave it.
    """
    draft = draft_sweep(file, root=root)
    if num_workers is not None:
        draft = replace(draft, num_workers=num_workers)
    data = look_at_data(file.data, draft.proxy.model, root=root)
    memory = _memory(draft.execution.device, memory_gib)
    return draft, make_plan(draft, data=data, memory=memory)


def _plan_target(table: TargetTable, *, root: Path, memory_gib: float | None) -> SweepPlan:
    """Plan for the machine's GPU where it has one."""
    device = "cpu" if detect_memory("cuda") is None else "cuda"
    nothing = DataTable(sources=())
    file = SweepFile(target=table, data=nothing, run=RunTable(device=device))
    draft = draft_sweep(file, root=root)
    return make_plan(draft, data=None, memory=_memory(device, memory_gib))


def _memory(device: str, memory_gib: float | None) -> DeviceMemory | None:
    if memory_gib is None:
        return detect_memory(device)
    if memory_gib <= 0:
        raise SpecError("--memory-gib", "must be positive", memory_gib, "Give the device's GiB.")
    return DeviceMemory(name="the device given", total_bytes=round(memory_gib * _GIB))
