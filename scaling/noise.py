"""How far two runs of one configuration differ, from any table of configurations and seeds.

::

    LossTable = Mapping[int, Mapping[int, float]]           configuration -> seed -> loss
    finite_losses(losses) -> dict[int, dict[int, float]]    what is left after failed runs
    estimate_noise(losses) -> NoiseSummary | None
"""

from collections.abc import Mapping
from math import isfinite, sqrt

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from simulator.records.summary import NoiseSummary

__all__ = ["LossTable", "estimate_noise", "finite_losses"]

LossTable = Mapping[int, Mapping[int, float]]
"""Configuration -> seed -> loss in nats; a failed run is missing, NaN or infinite."""

_Cells = list[tuple[int, int, float]]


def finite_losses(losses: LossTable) -> dict[int, dict[int, float]]:
    """Return the table without NaN and infinite losses; a configuration may be left empty."""
    return {
        config: {seed: float(loss) for seed, loss in row.items() if isfinite(loss)}
        for config, row in losses.items()
    }


def estimate_noise(losses: LossTable) -> NoiseSummary | None:
    """Return the noise of one run, or None when no configuration has two finished seeds.

    Parameters
    ----------
    losses
        Configurations of similar quality: noise grows towards the edge of stability, so pass the
        finalists and the replicated configuration, not every trial. Runs of configurations with a
        single seed cost nothing: they neither help nor disturb.

    Notes
    -----
    Model: loss = configuration + seed + rest. ``seed_std`` pools the variance over seeds within a
    configuration, so it holds the seed's part and the rest; ``paired_std`` is the standard
    deviation of the rest alone, by least squares on both effects, which is unbiased for any
    pattern of missing runs. Its degrees of freedom are runs - configurations - seeds +
    connected parts of the table; None when there are none left.
    """
    table = finite_losses(losses)
    num_excluded = sum(map(len, losses.values())) - sum(map(len, table.values()))
    cells = [
        (config, seed, loss)
        for config, row in table.items()
        if len(row) >= 2
        for seed, loss in row.items()
    ]
    if not cells:
        return None
    within_dof = len(cells) - len({config for config, _, _ in cells})
    paired_std, paired_dof = _paired(cells)
    return NoiseSummary(
        seed_std=sqrt(_within_squares(cells) / within_dof),
        paired_std=paired_std,
        num_replicates=len(cells),
        degrees_of_freedom=within_dof if paired_std is None else paired_dof,
        num_excluded=num_excluded,
    )


def _within_squares(cells: _Cells) -> float:
    """Return the sum of squared deviations from each configuration's own mean."""
    rows: dict[int, list[float]] = {}
    for config, _, loss in cells:
        rows.setdefault(config, []).append(loss)
    return sum(float(np.sum((np.array(row) - np.mean(row)) ** 2)) for row in rows.values())


def _paired(cells: _Cells) -> tuple[float | None, int]:
    """Return the residual standard deviation of the two-way fit and its degrees of freedom."""
    config_index, num_configs = _positions([config for config, _, _ in cells])
    seed_index, num_seeds = _positions([seed for _, seed, _ in cells])
    edges = coo_array(
        (np.ones(len(cells)), (config_index, num_configs + seed_index)),
        shape=(num_configs + num_seeds, num_configs + num_seeds),
    )
    num_parts = int(connected_components(edges, directed=False)[0])
    dof = len(cells) - num_configs - num_seeds + num_parts
    if dof <= 0:
        return None, 0
    rows = np.arange(len(cells))
    design = np.zeros((len(cells), num_configs + num_seeds))
    design[rows, config_index] = 1.0
    design[rows, num_configs + seed_index] = 1.0
    observed = np.array([loss for _, _, loss in cells])
    centred = observed - observed.mean()
    solution = np.linalg.lstsq(design, centred, rcond=None)[0]
    squares = float(np.sum((centred - design @ solution) ** 2))
    return sqrt(squares / dof), dof


def _positions(labels: list[int]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    unique, inverse = np.unique(np.array(labels, dtype=np.int64), return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), len(unique)
