from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.transfer import RecipePoint, map_to_target, point_of
from simulator.specs.errors import SpecError
from sweeps.incumbent import incumbent_from_recipe, incumbent_from_table
from sweeps.scales import transfer_of
from sweeps.spec import ChoiceDomain, FloatDomain
from sweeps.tables.search import IncumbentTable
from tests.sweeps.sweep_specs import make_space, make_sweep

SWEEP = make_sweep()
TRANSFER = transfer_of(SWEEP)
SPACE = SWEEP.space
BY_DECAY = make_space(
    domains=(
        *(domain for domain in SPACE.domains if domain.name != "tau"),
        FloatDomain(name="weight_decay", low=0.01, high=1.0),
    )
)
NUM_STEPS = SWEEP.base.num_steps


def recipe(**changes: object) -> RecipePoint:
    fields: dict[str, object] = {
        "matrix_lr": 6e-4,
        "weight_decay": 0.1,
        "warmup_steps": 40,
        "schedule": "cosine_to_10pct",
    }
    return RecipePoint(**(fields | changes))  # type: ignore[arg-type]


def table(**changes: object) -> IncumbentTable:
    fields: dict[str, object] = {
        "peak_lr": 5e-3,
        "tau": 0.2,
        "warmup_ratio": 0.1,
        "schedule": "wsd20_sqrt",
    }
    return IncumbentTable(**(fields | changes))  # type: ignore[arg-type]


@given(lr=st.floats(5e-4, 1e-3), decay=st.floats(0.01, 1.0))
def test_the_recipe_maps_back_to_itself(lr: float, decay: float) -> None:
    point = recipe(matrix_lr=lr, weight_decay=decay)
    found = incumbent_from_recipe(point, SPACE, TRANSFER, source="here")
    assert found.flags == ()
    back = point_of(map_to_target(found.spec.params, TRANSFER))
    assert back.matrix_lr == pytest.approx(lr)
    assert back.weight_decay == pytest.approx(decay)
    assert back.schedule == point.schedule


def test_the_source_is_named() -> None:
    found = incumbent_from_recipe(recipe(), SPACE, TRANSFER, source="arXiv 1")
    assert found.spec.source == "arXiv 1, mapped to the proxy"


def test_a_rate_outside_the_range_runs_at_its_edge_and_is_flagged() -> None:
    found = incumbent_from_recipe(recipe(matrix_lr=1.0), SPACE, TRANSFER, source="here")
    assert found.spec.params["peak_lr"] == 6.4e-2
    assert [flag.code for flag in found.flags] == ["incumbent_outside_range"]


def test_a_warmup_of_a_levels_steps_is_that_level() -> None:
    point = recipe(warmup_steps=round(0.11 * SWEEP.target.num_steps))  # 2.2 steps of 20
    found = incumbent_from_recipe(point, SPACE, TRANSFER, source="here")
    assert found.spec.params["warmup_ratio"] == 0.1


def test_a_warmup_between_the_levels_stays_as_it_is() -> None:
    point = recipe(warmup_steps=round(0.5 * SWEEP.target.num_steps))
    found = incumbent_from_recipe(point, SPACE, TRANSFER, source="here")
    assert found.spec.params["warmup_ratio"] == pytest.approx(0.5, abs=0.01)


def test_the_decay_goes_by_the_searched_name() -> None:
    assert "tau" in incumbent_from_recipe(recipe(), SPACE, TRANSFER, source="x").spec.params
    by_decay = incumbent_from_recipe(recipe(), BY_DECAY, TRANSFER, source="x").spec.params
    assert "weight_decay" in by_decay
    assert "tau" not in by_decay


def test_what_the_user_wrote_is_the_incumbent() -> None:
    found = incumbent_from_table(table(), SPACE, NUM_STEPS)
    assert found.spec.params == {
        "peak_lr": 5e-3,
        "tau": 0.2,
        "warmup_ratio": 0.1,
        "schedule": "wsd20_sqrt",
    }
    assert found.space == SPACE


def test_a_decay_in_other_terms_is_converted() -> None:
    written = table(tau=None, weight_decay=1.0 / (5e-3 * 0.2 * NUM_STEPS))
    as_tau = incumbent_from_table(written, SPACE, NUM_STEPS).spec.params
    assert as_tau["tau"] == pytest.approx(0.2)
    as_decay = incumbent_from_table(table(), BY_DECAY, NUM_STEPS).spec.params
    assert as_decay["weight_decay"] == pytest.approx(1.0 / (5e-3 * 0.2 * NUM_STEPS))
    kept = incumbent_from_table(written, BY_DECAY, NUM_STEPS).spec.params
    assert kept["weight_decay"] == written.weight_decay


def test_a_schedule_that_is_not_searched_becomes_known() -> None:
    found = incumbent_from_table(table(schedule="constant"), SPACE, NUM_STEPS)
    assert [named.name for named in found.space.schedules][-1] == "constant"
    (schedules,) = [domain for domain in found.space.domains if domain.name == "schedule"]
    assert isinstance(schedules, ChoiceDomain)
    assert "constant" not in schedules.values


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        incumbent_from_table(table(schedule="constantly"), SPACE, NUM_STEPS)
    assert caught.value.path == "incumbent.schedule"


def test_a_space_of_listed_rates_is_searched_within_them() -> None:
    rates = ChoiceDomain(name="peak_lr", values=(1e-3, 1e-2))
    others = (domain for domain in SPACE.domains if domain.name != "peak_lr")
    space = replace(SPACE, domains=(rates, *others))
    found = incumbent_from_recipe(recipe(matrix_lr=1.0), space, TRANSFER, source="here")
    assert found.spec.params["peak_lr"] == 1e-2
