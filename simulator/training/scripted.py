"""An engine without a model, for trying loops, policies and observers."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from simulator.training.records import BoolArray, FloatArray, StepStats, StepValues, TokenArray

__all__ = ["ScriptedEngine"]


class ScriptedEngine:
    """Shows the losses it is told to, and keeps a weight a run that every update moves.

    Parameters
    ----------
    losses
        Losses of the runs by batch, read from the first token of the batch; shape [K].
    num_rows
        K.

    Notes
    -----
    An update adds learning rate times the batch's first token plus one to the weight, so that the
    weight tells which batches a run was updated on, and in which order it does not matter.
    """

    def __init__(self, losses: Callable[[int], FloatArray], *, num_rows: int = 1) -> None:
        self._losses = losses
        self._weight = torch.zeros(num_rows, dtype=torch.float64)
        self._batch = 0

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Look the losses up; the gradients of odd batches count as clipped."""
        del values
        self._batch = int(tokens.flat[0])
        loss = np.asarray(self._losses(self._batch), dtype=np.float64)
        return StepStats(
            loss=loss,
            mtp_loss=None,
            balance_loss=None,
            grad_norm=np.full_like(loss, 2.0),
            is_clipped=np.full(len(loss), self._batch % 2 == 1),
            max_violation=np.zeros((len(loss), 0)),
        )

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Move the weights of the active runs."""
        self._weight += torch.from_numpy(np.where(active, values.lr * (self._batch + 1), 0.0))

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights."""
        return {"weight": self._weight}
