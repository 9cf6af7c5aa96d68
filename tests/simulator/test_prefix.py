"""What runs share is exactly what is alike, and nothing is trained twice or not at all."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix import Stretch, count_steps, divide, one_trunk_ladder, share_prefixes
from simulator.schedules import lr_factor, phase_value
from simulator.specs.errors import SpecError
from simulator.specs.run import EvalSpec, PhaseSpec, RunSpec
from simulator.specs.schedule import CosineShape, LinearShape, ScheduleShape, ScheduleSpec, WSDShape
from tests.builders import make_run

BASE = make_run()


def wsd(decay_fraction: float, decay_shape: str = "sqrt") -> WSDShape:
    return WSDShape(decay_fraction=decay_fraction, decay_shape=decay_shape)  # type: ignore[arg-type]


def vary(
    *,
    shape: ScheduleShape,
    num_steps: int = 400,
    warmup: int = 20,
    lr: float = 1e-3,
    decay: float = 0.1,
    seed: int = 0,
) -> RunSpec:
    """Without the phases of ``BASE``, so that only the learning rate is prescribed."""
    return replace(
        BASE,
        schedule=ScheduleSpec(warmup_steps=warmup, shape=shape),
        num_steps=num_steps,
        optimizer=replace(BASE.optimizer, peak_lr=lr, weight_decay=decay),
        init_seed=seed,
        mtp_weight=(PhaseSpec(until_fraction=1.0, value=0.3),),
        bias_rate=(),
    )


@st.composite
def sweeps_of_runs(draw: st.DrawFn) -> list[RunSpec]:
    """Runs that are likely to share something."""
    count = draw(st.integers(1, 8))
    shapes = st.sampled_from(
        [wsd(0.25), wsd(0.5), wsd(0.5, "linear"), LinearShape(), CosineShape()]
    )
    return [
        replace(
            BASE,
            schedule=ScheduleSpec(
                warmup_steps=draw(st.sampled_from([0, 2, 4])), shape=draw(shapes)
            ),
            num_steps=draw(st.sampled_from([8, 12, 16])),
            optimizer=replace(BASE.optimizer, peak_lr=draw(st.sampled_from([1e-3, 2e-3]))),
            eval=EvalSpec(interval_steps=draw(st.sampled_from([2, 5]))),
            init_seed=draw(st.integers(0, 1)),
        )
        for _ in range(count)
    ]


def prescribed(spec: RunSpec, step: int) -> tuple[float, float, float]:
    return (
        spec.optimizer.peak_lr * lr_factor(spec.schedule, step, spec.num_steps),
        phase_value(spec.mtp_weight, step, spec.num_steps),
        phase_value(spec.bias_rate, step, spec.num_steps),
    )


def way_of(run: int, stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches of a run, in order."""
    for stretch in stretches:
        if run in stretch.runs:
            return [stretch, *way_of(run, stretch.children)]
    return []


def all_of(stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    for stretch in stretches:
        yield stretch
        yield from all_of(stretch.children)


@given(sweeps_of_runs())
def test_stretches_of_a_run_are_its_own_steps(specs: list[RunSpec]) -> None:
    roots = share_prefixes(specs)
    for run, spec in enumerate(specs):
        way = way_of(run, roots)
        steps = [step for stretch in way for step in range(stretch.start, stretch.stop)]
        assert steps == [*range(spec.num_steps)]
        for stretch in way:
            owner = specs[stretch.runs[0]]
            for step in range(stretch.start, stretch.stop):
                assert prescribed(owner, step) == prescribed(spec, step)


@given(sweeps_of_runs())
def test_stretches_part_only_where_runs_differ_or_end(specs: list[RunSpec]) -> None:
    for stretch in all_of(share_prefixes(specs)):
        nexts = {
            prescribed(specs[run], stretch.stop)
            for run in stretch.runs
            if specs[run].num_steps > stretch.stop
        }
        ends = any(specs[run].num_steps == stretch.stop for run in stretch.runs)
        assert len(stretch.children) == len(nexts)
        assert ends or len(nexts) > 1


@given(sweeps_of_runs())
def test_sharing_never_adds_steps_and_can_be_switched_off(specs: list[RunSpec]) -> None:
    alone = sum(spec.num_steps for spec in specs)
    assert count_steps(share_prefixes(specs)) <= alone
    roots = share_prefixes(specs, is_shared=False)
    assert count_steps(roots) == alone
    assert [root.runs for root in roots] == [(run,) for run in range(len(specs))]


@given(sweeps_of_runs())
def test_first_runs_own_and_order_the_roots(specs: list[RunSpec]) -> None:
    roots = share_prefixes(specs)
    assert [root.runs[0] for root in roots] == sorted(root.runs[0] for root in roots)
    for stretch in all_of(roots):
        assert list(stretch.runs) == sorted(stretch.runs)


def test_equal_runs_share_everything() -> None:
    (root,) = share_prefixes([BASE, replace(BASE, eval=EvalSpec(interval_steps=7))])
    assert root == Stretch(runs=(0, 1), start=0, stop=BASE.num_steps, children=())


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, data_seed=1),
        replace(BASE, init_seed=1),
        replace(BASE, optimizer=replace(BASE.optimizer, weight_decay=0.2)),
        replace(BASE, optimizer=replace(BASE.optimizer, beta2=0.9)),
        replace(BASE, batch=replace(BASE.batch, global_batch_sequences=4)),
        replace(BASE, bias_rate=(PhaseSpec(until_fraction=1.0, value=1e-3),)),
        replace(BASE, mtp_weight=(PhaseSpec(until_fraction=1.0, value=0.2),)),
    ],
)
def test_runs_that_differ_in_what_acts_share_nothing(other: RunSpec) -> None:
    assert len(share_prefixes([BASE, other])) == 2


