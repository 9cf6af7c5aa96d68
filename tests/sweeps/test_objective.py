"""What runs teach."""

import math
from dataclasses import replace
from typing import Any

import pytest

from simulator.records.types import RunRecord
from sweeps.executors import Ended
from sweeps.executors.inline import InlineExecutor
from sweeps.objective import Observation, has_loss, observe
from sweeps.testing import FakeTrainer
from tests.contracts.test_executor import make_tasks
from tests.sweeps.test_store import make_round

TRIALS = make_round(0, 4)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    executor = InlineExecutor(FakeTrainer())
    executor.submit(make_tasks(tmp_path_factory.mktemp("record"), 1))
    last = executor.events(0.0)[-1]
    assert isinstance(last, Ended)
    return last.record


def see(record: RunRecord, *runs: dict[str, Any], **kwargs: Any) -> list[Observation]:
    records = {
        trial.fingerprint: replace(record, **run) for trial, run in zip(TRIALS, runs, strict=False)
    }
    arguments: dict[str, Any] = {"earlier": (), "ceiling": 6.0}
    return list(observe(TRIALS[: len(runs)], records, **(arguments | kwargs)))


def test_complete_run_teaches_its_loss(record: RunRecord) -> None:
    (seen,) = see(record, {"loss": 2.5})
    assert (seen.value, seen.is_feasible) == (2.5, True)


@pytest.mark.parametrize(
    "bad",
    [
        {"status": "diverged", "loss": None},
        {"loss": math.nan},
        {"loss": math.inf},
        {"loss": None},
    ],
)
def test_diverged_run_teaches_the_worst_and_infeasibility(
    record: RunRecord, bad: dict[str, Any]
) -> None:
    seen = see(record, {"loss": 2.5}, {"loss": 3.5}, bad)
    assert (seen[2].value, seen[2].is_feasible) == (3.5, False)


def test_diverged_run_alone_teaches_the_ceiling(record: RunRecord) -> None:
    (seen,) = see(record, {"status": "diverged", "loss": None})
    assert (seen.value, seen.is_feasible) == (6.0, False)


def test_earlier_batches_belong_to_the_quantile(record: RunRecord) -> None:
    earlier = see(record, {"loss": 4.5}, {"status": "diverged", "loss": None})
    (seen,) = see(record, {"loss": math.nan}, earlier=earlier)
    assert seen.value == 4.5


@pytest.mark.parametrize("status", ["failed", "oom", "pruned"])
def test_faults_outside_the_configuration_teach_nothing(record: RunRecord, status: str) -> None:
    seen = see(record, {"status": status, "loss": None}, {"loss": 2.5})
    assert (seen[0].value, seen[0].is_feasible) == (None, False)
    assert seen[1].value == 2.5


def test_only_complete_runs_with_a_number_have_a_loss(record: RunRecord) -> None:
    assert has_loss(record)
    assert not has_loss(replace(record, status="diverged"))
    assert not has_loss(replace(record, loss=math.nan))
