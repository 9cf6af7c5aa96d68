"""Published laws for batch, learning rate and averaging timescale, and the learning-rate prior.

::

    tau_law(tokens_per_param) -> float              averaging timescale, share of the run
    optimal_batch_tokens(num_tokens) -> float       batch of least tokens to a loss
    critical_batch_tokens(num_tokens) -> float      batch past which parallelism stops paying
    step_law_lr(num_params, num_tokens) -> float    one rate for every tensor
    step_law_batch_tokens(num_tokens) -> float
    deepseek_lr(train_flops) -> float
    deepseek_batch_tokens(train_flops) -> float
    balance_bias_rate(num_steps) -> float
    small_scale_lr(width, num_tokens, batch_tokens) -> float
    lr_prior(small_scale=..., mapped=..., mapped_std_octaves=...) -> LrPrior

All of them are pure. None is a default that replaces a search: the same law is off by a factor of
2 to 3 on another recipe, and the laws disagree among themselves.
"""

from dataclasses import dataclass
from math import log2, sqrt

from simulator.specs.errors import SpecError

__all__ = [
    "LrPrior",
    "balance_bias_rate",
    "critical_batch_tokens",
    "deepseek_batch_tokens",
    "deepseek_lr",
    "lr_prior",
    "optimal_batch_tokens",
    "small_scale_lr",
    "step_law_batch_tokens",
    "step_law_lr",
    "tau_law",
]

LAW_SEQUENCE_TOKENS = 2048
"""Tokens of the sequences in which the batch laws of arXiv 2505.13738 count."""

ANCHOR_LR = 1e-2
"""Best peak rate at width 64 on bytes of source code: 4e-3 to 8e-3 in a mixture of experts trained
300 steps of 512 tokens, 0.012 to 0.018 in others under the width rule, 150 steps of 512 to 300 of
1024. Brought to the anchor's horizon and batch, their geometric mean."""
ANCHOR_WIDTH = 64
ANCHOR_TOKENS = 150_000.0
ANCHOR_BATCH_TOKENS = 512.0

HORIZON_EXPONENT = 0.32
"""beta of LR* ~ D^-beta at fixed batch (arXiv 2409.19913)."""
BATCH_EXPONENT = 0.5
"""gamma of LR* ~ B^gamma up to the optimal batch (arXiv 2205.10287)."""

MUON_WIDTH_EXPONENT = 0.5
"""Of the rate at which an orthogonal update has AdamW's size: at the anchor's width the same rate
serves both (arXiv 2502.16982, section 2.2), elsewhere the spectral norm is kept (2310.17813)."""

SMALL_SCALE_STD_OCTAVES = 1.0
"""The optima behind ``ANCHOR_LR`` spread over 1.3 octaves; doubled for models of other kinds."""
PUBLISHED_STD_OCTAVES = 1.0
"""How far a published rate may be off its own optimum: those of DeepSeek-V2, V3 and Kimi-K2 lie
1.4 to 1.7 octaves below the Step Law."""
MAX_PULL_OCTAVES = 0.5
"""How far a rate mapped back from the target may move the centre from the small-scale law: all the
optima behind ``ANCHOR_LR`` then stay a whole octave inside a range of six."""


def tau_law(tokens_per_param: float) -> float:
    """Return the best averaging timescale 1 / (lr * weight_decay * steps), a share of the run.

    Parameters
    ----------
    tokens_per_param
        Training tokens per active non-embedding parameter, > 0.

    Notes
    -----
    tau = 1.084 * TPP^-0.527, fitted on dense models of 111 M to 3.3 B; not established for
    mixtures of experts. Below TPP 1.2 it exceeds 1: hardly any decay within the run.

    References
    ----------
    Power Lines, arXiv 2505.13738, section 3.

    Examples
    --------
    >>> round(tau_law(400), 3)
    0.046
    """
    return float(1.084 * _positive("tokens_per_param", tokens_per_param) ** -0.527)


