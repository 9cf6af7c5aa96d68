"""From the projections of latent attention to its heads' queries, keys and values.

Shapes: N = B * T tokens (B sequences of all models, T positions), H heads, P key dimensions without
position, R rotated dimensions, Q = P + R, V value dimensions of a head.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from simulator.model.rope import RotaryTables, rotate_pairs

__all__ = ["HeadLayout", "latent_heads"]


@dataclass(frozen=True, slots=True)
class HeadLayout:
    """How the projections' features divide into heads and their parts."""

    heads: int
    nope: int
    rope: int
    value: int
    scale: float
    """Softmax scale, which the queries carry."""


def latent_heads(
    queries: Tensor, keys_values: Tensor, shared_key: Tensor, tables: RotaryTables, to: HeadLayout
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scaled queries ``[B, H, T, Q]``, keys alike and values ``[B, H, T, V]``.

    Parameters
    ----------
    queries
        ``[*K, N, H * Q]``, each head's rotated part last.
    keys_values
        ``[*K, N, H * (P + V)]``, each head's key part first.
    shared_key
        The rotated part of all heads' keys, ``[*K, N, R]``; interleaved pairs, as in the queries.
    """
    if torch.compiler.is_compiling():
        return _composed(queries, keys_values, shared_key, tables, to)
    q_BHTQ, k_BHTQ, v_BHTV = _LatentHeads.apply(  # type: ignore[no-untyped-call]
        queries, keys_values, shared_key, tables, to
    )
    return q_BHTQ, k_BHTQ, v_BHTV


def _composed(
    queries: Tensor, keys_values: Tensor, shared_key: Tensor, tables: RotaryTables, to: HeadLayout
) -> tuple[Tensor, Tensor, Tensor]:
    """Cut, rotate and concatenate: for a compiler, which makes one pass of it."""

    def by_head(x: Tensor, heads: int) -> Tensor:
        return x.reshape(-1, tables.num_positions, heads, x.shape[-1] // heads).transpose(1, 2)

    def rotated(x_BHTR: Tensor) -> Tensor:
        pairs = rotate_pairs(x_BHTR[..., 0::2], x_BHTR[..., 1::2], tables)
        return torch.stack(pairs, dim=-1).flatten(-2)

    q_BHTQ = by_head(queries, to.heads) * to.scale
    k_BHTP, v_BHTV = by_head(keys_values, to.heads).split_with_sizes([to.nope, to.value], dim=-1)
    shared_BHTR = rotated(by_head(shared_key, 1)).expand(-1, to.heads, -1, -1)
    q_BHTQ = torch.cat([q_BHTQ[..., : to.nope], rotated(q_BHTQ[..., to.nope :])], dim=-1)
    return q_BHTQ, torch.cat([k_BHTP, shared_BHTR], dim=-1), v_BHTV


class _LatentHeads(torch.autograd.Function):
    """Lays every part where it belongs once, and its gradient likewise.

    Composed of cuts, rotations and concatenations it would copy each part three times.
    """

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys_values: Tensor,
        shared_key: Tensor,
        tables: RotaryTables,
        to: HeadLayout,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.tables, ctx.to, ctx.shapes = tables, to, (queries.shape, keys_values.shape)
        num_positions = tables.num_positions
        by_head = (-1, num_positions, to.heads)
        q_BTHQ = queries.reshape(*by_head, to.nope + to.rope)
        kv_BTHQ = keys_values.reshape(*by_head, to.nope + to.value)
        shared_BTR = shared_key.reshape(-1, num_positions, to.rope).clone()
        ctx.shared_shape = shared_key.shape
        q_BHTQ = _heads_first(q_BTHQ, q_BTHQ.shape[-1])
        torch.mul(q_BTHQ.transpose(1, 2), to.scale, out=q_BHTQ)
        _rotate(q_BHTQ[..., to.nope :], tables)
        _rotate(shared_BTR, tables)
        k_BHTQ, v_BHTV = torch.empty_like(q_BHTQ), _heads_first(q_BTHQ, to.value)
        k_BHTQ[..., : to.nope] = kv_BTHQ[..., : to.nope].transpose(1, 2)
        k_BHTQ[..., to.nope :] = shared_BTR.unsqueeze(1)
        v_BHTV.copy_(kv_BTHQ[..., to.nope :].transpose(1, 2))
        return q_BHTQ, k_BHTQ, v_BHTV

    @staticmethod
    def backward(
        ctx: Any, grad_q_BHTQ: Tensor, grad_k_BHTQ: Tensor, grad_v_BHTV: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None]:
        tables, to = ctx.tables, ctx.to
        batch, heads, num_positions, _ = grad_q_BHTQ.shape
        by_head = (batch, num_positions, heads)
        grad_BTHQ = grad_q_BHTQ.new_empty(*by_head, to.nope + to.rope)
        torch.mul(grad_q_BHTQ.transpose(1, 2), to.scale, out=grad_BTHQ)
        _rotate(grad_BTHQ.transpose(1, 2)[..., to.nope :], tables, direction=-1)
        grad_kv_BTHQ = grad_k_BHTQ.new_empty(*by_head, to.nope + to.value)
        grad_kv_BTHQ[..., : to.nope] = grad_k_BHTQ[..., : to.nope].transpose(1, 2)
        grad_kv_BTHQ[..., to.nope :] = grad_v_BHTV.transpose(1, 2)
        grad_shared_BTR = grad_k_BHTQ[..., to.nope :].sum(dim=1)
        _rotate(grad_shared_BTR, tables, direction=-1)
        shape_q, shape_kv = ctx.shapes
        shared = grad_shared_BTR.view(ctx.shared_shape)
        return grad_BTHQ.view(shape_q), grad_kv_BTHQ.view(shape_kv), shared, None, None


def _heads_first(like_BTHQ: Tensor, features: int) -> Tensor:
    batch, num_positions, heads, _ = like_BTHQ.shape
    return like_BTHQ.new_empty(batch, heads, num_positions, features)


def _rotate(x: Tensor, tables: RotaryTables, *, direction: Literal[1, -1] = 1) -> None:
    """Rotate the interleaved pairs of ``[..., T, R]`` in place."""
    first, second = x[..., 0::2], x[..., 1::2]
    first[...], second[...] = rotate_pairs(first, second, tables, direction=direction)
