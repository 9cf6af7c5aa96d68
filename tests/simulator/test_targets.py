"""Configurations of other people: read strictly, never completed in silence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.counting.params import count_tensors
from simulator.specs.errors import SpecError
from simulator.targets.reader import preset_names, read_target
from tests.simulator.target_configs import (
    INFERENCE,
    LLAMA,
    V2,
    V3,
    V4,
    read,
    said,
)

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
