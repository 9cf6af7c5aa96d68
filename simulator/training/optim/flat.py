"""AdamW on flat buffers, with a learning rate and a decay for every tensor, and Muon beside it.

Parameters, gradients and moments of K runs are float32 buffers ``[K, P]``. The model's parameters
and their gradients are views of the first two, so clipping and the update are a few calls over long
contiguous memory however many tensors there are. Tensors that share their multipliers lie side by
side and are updated by one fused call. Where rules give hidden matrices to Muon, their stretch of
the first moment holds Muon's average of gradients, and there is no second moment of them.

References
----------
Decoupled decay in PyTorch's convention, ``theta <- theta * (1 - lr * weight_decay)``: arXiv
1711.05101 as implemented by ``torch.optim.AdamW``.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from simulator.parametrisation import TensorRule
from simulator.specs.errors import SpecError
from simulator.specs.run import MuonSpec, OptimizerSpec
from simulator.training.optim.layout import Segment, Slot, lay_out
from simulator.training.optim.muon import muon_step
from simulator.training.records import BoolArray, FloatArray

__all__ = ["FlatAdamW"]


class FlatAdamW:
    """Owner of the parameters of K runs and of everything that updates them.

    Parameters
    ----------
    named_parameters
        The model's, each of the shape its rule gives; their values become those of every run.
        They become views of this object's buffers, with a leading axis if there are several runs.
    rules
        One a parameter, by name.
    specs
        The optimiser of each run.
    muon_dtype
        Of the matrix products by which Muon orthogonalises.

    Raises
    ------
    SpecError
        If a parameter has no rule, a rule no parameter, or their shapes differ; if an optimiser is
        not the one the rules are made for.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, nn.Parameter]],
        rules: Sequence[TensorRule],
        specs: Sequence[OptimizerSpec],
        *,
        muon_dtype: torch.dtype = torch.float32,
    ) -> None:
        self._parameters = dict(named_parameters)
        _match(self._parameters, rules)
        layout = lay_out(rules)
        self.slots, self.segments, self._groups = layout.slots, layout.segments, layout.groups
        self._muon_dtype = muon_dtype
        for spec in specs:
            self._check_kind(spec)
        self._specs = list(specs)
        device = next(iter(self._parameters.values())).device
        self.values, self.grads, self.exp_avg, self.exp_avg_sq = (
            torch.zeros((len(specs), size), device=device)
            for size in (layout.size, layout.size, layout.size, layout.adamw_size)
        )
        self.num_updates = torch.zeros(len(specs), device=device)
        """Updates each run has made; a skipped step is none."""
        with torch.no_grad():
            for slot in self.slots:
                _view(self.values, slot).copy_(self._parameters[slot.name].reshape(1, -1))
        self.hold(len(specs))

    def hold(self, num_rows: int) -> None:
        """Let the model's parameters be the first ``num_rows`` runs, and no others."""
        self.num_held = num_rows
        stack = (num_rows,) if len(self._specs) > 1 else ()
        for slot in self.slots:
            parameter = self._parameters[slot.name]
            shape = (*stack, *slot.shape)
            parameter.data = _view(self.values[:num_rows], slot).view(shape)
            parameter.grad = _view(self.grads[:num_rows], slot).view(shape)

    def show(self, model: nn.Module, row: int) -> None:
        """Let the parameters of another ``model`` of the same shape be those of one run."""
        parameters = dict(model.named_parameters())
        for slot in self.slots:
            parameters[slot.name].data = _view(self.values[row], slot).view(slot.shape)

    def assign(self, row: int, spec: OptimizerSpec) -> None:
        """Give a row to a run that has made no update."""
        self._check_kind(spec)
        self._specs[row] = spec
        for moment in (self.exp_avg, self.exp_avg_sq, self.num_updates):
            moment[row] = 0.0

    def state(self, row: int) -> dict[str, Tensor]:
        """Return the live tensors of one run: parameters, moments, number of updates."""
        return {
            "values": self.values[row],
            "exp_avg": self.exp_avg[row],
            "exp_avg_sq": self.exp_avg_sq[row],
            "num_updates": self.num_updates[row],
        }

    def grad_norm(self) -> Tensor:
        """Return the global gradient norm of each run that is held, shape [K]."""
        # one reduction a run: the bits of a run's norm must not depend on how many there are
        return torch.stack(torch._foreach_norm(list(self.grads[: self.num_held])))

    def is_clipped(self, norm: FloatArray) -> BoolArray:
        """Return whose gradients :meth:`step` would scale down, given the first runs' norms."""
        specs = self._specs[: len(norm)]
        return norm > [spec.clip_norm if spec.clip_norm > 0 else math.inf for spec in specs]

    def min_grad_rms(self, row: int) -> Tensor:
        """Return the smallest root mean square of any tensor's gradient of one run, a scalar."""
        norms = [
            torch.linalg.vector_norm(_view(self.grads[row], slot))
            / math.sqrt(slot.stop - slot.start)
            for slot in self.slots
        ]
        return torch.stack(norms).amin()

    @torch.no_grad()
    def step(self, lr: FloatArray, norm: FloatArray, active: BoolArray) -> None:
        """Clip and update the runs that are active.

        Parameters
        ----------
        lr
            Learning rate of a tensor whose multiplier is 1, shape [K].
        norm
            What :meth:`grad_norm` returned for these gradients, shape [K].
        """
        is_clipped = self.is_clipped(norm)
        rows = active.nonzero()[0].tolist()
        for row in rows:
            if is_clipped[row]:
                self.grads[row].mul_(self._specs[row].clip_norm / float(norm[row]))
            self.num_updates[row] += 1
            for segment in self.segments:
                self._update(row, segment, float(lr[row]))
        if self._groups and rows:
            muon_step(
                self._groups,
                values=self.values,
                grads=self.grads,
                averages=self.exp_avg,
                rows=rows,
                lr=[float(lr[row]) for row in rows],
                specs=[spec for spec in map(self._specs.__getitem__, rows) if _is_muon(spec)],
                dtype=self._muon_dtype,
            )

    def _check_kind(self, spec: OptimizerSpec) -> None:
        wanted = "muon" if self._groups else "adamw"
        if spec.kind != wanted:
            raise SpecError(
                "optimizer.kind",
                f"must be what the rules are made for ({wanted})",
                spec.kind,
                "Build the rules with the optimizer's own muon_scale.",
            )

    def _update(self, row: int, segment: Segment, lr: float) -> None:
        spec = self._specs[row]
        part = slice(segment.start, segment.stop)
        torch._fused_adamw_(
            [self.values[row, part]],
            [self.grads[row, part]],
            [self.exp_avg[row, part]],
            [self.exp_avg_sq[row, part]],
            [],
            [self.num_updates[row]],
            lr=lr * segment.lr_multiplier,
            beta1=spec.beta1,
            beta2=spec.beta2,
            weight_decay=spec.weight_decay * segment.decay_multiplier,
            eps=spec.eps,
            amsgrad=False,
            maximize=False,
        )


def _view(buffer: Tensor, slot: Slot) -> Tensor:
    return buffer[..., slot.start : slot.stop]


def _is_muon(spec: OptimizerSpec) -> TypeGuard[MuonSpec]:
    return spec.kind == "muon"


def _match(parameters: dict[str, nn.Parameter], rules: Sequence[TensorRule]) -> None:
    shapes = {rule.name: rule.shape for rule in rules}
    for name in parameters.keys() ^ shapes.keys():
        raise SpecError(
            f"parametrisation.{name}",
            "must have exactly one parameter and one rule",
            "no rule" if name in parameters else "no parameter",
            "Build the model and its rules from the same specification.",
        )
    for name, parameter in parameters.items():
        if tuple(parameter.shape) != shapes[name]:
            raise SpecError(
                f"parametrisation.{name}",
                f"must have the shape of its rule {shapes[name]}",
                tuple(parameter.shape),
                "Build the model and its rules from the same specification.",
            )
