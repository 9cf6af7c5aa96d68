"""Engines: what turns batches into gradients and gradients into new parameters.

The loop, its observers and policies know engines by these methods only. An engine has rows, each
of which trains one run at a time; the busy rows are always the first ones. One engine trains its
rows stacked on one device, another shards a single row over many devices.
"""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from simulator.training.records import BoolArray, StepStats, StepValues, TokenArray

__all__ = ["Engine"]


class Engine(Protocol):
    """Trains up to K runs together."""

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Compute the gradients of one global batch a busy row, and what the batches showed.

        Parameters
        ----------
        tokens
            Windows of token ids, ``[busy rows, sequences, window]``.
        """
        ...

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Update the runs that are active with the gradients of the last batches.

        Parameters
        ----------
        active
            Which busy rows are updated; the others keep parameters, moments and balance.
        """
        ...

    def state(self, row: int) -> Mapping[str, Tensor]:
        """Return the live tensors of one row: what a checkpoint of its run holds.

        Copying saved values into them, of whichever row, takes the run back to the moment they
        were saved.
        """
        ...
