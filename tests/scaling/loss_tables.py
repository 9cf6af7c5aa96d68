"""Tables of losses drawn from the two-way model, and whole studies played through it."""

from dataclasses import dataclass

import numpy as np

from scaling.noise import LossTable
from scaling.outcome import Discrepancy, Selection
from scaling.selection import choose_finalists, select

BASE_LOSS = 2.2
SEED_STD = 0.006
"""What all configurations share under a seed."""


def draw_table(
    rng: np.random.Generator,
    means: np.ndarray,
    num_seeds: int,
    noise_std: float,
    seed_std: float = SEED_STD,
) -> dict[int, dict[int, float]]:
    shared = seed_std * rng.standard_normal(num_seeds)
    losses = means[:, None] + shared + noise_std * rng.standard_normal((len(means), num_seeds))
    return {
        config: {seed: float(loss) for seed, loss in enumerate(row)}
        for config, row in enumerate(losses)
    }


def drop(table: LossTable, rng: np.random.Generator, share: float) -> dict[int, dict[int, float]]:
    """Leave out a random share of the runs."""
    return {
        config: {seed: loss for seed, loss in row.items() if rng.random() >= share}
        for config, row in table.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A made-up search: half-normal losses above the best, as on a hill's upper side."""

    num_configs: int = 24
    spread: float = 0.02
    noise_std: float = 0.01
    transfer_std: float = 0.006
    delta: float = 0.0066
    num_seeds: int = 3
    max_finalists: int = 5


def play(study: Study, rng: np.random.Generator) -> tuple[Selection, bool, bool]:
    """Search, choose finalists, add seeds, select; then look at the target.

    Returns the selection, whether its set holds a configuration within the margin of the best at
    the target, and whether it holds the best itself.
    """
    means = BASE_LOSS + study.spread * np.abs(rng.standard_normal(study.num_configs))
    full = draw_table(rng, means, study.num_seeds, study.noise_std)
    finalists = choose_finalists(
        {config: row[0] for config, row in full.items()},
        noise_std=study.noise_std,
        delta=study.delta,
        max_configs=study.max_finalists,
        always=(study.num_configs - 1,),
    )
    losses = {config: row if config in finalists else {0: row[0]} for config, row in full.items()}
    selection = select(
        losses,
        delta=study.delta,
        rng=rng,
        finalists=finalists,
        discrepancy=Discrepancy(std=study.transfer_std),
        num_draws=1000,
    )
    at_target = means + study.transfer_std * rng.standard_normal(study.num_configs)
    members = [config.config for config in (*selection.top, *selection.ties)]
    regret = at_target[members].min() - at_target.min()
    return selection, bool(regret <= study.delta), bool(regret == 0)
