"""Same weights, same logits as Hugging Face `transformers`, on random small models."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from simulator.model import build_model
from simulator.specs.model import GQASpec, ModelSpec, RopeScalingSpec, RopeSpec
from tests.builders import make_attention, make_model, make_moe
from tests.simulator.model.hugging_face import (
    copy_weights,
    llama_model,
    qwen3_model,
    v2_model,
    v3_model,
)
from tests.simulator.model.weights import randomise

YARN = RopeScalingSpec(
    kind="yarn", factor=40.0, original_max_seq_len=64, mscale=1.0, mscale_all_dim=1.0
)
YARN_V2 = replace(YARN, mscale=0.707, mscale_all_dim=0.5)
LLAMA3 = RopeScalingSpec(kind="llama3", factor=8.0, original_max_seq_len=32)
LINEAR = RopeScalingSpec(kind="linear", factor=4.0, original_max_seq_len=64)

GROUPED = make_moe(
    n_routed_experts=16, n_activated_experts=4, n_expert_groups=4, n_limited_groups=2
)
SOFTMAX = make_moe(score_func="softmax", balance="aux_loss", norm_topk_prob=False, route_scale=1.0)


def _rope(scaling: RopeScalingSpec | None) -> RopeSpec:
    return RopeSpec(theta=10000.0, scaling=scaling)


V3_MODELS = {
    "plain": make_model(n_mtp_modules=0),
    "groups": make_model(n_mtp_modules=0, moe=GROUPED),
    "full_rank_query": make_model(n_mtp_modules=0, attention=make_attention(q_lora_rank=0)),
    "yarn": make_model(n_mtp_modules=0, rope=_rope(YARN), norm_eps=1e-5),
    "weights_not_normalised": make_model(n_mtp_modules=0, moe=make_moe(norm_topk_prob=False)),
    "tied": make_model(n_mtp_modules=0, tie_embeddings=True),
    "odd_sizes": make_model(
        n_mtp_modules=0,
        dim=42,
        inter_dim=30,
        attention=make_attention(
            n_heads=3, q_lora_rank=10, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=7
        ),
        moe=make_moe(n_routed_experts=5, n_activated_experts=3, moe_inter_dim=6, n_dense_layers=0),
    ),
    "wide": make_model(
        n_mtp_modules=0,
        dim=128,
        n_layers=2,
        attention=make_attention(n_heads=8, kv_lora_rank=32),
        moe=make_moe(n_shared_experts=2, moe_inter_dim=48, route_scale=1.0),
    ),
}
V2_MODELS = {
    "plain": make_model(n_mtp_modules=0, moe=SOFTMAX),
    "groups": make_model(
        n_mtp_modules=0,
        moe=replace(
            SOFTMAX,
            n_expert_groups=4,
            n_limited_groups=2,
            n_activated_experts=3,
            group_score="max",
            route_scale=16.0,
        ),
    ),
    "yarn_full_rank_query": make_model(
        n_mtp_modules=0,
        moe=replace(SOFTMAX, n_shared_experts=2),
        rope=_rope(YARN_V2),
        attention=make_attention(q_lora_rank=0),
    ),
}
DENSE = make_model(
    n_mtp_modules=0, moe=None, attention=GQASpec(n_heads=4, n_kv_heads=2, head_dim=16)
)


def _error(spec: ModelSpec, build: Callable[[ModelSpec], nn.Module], seed: int) -> float:
    """Return the largest difference of logits relative to the largest logit."""
    torch.set_num_threads(1)
    ours, theirs = build_model(spec), build(spec)
    randomise(ours, seed)
    copy_weights(ours, theirs)
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(spec.vocab_size, (3, 48), generator=generator)
    with torch.no_grad():
        expected = theirs(tokens, use_cache=False).logits
        got = ours.logits(tokens)
    assert expected.std() > 0.1  # the comparison would say nothing about a constant
    return float((got - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", V3_MODELS)
def test_logits_equal_the_deepseek_v3_of_transformers(name: str, seed: int) -> None:
    assert _error(V3_MODELS[name], v3_model, seed) < 1e-5


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", V2_MODELS)
def test_logits_equal_the_deepseek_v2_of_transformers(name: str, seed: int) -> None:
    assert _error(V2_MODELS[name], v2_model, seed) < 1e-5


@pytest.mark.parametrize("scaling", [None, LLAMA3, LINEAR, YARN], ids=str)
def test_logits_equal_the_llama_of_transformers(scaling: RopeScalingSpec | None) -> None:
    assert _error(replace(DENSE, rope=_rope(scaling)), llama_model, 0) < 1e-5


def test_logits_equal_the_qwen3_of_transformers() -> None:
    attention = GQASpec(n_heads=4, n_kv_heads=2, head_dim=24, qk_norm=True)
    assert _error(replace(DENSE, attention=attention, tie_embeddings=True), qwen3_model, 0) < 1e-5
