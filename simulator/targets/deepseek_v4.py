"""DeepSeek-V4, counted and never trained: compressed attention and hyper-connections.

The main model is counted. Its multi-token-prediction module is not part of the implementation
this list follows and is left out, with a note.

References
----------
``DeepseekV4ForCausalLM`` of Hugging Face transformers 5.24, whose parameters this list equals.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.counting.tensors import TensorInfo, TensorPart, TensorScope
from simulator.specs.errors import SpecError
from simulator.targets.keys import KeyReader, flag, items, whole, word
from simulator.targets.plain import MAX_LAYERS

__all__ = ["deepseek_v4_tensors"]

_SLIDING, _CSA, _HCA = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
_TYPE_OF_RATIO = {0: _SLIDING, 4: _CSA, 128: _HCA}
"""Compression of the keys of a layer, as ``compress_ratios`` writes it."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    dim: int
    heads: int
    head_dim: int
    q_rank: int
    o_groups: int
    o_rank: int
    index_heads: int
    index_dim: int
    streams: int
    experts: int
    active: int
    hidden: int
    csa_rate: int
    hca_rate: int


def deepseek_v4_tensors(reader: KeyReader) -> Iterator[TensorInfo]:
    """List DeepSeek-V4's tensors without multi-token prediction.

    Raises
    ------
    SpecError
        For a missing key the tensors depend on, a value that does not pass, or a part that is not
        counted.
    """
    _refuse_unknown_parts(reader)
    sizes = _sizes(reader)
    table = (reader.structure("vocab_size", whole()), sizes.dim)
    top = TensorScope()
    yield top.embedding("embed.weight", table)
    for layer, layer_type in enumerate(_layer_types(reader)):
        scope = TensorScope(prefix=f"layers.{layer}", layer=layer)
        yield from _attention(scope, sizes, layer_type)
        yield from _experts(scope, sizes)
        yield scope.vector("attn_norm.weight", sizes.dim, part="norm")
        yield scope.vector("ffn_norm.weight", sizes.dim, part="norm")
        mixing = (2 + sizes.streams) * sizes.streams
        for name in ("attn_hc", "ffn_hc"):
            yield from _hyper_connection(scope, name, mixing, 3, sizes)
    yield top.vector("norm.weight", sizes.dim, part="norm")
    yield from _hyper_connection(top, "hc_head", sizes.streams, 1, sizes)
    why = "DeepSeek-V4 has an untied head"
    if not reader.default("tie_word_embeddings", flag, value=False, why=why):
        yield top.matrix("head.weight", table, kind="head", part="head")
    reader.notes.append("DeepSeek-V4's multi-token-prediction module is not counted.")


def _refuse_unknown_parts(reader: KeyReader) -> None:
    reader.refuse_if("attention_bias", "attention biases of this family are not counted")
    reader.refuse_if("mlp_bias", "feed-forward biases of this family are not counted")
    if reader.values.get("engram_layer_ids"):
        raise SpecError(
            f"{reader.path}.engram_layer_ids",
            "must be empty: the engram memory of DeepSeek-V4.1 is not supported",
            reader.values["engram_layer_ids"],
            "This variant cannot be counted.",
        )
    shared = reader.structure("n_shared_experts", whole())
    if shared != 1:
        raise SpecError(
            f"{reader.path}.n_shared_experts",
            "must be 1 in this family",
            shared,
            "This variant cannot be counted.",
        )


def _sizes(reader: KeyReader) -> _Sizes:
    experts = reader.structure("n_routed_experts", whole())
    csa_rate, hca_rate = _rates(reader)
    return _Sizes(
        dim=reader.structure("hidden_size", whole()),
        heads=reader.structure("num_attention_heads", whole()),
        head_dim=reader.structure("head_dim", whole()),
        q_rank=reader.structure("q_lora_rank", whole()),
        o_groups=reader.structure("o_groups", whole()),
        o_rank=reader.structure("o_lora_rank", whole()),
        index_heads=reader.structure("index_n_heads", whole()),
        index_dim=reader.structure("index_head_dim", whole()),
        streams=reader.structure("hc_mult", whole()),
        experts=experts,
        active=reader.structure("num_experts_per_tok", whole(maximum=experts)),
        hidden=reader.structure("moe_intermediate_size", whole()),
        csa_rate=csa_rate,
        hca_rate=hca_rate,
    )


