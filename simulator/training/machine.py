"""Describe the machine and the process that a run is executed by."""

import os
import platform
from pathlib import Path

import torch

from simulator.records.types import ExecutionRecord
from simulator.specs.run import ExecutionSpec

__all__ = ["describe_execution"]

_CPU_INFO = Path("/proc/cpuinfo")


def describe_execution(
    execution: ExecutionSpec, *, num_rows: int = 1, row: int = 0
) -> ExecutionRecord:
    """Return where and how a run is executed, as its record keeps it.

    Parameters
    ----------
    num_rows, row
        How many runs are trained together, and which of them this is.
    """
    return ExecutionRecord(
        device=execution.device,
        device_name=_device_name(execution.device),
        precision=execution.precision,
        num_rows=num_rows,
        row=row,
        num_threads=execution.num_threads,
        torch_version=torch.__version__,
        host=platform.node(),
        pid=os.getpid(),
    )


def _device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