def test_steeper_warmup_to_a_higher_peak_is_shared_until_the_lower_one() -> None:
    low = vary(shape=wsd(0.2), lr=1e-3, warmup=20)
    high = vary(shape=wsd(0.2), lr=2e-3, warmup=40)
    (root,) = share_prefixes([low, high])
    assert (root.start, root.stop) == (0, 20)


def test_shorter_run_ends_inside_the_longer_ones_trunk() -> None:
    """The decay of the shorter one begins at step 80, whose factor is still 1."""
    short, long = vary(shape=wsd(0.0), num_steps=100), vary(shape=wsd(0.2), num_steps=400)
    (root,) = share_prefixes([short, long])
    assert root == Stretch((0, 1), 0, 100, (Stretch((1,), 100, 400, ()),))


STARTS = [(wsd(fraction), 400) for fraction in (0.1, 0.2, 0.3, 0.4)]
HORIZONS = [(wsd(0.2), steps) for steps in (100, 200, 300, 400)]
MIXED: list[tuple[ScheduleShape, int]] = [(CosineShape(), 400), *STARTS[1:]]
COSINES = [(CosineShape(), steps) for steps in (100, 200, 300, 400)]
SQUARE = [(wsd(0.1, shape), steps) for steps in (200, 400) for shape in ("sqrt", "linear")]


def grid(axis: Sequence[tuple[ScheduleShape, int]], *, warmups: Sequence[int]) -> list[RunSpec]:
    return [
        vary(shape=shape, num_steps=steps, warmup=warmup, lr=lr, decay=decay)
        for warmup, decay, lr in product(warmups, (0.05, 0.1, 0.2), (1e-3, 2e-3, 4e-3, 8e-3))
        for shape, steps in axis
    ]


@pytest.mark.parametrize(
    ("axis", "alone", "shared"),
    [
        (STARTS, 57600, 27072),
        (HORIZONS, 36000, 18432),
        (MIXED, 57600, 37776),
        (COSINES, 36000, 33264),
        (SQUARE, 43200, 16992),
    ],
)
def test_counted_grids(axis: list[tuple[ScheduleShape, int]], alone: int, shared: int) -> None:
    """Counted once by another program: 3 warm-ups x 3 decays x 4 peaks x 4 schedules."""
    specs = grid(axis, warmups=(8, 20, 40))
    assert sum(spec.num_steps for spec in specs) == alone
    assert count_steps(share_prefixes(specs)) == shared


def test_trunk_and_branches_add_up() -> None:
    """By hand: 361 shared steps at most, branches leave after steps 241, 281, 321 and 361."""
    specs = [vary(shape=shape) for shape, _ in STARTS]
    assert count_steps(share_prefixes(specs)) == 400 + (400 - 321) + (400 - 281) + (400 - 241)


