"""Cross-entropy and the parts of the training loss.

Shapes: B sequences of T predicted positions, N = B * T, V vocabulary, E routed experts; ``*K`` an
optional leading axis of models.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

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
    shape = logits_NV.shape[:-1]
    targets = targets_N.expand(shape).flatten()
    flat = logits_NV.float().flatten(0, -2)
    return functional.cross_entropy(flat, targets, reduction="none").view(shape)
