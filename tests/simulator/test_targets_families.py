"""Each family is read as its own code reads it."""

from typing import Any

import pytest

from simulator.counting.params import count_tensors
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, IndexerSpec
from simulator.targets.reader import KNOWN_TYPES, read_config, read_target
from tests.simulator.target_configs import (
    INFERENCE,
    INFERENCE_16B,
    LLAMA,
    V2,
    V3,
    V4,
    V4_FLASH,
    gqa_of,
    mla_of,
    moe_of,
    read,
    said,
)

# --- DeepSeek's families -------------------------------------------------------------------


def test_v3_routing_is_biased_sigmoid_limited_by_the_two_best_of_a_group() -> None:
    moe = moe_of(read(V3))

    assert (moe.balance, moe.score_func, moe.group_score) == ("bias", "sigmoid", "top2_sum")
    assert (moe.n_expert_groups, moe.n_limited_groups) == (4, 2)
    assert moe.aux_loss_alpha == 0.0001


def test_v2_routing_is_softmax_limited_by_the_best_of_a_group() -> None:
    moe = moe_of(read(V2))

    assert (moe.balance, moe.score_func, moe.group_score) == ("aux_loss", "softmax", "max")
    assert (moe.n_expert_groups, moe.n_limited_groups) == (4, 2)


def test_greedy_routing_knows_no_groups() -> None:
    moe = moe_of(read(V2, "n_group", "topk_group", topk_method="greedy"))

    assert (moe.n_expert_groups, moe.n_limited_groups) == (1, 1)


@pytest.mark.parametrize("value", [None, 0])
def test_a_full_rank_query_is_null_or_zero_but_never_missing(value: object) -> None:
    assert mla_of(read(V3, q_lora_rank=value)).q_lora_rank == 0


def test_v1_has_multi_head_attention_and_no_groups() -> None:
    target = read(
        V2,
        "topk_method",
        "routed_scaling_factor",
        model_type="deepseek",
        num_key_value_heads=4,
    )

    assert gqa_of(target) == GQASpec(n_heads=4, n_kv_heads=4, head_dim=16)
    assert moe_of(target).route_scale == 1.0
    assert moe_of(target).balance == "aux_loss"


def test_v32_indexer_is_counted_and_announced() -> None:
    indexer = {"index_n_heads": 4, "index_head_dim": 8, "index_topk": 16}

    target = read(V3, model_type="deepseek_v32", **indexer)

    assert mla_of(target).indexer == IndexerSpec(n_heads=4, head_dim=8, top_k=16)
    assert said(target, "the proxy trains dense attention")
    assert count_tensors(target.tensors).parts["indexer"] > 0


def test_kimi_k2_is_read_as_v3() -> None:
    assert read(V3, model_type="kimi_k2").model == read(V3).model


def test_inference_keys_give_the_same_model_as_the_published_configuration() -> None:
    published = read_target("deepseek-v3")
    target = read(INFERENCE, num_nextn_predict_layers=1, max_seq_len=163840)

    assert target.tensors == published.tensors
    assert target.model == published.model
    assert target.model_type == "deepseek_v3"


def test_inference_defaults_are_those_of_its_code_and_each_is_noted() -> None:
    target = read(INFERENCE_16B)

    assert target.tensors == read_target("deepseek-v2-lite").tensors
    assert target.is_trainable
    assert moe_of(target).score_func == "softmax"
    assert mla_of(target).q_lora_rank == 0
    for key in ("scoring_func", "n_group", "rope_theta", "max_position_embeddings"):
        assert said(target, f"config.{key} is not given")


@pytest.mark.parametrize("key", ["dim", "n_dense_layers", "n_heads", "q_lora_rank"])
def test_a_key_missing_in_an_inference_file_is_an_error(key: str) -> None:
    with pytest.raises(SpecError):
        read(INFERENCE, key)


def test_inference_yarn_applies_past_the_original_length_only() -> None:
    assert read(INFERENCE, max_seq_len=4096).trainable_model().rope.scaling is None


# --- other families ------------------------------------------------------------------------


def test_qwen2_has_biases_and_qwen3_has_norms() -> None:
    qwen2 = gqa_of(read(LLAMA, model_type="qwen2"))
    qwen3 = gqa_of(read(LLAMA, model_type="qwen3", head_dim=32))

    assert (qwen2.qkv_bias, qwen2.qk_norm, qwen2.head_dim) == (True, False, 16)
    assert (qwen3.qkv_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 32)


def test_qwen3_must_give_its_head_dimension() -> None:
    with pytest.raises(SpecError, match=r"config\.head_dim is required"):
        read(LLAMA, model_type="qwen3")


@pytest.mark.parametrize("changes", [{}, {"head_dim": None}])
def test_llama_heads_divide_the_width_where_no_head_dimension_is_given(
    changes: dict[str, Any],
) -> None:
    assert gqa_of(read(LLAMA, **changes)).head_dim == 16
    with pytest.raises(SpecError, match="must divide the width"):
        read(LLAMA, num_attention_heads=3, num_key_value_heads=3, **changes)


