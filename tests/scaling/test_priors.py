from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.priors import (
    balance_bias_rate,
    critical_batch_tokens,
    deepseek_batch_tokens,
    deepseek_lr,
    lr_prior,
    optimal_batch_tokens,
    small_scale_lr,
    step_law_batch_tokens,
    step_law_lr,
    tau_law,
)
from simulator.specs.errors import SpecError

SEQUENCE = 2048


def test_timescale_law_at_deepseek_v3s_tokens_per_parameter() -> None:
    assert round(tau_law(400), 3) == 0.046


def test_optimal_batch_at_20_billion_tokens_is_270_sequences() -> None:
    assert optimal_batch_tokens(2e10) / SEQUENCE == pytest.approx(270, rel=0.01)


def test_step_law_batch_at_20_billion_tokens_is_0_44_million() -> None:
    assert step_law_batch_tokens(2e10) == pytest.approx(0.44e6, rel=0.02)


@given(st.floats(1e5, 2e13))
def test_critical_batch_exceeds_the_optimal_one(num_tokens: float) -> None:
    assert critical_batch_tokens(num_tokens) > optimal_batch_tokens(num_tokens)


def test_step_law_powers() -> None:
    base = step_law_lr(1e9, 1e10)
    assert isclose(step_law_lr(2e9, 1e10) / base, 2**-0.713)
    assert isclose(step_law_lr(1e9, 2e10) / base, 2**0.307)


def test_deepseek_law_is_near_its_own_7b_recipe() -> None:
    """DeepSeek LLM 7B: 6 * 7e9 * 2e12 FLOPs at 4.2e-4 with batches of 9.4 M tokens."""
    flops = 6 * 6.9e9 * 2e12
    assert deepseek_lr(flops) == pytest.approx(4.2e-4, rel=0.05)
    assert deepseek_batch_tokens(flops) == pytest.approx(2304 * 4096, rel=0.05)


@pytest.mark.parametrize(
    ("num_steps", "rate"), [(1, 1e-2), (500, 6e-3), (3000, 1e-3), (235_000, 1e-3)]
)
def test_balance_rate_travels_the_spread_of_scores_within_its_bounds(
    num_steps: int, rate: float
) -> None:
    assert isclose(balance_bias_rate(num_steps), rate)


@pytest.mark.parametrize(
    ("width", "num_tokens", "batch", "low", "high"),
    [
        (64, 300 * 512, 512, 4e-3, 1.6e-2),  # bytes of source code, mixture of experts
        (64, 300 * 1024, 1024, 4e-3, 1.6e-2),
        (128, 400 * 256, 256, 3e-3, 1e-2),
        (768, 1e10, 5e5, 3e-4, 1.2e-3),  # GPT-2 124 M: 6e-4
    ],
)
def test_small_scale_law_is_within_an_octave_of_known_optima(
    width: int, num_tokens: float, batch: float, low: float, high: float
) -> None:
    assert low <= small_scale_lr(width, int(num_tokens), int(batch)) <= high


def test_small_scale_law_stops_following_a_saturated_batch() -> None:
    saturated = int(2 * optimal_batch_tokens(10**6))
    assert small_scale_lr(64, 10**6, 10 * saturated) == small_scale_lr(64, 10**6, saturated + 1)


def test_prior_without_a_published_rate_is_the_law() -> None:
    prior = lr_prior(small_scale=4e-3)
    assert (prior.center, prior.low, prior.high) == (4e-3, 5e-4, 3.2e-2)
    assert prior.mapped is None


@given(
    small=st.floats(1e-5, 1e-1),
    mapped=st.floats(1e-9, 1e3),
    std=st.floats(0.0, 20.0),
)
def test_prior_stays_within_half_an_octave_of_the_law_and_on_the_mapped_side(
    small: float, mapped: float, std: float
) -> None:
    prior = lr_prior(small_scale=small, mapped=mapped, mapped_std_octaves=std)
    assert small / 2**0.5001 <= prior.center <= small * 2**0.5001
    assert (prior.center - small) * (mapped - small) >= 0


@given(small=st.floats(1e-4, 1e-2), octaves=st.floats(-1.0, 1.0), std=st.floats(0.0, 8.0))
def test_a_rate_mapped_over_a_longer_distance_counts_less(
    small: float, octaves: float, std: float
) -> None:
    mapped = small * 2.0**octaves
    near = lr_prior(small_scale=small, mapped=mapped, mapped_std_octaves=std)
    far = lr_prior(small_scale=small, mapped=mapped, mapped_std_octaves=std + 1.0)
    assert abs(far.center - small) <= abs(near.center - small)


def test_prior_says_when_it_was_held_back() -> None:
    assert "kept within" in lr_prior(small_scale=4e-3, mapped=4.0).reason
    assert "kept within" not in lr_prior(small_scale=4e-3, mapped=5e-3).reason


@pytest.mark.parametrize("law", [tau_law, optimal_batch_tokens, critical_batch_tokens])
def test_laws_refuse_nothing_to_speak_of(law: object) -> None:
    assert callable(law)
    with pytest.raises(SpecError, match="must be positive; got 0"):
        law(0)
