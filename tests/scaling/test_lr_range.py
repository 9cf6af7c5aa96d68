import pytest

from scaling.lr_range import clamp_lr, proxy_lr_prior
from scaling.priors import small_scale_lr
from scaling.transfer import RecipePoint
from tests.scaling.transfers import PARAMS, make_parametrisation, make_scale, make_transfer


def published(lr: float) -> RecipePoint:
    return RecipePoint(matrix_lr=lr, weight_decay=0.1, warmup_steps=200, schedule="s")


@pytest.mark.parametrize(("anchor", "factor"), [("proxy", 1), ("target", 8)])
def test_prior_speaks_in_the_anchors_rate(anchor: str, factor: int) -> None:
    transfer = make_transfer(parametrisation=make_parametrisation(anchor=anchor))
    prior = proxy_lr_prior(transfer)
    law = small_scale_lr(64, transfer.proxy.num_tokens, transfer.proxy.batch_tokens)
    assert prior.center == pytest.approx(law / factor)


@pytest.mark.parametrize("anchor", ["proxy", "target"])
def test_range_searched_does_not_depend_on_the_anchor(anchor: str) -> None:
    """In the proxy's matrices' own rates."""
    transfer = make_transfer(parametrisation=make_parametrisation(anchor=anchor))
    prior = proxy_lr_prior(transfer, published(1e-3))
    factor = {"proxy": 1, "target": 8}[anchor]
    reference = proxy_lr_prior(make_transfer(), published(1e-3))
    assert prior.low * factor == pytest.approx(reference.low)
    assert prior.high * factor == pytest.approx(reference.high)


def test_published_rate_maps_back_through_width_and_horizon() -> None:
    transfer = make_transfer(target=make_scale(num_tokens=8 * 512_000))
    prior = proxy_lr_prior(transfer, published(1e-3))
    assert prior.mapped == pytest.approx(8e-3 * 8**0.32)


@pytest.mark.parametrize("lr", [2.2e-4, 4e-4, 1e-2])
def test_optima_of_tiny_proxies_lie_an_octave_inside_whatever_was_published(lr: float) -> None:
    """Width 64 at 150 k tokens: 4e-3 to 1.6e-2 by measurement."""
    proxy = make_scale(num_tokens=150_000)
    for target in (make_scale(num_tokens=10**6), make_scale(num_tokens=10**13)):
        prior = proxy_lr_prior(make_transfer(proxy=proxy, target=target), published(lr))
        assert prior.low * 2 <= 4e-3
        assert prior.high / 2 >= 1.6e-2


def test_range_has_the_span_asked_for() -> None:
    prior = proxy_lr_prior(make_transfer(), span_octaves=4.0)
    assert prior.high / prior.low == pytest.approx(16)


def test_a_rate_inside_is_left_alone() -> None:
    assert clamp_lr(PARAMS, 1e-3, 1e-2) == (PARAMS, ())


@pytest.mark.parametrize(("low", "high", "expected"), [(1e-4, 1e-3, 1e-3), (1e-2, 1e-1, 1e-2)])
def test_a_rate_outside_is_moved_to_the_edge_and_said_so(
    low: float, high: float, expected: float
) -> None:
    params, flags = clamp_lr(PARAMS, low, high)
    assert params == PARAMS | {"peak_lr": expected}
    assert [flag.code for flag in flags] == ["incumbent_outside_range"]
