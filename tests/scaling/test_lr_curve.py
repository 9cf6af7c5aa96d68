from math import inf, log2, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.lr_curve import LrCurve, LrPoint, lr_curve

LOW, HIGH = 1e-3, 64e-3


def point(octaves: float, loss: float | None) -> LrPoint:
    return LrPoint(peak_lr=LOW * 2.0**octaves, loss=loss)


def curve_of(points: list[LrPoint]) -> LrCurve:
    curve = lr_curve(points, LOW, HIGH)
    assert curve is not None
    return curve


def bowl(optimum: float, octaves: list[float], width: float = 0.02) -> list[LrPoint]:
    return [point(x, 2.0 + width * (x - optimum) ** 2) for x in octaves]


GRID = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


@given(st.floats(1.0, 5.0))
def test_optimum_of_a_parabola_is_found(optimum: float) -> None:
    curve = curve_of(bowl(optimum, GRID))
    assert curve.optimum_octaves == pytest.approx(optimum, abs=1e-6)
    assert curve.octaves_from_edge == pytest.approx(min(optimum, 6 - optimum), abs=1e-6)


def test_worse_trials_of_the_same_octave_do_not_matter() -> None:
    sound = bowl(3.2, GRID)
    worse = [point(x + 0.3, 2.9) for x in GRID]
    assert curve_of(sound + worse).optimum_octaves == curve_of(sound).optimum_octaves


def test_a_cliff_two_octaves_up_moves_the_optimum_less_than_an_octave() -> None:
    curve = curve_of([*bowl(3.5, GRID[:5]), point(5.5, 6.0)])
    assert abs(curve.optimum_octaves - 3.5) <= 1.0


@pytest.mark.parametrize("loss", [None, nan, inf])
def test_diverged_trials_are_no_points_but_are_remembered(loss: float | None) -> None:
    curve = curve_of([*bowl(2.5, GRID[:5]), point(5.5, loss)])
    assert curve.octaves == pytest.approx(GRID[:5])
    assert curve.diverged_octaves == pytest.approx((5.5,))


@pytest.mark.parametrize("slope", [-0.1, 0.1])
def test_monotone_losses_do_not_bracket_an_optimum(slope: float) -> None:
    curve = curve_of([point(x, 3.0 + slope * x) for x in GRID])
    assert curve.octaves_from_edge < 0.51
    assert not curve.is_bracketed


def test_divergence_above_brackets_the_optimum() -> None:
    assert curve_of([point(1.0, 2.2), point(3.0, 2.1), point(4.0, None)]).is_bracketed


def test_trials_outside_the_range_have_negative_distance() -> None:
    assert curve_of([point(-1.5, 1.0), point(2.0, 2.0)]).octaves_from_edge == pytest.approx(-1.5)


def test_spread_is_worst_minus_best_of_the_envelope() -> None:
    assert curve_of(bowl(3.5, GRID)).spread == pytest.approx(0.02 * 9)


def test_spread_over_a_window_leaves_the_rest_out() -> None:
    points = [*bowl(3.5, GRID[2:5], width=0.1), point(0.5, 9.0), point(1.6, 2.3), point(5.4, 2.2)]
    assert curve_of(points).spread_over(4.0) == pytest.approx(0.3)


def test_window_at_the_edge_is_moved_inside_the_range() -> None:
    points = [point(x, 2.0 + 0.1 * x) for x in GRID]
    assert curve_of(points).spread_over(4.0) == pytest.approx(0.3)


def test_divergence_within_the_window_is_no_flatness() -> None:
    assert curve_of([*bowl(3.5, GRID[:5]), point(4.9, None)]).spread_over(4.0) == inf


def test_flatness_is_not_judged_from_a_corner() -> None:
    assert curve_of(bowl(1.5, GRID[:2])).spread_over(4.0) is None


def test_no_finite_loss_is_no_curve() -> None:
    assert lr_curve([point(1.0, None)], LOW, HIGH) is None


def test_range_is_in_octaves() -> None:
    assert curve_of([point(1.0, 2.0)]).range_octaves == pytest.approx(log2(64))
