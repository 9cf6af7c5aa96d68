import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from scaling.probability import chances, draw_losses, regress_single_runs
from scaling.ranking import Estimate


def make_estimate(config: int, mean: float, num_seeds: int = 4) -> Estimate:
    return Estimate(
        config=config,
        mean=mean,
        variance_factor=1.0 / num_seeds,
        num_seeds=num_seeds,
        num_failed=0,
        is_measured=num_seeds > 1,
    )


PAIR = (make_estimate(0, 2.0), make_estimate(1, 2.004))


def draw(dof: int, noise_std: float, transfer_std: float) -> np.ndarray:
    return draw_losses(
        PAIR,
        noise_std=noise_std,
        dof=dof,
        transfer_std=transfer_std,
        num_draws=20_000,
        rng=np.random.default_rng(1),
    )


def test_chance_of_two_is_the_normal_one() -> None:
    """Difference 0.004, its variance 2 * (0.008^2 / 4 + 0.003^2); 4 standard errors of 20,000."""
    found = chances(draw(10**6, 0.008, 0.003), [0], 0.0).best[0]
    expected = norm.cdf(0.004 / (2 * (0.008**2 / 4 + 0.003**2)) ** 0.5)
    assert found == pytest.approx(expected, abs=0.014)


def test_few_degrees_of_freedom_give_students_tails() -> None:
    found = chances(draw(3, 0.008, 0.0), [0], 0.0).best[0]
    assert found == pytest.approx(student.cdf(0.004 / (0.008 / 2**0.5), 3), abs=0.014)


def test_draws_are_reproducible() -> None:
    assert np.array_equal(draw(5, 0.01, 0.006), draw(5, 0.01, 0.006))


def test_chances_by_hand() -> None:
    draws = np.array([[1.0, 2.0, 3.0], [1.0, 0.5, 3.0], [5.0, 6.0, 4.0], [2.0, 1.0, 1.5]])
    found = chances(draws, [0, 2], 0.5)
    assert found.best == (0.25, 0.5, 0.25)
    assert found.within_delta == (0.5, 0.5, 0.5)
    assert found.set_contains_best == 0.5
    assert found.set_within_delta == 1.0


def test_measured_ones_and_the_cliff_are_left_alone() -> None:
    estimates = (*PAIR, make_estimate(2, 2.02, 1), make_estimate(3, 2.5, 1))
    regressed = regress_single_runs(estimates, 0.01)
    assert regressed[:2] == PAIR
    assert regressed[3] == estimates[3]
    assert 2.002 < regressed[2].mean < 2.02


def test_pure_noise_draws_single_runs_all_the_way() -> None:
    estimates = (*PAIR, make_estimate(2, 2.006, 1), make_estimate(3, 2.007, 1))
    regressed = regress_single_runs(estimates, 1.0)
    assert regressed[2].mean == pytest.approx(2.002, abs=0.001)


def test_without_noise_nothing_moves() -> None:
    estimates = (*PAIR, make_estimate(2, 2.02, 1))
    assert regress_single_runs(estimates, 0.0) == estimates


def test_equal_losses_without_noise_do_not_divide_by_zero() -> None:
    estimates = tuple(make_estimate(config, 2.0, 1) for config in range(4))
    assert regress_single_runs(estimates, 0.0) == estimates