@pytest.mark.parametrize("name", ["n_routed_experts", "num_experts", "num_local_experts"])
def test_the_expert_count_has_three_names(name: str) -> None:
    target = read(V3, "n_routed_experts", **{name: 8})

    assert target.tensors == read(V3).tensors


def test_two_names_of_one_key_must_agree() -> None:
    with pytest.raises(SpecError, match=r"config\.num_experts must equal"):
        read(V3, num_experts=16)


@pytest.mark.parametrize("model_type", ["mixtral", "gpt_oss", "gpt2"])
def test_counted_families_are_refused_for_training(model_type: str) -> None:
    extra = {"num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 16, "n_positions": 9}
    target = read(LLAMA, model_type=model_type, attention_bias=False, **extra)

    assert target.tensors
    assert not target.is_trainable
    assert model_type in target.why_not


def test_a_nested_language_model_is_read_and_announced() -> None:
    outer = {"model_type": "kimi_vl", "vision_config": {}, "tie_word_embeddings": True}
    inner = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}

    target = read_config(outer | {"text_config": inner}, "nested")

    assert target.model == read(LLAMA, tie_word_embeddings=True).model
    assert said(target, "text_config")
    with pytest.raises(SpecError) as caught:
        read_config({"text_config": inner | {"vocab_size": "x"}}, "nested")
    assert caught.value.path == "config.text_config.vocab_size"


# --- rotary embedding ----------------------------------------------------------------------


YARN = {
    "factor": 40,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}


def test_scaling_has_two_names_and_a_newer_place() -> None:
    older = read(V3, rope_scaling=YARN | {"type": "yarn"})
    newer = read(V3, rope_scaling=YARN | {"rope_type": "yarn"})
    place = read(
        V3,
        "rope_theta",
        rope_parameters=YARN | {"rope_type": "yarn", "rope_theta": 10000.0},
    )

    assert older.model == newer.model == place.model
    scaling = older.trainable_model().rope.scaling
    assert scaling is not None
    assert (scaling.kind, scaling.factor, scaling.mscale_all_dim) == ("yarn", 40.0, 0.707)


def test_a_context_extension_is_kept_and_announced() -> None:
    target = read(V3, rope_scaling=YARN | {"type": "yarn"})

    assert said(target, "config.rope_scaling (yarn, factor 40) is kept")


def test_a_default_rope_is_no_scaling() -> None:
    target = read(LLAMA, "rope_theta", rope_parameters={"rope_type": "default", "rope_theta": 5e5})

    assert target.trainable_model().rope.theta == 5e5
    assert target.trainable_model().rope.scaling is None


def test_scaling_without_its_numbers_is_not_trained() -> None:
    target = read(LLAMA, rope_scaling={"rope_type": "llama3", "factor": 8.0})

    assert "config.rope_scaling.original_max_position_embeddings" in target.why_not
    assert "config.rope_scaling.low_freq_factor" in target.why_not


def test_yarn_defaults_are_noted() -> None:
    table = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

    target = read(LLAMA, rope_scaling=table)

    assert target.is_trainable
    assert said(target, "config.rope_scaling.mscale_all_dim is not given")


def test_a_scaling_that_is_not_built_is_counted_only() -> None:
    target = read(LLAMA, rope_scaling={"rope_type": "longrope", "factor": 4.0})

    assert "longrope" in target.why_not


# --- initial scale -------------------------------------------------------------------------


def test_a_recognised_model_starts_as_published() -> None:
    target = read_target("deepseek-v3")

    assert target.trainable_model().init_std == 0.006
    assert "2412.19437" in target.init_std_source
    assert moe_of(target).aux_loss_alpha == 1e-4
    assert said(target, "0.006 as published")


def test_a_changed_model_starts_as_its_file_says() -> None:
    target = read(V3, initializer_range=0.01)

    assert target.trainable_model().init_std == 0.01
    assert target.init_std_source == "config.initializer_range"


# --- DeepSeek-V4 ---------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "total"), [(V4, 368_852), (V4_FLASH, 284_325_869_015)])
def test_v4_counts_as_its_implementation(config: dict[str, Any], total: int) -> None:
    """Totals of transformers 5.24's DeepseekV4ForCausalLM on a meta device, same configuration."""
    target = read(config)

    assert count_tensors(target.tensors).total == total
    assert not target.is_trainable
    assert said(target, "multi-token-prediction module is not counted")


def test_v4_layers_are_given_by_types_or_by_ratios() -> None:
    names = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    names |= {128: "heavily_compressed_attention"}
    types = [names[ratio] for ratio in V4["compress_ratios"]]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}

    target = read(V4, "compress_ratios", layer_types=types, compress_rates=rates)

    assert target.tensors == read(V4).tensors
    with pytest.raises(SpecError, match="is required"):
        read(V4, "compress_ratios")


def test_v41_s_engram_memory_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"config\.engram_layer_ids must be empty"):
        read(V4, engram_layer_ids=[1, 3])


def test_known_families_are_sorted() -> None:
    assert list(KNOWN_TYPES) == sorted(KNOWN_TYPES)
