"""Counter-based permutations."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.data.permutation import permuted


@given(st.integers(1, 3000), st.lists(st.integers(0, 2**40), min_size=1, max_size=3))
def test_every_item_comes_once(num_items: int, key: list[int]) -> None:
    items = permuted(np.arange(num_items), num_items, tuple(key))
    assert np.array_equal(np.sort(items), np.arange(num_items))


@given(st.integers(1, 2**62), st.data())
def test_a_position_does_not_depend_on_the_others(num_items: int, data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, num_items - 1), min_size=1, max_size=5)))
    together = permuted(places, num_items, (3, 1, 4))
    assert ((together >= 0) & (together < num_items)).all()
    for index in range(len(places)):
        assert permuted(places[index : index + 1], num_items, (3, 1, 4))[0] == together[index]


def test_keys_give_different_orders() -> None:
    places = np.arange(1000)
    orders = {
        permuted(places, 1000, (seed, 0, epoch)).tobytes()
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def test_every_place_is_equally_likely_over_keys() -> None:
    """Chi-square of (position, image) counts; 99.9 % of uniform ones lie below the bound."""
    num_items, num_keys = 12, 4000
    counts = np.zeros((num_items, num_items))
    for key in range(num_keys):
        counts[np.arange(num_items), permuted(np.arange(num_items), num_items, (key, 0))] += 1
    expected = num_keys / num_items
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = (num_items - 1) ** 2
    assert chi_square < freedom + 3.5 * (2 * freedom) ** 0.5


def test_neighbours_are_sent_to_unrelated_places() -> None:
    num_items = 1000
    correlations = []
    for key in range(100):
        items = permuted(np.arange(num_items), num_items, (key,))
        correlations.append(np.corrcoef(items[:-1], items[1:])[0, 1])
    # Each has mean -1/n and standard deviation 1/sqrt(n) for random orders.
    assert abs(np.mean(correlations)) < 4 / (num_items * 100) ** 0.5 + 1 / num_items
    assert np.std(correlations) * num_items**0.5 < 1.4
