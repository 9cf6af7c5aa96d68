"""SwiGLU feed-forward (arXiv 2002.05202).

Shapes: N tokens, D width of the residual stream, I hidden width; ``*K`` an optional leading axis
of models.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from simulator.model.linear import Linear

__all__ = ["FeedForward", "swiglu"]


def swiglu(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of a tensor that holds both in its last dimension, gate first."""
    product: Tensor = _SwiGLU.apply(gate_up)  # type: ignore[no-untyped-call]
    return product


class _SwiGLU(torch.autograd.Function):
    """Writes both halves of the gradient in place instead of concatenating them."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        activated = functional.silu(gate)
        ctx.save_for_backward(gate_up, activated)
        return activated * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        gate_up, activated = ctx.saved_tensors
        gate, up = gate_up.chunk(2, dim=-1)
        grad_gate_up = torch.empty_like(gate_up)
        grad_gate, grad_up = grad_gate_up.chunk(2, dim=-1)
        torch.mul(grad, activated, out=grad_up)
        torch.mul(grad, up, out=grad_gate)
        torch.ops.aten.silu_backward.grad_input(grad_gate, gate, grad_input=grad_gate)
        return grad_gate_up


class FeedForward(nn.Module):
    """Gated feed-forward; gate and up projection are one matrix, the gate's rows first."""

    def __init__(self, dim: int, inter_dim: int) -> None:
        super().__init__()
        self.w13 = Linear(dim, 2 * inter_dim)
        self.w2 = Linear(inter_dim, dim)

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the layer's output ``[*K, N, D]``."""
        y_ND: Tensor = self.w2(swiglu(self.w13(x_ND)))
        return y_ND
