"""Hyperparameters from the proxy to the target and back: width, batch, horizon and decay.

::

    map_to_target(params, transfer) -> TargetRecipe
    map_to_proxy(point, transfer, decay="tau" | "weight_decay") -> dict[str, float | str]
    point_of(recipe) -> RecipePoint
    lr_std_octaves(transfer) -> float

``params`` are the search space's values: ``peak_lr``, one of ``tau`` and ``weight_decay``,
``warmup_ratio`` and ``schedule``. The two maps are each other's inverse wherever the warmup floor
does not bind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, hypot, log, log2
from typing import Literal

from scaling.extrapolation import AMBER_TOKENS_RATIO, extrapolation_flags, is_batch_saturated
from scaling.priors import step_law_lr
from scaling.scale import Multipliers, Transfer, multipliers_of
from simulator.records.summary import Flag, TargetRecipe
from simulator.specs.errors import SpecError

__all__ = [
    "NORMAL_QUANTILE_90",
    "RecipePoint",
    "lr_std_octaves",
    "map_to_proxy",
    "map_to_target",
    "point_of",
]

NORMAL_QUANTILE_90 = 1.2815515655446004
"""Half-width of an 80 % interval in standard deviations."""

MIN_WARMUP_STEPS = 200
"""Curvature falls over the first hundreds of steps, however long the run (arXiv 2406.09405)."""
MAX_FLOOR_FRACTION = 0.1
"""No floor may lengthen the warmup beyond this share of the run: ours, for targets so short that
200 steps would be most of them."""

SAFETY_FRACTION = 0.25
"""How far down the lower half of the interval to go when in doubt: above the optimum lies a cliff,
below it a slope."""
SAFETY_OCTAVES = 0.5
"""Half-width of the interval, in octaves, from which the advice is given: half an octave off costs
0.1 % of loss at most."""

MUON_DRIFT_FACTOR = 2.0
"""Of the width's drift under Muon: two published rules for the size of its update that we use, rate
over the root of the width (arXiv 2310.17813; 2512.05620) and over the width (2608.20061, a mixture
of experts), are half an octave apart for every doubling. Ours."""

STEP_LAW_FACTOR = 4.0
STEP_LAW_PARAMS = (1e8, 1e12)
STEP_LAW_TOKENS = (1e9, 1e14)
"""Within these, a disagreement with the Step Law is a warning; outside it is only a remark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePoint:
    """A recipe as people publish it: what a hidden matrix of the target sees."""

    matrix_lr: float
    weight_decay: float
    """In PyTorch's convention, theta * (1 - lr * weight_decay)."""
    warmup_steps: int
    schedule: str
    """The name the search knows it by."""


def point_of(recipe: TargetRecipe) -> RecipePoint:
    """Return what a hidden matrix sees under a mapped recipe."""
    return RecipePoint(
        matrix_lr=recipe.matrix_lr,
        weight_decay=recipe.weight_decay,
        warmup_steps=recipe.warmup_steps,
        schedule=recipe.schedule,
    )


def map_to_target(params: Mapping[str, float | str], transfer: Transfer) -> TargetRecipe:
    """Return the proxy's configuration as the target has to be trained.

    Raises
    ------
    SpecError
        If a parameter is missing, or neither or both of ``tau`` and ``weight_decay`` are given.

    Notes
    -----
    With kD, kB, kS the ratios of tokens, batch and steps and r that of tokens per active
    parameter, the peak rate is multiplied by kD^-beta * kB^gamma (gamma = 0 past twice the optimal
    batch) and the product lr * weight_decay by r^0.53 / kS; the parametrisation then divides the
    matrices' rate by the fan-in ratio and multiplies their decay by it. Its 80 % interval is by
    the delta method in log space from the exponents' standard deviations and the width's drift.
    """
    multipliers = _on_target(transfer)
    proxy_lr = _number(params, "peak_lr")
    peak_lr = proxy_lr * _lr_factor(transfer)
    product = _proxy_product(params, transfer) * _product_factor(transfer)
    warmup_steps, warmup_flags = _target_warmup(_number(params, "warmup_ratio"), transfer)
    octaves = NORMAL_QUANTILE_90 * lr_std_octaves(transfer)
    interval = (peak_lr * 2.0**-octaves, peak_lr * 2.0**octaves)
    return TargetRecipe(
        peak_lr=peak_lr,
        matrix_lr=peak_lr * multipliers.matrix_lr,
        embedding_lr=peak_lr * multipliers.embedding_lr,
        weight_decay=product / peak_lr * multipliers.matrix_decay,
        warmup_steps=warmup_steps,
        schedule=_text(params, "schedule"),
        num_steps=transfer.target.num_steps,
        global_batch_tokens=transfer.target.batch_tokens,
        lr_interval_80=interval,
        ratios=_ratios(transfer),
        flags=(
            *extrapolation_flags(transfer),
            *_muon_flags(peak_lr, multipliers, transfer),
            *_step_law_flags(peak_lr * multipliers.matrix_lr, transfer),
            *warmup_flags,
            *_safety_flags(peak_lr, octaves, multipliers),
        ),
    )


