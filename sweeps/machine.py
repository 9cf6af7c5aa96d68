"""What the machine that trains has, found without importing what would drive it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.specs.errors import SpecError
from sweeps.device_memory import DeviceMemory, count_gpus, detect_memory

__all__ = ["UNKNOWN_MACHINE", "Machine", "look_at_machine", "refuse_more_than_gpus", "usable_gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What decides how many workers train, and how many runs each."""

    num_cores: int
    """Cores this process may use."""
    num_gpus: int | None
    """Null where nobody can say."""
    memory: DeviceMemory | None
    """Of the device that trains; null where it could not be found."""


UNKNOWN_MACHINE = Machine(num_cores=1, num_gpus=None, memory=None)


def look_at_machine(device: str, environment: Mapping[str, str]) -> Machine:
    """Return what this machine has.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
    environment
        Of this process.
    """
    return Machine(
        num_cores=_count_cores(),
        num_gpus=usable_gpus(environment) if device.startswith("cuda") else None,
        memory=detect_memory(device),
    )


def usable_gpus(environment: Mapping[str, str]) -> int | None:
    """Return how many GPUs processes may use; null where nobody can say.

    ``CUDA_VISIBLE_DEVICES`` hides GPUs from programs, not from the driver that is asked.
    """
    found = count_gpus()
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if found is None or visible is None:
        return found
    return min(found, sum(bool(name.strip()) for name in visible.split(",")))


def refuse_more_than_gpus(path: str, num_workers: int, device: str, num_gpus: int | None) -> None:
    """Refuse more than one worker a GPU.

    Parameters
    ----------
    path
        Where the number was given.

    Raises
    ------
    SpecError
        If ``device`` is no CPU and there are fewer GPUs than workers, as far as anyone can say.
    """
    if device == "cpu":
        return
    available = num_gpus if device == "cuda" else 1
    if available is not None and num_workers > max(available, 1):
        raise SpecError(
            path,
            f"must not exceed the GPUs of device {device!r} ({available}): one worker trains on "
            "each, many runs at a time",
            num_workers,
            f"Give {max(available, 1)}, or more run.cohort_rows.",
        )


def _count_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