def optimal_batch_tokens(num_tokens: float) -> float:
    """Return the batch, in tokens, that reaches the best loss after ``num_tokens`` tokens.

    Notes
    -----
    B_opt = 0.0306 * D^0.383 sequences of 2048 tokens. Other sources give exponents of 0.47
    (arXiv 2410.21676) and 0.571 (arXiv 2503.04715): over a factor 64 in D that is a factor 2.2.

    References
    ----------
    Power Lines, arXiv 2505.13738, section 4.
    """
    return float(0.0306 * _positive("num_tokens", num_tokens) ** 0.383 * LAW_SEQUENCE_TOKENS)


def critical_batch_tokens(num_tokens: float) -> float:
    """Return the batch, in tokens, beyond which more of it wastes as much compute as it saves time.

    Notes
    -----
    B_crit = 0.0471 * D^0.462 sequences of 2048 tokens.

    References
    ----------
    Power Lines, arXiv 2505.13738, section 4.
    """
    return float(0.0471 * _positive("num_tokens", num_tokens) ** 0.462 * LAW_SEQUENCE_TOKENS)


def step_law_lr(num_params: float, num_tokens: float) -> float:
    """Return the Step Law's peak rate, one for every tensor, at its own re-optimised batch.

    Parameters
    ----------
    num_params
        Non-embedding parameters; the public runs behind it have 215 M to 1.07 B.
    num_tokens
        The public runs have 4e9 to 1e11.

    Notes
    -----
    LR = 1.79 * N^-0.713 * D^0.307. The rising power of D holds because the batch rises with D;
    at a fixed batch the best rate falls with D.

    References
    ----------
    arXiv 2503.04715, equation 1.
    """
    n, d = _positive("num_params", num_params), _positive("num_tokens", num_tokens)
    return float(1.79 * n**-0.713 * d**0.307)


def step_law_batch_tokens(num_tokens: float) -> float:
    """Return the Step Law's batch in tokens, 0.58 * D^0.571 (arXiv 2503.04715, equation 1)."""
    return float(0.58 * _positive("num_tokens", num_tokens) ** 0.571)


def deepseek_lr(train_flops: float) -> float:
    """Return DeepSeek LLM's peak rate, 0.3118 * C^-0.1250 (arXiv 2401.02954, section 3.1).

    Parameters
    ----------
    train_flops
        Training FLOPs of the whole run; fitted from 1e17 to 2e19 on compute-optimal runs.
    """
    return float(0.3118 * _positive("train_flops", train_flops) ** -0.1250)


def deepseek_batch_tokens(train_flops: float) -> float:
    """Return DeepSeek LLM's batch in tokens, 0.2920 * C^0.3271 (arXiv 2401.02954, section 3.1)."""
    return float(0.2920 * _positive("train_flops", train_flops) ** 0.3271)


def balance_bias_rate(num_steps: int) -> float:
    """Return the update speed of the router's balance bias for a run of ``num_steps`` steps.

    Notes
    -----
    The bias has to travel about the spread of the scores (0.5) within the run, so the rate is
    3 / steps, kept within [1e-3, 1e-2]: 1e-3 is DeepSeek-V3's (arXiv 2412.19437, section 4.2),
    1e-2 is where balancing turns noisy (arXiv 2408.15664). It does not depend on the width.
    """
    return min(max(1e-3, 3.0 / _positive("num_steps", num_steps)), 1e-2)


