"""The core of attention: softmax of causal logits times values.

Shapes: B sequences (of all models), H heads, G key-value heads, T positions, S positions of one
block of queries, E positions up to its end, Q query and key dimensions of a head, V value
dimensions of a head; J = B * H sequences of single heads.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["causal_attention", "max_causal_logits"]

QUERY_BLOCK = 64
"""Queries whose logits are computed together on the CPU: later keys are left out block by block.
Of 16 to 256 the fastest at 128 and 512 positions (benchmarks/proxy_throughput.py's shapes)."""


def causal_attention(q_BHTQ: Tensor, k_BGTQ: Tensor, v_BGTV: Tensor) -> Tensor:
    """Return the attention output ``[B, H, T, V]``.

    Parameters
    ----------
    q_BHTQ
        Queries, already multiplied by the softmax scale.
    k_BGTQ, v_BGTV
        Keys and values of the same type; G divides H.
    """
    is_on_cpu = q_BHTQ.device.type == "cpu"
    return (_blockwise if is_on_cpu else _library)(q_BHTQ, k_BGTQ, v_BGTV)


def _library(q_BHTQ: Tensor, k_BGTQ: Tensor, v_BGTV: Tensor) -> Tensor:
    """Use the library's operator: fused on accelerators, half as fast as products on the CPU.

    There, with unlike query and value dimensions, it takes a path that checks every logit.
    """
    return functional.scaled_dot_product_attention(
        q_BHTQ, k_BGTQ, v_BGTV, is_causal=True, scale=1.0, enable_gqa=True
    )


def _blockwise(q_BHTQ: Tensor, k_BGTQ: Tensor, v_BGTV: Tensor) -> Tensor:
    singles = (_by_single_head(x, q_BHTQ.shape[1]) for x in (q_BHTQ, k_BGTQ, v_BGTV))
    if torch.compiler.is_compiling():
        y_JTV = _composed(*singles)
    else:
        with torch.autocast("cpu", enabled=False):
            y_JTV = _BlockwiseAttention.apply(*singles)  # type: ignore[no-untyped-call]
    return y_JTV.view(*q_BHTQ.shape[:-1], v_BGTV.shape[-1])


def max_causal_logits(q_BHTQ: Tensor, k_BGTQ: Tensor) -> Tensor:
    """Return the largest causal logit of each sequence and head, ``[B, H]``, float32."""
    q_JTQ, k_JTQ = (_by_single_head(x, q_BHTQ.shape[1]) for x in (q_BHTQ, k_BGTQ))
    logits_JTT = (q_JTQ @ k_JTQ.mT).float()
    is_later_TT = torch.ones(logits_JTT.shape[-2:], device=logits_JTT.device).triu_(1).bool()
    largest_J = logits_JTT.masked_fill(is_later_TT, float("-inf")).amax(dim=(-2, -1))
    return largest_J.view(q_BHTQ.shape[:2])


def _by_single_head(x_BGTQ: Tensor, heads: int) -> Tensor:
    """Merge sequences and heads, ``[J, T, Q]``, each key-value head repeated for its queries."""
    repeats = heads // x_BGTQ.shape[1]
    return x_BGTQ.unsqueeze(2).expand(-1, -1, repeats, -1, -1).flatten(0, 2).contiguous()


def _composed(q_JTQ: Tensor, k_JTQ: Tensor, v_JTV: Tensor) -> Tensor:
    """Attention block by block, differentiated step by step: for a compiler."""
    parts = []
    for start, end in _blocks(q_JTQ.shape[1]):
        logits_JSE = torch.bmm(q_JTQ[:, start:end], k_JTQ[:, :end].mT)
        positions_E = torch.arange(end, device=q_JTQ.device)
        is_later_SE = positions_E > positions_E[start:].unsqueeze(-1)
        p_JSE = logits_JSE.float().masked_fill(is_later_SE, float("-inf")).softmax(dim=-1)
        parts.append(torch.bmm(p_JSE.to(v_JTV.dtype), v_JTV[:, :end]))
    return torch.cat(parts, dim=1)


class _BlockwiseAttention(torch.autograd.Function):
    """Attention one block of queries after the other, each against the keys up to its end."""

    @staticmethod
    def forward(ctx: Any, q_JTQ: Tensor, k_JTQ: Tensor, v_JTV: Tensor) -> Tensor:
        y_JTV = torch.empty_like(v_JTV)
        probabilities = []
        later_SS = _later(min(QUERY_BLOCK, q_JTQ.shape[1]), q_JTQ)
        for start, end in _blocks(q_JTQ.shape[1]):
            p_JSE = torch.bmm(q_JTQ[:, start:end], k_JTQ[:, :end].mT)
            p_JSE[..., start:] += later_SS[: end - start, : end - start]
            torch.softmax(p_JSE, dim=-1, out=p_JSE)
            y_JTV[:, start:end] = torch.bmm(p_JSE, v_JTV[:, :end])
            probabilities.append(p_JSE)
        ctx.save_for_backward(q_JTQ, k_JTQ, v_JTV, y_JTV, *probabilities)
        return y_JTV

    @staticmethod
    def backward(ctx: Any, grad_JTV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q_JTQ, k_JTQ, v_JTV, y_JTV, *probabilities = ctx.saved_tensors
        mean_JT1 = (grad_JTV * y_JTV).sum(dim=-1, keepdim=True)
        blocks = list(zip(_blocks(q_JTQ.shape[1]), probabilities, strict=True))

        def gradients(start: int, end: int, p_JSE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            grad_y_JSV = grad_JTV[:, start:end]
            grad_JSE = torch.bmm(grad_y_JSV, v_JTV[:, :end].mT)
            grad_JSE.sub_(mean_JT1[:, start:end]).mul_(p_JSE)
            grad_q_JSQ = torch.bmm(grad_JSE, k_JTQ[:, :end])
            grad_k_JEQ = torch.bmm(grad_JSE.mT, q_JTQ[:, start:end])
            return grad_q_JSQ, grad_k_JEQ, torch.bmm(p_JSE.mT, grad_y_JSV)

        (start, end), p_JSE = blocks.pop()  # the last block has gradients for every key
        grad_q_JTQ = torch.empty_like(q_JTQ)
        grad_q_JTQ[:, start:], grad_k_JTQ, grad_v_JTV = gradients(start, end, p_JSE)
        for (start, end), p_JSE in blocks:
            grad_q_JTQ[:, start:end], grad_k_JEQ, grad_v_JEV = gradients(start, end, p_JSE)
            grad_k_JTQ[:, :end] += grad_k_JEQ
            grad_v_JTV[:, :end] += grad_v_JEV
        return grad_q_JTQ, grad_k_JTQ, grad_v_JTV


def _blocks(num_positions: int) -> list[tuple[int, int]]:
    """Return the first and last-plus-one query of each block."""
    return [
        (start, min(start + QUERY_BLOCK, num_positions))
        for start in range(0, num_positions, QUERY_BLOCK)
    ]


def _later(size: int, like: Tensor) -> Tensor:
    """Return minus infinity where the key comes after the query, else zero, ``[size, size]``."""
    return like.new_full((size, size), float("-inf")).triu_(1)
