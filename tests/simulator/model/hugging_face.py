"""Our weights under the names of Hugging Face `transformers`, and its configs for our specs."""

from typing import Any, TypeVar

from torch import Tensor, nn
from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from simulator.model import Transformer
from simulator.specs.model import GQASpec, MLASpec, ModelSpec, MoESpec, RopeSpec

_Model = TypeVar("_Model", DeepseekV2ForCausalLM, DeepseekV3ForCausalLM)

RENAMED = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn.wq_a": "self_attn.q_a_proj",
    "attn.wq_b": "self_attn.q_b_proj",
    "attn.wkv_a": "self_attn.kv_a_proj_with_mqa",
    "attn.wkv_b": "self_attn.kv_b_proj",
    "attn.wq": "self_attn.q_proj",
    "attn.wk": "self_attn.k_proj",
    "attn.wv": "self_attn.v_proj",
    "attn.wo": "self_attn.o_proj",
    "attn.kv_norm": "self_attn.kv_a_layernorm",
    "attn.k_norm": "self_attn.k_norm",
    "ffn.w2": "mlp.down_proj",
    "ffn.gate": "mlp.gate",
    "ffn.shared_experts.w2": "mlp.shared_experts.down_proj",
}


def v3_model(spec: ModelSpec) -> DeepseekV3ForCausalLM:
    moe = _moe(spec)
    config = DeepseekV3Config(
        **_mla_fields(spec),
        n_group=moe.n_expert_groups,
        topk_group=moe.n_limited_groups,
        norm_topk_prob=moe.norm_topk_prob,
        num_mtp_layers=0,
    )
    return _with_expert_loop(DeepseekV3ForCausalLM(config))


def v2_model(spec: ModelSpec) -> DeepseekV2ForCausalLM:
    moe = _moe(spec)
    is_limited = moe.n_limited_groups < moe.n_expert_groups
    config = DeepseekV2Config(
        **_mla_fields(spec),
        n_group=moe.n_expert_groups,
        topk_group=moe.n_limited_groups,
        topk_method="group_limited_greedy" if is_limited else "greedy",
        norm_topk_prob=False,
    )
    return _with_expert_loop(DeepseekV2ForCausalLM(config))


def _with_expert_loop(model: _Model) -> _Model:
    """Use the loop over experts: independent of the grouped product, and of any size."""
    model.set_experts_implementation("eager")
    return model.eval()


def llama_model(spec: ModelSpec) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(**_dense_fields(spec))).eval()


def qwen3_model(spec: ModelSpec) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM(Qwen3Config(**_dense_fields(spec))).eval()


def copy_weights(ours: Transformer, theirs: nn.Module) -> None:
    """Load our weights; every tensor of theirs must be given and every one of ours used."""
    state: dict[str, Tensor] = {}
    is_latent = isinstance(ours.spec.attention, MLASpec)
    query_norm = "self_attn.q_a_layernorm" if is_latent else "self_attn.q_norm"
    for name, tensor in ours.state_dict().items():
        state |= _translated(name, tensor.detach(), RENAMED | {"attn.q_norm": query_norm})
    if ours.spec.tie_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    theirs.load_state_dict(state, strict=True)


def _translated(name: str, tensor: Tensor, renamed: dict[str, str]) -> dict[str, Tensor]:
    match name:
        case "embed.weight":
            return {"model.embed_tokens.weight": tensor}
        case "norm.weight":
            return {"model.norm.weight": tensor}
        case "head.weight":
            return {"lm_head.weight": tensor}
    _, layer, rest = name.split(".", 2)
    module, kind = rest.rsplit(".", 1)
    prefix = f"model.layers.{layer}."
    if module == "ffn.experts":
        return {f"{prefix}mlp.experts.{'gate_up_proj' if kind == 'w13' else 'down_proj'}": tensor}
    if module.endswith("w13"):
        ffn = module.replace("ffn", "mlp", 1).removesuffix("w13")
        gate, up = tensor.chunk(2)
        return {
            f"{prefix}{ffn}gate_proj.weight": gate,
            f"{prefix}{ffn}up_proj.weight": up,
        }
    if rest == "ffn.gate.bias":
        return {f"{prefix}mlp.gate.e_score_correction_bias": tensor}
    return {f"{prefix}{renamed[module]}.{kind}": tensor}


def _moe(spec: ModelSpec) -> MoESpec:
    assert spec.moe is not None
    return spec.moe


def _mla_fields(spec: ModelSpec) -> dict[str, Any]:
    attention, moe = spec.attention, _moe(spec)
    assert isinstance(attention, MLASpec)
    return _shared_fields(spec) | {
        "moe_intermediate_size": moe.moe_inter_dim,
        "num_key_value_heads": attention.n_heads,
        "n_shared_experts": moe.n_shared_experts,
        "n_routed_experts": moe.n_routed_experts,
        "routed_scaling_factor": moe.route_scale,
        "kv_lora_rank": attention.kv_lora_rank,
        "q_lora_rank": attention.q_lora_rank or None,
        "qk_rope_head_dim": attention.qk_rope_head_dim,
        "v_head_dim": attention.v_head_dim,
        "qk_nope_head_dim": attention.qk_nope_head_dim,
        "num_experts_per_tok": moe.n_activated_experts,
        "first_k_dense_replace": moe.n_dense_layers,
    }


def _dense_fields(spec: ModelSpec) -> dict[str, Any]:
    attention = spec.attention
    assert isinstance(attention, GQASpec)
    return _shared_fields(spec) | {
        "num_key_value_heads": attention.n_kv_heads,
        "head_dim": attention.head_dim,
    }


def _shared_fields(spec: ModelSpec) -> dict[str, Any]:
    return {
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.dim,
        "intermediate_size": spec.inter_dim,
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.attention.n_heads,
        "max_position_embeddings": spec.max_seq_len,
        "rms_norm_eps": spec.norm_eps,
        "tie_word_embeddings": spec.tie_embeddings,
        "rope_parameters": _rope_fields(spec.rope),
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _rope_fields(rope: RopeSpec) -> dict[str, Any]:
    scaling = rope.scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": rope.theta}
    fields: dict[str, Any] = {
        "rope_type": scaling.kind,
        "rope_theta": rope.theta,
        "factor": scaling.factor,
    }
    match scaling.kind:
        case "yarn":
            fields |= {
                "original_max_position_embeddings": scaling.original_max_seq_len,
                "beta_fast": scaling.beta_fast,
                "beta_slow": scaling.beta_slow,
                "mscale": scaling.mscale,
                "mscale_all_dim": scaling.mscale_all_dim,
            }
        case "llama3":
            fields |= {
                "original_max_position_embeddings": scaling.original_max_seq_len,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
            }
    return fields
