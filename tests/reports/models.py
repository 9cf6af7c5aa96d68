"""The target and the proxy of made-up studies."""

from dataclasses import replace

from simulator.specs.model import MLASpec, ModelSpec, MoESpec, RopeSpec


def target_model() -> ModelSpec:
    return ModelSpec(
        vocab_size=2048,
        dim=1024,
        inter_dim=2816,
        n_layers=4,
        attention=MLASpec(
            n_heads=32,
            q_lora_rank=384,
            kv_lora_rank=128,
            qk_nope_head_dim=32,
            qk_rope_head_dim=16,
            v_head_dim=32,
        ),
        moe=MoESpec(
            n_routed_experts=8,
            n_activated_experts=2,
            n_shared_experts=1,
            moe_inter_dim=512,
            n_dense_layers=1,
            score_func="sigmoid",
            route_scale=2.5,
            norm_topk_prob=True,
            balance="bias",
        ),
        n_mtp_modules=1,
        rope=RopeSpec(theta=10_000.0),
        init_std=0.006,
        max_seq_len=256,
    )


def proxy_model() -> ModelSpec:
    target = target_model()
    assert isinstance(target.attention, MLASpec)
    assert target.moe is not None
    return replace(
        target,
        dim=128,
        inter_dim=352,
        attention=replace(target.attention, n_heads=4, q_lora_rank=48, kv_lora_rank=16),
        moe=replace(target.moe, moe_inter_dim=64),
    )