@given(sweeps_of_runs(), st.integers(1, 5), st.booleans())
def test_cohorts_hold_every_run_once_and_part_no_sharers(
    specs: list[RunSpec], num_rows: int, is_shared: bool
) -> None:
    cohorts = divide(specs, num_rows=num_rows, is_shared=is_shared)
    assert sorted(run for cohort in cohorts for run in cohort) == [*range(len(specs))]
    roots = share_prefixes(specs, is_shared=is_shared)
    for cohort in cohorts:
        assert list(cohort) == sorted(cohort)
        inside = [root for root in roots if set(root.runs) & set(cohort)]
        assert len(inside) <= num_rows
        assert sum(len(root.runs) for root in inside) == len(cohort)


def test_runs_that_share_nothing_fill_the_rows_evenly() -> None:
    specs = [vary(shape=CosineShape(), seed=seed) for seed in range(10)]
    assert [len(cohort) for cohort in divide(specs, num_rows=4)] == [4, 3, 3]


def test_root_with_many_branches_fills_a_cohort() -> None:
    """The first works for four rows: 0.8 shared, 16 x 0.2 apart."""
    ends = np.linspace(0.05, 0.0, 16)
    bushy = [
        vary(shape=WSDShape(decay_fraction=0.2, final_factor=float(end)), seed=99) for end in ends
    ]
    single = [vary(shape=CosineShape(), seed=seed) for seed in range(4)]
    assert divide([*bushy, *single], num_rows=4) == (tuple(range(16)), (16, 17, 18, 19))


def test_trunks_with_branches_leave_work_for_a_second_cohort() -> None:
    """Four roots of 1.9 lengths each: one cohort of them would take nearly two lengths."""
    specs = [vary(shape=shape, lr=lr) for lr in (1e-3, 3e-3, 5e-3, 7e-3) for shape, _ in STARTS]
    assert [len(cohort) for cohort in divide(specs, num_rows=4)] == [8, 8]


def test_longest_roots_are_dealt_out_first() -> None:
    lengths = (100, 200, 300, 400)
    specs = [vary(shape=CosineShape(), num_steps=n, seed=n) for n in lengths]
    assert divide(specs, num_rows=2) == ((0, 3), (1, 2))


def test_no_runs_make_no_cohorts() -> None:
    assert share_prefixes([]) == ()
    assert divide([], num_rows=3) == ()


def test_hundred_long_runs_are_divided_quickly() -> None:
    axis = [(shape, 10_000) for shape, _ in STARTS]
    specs = grid(axis, warmups=(100, 250, 500))[:100]
    began = time.process_time()
    divide(specs, num_rows=16)
    assert time.process_time() - began < 3.0


RUNG = replace(BASE, schedule=ScheduleSpec(warmup_steps=5, shape=wsd(0.2)), num_steps=100)


@given(
    st.lists(st.integers(5, 400), min_size=1, max_size=5, unique=True),
    st.floats(0.0, 1.0, exclude_min=True),
)
def test_rungs_share_one_trunk(horizons: list[int], until: float) -> None:
    spec = replace(
        RUNG,
        mtp_weight=(
            PhaseSpec(until_fraction=until, value=0.3),
            PhaseSpec(until_fraction=1.0, value=0.1),
        ),
    )
    roots = share_prefixes(one_trunk_ladder(spec, horizons))
    decays = [num_steps - int(num_steps * 0.8) for num_steps in horizons]
    assert len(roots) == 1
    assert count_steps(roots) <= max(horizons) + sum(sorted(decays)[:-1])


def test_rungs_hold_decay_and_warmup_steps_and_decay_over_one_share() -> None:
    short, long = one_trunk_ladder(RUNG, [100, 400])
    assert short.optimizer == long.optimizer == RUNG.optimizer
    assert short.schedule == long.schedule == RUNG.schedule
    assert (short.num_steps, long.num_steps) == (100, 400)


def test_ladder_without_a_trunk_is_refused() -> None:
    spec = replace(RUNG, schedule=ScheduleSpec(warmup_steps=5, shape=CosineShape()))
    with pytest.raises(SpecError, match=r"decay coefficient and warmup steps.*got 'cosine'"):
        one_trunk_ladder(spec, [100, 200])


@pytest.mark.parametrize("horizons", [[], [0, 100]])
def test_ladder_of_no_length_is_refused(horizons: list[int]) -> None:
    with pytest.raises(SpecError, match="positive numbers of steps"):
        one_trunk_ladder(RUNG, horizons)
