"""From the arguments of ``sweep run`` to the files it reads and the folder it writes."""

from pathlib import Path

from simulator.specs.errors import GateError, SpecError
from sweeps.amounts import gibibytes
from sweeps.plan_types import SweepPlan

__all__ = ["refuse_impossible", "study_directory", "sweep_path"]

_SWEEP_FILE_NAME = "SWEEP.toml"
_STUDIES = Path("runs")


def sweep_path(source: Path) -> Path:
    """Return the sweep file that ``source`` is, or that the folder ``source`` holds."""
    inside = source.expanduser() / _SWEEP_FILE_NAME
    return inside if inside.is_file() else source.expanduser()


def study_directory(out: Path | None, name: str) -> Path:
    """Return where the study goes: what was asked for, or ``runs/NAME``.

    Raises
    ------
    SpecError
        If the name cannot be a folder's.
    """
    if out is not None:
        return out.expanduser()
    if Path(name).name != name:
        raise SpecError("name", "must be the name of a folder", name, "Change it or give --out.")
    return _STUDIES / name


def refuse_impossible(plan: SweepPlan) -> None:
    """Refuse a sweep whose training state alone exceeds the device's memory.

    Raises
    ------
    GateError
        With both sizes.
    """
    memory = plan.memory
    if memory.device is None or memory.state_bytes <= memory.device.total_bytes:
        return
    raise GateError(
        f"the runs that train side by side need {gibibytes(memory.state_bytes)} for weights, "
        f"gradients and moments; {memory.device.name} has "
        f"{gibibytes(memory.device.total_bytes)}. `sweep plan` lists the nearest proxies that fit."
    )
