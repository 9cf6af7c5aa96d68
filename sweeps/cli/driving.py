"""What ``sweep run`` and ``sweep resume`` have in common: a driver, its progress, its result."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from reports.progress import progress_observer
from reports.render import write_report
from reports.terminal import render_summary
from simulator.records.layout import StudyLayout
from simulator.records.reader import StudyReader
from simulator.records.summary import StudySummary
from simulator.records.version import code_version
from simulator.specs.errors import SpecError
from sweeps.cli.output import MAX_COLUMNS, print_json, stdout_console
from sweeps.cli.train import Trainer
from sweeps.clock import WallClock
from sweeps.drive import Driver
from sweeps.machine import usable_gpus
from sweeps.store import Store

__all__ = ["cache_directory", "conduct", "stderr_console"]

_GATE_FAILED = 3


def cache_directory() -> Path:
    """Return where tokenizers and token ids are kept, by the XDG base directory convention."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "eighthscale"


def stderr_console() -> Console:
    """Return a console on standard error, for all that is not the result."""
    console = Console(stderr=True, highlight=False)
    return (
        console if console.is_terminal else Console(stderr=True, highlight=False, width=MAX_COLUMNS)
    )


def conduct(
    root: Path, drive: Callable[[Driver], StudySummary], *, workers: int | None, json: bool
) -> int:
    """Drive the study in ``root`` to its end, write its report, and print its outcome.

    Returns
    -------
    int
        Exit code: 3 where the study says nothing of the target.

    Raises
    ------
    SpecError
        If ``workers`` is not positive.
    """
    if workers is not None and workers < 1:
        raise SpecError("--workers", "must be >= 1", workers, "Give how many processes train.")
    with progress_observer(stderr_console(), time.monotonic) as observer:
        summary = drive(
            Driver(
                train=Trainer(),
                cache=cache_directory(),
                observer=observer,
                clock=WallClock(),
                code_version=code_version(),
                num_workers=workers,
                num_gpus=usable_gpus(os.environ),
            )
        )
    layout = StudyLayout(root)
    with Store(layout).watching_disk():
        write_report(StudyReader(root))
    if json:
        print_json(summary)
    else:
        console = stdout_console()
        console.print(render_summary(summary))
        where = f"\nreport   {layout.report}\nnumbers  {layout.summary}"
        console.print(where, soft_wrap=True, markup=False)
    return _GATE_FAILED if summary.verdict in ("vacuous", "incomplete") else 0
