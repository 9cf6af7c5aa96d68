"""Parameter counts: exact for published models, consistent for random ones."""

import json
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings

from simulator.counting.memory import state_bytes
from simulator.counting.params import ParamCount, count_params, count_tensors
from simulator.counting.tensors import list_tensors
from simulator.specs.model import ModelSpec
from simulator.targets.reader import read_target
from tests.simulator.model_specs import make_model, model_specs

CONFIGS = (
    "Qwen__Qwen3-30B-A3B",
    "Qwen__Qwen3-8B",
    "deepseek-ai__DeepSeek-R1",
    "deepseek-ai__DeepSeek-V2-Lite",
    "deepseek-ai__DeepSeek-V2",
    "deepseek-ai__DeepSeek-V3.2",
    "deepseek-ai__DeepSeek-V3",
    "deepseek-ai__deepseek-llm-67b-base",
    "deepseek-ai__deepseek-llm-7b-base",
    "meta-llama__Meta-Llama-3.1-70B",
    "meta-llama__Meta-Llama-3.1-8B",
    "mistralai__Mixtral-8x7B-v0.1",
    "moonshotai__Kimi-K2-Instruct",
    "openai-community__gpt2",
    "openai__gpt-oss-20b",
)


def count(path: Path | str) -> ParamCount:
    return count_tensors(read_target(path).tensors)


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", CONFIGS)
def test_published_configurations_count_as_their_reference_implementation(
    shared_data: Path, name: str
) -> None:
    expected = json.loads((shared_data / "configs" / "COUNTS.json").read_text())[f"{name}.json"]

    found = count(shared_data / "configs" / f"{name}.json")

    assert found.total == expected["params_total"]
    assert found.embedding + found.head == expected["params_embedding_and_head"]
    assert found.routed_experts == expected["params_routed_experts"]
    assert found.active == expected["params_active_per_token"]


@pytest.mark.needs_shared
def test_every_shared_configuration_is_covered(shared_data: Path) -> None:
    files = {path.stem for path in (shared_data / "configs").glob("*__*.json")}

    assert files == {*CONFIGS, "deepseek-ai__deepseek-moe-16b-base"}


@pytest.mark.needs_shared
def test_deepseek_moe_16b_counts_as_its_formula(shared_data: Path) -> None:
    """16.38 B, published as 16.4 B; 2.83 B active with both tables, published as 2.8 B."""
    dim, vocab, expert = 2048, 102400, 3 * 2048 * 1408
    attention, norms = 4 * dim * dim, 2 * dim
    dense = attention + norms + 3 * dim * 10944
    outside = 2 * vocab * dim + dim

    def moe_layer(num_experts: int) -> int:
        return attention + norms + 64 * dim + (num_experts + 2) * expert

    found = count(shared_data / "configs" / "deepseek-ai__deepseek-moe-16b-base.json")

    assert found.total == outside + dense + 27 * moe_layer(64) == 16_375_728_128
    assert found.active == outside + dense + 27 * moe_layer(6) == 2_828_650_496


@pytest.mark.needs_shared
def test_prediction_module_counts_its_own_tensors(shared_data: Path) -> None:
    """V3's published module weighs embedding and head more, and 256 entries of balance bias."""
    file = shared_data / "resource" / "deepseek_configs" / "deepseek-v3.json"
    published = json.loads(file.read_text())["computed_params"]["mtp_unique"]

    assert count(file).mtp == published - 256


@pytest.mark.parametrize(
    ("preset", "billions"),
    [("deepseek-v3", 36.6), ("deepseek-v2", 20.9), ("deepseek-v2-lite", 2.5)],
)
def test_publishers_active_numbers_leave_out_the_input_embedding(
    preset: str, billions: float
) -> None:
    assert count(preset).active_without_embedding / 1e9 == pytest.approx(billions, abs=0.06)


@settings(max_examples=60, deadline=None)
@given(model_specs())
def test_counts_add_up(model: ModelSpec) -> None:
    tensors = list_tensors(model)
    found = count_params(model)

    sizes = sum(prod(t.shape) for t in tensors if not t.is_mtp)
    mtp_sizes = sum(prod(t.shape) for t in tensors if t.is_mtp)
    assert found.total == sizes == sum(found.parts.values())
    assert found.active == sum(found.active_parts.values())
    assert found.mtp == mtp_sizes
    assert found.active_non_embedding == found.active - found.embedding - found.head
    unselected = found.routed_experts - found.active_parts.get("routed_experts", 0)
    assert found.active == found.total - unselected


def test_every_number_names_its_convention() -> None:
    found = count_params(make_model())

    numbers = {"total", "active", "embedding", "head", "mtp", "active_non_embedding"}
    assert numbers <= set(found.conventions)


def test_state_holds_four_numbers_of_four_bytes_for_every_trained_parameter() -> None:
    model = make_model()
    found = count_params(model)

    assert state_bytes(model) == 4 * 4 * (found.total + found.mtp)


def test_muon_holds_one_moment_of_every_hidden_matrix() -> None:
    model = make_model()
    hidden = sum(tensor.size for tensor in list_tensors(model) if tensor.kind == "matrix")

    assert state_bytes(model) - state_bytes(model, "muon") == 4 * hidden > 0
