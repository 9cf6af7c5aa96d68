"""What a study's ledger and records amount to: the best three, their ties, and how surely."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from scaling.checks import SweepChecks, sweep_checks
from scaling.extrapolation import AMBER_TOKENS_RATIO
from scaling.lr_curve import LrPoint
from scaling.outcome import RankedConfig, Selection
from scaling.scale import Transfer
from scaling.selection import select
from scaling.transfer import map_to_target
from simulator.counting.flops import flops_per_token
from simulator.counting.params import count_params
from simulator.records.summary import (
    ConfigSummary,
    Flag,
    IncumbentSummary,
    StudySummary,
    TargetRecipe,
)
from simulator.records.types import RunRecord, TrialRecord
from simulator.specs.model import ModelSpec
from sweeps.objective import has_loss
from sweeps.scales import transfer_of
from sweeps.spec import ChoiceDomain, SweepSpec
from sweeps.stages import INCUMBENT, loss_table, margin

__all__ = ["summarise"]


def summarise(
    sweep: SweepSpec,
    ledger: Sequence[TrialRecord],
    records: Mapping[str, RunRecord],
    *,
    planned: Sequence[Flag] = (),
) -> StudySummary:
    """Return the outcome of a study; a function of its arguments alone.

    Parameters
    ----------
    ledger
        All trials, in order.
    records
        Final records by fingerprint.
    planned
        What the plan warned of.
    """
    transfer = transfer_of(sweep)
    selection, checks = _judge(sweep, ledger, records, transfer)
    describe = _Describer(ledger, transfer)
    runs = list(records.values())
    target = sweep.target
    cost = flops_per_token(target.model, target.seq_len).training_with_mtp
    return StudySummary(
        name=sweep.name,
        verdict=selection.verdict,
        statement=selection.statement,
        top=tuple(describe(ranked, is_mapped=True) for ranked in selection.top),
        ties=tuple(describe(ranked, is_mapped=True) for ranked in selection.ties),
        others=tuple(describe(ranked, is_mapped=False) for ranked in selection.others),
        delta=selection.delta,
        noise=selection.noise,
        noise_std=selection.noise_std,
        incumbent=_incumbent(sweep, selection),
        trials=dict(Counter(run.status for run in runs)),
        checks=checks.values,
        flags=(*planned, *_lost(runs), *checks.flags, *selection.flags),
        target_name=target.name,
        proxy_params=count_params(sweep.base.model).total,
        target_params=count_params(target.model).total,
        sweep_flops=sum(run.train_flops for run in runs),
        target_flops=cost * target.num_tokens,
        wall_seconds=sum(run.wall_seconds for run in runs),
    )


class _Describer:
    """Turns ranked configurations into what the summary says of them."""

    def __init__(self, ledger: Sequence[TrialRecord], transfer: Transfer) -> None:
        self._ledger = ledger
        self._transfer = transfer

    def __call__(self, ranked: RankedConfig, *, is_mapped: bool) -> ConfigSummary:
        trial = self._ledger[ranked.config]
        recipe: TargetRecipe | None = None
        if is_mapped:
            recipe = map_to_target(trial.params, self._transfer)
        return ConfigSummary(
            config=ranked.config,
            label=trial.label or f"#{ranked.config}",
            params=dict(trial.params),
            seeds=ranked.seeds,
            losses=ranked.losses,
            mean_loss=ranked.mean_loss,
            standard_error=ranked.standard_error,
            difference=ranked.difference,
            difference_in_noise=ranked.difference_in_noise,
            is_finalist=ranked.is_finalist,
            recipe=recipe,
        )


def _judge(
    sweep: SweepSpec,
    ledger: Sequence[TrialRecord],
    records: Mapping[str, RunRecord],
    transfer: Transfer,
) -> tuple[Selection, SweepChecks]:
    """Return the order of the configurations, and whether the sweep says anything at all.

    The noise that the checks need is the selection's, so a vacuous sweep is selected twice.
    """
    losses = loss_table(ledger, records)
    choose = partial(
        select,
        losses,
        delta=margin(sweep, losses),
        top_k=sweep.finalists.top_k,
        finalists={trial.config for trial in ledger if trial.purpose == "finalist"},
        caveats=_caveats(sweep, transfer),
    )
    selection = choose(rng=_generator(sweep))
    checks = _checks(sweep, ledger, records, noise_std=selection.noise_std)
    if checks.vacuous:
        selection = choose(rng=_generator(sweep), vacuous=checks.vacuous)
    return selection, checks


def _generator(sweep: SweepSpec) -> np.random.Generator:
    return np.random.default_rng(sweep.search.seed % 2**32)


def _checks(
    sweep: SweepSpec,
    ledger: Iterable[TrialRecord],
    records: Mapping[str, RunRecord],
    *,
    noise_std: float | None,
) -> SweepChecks:
    searched = [trial for trial in ledger if trial.purpose == "search"]
    runs = [records[trial.fingerprint] for trial in searched]
    low, high = _lr_range(sweep)
    return sweep_checks(
        [
            LrPoint(
                peak_lr=float(trial.params["peak_lr"]), loss=run.loss if has_loss(run) else None
            )
            for trial, run in zip(searched, runs, strict=True)
            if has_loss(run) or run.status == "diverged"
        ],
        low=low,
        high=high,
        unigram_entropy=next((r.unigram_entropy for r in runs if r.unigram_entropy), None),
        noise_std=noise_std,
    )


def _lr_range(sweep: SweepSpec) -> tuple[float, float]:
    domain = next(domain for domain in sweep.space.domains if domain.name == "peak_lr")
    if isinstance(domain, ChoiceDomain):
        values = [float(value) for value in domain.values]
        return min(values), max(values)
    return domain.low, domain.high


def _incumbent(sweep: SweepSpec, selection: Selection) -> IncumbentSummary:
    """Return how the published recipe did; without numbers where its runs did not end well."""
    every = (*selection.top, *selection.ties, *selection.others)
    found = next((ranked for ranked in every if ranked.config == INCUMBENT), None)
    return IncumbentSummary(
        config=INCUMBENT,
        source=sweep.incumbent.source,
        mean_loss=found.mean_loss if found else None,
        gain=found.difference if found else None,
        gain_standard_error=found.standard_error if found else None,
    )


def _lost(runs: Sequence[RunRecord]) -> tuple[Flag, ...]:
    """Return a remark on the runs that failed for reasons outside their configuration."""
    lost = Counter(run.status for run in runs if run.status in ("failed", "oom"))
    if not lost:
        return ()
    counted = " and ".join(f"{number} {status}" for status, number in sorted(lost.items()))
    reason = next(run.reason for run in runs if run.status in lost)
    message = f"runs that say nothing of their configuration: {counted}; the first: {reason}"
    return (Flag(severity="amber", code="runs_lost", message=message),)


def _caveats(sweep: SweepSpec, transfer: Transfer) -> tuple[str, ...]:
    """Name, as noun phrases, what differs between proxy and target besides width."""
    proxy, target = sweep.base.model, sweep.target.model
    axes = {
        "depth": (proxy.n_layers, target.n_layers),
        "routed experts": (_num_experts(proxy), _num_experts(target)),
        "vocabulary": (proxy.vocab_size, target.vocab_size),
        "sequence length": (sweep.base.batch.seq_len, sweep.target.seq_len),
    }
    changed = [
        f"the change of {name} from {before} to {after}"
        for name, (before, after) in axes.items()
        if before != after
    ]
    if transfer.tokens_ratio > AMBER_TOKENS_RATIO:
        changed.append(f"a horizon {transfer.tokens_ratio:,.3g} times as long")
    return tuple(changed)


def _num_experts(model: ModelSpec) -> int:
    return model.moe.n_routed_experts if model.moe else 0
