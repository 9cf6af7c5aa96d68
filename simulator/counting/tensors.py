"""Every trainable tensor of a model, in the order and under the names the built model has.

Nothing here imports torch: the per-tensor table of learning rates, the parameter count and the
memory estimate all start from this list, and a test holds it equal to the built model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal, assert_never

from simulator.specs.model import GQASpec, MLASpec, ModelSpec, MoESpec

__all__ = ["TensorInfo", "TensorKind", "TensorPart", "TensorScope", "list_tensors"]

TensorKind = Literal["embedding", "matrix", "router", "head", "gain", "bias"]
"""What the parametrisation needs to know: how the tensor enters the forward pass."""

TensorPart = Literal[
    "embedding",
    "attention",
    "dense_ffn",
    "shared_experts",
    "routed_experts",
    "router",
    "norm",
    "indexer",
    "mtp_projection",
    "hyper_connections",
    "head",
]
"""What the tensor belongs to; norms inside attention belong to ``attention``.

``hyper_connections`` exist in DeepSeek-V4 only, which is counted and not trained.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One trainable tensor."""

    name: str
    """As in ``named_parameters()`` of the built model."""
    shape: tuple[int, ...]
    kind: TensorKind
    part: TensorPart
    layer: int | None = None
    """Main layer, or multi-token-prediction module when ``is_mtp``; null outside of both."""
    fan_in: int = 1
    """Input units summed into one output unit; 1 for look-ups, gains and biases."""
    num_stacked: int = 1
    """Independent matrices along the first dimension (the experts)."""
    num_active: int = 1
    """How many of those one token uses."""
    is_mtp: bool = False
    """Belongs to a multi-token-prediction module, not to the main model."""
    num_blocks: int = 1
    """Equal blocks of output rows (the heads), each of which holds rows of every fused matrix."""
    fused: tuple[int, ...] = ()
    """Rows of each matrix within a block, in their order; empty where the tensor is one matrix."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return prod(self.shape)

    @property
    def active_size(self) -> int:
        """Number of parameters one token uses."""
        return self.size // self.num_stacked * self.num_active

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Shapes ``(out, in)`` of the hidden matrices fused in one tensor of a stack.

        Rows belong to one matrix if they serve one purpose: gate or up projection, latent or
        rotated part, keys or values. Empty for tensors of other kinds.
        """
        if self.kind != "matrix":
            return ()
        rows = self.fused or (self.shape[-2] // self.num_blocks,)
        return tuple((self.num_blocks * count, self.shape[-1]) for count in rows)

    @property
    def role(self) -> str:
        """Return the name without the layer's index: equal for the same tensor of any layer."""
        return ".".join(word for word in self.name.split(".") if not word.isdigit())


def list_tensors(model: ModelSpec) -> tuple[TensorInfo, ...]:
    """List the trainable tensors of ``model`` in the order of ``named_parameters()``.

    Multi-token-prediction modules come last and are marked ``is_mtp``; embedding and head, which
    they share with the main model, are listed once. Buffers (the balance bias, rotary tables)
    are not parameters and are not listed. A sparse-attention indexer is listed although no model
    of ours trains it.
    """
    return tuple(_tensors(model))


def _tensors(model: ModelSpec) -> Iterator[TensorInfo]:
    table = (model.vocab_size, model.dim)
    top = TensorScope()
    yield top.embedding("embed.weight", table)
    for layer in range(model.n_layers):
        scope = TensorScope(prefix=f"layers.{layer}", layer=layer)
        yield from _block_tensors(scope, model, is_moe=model.is_moe_layer(layer))
    yield top.vector("norm.weight", model.dim, part="norm")
    if not model.tie_embeddings:
        yield top.matrix("head.weight", table, kind="head", part="head")
    for module in range(model.n_mtp_modules):
        yield from _mtp_tensors(model, module)