def map_to_proxy(
    point: RecipePoint, transfer: Transfer, *, decay: Literal["tau", "weight_decay"] = "tau"
) -> dict[str, float | str]:
    """Return the target's recipe as a configuration of the proxy: the inverse of the other map.

    Parameters
    ----------
    decay
        The name under which the search space holds the decay.

    Raises
    ------
    SpecError
        If the recipe has no weight decay but ``decay`` asks for its timescale.
    """
    multipliers = _on_target(transfer)
    proxy_lr = point.matrix_lr / multipliers.matrix_lr / _lr_factor(transfer)
    product = point.matrix_lr * point.weight_decay / _product_factor(transfer)
    if decay == "tau" and product == 0:
        raise SpecError(
            "incumbent.weight_decay",
            "must be > 0 for an averaging timescale",
            point.weight_decay,
            "Search weight_decay instead of tau, or give the incumbent some decay.",
        )
    is_tau = decay == "tau"
    return {
        "peak_lr": proxy_lr,
        decay: 1.0 / (product * transfer.proxy.num_steps) if is_tau else product / proxy_lr,
        "warmup_ratio": min(1.0, point.warmup_steps / transfer.target.num_steps),
        "schedule": point.schedule,
    }


def lr_std_octaves(transfer: Transfer) -> float:
    """Return the standard deviation of log2 of the mapped peak rate.

    Notes
    -----
    The horizon's and the batch's parts are doubled when the horizons lie more than a factor 10
    apart. Where no higher rate is granted for the batch its uncertainty stays in: that the rate
    stops following the batch is a rule of thumb too. Width adds 0.2 octave per doubling, 0.4 under
    Muon.
    """
    exponents = transfer.exponents
    horizon = exponents.beta_std * abs(log2(transfer.tokens_ratio))
    batch = exponents.gamma_std * abs(log2(transfer.batch_ratio))
    width = exponents.drift_std_octaves * abs(log2(transfer.width_ratio))
    width *= 1.0 if transfer.muon_scale is None else MUON_DRIFT_FACTOR
    distance = exp(abs(log(transfer.tokens_ratio)))
    inflation = 2.0 if distance > AMBER_TOKENS_RATIO else 1.0
    return hypot(inflation * horizon, inflation * batch, width)


def _on_target(transfer: Transfer) -> Multipliers:
    parametrisation = transfer.parametrisation
    return multipliers_of(parametrisation.target, parametrisation, transfer.muon_scale)


def _lr_factor(transfer: Transfer) -> float:
    exponents = transfer.exponents
    gamma = 0.0 if is_batch_saturated(transfer.target) else exponents.gamma
    return float(transfer.tokens_ratio**-exponents.beta * transfer.batch_ratio**gamma)


def _product_factor(transfer: Transfer) -> float:
    stretch = transfer.tokens_per_param_ratio**transfer.exponents.tau_exponent
    return float(stretch / transfer.steps_ratio)