def _rates(reader: KeyReader) -> tuple[int, int]:
    """Return the two compression rates; older files fix them through ``compress_ratios``."""
    table = reader.child("compress_rates")
    if table is None:
        reader.structure("compress_ratios", items(0, whole(0)))
        return 4, 128
    return table.structure(_CSA, whole()), table.structure(_HCA, whole())


def _layer_types(reader: KeyReader) -> tuple[str, ...]:
    num_layers = reader.structure("num_hidden_layers", whole(maximum=MAX_LAYERS))
    if reader.has("layer_types") or not reader.has("compress_ratios"):
        return reader.structure("layer_types", items(num_layers, word((_SLIDING, _CSA, _HCA))))
    ratios = reader.structure("compress_ratios", items(num_layers, word(tuple(_TYPE_OF_RATIO))))
    return tuple(_TYPE_OF_RATIO[ratio] for ratio in ratios)


def _attention(scope: TensorScope, sizes: _Sizes, layer_type: str) -> Iterator[TensorInfo]:
    inner = sizes.heads * sizes.head_dim
    grouped = sizes.o_groups * sizes.o_rank
    yield scope.matrix("attn.wq_a.weight", (sizes.q_rank, sizes.dim), part="attention")
    yield scope.vector("attn.q_norm.weight", sizes.q_rank, part="attention")
    yield scope.matrix("attn.wq_b.weight", (inner, sizes.q_rank), part="attention")
    yield scope.matrix("attn.wkv.weight", (sizes.head_dim, sizes.dim), part="attention")
    yield scope.vector("attn.kv_norm.weight", sizes.head_dim, part="attention")
    yield scope.matrix("attn.wo_a.weight", (grouped, inner // sizes.o_groups), part="attention")
    yield scope.matrix("attn.wo_b.weight", (sizes.dim, grouped), part="attention")
    yield scope.vector("attn.sinks", sizes.heads, part="attention", kind="bias")
    if layer_type == _HCA:
        yield from _compressor(scope, "attn.compressor", sizes, 1, sizes.head_dim, sizes.hca_rate)
    if layer_type == _CSA:
        yield from _compressor(scope, "attn.compressor", sizes, 2, sizes.head_dim, sizes.csa_rate)
        yield from _indexer(scope, sizes)


def _compressor(
    scope: TensorScope, name: str, sizes: _Sizes, overlap: int, head_dim: int, rate: int
) -> Iterator[TensorInfo]:
    part: TensorPart = "indexer" if ".indexer" in name else "attention"
    rows = overlap * head_dim
    yield scope.matrix(f"{name}.wkv.weight", (rows, sizes.dim), part=part)
    yield scope.matrix(f"{name}.wgate.weight", (rows, sizes.dim), part=part)
    yield scope.vector(f"{name}.position_bias", rate * rows, part=part, kind="bias")
    yield scope.vector(f"{name}.norm.weight", head_dim, part=part)


def _indexer(scope: TensorScope, sizes: _Sizes) -> Iterator[TensorInfo]:
    name = "attn.indexer"
    query = (sizes.index_heads * sizes.index_dim, sizes.q_rank)
    yield from _compressor(scope, f"{name}.compressor", sizes, 2, sizes.index_dim, sizes.csa_rate)
    yield scope.matrix(f"{name}.wq_b.weight", query, part="indexer")
    weights = (sizes.index_heads, sizes.dim)
    yield scope.matrix(f"{name}.weights_proj.weight", weights, part="indexer")


def _experts(scope: TensorScope, sizes: _Sizes) -> Iterator[TensorInfo]:
    router = (sizes.experts, sizes.dim)
    yield scope.matrix("ffn.gate.weight", router, kind="router", part="router")
    for name, rows, columns in (
        ("w13", 2 * sizes.hidden, sizes.dim),
        ("w2", sizes.dim, sizes.hidden),
    ):
        stack = (sizes.experts, rows, columns)
        yield scope.matrix(
            f"ffn.experts.{name}", stack, part="routed_experts", num_active=sizes.active
        )
        yield scope.matrix(
            f"ffn.shared_experts.{name}.weight", (rows, columns), part="shared_experts"
        )


def _hyper_connection(
    scope: TensorScope, name: str, mixing: int, num_scales: int, sizes: _Sizes
) -> Iterator[TensorInfo]:
    yield scope.matrix(f"{name}.fn", (mixing, sizes.streams * sizes.dim), part="hyper_connections")
    yield scope.vector(f"{name}.base", mixing, part="hyper_connections", kind="bias")
    yield scope.vector(f"{name}.scale", num_scales, part="hyper_connections")
