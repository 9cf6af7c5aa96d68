"""What can make a study mean little: flags before it starts, and guards when it has ended.

::

    plan_flags(transfer, unique_tokens=..., is_synthetic=...) -> tuple[Flag, ...]
    sweep_checks(points, low=..., high=..., unigram_entropy=..., noise_std=...) -> SweepChecks
    SweepChecks(values, flags, vacuous)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scaling.extrapolation import batch_flags, extrapolation_flags
from scaling.lr_curve import LrCurve, LrPoint, lr_curve
from scaling.scale import Transfer
from scaling.transfer import NORMAL_QUANTILE_90, lr_std_octaves
from simulator.counting.params import count_params
from simulator.records.summary import Flag

__all__ = ["SweepChecks", "plan_flags", "sweep_checks"]

MIN_TOKENS_PER_EXPERT = 64
"""Per step, on average: below it the balance of the experts is mostly chance. Ours."""
MAX_REPEATS = 4.0
"""Up to about four passes data are nearly as good as fresh (arXiv 2305.16264)."""
MAX_EMBEDDING_SHARE = 0.5
"""Of all parameters: beyond it the proxy is mostly tables that scale unlike its matrices. Ours."""
MANY_TOKENS_PER_WIDTH = 10.0
"""Tokens per step over width from which the alignment behind the 1/fan-in rule holds only early
and decay has to keep the transfer (arXiv 2510.19093, which gives no number; this one is ours)."""
MAX_INCUMBENT_OCTAVES = 1.0
"""Half-width of the 80 % interval of a rate mapped between target and proxy; one octave off costs
up to half a percent of loss, more than most gains."""

MIN_UNIGRAM_GAIN = 0.01
FLAT_NOISE, FLAT_OCTAVES = 3.0, 4.0
"""A curve flatter than three times the noise over a factor 16 in learning rate shows nothing."""
MIN_SPREAD_NOISE = 5.0
MIN_EDGE_OCTAVES = 0.5


def plan_flags(
    transfer: Transfer, *, unique_tokens: int | None, is_synthetic: bool
) -> tuple[Flag, ...]:
    """Return every remark on a plan that lowers confidence, the transfer's own included.

    Parameters
    ----------
    unique_tokens
        Training tokens there are; null for a source that never repeats.
    is_synthetic
        Whether the text was generated.
    """
    return (
        *extrapolation_flags(transfer),
        *batch_flags(transfer.proxy, "proxy"),
        *_tokens_per_expert(transfer),
        *_repeats(transfer, unique_tokens),
        *_embedding_share(transfer),
        *_tokens_per_width(transfer),
        *_incumbent(transfer),
        *(_SYNTHETIC if is_synthetic else ()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepChecks:
    """Whether a finished sweep says anything."""

    values: dict[str, float | None]
    """As ``StudySummary.checks`` names them."""
    flags: tuple[Flag, ...]
    vacuous: tuple[str, ...]
    """Reasons why the ranking means nothing; empty for a sound sweep."""


def sweep_checks(
    points: Sequence[LrPoint],
    *,
    low: float,
    high: float,
    unigram_entropy: float | None,
    noise_std: float | None,
) -> SweepChecks:
    """Return what the trials of a search show of their own soundness.

    Parameters
    ----------
    points
        Every trial of the search, one seed each, diverged ones included.
    low, high
        Bounds of the searched range of peak rates.
    unigram_entropy
        Of the training tokens, nats; null where unknown.
    noise_std
        Of one run, nats; null where unknown.
    """
    curve = lr_curve(points, low, high)
    best = min(curve.losses) if curve else None
    gain = 1.0 - best / unigram_entropy if best is not None and unigram_entropy else None
    spread_in_noise = curve.spread / noise_std if curve and noise_std else None
    values = {
        "unigram_entropy": unigram_entropy,
        "best_loss": best,
        "loss_below_unigram": gain,
        "lr_spread": curve.spread if curve else None,
        "lr_spread_in_noise": spread_in_noise,
        "lr_optimum_octaves_from_edge": curve.octaves_from_edge if curve else None,
    }
    vacuous = (*_unlearnt(gain), *_flat(curve, noise_std))
    return SweepChecks(
        values=values,
        flags=(*_edge(curve), *_weak(spread_in_noise)),
        vacuous=vacuous,
    )


def _tokens_per_expert(transfer: Transfer) -> tuple[Flag, ...]:
    moe = transfer.parametrisation.proxy.moe
    if moe is None:
        return ()
    load = transfer.proxy.batch_tokens * moe.n_activated_experts / moe.n_routed_experts
    if load >= MIN_TOKENS_PER_EXPERT:
        return ()
    message = (
        f"an expert of the proxy sees {load:.3g} tokens a step on average (under "
        f"{MIN_TOKENS_PER_EXPERT}): its load, and so the balancing, is mostly chance"
    )
    return (Flag(severity="amber", code="tokens_per_expert", message=message),)


def _repeats(transfer: Transfer, unique_tokens: int | None) -> tuple[Flag, ...]:
    if unique_tokens is None or transfer.proxy.num_tokens <= MAX_REPEATS * unique_tokens:
        return ()
    message = (
        f"a run reads {transfer.proxy.num_tokens:,} tokens of {unique_tokens:,} unique ones, "
        f"{transfer.proxy.num_tokens / unique_tokens:.1f} passes (over {MAX_REPEATS:g})"
    )
    return (Flag(severity="amber", code="repeated_data", message=message),)


def _embedding_share(transfer: Transfer) -> tuple[Flag, ...]:
    count = count_params(transfer.parametrisation.proxy)
    share = (count.embedding + count.head) / count.total
    if share <= MAX_EMBEDDING_SHARE:
        return ()
    message = (
        f"embedding and head are {100 * share:.0f} % of the proxy's parameters; a smaller "
        "vocabulary would let it speak of the matrices"
    )
    return (Flag(severity="amber", code="embedding_share", message=message),)


def _tokens_per_width(transfer: Transfer) -> tuple[Flag, ...]:
    ratio = transfer.target.batch_tokens / transfer.parametrisation.target.dim
    if ratio <= MANY_TOKENS_PER_WIDTH:
        return ()
    message = (
        f"the target's batch is {ratio:,.0f} times its width: past the first part of training what "
        "carries over is learning rate times decay, so the decay must not be switched off"
    )
    return (Flag(severity="info", code="batch_over_width", message=message),)


def _incumbent(transfer: Transfer) -> tuple[Flag, ...]:
    octaves = NORMAL_QUANTILE_90 * lr_std_octaves(transfer)
    if octaves <= MAX_INCUMBENT_OCTAVES:
        return ()
    message = (
        f"the target's own peak rate maps to the proxy only to within a factor {2.0**octaves:.2g} "
        "either way: a gain over the incumbent may be the mapping's and not the search's"
    )
    return (Flag(severity="amber", code="incumbent_uncertain", message=message),)


_SYNTHETIC = (
    Flag(
        severity="amber",
        code="synthetic_data",
        message="generated text proves that the machinery works, not what is best for the target: "
        "optima depend on the data",
    ),
)


def _unlearnt(gain: float | None) -> tuple[str, ...]:
    if gain is None or gain >= MIN_UNIGRAM_GAIN:
        return ()
    return (
        f"the best loss is only {100 * gain:.2g} % below the entropy of single tokens, so hardly "
        "anything was learnt",
    )


def _flat(curve: LrCurve | None, noise_std: float | None) -> tuple[str, ...]:
    if curve is None or noise_std is None:
        return ()
    spread = curve.spread_over(FLAT_OCTAVES)
    if spread is None or spread >= FLAT_NOISE * noise_std:
        return ()
    return (
        f"over a factor {2**FLAT_OCTAVES:g} in learning rate the best losses differ by "
        f"{spread:.2g} nats, less than {FLAT_NOISE:g} times the noise of a run ({noise_std:.2g})",
    )


def _edge(curve: LrCurve | None) -> tuple[Flag, ...]:
    if curve is None or (curve.is_bracketed and curve.octaves_from_edge >= MIN_EDGE_OCTAVES):
        return ()
    side = "lower" if curve.optimum_octaves < curve.range_octaves / 2 else "upper"
    message = (
        f"the best learning rate lies {max(0.0, curve.octaves_from_edge):.1f} octaves from the "
        f"{side} end of the range"
        + ("" if curve.is_bracketed else " and nothing was tried beyond it")
        + ": the optimum may lie outside, extend the range there"
    )
    return (Flag(severity="amber", code="lr_optimum_near_edge", message=message),)


def _weak(spread_in_noise: float | None) -> tuple[Flag, ...]:
    if spread_in_noise is None or spread_in_noise >= MIN_SPREAD_NOISE:
        return ()
    message = (
        f"over the whole range of learning rates the best losses spread by only "
        f"{spread_in_noise:.1f} times the noise of a run (under {MIN_SPREAD_NOISE:g})"
    )
    return (Flag(severity="amber", code="weak_lr_signal", message=message),)
