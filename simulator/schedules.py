"""Learning-rate schedules and phased values as pure functions of (step, length of the run).

``step`` counts updates from 0; update ``step`` of a run of ``num_steps`` is made when the share
``step / num_steps`` of the run has passed. During warmup the factor is ``(step + 1) / W``, so the
first update is never empty and the last warmup update reaches the peak. After warmup the progress
``u = (step - W) / (S - W)`` runs from 0 to just below 1: a decay to zero ends at the first update
that is not made, and no update is spent on a learning rate of zero.
"""

import difflib
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from simulator.specs.errors import SpecError
from simulator.specs.run import PhaseSpec
from simulator.specs.schedule import (
    ConstantShape,
    CosineShape,
    LinearShape,
    MultiStepShape,
    PiecewiseShape,
    PowerShape,
    ScheduleShape,
    ScheduleSpec,
    SegmentSpec,
    WarmRestartsShape,
    WSDShape,
)

__all__ = ["NAMED_SHAPES", "lr_factor", "lr_factors", "named_shape", "phase_value"]

NAMED_SHAPES: Mapping[str, ScheduleShape] = MappingProxyType(
    {
        "constant": ConstantShape(),
        "linear_to_zero": LinearShape(final_factor=0.0),  # arXiv 2502.15938
        "wsd10_linear": WSDShape(decay_fraction=0.1, decay_shape="linear"),  # arXiv 2404.06395
        "wsd10_sqrt": WSDShape(decay_fraction=0.1, decay_shape="sqrt"),  # arXiv 2405.18392
        "wsd20_linear": WSDShape(decay_fraction=0.2, decay_shape="linear"),
        "wsd20_sqrt": WSDShape(decay_fraction=0.2, decay_shape="sqrt"),
        "wsd30_linear": WSDShape(decay_fraction=0.3, decay_shape="linear"),
        "wsd30_sqrt": WSDShape(decay_fraction=0.3, decay_shape="sqrt"),
        "cosine_to_10pct": CosineShape(final_factor=0.1),
        "cosine_to_zero": CosineShape(final_factor=0.0),
        "power_1.5": PowerShape(exponent=1.5),  # arXiv 2602.06797
        "power_2": PowerShape(exponent=2.0),
        # arXiv 2401.02954, section 2.3: 31.6 % of the peak after 80 %, 10 % after 90 % of tokens
        "deepseek_multi_step": MultiStepShape(milestones=(0.8, 0.9), factors=(0.316, 0.1)),
        "warm_restarts": WarmRestartsShape(),  # arXiv 1608.03983
    }
)
"""Schedules a sweep file may name."""


def named_shape(name: str, *, path: str = "schedule") -> ScheduleShape:
    """Return the schedule known as ``name``.

    Parameters
    ----------
    path
        Dotted path of the field the name was read from.

    Raises
    ------
    SpecError
        If there is no such schedule; the message offers the nearest one.
    """
    if name in NAMED_SHAPES:
        return NAMED_SHAPES[name]
    close = difflib.get_close_matches(name, NAMED_SHAPES, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(NAMED_SHAPES)}."
    raise SpecError(path, "must be the name of a known schedule", name, hint)


def lr_factor(schedule: ScheduleSpec, step: int, num_steps: int) -> float:
    """Return the learning rate of update ``step`` as a share of the peak, in [0, 1].

    Parameters
    ----------
    step
        Updates made before this one, 0 <= step < num_steps.
    num_steps
        Updates of the whole run, >= 1.

    Notes
    -----
    With a warmup as long as the run no update lies after it and the shape has no say.
    """
    assert 0 <= step < num_steps, (step, num_steps)
    warmup = schedule.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    return _shape_factor(schedule.shape, step, warmup, num_steps)


def lr_factors(schedule: ScheduleSpec, num_steps: int) -> tuple[float, ...]:
    """Return the factor of every update of a run, in order."""
    return tuple(lr_factor(schedule, step, num_steps) for step in range(num_steps))


def phase_value(phases: tuple[PhaseSpec, ...], step: int, num_steps: int) -> float:
    """Return the value in force at update ``step``.

    A phase holds while ``step / num_steps < until_fraction``; the last one holds to the end
    whatever its fraction. Without phases the value is 0.
    """
    assert 0 <= step < num_steps, (step, num_steps)
    passed = step / num_steps
    for phase in phases:
        if passed < phase.until_fraction:
            return phase.value
    return phases[-1].value if phases else 0.0


def _shape_factor(shape: ScheduleShape, step: int, warmup: int, num_steps: int) -> float:
    """Return the factor after warmup: ``warmup <= step < num_steps``."""
    progress = (step - warmup) / (num_steps - warmup)
    match shape:
        case ConstantShape():
            return 1.0
        case LinearShape(final_factor=final):
            return _between(1.0, final, progress)
        case CosineShape(final_factor=final):
            return _between(1.0, final, _half_cosine(progress))
        case PowerShape(exponent=exponent):
            return math.pow(1.0 - progress, exponent)
        case WSDShape():
            return _wsd(shape, step, warmup, num_steps)
        case MultiStepShape():
            return _multi_step(shape, step / num_steps)
        case WarmRestartsShape():
            return _warm_restarts(shape, progress)
        case PiecewiseShape(segments=segments):
            return _piecewise(segments, step / num_steps, warmup / num_steps)
        case _:
            assert_never(shape)


def _between(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def _half_cosine(share: float) -> float:
    return (1.0 - math.cos(math.pi * share)) / 2.0


def _wsd(shape: WSDShape, step: int, warmup: int, num_steps: int) -> float:
    """Decay over the last share of the run, cut short where it would begin inside the warmup."""
    begin = max(float(warmup), num_steps - num_steps * shape.decay_fraction)
    if step <= begin:
        return 1.0
    share = (step - begin) / (num_steps - begin)
    return _between(1.0, shape.final_factor, _decay_share(shape, share))


def _decay_share(shape: WSDShape, share: float) -> float:
    match shape.decay_shape:
        case "linear":
            return share
        case "sqrt":
            return math.sqrt(share)
        case _:
            assert_never(shape.decay_shape)


def _multi_step(shape: MultiStepShape, passed: float) -> float:
    factor = 1.0
    for milestone, value in zip(shape.milestones, shape.factors, strict=True):
        if passed >= milestone:
            factor = value
    return factor


def _warm_restarts(shape: WarmRestartsShape, progress: float) -> float:
    cycle = min(int(progress * shape.num_cycles), shape.num_cycles - 1)
    start = max(shape.restart_factor**cycle, shape.final_factor)
    share = progress * shape.num_cycles - cycle
    return _between(start, shape.final_factor, _half_cosine(share))


def _piecewise(segments: tuple[SegmentSpec, ...], passed: float, warmed: float) -> float:
    """Follow the stretches; the one in which the warmup ends begins where it ends."""
    begin = warmed
    for segment in segments:
        if passed < segment.until_fraction:
            share = (passed - begin) / (segment.until_fraction - begin)
            return _along(segment, share)
        begin = max(begin, segment.until_fraction)
    return segments[-1].end_factor


def _along(segment: SegmentSpec, share: float) -> float:
    match segment.curve:
        case "constant":
            return segment.start_factor
        case "linear":
            return _between(segment.start_factor, segment.end_factor, share)
        case "cosine":
            return _between(segment.start_factor, segment.end_factor, _half_cosine(share))
        case _:
            assert_never(segment.curve)
