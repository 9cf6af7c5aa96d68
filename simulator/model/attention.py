"""Causal attention: multi-head latent attention and grouped-query attention.

Shapes: N = B * T tokens (B sequences of T positions, all models' sequences under one B once heads
are split off), H heads, G key-value heads, Q query and key dimensions of a head, R half of its
rotated dimensions, D width of the residual stream; ``*K`` an optional leading axis of models.
"""

from typing import assert_never

import torch
from torch import Tensor, nn

from simulator.model.causal_attention import causal_attention, max_causal_logits
from simulator.model.latent_heads import HeadLayout, latent_heads
from simulator.model.linear import Linear
from simulator.model.norm import RMSNorm
from simulator.model.rope import RotaryTables, rotate_pairs, softmax_factor
from simulator.specs.model import GQASpec, MLASpec, ModelSpec

__all__ = ["GQA", "MLA", "build_attention", "split_heads"]

LATENT_NORM_EPS = 1e-6
"""Of the norms on latents, whatever the other norms have (DeepSeek-V3 inference/model.py)."""


def split_heads(x: Tensor, num_positions: int, head_dim: int) -> Tensor:
    """View activations ``[*K, N, H * head_dim]`` as ``[B, H, T, head_dim]``."""
    num_heads = x.shape[-1] // head_dim
    return x.reshape(-1, num_positions, num_heads, head_dim).transpose(1, 2)


class _Attention(nn.Module):
    """What both kinds of attention share: from queries, keys and values to the output."""

    wo: Linear

    def forward(self, x_ND: Tensor, tables: RotaryTables) -> Tensor:
        """Return the layer's output ``[*K, N, D]``."""
        y_BHTV = causal_attention(*self._queries_keys_values(x_ND, tables))
        y_ND: Tensor = self.wo(y_BHTV.transpose(1, 2).reshape(*x_ND.shape[:-1], -1))
        return y_ND

    def max_logits(self, x_ND: Tensor, tables: RotaryTables) -> Tensor:
        """Return the largest attention logit of each head, shape ``[*K, H]``."""
        q_BHTQ, k_BGTQ, _ = self._queries_keys_values(x_ND, tables)
        largest_BH = max_causal_logits(q_BHTQ, k_BGTQ)
        return largest_BH.view(*x_ND.shape[:-2], -1, largest_BH.shape[-1]).amax(dim=-2)

    def _queries_keys_values(
        self, x_ND: Tensor, tables: RotaryTables
    ) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError


class MLA(_Attention):
    """Multi-head latent attention (arXiv 2405.04434, section 2.1; arXiv 2412.19437, 2.1.1).

    Queries and keys have a part without position and a rotated part; the rotated part of the key
    comes straight from the input and is shared by all heads. Rotated dimensions are stored as
    interleaved pairs.
    """

    def __init__(self, spec: MLASpec, model: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        dim, heads = model.dim, spec.n_heads
        if spec.q_lora_rank:
            self.wq_a = Linear(dim, spec.q_lora_rank)
            self.q_norm = RMSNorm(spec.q_lora_rank, LATENT_NORM_EPS)
            self.wq_b = Linear(spec.q_lora_rank, heads * spec.qk_head_dim)
        else:
            self.wq = Linear(dim, heads * spec.qk_head_dim)
        self.wkv_a = Linear(dim, spec.kv_lora_rank + spec.qk_rope_head_dim)
        self.kv_norm = RMSNorm(spec.kv_lora_rank, LATENT_NORM_EPS)
        self.wkv_b = Linear(spec.kv_lora_rank, heads * (spec.qk_nope_head_dim + spec.v_head_dim))
        self.wo = Linear(heads * spec.v_head_dim, dim)
        self.layout = HeadLayout(
            heads=heads,
            nope=spec.qk_nope_head_dim,
            rope=spec.qk_rope_head_dim,
            value=spec.v_head_dim,
            scale=spec.qk_head_dim**-0.5 * softmax_factor(model.rope.scaling),
        )

    def _queries_keys_values(
        self, x_ND: Tensor, tables: RotaryTables
    ) -> tuple[Tensor, Tensor, Tensor]:
        spec = self.spec
        latent, shared_key = self.wkv_a(x_ND).split_with_sizes(
            [spec.kv_lora_rank, spec.qk_rope_head_dim], dim=-1
        )
        keys_values = self.wkv_b(self.kv_norm(latent))
        return latent_heads(self._queries(x_ND), keys_values, shared_key, tables, self.layout)

    def _queries(self, x_ND: Tensor) -> Tensor:
        low_rank = self.spec.q_lora_rank > 0
        q: Tensor = self.wq_b(self.q_norm(self.wq_a(x_ND))) if low_rank else self.wq(x_ND)
        return q


class GQA(_Attention):
    """Grouped-query attention (arXiv 2305.13245) as Llama and Qwen have it.

    The rotated pairs are the first and the second half of a head's dimensions.
    """

    def __init__(self, spec: GQASpec, model: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        dim, has_bias = model.dim, spec.qkv_bias
        self.wq = Linear(dim, spec.n_heads * spec.head_dim, has_bias=has_bias)
        self.wk = Linear(dim, spec.n_kv_heads * spec.head_dim, has_bias=has_bias)
        self.wv = Linear(dim, spec.n_kv_heads * spec.head_dim, has_bias=has_bias)
        if spec.qk_norm:
            self.q_norm = RMSNorm(spec.head_dim, model.norm_eps)
            self.k_norm = RMSNorm(spec.head_dim, model.norm_eps)
        self.wo = Linear(spec.n_heads * spec.head_dim, dim)
        self.scale = spec.head_dim**-0.5

    def _queries_keys_values(
        self, x_ND: Tensor, tables: RotaryTables
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.wq(x_ND), self.wk(x_ND), self.wv(x_ND)
        if self.spec.qk_norm:
            q, k = self._normed(q, self.q_norm), self._normed(k, self.k_norm)
        split = (tables.num_positions, self.spec.head_dim)
        q_BHTQ, k_BGTQ, v_BGTQ = (split_heads(x, *split) for x in (q, k, v))
        return _rotate_halves(q_BHTQ, tables) * self.scale, _rotate_halves(k_BGTQ, tables), v_BGTQ

    def _normed(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """Normalise each head's dimensions, all heads with the same gain."""
        by_head = x.reshape(*x.shape[:-2], -1, self.spec.head_dim)
        y: Tensor = norm(by_head).view(x.shape)
        return y


def build_attention(model: ModelSpec) -> MLA | GQA:
    """Return the attention layer that ``model`` asks for."""
    match model.attention:
        case MLASpec() as spec:
            return MLA(spec, model)
        case GQASpec() as spec:
            return GQA(spec, model)
        case _ as never:
            assert_never(never)


def _rotate_halves(x_BHTQ: Tensor, tables: RotaryTables) -> Tensor:
    first, second = x_BHTQ.chunk(2, dim=-1)
    return torch.cat(rotate_pairs(first, second, tables), dim=-1)
