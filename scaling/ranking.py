"""One estimate per configuration, all on one scale, from a table with unequal numbers of seeds.

::

    rank(losses, finalists=..., search_seeds=..., noise_std=...) -> Ranking
    Estimate(config, mean, variance, ...)      one configuration
    Ranking(estimates, seeds, is_fresh, failed)

Configurations with at least two finished seeds and no failed one are *measured*: they are compared
by their means over the seeds they share. Where at least two shared seeds are fresh (not those of
the search, whose luck decided who became a finalist) only the fresh ones count. A configuration
with a single run is brought to the same scale by its difference from the measured ones on the
seeds it has in common with them.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from scaling.noise import LossTable, finite_losses

__all__ = ["Estimate", "Ranking", "rank"]

MIN_FRESH_SEEDS = 2
"""With fewer, the search's own seed is kept: one fresh run would be worse than three stale ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the runs of one configuration say of its loss."""

    config: int
    mean: float
    """Nats, comparable across configurations."""
    variance_factor: float
    """Variance of ``mean`` in units of the variance of one run."""
    num_seeds: int
    """Runs behind ``mean``."""
    num_failed: int
    """Runs without a finite loss."""
    is_measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Every configuration that finished at least once, best first."""

    estimates: tuple[Estimate, ...]
    """Measured ones first, then single runs, then those that failed on some seed."""
    seeds: tuple[int, ...]
    """The seeds the measured ones are compared on."""
    is_fresh: bool
    """Whether the search's own seeds were left out."""
    failed: tuple[int, ...]
    """Configurations without one finite loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """The measured configurations: what single runs are compared with."""

    configs: tuple[int, ...]
    seeds: tuple[int, ...]
    mean: float


def rank(
    losses: LossTable,
    *,
    finalists: Collection[int] = (),
    search_seeds: Collection[int] = (0,),
) -> Ranking:
    """Return every configuration's estimate, best first.

    Parameters
    ----------
    losses
        Failed runs are NaN or infinite; runs not made are missing.
    finalists
        Configurations that were given more seeds; empty means all with at least two runs.
    search_seeds
        Seeds whose losses decided who became a finalist.

    Notes
    -----
    Measured ones come before single runs, whatever their means: being lucky once is no rank. A
    configuration that failed on a seed comes last. The single runs' common scale rests on the
    measured ones' luck in the search, which makes single runs look worse by a fraction of the
    noise.
    """
    table = finite_losses(losses)
    named = set(finalists) or {config for config, row in losses.items() if len(row) >= 2}
    failures = {config: len(losses[config]) - len(row) for config, row in table.items()}
    measured = [c for c in sorted(named) if failures.get(c) == 0 and len(table[c]) >= 2]
    seeds, is_fresh = _ranking_seeds([table[config] for config in measured], set(search_seeds))
    if not seeds:
        measured = []
    estimates = [_measured(config, table[config], seeds) for config in measured]
    reference = _Reference(
        configs=tuple(measured),
        seeds=seeds,
        mean=float(np.mean([estimate.mean for estimate in estimates])) if estimates else 0.0,
    )
    estimates += [
        _single(config, table, reference, failures[config])
        for config, row in table.items()
        if row and config not in measured
    ]
    ordered = sorted(estimates, key=_place)
    return Ranking(
        estimates=tuple(ordered),
        seeds=seeds,
        is_fresh=is_fresh,
        failed=tuple(sorted(config for config, row in table.items() if not row)),
    )


def _place(estimate: Estimate) -> tuple[bool, bool, float, int]:
    return estimate.num_failed > 0, not estimate.is_measured, estimate.mean, estimate.config


def _ranking_seeds(
    rows: list[dict[int, float]], search_seeds: set[int]
) -> tuple[tuple[int, ...], bool]:
    if not rows:
        return (), False
    shared = set.intersection(*(set(row) for row in rows))
    fresh = shared - search_seeds
    is_fresh = len(fresh) >= MIN_FRESH_SEEDS
    return tuple(sorted(fresh if is_fresh else shared)), is_fresh


def _measured(config: int, row: dict[int, float], seeds: tuple[int, ...]) -> Estimate:
    return Estimate(
        config=config,
        mean=float(np.mean([row[seed] for seed in seeds])),
        variance_factor=1.0 / len(seeds),
        num_seeds=len(seeds),
        num_failed=0,
        is_measured=True,
    )


def _single(
    config: int, table: dict[int, dict[int, float]], reference: _Reference, num_failed: int
) -> Estimate:
    """Return the estimate of a configuration that shares fewer seeds with the measured ones.

    Its variance is such that the sum of two factors is the variance of the difference from a
    measured one; between two single runs, which share the reference, the sum is a little too large.
    """
    row = table[config]
    shared = [s for s in row if reference.configs and all(s in table[c] for c in reference.configs)]
    used = shared or list(row)
    mean, variance_factor = float(np.mean([row[seed] for seed in used])), 1.0 / len(used)
    if shared:
        others = [table[c][seed] for c in reference.configs for seed in shared]
        mean += reference.mean - float(np.mean(others))
        link = 1.0 / len(used) - 1.0 / len(reference.seeds)
        variance_factor += max(0.0, link) / len(reference.configs)
    return Estimate(
        config=config,
        mean=mean,
        variance_factor=variance_factor,
        num_seeds=len(used),
        num_failed=num_failed,
        is_measured=False,
    )
