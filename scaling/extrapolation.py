"""How far a transfer reaches beyond what was tried, as flags with numbers.

::

    extrapolation_flags(transfer) -> tuple[Flag, ...]
    batch_flags(scale, role) -> tuple[Flag, ...]
    is_batch_saturated(scale) -> bool
"""

from math import log2

from scaling.priors import critical_batch_tokens, optimal_batch_tokens
from scaling.scale import RunScale, Transfer
from simulator.records.summary import Flag

__all__ = ["AMBER_TOKENS_RATIO", "batch_flags", "extrapolation_flags", "is_batch_saturated"]

AMBER_TOKENS_RATIO, RED_TOKENS_RATIO = 10.0, 100.0
AMBER_WIDTH_RATIO = 16.0
AMBER_BATCH_OCTAVES = 2.0
TOKENS_PER_PARAM_RANGE = (0.5, 2.0)
SATURATED_BATCH = 2.0
"""In units of the optimal batch: beyond it the best rate no longer follows the batch."""


def is_batch_saturated(scale: RunScale) -> bool:
    """Return whether the batch exceeds twice the optimal one, so that it earns no higher rate."""
    return scale.batch_tokens > SATURATED_BATCH * optimal_batch_tokens(scale.num_tokens)


def batch_flags(scale: RunScale, role: str) -> tuple[Flag, ...]:
    """Return what the batch laws say of one run's batch; empty where they agree with it.

    Parameters
    ----------
    role
        ``"proxy"`` or ``"target"``; part of the flag's code and message.
    """
    optimal = optimal_batch_tokens(scale.num_tokens)
    critical = critical_batch_tokens(scale.num_tokens)
    found = f"the {role}'s batch of {scale.batch_tokens:,} tokens"
    if scale.batch_tokens > critical:
        message = f"{found} exceeds the critical batch of its horizon (about {critical:,.0f})"
        return (Flag(severity="red", code=f"{role}_batch_over_critical", message=message),)
    if scale.batch_tokens > SATURATED_BATCH * optimal:
        message = (
            f"{found} is {scale.batch_tokens / optimal:.1f} times the optimal batch of its horizon "
            f"(about {optimal:,.0f}); no higher learning rate is granted for it"
        )
        return (Flag(severity="amber", code=f"{role}_batch_over_optimal", message=message),)
    return ()


def extrapolation_flags(transfer: Transfer) -> tuple[Flag, ...]:
    """Return a flag for each direction in which the target lies far from the proxy."""
    return (
        *_horizon(transfer.tokens_ratio),
        *_batch(transfer.batch_ratio),
        *batch_flags(transfer.target, "target"),
        *_tokens_per_param(transfer),
        *_width(transfer.width_ratio),
    )


def _horizon(ratio: float) -> tuple[Flag, ...]:
    distance = max(ratio, 1.0 / ratio)
    if distance <= AMBER_TOKENS_RATIO:
        return ()
    is_red = distance > RED_TOKENS_RATIO
    limit = RED_TOKENS_RATIO if is_red else AMBER_TOKENS_RATIO
    return (
        Flag(
            severity="red" if is_red else "amber",
            code="horizon_extrapolation",
            message=f"the target has {ratio:,.3g} times the proxy's tokens (over {limit:g} apart)",
        ),
    )


def _batch(ratio: float) -> tuple[Flag, ...]:
    if abs(log2(ratio)) <= AMBER_BATCH_OCTAVES:
        return ()
    message = f"the target's batch is {ratio:,.3g} times the proxy's (more than 4 times apart)"
    return (Flag(severity="amber", code="batch_extrapolation", message=message),)


def _tokens_per_param(transfer: Transfer) -> tuple[Flag, ...]:
    low, high = TOKENS_PER_PARAM_RANGE
    if low <= transfer.tokens_per_param_ratio <= high:
        return ()
    message = (
        f"tokens per active parameter: {transfer.target.tokens_per_param:.3g} at the target, "
        f"{transfer.proxy.tokens_per_param:.3g} at the proxy; learning rate and decay are "
        f"extrapolated by {transfer.tokens_per_param_ratio:.3g}"
    )
    return (Flag(severity="amber", code="tokens_per_param_mismatch", message=message),)


def _width(ratio: float) -> tuple[Flag, ...]:
    if ratio <= AMBER_WIDTH_RATIO:
        return ()
    message = f"the target is {ratio:g} times as wide as the proxy (over {AMBER_WIDTH_RATIO:g})"
    return (Flag(severity="amber", code="width_extrapolation", message=message),)
