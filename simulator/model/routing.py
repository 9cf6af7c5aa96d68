"""Which experts a token goes to, and the losses and biases that balance them.

Shapes: N = B * T tokens (B sequences of T positions), D width of the residual stream, E routed
experts, A activated experts of a token, G groups of experts; ``*K`` an optional leading axis of
models. Everything here is float32, also under autocast: close scores decide where tokens go.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn

from simulator.specs.model import MoESpec

__all__ = [
    "Gate",
    "Routing",
    "balance_loss",
    "choose_experts",
    "expert_scores",
    "gate_weights",
    "updated_bias",
]


@dataclass(frozen=True, slots=True)
class Routing:
    """Where each token goes."""

    experts: Tensor
    """Indices of the chosen experts, ``[*K, N, A]``, int64."""
    weights: Tensor
    """Factors of their outputs, ``[*K, N, A]``."""
    scores: Tensor
    """Scores the choice started from, before any bias, ``[*K, N, E]``."""


def expert_scores(x_ND: Tensor, weight_ED: Tensor, spec: MoESpec) -> Tensor:
    """Return every expert's affinity to every token, ``[*K, N, E]``, float32."""
    kind = x_ND.device.type
    is_autocast = torch.is_autocast_enabled(kind)  # else no context: compilers do not cache one
    with torch.autocast(kind, enabled=False) if is_autocast else nullcontext():
        logits_NE = x_ND.float() @ weight_ED.float().mT
    match spec.score_func:
        case "sigmoid":
            return logits_NE.sigmoid()
        case "softmax":
            return logits_NE.softmax(dim=-1)
        case _ as never:
            assert_never(never)


@torch.no_grad()
def choose_experts(scores_NE: Tensor, bias_E: Tensor | None, spec: MoESpec) -> Tensor:
    """Return the indices of each token's experts, ``[*K, N, A]``.

    Parameters
    ----------
    bias_E
        Added to the scores for this choice only (arXiv 2408.15664), ``[*K, E]``.
    """
    ranked_NE = scores_NE if bias_E is None else scores_NE + bias_E.unsqueeze(-2)
    if spec.n_limited_groups < spec.n_expert_groups:
        ranked_NE = _within_best_groups(ranked_NE, spec)
    return ranked_NE.topk(spec.n_activated_experts, dim=-1, sorted=False).indices


def _within_best_groups(ranked_NE: Tensor, spec: MoESpec) -> Tensor:
    """Rule out the experts of all but a token's best groups (arXiv 2405.04434, 2.2.2)."""
    ranked_NGE = ranked_NE.view(*ranked_NE.shape[:-1], spec.n_expert_groups, -1)
    match spec.group_score:
        case "top2_sum":
            num_best = min(2, ranked_NGE.shape[-1])
            group_scores_NG = ranked_NGE.topk(num_best, dim=-1, sorted=False).values.sum(dim=-1)
        case "max":
            group_scores_NG = ranked_NGE.amax(dim=-1)
        case _ as never:
            assert_never(never)
    best_N = group_scores_NG.topk(spec.n_limited_groups, dim=-1, sorted=False).indices
    is_out_NG = torch.ones_like(group_scores_NG, dtype=torch.bool).scatter_(-1, best_N, value=False)
    return ranked_NGE.masked_fill(is_out_NG.unsqueeze(-1), float("-inf")).flatten(-2)


def gate_weights(scores_NE: Tensor, experts_NA: Tensor, spec: MoESpec) -> Tensor:
    """Return the factors of the chosen experts' outputs, ``[*K, N, A]``, from unbiased scores."""
    weights_NA = scores_NE.gather(-1, experts_NA)
    if spec.norm_topk_prob:
        weights_NA = weights_NA / (weights_NA.sum(dim=-1, keepdim=True) + 1e-20)
    return weights_NA if spec.route_scale == 1.0 else weights_NA * spec.route_scale


def balance_loss(routing: Routing, num_positions: int, spec: MoESpec) -> Tensor:
    """Return the weighted balance loss of each model, ``[*K]``.

    Notes
    -----
    ``alpha * sum_i f_i P_i``: ``f_i`` is the share of choices that fell on expert i times E, and
    ``P_i`` its mean score, scores summing to one. Over each sequence and then averaged when
    ``seq_aux`` (arXiv 2405.04434, section 2.2.3; arXiv 2412.19437, equations 17 to 20), else over
    the batch (arXiv 2401.06066, section 3.3). Under bias balancing the choices that count are
    those of the bare scores (arXiv 2412.19437, equation 18).
    """
    scores_NE, chosen_NA = routing.scores, routing.experts
    if spec.balance == "bias":
        chosen_NA = scores_NE.detach().topk(spec.n_activated_experts, dim=-1, sorted=False).indices
    if spec.score_func == "sigmoid":
        scores_NE = scores_NE / scores_NE.sum(dim=-1, keepdim=True)
    length = num_positions if spec.seq_aux else scores_NE.shape[-2]
    stack = scores_NE.shape[:-2]
    scores_BTE = scores_NE.view(*stack, -1, length, spec.n_routed_experts)
    chosen_BT = chosen_NA.view(*stack, -1, length * spec.n_activated_experts)
    counts_BE = torch.zeros_like(scores_BTE[..., 0, :], requires_grad=False)
    counts_BE.scatter_add_(-1, chosen_BT, torch.ones_like(chosen_BT, dtype=counts_BE.dtype))
    frequency_BE = counts_BE * (spec.n_routed_experts / chosen_BT.shape[-1])
    per_sequence_B = (frequency_BE * scores_BTE.mean(dim=-2)).sum(dim=-1)
    return per_sequence_B.mean(dim=-1) * spec.aux_loss_alpha


def updated_bias(bias_E: Tensor, load_E: Tensor, rate: Tensor | float) -> Tensor:
    """Return the balance bias after one step: up for experts below the mean load, down above.

    ``b + rate * sign(mean load - load)`` (arXiv 2408.15664, algorithm 1). A tensor of rates has one
    a model, ``[*K, 1]``.
    """
    load_E = load_E.to(bias_E.dtype)
    return bias_E + rate * torch.sign(load_E.mean(dim=-1, keepdim=True) - load_E)


class Gate(nn.Module):
    """Router of one layer, with its balance bias where the model has one."""

    bias: Tensor | None

    def __init__(self, dim: int, spec: MoESpec) -> None:
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.zeros(spec.n_routed_experts, dim))
        bias_E = torch.zeros(spec.n_routed_experts) if spec.balance == "bias" else None
        self.register_buffer("bias", bias_E)

    def forward(self, x_ND: Tensor) -> Routing:
        """Choose experts for every token."""
        scores_NE = expert_scores(x_ND, self.weight, self.spec)
        experts_NA = choose_experts(scores_NE, self.bias, self.spec)
        weights_NA = gate_weights(scores_NE, experts_NA, self.spec)
        return Routing(experts=experts_NA, weights=weights_NA, scores=scores_NE)
