"""A look inside the models, taken now and then."""

import torch

from simulator.model import Transformer
from simulator.specs.run import OptimizerSpec
from simulator.training.optim import FlatAdamW
from simulator.training.records import Health, TokenArray

__all__ = ["Inspector"]


class Inspector:
    """Takes the health of one model after an update.

    Parameters
    ----------
    optimizer
        Its gradients are read as the last update saw them.
    num_sequences
        Sequences of the batch that the attention logits are computed on.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: FlatAdamW,
        spec: OptimizerSpec,
        *,
        num_sequences: int,
        device: torch.device,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._eps = spec.eps
        self._num_sequences = num_sequences
        self._device = device

    @torch.no_grad()
    def __call__(self, tokens: TokenArray) -> Health:
        """Return attention logits on the batch, and the scale of the gradients."""
        batch = torch.from_numpy(tokens[: self._num_sequences]).to(self._device)
        logits = self._model.max_attention_logits(batch)
        rms = self._optimizer.min_grad_rms(0).reshape(1).to("cpu", torch.float64).numpy()
        return Health(
            max_attention_logit=tuple(
                layer.reshape(-1, layer.shape[-1]).to("cpu", torch.float64).numpy()
                for layer in logits
            ),
            min_grad_rms_over_eps=rms / self._eps,
        )
