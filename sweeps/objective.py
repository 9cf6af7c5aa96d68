"""What a run teaches the sampler.

A complete run teaches its smoothed loss. A run that diverged, or whose loss is no number, teaches
too: it counts as infeasible, with a loss as bad as the worst decile of the complete ones. A run
that failed for reasons outside its configuration teaches nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.records.types import RunRecord, TrialRecord

__all__ = ["Observation", "has_loss", "observe"]

WORST_QUANTILE = 0.9
"""Of the complete losses, what a diverged run counts as: the largest of up to ten, so that it never
looks good, yet no single absurd one among hundreds, which would flatten all other differences."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One finished trial as a sampler hears of it."""

    trial: TrialRecord
    value: float | None
    """Nats per token, finite; None where the run teaches nothing."""
    is_feasible: bool


def has_loss(record: RunRecord) -> bool:
    """Return whether the run ended well, with a loss that is a number."""
    return record.status == "complete" and record.loss is not None and math.isfinite(record.loss)


def observe(
    trials: Sequence[TrialRecord],
    records: Mapping[str, RunRecord],
    *,
    earlier: Sequence[Observation],
    ceiling: float,
) -> tuple[Observation, ...]:
    """Return what finished ``trials`` teach, in their order.

    Parameters
    ----------
    trials
        One batch.
    records
        Final records by fingerprint.
    earlier
        What was observed before; part of the quantile.
    ceiling
        Loss of a model that knows nothing, nats per token; what a diverged run counts as while no
        run is complete.
    """
    losses = [seen.value for seen in earlier if seen.is_feasible and seen.value is not None]
    for trial in trials:
        record = records[trial.fingerprint]
        if has_loss(record) and record.loss is not None:
            losses.append(record.loss)
    penalty = float(np.quantile(losses, WORST_QUANTILE, method="higher")) if losses else ceiling
    return tuple(_observation(trial, records[trial.fingerprint], penalty) for trial in trials)


def _observation(trial: TrialRecord, record: RunRecord, penalty: float) -> Observation:
    if has_loss(record):
        return Observation(trial, record.loss, is_feasible=True)
    if record.status in ("diverged", "complete"):
        return Observation(trial, penalty, is_feasible=False)
    return Observation(trial, None, is_feasible=False)
