"""Who gets more seeds, and what may be said in the end.

::

    choose_finalists(losses, noise_std=..., delta=..., max_configs=..., always=()) -> configs
    select(losses, delta=..., rng=..., top_k=3, finalists=(), ...) -> Selection
    seeds_to_resolve(noise_std, delta) -> int

The margin ``delta`` is fixed before the study. Noise decides how many seeds are needed and how
many configurations tie, never the margin.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, isfinite, sqrt

import numpy as np
from scipy.stats import norm

from scaling.noise import LossTable, estimate_noise, finite_losses
from scaling.outcome import ASSUMED_DISCREPANCY, Discrepancy, RankedConfig, Selection, Verdict
from scaling.probability import NEAR_BEST, chances, draw_losses, regress_single_runs
from scaling.ranking import Estimate, Ranking, rank
from scaling.statement import state
from scaling.ties import MIN_CHANCE, RunNoise, Split, split, standard_error
from simulator.records.summary import Flag, NoiseSummary

__all__ = ["choose_finalists", "seeds_to_resolve", "select"]

MIN_FINALISTS = 3
TIE_FRACTION = 1.0 / 3.0


def choose_finalists(
    losses: Mapping[int, float],
    *,
    noise_std: float | None,
    delta: float,
    max_configs: int,
    always: Collection[int] = (),
) -> tuple[int, ...]:
    """Return the configurations that deserve more seeds, best first.

    Parameters
    ----------
    losses
        One run of each configuration on the same seed, nats; NaN or infinite where it failed.
    noise_std
        Of one run, after what runs share under a seed; null where unknown: then the best
        ``max_configs`` are taken.
    max_configs
        Limit, ``always`` included; only ``always`` itself may exceed it.
    always
        Configurations that take part whatever their loss, such as the incumbent.

    Notes
    -----
    All with P(within delta of the best) > 10 %, the difference of two runs being normal with
    standard deviation sqrt(2) * noise_std; at least three, so that the top three are measured.
    """
    finite = sorted((loss, config) for config, loss in losses.items() if isfinite(loss))
    kept = [config for config in always if config in losses]
    if finite:
        best = finite[0][0]
        reach = inf if noise_std is None else delta + norm.isf(MIN_CHANCE) * sqrt(2.0) * noise_std
        rivals = [
            config
            for place, (loss, config) in enumerate(finite)
            if (loss - best <= reach or place < MIN_FINALISTS) and config not in kept
        ]
        kept += rivals[: max(0, max_configs - len(kept))]
    return tuple(sorted(kept, key=lambda config: (not isfinite(losses[config]), losses[config])))


def seeds_to_resolve(noise_std: float, delta: float) -> int:
    """Return the seeds per configuration that show a paired difference of ``delta``.

    Notes
    -----
    n = 7.85 * (sigma_d / delta)^2 for 5 % two-sided and 80 % power, sigma_d = sqrt(2) * noise_std
    being the standard deviation of a paired difference; 2 more up to n = 6, where the t quantile
    exceeds the normal one.
    """
    count = max(1, ceil(7.85 * 2.0 * (noise_std / delta) ** 2))
    return count + 2 if count <= 6 else count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Odds:
    set_contains_best: float
    set_within_delta: float
    each: Mapping[int, tuple[float, float]]
    """Per configuration: chance of being the best, and of lying within the margin of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Everything the selection is made of."""

    losses: LossTable
    ranking: Ranking
    noise: NoiseSummary | None
    run_noise: RunNoise
    parts: Split
    odds: _Odds | None
    delta: float
    transfer_std: float


def select(
    losses: LossTable,
    *,
    delta: float,
    rng: np.random.Generator,
    top_k: int = 3,
    finalists: Collection[int] = (),
    search_seeds: Collection[int] = (0,),
    discrepancy: Discrepancy = ASSUMED_DISCREPANCY,
    vacuous: Sequence[str] = (),
    caveats: Sequence[str] = (),
    num_draws: int = 20_000,
) -> Selection:
    """Return the best ``top_k`` with their ties and how far the losses support them.

    Parameters
    ----------
    losses
        Configuration -> seed -> smoothed validation loss, nats; NaN or infinite where a run failed.
    delta
        Indifference margin, nats, fixed before the study.
    rng
        Seeded by the caller; the probabilities depend on it in the third digit.
    finalists, search_seeds
        See :func:`scaling.ranking.rank`.
    vacuous
        Reasons why the study says nothing, from ``scaling.checks``; any makes the verdict vacuous.
    caveats
        What the probabilities leave out besides untested configurations, as noun phrases.

    Notes
    -----
    A configuration ties with the last of the top unless the chance that it is within ``delta`` of
    it, under seed noise, is below 10 %. If there are ties and the group that ties with the last of
    the top, members of the top included, exceeds a third of all configurations, the verdict is
    *not resolved*.
    """
    ranking = rank(losses, finalists=finalists, search_seeds=search_seeds)
    noise = _noise(losses, ranking)
    run_noise = _run_noise(noise)
    parts = split(ranking.estimates, run_noise, delta=delta, top_k=top_k)
    evidence = _Evidence(
        losses=losses,
        ranking=ranking,
        noise=noise,
        run_noise=run_noise,
        parts=parts,
        odds=_odds(parts, run_noise, delta, discrepancy, num_draws, rng),
        delta=delta,
        transfer_std=discrepancy.std,
    )
    selection = _selection(evidence, _verdict(parts, len(losses), run_noise, vacuous))
    text = state(
        selection,
        discrepancy=discrepancy,
        seeds_needed=seeds_to_resolve(run_noise.std, delta) if run_noise.std else 0,
        vacuous=vacuous,
        caveats=caveats,
    )
    return replace(selection, statement=text)


def _selection(evidence: _Evidence, verdict: Verdict) -> Selection:
    """Return the selection without its statement."""
    parts, odds, noise = evidence.parts, evidence.odds, evidence.run_noise
    show = partial(_ranked, evidence=evidence)
    is_open = verdict == "not_resolved"
    return Selection(
        verdict=verdict,
        statement="",
        top=tuple(map(show, parts.top)),
        ties=tuple(map(show, parts.ties)),
        others=tuple(map(show, parts.others)),
        failed=evidence.ranking.failed,
        delta=evidence.delta,
        noise=evidence.noise,
        noise_std=noise.std,
        seeds=evidence.ranking.seeds,
        num_tied=parts.num_tied,
        num_configs=len(evidence.losses),
        runs_needed=_runs_needed(parts, noise, evidence.delta) if is_open else 0,
        p_contains_best=odds.set_contains_best if odds else None,
        p_within_delta=odds.set_within_delta if odds else None,
        transfer_std=evidence.transfer_std,
        flags=_flags(evidence.ranking),
    )


def _noise(losses: LossTable, ranking: Ranking) -> NoiseSummary | None:
    """Return the noise of the configurations near the best, or of all where none has two seeds."""
    if not ranking.estimates:
        return None
    limit = (1.0 + NEAR_BEST) * ranking.estimates[0].mean
    near = {e.config: losses[e.config] for e in ranking.estimates if e.mean <= limit}
    return estimate_noise(near) or estimate_noise(losses)


def _run_noise(noise: NoiseSummary | None) -> RunNoise:
    if noise is None:
        return RunNoise(std=None, dof=0)
    std = noise.seed_std if noise.paired_std is None else noise.paired_std
    return RunNoise(std=std, dof=noise.degrees_of_freedom)


def _odds(
    parts: Split,
    noise: RunNoise,
    delta: float,
    discrepancy: Discrepancy,
    num_draws: int,
    rng: np.random.Generator,
) -> _Odds | None:
    if noise.std is None or not parts.top:
        return None
    estimates = (*parts.top, *parts.ties, *parts.others)
    draws = draw_losses(
        regress_single_runs(estimates, noise.std),
        noise_std=noise.std,
        dof=noise.dof,
        transfer_std=discrepancy.std,
        num_draws=num_draws,
        rng=rng,
    )
    found = chances(draws, range(len(parts.top) + len(parts.ties)), delta)
    return _Odds(
        set_contains_best=found.set_contains_best,
        set_within_delta=found.set_within_delta,
        each={
            estimate.config: odds
            for estimate, odds in zip(
                estimates, zip(found.best, found.within_delta, strict=True), strict=True
            )
        },
    )


def _verdict(parts: Split, num_configs: int, noise: RunNoise, vacuous: Sequence[str]) -> Verdict:
    if not parts.top:
        return "incomplete"
    if vacuous:
        return "vacuous"
    if noise.std is None or parts.num_tied > TIE_FRACTION * num_configs:
        return "not_resolved"
    return "resolved"


def _runs_needed(parts: Split, noise: RunNoise, delta: float) -> int:
    """Return the further runs that give every tied configuration enough seeds."""
    if noise.std is None:
        return len(parts.top) + len(parts.ties)
    wanted = seeds_to_resolve(noise.std, delta)
    return sum(max(0, wanted - estimate.num_seeds) for estimate in (*parts.top, *parts.ties))


def _ranked(estimate: Estimate, *, evidence: _Evidence) -> RankedConfig:
    config, best = estimate.config, evidence.parts.top[0]
    row = finite_losses({config: evidence.losses[config]})[config]
    difference = estimate.mean - best.mean
    noise, odds = evidence.run_noise, evidence.odds
    p_best, p_within_delta = odds.each[config] if odds else (None, None)
    return RankedConfig(
        config=config,
        seeds=tuple(sorted(row)),
        losses=tuple(row[seed] for seed in sorted(row)),
        mean_loss=estimate.mean,
        difference=difference,
        standard_error=None if estimate is best else standard_error(estimate, best, noise),
        difference_in_noise=difference / noise.std if noise.std else None,
        is_finalist=estimate.is_measured,
        num_failed=estimate.num_failed,
        p_best=p_best,
        p_within_delta=p_within_delta,
    )


def _flags(ranking: Ranking) -> tuple[Flag, ...]:
    flags = []
    if ranking.seeds and not ranking.is_fresh:
        message = (
            "the finalists' losses include the search's own seed, whose luck helped to choose "
            "them; differences from the best are a little too large"
        )
        flags.append(Flag(severity="info", code="search_seed_included", message=message))
    unsteady = [f"#{e.config}" for e in ranking.estimates if e.num_failed]
    if unsteady:
        message = f"{', '.join(unsteady)} failed on some seed and cannot be among the best"
        flags.append(Flag(severity="amber", code="failed_on_a_seed", message=message))
    return tuple(flags)
