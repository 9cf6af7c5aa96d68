"""Learning-rate schedules as data; their values are computed in ``simulator.schedules``.

Fractions are of the whole run unless said otherwise; factors are of the peak learning rate.
"""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.errors import SpecError

__all__ = [
    "ConstantShape",
    "CosineShape",
    "LinearShape",
    "MultiStepShape",
    "PiecewiseShape",
    "PowerShape",
    "ScheduleShape",
    "ScheduleSpec",
    "SegmentSpec",
    "WSDShape",
    "WarmRestartsShape",
]


@spec
class ConstantShape:
    """Peak learning rate after warmup until the end."""

    kind: Literal["constant"] = "constant"


@spec
class LinearShape:
    """Straight line from peak after warmup to ``final_factor`` (arXiv 2502.15938)."""

    kind: Literal["linear"] = "linear"
    final_factor: float = 0.0


@spec
class CosineShape:
    """Half a cosine from peak after warmup to ``final_factor``."""

    kind: Literal["cosine"] = "cosine"
    final_factor: float = 0.1


@spec
class WSDShape:
    """Warmup, stable, decay (arXiv 2404.06395; 1-sqrt decay: arXiv 2405.18392)."""

    kind: Literal["wsd"] = "wsd"
    decay_fraction: float = 0.2
    """Share of the whole run spent decaying; 0 is a constant schedule."""
    decay_shape: Literal["linear", "sqrt"] = "sqrt"
    final_factor: float = 0.0

    def __post_init__(self) -> None:
        """Keep the decay inside the run."""
        if not 0 <= self.decay_fraction <= 1:
            raise SpecError(
                "schedule.shape.decay_fraction",
                "must lie in [0, 1]",
                self.decay_fraction,
                "Use 0.1, 0.2 or 0.3.",
            )


@spec
class PowerShape:
    """(1 - u)^exponent of the progress u after warmup (arXiv 2602.06797)."""

    kind: Literal["power"] = "power"
    exponent: float = 1.5


@spec
class MultiStepShape:
    """Piecewise-constant: DeepSeek LLM and V2 multiply by a factor at fixed shares of the run."""

    kind: Literal["multi_step"] = "multi_step"
    milestones: tuple[float, ...]
    """Shares of the run, rising."""
    factors: tuple[float, ...]
    """Factor of the peak from each milestone on."""

    def __post_init__(self) -> None:
        """Check that milestones rise and each has its factor."""
        if len(self.milestones) != len(self.factors):
            raise SpecError(
                "schedule.shape.factors",
                f"must have one entry for each milestone ({len(self.milestones)})",
                self.factors,
                "Give as many factors as milestones.",
            )
        if list(self.milestones) != sorted(self.milestones):
            raise SpecError("schedule.shape.milestones", "must rise", self.milestones, "Sort them.")


@spec
class WarmRestartsShape:
    """Equal cosine cycles after warmup, each falling to ``final_factor`` (arXiv 1608.03983)."""

    kind: Literal["warm_restarts"] = "warm_restarts"
    num_cycles: int = 2
    restart_factor: float = 1.0
    """Each cycle starts at this factor of the one before."""
    final_factor: float = 0.0


@spec
class SegmentSpec:
    """One stretch of a published schedule."""

    until_fraction: float
    """Share of the run at which the stretch ends."""
    curve: Literal["constant", "linear", "cosine"]
    start_factor: float
    end_factor: float


@spec
class PiecewiseShape:
    """A published schedule stretch by stretch (DeepSeek-V3, Kimi-K2)."""

    kind: Literal["piecewise"] = "piecewise"
    segments: tuple[SegmentSpec, ...]

    def __post_init__(self) -> None:
        """Check that the segments cover the run in order."""
        ends = [segment.until_fraction for segment in self.segments]
        if not ends or ends != sorted(ends) or ends[-1] != 1.0:
            raise SpecError(
                "schedule.shape.segments",
                "must rise in until_fraction and end at 1.0",
                ends,
                "Let the last segment end at 1.0.",
            )


ScheduleShape = (
    ConstantShape
    | LinearShape
    | CosineShape
    | WSDShape
    | PowerShape
    | MultiStepShape
    | WarmRestartsShape
    | PiecewiseShape
)


@spec
class ScheduleSpec:
    """A linear warmup and a shape; both pure functions of the step and the run's length."""

    warmup_steps: int
    """Optimiser steps of linear warmup, >= 0, at most the run's length."""
    shape: ScheduleShape

    def __post_init__(self) -> None:
        """Refuse a negative warmup."""
        if self.warmup_steps < 0:
            raise SpecError(
                "schedule.warmup_steps", "must be >= 0", self.warmup_steps, "Use 0 for none."
            )
