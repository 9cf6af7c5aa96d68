"""What the loop, its engine, policies and observers tell each other, as frozen data.

K is the number of runs trained together in one step. Every statistic of a step is an array over K;
observers and policies see one run at a time, K = 1.
"""

from collections.abc import Mapping, Sequence
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
    mtp_weight: FloatArray
    """Weight of the multi-token-prediction loss; shape [K]."""
    bias_rate: FloatArray
    """Update speed of the balance bias; shape [K]."""

    @classmethod
    def stack(cls, values: Sequence["StepValues"]) -> "StepValues":
        """Return the values of several runs one after the other."""
        return cls(
            lr=np.concatenate([value.lr for value in values]),
            mtp_weight=np.concatenate([value.mtp_weight for value in values]),
            bias_rate=np.concatenate([value.bias_rate for value in values]),
        )


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

    def of(self, row: int) -> "StepStats":
        """Return what one run's batch showed, K = 1."""
        one = slice(row, row + 1)
        return StepStats(
            loss=self.loss[one],
            mtp_loss=None if self.mtp_loss is None else self.mtp_loss[one],
            balance_loss=None if self.balance_loss is None else self.balance_loss[one],
            grad_norm=self.grad_norm[one],
            is_clipped=self.is_clipped[one],
            max_violation=self.max_violation[one],
        )


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
    """One optimiser step, with the run's share of its time."""

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
    """Something happened to the run."""

    kind: Literal["started", "checkpoint", "rewound", "stopped", "ended"]
    """``started``: at ``step``, 0 or that of a checkpoint; ``checkpoint``: one is about to be
    written; ``rewound``: back to ``step``; ``stopped``: a policy stopped the run; ``ended``: the
    last there is, however it ended."""
    step: int
    reason: str = ""


TrainingRecord = StepMade | EvaluationMade | HealthTaken | LifeCycle
"""Everything an observer may be handed."""
