"""DeepSeek's families: V1 MoE, V2, V3, R1, V3.1, V3.2, and Kimi-K2, which follows V3."""

from typing import Literal

from simulator.specs.model import AttentionSpec, GQASpec, IndexerSpec, MLASpec, ModelSpec, MoESpec
from simulator.targets.keys import KeyReader, flag, nullable, real, whole, word
from simulator.targets.plain import check_gated_ffn, head_dim_by_width, read_model

__all__ = ["DeepSeekType", "read_deepseek"]

DeepSeekType = Literal["deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"]

_Score = Literal["sigmoid", "softmax"]
_Method = Literal["noaux_tc", "group_limited_greedy", "greedy"]
_SCORES: tuple[_Score, ...] = ("sigmoid", "softmax")
_METHODS: tuple[_Method, ...] = ("noaux_tc", "group_limited_greedy", "greedy")
_V2_SCORE = "the only score of this family, arXiv 2401.06066 and 2405.04434"
_V3_ROUTING = "the only routing of this family, arXiv 2412.19437, section 2.1.2"


def read_deepseek(reader: KeyReader, model_type: DeepSeekType) -> ModelSpec:
    """Return the model of a configuration of one of DeepSeek's families.

    Raises
    ------
    SpecError
        For a missing key the tensors depend on, or a value that does not pass.
    """
    check_gated_ffn(reader)
    reader.refuse_if("attention_bias", "attention biases of this family are not counted")
    attention: AttentionSpec
    if model_type == "deepseek":
        attention = _multi_head(reader)
    else:
        attention = _latent(reader, with_indexer=model_type == "deepseek_v32")
    moe = _moe(reader, model_type)
    modules = 0
    if model_type in ("deepseek_v3", "deepseek_v32", "kimi_k2"):
        why = "no multi-token prediction; the published DeepSeek-V3 has 1 module"
        modules = reader.default("num_nextn_predict_layers", whole(0, 64), 0, why)
    return read_model(reader, attention, moe=moe, n_mtp_modules=modules)


def _multi_head(reader: KeyReader) -> GQASpec:
    return GQASpec(
        n_heads=reader.structure("num_attention_heads", whole()),
        n_kv_heads=reader.structure("num_key_value_heads", whole()),
        head_dim=head_dim_by_width(reader),
    )


def _latent(reader: KeyReader, *, with_indexer: bool) -> MLASpec:
    indexer = None
    if with_indexer:
        indexer = IndexerSpec(
            n_heads=reader.structure("index_n_heads", whole()),
            head_dim=reader.structure("index_head_dim", whole()),
            top_k=reader.structure("index_topk", whole()),
        )
        reader.notes.append(
            "The sparse-attention indexer is counted; the proxy trains dense attention without it."
        )
    return MLASpec(
        n_heads=reader.structure("num_attention_heads", whole()),
        q_lora_rank=reader.structure("q_lora_rank", nullable(whole(0))) or 0,
        kv_lora_rank=reader.structure("kv_lora_rank", whole()),
        qk_nope_head_dim=reader.structure("qk_nope_head_dim", whole()),
        qk_rope_head_dim=reader.structure("qk_rope_head_dim", whole()),
        v_head_dim=reader.structure("v_head_dim", whole()),
        indexer=indexer,
    )


def _moe(reader: KeyReader, model_type: DeepSeekType) -> MoESpec:
    method, score = _routing(reader, model_type)
    experts = reader.structure("n_routed_experts", whole(maximum=100_000))
    groups, limited = (1, 1) if method == "greedy" else _groups(reader)
    alpha, seq_aux = _balance_loss(reader, method)
    without_bias: Literal["aux_loss", "none"] = "aux_loss" if alpha else "none"
    return MoESpec(
        n_routed_experts=experts,
        n_activated_experts=reader.structure("num_experts_per_tok", whole(maximum=experts)),
        n_shared_experts=reader.structure("n_shared_experts", nullable(whole(0))) or 0,
        moe_inter_dim=reader.structure("moe_intermediate_size", whole()),
        n_dense_layers=reader.structure("first_k_dense_replace", whole(0)),
        moe_layer_freq=reader.default("moe_layer_freq", whole(), 1, "every layer"),
        score_func=score,
        route_scale=_route_scale(reader, model_type),
        norm_topk_prob=reader.behaviour("norm_topk_prob", flag, placeholder=False),
        n_expert_groups=groups,
        n_limited_groups=limited,
        group_score="top2_sum" if method == "noaux_tc" else "max",
        balance="bias" if method == "noaux_tc" else without_bias,
        aux_loss_alpha=alpha,
        seq_aux=seq_aux,
    )


def _routing(reader: KeyReader, model_type: DeepSeekType) -> tuple[_Method, _Score]:
    """Return how experts are chosen and scored; V2's files must say, V3's family has one way."""
    method: _Method = "greedy"
    score: _Score = "softmax"
    match model_type:
        case "deepseek_v3" | "deepseek_v32" | "kimi_k2":
            method = reader.default("topk_method", word(_METHODS), "noaux_tc", _V3_ROUTING)
            score = reader.default("scoring_func", word(_SCORES), "sigmoid", _V3_ROUTING)
        case "deepseek_v2":
            method = reader.behaviour("topk_method", word(_METHODS), method)
            score = reader.default("scoring_func", word(_SCORES), score, _V2_SCORE)
        case "deepseek":
            score = reader.default("scoring_func", word(_SCORES), score, _V2_SCORE)
    return method, score


def _groups(reader: KeyReader) -> tuple[int, int]:
    """Return the expert groups and how many a token may use; 1 and 1 unless both are given."""
    groups = reader.behaviour("n_group", whole(), 1)
    limited = reader.behaviour("topk_group", whole(), 1)
    is_complete = reader.has("n_group") and reader.has("topk_group")
    return (groups, limited) if is_complete else (1, 1)


def _route_scale(reader: KeyReader, model_type: DeepSeekType) -> float:
    """V1 has no routed scaling factor (arXiv 2401.06066, section 3)."""
    if model_type == "deepseek" and not reader.has("routed_scaling_factor"):
        return 1.0
    return reader.behaviour("routed_scaling_factor", real(), 1.0)


def _balance_loss(reader: KeyReader, method: _Method) -> tuple[float, bool]:
    """Return weight and form of the balance loss; a recipe may settle the weight later."""
    if method == "noaux_tc":
        why = "bias balancing alone; DeepSeek-V3 adds a sequence-wise loss of weight 0.0001"
        alpha = reader.default("aux_loss_alpha", real(), 0.0, why)
    else:
        alpha = reader.behaviour("aux_loss_alpha", real(), 0.0)
    if not alpha:
        return alpha, True
    why = "the sequence-wise loss of arXiv 2412.19437, equation 17"
    return alpha, reader.default("seq_aux", flag, value=True, why=why)
