"""Configurations of the families, and what is read from them."""

from typing import Any

from simulator.specs.model import GQASpec, MLASpec, MoESpec
from simulator.targets.reader import read_config
from simulator.targets.target import Target

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
V3: dict[str, Any] = LLAMA | {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "moe_intermediate_size": 32,
    "moe_layer_freq": 1,
    "n_group": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 2,
    "topk_method": "noaux_tc",
    "v_head_dim": 8,
    "aux_loss_alpha": 0.0001,
    "seq_aux": True,
}
V2: dict[str, Any] = V3 | {
    "model_type": "deepseek_v2",
    "scoring_func": "softmax",
    "topk_method": "group_limited_greedy",
    "norm_topk_prob": False,
}
INFERENCE: dict[str, Any] = {
    "vocab_size": 129280,
    "dim": 7168,
    "inter_dim": 18432,
    "moe_inter_dim": 2048,
    "n_layers": 61,
    "n_dense_layers": 3,
    "n_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "n_activated_experts": 8,
    "n_expert_groups": 8,
    "n_limited_groups": 4,
    "route_scale": 2.5,
    "score_func": "sigmoid",
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "dtype": "fp8",
}
INFERENCE_16B: dict[str, Any] = {
    "vocab_size": 102400,
    "dim": 2048,
    "inter_dim": 10944,
    "moe_inter_dim": 1408,
    "n_layers": 27,
    "n_dense_layers": 1,
    "n_heads": 16,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "n_activated_experts": 6,
    "route_scale": 1.0,
    "q_lora_rank": 0,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mscale": 0.707,
}

V4: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "vocab_size": 100,
    "hidden_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "head_dim": 16,
    "q_lora_rank": 24,
    "o_groups": 2,
    "o_lora_rank": 8,
    "index_n_heads": 3,
    "index_head_dim": 8,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "hc_mult": 3,
    "compress_ratios": [0, 4, 128, 4, 0],
    "tie_word_embeddings": False,
}
V4_FLASH: dict[str, Any] = V4 | {
    "vocab_size": 129280,
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "hc_mult": 4,
    "compress_ratios": [128, 128] + [128, 4] * 20 + [128],
}


def read(config: dict[str, Any], *dropped: str, **changes: Any) -> Target:
    kept = {key: value for key, value in config.items() if key not in dropped}
    return read_config(kept | changes, "test")


def mla_of(target: Target) -> MLASpec:
    attention = target.trainable_model().attention
    assert isinstance(attention, MLASpec)
    return attention


def gqa_of(target: Target) -> GQASpec:
    attention = target.trainable_model().attention
    assert isinstance(attention, GQASpec)
    return attention


def moe_of(target: Target) -> MoESpec:
    moe = target.trainable_model().moe
    assert moe is not None
    return moe


def said(target: Target, text: str) -> bool:
    return any(text in warning for warning in target.warnings)
