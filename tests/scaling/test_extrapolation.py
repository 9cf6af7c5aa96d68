import pytest

from scaling.extrapolation import batch_flags, extrapolation_flags, is_batch_saturated
from scaling.scale import RunScale, Transfer
from simulator.targets.reader import read_target
from simulator.targets.recipes import find_recipe
from tests.builders import make_model, widen
from tests.scaling.transfers import make_parametrisation, make_scale, make_transfer


def severities(transfer: Transfer) -> dict[str, str]:
    return {flag.code: flag.severity for flag in extrapolation_flags(transfer)}


def test_the_same_run_at_eight_times_the_width_raises_nothing() -> None:
    assert severities(make_transfer(target=make_scale())) == {}


@pytest.mark.parametrize(
    ("factor", "severity"), [(10, None), (11, "amber"), (100, "amber"), (101, "red")]
)
@pytest.mark.parametrize("is_longer", [True, False])
def test_horizon_limits(factor: int, severity: str | None, *, is_longer: bool) -> None:
    short, long = make_scale(), make_scale(num_tokens=factor * 512_000)
    transfer = make_transfer(
        proxy=short if is_longer else long, target=long if is_longer else short
    )
    assert severities(transfer).get("horizon_extrapolation") == severity


@pytest.mark.parametrize(("factor", "is_flagged"), [(4, False), (5, True)])
def test_batch_further_than_two_octaves(factor: int, *, is_flagged: bool) -> None:
    for transfer in (
        make_transfer(target=make_scale(batch_tokens=factor * 512)),
        make_transfer(proxy=make_scale(batch_tokens=factor * 512), target=make_scale()),
    ):
        assert ("batch_extrapolation" in severities(transfer)) is is_flagged


@pytest.mark.parametrize(
    ("active_params", "is_flagged"),
    [(499_000, True), (500_000, False), (2_000_000, False), (2_010_000, True)],
)
def test_tokens_per_parameter_must_agree_within_a_factor_two(
    active_params: int, *, is_flagged: bool
) -> None:
    transfer = make_transfer(target=make_scale(active_params=active_params))
    assert severities(transfer).get("tokens_per_param_mismatch") == (
        "amber" if is_flagged else None
    )


def test_width_beyond_sixteen_is_amber() -> None:
    wide = make_parametrisation(target=widen(make_model(), 32))
    assert severities(make_transfer(target=make_scale(), parametrisation=wide)) == {
        "width_extrapolation": "amber"
    }


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "kimi-k2"])
def test_published_batches_are_not_red(name: str) -> None:
    recipe = find_recipe(read_target(name))
    assert recipe is not None
    scale = RunScale(
        active_params=10**10,
        num_tokens=recipe.num_tokens,
        batch_tokens=recipe.global_batch_tokens,
    )
    assert is_batch_saturated(scale)
    assert [flag.severity for flag in batch_flags(scale, "target")] == ["amber"]


def test_a_batch_beyond_the_critical_one_is_red() -> None:
    scale = RunScale(active_params=10**9, num_tokens=10**9, batch_tokens=2**23)
    assert [flag.severity for flag in batch_flags(scale, "proxy")] == ["red"]
