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


def _shares(path: str, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise SpecError(f"{path}.{name}", "must lie in [0, 1]", value, "Give a share.")


@spec
class ConstantShape:
    """Peak learning rate after warmup until the end."""

    kind: Literal["constant"] = "constant"


@spec
class LinearShape:
    """Straight line from peak after warmup to ``final_factor`` (arXiv 2502.15938)."""

    kind: Literal["linear"] = "linear"
    final_factor: float = 0.0

    def __post_init__(self) -> None:
        """Keep the factor within the peak."""
        _shares("schedule.shape", final_factor=self.final_factor)


@spec
class CosineShape:
    """Half a cosine from peak after warmup to ``final_factor``."""

    kind: Literal["cosine"] = "cosine"
    final_factor: float = 0.1

    def __post_init__(self) -> None:
        """Keep the factor within the peak."""
        _shares("schedule.shape", final_factor=self.final_factor)


@spec
class WSDShape:
    """Warmup, stable, decay (arXiv 2404.06395; 1-sqrt decay: arXiv 2405.18392)."""

    kind: Literal["wsd"] = "wsd"
    decay_fraction: float = 0.2
    """Share of the whole run spent decaying; 0 is a constant schedule."""
    decay_shape: Literal["linear", "sqrt"] = "sqrt"
    final_factor: float = 0.0

    def __post_init__(self) -> None:
        """Keep the decay inside the run and the factor within the peak."""
        _shares(
            "schedule.shape",
            decay_fraction=self.decay_fraction,
            final_factor=self.final_factor,
        )


@spec
class PowerShape:
    """(1 - u)^exponent of the progress u after warmup (arXiv 2602.06797)."""

    kind: Literal["power"] = "power"
    exponent: float = 1.5

    def __post_init__(self) -> None:
        """Refuse a schedule that would rise without bound."""
        if self.exponent < 0:
            raise SpecError("schedule.shape.exponent", "must be >= 0", self.exponent, "Try 1.5.")


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
        for factor in self.factors:
            _shares("schedule.shape", factors=factor)


@spec
class WarmRestartsShape:
    """Equal cosine cycles after warmup, each falling to ``final_factor`` (arXiv 1608.03983)."""

    kind: Literal["warm_restarts"] = "warm_restarts"
    num_cycles: int = 2
    restart_factor: float = 1.0
    """Each cycle starts at this factor of the one before."""
    final_factor: float = 0.0

    def __post_init__(self) -> None:
        """Ask for a cycle, and keep the factors within the peak."""
        if self.num_cycles <= 0:
            raise SpecError("schedule.shape.num_cycles", "must be >= 1", self.num_cycles, "Try 2.")
        _shares(
            "schedule.shape",
            restart_factor=self.restart_factor,
            final_factor=self.final_factor,
        )


@spec
class SegmentSpec:
    """One stretch of a published schedule."""

    until_fraction: float
    """Share of the run at which the stretch ends."""
    curve: Literal["constant", "linear", "cosine"]
    start_factor: float
    end_factor: float

    def __post_init__(self) -> None:
        """Keep the factors within the peak."""
        _shares(
            "schedule.shape.segments",
            start_factor=self.start_factor,
            end_factor=self.end_factor,
        )


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
