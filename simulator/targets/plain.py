"""What the families share, and the dense ones: Llama, Qwen2, Qwen3, and MoEs only counted."""

from typing import Literal

from simulator.specs.errors import SpecError
from simulator.specs.model import AttentionSpec, GQASpec, ModelSpec, MoESpec
from simulator.targets.keys import KeyReader, flag, nullable, real, whole
from simulator.targets.rope import read_rope

__all__ = [
    "MAX_LAYERS",
    "DenseType",
    "PlainMoEType",
    "check_gated_ffn",
    "head_dim_by_width",
    "read_dense",
    "read_model",
    "read_plain_moe",
]

DenseType = Literal["llama", "qwen2", "qwen3"]
PlainMoEType = Literal["mixtral", "qwen3_moe"]

MAX_LAYERS = 10_000
"""Bound on layers, so that a slip does not list tensors for ever."""


def read_model(
    reader: KeyReader,
    attention: AttentionSpec,
    *,
    moe: MoESpec | None = None,
    n_mtp_modules: int = 0,
) -> ModelSpec:
    """Return the model around an attention and a feed-forward already read.

    The initial standard deviation is 1 where the file has none; the caller settles that.
    """
    return ModelSpec(
        vocab_size=reader.structure("vocab_size", whole()),
        dim=reader.structure("hidden_size", whole()),
        inter_dim=reader.structure("intermediate_size", whole()),
        n_layers=reader.structure("num_hidden_layers", whole(maximum=MAX_LAYERS)),
        attention=attention,
        moe=moe,
        n_mtp_modules=n_mtp_modules,
        rope=read_rope(reader),
        norm_eps=reader.behaviour("rms_norm_eps", real(), 1.0),
        tie_embeddings=reader.default(
            "tie_word_embeddings", flag, value=False, why="the family's own default"
        ),
        init_std=reader.behaviour("initializer_range", real(1e-9), 1.0),
        max_seq_len=reader.behaviour("max_position_embeddings", whole(), 1),
    )


def check_gated_ffn(reader: KeyReader) -> None:
    """Refuse biases in the feed-forward, and remember an activation that is not SwiGLU's."""
    reader.refuse_if("mlp_bias", "feed-forward biases of this family are not counted")
    activation = reader.values.get("hidden_act")
    if activation is None:
        reader.notes.append(f"{reader.path}.hidden_act is not given: taken as SwiGLU's 'silu'.")
    elif activation != "silu":
        reader.unsupported.append(f"{reader.path}.hidden_act {activation!r} is not built.")


def head_dim_by_width(reader: KeyReader) -> int:
    """Return the head dimension, by the family's definition width / heads where it is not given.

    Raises
    ------
    SpecError
        If the number of heads does not divide the width and no head dimension is given.
    """
    dim = reader.structure("hidden_size", whole())
    heads = reader.structure("num_attention_heads", whole())
    if reader.has("head_dim"):
        return reader.structure("head_dim", whole())
    if dim % heads:
        raise SpecError(
            f"{reader.path}.num_attention_heads",
            f"must divide the width ({dim}) where head_dim is not given",
            heads,
            "Add head_dim.",
        )
    return dim // heads


def read_dense(reader: KeyReader, model_type: DenseType) -> ModelSpec:
    """Return the model of a dense configuration of the Llama or Qwen kind.

    Raises
    ------
    SpecError
        For a missing key the tensors depend on, or a value that does not pass.
    """
    check_gated_ffn(reader)
    reader.refuse_if("attention_bias", "a bias on the output projection is not counted")
    _note_sliding_window(reader, model_type)
    return read_model(reader, _grouped_query(reader, model_type))


def read_plain_moe(reader: KeyReader, model_type: PlainMoEType) -> ModelSpec:
    """Return the model of a Mixtral or Qwen3-MoE configuration, for counting.

    Raises
    ------
    SpecError
        As :func:`read_dense`; also where only some layers have experts.
    """
    check_gated_ffn(reader)
    reader.refuse_if("attention_bias", "a bias on the output projection is not counted")
    width_key = "intermediate_size"
    if model_type == "qwen3_moe":
        width_key = "moe_intermediate_size"
        _check_all_layers_moe(reader)
    experts = reader.structure("n_routed_experts", whole(maximum=100_000))
    moe = MoESpec(
        n_routed_experts=experts,
        n_activated_experts=reader.structure("num_experts_per_tok", whole(maximum=experts)),
        n_shared_experts=0,
        moe_inter_dim=reader.structure(width_key, whole()),
        n_dense_layers=0,
        score_func="softmax",
        route_scale=1.0,
        norm_topk_prob=model_type == "mixtral"
        or reader.behaviour("norm_topk_prob", flag, placeholder=False),
        balance="aux_loss",
        aux_loss_alpha=reader.behaviour("router_aux_loss_coef", real(), 0.0),
        seq_aux=False,
    )
    return read_model(reader, _grouped_query(reader, model_type), moe=moe)


def _grouped_query(reader: KeyReader, model_type: DenseType | PlainMoEType) -> GQASpec:
    is_qwen3 = model_type in ("qwen3", "qwen3_moe")
    heads = reader.structure("num_attention_heads", whole())
    kv_heads = reader.structure("num_key_value_heads", nullable(whole()))
    return GQASpec(
        n_heads=heads,
        n_kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=reader.structure("head_dim", whole()) if is_qwen3 else head_dim_by_width(reader),
        qkv_bias=model_type == "qwen2",
        qk_norm=is_qwen3,
    )


def _note_sliding_window(reader: KeyReader, model_type: DenseType) -> None:
    if model_type == "llama" or not reader.has("use_sliding_window"):
        return
    if reader.structure("use_sliding_window", flag):
        reader.notes.append("The sliding window is left out: the proxy attends to all positions.")


def _check_all_layers_moe(reader: KeyReader) -> None:
    """Qwen3-MoE may keep dense layers anywhere; only the published all-MoE form is counted."""
    step = reader.structure("decoder_sparse_step", whole())
    dense = reader.values.get("mlp_only_layers")
    if step != 1 or dense:
        raise SpecError(
            f"{reader.path}.mlp_only_layers",
            "must be empty, with decoder_sparse_step 1: mixed layers are not counted",
            (dense, step),
            "This variant cannot be counted.",
        )
