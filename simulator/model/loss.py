"""Cross-entropy and the parts of the training loss.

Shapes: B sequences of T predicted positions, N = B * T, V vocabulary, E routed experts; ``*K`` an
optional leading axis of models.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["LossParts", "TokenNLL", "cross_entropy"]


@dataclass(frozen=True, slots=True)
class LossParts:
    """Losses of one batch, nats per token, each ``[*K]`` (no axis for one model)."""

    main: Tensor
    """Next-token loss, mean over all predicted positions."""
    mtp: Tensor | None
    """Mean of the multi-token-prediction modules' losses, without weight; null without modules."""
    balance: Tensor | None
    """Balance losses of all layers, weighted by ``aux_loss_alpha`` and summed; null if none."""
    expert_load: tuple[Tensor, ...]
    """Choices that fell on each expert, ``[*K, E]`` int64, for each layer with routed experts:
    the main layers in order, then those of the prediction modules."""

    def detach(self) -> "LossParts":
        """Return the same values without a graph."""
        mtp, balance = (
            None if part is None else part.detach() for part in (self.mtp, self.balance)
        )
        return LossParts(self.main.detach(), mtp, balance, self.expert_load)


@dataclass(frozen=True, slots=True)
class TokenNLL:
    """Loss of every predicted position, nats."""

    main: Tensor
    """Next-token loss, ``[*K, B, T]``."""
    mtp: tuple[Tensor, ...]
    """One ``[*K, B, T]`` for each multi-token-prediction module."""


def cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Return the negative log-likelihood of every target, ``[*K, N]``, float32.

    Parameters
    ----------
    logits_NV
        Unnormalised log-probabilities ``[*K, N, V]``.
    targets_N
        Token ids ``[N]``, or ``[*K, N]`` when every model predicts its own tokens.
    """
    targets_N1 = targets_N.expand(logits_NV.shape[:-1]).unsqueeze(-1)
    if torch.compiler.is_compiling():
        return -logits_NV.float().log_softmax(dim=-1).gather(-1, targets_N1).squeeze(-1)
    nll_N: Tensor = _CrossEntropy.apply(logits_NV, targets_N1)  # type: ignore[no-untyped-call]
    return nll_N


class _CrossEntropy(torch.autograd.Function):
    """Keeps the probabilities, from which loss and gradient follow with one pass each."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N1: Tensor) -> Tensor:
        p_NV = torch.softmax(logits_NV, dim=-1, dtype=torch.float32)
        ctx.save_for_backward(p_NV, targets_N1)
        ctx.dtype = logits_NV.dtype
        # log(sum(exp(logits))), by way of the largest probability: it is never small
        total_N = logits_NV.amax(dim=-1).float() - p_NV.amax(dim=-1).log_()
        return total_N - logits_NV.gather(-1, targets_N1).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, None]:
        p_NV, targets_N1 = ctx.saved_tensors
        grad_N1 = grad_N.unsqueeze(-1)
        grad_NV = (p_NV * grad_N1).scatter_add_(-1, targets_N1, -grad_N1)
        return grad_NV.to(ctx.dtype), None
