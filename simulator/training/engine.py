"""Engines: what turns a batch into gradients and gradients into new parameters.

The loop, its observers and policies know engines by these three methods only. The first engine
trains one model on one device; others train K models stacked along a leading axis, or one model
sharded over many devices.
"""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from simulator.training.records import BoolArray, StepStats, StepValues, TokenArray

__all__ = ["Engine"]


class Engine(Protocol):
    """Trains K runs together."""

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Compute the gradients of one global batch, and what the batch showed.

        Parameters
        ----------
        tokens
            Windows of token ids; shape [sequences, window], or [K, sequences, window] when every
            run reads its own.
        """
        ...

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Update the runs that are active with the gradients of the last batch.

        Parameters
        ----------
        active
            Which runs are updated; shape [K]. The others keep parameters, moments and balance.
        """
        ...

    def state(self) -> Mapping[str, Tensor]:
        """Return the live tensors that a checkpoint holds.

        Copying saved values into them takes the engine back to the moment they were saved.
        """
        ...
