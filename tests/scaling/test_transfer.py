from dataclasses import replace
from math import isclose, log2
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scaling.priors import step_law_lr, tau_law
from scaling.scale import Exponents, RunScale, Transfer
from scaling.transfer import (
    RecipePoint,
    lr_std_octaves,
    map_to_proxy,
    map_to_target,
    point_of,
)
from simulator.records.summary import TargetRecipe
from simulator.specs.errors import SpecError
from tests.scaling.transfers import (
    PARAMS,
    make_parametrisation,
    make_scale,
    make_transfer,
    transfers,
)

WEIGHT_DECAY_PARAMS = {
    "peak_lr": 4e-3,
    "weight_decay": 0.1,
    "warmup_ratio": 0.06,
    "schedule": "linear_to_zero",
}


def codes(recipe: TargetRecipe) -> dict[str, str]:
    return {flag.code: flag.severity for flag in recipe.flags}


def tau_of(recipe: TargetRecipe) -> float:
    return 1.0 / (recipe.matrix_lr * recipe.weight_decay * recipe.num_steps)


def test_width_alone_divides_the_matrices_rate_and_multiplies_their_decay() -> None:
    recipe = map_to_target(WEIGHT_DECAY_PARAMS, make_transfer(target=make_scale()))
    assert recipe.peak_lr == recipe.embedding_lr == 4e-3
    assert recipe.matrix_lr == 4e-3 / 8
    assert recipe.weight_decay == pytest.approx(0.8)


def test_target_anchor_gives_the_target_one_rate() -> None:
    transfer = make_transfer(
        target=make_scale(), parametrisation=make_parametrisation(anchor="target")
    )
    recipe = map_to_target(WEIGHT_DECAY_PARAMS, transfer)
    assert recipe.peak_lr == recipe.matrix_lr == recipe.embedding_lr == 4e-3
    assert recipe.weight_decay == pytest.approx(0.1)


@pytest.mark.parametrize("anchor", ["proxy", "target"])
def test_equal_tokens_per_parameter_keep_the_timescale(anchor: str) -> None:
    transfer = make_transfer(parametrisation=make_parametrisation(anchor=anchor))
    assert tau_of(map_to_target(PARAMS, transfer)) == pytest.approx(PARAMS["tau"])


def test_timescale_keeps_its_multiple_of_the_law() -> None:
    """0.53 here against 0.527 in the law: 0.7 % over a factor 10."""
    transfer = make_transfer(target=make_scale(num_tokens=5_120_000))
    found = tau_of(map_to_target(PARAMS, transfer)) / tau_law(transfer.target.tokens_per_param)
    expected = float(PARAMS["tau"]) / tau_law(transfer.proxy.tokens_per_param)
    assert found == pytest.approx(expected, rel=0.01)


def test_longer_horizon_lowers_the_rate() -> None:
    target = make_scale(num_tokens=8 * 512_000)
    recipe = map_to_target(PARAMS, make_transfer(target=target))
    assert recipe.peak_lr == pytest.approx(4e-3 * 8**-0.32)


def test_larger_batch_raises_the_rate_by_its_root() -> None:
    recipe = map_to_target(PARAMS, make_transfer(target=make_scale(batch_tokens=4 * 512)))
    assert recipe.peak_lr == pytest.approx(4e-3 * 2)


def test_batch_past_twice_the_optimal_one_earns_nothing() -> None:
    recipe = map_to_target(PARAMS, make_transfer(target=make_scale(batch_tokens=64 * 512)))
    assert recipe.peak_lr == pytest.approx(4e-3)
    assert codes(recipe)["target_batch_over_optimal"] == "amber"


def test_no_decay_stays_no_decay() -> None:
    recipe = map_to_target(WEIGHT_DECAY_PARAMS | {"weight_decay": 0.0}, make_transfer())
    assert recipe.weight_decay == 0.0


def test_interval_is_the_delta_method_in_log_space() -> None:
    """Horizon x8, batch x4, width x8: no doubling, three independent parts."""
    transfer = make_transfer(target=make_scale(num_tokens=8 * 512_000, batch_tokens=4 * 512))
    expected = ((0.12 * 3) ** 2 + (0.15 * 2) ** 2 + (0.2 * 3) ** 2) ** 0.5
    assert lr_std_octaves(transfer) == pytest.approx(expected)
    recipe = map_to_target(PARAMS, transfer)
    low, high = recipe.lr_interval_80
    assert log2(high / recipe.peak_lr) == pytest.approx(1.2815515655 * expected)
    assert low * high == pytest.approx(recipe.peak_lr**2)


