"""SwiGLU feed-forward (arXiv 2002.05202).

Shapes: N tokens, D width of the residual stream, I hidden width; ``*K`` an optional leading axis
of models.
"""

from torch import Tensor, nn
from torch.nn import functional

from simulator.model.linear import Linear

__all__ = ["FeedForward", "swiglu"]


def swiglu(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of a tensor that holds both in its last dimension, gate first."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


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
