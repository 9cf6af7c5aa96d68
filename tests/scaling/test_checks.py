from dataclasses import replace
from math import nan

import pytest

from scaling.checks import SweepChecks, plan_flags, sweep_checks
from scaling.lr_curve import LrPoint
from scaling.scale import Transfer
from simulator.counting.params import count_params
from tests.builders import make_model, widen
from tests.scaling.transfers import make_parametrisation, make_scale, make_transfer

LOW, HIGH = 1e-3, 64e-3
OCTAVES = (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)


def planned(transfer: Transfer | None = None, **changes: object) -> dict[str, str]:
    arguments: dict[str, object] = {"unique_tokens": 10**9, "is_synthetic": False}
    flags = plan_flags(transfer or make_transfer(), **(arguments | changes))  # type: ignore[arg-type]
    assert len({flag.code for flag in flags}) == len(flags)
    return {flag.code: flag.severity for flag in flags}


def checked(losses: list[float | None], **changes: object) -> SweepChecks:
    points = [
        LrPoint(peak_lr=LOW * 2**x, loss=loss) for x, loss in zip(OCTAVES, losses, strict=True)
    ]
    arguments: dict[str, object] = {"low": LOW, "high": HIGH, "unigram_entropy": 3.2}
    return sweep_checks(points, **({"noise_std": 0.01} | arguments | changes))  # type: ignore[arg-type]


SOUND: list[float | None] = [2.4, 2.25, 2.16, 2.13, 2.2, 2.5]


def test_plan_of_the_same_run_has_no_warning() -> None:
    assert "amber" not in planned(make_transfer(target=make_scale())).values()


def test_plan_holds_the_transfers_own_flags() -> None:
    short = make_transfer(target=make_scale(num_tokens=60 * 512_000))
    assert planned(short)["horizon_extrapolation"] == "amber"
    assert planned(short)["tokens_per_param_mismatch"] == "amber"


@pytest.mark.parametrize(("batch", "is_flagged"), [(255, True), (256, False)])
def test_experts_need_64_tokens_a_step(batch: int, *, is_flagged: bool) -> None:
    """Two of eight experts a token."""
    scale = make_scale(batch_tokens=batch)
    found = planned(make_transfer(proxy=scale, target=scale))
    assert ("tokens_per_expert" in found) is is_flagged


def test_dense_proxies_have_no_experts_to_starve() -> None:
    dense = make_model(moe=None)
    parametrisation = make_parametrisation(proxy=dense, target=widen(dense))
    scale = make_scale(batch_tokens=8)
    transfer = make_transfer(proxy=scale, target=scale, parametrisation=parametrisation)
    assert "tokens_per_expert" not in planned(transfer)


@pytest.mark.parametrize(
    ("unique", "is_flagged"), [(127_999, True), (128_000, False), (None, False)]
)
def test_four_passes_over_the_data_are_the_limit(unique: int | None, *, is_flagged: bool) -> None:
    assert ("repeated_data" in planned(unique_tokens=unique)) is is_flagged


def test_embedding_share_over_half_is_flagged() -> None:
    small, large = make_model(), make_model(vocab_size=16_384)
    for proxy, is_flagged in ((small, False), (large, True)):
        count = count_params(proxy)
        assert ((count.embedding + count.head) / count.total > 0.5) is is_flagged
        parametrisation = make_parametrisation(proxy=proxy, target=widen(proxy))
        found = planned(make_transfer(parametrisation=parametrisation))
        assert ("embedding_share" in found) is is_flagged


def test_proxy_batch_over_the_critical_one_is_red() -> None:
    proxy = make_scale(batch_tokens=128_000)
    assert planned(make_transfer(proxy=proxy))["proxy_batch_over_critical"] == "red"


def test_batch_far_over_the_width_is_a_remark() -> None:
    assert planned()["batch_over_width"] == "info"
    assert "batch_over_width" not in planned(make_transfer(target=make_scale()))


def test_a_rate_that_maps_back_vaguely_makes_gains_doubtful() -> None:
    assert planned()["incumbent_uncertain"] == "amber"
    assert "incumbent_uncertain" not in planned(make_transfer(target=make_scale()))


def test_synthetic_text_is_flagged() -> None:
    assert planned(is_synthetic=True)["synthetic_data"] == "amber"
    assert "synthetic_data" not in planned()


def test_sound_sweep_passes() -> None:
    checks = checked(SOUND)
    assert (checks.flags, checks.vacuous) == ((), ())
    assert checks.values["best_loss"] == 2.13
    assert checks.values["loss_below_unigram"] == pytest.approx(1 - 2.13 / 3.2)
    assert checks.values["lr_spread"] == pytest.approx(0.37)
    assert checks.values["lr_spread_in_noise"] == pytest.approx(37)
    assert checks.values["lr_optimum_octaves_from_edge"] == pytest.approx(2.7, abs=0.4)


def test_values_are_named_as_the_summary_names_them() -> None:
    assert set(checked(SOUND).values) == {
        "unigram_entropy",
        "best_loss",
        "loss_below_unigram",
        "lr_spread",
        "lr_spread_in_noise",
        "lr_optimum_octaves_from_edge",
    }


@pytest.mark.parametrize(("entropy", "is_vacuous"), [(2.15, True), (2.16, False)])
def test_loss_within_a_percent_of_the_unigram_entropy_is_vacuous(
    entropy: float, *, is_vacuous: bool
) -> None:
    assert bool(checked(SOUND, unigram_entropy=entropy).vacuous) is is_vacuous


@pytest.mark.parametrize(("noise_std", "is_vacuous"), [(0.12, False), (0.13, True)])
def test_curve_flatter_than_three_times_the_noise_is_vacuous(
    noise_std: float, *, is_vacuous: bool
) -> None:
    """Spread of 0.37 over the 16-fold window around the best, 1.5 to 5.5 octaves."""
    assert bool(checked(SOUND, noise_std=noise_std).vacuous) is is_vacuous


def test_divergence_beside_the_optimum_is_a_signal() -> None:
    flat: list[float | None] = [2.1, 2.1, 2.1, 2.099, None, 2.1]
    assert checked(flat).vacuous == ()


def test_weak_signal_is_flagged() -> None:
    assert {f.code for f in checked(SOUND, noise_std=0.08).flags} == {"weak_lr_signal"}


@pytest.mark.parametrize("losses", [[*SOUND[3:], 2.6, 2.7, 2.8], [2.5, 2.4, 2.3, 2.2, 2.1, 2.0]])
def test_optimum_at_the_edge_is_flagged(losses: list[float | None]) -> None:
    assert {flag.code for flag in checked(losses).flags} == {"lr_optimum_near_edge"}


def test_unknown_noise_and_entropy_judge_nothing() -> None:
    checks = checked(SOUND, noise_std=None, unigram_entropy=None)
    assert checks.vacuous == ()
    assert checks.values["loss_below_unigram"] is None
    assert checks.values["lr_spread_in_noise"] is None


def test_nothing_finished_leaves_nothing_to_check() -> None:
    checks = checked([None, nan, None, None, None, None])
    assert checks.values["best_loss"] is None
    assert (checks.flags, checks.vacuous) == ((), ())


def test_target_over_sixteen_widths_is_in_the_plan() -> None:
    parametrisation = replace(make_parametrisation(), target=widen(make_model(), 32))
    assert "width_extrapolation" in planned(make_transfer(parametrisation=parametrisation))
