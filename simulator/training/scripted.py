"""An engine without a model, for trying loops, policies and observers."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from simulator.training.records import BoolArray, FloatArray, StepStats, StepValues, TokenArray

__all__ = ["ScriptedEngine"]


class ScriptedEngine:
    """Shows the losses it is told to, and keeps a weight a row that every update moves.

    Parameters
    ----------
    losses
        Loss of a row by batch, read from the first token of the batch; arguments row and batch.
    num_rows
        K.

    Notes
    -----
    An update adds learning rate times the batch's first token plus one to the weight, so that the
    weight tells which batches a run was updated on, and in which order it does not matter.
    """

    def __init__(self, losses: Callable[[int, int], float], *, num_rows: int = 1) -> None:
        self._losses = losses
        self._weight = torch.zeros(num_rows, dtype=torch.float64)
        self._batches: FloatArray = np.zeros(0)

    def start(self, row: int) -> None:
        """Set the weight of a row to zero."""
        self._weight[row] = 0.0

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Look the losses up; the gradients of odd batches count as clipped."""
        del values
        self._batches = tokens[:, 0, 0].astype(np.float64)
        loss = np.array([self._losses(row, int(b)) for row, b in enumerate(self._batches)])
        return StepStats(
            loss=loss,
            mtp_loss=None,
            balance_loss=None,
            grad_norm=np.full_like(loss, 2.0),
            is_clipped=self._batches % 2 == 1,
            max_violation=np.zeros((len(loss), 0)),
        )

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Move the weights of the active runs."""
        moves = np.where(active, values.lr * (self._batches + 1), 0.0)
        self._weight[: len(moves)] += torch.from_numpy(moves)

    def state(self, row: int) -> Mapping[str, Tensor]:
        """Return the weight of a row."""
        return {"weight": self._weight[row]}