def test_interval_of_horizon_and_batch_doubles_past_a_factor_ten() -> None:
    exponents = Exponents(drift_std_octaves=0.0)
    target = make_scale(num_tokens=16 * 512_000)
    transfer = make_transfer(target=target, exponents=exponents)
    assert lr_std_octaves(transfer) == pytest.approx(2 * 0.12 * 4)


def test_same_run_leaves_the_width_as_the_only_doubt() -> None:
    """0.2 octave per doubling: 0.6 octave over a factor 8."""
    assert lr_std_octaves(make_transfer(target=make_scale())) == pytest.approx(0.6)


@given(transfers(), st.floats(1e-5, 1e-1), st.floats(0.01, 10.0), st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_maps_are_inverse_with_a_timescale(
    transfer: Transfer, peak_lr: float, tau: float, ratio: float
) -> None:
    params: dict[str, float | str] = {
        "peak_lr": peak_lr,
        "tau": tau,
        "warmup_ratio": ratio,
        "schedule": "wsd20_sqrt",
    }
    assert_same(params, back(params, transfer, "tau"), transfer)


@given(transfers(), st.floats(1e-5, 1e-1), st.floats(0.0, 10.0), st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_maps_are_inverse_with_a_decay(
    transfer: Transfer, peak_lr: float, weight_decay: float, ratio: float
) -> None:
    params: dict[str, float | str] = {
        "peak_lr": peak_lr,
        "weight_decay": weight_decay,
        "warmup_ratio": ratio,
        "schedule": "wsd20_sqrt",
    }
    assert_same(params, back(params, transfer, "weight_decay"), transfer)


def back(
    params: dict[str, float | str], transfer: Transfer, decay: Literal["tau", "weight_decay"]
) -> dict[str, float | str]:
    return map_to_proxy(point_of(map_to_target(params, transfer)), transfer, decay=decay)


def assert_same(
    params: dict[str, float | str], found: dict[str, float | str], transfer: Transfer
) -> None:
    """Equal to rounding; the warmup to half a step of the target, and above its floor."""
    assert found.keys() == params.keys()
    assert found["schedule"] == params["schedule"]
    for name in {"peak_lr", "tau", "weight_decay"} & params.keys():
        assert isclose(float(found[name]), float(params[name]), rel_tol=1e-9, abs_tol=1e-300)
    num_steps = transfer.target.num_steps
    wanted, got = (
        float(params["warmup_ratio"]) * num_steps,
        float(found["warmup_ratio"]) * num_steps,
    )
    assert got >= wanted - 0.5001
    if wanted > max(200, 0.1 * num_steps):
        assert got <= wanted + 0.5001


@given(transfers(), st.floats(1e-6, 1e-2), st.floats(0.001, 1.0))
@settings(max_examples=60)
def test_published_recipe_survives_the_way_down_and_up(
    transfer: Transfer, lr: float, decay: float
) -> None:
    steps = transfer.target.num_steps
    assume(steps >= 2000)
    point = RecipePoint(
        matrix_lr=lr, weight_decay=decay, warmup_steps=max(200, steps // 9), schedule="s"
    )
    found = point_of(map_to_target(map_to_proxy(point, transfer), transfer))
    assert isclose(found.matrix_lr, point.matrix_lr, rel_tol=1e-9)
    assert isclose(found.weight_decay, point.weight_decay, rel_tol=1e-9)
    assert found.warmup_steps == point.warmup_steps


def test_deepseek_v3s_own_timescale_is_a_fifth_of_its_run() -> None:
    same = RunScale(
        active_params=36_000_000_000, num_tokens=14_800_000_000_000, batch_tokens=15_360 * 4096
    )
    point = RecipePoint(matrix_lr=2.2e-4, weight_decay=0.1, warmup_steps=2000, schedule="s")
    params = map_to_proxy(point, make_transfer(proxy=same, target=same))
    assert params["tau"] == pytest.approx(0.19, abs=0.005)


def test_a_recipe_without_decay_has_no_timescale() -> None:
    point = RecipePoint(matrix_lr=1e-3, weight_decay=0.0, warmup_steps=10, schedule="s")
    with pytest.raises(SpecError, match=r"incumbent\.weight_decay must be > 0"):
        map_to_proxy(point, make_transfer())
    assert map_to_proxy(point, make_transfer(), decay="weight_decay")["weight_decay"] == 0


@pytest.mark.parametrize(
    ("ratio", "num_steps", "steps", "flag"),
    [
        (0.06, 10_000, 600, None),
        (0.005, 10_000, 200, "warmup_floor"),
        (0.02, 500, 50, "warmup_floor_capped"),
        (0.2, 500, 100, "warmup_floor_capped"),
        (0.5, 500, 250, None),
        (1.0, 1, 1, "warmup_floor_capped"),
    ],
)
def test_warmup_floor(ratio: float, num_steps: int, steps: int, flag: str | None) -> None:
    target = make_scale(num_tokens=num_steps * 512)
    recipe = map_to_target(PARAMS | {"warmup_ratio": ratio}, make_transfer(target=target))
    assert recipe.warmup_steps == steps
    found = [code for code in codes(recipe) if code.startswith("warmup")]
    assert found == ([flag] if flag else [])


def test_slow_second_moment_raises_the_warmup_floor() -> None:
    target = make_scale(num_tokens=100_000 * 512)
    transfer = make_transfer(target=target, beta2=0.999)
    assert map_to_target(PARAMS | {"warmup_ratio": 0.001}, transfer).warmup_steps == 2000


def test_step_law_warns_within_its_reach_and_only_remarks_outside() -> None:
    big = RunScale(active_params=10**9, num_tokens=10**11, batch_tokens=2**20)
    law = step_law_lr(big.active_params, big.num_tokens)

    def found(scale: RunScale, factor: float) -> str | None:
        transfer = make_transfer(proxy=scale, target=scale)
        lr = 8 * factor * step_law_lr(scale.active_params, scale.num_tokens)
        return codes(map_to_target(PARAMS | {"peak_lr": lr}, transfer)).get("step_law_disagrees")

    assert law > 0
    assert found(big, 3.9) is None
    assert found(big, 4.1) == "amber"
    assert found(big, 1 / 4.1) == "amber"
    assert found(make_scale(), 4.1) == "info"


@pytest.mark.parametrize(
    ("active", "tokens", "batch", "lr"),
    [
        (36_000_000_000, 14_800_000_000_000, 15_360 * 4096, 2.2e-4),
        (20_000_000_000, 8_100_000_000_000, 9216 * 4096, 2.4e-4),
        (31_000_000_000, 15_500_000_000_000, 2**26, 2e-4),
    ],
    ids=["V3", "V2", "Kimi-K2"],
)
def test_published_recipes_are_not_red_at_their_own_scale(
    active: int, tokens: int, batch: int, lr: float
) -> None:
    """Proxy with the same tokens per parameter and a 64th of the tokens."""
    target = RunScale(active_params=active, num_tokens=tokens, batch_tokens=batch)
    proxy = RunScale(active_params=active // 64, num_tokens=tokens // 64, batch_tokens=batch // 8)
    transfer = make_transfer(proxy=proxy, target=target)
    point = RecipePoint(matrix_lr=lr, weight_decay=0.1, warmup_steps=2000, schedule="s")
    recipe = map_to_target(map_to_proxy(point, transfer), transfer)
    assert "red" not in codes(recipe).values()
    assert "step_law_disagrees" not in codes(recipe)


def test_lower_rate_is_advised_where_the_interval_is_wide() -> None:
    assert "prefer_lower_lr" in codes(map_to_target(PARAMS, make_transfer()))
    sure = Exponents(beta_std=0.01, gamma_std=0.01, drift_std_octaves=0.05)
    transfer = make_transfer(target=make_scale(), exponents=sure)
    assert "prefer_lower_lr" not in codes(map_to_target(PARAMS, transfer))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak_lr": "high"}, "params.peak_lr must be a number; got 'high'"),
        ({"schedule": 3.0}, "params.schedule must be a name; got 3.0"),
        ({"weight_decay": 0.1}, "exactly one of tau and weight_decay"),
    ],
)
def test_a_wrong_parameter_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        map_to_target(PARAMS | change, make_transfer())


def test_a_missing_parameter_is_named() -> None:
    params = {name: value for name, value in PARAMS.items() if name != "warmup_ratio"}
    with pytest.raises(SpecError, match=r"params\.warmup_ratio must be a number; got None"):
        map_to_target(params, make_transfer())


def test_ratios_are_reported() -> None:
    recipe = map_to_target(PARAMS, make_transfer())
    assert recipe.ratios == {"width": 8, "tokens": 64, "batch": 64, "tokens_per_param": 1}


def test_exponents_of_an_own_ladder_replace_the_priors() -> None:
    transfer = make_transfer(target=make_scale(num_tokens=4 * 512_000))
    steep = replace(transfer, exponents=Exponents(beta=1.0))
    assert map_to_target(PARAMS, steep).peak_lr == pytest.approx(1e-3)
