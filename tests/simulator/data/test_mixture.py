"""The schedule of sources."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.data.mixture import apportion, make_mixture
from simulator.specs.errors import SpecError

weights = st.lists(st.floats(0.05, 10), min_size=1, max_size=5).map(tuple)


@given(weights)
def test_every_stretch_keeps_the_weights(weights: tuple[float, ...]) -> None:
    """From the start, no source is ever more than one sequence per source off its share."""
    length = 500
    sources, _ = make_mixture(weights).locate(np.arange(length))
    shares = np.array(weights) / sum(weights)
    for source, share in enumerate(shares):
        drawn = np.cumsum(sources == source)
        wanted = share * np.arange(1, length + 1)
        assert np.abs(drawn - wanted).max() <= len(weights)


@given(weights, st.integers(0, 10**12))
def test_numbers_within_a_source_follow_one_another(weights: tuple[float, ...], begin: int) -> None:
    mixture = make_mixture(weights)
    sources, numbers = mixture.locate(np.arange(begin, begin + 300))
    for source in range(len(weights)):
        mine = numbers[sources == source]
        assert (np.diff(mine) == 1).all()


def test_numbers_start_at_zero() -> None:
    sources, numbers = make_mixture((1.0, 3.0)).locate(np.arange(100))
    assert [numbers[sources == source][0] for source in (0, 1)] == [0, 0]


def test_a_weight_too_small_to_be_drawn_is_refused() -> None:
    with pytest.raises(SpecError, match=r"data\.sources\.weight must be at least 1/16384"):
        make_mixture((1.0, 1e-6))


@given(weights, st.integers(0, 10_000))
def test_apportioned_items_add_up(weights: tuple[float, ...], total: int) -> None:
    counts = apportion(weights, total)
    assert counts.sum() == total
    assert np.abs(counts - np.array(weights) / sum(weights) * total).max() < 1
