"""Schedules stay within the peak, meet at their joints and survive every edge of their range."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.schedules import NAMED_SHAPES, lr_factor, lr_factors, named_shape, phase_value
from simulator.specs.errors import SpecError
from simulator.specs.run import PhaseSpec
from simulator.specs.schedule import (
    CosineShape,
    LinearShape,
    MultiStepShape,
    PiecewiseShape,
    ScheduleShape,
    ScheduleSpec,
    SegmentSpec,
    WarmRestartsShape,
    WSDShape,
)

V3 = PiecewiseShape(
    segments=(
        SegmentSpec(until_fraction=0.68, curve="constant", start_factor=1.0, end_factor=1.0),
        SegmentSpec(until_fraction=0.96, curve="cosine", start_factor=1.0, end_factor=0.1),
        SegmentSpec(until_fraction=0.98, curve="constant", start_factor=0.1, end_factor=0.1),
        SegmentSpec(until_fraction=1.0, curve="constant", start_factor=0.033, end_factor=0.033),
    )
)
LINE = PiecewiseShape(
    segments=(
        SegmentSpec(until_fraction=0.5, curve="linear", start_factor=1.0, end_factor=0.4),
        SegmentSpec(until_fraction=1.0, curve="cosine", start_factor=0.4, end_factor=0.0),
    )
)
CONTINUOUS = ("constant", "linear_to_zero", "wsd20_linear", "cosine_to_10pct", "power_2")

fractions = st.floats(0, 1)
shapes: st.SearchStrategy[ScheduleShape] = st.one_of(
    st.sampled_from([*NAMED_SHAPES.values(), V3, LINE]),
    st.builds(LinearShape, final_factor=fractions),
    st.builds(CosineShape, final_factor=fractions),
    st.builds(
        WSDShape,
        decay_fraction=fractions,
        final_factor=fractions,
        decay_shape=st.sampled_from(["linear", "sqrt"]),
    ),
    st.builds(
        WarmRestartsShape,
        num_cycles=st.integers(1, 5),
        restart_factor=fractions,
        final_factor=fractions,
    ),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[ScheduleSpec, int]:
    num_steps = draw(st.integers(1, 120))
    warmup = draw(st.one_of(st.sampled_from([0, 1, num_steps]), st.integers(0, num_steps)))
    return ScheduleSpec(warmup_steps=min(warmup, num_steps), shape=draw(shapes)), num_steps


@given(runs())
def test_factor_lies_within_zero_and_the_peak(run: tuple[ScheduleSpec, int]) -> None:
    schedule, num_steps = run
    assert all(0.0 <= factor <= 1.0 for factor in lr_factors(schedule, num_steps))


@given(runs())
def test_warmup_is_a_straight_line_whose_last_update_reaches_the_peak(
    run: tuple[ScheduleSpec, int],
) -> None:
    schedule, num_steps = run
    warmup = schedule.warmup_steps
    head = lr_factors(schedule, num_steps)[:warmup]
    assert head == tuple((step + 1) / warmup for step in range(warmup))


@given(runs())
def test_first_update_is_never_empty_with_warmup(run: tuple[ScheduleSpec, int]) -> None:
    schedule, num_steps = run
    assert schedule.warmup_steps == 0 or lr_factor(schedule, 0, num_steps) > 0


@pytest.mark.parametrize("name", [*CONTINUOUS, "warm_restarts"])
@given(num_steps=st.integers(2, 200), data=st.data())
def test_decay_starts_at_the_peak_where_warmup_ends(
    name: str, num_steps: int, data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(0, num_steps - 1))
    schedule = ScheduleSpec(warmup_steps=warmup, shape=NAMED_SHAPES[name])
    assert lr_factor(schedule, warmup, num_steps) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_neighbouring_updates_differ_by_no_more_than_the_steepest_slope(name: str) -> None:
    factors = lr_factors(ScheduleSpec(warmup_steps=100, shape=NAMED_SHAPES[name]), 10_000)
    jumps = [abs(a - b) for a, b in itertools.pairwise(factors)]
    assert max(jumps) <= 0.01 + 1e-12  # the warmup's own slope


@given(runs(), st.integers(2, 9))
def test_shape_depends_on_the_share_of_the_run_only(
    run: tuple[ScheduleSpec, int], times: int
) -> None:
    schedule, num_steps = run
    longer = ScheduleSpec(warmup_steps=schedule.warmup_steps * times, shape=schedule.shape)
    for step in range(schedule.warmup_steps, num_steps):
        assert lr_factor(longer, step * times, num_steps * times) == pytest.approx(
            lr_factor(schedule, step, num_steps), abs=1e-6
        )


def test_linear_reaches_zero_just_after_the_last_update() -> None:
    factors = lr_factors(ScheduleSpec(warmup_steps=0, shape=LinearShape()), 4)
    assert factors == (1.0, 0.75, 0.5, 0.25)


def test_cosine_ends_at_its_final_factor() -> None:
    schedule = ScheduleSpec(warmup_steps=10, shape=CosineShape(final_factor=0.1))
    assert lr_factor(schedule, 9_999, 10_000) == pytest.approx(0.1, abs=1e-6)


def test_wsd_4_6_of_10_has_no_stable_part() -> None:
    schedule = ScheduleSpec(
        warmup_steps=4, shape=WSDShape(decay_fraction=0.6, decay_shape="linear")
    )
    expected = (0.25, 0.5, 0.75, 1.0, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6)
    assert lr_factors(schedule, 10) == pytest.approx(expected)


def test_wsd_that_would_decay_inside_the_warmup_is_cut_short() -> None:
    longer = ScheduleSpec(warmup_steps=4, shape=WSDShape(decay_fraction=0.9, decay_shape="linear"))
    fitting = ScheduleSpec(warmup_steps=4, shape=WSDShape(decay_fraction=0.6, decay_shape="linear"))
    assert lr_factors(longer, 10) == pytest.approx(lr_factors(fitting, 10))


def test_wsd_without_decay_is_constant() -> None:
    schedule = ScheduleSpec(warmup_steps=4, shape=WSDShape(decay_fraction=0.0))
    assert lr_factors(schedule, 10)[4:] == (1.0,) * 6


@pytest.mark.parametrize("shape", [*NAMED_SHAPES.values(), V3], ids=[*NAMED_SHAPES, "v3"])
def test_warmup_as_long_as_the_run_is_all_warmup(shape: ScheduleShape) -> None:
    factors = lr_factors(ScheduleSpec(warmup_steps=10, shape=shape), 10)
    assert factors == tuple((step + 1) / 10 for step in range(10))


@pytest.mark.parametrize("warmup", [0, 1])
@pytest.mark.parametrize("shape", [*NAMED_SHAPES.values(), V3], ids=[*NAMED_SHAPES, "v3"])
def test_run_of_one_step_is_made_at_the_peak(shape: ScheduleShape, warmup: int) -> None:
    assert lr_factors(ScheduleSpec(warmup_steps=warmup, shape=shape), 1) == (1.0,)


def test_multi_step_falls_at_its_shares_of_the_run() -> None:
    schedule = ScheduleSpec(warmup_steps=0, shape=named_shape("deepseek_multi_step"))
    factors = lr_factors(schedule, 10)
    assert factors == (1.0,) * 8 + (0.316, 0.1)


def test_multi_step_milestone_at_zero_holds_from_the_start() -> None:
    shape = MultiStepShape(milestones=(0.0,), factors=(0.5,))
    assert lr_factors(ScheduleSpec(warmup_steps=0, shape=shape), 3) == (0.5,) * 3


def test_each_restart_begins_at_its_share_of_the_one_before() -> None:
    shape = WarmRestartsShape(num_cycles=3, restart_factor=0.7)
    factors = lr_factors(ScheduleSpec(warmup_steps=0, shape=shape), 30)
    assert [factors[i] for i in (0, 10, 20)] == pytest.approx([1.0, 0.7, 0.49])


def test_piecewise_meets_at_its_joints() -> None:
    factors = lr_factors(ScheduleSpec(warmup_steps=0, shape=LINE), 1000)
    assert max(abs(a - b) for a, b in itertools.pairwise(factors)) < 0.002


def test_piecewise_begins_where_the_warmup_ends() -> None:
    schedule = ScheduleSpec(warmup_steps=20, shape=LINE)
    assert lr_factor(schedule, 20, 100) == 1.0
    assert lr_factor(schedule, 35, 100) == pytest.approx(0.7)


def test_deepseek_v3_holds_decays_and_drops_to_its_tail() -> None:
    factors = lr_factors(ScheduleSpec(warmup_steps=2, shape=V3), 100)
    assert factors[67] == 1.0
    assert factors[82] == pytest.approx(0.55, abs=1e-9)
    assert factors[97] == 0.1
    assert factors[98:] == (0.033, 0.033)


def test_sqrt_decay_falls_faster_at_first_than_linear_decay() -> None:
    sqrt, linear = (
        ScheduleSpec(warmup_steps=0, shape=named_shape(f"wsd20_{shape}"))
        for shape in ("sqrt", "linear")
    )
    assert lr_factor(sqrt, 81, 100) == pytest.approx(1 - math.sqrt(1 / 20))
    assert lr_factor(sqrt, 81, 100) < lr_factor(linear, 81, 100)


def test_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SpecError, match=r"space.schedule .*'wsd20_sqt'.*'wsd20_sqrt'"):
        named_shape("wsd20_sqt", path="space.schedule")


def test_phase_holds_until_its_share_and_the_last_one_to_the_end() -> None:
    phases = (
        PhaseSpec(until_fraction=0.5, value=0.3),
        PhaseSpec(until_fraction=0.8, value=0.1),
    )
    values = [phase_value(phases, step, 10) for step in range(10)]
    assert values == [0.3] * 5 + [0.1] * 5


def test_no_phases_mean_zero() -> None:
    assert phase_value((), 0, 1) == 0.0


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: LinearShape(final_factor=-0.1), "final_factor"),
        (lambda: CosineShape(final_factor=1.5), "final_factor"),
        (lambda: WSDShape(decay_fraction=1.5), "decay_fraction"),
        (lambda: WarmRestartsShape(num_cycles=0), "num_cycles"),
        (lambda: MultiStepShape(milestones=(0.5,), factors=(2.0,)), "factors"),
    ],
)
def test_impossible_shape_is_refused(make: object, field: str) -> None:
    assert callable(make)
    with pytest.raises(SpecError, match=field):
        make()
