"""The engine for models that fit one device: one, or several stacked along a leading axis."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from simulator.model import LossParts, Transformer, initial_values
from simulator.parametrisation import TensorRule
from simulator.specs.run import OptimizerSpec
from simulator.training.optim import FlatAdamW
from simulator.training.records import BoolArray, FloatArray, StepStats, StepValues, TokenArray
from simulator.training.stepping import Stepper

__all__ = ["DeviceEngine"]


class DeviceEngine:
    """Trains up to K models on one device.

    Parameters
    ----------
    model
        Its parameters are views of the optimiser's buffers, of as many rows as are busy. With one
        row they have no leading axis.
    mirror
        Another model of the same shape, through which single rows are looked at.
    optimizer
        Its rows are the engine's.
    rules
        Of the model's tensors, for their initial values.
    micro_batch_sequences
        Sequences of one forward pass of each row. The gradient is accumulated over the global
        batch; a last micro-batch that is shorter weighs as many tokens as it has.
    stepper
        Runs forward and backward pass of ``model``, in its own precision; parameters and moments
        stay float32.

    Notes
    -----
    The accumulated gradient equals that of the whole batch up to rounding, and expert loads are
    counted over the whole batch. One term is not additive: a balance loss over the batch
    (``seq_aux=False``) is computed per micro-batch; per sequence it is exact.

    A stacked product of one matrix takes another path through the library than one of several, and
    rounds otherwise. An engine of several rows therefore never computes fewer than two: the bits of
    a run then depend neither on its row nor on how many rows are busy.
    """

    def __init__(
        self,
        model: Transformer,
        mirror: Transformer,
        optimizer: FlatAdamW,
        *,
        rules: Sequence[TensorRule],
        num_rows: int,
        micro_batch_sequences: int,
        device: torch.device,
        stepper: Stepper,
    ) -> None:
        self._model, self._mirror = model, mirror
        self._optimizer = optimizer
        self._rules = tuple(rules)
        self._stack_dims = 1 if num_rows > 1 else 0
        self._min_rows = min(num_rows, 2)
        self._micro_batch_sequences = micro_batch_sequences
        self._device = device
        self._stepper = stepper
        self._buffers = {
            name: buffer.expand(num_rows, *buffer.shape).clone()
            for name, buffer in model.named_buffers()
        }
        self._loads: tuple[Tensor, ...] = ()
        self._norm: FloatArray = np.zeros(num_rows)
        self._num_held = 0

    def assign(self, row: int, spec: OptimizerSpec) -> None:
        """Give a row to a run with this optimiser; its state is copied there afterwards."""
        self._optimizer.assign(row, spec)

    @torch.no_grad()
    def start(self, row: int, spec: OptimizerSpec, *, seed: int) -> None:
        """Give a row to a run that begins: with the initial values of ``seed``."""
        self.assign(row, spec)
        for buffer in self._buffers.values():
            buffer[row] = 0.0
        parameters = dict(self.model_of(row).named_parameters())
        for rule in self._rules:
            parameters[rule.name].copy_(initial_values(rule, seed))

    def model_of(self, row: int) -> Transformer:
        """Return the model of one row, without a leading axis; good until the next call."""
        self._optimizer.show(self._mirror, row)
        _set_buffers(self._mirror, {name: kept[row] for name, kept in self._buffers.items()})
        return self._mirror

    def forward_backward(self, tokens: TokenArray, values: StepValues) -> StepStats:
        """Accumulate the gradients of one global batch a row."""
        num_rows = len(tokens)
        if num_rows < self._min_rows:
            tokens = np.repeat(tokens, self._min_rows, axis=0)
        self._hold(len(tokens))
        self._optimizer.grads[: len(tokens)].zero_()
        self._stepper.refresh()
        batch = torch.from_numpy(tokens).to(self._device, non_blocking=True)
        if not self._stack_dims:
            batch = batch.squeeze(0)
        weight = self._by_row(values.mtp_weight)
        parts = [
            self._step(chunk, chunk.shape[-2] / batch.shape[-2], weight)
            for chunk in torch.split(batch, self._micro_batch_sequences, dim=-2)
        ]
        self._loads = tuple(
            torch.stack(loads).sum(dim=0)
            for loads in zip(*(part.expert_load for _, part in parts), strict=True)
        )
        return self._stats(parts, num_rows)

    def apply(self, values: StepValues, active: BoolArray) -> None:
        """Update the parameters and the balance biases."""
        if not active.any():
            return
        self._optimizer.step(values.lr, self._norm, active)
        rate = np.where(active, values.bias_rate, 0.0)
        if rate.any():
            self._model.update_balance_bias(self._loads, self._by_row(rate).unsqueeze(-1))

    def state(self, row: int) -> Mapping[str, Tensor]:
        """Return parameters, moments, update count and the model's persistent buffers."""
        buffers = {f"model.{name}": kept[row] for name, kept in self._buffers.items()}
        return self._optimizer.state(row) | buffers

    def _hold(self, num_rows: int) -> None:
        """Let the model be that of the first rows."""
        if num_rows == self._num_held:
            return
        self._num_held = num_rows
        self._optimizer.hold(num_rows)
        kept = self._buffers.items()
        if self._stack_dims:
            _set_buffers(self._model, {name: buffer[:num_rows] for name, buffer in kept})
        else:
            _set_buffers(self._model, {name: buffer[0] for name, buffer in kept})

    def _by_row(self, values: FloatArray) -> Tensor:
        """Return one number a row on the device, without axis where the model has none."""
        padded = np.pad(values, (0, max(0, self._min_rows - len(values))))
        found = torch.from_numpy(padded).to(self._device, torch.float32)
        return found if self._stack_dims else found.squeeze(0)

    def _step(self, chunk: Tensor, share: float, weight: Tensor) -> tuple[float, LossParts]:
        return share, self._stepper(chunk, share, weight)

    def _stats(self, parts: list[tuple[float, LossParts]], num_rows: int) -> StepStats:
        """Bring everything the host wants to know over in one transfer."""
        columns = [self._optimizer.grad_norm(), _mean(parts, "main")]
        columns += [_max_violation(load) for load in self._loads]
        names = [name for name in ("mtp", "balance") if getattr(parts[0][1], name) is not None]
        columns += [_mean(parts, name) for name in names]
        found = torch.stack(columns, dim=-1)[:num_rows].to("cpu", torch.float64).numpy()
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


def _max_violation(load: Tensor) -> Tensor:
    """Return the largest load over the mean load, minus 1 (arXiv 2408.15664); shape [K]."""
    counts = load.float().reshape(-1, load.shape[-1])
    return counts.amax(dim=-1) / counts.mean(dim=-1) - 1.0


def _mean(parts: list[tuple[float, LossParts]], name: str) -> Tensor:
    """Return the mean of one loss over the global batch, shape [K]."""
    weighted = [getattr(part, name) * share for share, part in parts]
    return torch.stack(weighted).sum(dim=0).reshape(-1)


def _set_buffers(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    for name, value in values.items():
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, value)
