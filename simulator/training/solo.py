"""The engine for models that fit one device."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from simulator.model import LossParts, Transformer
from simulator.training.optim import FlatAdamW
from simulator.training.records import BoolArray, FloatArray, StepStats, StepValues, TokenArray

__all__ = ["SoloEngine"]


class SoloEngine:
    """Trains one model on one device.

    Parameters
    ----------
    model
        Its parameters are views of the optimiser's buffers.
    micro_batch_sequences
        Sequences of one forward pass. The gradient is accumulated over the global batch; a last
        micro-batch that is shorter weighs as many tokens as it has.
    is_autocast
        Whether the forward pass runs in bfloat16; parameters and moments stay float32.

    Notes
    -----
    The accumulated gradient equals that of the whole batch up to rounding, and expert loads are
    counted over the whole batch. One term is not additive: a balance loss over the batch
    (``seq_aux=False``) is computed per micro-batch; per sequence it is exact.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: FlatAdamW,
        *,
        micro_batch_sequences: int,
        device: torch.device,
        is_autocast: bool,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._micro_batch_sequences = micro_batch_sequences
        self._device = device
        self._is_autocast = is_autocast
        self._loads: tuple[Tensor, ...] = ()
        self._norm: FloatArray = np.zeros(1)

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Accumulate the gradients of one global batch."""
        self._optimizer.grads.zero_()
        batch = torch.from_numpy(tokens).to(self._device, non_blocking=True)
        parts = [
            self._backward(chunk, chunk.shape[-2] / batch.shape[-2], values.mtp_weight)
            for chunk in torch.split(batch, self._micro_batch_sequences, dim=-2)
        ]
        self._loads = tuple(
            torch.stack(loads).sum(dim=0)
            for loads in zip(*(part.expert_load for _, part in parts), strict=True)
        )
        return self._stats(parts)

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Update the parameters and the balance biases."""
        if not active.any():
            return
        self._optimizer.step(values.lr, self._norm, active)
        if values.bias_rate > 0:
            self._model.update_balance_bias(self._loads, values.bias_rate)

    def state(self) -> Mapping[str, Tensor]:
        """Return parameters, moments, update counts and the model's persistent buffers."""
        optimizer = self._optimizer
        parameters = {name for name, _ in self._model.named_parameters()}
        buffers = {
            f"model.{name}": tensor
            for name, tensor in self._model.state_dict().items()
            if name not in parameters
        }
        return {
            "values": optimizer.values,
            "exp_avg": optimizer.exp_avg,
            "exp_avg_sq": optimizer.exp_avg_sq,
            "num_updates": optimizer.num_updates,
            **buffers,
        }

    def _backward(self, chunk: Tensor, share: float, mtp_weight: float) -> tuple[float, LossParts]:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_autocast):
            parts: LossParts = self._model(chunk)
        objective = parts.main
        if parts.mtp is not None:
            objective = objective + mtp_weight * parts.mtp
        if parts.balance is not None:
            objective = objective + parts.balance
        # the sum is over models trained together
        torch.autograd.backward((objective * share).sum())
        return share, parts

    def _stats(self, parts: list[tuple[float, LossParts]]) -> StepStats:
        """Bring everything the host wants to know over in one transfer."""
        columns = [self._optimizer.grad_norm(), _mean(parts, "main")]
        columns += [_max_violation(load) for load in self._loads]
        names = [name for name in ("mtp", "balance") if getattr(parts[0][1], name) is not None]
        columns += [_mean(parts, name) for name in names]
        found = torch.stack(columns, dim=-1).to("cpu", torch.float64).numpy()
        num_layers = len(self._loads)
        self._norm = found[:, 0]
        rest = {name: found[:, 2 + num_layers + i] for i, name in enumerate(names)}
        return StepStats(
            loss=found[:, 1],
            mtp_loss=rest.get("mtp"),
            balance_loss=rest.get("balance"),
            grad_norm=self._norm,
            is_clipped=self._optimizer.is_clipped(self._norm),
            max_violation=found[:, 2 : 2 + num_layers],
        )


def _mean(parts: list[tuple[float, LossParts]], name: str) -> Tensor:
    """Return the mean of one loss over the global batch, shape [K]."""
    weighted = [getattr(part, name).detach() * share for share, part in parts]
    return torch.stack(weighted).sum(dim=0).reshape(-1)


def _max_violation(load: Tensor) -> Tensor:
    """Return the largest load over the mean load, minus 1 (arXiv 2408.15664); shape [K]."""
    counts = load.float().reshape(-1, load.shape[-1])
    return counts.amax(dim=-1) / counts.mean(dim=-1) - 1.0
