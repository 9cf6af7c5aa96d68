from math import nan

import numpy as np
import pytest

from scaling.ranking import Estimate, Ranking, rank
from tests.scaling.loss_tables import draw_table


def by_config(ranking: Ranking) -> dict[int, Estimate]:
    return {estimate.config: estimate for estimate in ranking.estimates}


def test_measured_ones_are_compared_on_shared_fresh_seeds() -> None:
    losses = {
        1: {0: 1.0, 1: 3.0, 2: 3.0},
        2: {0: 5.0, 1: 2.0, 2: 2.0, 3: 9.0},
    }
    ranking = rank(losses)
    assert ranking.seeds == (1, 2)
    assert ranking.is_fresh
    assert [(e.config, e.mean) for e in ranking.estimates] == [(2, 2.0), (1, 3.0)]


def test_one_fresh_seed_is_too_few() -> None:
    ranking = rank({1: {0: 1.0, 1: 3.0}, 2: {0: 2.0, 1: 3.0}})
    assert ranking.seeds == (0, 1)
    assert not ranking.is_fresh
    assert by_config(ranking)[1].mean == 2.0


def test_single_run_is_placed_by_its_difference_on_the_shared_seed() -> None:
    """Seed 0 is 1 nat worse for everybody; the single run lies 0.5 above the measured ones."""
    losses = {1: {0: 3.0, 1: 2.0, 2: 2.0}, 2: {0: 3.0, 1: 2.0, 2: 2.0}, 7: {0: 3.5}}
    estimate = by_config(rank(losses))[7]
    assert estimate.mean == pytest.approx(2.5)
    assert not estimate.is_measured
    assert estimate.variance_factor == pytest.approx(1 + (1 - 1 / 2) / 2)


def test_a_lucky_single_run_does_not_outrank_measured_ones() -> None:
    losses = {1: {0: 3.0, 1: 3.0, 2: 3.0}, 2: {0: 3.1, 1: 3.1, 2: 3.1}, 7: {0: 1.0}}
    assert [e.config for e in rank(losses).estimates] == [1, 2, 7]


def test_only_named_finalists_are_measured() -> None:
    losses = {1: {0: 3.0, 1: 3.0, 2: 3.0}, 2: {0: 2.0, 1: 2.0, 2: 2.0}}
    assert by_config(rank(losses, finalists=(1,)))[2].is_measured is False


def test_a_configuration_that_failed_on_a_seed_comes_last() -> None:
    losses = {1: {0: 1.0, 1: nan, 2: 1.0}, 2: {0: 2.0, 1: 2.0, 2: 2.0}, 3: {0: 5.0}}
    ranking = rank(losses)
    assert [e.config for e in ranking.estimates] == [2, 3, 1]
    assert by_config(ranking)[1].num_failed == 1


def test_a_finalist_whose_seeds_were_not_run_yet_does_not_shrink_the_comparison() -> None:
    losses = {1: {0: 1.0, 1: 1.0, 2: 1.0}, 2: {0: 2.0, 1: 2.0, 2: 2.0}, 3: {0: 1.5}}
    ranking = rank(losses, finalists=(1, 2, 3))
    assert ranking.seeds == (1, 2)
    assert by_config(ranking)[3].is_measured is False


def test_finalists_without_a_shared_seed_are_compared_as_they_are() -> None:
    ranking = rank({1: {0: 1.0, 1: 2.0}, 2: {2: 3.0, 3: 4.0}})
    assert ranking.seeds == ()
    assert [(e.config, e.mean) for e in ranking.estimates] == [(1, 1.5), (2, 3.5)]


def test_only_single_runs_are_ranked_by_their_losses() -> None:
    ranking = rank({4: {0: 2.0}, 5: {0: 1.0}, 6: {0: nan}})
    assert [(e.config, e.mean) for e in ranking.estimates] == [(5, 1.0), (4, 2.0)]
    assert ranking.failed == (6,)


def test_nothing_finished() -> None:
    ranking = rank({1: {0: nan}, 2: {}})
    assert ranking.estimates == ()
    assert ranking.failed == (1, 2)


def test_variance_factors_are_those_of_the_differences() -> None:
    """Over 3000 tables the variance of each difference is sigma^2 times the sum of the factors."""
    rng = np.random.default_rng(3)
    means = np.array([2.0, 2.1, 2.2, 2.3])
    differences = []
    for _ in range(3000):
        table = draw_table(rng, means, 4, 0.01)
        table[3] = {0: table[3][0]}
        found = by_config(rank(table))
        differences.append((found[1].mean - found[0].mean, found[3].mean - found[0].mean))
    factors = found[0].variance_factor + np.array(
        [found[1].variance_factor, found[3].variance_factor]
    )
    assert np.array(differences).var(axis=0) == pytest.approx(0.01**2 * factors, rel=0.12)
