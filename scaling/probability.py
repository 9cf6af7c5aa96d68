"""What the estimates leave open, by Monte Carlo over noise and proxy-to-target discrepancy.

::

    draw_losses(estimates, noise_std=..., dof=..., transfer_std=..., num_draws=..., rng=...)
    regress_single_runs(estimates, noise_std) -> estimates
    chances(draws, members, delta) -> Chances
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scaling.ranking import Estimate

__all__ = ["NEAR_BEST", "TRANSFER_STD", "Chances", "chances", "draw_losses", "regress_single_runs"]

NEAR_BEST = 0.02
"""Configurations within this share of the best loss are of one kind: noise and spread are taken
from them, not from those at the cliff."""

TRANSFER_STD = 0.006
"""Standard deviation, nats, of a configuration's loss at the target minus that at the proxy around
their common shift: 0.0055 under 8 times the compute, 0.0067 from 8 to 64 times, re-analysed from
the public runs of arXiv 2503.04715. Five to six times the noise of those runs."""

Draws = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """Probabilities among the configurations that were drawn, in their order."""

    best: tuple[float, ...]
    """That each is the best of all."""
    within_delta: tuple[float, ...]
    """That each is within the margin of the best of all."""
    set_contains_best: float
    set_within_delta: float
    """That the best of the set is within the margin of the best of all."""


def regress_single_runs(estimates: Sequence[Estimate], noise_std: float) -> tuple[Estimate, ...]:
    """Return the estimates with single runs near the best drawn towards the measured ones.

    Notes
    -----
    Who got no further seeds was unlucky on average, and who did was lucky: observed differences of
    single runs are too large by the share of noise in their variance (regression to the mean).
    They are multiplied by 1 minus that share, at least 0. In simulations of whole studies the
    probabilities without this were up to 0.12 above the realised frequencies; with it they lie
    below them.
    """
    limit = (1.0 + NEAR_BEST) * min(estimate.mean for estimate in estimates)
    near = [estimate for estimate in estimates if estimate.mean <= limit]
    if len(near) < 3:
        return tuple(estimates)
    center = float(np.mean([e.mean for e in near if e.is_measured] or [e.mean for e in near]))
    averaged_out = np.mean([1.0 - e.variance_factor if e.is_measured else 0.0 for e in near])
    variance = float(np.var([e.mean for e in near], ddof=1) + noise_std**2 * averaged_out)
    share = min(1.0, noise_std**2 / variance) if variance > 0 else 0.0
    return tuple(
        estimate
        if estimate.is_measured or estimate.mean > limit
        else replace(estimate, mean=float(center + (1.0 - share) * (estimate.mean - center)))
        for estimate in estimates
    )


def draw_losses(
    estimates: Sequence[Estimate],
    *,
    noise_std: float,
    dof: int,
    transfer_std: float,
    num_draws: int,
    rng: np.random.Generator,
) -> Draws:
    """Return losses at the target, up to a common shift; shape (num_draws, configurations).

    Parameters
    ----------
    noise_std
        Of one run, nats, estimated with ``dof`` degrees of freedom; its own uncertainty is drawn
        too (scaled inverse chi-square), which gives every estimate Student's tails.
    transfer_std
        Of the discrepancy, drawn independently for each configuration. Neighbours share part of
        it in truth, so the probabilities err on the low side.
    """
    shape = (num_draws, len(estimates))
    run_std = noise_std * np.sqrt(dof / rng.chisquare(dof, size=(num_draws, 1)))
    factors = np.sqrt([estimate.variance_factor for estimate in estimates])
    means = np.array([estimate.mean for estimate in estimates])
    noise = run_std * factors * rng.standard_normal(shape)
    discrepancy = transfer_std * rng.standard_normal(shape)
    return np.asarray(means + noise + discrepancy, dtype=np.float64)


def chances(draws: Draws, members: Sequence[int], delta: float) -> Chances:
    """Return the probabilities of each configuration and of the set of columns ``members``."""
    best = draws.min(axis=1)
    winners = np.bincount(draws.argmin(axis=1), minlength=draws.shape[1]) / len(draws)
    close = np.mean(draws - best[:, None] <= delta, axis=0)
    best_of_set = draws[:, list(members)].min(axis=1)
    return Chances(
        best=tuple(map(float, winners)),
        within_delta=tuple(map(float, close)),
        set_contains_best=float(winners[list(members)].sum()),
        set_within_delta=float(np.mean(best_of_set - best <= delta)),
    )
