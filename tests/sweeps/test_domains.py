from math import log2
from typing import Any

import pytest

from scaling.priors import tau_law
from simulator.schedules import named_shape
from simulator.specs.errors import SpecError
from simulator.specs.schedule import CosineShape, ScheduleShape
from sweeps.domains import ResolvedSpace, published_name, resolve_space
from sweeps.scales import transfer_of
from sweeps.space import warmup_steps_of
from sweeps.spec import ChoiceDomain, FloatDomain
from sweeps.tables.search import PeakLrTable, SpaceTable, TauTable, WeightDecayTable
from tests.sweeps.sweep_specs import make_sweep

TRANSFER = transfer_of(make_sweep())
OWN = CosineShape(final_factor=0.033)


def space(shape: ScheduleShape = OWN, **table: Any) -> ResolvedSpace:
    return resolve_space(SpaceTable(**table), TRANSFER, shape, None)


def domain(found: ResolvedSpace, name: str) -> FloatDomain | ChoiceDomain:
    (one,) = [domain for domain in found.spec.domains if domain.name == name]
    return one


def test_every_dimension_has_one_domain() -> None:
    names = [domain.name for domain in space().spec.domains]
    assert names == ["peak_lr", "tau", "warmup_ratio", "schedule"]


def test_the_default_range_of_rates_spans_six_octaves() -> None:
    found = domain(space(), "peak_lr")
    assert isinstance(found, FloatDomain)
    assert log2(found.high / found.low) == pytest.approx(6.0, abs=2e-3)


def test_a_given_centre_is_the_middle() -> None:
    found = domain(space(peak_lr=PeakLrTable(centre=1e-2, octaves=4.0)), "peak_lr")
    assert found == FloatDomain(name="peak_lr", low=2.5e-3, high=4e-2)


def test_given_bounds_are_kept() -> None:
    found = domain(space(peak_lr=PeakLrTable(low=1e-3, high=3e-3)), "peak_lr")
    assert found == FloatDomain(name="peak_lr", low=1e-3, high=3e-3)


def test_timescales_are_multiples_of_the_law() -> None:
    found = domain(space(), "tau")
    assert isinstance(found, ChoiceDomain)
    law = tau_law(TRANSFER.proxy.tokens_per_param)
    factors = [float(value) / law for value in found.values]
    assert factors == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 8.0], rel=1e-3)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"tau": TauTable(values=(0.1, 0.2))}, ChoiceDomain(name="tau", values=(0.1, 0.2))),
        ({"tau": TauTable(low=0.1, high=0.9)}, FloatDomain(name="tau", low=0.1, high=0.9)),
        (
            {"weight_decay": WeightDecayTable(values=(0.1, 0.1, 0.2))},
            ChoiceDomain(name="weight_decay", values=(0.1, 0.2)),
        ),
        (
            {"weight_decay": WeightDecayTable(low=0.01, high=1.0)},
            FloatDomain(name="weight_decay", low=0.01, high=1.0),
        ),
    ],
)
def test_decay_can_be_written_otherwise(
    table: dict[str, Any], expected: FloatDomain | ChoiceDomain
) -> None:
    found = space(**table)
    assert domain(found, expected.name) == expected
    assert len(found.spec.domains) == 4


def test_warmups_of_as_many_steps_are_merged_and_reported() -> None:
    found = space(warmup_ratio=(0.02, 0.03, 0.06, 0.2))  # of 20 steps: 1, 1, 1, 4
    levels = domain(found, "warmup_ratio")
    assert levels == ChoiceDomain(name="warmup_ratio", values=(0.02, 0.2))
    merged = [note for note in found.notes if "merged" in note]
    assert [note.split()[1] for note in merged] == ["0.03", "0.06"]


def test_warmup_levels_differ_in_steps() -> None:
    levels = domain(space(), "warmup_ratio")
    assert isinstance(levels, ChoiceDomain)
    steps = [warmup_steps_of(float(ratio), TRANSFER.proxy.num_steps) for ratio in levels.values]
    assert len(set(steps)) == len(steps)


def test_the_targets_own_schedule_is_among_the_choices() -> None:
    found = space()
    schedules = domain(found, "schedule")
    assert isinstance(schedules, ChoiceDomain)
    assert schedules.values == (
        "linear_to_zero",
        "wsd20_sqrt",
        "cosine_to_10pct",
        "target_published",
    )
    assert {named.name: named.shape for named in found.spec.schedules}["target_published"] == OWN


def test_an_own_schedule_that_is_a_common_one_goes_by_its_name() -> None:
    found = space(CosineShape(final_factor=0.1))
    schedules = domain(found, "schedule")
    assert isinstance(schedules, ChoiceDomain)
    assert schedules.values == ("linear_to_zero", "wsd20_sqrt", "cosine_to_10pct")
    assert "space.schedule target_published is cosine_to_10pct" in found.notes


def test_the_targets_schedule_is_known_even_when_it_is_not_searched() -> None:
    found = space(schedule=("constant",))
    schedules = domain(found, "schedule")
    assert isinstance(schedules, ChoiceDomain)
    assert schedules.values == ("constant",)
    assert [named.name for named in found.spec.schedules] == ["constant", "target_published"]


def test_an_unknown_schedule_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="wsd20_sqrt") as caught:
        space(schedule=("wsd20_sqr",))
    assert caught.value.path == "space.schedule"


def test_a_named_shape_is_found_by_its_shape() -> None:
    assert published_name(named_shape("wsd20_sqrt")) == "wsd20_sqrt"
    assert published_name(OWN) == "target_published"
