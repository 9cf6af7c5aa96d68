"""Points of the search space as a sampler sees them.

A list of numbers is ordered: a sampler sees the place in the sorted list, so that neighbours in
size are alike. A list with a word in it (schedules) has no order. A real parameter is itself.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sweeps.spec import ChoiceDomain, Domain

__all__ = ["decode", "encode", "is_ordered", "levels"]

Value = float | int | str

_DIGITS = 4
"""Significant digits of a suggestion: far below what a loss can tell apart, and above the last bits
in which numerical libraries differ between machines."""

_OCTAVE = 2.0
"""Grid levels of a real parameter lie about a factor of two apart."""


def is_ordered(domain: ChoiceDomain) -> bool:
    """Return whether all values are numbers."""
    return not any(isinstance(value, str) for value in domain.values)


def encode(domains: Sequence[Domain], params: Mapping[str, float | str]) -> dict[str, Value] | None:
    """Return ``params`` as coordinates; None where one is missing or outside its domain."""
    encoded: dict[str, Value] = {}
    for domain in domains:
        value = params.get(domain.name)
        if value is None or not _contains(domain, value):
            return None
        if isinstance(domain, ChoiceDomain) and is_ordered(domain):
            encoded[domain.name] = sorted(domain.values).index(value)
        else:
            encoded[domain.name] = value
    return encoded


def decode(domains: Sequence[Domain], coordinates: Mapping[str, Value]) -> dict[str, float | str]:
    """Return the point at ``coordinates``; reals are rounded to four significant digits."""
    return {domain.name: _decoded(domain, coordinates[domain.name]) for domain in domains}


def levels(domain: Domain) -> list[Value]:
    """Return the coordinates of a grid; of a real parameter both ends and whole octaves between."""
    if isinstance(domain, ChoiceDomain):
        return list(range(len(domain.values))) if is_ordered(domain) else list(domain.values)
    num_levels = round(math.log(domain.high / domain.low, _OCTAVE)) + 1
    inner = np.geomspace(domain.low, domain.high, num_levels)[1:-1].tolist()
    return sorted({domain.low, *inner, domain.high})


def _contains(domain: Domain, value: float | str) -> bool:
    if isinstance(domain, ChoiceDomain):
        return value in domain.values
    return not isinstance(value, str) and domain.low <= value <= domain.high


def _decoded(domain: Domain, coordinate: Value) -> float | str:
    if isinstance(domain, ChoiceDomain):
        return sorted(domain.values)[int(coordinate)] if is_ordered(domain) else coordinate
    rounded = float(f"{coordinate:.{_DIGITS - 1}e}")
    return min(max(rounded, domain.low), domain.high)
