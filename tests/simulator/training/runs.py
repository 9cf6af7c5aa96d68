"""Execute small runs, and read what they leave on the disk."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.task import TrainTask
from simulator.records.types import RunRecord
from simulator.specs.run import RunSpec
from simulator.training import execute_run
from simulator.training.corpora import OpenCorpora
from tests.builders import make_execution, make_run, resolved


def ignore(step: int, loss: float) -> None:
    """Take no notice of progress."""


def never() -> bool:
    return False


class AfterSteps:
    """Raises ``error``, or answers true, once so many questions were asked."""

    def __init__(self, num_steps: int, error: BaseException | None = None) -> None:
        self._left, self._error = num_steps, error

    def __call__(self) -> bool:
        self._left -= 1
        if self._left == 0 and self._error is not None:
            raise self._error
        return self._left == 0


@dataclass
class Runs:
    """Runs below one folder that share a cache of data."""

    root: Path
    cache: Path
    corpora: OpenCorpora = field(default_factory=OpenCorpora)

    def __call__(
        self,
        *,
        folder: str = "run",
        should_stop: Callable[[], bool] = never,
        report: Callable[[int, float], None] = ignore,
        execution: dict[str, Any] | None = None,
        **changes: Any,
    ) -> tuple[RunRecord, RunReader]:
        spec = resolved(make_run(**changes), self.cache)
        task = self.task(spec, folder=folder, execution=execution)
        record = execute_run(task, report, should_stop, corpora=self.corpora)
        return record, RunReader(RunLayout(task.directory), has_driver=False)

    def task(
        self, spec: RunSpec, *, folder: str = "run", execution: dict[str, Any] | None = None
    ) -> TrainTask:
        return TrainTask(
            spec=spec,
            execution=make_execution(**({"checkpoint_interval_steps": 5} | (execution or {}))),
            purpose="search",
            directory=self.root / folder,
            cache_directory=self.cache,
        )


def series(reader: RunReader) -> list[dict[str, Any]]:
    """Return every line of the series without its times."""
    layout = reader.layout
    lines = [
        json.loads(line)
        for path in (layout.steps, layout.evals, layout.health)
        for line in path.read_text().splitlines()
    ]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]
