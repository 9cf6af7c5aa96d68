"""Configurations of other people: read strictly, never completed in silence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.counting.params import count_tensors
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, IndexerSpec, MLASpec, MoESpec
from simulator.targets.reader import KNOWN_TYPES, preset_names, read_config, read_target
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


# --- where a target comes from -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-v3", 671.0),
        ("deepseek-v2", 235.7),
        ("deepseek-v2-lite", 15.7),
        ("kimi-k2", 1026.4),
        ("llama-3.1-8b", 8.0),
    ],
)
def test_presets_are_trainable_and_count_as_published(name: str, billions: float) -> None:
    target = read_target(name)

    assert target.is_trainable
    assert target.name == name
    assert count_tensors(target.tensors).total / 1e9 == pytest.approx(billions, abs=0.05)


def test_presets_are_listed() -> None:
    assert len(preset_names()) == 5


def test_file_and_folder_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))

    assert read_target(folder) == read_target(folder / "config.json")
    assert read_target(str(folder)).name == "my-model"


def test_a_file_wins_over_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deepseek-v3").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)

    assert read_target("deepseek-v3").model_type == "llama"


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8-sig")

    assert read_target(path).is_trainable


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"{", "must be valid JSON"),
        (b"", "must be valid JSON"),
        (b"[1, 2]", "must hold a JSON object"),
        (b"null", "must hold a JSON object"),
        (b"\xff\xfe\x00", "must be UTF-8 text"),
        (b"[" * 200_000, "must be "),
        (b'{"vocab_size": ' + b"9" * 5000 + b"}", "must be plain JSON"),
        (b" " * (17 * 2**20), "must be a model configuration"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)

    with pytest.raises(SpecError, match=rule) as caught:
        read_target(path)
    assert caught.value.path == str(path)


def test_what_does_not_exist_is_refused_with_the_nearest_preset(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Did you mean 'deepseek-v3'"):
        read_target("deepseekv3")
    with pytest.raises(SpecError, match="Presets: deepseek-v2"):
        read_target("/no/such/file")
    with pytest.raises(SpecError, match=r"must hold a config\.json"):
        read_target(tmp_path)


def test_an_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="deepseek_v4, gpt2, gpt_oss") as caught:
        read(LLAMA, model_type="mamba2")
    assert caught.value.path == "config.model_type"
    with pytest.raises(SpecError, match="Did you mean 'deepseek_v3'"):
        read(V3, model_type="deepseek-v3")
    with pytest.raises(SpecError, match=r"config\.model_type must be one of"):
        read(LLAMA, model_type=["llama"])
    with pytest.raises(SpecError, match=r"config\.model_type is required"):
        read(LLAMA, "model_type")


# --- nothing is filled in silence ----------------------------------------------------------


STRUCTURE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "first_k_dense_replace",
    "kv_lora_rank",
    "moe_intermediate_size",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
)


@pytest.mark.parametrize("key", STRUCTURE)
@pytest.mark.parametrize("config", [V3, V2], ids=["v3", "v2"])
def test_a_missing_dimension_is_an_error_that_names_it(config: dict[str, Any], key: str) -> None:
    with pytest.raises(SpecError, match="is required") as caught:
        read(config, key)
    assert caught.value.path == f"config.{key}"


@pytest.mark.parametrize("key", ["num_key_value_heads", "intermediate_size", "vocab_size"])
def test_a_missing_dimension_of_a_dense_model_is_an_error(key: str) -> None:
    with pytest.raises(SpecError, match=f"config.{key} is required"):
        read(LLAMA, key)


@pytest.mark.parametrize(
    "key",
    [
        "rope_theta",
        "rms_norm_eps",
        "max_position_embeddings",
        "initializer_range",
        "n_group",
        "topk_group",
        "norm_topk_prob",
        "routed_scaling_factor",
    ],
)
def test_a_key_only_training_needs_leaves_the_target_countable(key: str) -> None:
    target = read(V3, key)

    assert target.tensors == read(V3).tensors
    assert target.model is None
    assert not target.is_trainable
    assert f"config.{key}" in target.why_not
    with pytest.raises(SpecError, match=f"Missing for training: config.{key}"):
        target.trainable_model()


@pytest.mark.parametrize("key", ["topk_method", "aux_loss_alpha"])
def test_v2_must_say_how_it_routes_and_balances(key: str) -> None:
    assert f"config.{key}" in read(V2, key).why_not


@pytest.mark.parametrize(
    "key",
    [
        "tie_word_embeddings",
        "moe_layer_freq",
        "num_nextn_predict_layers",
        "topk_method",
        "scoring_func",
        "aux_loss_alpha",
        "seq_aux",
        "hidden_act",
    ],
)
def test_every_default_leaves_a_note(key: str) -> None:
    target = read(V3, key)

    assert target.is_trainable
    assert said(target, f"config.{key} is not given")


def test_a_complete_configuration_leaves_no_note() -> None:
    assert read(V3).warnings == ()
    assert read(LLAMA).warnings == ()


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("hidden_size", "7168", "must be a whole number"),
        ("hidden_size", 7168.0, "must be a whole number"),
        ("hidden_size", True, "must be a whole number"),
        ("hidden_size", None, "must be a whole number"),
        ("hidden_size", -64, "must lie in"),
        ("hidden_size", 0, "must lie in"),
        ("num_hidden_layers", 10**9, "must lie in"),
        ("num_experts_per_tok", 9, "must lie in"),
        ("rope_theta", "10000", "must be a number"),
        ("rope_theta", -1.0, "must be finite"),
        ("rms_norm_eps", float("nan"), "must be finite"),
        ("norm_topk_prob", 1, "must be true or false"),
        ("tie_word_embeddings", "no", "must be true or false"),
        ("scoring_func", "sqrtsoftplus", "must be one of sigmoid, softmax"),
        ("topk_method", "expert_choice", "must be one of noaux_tc"),
        ("rope_scaling", [1], "must be a table"),
    ],
)
def test_a_value_that_does_not_pass_is_named(key: str, value: object, rule: str) -> None:
    with pytest.raises(SpecError, match=rule) as caught:
        read(V3, **{key: value})
    assert caught.value.path == f"config.{key}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_value_of_any_key_is_read_or_refused_by_name(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from([LLAMA, V3, V2, INFERENCE, V4]))
    keys = [*config, "text_config", "rope_scaling", "rope_parameters", "compress_rates"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), JSON, min_size=1, max_size=2))

    path, tensors = "", ()
    try:
        tensors = read(config, **changes).tensors
    except SpecError as error:
        path = error.path
    assert tensors or path.startswith(("config.", "model."))


@pytest.mark.parametrize("key", ["attention_bias", "mlp_bias"])
@pytest.mark.parametrize("config", [LLAMA, V3], ids=["llama", "v3"])
def test_biases_that_would_be_miscounted_are_refused(config: dict[str, Any], key: str) -> None:
    with pytest.raises(SpecError, match=f"config.{key} must be false"):
        read(config, **{key: True})


def test_another_activation_is_counted_and_not_trained() -> None:
    target = read(LLAMA, hidden_act="gelu")

    assert not target.is_trainable
    assert "'gelu'" in target.why_not


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
