"""SwiGLU feed-forward (arXiv 2002.05202).

Shapes: N tokens, D width of the residual stream, I hidden width; ``*K`` an optional leading axis
of models.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from simulator.model.linear import Linear

__all__ = ["FeedForward", "swiglu", "swiglu_forward", "swiglu_gradient"]


def swiglu(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of a tensor that holds both in its last dimension, gate first."""
    if torch.compiler.is_compiling():
        return swiglu_forward(gate_up)
    product: Tensor = _SwiGLU.apply(gate_up)  # type: ignore[no-untyped-call]
    return product


def swiglu_forward(gate_up: Tensor) -> Tensor:
    """Return the same; differentiated step by step, where it is differentiated."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def swiglu_gradient(grad: Tensor, gate_up: Tensor) -> Tensor:
    """Return the gradient of ``gate_up`` from that of the product."""
    gate, up = gate_up.chunk(2, dim=-1)
    grad_gate_up = torch.empty_like(gate_up)
    grad_gate, grad_up = grad_gate_up.chunk(2, dim=-1)
    torch.mul(grad, functional.silu(gate), out=grad_up)
    torch.mul(grad, up, out=grad_gate)
    torch.ops.aten.silu_backward.grad_input(grad_gate, gate, grad_input=grad_gate)
    return grad_gate_up


class _SwiGLU(torch.autograd.Function):
    """Writes both halves of the gradient in place instead of concatenating them."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        return swiglu_forward(gate_up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        return swiglu_gradient(grad, gate_up)


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
