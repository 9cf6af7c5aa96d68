"""A driver of pretended runs as a program of its own, for tests that kill it.

``python tests/sweeps/pretended.py DIR OPTIONS`` with OPTIONS a JSON object: ``num_workers``,
``trainer`` (fields of FakeTrainer), ``search`` (fields of SearchSpec), ``max_wall_hours``. Workers
train two runs at a time.
Every event is a line on standard error; the exit code is the one of the command line.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.records.events import RunProgress, RunStarted, StudyEvent
from simulator.specs.errors import EighthscaleError
from sweeps.clock import WallClock
from sweeps.drive import Driver, Opening, start
from sweeps.spec import BudgetSpec, SearchSpec, SweepSpec
from sweeps.testing import FakeTrainer
from tests.builders import make_execution
from tests.sweeps.sweep_specs import make_sweep


def pretended_sweep(options: dict[str, Any]) -> SweepSpec:
    sweep = make_sweep(
        search=SearchSpec(
            **({"sampler": "tpe", "num_trials": 9, "batch_size": 3, "seed": 1} | options["search"])
        ),
        budget=BudgetSpec(max_wall_hours=options["max_wall_hours"]),
        execution=make_execution(num_rows=2),
    )
    return replace(sweep, finalists=replace(sweep.finalists, num_seeds=3, noise_replicates=3))


def with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    return {"num_workers": 1, "trainer": {}, "search": {}, "max_wall_hours": None} | options


def announce(event: StudyEvent) -> None:
    if isinstance(event, RunProgress):
        return
    number = f" {event.trial.number}" if isinstance(event, RunStarted) else ""
    message = getattr(event, "message", "")
    sys.stderr.write(f"{type(event).__name__}{number} {message}\n")
    sys.stderr.flush()


def main() -> int:
    root, options = Path(sys.argv[1]), with_defaults(json.loads(sys.argv[2]))
    driver = Driver(
        train=FakeTrainer(**options["trainer"]),
        cache=root / "cache",
        observer=announce,
        clock=WallClock(),
        code_version="test",
        num_workers=options["num_workers"],
    )
    try:
        start(root, pretended_sweep(options), Opening(source="", plan={}), driver)
    except EighthscaleError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