@dataclass(frozen=True, slots=True)
class TensorScope:
    """Names and labels the tensors of one layer, or of the model outside of its layers."""

    prefix: str = ""
    layer: int | None = None
    is_mtp: bool = False

    def matrix(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        part: TensorPart,
        kind: TensorKind = "matrix",
        num_active: int = 1,
        num_blocks: int = 1,
        fused: tuple[int, ...] = (),
    ) -> TensorInfo:
        """Return a tensor ``[out, in]``, or ``[stack, out, in]`` of which some are active."""
        return TensorInfo(
            name=self._full(name),
            shape=shape,
            kind=kind,
            part=part,
            layer=self.layer,
            fan_in=shape[-1],
            num_stacked=shape[0] if len(shape) == 3 else 1,
            num_active=num_active,
            is_mtp=self.is_mtp,
            num_blocks=num_blocks,
            fused=tuple(rows for rows in fused if rows),
        )

    def embedding(self, name: str, shape: tuple[int, int]) -> TensorInfo:
        """Return a look-up table ``[entries, dim]``."""
        return TensorInfo(name=self._full(name), shape=shape, kind="embedding", part="embedding")

    def vector(
        self,
        name: str,
        *shape: int,
        part: TensorPart,
        kind: Literal["gain", "bias"] = "gain",
        num_active: int = 1,
    ) -> TensorInfo:
        """Return a vector ``[dim]``, or ``[stack, dim]``, that scales or is added."""
        return TensorInfo(
            name=self._full(name),
            shape=shape,
            kind=kind,
            part=part,
            layer=self.layer,
            num_stacked=shape[0] if len(shape) == 2 else 1,
            num_active=num_active,
            is_mtp=self.is_mtp,
        )

    def _full(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name


def _mtp_tensors(model: ModelSpec, module: int) -> Iterator[TensorInfo]:
    outer = TensorScope(prefix=f"mtp.{module}", layer=module, is_mtp=True)
    inner = TensorScope(prefix=f"mtp.{module}.block", layer=module, is_mtp=True)
    yield outer.vector("embed_norm.weight", model.dim, part="norm")
    yield outer.vector("hidden_norm.weight", model.dim, part="norm")
    yield outer.matrix("proj.weight", (model.dim, 2 * model.dim), part="mtp_projection")
    yield from _block_tensors(inner, model, is_moe=model.is_mtp_block_moe)
    yield outer.vector("norm.weight", model.dim, part="norm")


def _block_tensors(scope: TensorScope, model: ModelSpec, *, is_moe: bool) -> Iterator[TensorInfo]:
    yield scope.vector("attn_norm.weight", model.dim, part="norm")
    match model.attention:
        case MLASpec() as attention:
            yield from _mla_tensors(scope, attention, model.dim)
        case GQASpec() as attention:
            yield from _gqa_tensors(scope, attention, model.dim)
        case _ as never:
            assert_never(never)
    yield scope.vector("ffn_norm.weight", model.dim, part="norm")
    if is_moe and model.moe is not None:
        yield from _moe_tensors(scope, model.moe, model.dim)
    else:
        yield from _ffn_tensors(scope, "ffn", model.inter_dim, model.dim, part="dense_ffn")


def _mla_tensors(scope: TensorScope, attention: MLASpec, dim: int) -> Iterator[TensorInfo]:
    heads, rank = attention.n_heads, attention.q_lora_rank
    nope, rope, value = attention.qk_nope_head_dim, attention.qk_rope_head_dim, attention.v_head_dim
    name, query_in = ("wq_b", rank) if rank else ("wq", dim)
    if rank:
        yield scope.matrix("attn.wq_a.weight", (rank, dim), part="attention")
        yield scope.vector("attn.q_norm.weight", rank, part="attention")
    yield scope.matrix(
        f"attn.{name}.weight",
        (heads * (nope + rope), query_in),
        part="attention",
        num_blocks=heads,
        fused=(nope, rope),
    )
    latent = attention.kv_lora_rank
    yield scope.matrix(
        "attn.wkv_a.weight", (latent + rope, dim), part="attention", fused=(latent, rope)
    )
    yield scope.vector("attn.kv_norm.weight", latent, part="attention")
    yield scope.matrix(
        "attn.wkv_b.weight",
        (heads * (nope + value), latent),
        part="attention",
        num_blocks=heads,
        fused=(nope, value),
    )
    yield scope.matrix("attn.wo.weight", (dim, heads * value), part="attention")
    yield from _indexer_tensors(scope, attention, dim)


def _indexer_tensors(scope: TensorScope, attention: MLASpec, dim: int) -> Iterator[TensorInfo]:
    """DeepSeek-V3.2-Exp inference/model.py, class Indexer; the key norm has a bias."""
    indexer = attention.indexer
    if indexer is None:
        return
    heads, head_dim = indexer.n_heads, indexer.head_dim
    query = (heads * head_dim, attention.q_lora_rank or dim)
    yield scope.matrix("attn.indexer.wq_b.weight", query, part="indexer")
    yield scope.matrix("attn.indexer.wk.weight", (head_dim, dim), part="indexer")
    yield scope.vector("attn.indexer.k_norm.weight", head_dim, part="indexer")
    yield scope.vector("attn.indexer.k_norm.bias", head_dim, part="indexer", kind="bias")
    yield scope.matrix("attn.indexer.weights_proj.weight", (heads, dim), part="indexer")


def _gqa_tensors(scope: TensorScope, attention: GQASpec, dim: int) -> Iterator[TensorInfo]:
    query_dim = attention.n_heads * attention.head_dim
    kv_dim = attention.n_kv_heads * attention.head_dim
    for name, out in (("wq", query_dim), ("wk", kv_dim), ("wv", kv_dim)):
        yield scope.matrix(f"attn.{name}.weight", (out, dim), part="attention")
        if attention.qkv_bias:
            yield scope.vector(f"attn.{name}.bias", out, part="attention", kind="bias")
    if attention.qk_norm:
        yield scope.vector("attn.q_norm.weight", attention.head_dim, part="attention")
        yield scope.vector("attn.k_norm.weight", attention.head_dim, part="attention")
    yield scope.matrix("attn.wo.weight", (dim, query_dim), part="attention")


def _ffn_tensors(
    scope: TensorScope, name: str, hidden: int, dim: int, *, part: TensorPart
) -> Iterator[TensorInfo]:
    """Gate and up projection are one tensor, the gate's rows first."""
    fused = (hidden, hidden)
    yield scope.matrix(f"{name}.w13.weight", (2 * hidden, dim), part=part, fused=fused)
    yield scope.matrix(f"{name}.w2.weight", (dim, hidden), part=part)


def _moe_tensors(scope: TensorScope, moe: MoESpec, dim: int) -> Iterator[TensorInfo]:
    experts, hidden, active = moe.n_routed_experts, moe.moe_inter_dim, moe.n_activated_experts
    yield scope.matrix("ffn.gate.weight", (experts, dim), kind="router", part="router")
    yield scope.matrix(
        "ffn.experts.w13",
        (experts, 2 * hidden, dim),
        part="routed_experts",
        num_active=active,
        fused=(hidden, hidden),
    )
    w2 = (experts, dim, hidden)
    yield scope.matrix("ffn.experts.w2", w2, part="routed_experts", num_active=active)
    if moe.n_shared_experts:
        shared = moe.n_shared_experts * hidden
        yield from _ffn_tensors(scope, "ffn.shared_experts", shared, dim, part="shared_experts")