def small_scale_lr(
    width: int, num_tokens: float, batch_tokens: float, *, width_exponent: float = 1.0
) -> float:
    """Return the peak rate of hidden matrices expected at this width, horizon and batch.

    Parameters
    ----------
    width
        ``dim`` of the model that is trained.
    num_tokens, batch_tokens
        Of the run.
    width_exponent
        AdamW's; Muon's is ``MUON_WIDTH_EXPONENT``.

    Notes
    -----
    LR = 1e-2 * (64 / width) * (D / 150 k)^-0.32 * (B / 512)^0.5, where B counts up to twice the
    optimal batch of D: the default model of learning rates anchored at tiny models instead of
    huge ones. At GPT-2's 124 M parameters (width 768, 1e10 tokens, batches of 5e5) it gives 7e-4,
    where that model is usually trained at 6e-4; past 1e12 tokens it is too low by 4 to 6 times.

    References
    ----------
    Width: arXiv 2203.03466, table 3. Horizon: arXiv 2409.19913. Batch: arXiv 2205.10287.

    Examples
    --------
    >>> small_scale_lr(64, 150_000, 512)
    0.01
    """
    batch = min(_positive("batch_tokens", batch_tokens), 2.0 * optimal_batch_tokens(num_tokens))
    horizon = (num_tokens / ANCHOR_TOKENS) ** -HORIZON_EXPONENT
    return float(
        ANCHOR_LR
        * (ANCHOR_WIDTH / _positive("width", width)) ** width_exponent
        * horizon
        * (batch / ANCHOR_BATCH_TOKENS) ** BATCH_EXPONENT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LrPrior:
    """Where the search over the proxy's peak learning rate is centred, and why."""

    center: float
    low: float
    high: float
    small_scale: float
    """What the law of small models says."""
    mapped: float | None
    """What the target's published rate says when it is mapped back; null where none is known."""
    reason: str
    """One plain sentence."""


def lr_prior(
    *,
    small_scale: float,
    mapped: float | None = None,
    mapped_std_octaves: float = 0.0,
    span_octaves: float = 6.0,
) -> LrPrior:
    """Return the centre and the bounds of the proxy's range of peak rates.

    Parameters
    ----------
    small_scale
        Peak rate by :func:`small_scale_lr`, as the parametrisation's base rate.
    mapped
        The target's published rate mapped back to the proxy, in the same terms.
    mapped_std_octaves
        Standard deviation of the mapping in octaves, >= 0, from the exponents' priors; an octave
        for the published rate's own distance from the optimum is added here.
    span_octaves
        Width of the range, half of it on each side of the centre.

    Notes
    -----
    The two are averaged in log2 by inverse variance, so that a rate mapped back over a short
    distance leads and one mapped back over many decades of tokens hardly counts; then the centre
    is kept within half an octave of the small-scale law, which speaks of runs of the proxy's size.
    """
    center, reason = small_scale, "law of small models; no published rate to map back"
    if mapped is not None:
        center, reason = _pulled(small_scale, mapped, mapped_std_octaves)
    half = 2.0 ** (span_octaves / 2)
    return LrPrior(
        center=center,
        low=center / half,
        high=center * half,
        small_scale=small_scale,
        mapped=mapped,
        reason=reason,
    )


def _pulled(small_scale: float, mapped: float, std_octaves: float) -> tuple[float, str]:
    own, other = SMALL_SCALE_STD_OCTAVES**2, PUBLISHED_STD_OCTAVES**2 + std_octaves**2
    weight = own / (own + other)
    distance = log2(mapped / small_scale)
    pull = max(-MAX_PULL_OCTAVES, min(MAX_PULL_OCTAVES, weight * distance))
    reason = (
        f"published rate mapped back ({mapped:.2g}, +-{sqrt(other):.1f} octaves) and law of small "
        f"models ({small_scale:.2g}, +-{SMALL_SCALE_STD_OCTAVES:.0f}), weights {weight:.2f} and "
        f"{1 - weight:.2f}"
    )
    if abs(weight * distance) > MAX_PULL_OCTAVES:
        reason += f"; kept within {MAX_PULL_OCTAVES:g} octave of the latter"
    return float(small_scale * 2.0**pull), reason


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise SpecError(name, "must be positive", value, "Give a number > 0.")
    return value
