"""Small valid models with named changes, and random ones for property tests."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from simulator.specs.model import GQASpec, IndexerSpec, MLASpec, ModelSpec, MoESpec, RopeSpec


def make_mla(**changes: Any) -> MLASpec:
    fields: dict[str, Any] = {
        "n_heads": 16,
        "q_lora_rank": 256,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    }
    return MLASpec(**(fields | changes))


def make_gqa(**changes: Any) -> GQASpec:
    return GQASpec(**({"n_heads": 16, "n_kv_heads": 8, "head_dim": 16} | changes))


def make_moe(**changes: Any) -> MoESpec:
    fields: dict[str, Any] = {
        "n_routed_experts": 8,
        "n_activated_experts": 2,
        "n_shared_experts": 1,
        "moe_inter_dim": 256,
        "n_dense_layers": 1,
        "score_func": "sigmoid",
        "route_scale": 2.5,
        "norm_topk_prob": True,
        "balance": "bias",
    }
    return MoESpec(**(fields | changes))


def make_model(**changes: Any) -> ModelSpec:
    """DeepSeek-V3-shaped, 1024 wide: its 1/8 proxy stays above every floor."""
    fields: dict[str, Any] = {
        "vocab_size": 512,
        "dim": 1024,
        "inter_dim": 2048,
        "n_layers": 3,
        "attention": make_mla(n_heads=32),
        "moe": make_moe(),
        "n_mtp_modules": 1,
        "rope": RopeSpec(theta=10000.0),
        "init_std": 0.006,
        "max_seq_len": 256,
    }
    return ModelSpec(**(fields | changes))


def narrow(model: ModelSpec, factor: int) -> ModelSpec:
    """Divide every width-like dimension by ``factor``, floors or not."""
    attention = model.attention
    if isinstance(attention, MLASpec):
        attention = replace(
            attention,
            n_heads=attention.n_heads // factor,
            q_lora_rank=attention.q_lora_rank // factor,
            kv_lora_rank=attention.kv_lora_rank // factor,
        )
    else:
        attention = replace(
            attention,
            n_heads=attention.n_heads // factor,
            n_kv_heads=attention.n_kv_heads // factor,
        )
    moe = model.moe
    if moe is not None:
        moe = replace(moe, moe_inter_dim=moe.moe_inter_dim // factor)
    return replace(
        model,
        dim=model.dim // factor,
        inter_dim=model.inter_dim // factor,
        attention=attention,
        moe=moe,
    )


def _even(draw: st.DrawFn, low: int, high: int) -> int:
    return 2 * draw(st.integers(low // 2, high // 2))


@st.composite
def mla_specs(draw: st.DrawFn, *, with_indexer: bool = False) -> MLASpec:
    indexer = IndexerSpec(n_heads=2, head_dim=8, top_k=4) if with_indexer else None
    return MLASpec(
        n_heads=8 * draw(st.integers(1, 3)),
        q_lora_rank=8 * draw(st.integers(0, 3)),
        kv_lora_rank=8 * draw(st.integers(1, 3)),
        qk_nope_head_dim=draw(st.integers(1, 8)),
        qk_rope_head_dim=_even(draw, 2, 8),
        v_head_dim=draw(st.integers(1, 8)),
        indexer=indexer,
    )


@st.composite
def gqa_specs(draw: st.DrawFn) -> GQASpec:
    n_kv_heads = 8 * draw(st.integers(1, 2))
    return GQASpec(
        n_heads=n_kv_heads * draw(st.integers(1, 3)),
        n_kv_heads=n_kv_heads,
        head_dim=_even(draw, 2, 8),
        qkv_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
    )


@st.composite
def moe_specs(draw: st.DrawFn) -> MoESpec:
    groups = draw(st.sampled_from([1, 2, 4]))
    experts = groups * draw(st.integers(1, 3))
    limited = draw(st.integers(1, groups))
    score = draw(st.sampled_from(["sigmoid", "softmax"]))
    return MoESpec(
        n_routed_experts=experts,
        n_activated_experts=draw(st.integers(1, experts // groups * limited)),
        n_shared_experts=draw(st.integers(0, 2)),
        moe_inter_dim=8 * draw(st.integers(1, 3)),
        n_dense_layers=draw(st.integers(0, 2)),
        moe_layer_freq=draw(st.integers(1, 2)),
        score_func=score,
        route_scale=draw(st.sampled_from([1.0, 2.5])),
        norm_topk_prob=draw(st.booleans()),
        n_expert_groups=groups,
        n_limited_groups=limited,
        group_score=draw(st.sampled_from(["top2_sum", "max"])),
        balance="bias" if score == "sigmoid" else "aux_loss",
    )


@st.composite
def model_specs(draw: st.DrawFn) -> ModelSpec:
    """Random small model whose width-like dimensions all divide by 8."""
    return ModelSpec(
        vocab_size=draw(st.integers(2, 40)),
        dim=8 * draw(st.integers(1, 4)),
        inter_dim=8 * draw(st.integers(1, 4)),
        n_layers=draw(st.integers(1, 5)),
        attention=draw(st.one_of(mla_specs(), gqa_specs())),
        moe=draw(st.none() | moe_specs()),
        n_mtp_modules=draw(st.integers(0, 2)),
        rope=RopeSpec(theta=10000.0),
        tie_embeddings=draw(st.booleans()),
        init_std=0.006,
        max_seq_len=64,
    )


@st.composite
def wide_specs(draw: st.DrawFn) -> ModelSpec:
    """Random target wide enough for proxies at every ratio, not all of which divide."""
    attention: MLASpec | GQASpec
    if draw(st.booleans()):
        attention = make_mla(
            n_heads=draw(st.sampled_from([8, 16, 18, 32])),
            q_lora_rank=draw(st.sampled_from([0, 64, 128, 256])),
            kv_lora_rank=draw(st.sampled_from([32, 64, 100, 128])),
        )
    else:
        n_kv_heads = draw(st.sampled_from([1, 4, 8]))
        attention = make_gqa(n_heads=draw(st.sampled_from([16, 32])), n_kv_heads=n_kv_heads)
    moe = make_moe(
        moe_inter_dim=draw(st.sampled_from([64, 128, 256])),
        n_shared_experts=draw(st.integers(0, 2)),
        n_dense_layers=draw(st.integers(0, 1)),
    )
    return make_model(
        dim=draw(st.sampled_from([512, 1000, 1001, 1024, 2048])),
        inter_dim=draw(st.sampled_from([512, 1000, 1024, 2048])),
        attention=attention,
        moe=draw(st.sampled_from([None, moe])),
        n_mtp_modules=draw(st.integers(0, 1)),
        tie_embeddings=draw(st.booleans()),
    )
