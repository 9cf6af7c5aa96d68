"""The devices and their memory, found without importing what would drive them."""

import os
import subprocess
from pathlib import Path

from simulator.specs.base import spec

__all__ = ["STATE_SHARE", "DeviceMemory", "count_gpus", "detect_memory"]

STATE_SHARE = 0.8
"""Share of a device's memory that weights, gradients and moments may take; the rest is for
activations and what the libraries keep. Ours."""

_MIB = 2**20

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where containers find their limit (cgroup v2 and v1)."""


@spec
class DeviceMemory:
    """Memory of the device that trains."""

    name: str
    total_bytes: int


def detect_memory(device: str) -> DeviceMemory | None:
    """Return the memory of ``device``; null where it cannot be found.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
    """
    if device.startswith("cuda"):
        _, _, index = device.partition(":")
        return _gpu_memory(int(index) if index.isdigit() else 0)
    return _main_memory()


def count_gpus() -> int | None:
    """Return how many GPUs the driver knows; null where there is no driver to ask."""
    rows = _ask_driver()
    return None if rows is None else len(rows)


def _main_memory() -> DeviceMemory | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
    limits = [limit for path in _CGROUP_LIMITS if (limit := _container_limit(path)) is not None]
    return DeviceMemory(name="main memory", total_bytes=min([total, *limits]))


def _container_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _ask_driver() -> list[str] | None:
    """Return name and memory of every GPU by the driver's own program; null without a driver."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [row for row in answer.stdout.strip().splitlines() if "," in row]


def _gpu_memory(index: int) -> DeviceMemory | None:
    rows = _ask_driver()
    if rows is None or index >= len(rows):
        return None
    name, _, mebibytes = rows[index].rpartition(",")
    if not mebibytes.strip().isdigit():
        return None
    return DeviceMemory(name=name.strip(), total_bytes=int(mebibytes) * _MIB)
