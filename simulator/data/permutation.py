"""Seeded permutations of any size in constant memory, each position computed directly.

A position is written as a pair ``(left, right)`` on a grid just large enough for the size, and
four rounds add to one half a keyed hash of the other, modulo the half's own range: a Feistel
network, which is a permutation of the grid whatever the hash does. The few positions that fall
off the end of the grid are sent through again until they come back ("cycle walking"), which keeps
it a permutation of exactly the size asked for.

References
----------
Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains", methods 2 and 3. The hash is the
finaliser of SplitMix64 (Steele, Lea and Flood 2014).
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["permuted"]

_NUM_ROUNDS = 4
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT = np.uint64(32)

_UInts = npt.NDArray[np.uint64]


def permuted(
    positions: npt.NDArray[np.int64], num_items: int, key: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Return where the permutation of ``key`` sends each position.

    Parameters
    ----------
    positions
        Each in [0, num_items), shape (n,).
    key
        Non-negative integers that choose the permutation.
    """
    # Two halves whose product exceeds the size by less than one half: walking is rare.
    left_range = math.isqrt(num_items - 1) + 1
    right_range = -(-num_items // left_range)
    round_keys = _round_keys(key)
    items = positions.astype(np.uint64)
    items = _scramble(items, left_range, right_range, round_keys)
    outside = items >= num_items
    while outside.any():
        items[outside] = _scramble(items[outside], left_range, right_range, round_keys)
        outside = items >= num_items
    return items.astype(np.int64)


def _scramble(items: _UInts, left_range: int, right_range: int, round_keys: _UInts) -> _UInts:
    lefts, rights = np.uint64(left_range), np.uint64(right_range)
    left, right = items // rights, items % rights
    for index in range(0, _NUM_ROUNDS, 2):
        left = (left + _hash(right, round_keys[index])) % lefts
        right = (right + _hash(left, round_keys[index + 1])) % rights
    return left * rights + right


def _hash(values: _UInts, key: np.uint64) -> _UInts:
    """Return 32 mixed bits, so that adding them to half a position cannot overflow."""
    mixed = (values ^ key) * _MIX[0]
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX[1]
    return mixed >> _SHIFT


@lru_cache(maxsize=256)
def _round_keys(key: tuple[int, ...]) -> _UInts:
    keys: _UInts = np.random.SeedSequence(key).generate_state(_NUM_ROUNDS, np.uint64)  # type: ignore[assignment]
    return keys
