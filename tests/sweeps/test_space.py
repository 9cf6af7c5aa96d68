from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.specs.codec import fingerprint
from simulator.specs.errors import SpecError
from sweeps.space import apply, tau_of, warmup_steps_of, weight_decay_of
from tests.sweeps.sweep_specs import SCHEDULES, make_sweep

POINT: dict[str, float | str] = {
    "peak_lr": 5e-3,
    "tau": 0.2,
    "warmup_ratio": 0.1,
    "schedule": "wsd20_sqrt",
}
SWEEP = make_sweep()


def without(name: str) -> dict[str, float | str]:
    return {key: value for key, value in POINT.items() if key != name}


@given(
    peak_lr=st.floats(1e-6, 1.0),
    tau=st.floats(1e-3, 100.0),
    ratio=st.floats(0.0, 1.0),
    schedule=st.sampled_from(SCHEDULES),
)
def test_the_run_has_the_timescale_asked_for(
    peak_lr: float, tau: float, ratio: float, schedule: str
) -> None:
    point = {"peak_lr": peak_lr, "tau": tau, "warmup_ratio": ratio, "schedule": schedule}
    run = apply(SWEEP, point, 0)
    assert run.optimizer.peak_lr == peak_lr
    product = run.optimizer.peak_lr * run.optimizer.weight_decay * run.num_steps
    assert 1.0 / product == pytest.approx(tau)
    assert tau_of(run.optimizer.weight_decay, peak_lr, run.num_steps) == pytest.approx(tau)


@given(ratio=st.floats(0.0, 1.0), num_steps=st.integers(1, 10**6))
def test_warmup_is_at_least_one_step_and_at_most_the_run(ratio: float, num_steps: int) -> None:
    assert 1 <= warmup_steps_of(ratio, num_steps) <= num_steps


def test_weight_decay_is_taken_as_given() -> None:
    point: dict[str, float | str] = {**without("tau"), "weight_decay": 0.07}
    assert apply(SWEEP, point, 0).optimizer.weight_decay == 0.07


def test_schedule_is_looked_up_by_its_name() -> None:
    shapes = {named.name: named.shape for named in SWEEP.space.schedules}
    for name in SCHEDULES:
        assert apply(SWEEP, {**POINT, "schedule": name}, 0).schedule.shape == shapes[name]


def test_only_the_searched_fields_and_the_seeds_change() -> None:
    run = apply(SWEEP, POINT, 1)
    base = SWEEP.base
    restored = replace(
        run,
        optimizer=replace(
            run.optimizer,
            peak_lr=base.optimizer.peak_lr,
            weight_decay=base.optimizer.weight_decay,
        ),
        schedule=base.schedule,
        init_seed=base.init_seed,
        data_seed=base.data_seed,
    )
    assert restored == base


def test_trials_of_one_replicate_share_both_seeds() -> None:
    first, second = apply(SWEEP, POINT, 3), apply(SWEEP, {**POINT, "peak_lr": 1e-3}, 3)
    assert (first.init_seed, first.data_seed) == (second.init_seed, second.data_seed)


def test_replicates_differ_in_both_seeds() -> None:
    first, second = apply(SWEEP, POINT, 0), apply(SWEEP, POINT, 1)
    assert first.init_seed != second.init_seed
    assert first.data_seed != second.data_seed


def test_the_same_point_and_seed_is_the_same_run() -> None:
    assert fingerprint(apply(SWEEP, POINT, 2)) == fingerprint(apply(SWEEP, dict(POINT), 2))


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (without("peak_lr"), "params.peak_lr"),
        (without("schedule"), "params.schedule"),
        (without("warmup_ratio"), "params.warmup_ratio"),
        (without("tau"), "params.tau"),
        ({**POINT, "weight_decay": 0.1}, "params.tau"),
        ({**POINT, "momentum": 0.9}, "params.momentum"),
        ({**POINT, "peak_lr": "high"}, "params.peak_lr"),
        ({**POINT, "peak_lr": 0.0}, "params.peak_lr"),
        ({**POINT, "tau": 0.0}, "params.tau"),
        ({**POINT, "warmup_ratio": 1.5}, "params.warmup_ratio"),
        ({**POINT, "schedule": "linear"}, "params.schedule"),
        ({**POINT, "schedule": 3.0}, "params.schedule"),
    ],
)
def test_a_point_that_is_none_is_refused(params: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        apply(SWEEP, params, 0)
    assert caught.value.path == path


def test_no_decay_has_no_timescale() -> None:
    with pytest.raises(SpecError, match="weight_decay"):
        tau_of(0.0, 1e-3, 100)
    assert weight_decay_of(0.5, 1e-2, 100) == 2.0
