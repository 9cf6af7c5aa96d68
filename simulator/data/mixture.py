"""Which source each training sequence comes from: a deterministic schedule, pure in the index."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.specs.errors import SpecError

__all__ = ["Mixture", "apportion", "make_mixture"]

_PERIOD = 2**14
"""Sequences after which the schedule repeats; weights are kept to within half of 1 / period."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A periodic schedule of sources."""

    order: Ints
    """Source of each place in the period, shape (period,)."""
    rank: Ints
    """How many sequences of the same source come before it in the period, shape (period,)."""
    counts: Ints
    """Sequences of each source in a period, shape (num_sources,)."""

    def locate(self, indices: Ints) -> tuple[Ints, Ints]:
        """Return the source of each sequence and its running number within that source."""
        periods, places = np.divmod(indices, len(self.order))
        sources = self.order[places]
        return sources, periods * self.counts[sources] + self.rank[places]


def make_mixture(weights: tuple[float, ...]) -> Mixture:
    """Return the schedule that spreads each source evenly in proportion to its weight.

    Raises
    ------
    SpecError
        If a weight is too small a share of the whole to be drawn in a period.
    """
    period = _PERIOD if len(weights) > 1 else 1
    counts = apportion(weights, period)
    if not counts.all():
        raise SpecError(
            "data.sources.weight",
            f"must be at least 1/{period} of the sum of all weights",
            weights,
            "Raise the smallest weight or leave the source out.",
        )
    sources = np.repeat(np.arange(len(weights)), counts)
    rank = np.concatenate([np.arange(count) for count in counts])
    # The j-th of c sequences of a source belongs at (j + 1/2) / c of the period.
    order = np.argsort((rank + 0.5) / counts[sources], kind="stable")
    return Mixture(order=sources[order], rank=rank[order], counts=counts)


def apportion(weights: tuple[float, ...], total: int) -> Ints:
    """Split ``total`` items in proportion to weights by the method of largest remainders."""
    shares = np.asarray(weights, dtype=np.float64)
    quotas = shares / shares.sum() * total
    counts: Ints = np.floor(quotas).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - quotas, kind="stable")[:missing]] += 1
    return counts