def _proxy_product(params: Mapping[str, float | str], transfer: Transfer) -> float:
    """Return lr * weight_decay of a hidden matrix of the proxy: the same for every tensor."""
    given = [name for name in ("tau", "weight_decay") if name in params]
    if len(given) != 1:
        raise SpecError(
            "params",
            "must hold exactly one of tau and weight_decay",
            given,
            "Search one of the two.",
        )
    if given == ["tau"]:
        return 1.0 / (_number(params, "tau") * transfer.proxy.num_steps)
    return _number(params, "peak_lr") * _number(params, "weight_decay")


def _target_warmup(ratio: float, transfer: Transfer) -> tuple[int, tuple[Flag, ...]]:
    num_steps = transfer.target.num_steps
    wanted = round(ratio * num_steps)
    needed = max(round(2.0 / (1.0 - transfer.beta2)), MIN_WARMUP_STEPS)
    floor = min(needed, round(MAX_FLOOR_FRACTION * num_steps))
    steps = min(max(wanted, floor, 1), num_steps)
    if wanted >= needed:
        return steps, ()
    if floor < needed:
        message = (
            f"a warmup wants {needed} steps, but the target has only {num_steps}: {steps} are taken"
        )
        return steps, (Flag(severity="amber", code="warmup_floor_capped", message=message),)
    message = f"the ratio gives {wanted} warmup steps; raised to {steps}, what Adam needs"
    return steps, (Flag(severity="info", code="warmup_floor", message=message),)


def _ratios(transfer: Transfer) -> dict[str, float]:
    return {
        "width": transfer.width_ratio,
        "tokens": transfer.tokens_ratio,
        "batch": transfer.batch_ratio,
        "tokens_per_param": transfer.tokens_per_param_ratio,
    }


def _step_law_flags(matrix_lr: float, transfer: Transfer) -> tuple[Flag, ...]:
    target = transfer.target
    if transfer.muon_scale is not None:
        return ()  # fitted to AdamW
    law = step_law_lr(target.active_params, target.num_tokens)
    factor = max(matrix_lr / law, law / matrix_lr)
    if factor <= STEP_LAW_FACTOR:
        return ()
    is_inside = (
        STEP_LAW_PARAMS[0] <= target.active_params <= STEP_LAW_PARAMS[1]
        and STEP_LAW_TOKENS[0] <= target.num_tokens <= STEP_LAW_TOKENS[1]
    )
    message = (
        f"the matrices' peak rate {matrix_lr:.2g} is a factor {factor:.1f} off the Step Law's "
        f"{law:.2g} (arXiv 2503.04715)"
    )
    if not is_inside:
        message += ", which was never fitted near this size and horizon"
    severity: Literal["info", "amber"] = "amber" if is_inside else "info"
    return (Flag(severity=severity, code="step_law_disagrees", message=message),)


def _muon_flags(peak_lr: float, multipliers: Multipliers, transfer: Transfer) -> tuple[Flag, ...]:
    if transfer.muon_scale is None:
        return ()
    message = (
        "hidden matrices take Muon's updates, of root mean square 0.2 times their rate; AdamW "
        f"trains head and router at {peak_lr * multipliers.head_lr:.2g}, embedding and gains at "
        f"{peak_lr * multipliers.embedding_lr:.2g}; Muon's rule for the width is less certain"
    )
    return (Flag(severity="amber", code="muon_rule_less_certain", message=message),)


def _safety_flags(peak_lr: float, octaves: float, multipliers: Multipliers) -> tuple[Flag, ...]:
    if octaves <= SAFETY_OCTAVES:
        return ()
    lower = peak_lr * multipliers.matrix_lr * 2.0 ** (-SAFETY_FRACTION * octaves)
    message = (
        f"the 80 % interval of the peak rate is a factor {2.0**octaves:.2g} either way; too high "
        f"diverges, too low only learns slower: in doubt take {lower:.2g} for the matrices"
    )
    return (Flag(severity="info", code="prefer_lower_lr", message=message),)


def _number(params: Mapping[str, float | str], name: str) -> float:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SpecError(f"params.{name}", "must be a number", value, "Give its value.")
    return float(value)


def _text(params: Mapping[str, float | str], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise SpecError(f"params.{name}", "must be a name", value, "Give its name.")
    return value
