"""From a point of the search space to the run that tries it."""

from collections.abc import Mapping
from dataclasses import replace

from simulator.specs.errors import SpecError
from simulator.specs.run import RunSpec
from simulator.specs.schedule import ScheduleShape, ScheduleSpec
from sweeps.spec import FloatDomain, SpaceSpec, SweepSpec

__all__ = ["apply", "lr_bounds", "tau_of", "warmup_steps_of", "weight_decay_of"]

_DECAYS = ("tau", "weight_decay")
_NAMES = ("peak_lr", "warmup_ratio", "schedule", *_DECAYS)


def apply(sweep: SweepSpec, params: Mapping[str, float | str], seed: int) -> RunSpec:
    """Return the proxy run that tries ``params``, complete.

    Parameters
    ----------
    params
        ``peak_lr``, ``warmup_ratio``, ``schedule`` and one of ``tau`` and ``weight_decay``; need
        not lie inside the searched range (the incumbent may not).
    seed
        Replicate number, >= 0. All trials of one replicate share initial weights and data order,
        so that their differences are free of what both contribute.

    Raises
    ------
    SpecError
        If a parameter is missing, unknown, of the wrong type or out of its range.
    """
    _check_names(params)
    base = sweep.base
    peak_lr = _number(params, "peak_lr")
    if "tau" in params:
        decay = weight_decay_of(_number(params, "tau"), peak_lr, base.num_steps)
    else:
        decay = _number(params, "weight_decay")
    warmup = warmup_steps_of(_number(params, "warmup_ratio"), base.num_steps)
    return replace(
        base,
        optimizer=replace(base.optimizer, peak_lr=peak_lr, weight_decay=decay),
        schedule=ScheduleSpec(warmup_steps=warmup, shape=_shape(sweep, params["schedule"])),
        init_seed=base.init_seed + seed,
        data_seed=base.data_seed + seed,
    )


def lr_bounds(space: SpaceSpec) -> tuple[float, float]:
    """Return the lowest and the highest peak learning rate that is searched."""
    domain = next(domain for domain in space.domains if domain.name == "peak_lr")
    if isinstance(domain, FloatDomain):
        return domain.low, domain.high
    values = [float(value) for value in domain.values]
    return min(values), max(values)


def weight_decay_of(tau: float, peak_lr: float, num_steps: int) -> float:
    """Return the decay coefficient whose averaging timescale is the share ``tau`` of the run.

    Notes
    -----
    Weights under AdamW average their updates over 1 / (lr * decay) steps (arXiv 2405.13698), in
    PyTorch's convention theta <- theta * (1 - lr * decay).
    """
    for name, value in (("tau", tau), ("peak_lr", peak_lr)):
        if value <= 0:
            raise SpecError(f"params.{name}", "must be positive", value, "Give a number above 0.")
    return 1.0 / (peak_lr * tau * num_steps)


def tau_of(weight_decay: float, peak_lr: float, num_steps: int) -> float:
    """Return the averaging timescale as a share of the run: the inverse of the above."""
    if weight_decay <= 0:
        raise SpecError(
            "params.weight_decay",
            "must be positive to have an averaging timescale",
            weight_decay,
            "Give a number above 0.",
        )
    return 1.0 / (peak_lr * weight_decay * num_steps)


def warmup_steps_of(ratio: float, num_steps: int) -> int:
    """Return the proxy's warmup in steps: the rounded share of the run, at least 1.

    Notes
    -----
    The floors in steps hold on the target only: on a short proxy they would make every level of
    the ratio equal.
    """
    if not 0 <= ratio <= 1:
        raise SpecError("params.warmup_ratio", "must lie in [0, 1]", ratio, "Try 0.06.")
    return max(1, round(ratio * num_steps))


def _check_names(params: Mapping[str, float | str]) -> None:
    unknown = sorted(set(params) - set(_NAMES))
    if unknown:
        raise SpecError(
            f"params.{unknown[0]}",
            "is not a parameter of the search",
            params[unknown[0]],
            f"Known: {', '.join(_NAMES)}.",
        )
    missing = [name for name in ("peak_lr", "warmup_ratio", "schedule") if name not in params]
    if missing:
        raise SpecError(f"params.{missing[0]}", "is required", sorted(params), "Add it.")
    if len(set(_DECAYS) & set(params)) != 1:
        raise SpecError(
            "params.tau",
            "or params.weight_decay must be given, and not both",
            sorted(params),
            "Give one of the two.",
        )


def _number(params: Mapping[str, float | str], name: str) -> float:
    value = params[name]
    if isinstance(value, (str, bool)):
        raise SpecError(f"params.{name}", "must be a number", value, "Give a number.")
    return float(value)


def _shape(sweep: SweepSpec, name: float | str) -> ScheduleShape:
    shapes = {named.name: named.shape for named in sweep.space.schedules}
    if not isinstance(name, str) or name not in shapes:
        raise SpecError(
            "params.schedule",
            "must be a schedule of this sweep",
            name,
            f"Known: {', '.join(shapes)}.",
        )
    return shapes[name]
