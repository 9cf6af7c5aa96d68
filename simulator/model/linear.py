"""Matrix products with a weight: projections, token look-up and the head.

Shapes: N tokens, D input features, O output features, V vocabulary; ``*K`` an optional leading axis
of models.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Embedding", "Linear", "embed", "linear", "stack_offsets"]


def linear(x_ND: Tensor, weight_OD: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias`` in the weight's type, shape ``[*K, N, O]``.

    Parameters
    ----------
    x_ND
        Activations ``[*K, N, D]``.
    weight_OD
        Weight ``[*K, O, D]``.
    bias_O
        Bias ``[*K, O]``, if any.
    """
    y_NO = x_ND.to(weight_OD.dtype) @ weight_OD.mT
    return y_NO if bias_O is None else y_NO + bias_O.unsqueeze(-2).to(y_NO.dtype)


def embed(ids: Tensor, weight_VD: Tensor) -> Tensor:
    """Return the rows ``ids`` of each model's table, shape ``[*K, N, D]``.

    Parameters
    ----------
    ids
        Token ids ``[N]``, or ``[*K, N]`` when every model reads its own tokens.
    weight_VD
        Table ``[*K, V, D]``.
    """
    stack, num_rows = weight_VD.shape[:-2], weight_VD.shape[-2]
    rows = ids + stack_offsets(stack, num_rows, ids.device).unsqueeze(-1)
    return functional.embedding(rows, weight_VD.flatten(0, -2))


def stack_offsets(stack: torch.Size, num_rows: int, device: torch.device) -> Tensor:
    """Return where each model's rows begin once the leading axes are flattened.

    Shape ``[*K]``; a single zero without axes when there is one model.
    """
    return torch.arange(0, stack.numel() * num_rows, num_rows, device=device).view(stack)


class Linear(nn.Module):
    """Projection with its weight and, if asked for, its bias."""

    def __init__(self, in_features: int, out_features: int, *, has_bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features)) if has_bias else None

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the projected activations ``[*K, N, O]``."""
        return linear(x_ND, self.weight, self.bias)


class Embedding(nn.Module):
    """Token table, which also serves as the head of a model with tied embeddings.

    Both uses go through ``forward``: whoever gathers parameters module by module then sees
    every use of the table.
    """

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocab_size, dim))

    def forward(self, x: Tensor, *, as_head: bool = False) -> Tensor:
        """Return rows of the table for token ids, or logits for activations ``[*K, N, D]``."""
        return linear(x, self.weight) if as_head else embed(x, self.weight)
