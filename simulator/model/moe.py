"""DeepSeekMoE feed-forward layer (arXiv 2401.06066): shared experts and routed ones.

Shapes: N tokens, D width of the residual stream, E routed experts, A activated experts of a token,
I hidden width of one expert, S = N * A slots (one token at one of its experts); ``*K`` an optional
leading axis of models. Models' experts are independent, so that K models of E experts are grouped
as K * E experts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simulator.model.expert_products import Slots, apply_experts
from simulator.model.feed_forward import FeedForward
from simulator.model.linear import stack_offsets
from simulator.model.routing import Gate, balance_loss
from simulator.specs.model import MoESpec

__all__ = [
    "Experts",
    "MoE",
    "MoEStatistics",
    "sort_slots",
]


@dataclass(frozen=True, slots=True)
class MoEStatistics:
    """What a layer's routing did."""

    load: Tensor
    """Choices that fell on each expert, ``[*K, E]``, int64."""
    balance: Tensor | None
    """Weighted balance loss ``[*K]``; null when the model has none."""


def sort_slots(experts_NA: Tensor, weights_NA: Tensor, num_experts: int) -> Slots:
    """Sort the slots by expert; every slot is kept.

    Parameters
    ----------
    experts_NA, weights_NA
        Chosen experts and the factors of their outputs, ``[*K, N, A]``.
    num_experts
        Routed experts of one model.
    """
    stack, device = experts_NA.shape[:-2], experts_NA.device
    offsets = stack_offsets(stack, num_experts, device)[..., None, None]
    expert_S, order_S = (experts_NA + offsets).flatten().sort(stable=True)
    groups = torch.arange(stack.numel() * num_experts, device=device)
    ends_E = torch.searchsorted(expert_S, groups, right=True, out_int32=True)
    load_E = ends_E.long().diff(prepend=ends_E.new_zeros(1, dtype=torch.int64))
    return Slots(
        tokens=order_S // experts_NA.shape[-1],
        weights=weights_NA.flatten().index_select(0, order_S),
        ends=ends_E,
        load=load_E.view(*stack, num_experts),
    )


class Experts(nn.Module):
    """All routed experts of a layer, each tensor one stack over experts."""

    def __init__(self, dim: int, spec: MoESpec) -> None:
        super().__init__()
        num_experts, inter_dim = spec.n_routed_experts, spec.moe_inter_dim
        self.w13 = nn.Parameter(torch.zeros(num_experts, 2 * inter_dim, dim))
        self.w2 = nn.Parameter(torch.zeros(num_experts, dim, inter_dim))

    def forward(self, x_ND: Tensor, slots: Slots, base_ND: Tensor) -> Tensor:
        """Return ``base`` plus each token's weighted experts, ``[*K, N, D]``."""
        return apply_experts(x_ND, slots, base_ND, self.w13, self.w2)


class MoE(nn.Module):
    """Routed experts beside shared ones; no token is dropped."""

    def __init__(self, dim: int, spec: MoESpec) -> None:
        super().__init__()
        self.spec = spec
        self.gate = Gate(dim, spec)
        self.experts = Experts(dim, spec)
        if spec.n_shared_experts:
            self.shared_experts = FeedForward(dim, spec.n_shared_experts * spec.moe_inter_dim)

    def forward(self, x_ND: Tensor, num_positions: int) -> tuple[Tensor, MoEStatistics]:
        """Return the layer's output ``[*K, N, D]`` and what its routing did.

        Parameters
        ----------
        num_positions
            Tokens of one sequence, for the balance loss.
        """
        routing = self.gate(x_ND)
        has_shared = self.spec.n_shared_experts > 0
        base_ND = self.shared_experts(x_ND) if has_shared else torch.zeros_like(x_ND)
        slots = sort_slots(routing.experts, routing.weights, self.spec.n_routed_experts)
        y_ND = self.experts(x_ND, slots, base_ND)
        has_loss = self.spec.balance != "none" and self.spec.aux_loss_alpha > 0
        balance = balance_loss(routing, num_positions, self.spec) if has_loss else None
        return y_ND, MoEStatistics(load=slots.load, balance=balance)
