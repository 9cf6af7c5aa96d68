"""Which configurations cannot be told from the last of the top by the margin.

::

    split(estimates, noise, delta, top_k) -> Split
    standard_error(a, b, noise) -> float | None
    RunNoise(std, dof)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.stats import t

from scaling.ranking import Estimate

__all__ = ["MIN_CHANCE", "RunNoise", "Split", "split", "standard_error"]

MIN_CHANCE = 0.1
"""A configuration stays in the race while its chance of lying within the margin exceeds this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoise:
    """Noise of one run as far as it is known."""

    std: float | None
    """Nats; null where no configuration has two seeds."""
    dof: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The order cut in three."""

    top: tuple[Estimate, ...]
    ties: tuple[Estimate, ...]
    others: tuple[Estimate, ...]
    num_tied: int
    """Ties together with the members of the top they tie with; 0 without ties."""


def split(estimates: Sequence[Estimate], noise: RunNoise, *, delta: float, top_k: int) -> Split:
    """Return the top, what ties with its last member, and the rest, each in order.

    Parameters
    ----------
    estimates
        Best first; those with a failed run are in neither top nor ties unless all have one.
    """
    sound = [estimate for estimate in estimates if not estimate.num_failed] or list(estimates)
    top = tuple(sound[:top_k])
    ties = tuple(e for e in sound[top_k:] if _may_be_within(e, top[-1], noise, delta))
    inside = {estimate.config for estimate in (*top, *ties)}
    tied_top = [e for e in top if _may_be_within(top[-1], e, noise, delta)]
    return Split(
        top=top,
        ties=ties,
        others=tuple(e for e in estimates if e.config not in inside),
        num_tied=len(ties) + len(tied_top) if ties else 0,
    )


def standard_error(a: Estimate, b: Estimate, noise: RunNoise) -> float | None:
    """Return the standard error of the difference of two estimates; null where noise is unknown."""
    if noise.std is None:
        return None
    return noise.std * sqrt(a.variance_factor + b.variance_factor)


def _may_be_within(worse: Estimate, better: Estimate, noise: RunNoise, delta: float) -> bool:
    """Return whether the chance that ``worse`` is within ``delta`` of ``better`` exceeds 10 %."""
    difference = worse.mean - better.mean
    error = standard_error(worse, better, noise)
    reach = 0.0 if error is None else error * float(t.isf(MIN_CHANCE, noise.dof))
    return difference <= delta + reach
