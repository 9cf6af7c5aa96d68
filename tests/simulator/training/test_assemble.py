"""A run's specification becomes what the loop works with."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.specs.model import MoESpec
from simulator.training.assemble import RunDoors, default_policies, device_job, step_values
from simulator.training.checkpoint import NoCheckpoints
from simulator.training.job import TrainingJob
from tests.builders import make_execution, make_model, make_moe, make_run, resolved
from tests.simulator.training.runs import Runs, never


def make_job(runs: Runs, *, interval: int = 0) -> TrainingJob:
    spec = resolved(make_run(), runs.cache)
    return device_job(
        [spec],
        make_execution(checkpoint_interval_steps=interval),
        runs.corpora.corpus(spec, cache=runs.cache),
        compiled=None,
        doors=[RunDoors(checkpoints=NoCheckpoints(), observers=())],
        ended=lambda run, outcome: None,
        should_stop=never,
        clock=lambda: 0.0,
    )


def test_rate_is_the_peak_times_the_schedule() -> None:
    rates = [step_values(make_run(), step).lr[0] for step in (0, 1, 2, 11)]
    assert rates == pytest.approx([2.5e-3, 5e-3, 5e-3, 2.5e-3])


def test_weights_follow_their_phases() -> None:
    run = make_run()
    assert [step_values(run, step).mtp_weight[0] for step in (0, 13, 14, 19)] == [
        0.3,
        0.3,
        0.1,
        0.1,
    ]
    assert [step_values(run, step).bias_rate[0] for step in (0, 17, 18, 19)] == [1e-2, 1e-2, 0, 0]


def test_batches_are_a_pure_function_of_their_number(run: Runs) -> None:
    (job,) = make_job(run).runs
    np.testing.assert_array_equal(job.batches(3), job.batches(3))
    assert job.batches(3).shape == (8, 34)
    assert (job.batches(3) != job.batches(4)).any()


@pytest.mark.parametrize(("interval", "due"), [(0, []), (6, [6, 12, 18])])
def test_checkpoints_come_at_their_interval(run: Runs, interval: int, due: list[int]) -> None:
    (job,) = make_job(run, interval=interval).runs
    assert [step for step in range(1, 21) if job.is_checkpoint_due(step)] == due


@pytest.mark.parametrize(
    ("moe", "num_policies"),
    [(make_moe(), 3), (make_moe(n_activated_experts=8), 2), (None, 2)],
    ids=["routed", "every expert chosen", "dense"],
)
def test_collapse_is_watched_where_there_is_a_choice(
    moe: MoESpec | None, num_policies: int
) -> None:
    model = replace(make_model(), moe=moe)
    assert len(default_policies(make_run(model=model))) == num_policies
