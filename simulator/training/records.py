"""What the loop, its engine, policies and observers tell each other, as frozen data.

K is the number of runs trained together; a solo run is K = 1. Every statistic of a step is an
array over K.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "BoolArray",
    "Evaluation",
    "EvaluationMade",
    "FloatArray",
    "Health",
    "HealthTaken",
    "LifeCycle",
    "LossArray",
    "StepMade",
    "StepStats",
    "StepValues",
    "TokenArray",
    "TrainingRecord",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
TokenArray = npt.NDArray[np.int64]
LossArray = FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepValues:
    """What the schedules prescribe for one update."""

    lr: FloatArray
    """Learning rate of a tensor whose multiplier is 1; shape [K]."""
    mtp_weight: float
    """Weight of the multi-token-prediction loss."""
    bias_rate: float
    """Update speed of the balance bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStats:
    """What one forward and backward pass over the global batch showed."""

    loss: FloatArray
    """Main next-token loss before the update, nats per token; shape [K]."""
    mtp_loss: LossArray
    """Unweighted multi-token-prediction loss; shape [K]; None without prediction modules."""
    balance_loss: LossArray
    """Weighted balance loss; shape [K]; None without one."""
    grad_norm: FloatArray
    """Global norm before clipping; shape [K]."""
    is_clipped: BoolArray
    """Whether the update will scale the gradient down; shape [K]."""
    max_violation: FloatArray
    """Largest expert load over the mean load, minus 1; shape [K, MoE layers]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Held-out losses of K runs, by validation set."""

    loss: Mapping[str, FloatArray]
    """Nats per token; shape [K]."""
    bits_per_byte: Mapping[str, LossArray]
    mtp_loss: Mapping[str, LossArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a look inside K models showed."""

    max_attention_logit: tuple[FloatArray, ...]
    """Per layer: largest scaled attention logit; shape [K, heads]."""
    min_grad_rms_over_eps: FloatArray
    """Smallest RMS(gradient) / eps over the tensors; shape [K]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMade:
    """One optimiser step, with its time."""

    step: int
    """From 1: steps finished."""
    tokens: int
    """Tokens each run has been trained on so far."""
    lr: FloatArray
    stats: StepStats
    data_seconds: float
    forward_backward_seconds: float
    apply_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationMade:
    """One evaluation, with its time."""

    step: int
    tokens: int
    evaluation: Evaluation
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthTaken:
    """One point of the slower health series."""

    step: int
    health: Health
    max_violation: FloatArray
    """Of the last step; shape [K, MoE layers]."""
    clipped_fraction: FloatArray
    """Share of steps clipped since the last point; shape [K]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeCycle:
    """Something happened to the run as a whole, or to one of the runs trained together."""

    kind: Literal["started", "checkpoint", "rewound", "row_stopped", "ended"]
    """``started``: at ``step``, 0 or that of a checkpoint; ``checkpoint``: one is about to be
    written; ``rewound``: back to ``step``; ``row_stopped``: a policy stopped run ``row``."""
    step: int
    row: int | None = None
    reason: str = ""


TrainingRecord = StepMade | EvaluationMade | HealthTaken | LifeCycle
"""Everything an observer may be handed."""
