"""A look inside the models, taken now and then."""

from collections.abc import Callable

import torch

from simulator.model import Transformer
from simulator.training.optim import FlatAdamW
from simulator.training.records import Health, TokenArray

__all__ = ["Inspector"]


class Inspector:
    """Takes the health of single models after an update.

    Parameters
    ----------
    model_of
        Returns the model of a row of the engine, without a leading axis.
    optimizer
        Its gradients are read as the last update saw them.
    num_sequences
        Sequences of the batch that the attention logits are computed on.
    """

    def __init__(
        self,
        model_of: Callable[[int], Transformer],
        optimizer: FlatAdamW,
        *,
        eps: float,
        num_sequences: int,
        device: torch.device,
    ) -> None:
        self._model_of = model_of
        self._optimizer = optimizer
        self._eps = eps
        self._num_sequences = num_sequences
        self._device = device

    @torch.no_grad()
    def __call__(self, row: int, tokens: TokenArray) -> Health:
        """Return one row's attention logits on its batch, and the scale of its gradients; K = 1."""
        batch = torch.from_numpy(tokens[: self._num_sequences]).to(self._device)
        logits = self._model_of(row).max_attention_logits(batch)
        rms = self._optimizer.min_grad_rms(row).reshape(1).to("cpu", torch.float64).numpy()
        return Health(
            max_attention_logit=tuple(
                layer.reshape(-1, layer.shape[-1]).to("cpu", torch.float64).numpy()
                for layer in logits
            ),
            min_grad_rms_over_eps=rms / self._eps,
        )
