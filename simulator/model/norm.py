"""Root-mean-square normalisation (arXiv 1910.07467).

Shapes: N tokens, D features; ``*K`` an optional leading axis of models.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["RMSNorm", "rms_norm"]


def rms_norm(x_ND: Tensor, gain_D: Tensor, eps: float) -> Tensor:
    """Return ``x / sqrt(mean(x^2) + eps) * gain`` in the type of ``x``; statistics in float32.

    Parameters
    ----------
    x_ND
        Activations ``[*K, N, D]``.
    gain_D
        Gain ``[*K, D]``.
    eps
        Added to the mean square, > 0.
    """
    is_eager_on_cpu = x_ND.device.type == "cpu" and not torch.compiler.is_compiling()
    return (_few_passes if is_eager_on_cpu else _library)(x_ND, gain_D, eps)


def _library(x_ND: Tensor, gain_D: Tensor, eps: float) -> Tensor:
    """Use the library's operator: one kernel when compiled, a long chain on the CPU otherwise."""
    y_ND = functional.rms_norm(x_ND, x_ND.shape[-1:], eps=eps)
    return (y_ND * gain_D.unsqueeze(-2)).to(x_ND.dtype)


def _few_passes(x_ND: Tensor, gain_D: Tensor, eps: float) -> Tensor:
    y_ND: Tensor = _RMSNorm.apply(x_ND, gain_D, eps)  # type: ignore[no-untyped-call]
    return y_ND


class _RMSNorm(torch.autograd.Function):
    """Forward and gradient in nine passes over the activations."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, gain_D: Tensor, eps: float) -> Tensor:
        scale_N1 = torch.linalg.vector_norm(x_ND, dim=-1, keepdim=True, dtype=torch.float32)
        scale_N1 = scale_N1.square_().mul_(1 / x_ND.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x_ND, gain_D, scale_N1)
        y_ND: Tensor = (x_ND * scale_N1).mul_(gain_D.unsqueeze(-2))
        return y_ND.to(x_ND.dtype)

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, Tensor, None]:
        x_ND, gain_D, scale_N1 = ctx.saved_tensors
        gain_D1 = gain_D.float().unsqueeze(-1)
        product_ND = grad_ND.float() * x_ND
        grad_gain_D = (product_ND.mT @ scale_N1).squeeze(-1)
        along_N1 = (product_ND @ gain_D1).mul_(scale_N1.square()).mul_(-1 / x_ND.shape[-1])
        grad_x_ND = torch.mul(grad_ND, gain_D1.mT, out=product_ND)
        grad_x_ND.addcmul_(x_ND, along_N1).mul_(scale_N1)
        return grad_x_ND.to(x_ND.dtype), grad_gain_D.to(gain_D.dtype), None


class RMSNorm(nn.Module):
    """Normalisation with its gain."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the normalised activations ``[*K, N, D]``."""
        return rms_norm(x_ND, self.weight, self.eps)
