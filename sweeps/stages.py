"""What a study does next, as a pure function of its ledger and records.

::

    search      the incumbent and batches of suggestions, one seed each
    noise       more seeds of the best configuration: how far two runs of one differ
    finalists   more seeds of those that may be the best, the incumbent always among them

A decision that is in the ledger is never taken again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scaling.noise import estimate_noise
from scaling.selection import choose_finalists
from simulator.records.types import RunPurpose, RunRecord, TrialRecord
from simulator.specs.codec import fingerprint
from sweeps.objective import has_loss
from sweeps.search import AskFn, next_batch
from sweeps.space import apply
from sweeps.spec import SweepSpec

__all__ = ["INCUMBENT", "loss_table", "margin", "next_round", "num_planned"]

INCUMBENT = 0
"""Configuration number of the incumbent: it is always the first trial."""

LossTable = dict[int, dict[int, float]]


def next_round(
    sweep: SweepSpec,
    ledger: Sequence[TrialRecord],
    records: Mapping[str, RunRecord],
    ask: AskFn,
) -> tuple[TrialRecord, ...]:
    """Return the trials to enter next; empty when the study is complete.

    Parameters
    ----------
    ledger
        All trials so far.
    records
        The final record of every one of them, by fingerprint.
    """
    purposes = {trial.purpose for trial in ledger}
    if purposes <= {"search"}:
        batch = next_batch(sweep, ledger, ask)
        if batch:
            return batch
    losses = loss_table(ledger, records)
    if "noise" not in purposes and "finalist" not in purposes:
        best = _best(losses)
        replicates = _replicates(sweep, ledger, "noise", best, sweep.finalists.noise_replicates)
        if replicates:
            return replicates
    if "finalist" in purposes:
        return ()
    finalists = _finalists(sweep, losses)
    return _replicates(sweep, ledger, "finalist", finalists, sweep.finalists.num_seeds)


def loss_table(ledger: Iterable[TrialRecord], records: Mapping[str, RunRecord]) -> LossTable:
    """Return configuration -> seed -> smoothed loss, nats; NaN where a run did not end well.

    Runs without a final record are left out.
    """
    table: LossTable = {}
    for trial in ledger:
        record = records.get(trial.fingerprint)
        if record is not None:
            loss = record.loss if has_loss(record) and record.loss is not None else math.nan
            table.setdefault(trial.config, {})[trial.seed] = loss
    return table


def margin(sweep: SweepSpec, losses: Mapping[int, Mapping[int, float]]) -> float:
    """Return the indifference margin in nats: the fixed share of the search's best loss."""
    best = _best(losses)
    return sweep.finalists.delta_fraction * losses[best[0]][0] if best else 0.0


def num_planned(sweep: SweepSpec) -> int:
    """Return the most runs the study may come to; finalists may turn out fewer."""
    finalists = sweep.finalists
    fresh = max(0, finalists.num_seeds - 1)
    num_finalists = min(max(finalists.max_configs, 1), sweep.search.num_trials)
    shared = min(fresh, max(0, finalists.noise_replicates - 1))
    extra_noise = max(0, finalists.noise_replicates - 1) - shared
    return sweep.search.num_trials + extra_noise + num_finalists * fresh


def _best(losses: Mapping[int, Mapping[int, float]]) -> tuple[int, ...]:
    """Return the configuration with the least loss on the search's seed, if any ended well."""
    searched = {config: row[0] for config, row in losses.items() if math.isfinite(row[0])}
    return (min(searched, key=lambda config: (searched[config], config)),) if searched else ()


def _finalists(sweep: SweepSpec, losses: LossTable) -> tuple[int, ...]:
    """Return who gets more seeds; a configuration that failed the search does not."""
    best = _best(losses)
    if not best:
        return ()
    noise = estimate_noise({config: losses[config] for config in best})
    searched = {config: row[0] for config, row in losses.items() if math.isfinite(row[0])}
    return choose_finalists(
        searched,
        noise_std=None if noise is None else noise.paired_std or noise.seed_std,
        delta=margin(sweep, losses),
        max_configs=sweep.finalists.max_configs,
        always=(INCUMBENT,),
    )


def _replicates(
    sweep: SweepSpec,
    ledger: Sequence[TrialRecord],
    purpose: RunPurpose,
    configs: Sequence[int],
    num_seeds: int,
) -> tuple[TrialRecord, ...]:
    """Return ``configs`` on seeds 1 to ``num_seeds`` - 1, seed by seed.

    A seed that an earlier trial ran already is entered again under the same fingerprint, so that
    the ledger says what the finalists are compared on; nothing is trained twice.
    """
    originals = [ledger[config] for config in configs]
    trials = [
        replace(
            original,
            number=len(ledger) + place,
            batch=-1,
            purpose=purpose,
            seed=seed,
            draw=-1,
            round_size=len(configs) * (num_seeds - 1),
            fingerprint=fingerprint(apply(sweep, original.params, seed=seed)),
        )
        for place, (seed, original) in enumerate(
            (seed, original) for seed in range(1, num_seeds) for original in originals
        )
    ]
    return tuple(trials)
