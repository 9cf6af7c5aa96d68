"""Families that are counted and never trained: GPT-2 and gpt-oss, tensor by tensor.

References
----------
``GPT2LMHeadModel`` and ``GptOssForCausalLM`` of Hugging Face transformers.
"""

from collections.abc import Iterator

from simulator.counting.tensors import TensorInfo, TensorScope
from simulator.targets.keys import KeyReader, flag, nullable, whole
from simulator.targets.plain import MAX_LAYERS

__all__ = ["gpt2_tensors", "gpt_oss_tensors"]


def gpt2_tensors(reader: KeyReader) -> Iterator[TensorInfo]:
    """List GPT-2's tensors; positions are learned and the head is tied.

    Raises
    ------
    SpecError
        For a missing key the tensors depend on, or a value that does not pass.
    """
    dim = reader.structure("hidden_size", whole())
    vocab = reader.structure("vocab_size", whole())
    positions = reader.structure("n_positions", whole())
    num_layers = reader.structure("num_hidden_layers", whole(maximum=MAX_LAYERS))
    inner = 4 * dim
    if reader.has("n_inner"):
        inner = reader.structure("n_inner", whole())
    top = TensorScope()
    yield top.embedding("wte.weight", (vocab, dim))
    yield top.embedding("wpe.weight", (positions, dim))
    for layer in range(num_layers):
        yield from _gpt2_layer(TensorScope(prefix=f"h.{layer}", layer=layer), dim, inner)
    yield from _layer_norm(top, "ln_f", dim)
    is_tied = reader.default("tie_word_embeddings", flag, value=True, why="GPT-2 ties its head")
    if not is_tied:
        yield top.matrix("lm_head.weight", (vocab, dim), kind="head", part="head")


def _gpt2_layer(scope: TensorScope, dim: int, inner: int) -> Iterator[TensorInfo]:
    yield from _layer_norm(scope, "ln_1", dim)
    for name, shape in (("attn.c_attn", (3 * dim, dim)), ("attn.c_proj", (dim, dim))):
        yield scope.matrix(f"{name}.weight", shape, part="attention")
        yield scope.vector(f"{name}.bias", shape[0], part="attention", kind="bias")
    yield from _layer_norm(scope, "ln_2", dim)
    for name, shape in (("mlp.c_fc", (inner, dim)), ("mlp.c_proj", (dim, inner))):
        yield scope.matrix(f"{name}.weight", shape, part="dense_ffn")
        yield scope.vector(f"{name}.bias", shape[0], part="dense_ffn", kind="bias")


def _layer_norm(scope: TensorScope, name: str, dim: int) -> Iterator[TensorInfo]:
    yield scope.vector(f"{name}.weight", dim, part="norm")
    yield scope.vector(f"{name}.bias", dim, part="norm", kind="bias")


def gpt_oss_tensors(reader: KeyReader) -> Iterator[TensorInfo]:
    """List gpt-oss's tensors: attention sinks, and biases in attention, router and experts.

    Raises
    ------
    SpecError
        For a missing key the tensors depend on, or a value that does not pass.
    """
    dim = reader.structure("hidden_size", whole())
    vocab = reader.structure("vocab_size", whole())
    num_layers = reader.structure("num_hidden_layers", whole(maximum=MAX_LAYERS))
    top = TensorScope()
    yield top.embedding("embed.weight", (vocab, dim))
    for layer in range(num_layers):
        scope = TensorScope(prefix=f"layers.{layer}", layer=layer)
        yield scope.vector("attn_norm.weight", dim, part="norm")
        yield from _gpt_oss_attention(scope, reader, dim)
        yield scope.vector("ffn_norm.weight", dim, part="norm")
        yield from _gpt_oss_experts(scope, reader, dim)
    yield top.vector("norm.weight", dim, part="norm")
    why = "gpt-oss has an untied head"
    if not reader.default("tie_word_embeddings", flag, value=False, why=why):
        yield top.matrix("head.weight", (vocab, dim), kind="head", part="head")


def _gpt_oss_attention(scope: TensorScope, reader: KeyReader, dim: int) -> Iterator[TensorInfo]:
    heads = reader.structure("num_attention_heads", whole())
    kv_heads = reader.structure("num_key_value_heads", nullable(whole())) or heads
    head_dim = reader.structure("head_dim", whole())
    has_bias = reader.structure("attention_bias", flag)
    query, key = (heads * head_dim, dim), (kv_heads * head_dim, dim)
    shapes = (("wq", query), ("wk", key), ("wv", key), ("wo", (dim, heads * head_dim)))
    for name, shape in shapes:
        yield scope.matrix(f"attn.{name}.weight", shape, part="attention")
        if has_bias:
            yield scope.vector(f"attn.{name}.bias", shape[0], part="attention", kind="bias")
    yield scope.vector("attn.sinks", heads, part="attention", kind="bias")


def _gpt_oss_experts(scope: TensorScope, reader: KeyReader, dim: int) -> Iterator[TensorInfo]:
    experts = reader.structure("n_routed_experts", whole())
    active = reader.structure("num_experts_per_tok", whole(maximum=experts))
    hidden = reader.structure("intermediate_size", whole())
    yield scope.matrix("ffn.gate.weight", (experts, dim), kind="router", part="router")
    yield scope.vector("ffn.gate.bias", experts, part="router", kind="bias")
    for name, rows, columns in (("w13", 2 * hidden, dim), ("w2", dim, hidden)):
        yield scope.matrix(
            f"ffn.experts.{name}",
            (experts, rows, columns),
            part="routed_experts",
            num_active=active,
        )
        yield scope.vector(
            f"ffn.experts.{name}_bias",
            experts,
            rows,
            part="routed_experts",
            kind="bias",
            num_active=active,
        )
