import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from simulator.targets.reader import read_target
from sweeps.model_count import ModelCount, count_target, render_count

FILES = sorted(
    path.name
    for path in (Path(__file__).resolve().parents[3] / "shared" / "data" / "configs").glob("*.json")
    if path.name != "COUNTS.json"
)


def count_of(source: Path | str) -> ModelCount:
    return count_target(read_target(source))


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", FILES)
def test_every_published_configuration_is_counted_exactly(name: str, shared_data: Path) -> None:
    count = count_of(shared_data / "configs" / name)
    known = json.loads((shared_data / "configs" / "COUNTS.json").read_text())[name]
    if "error" in known:  # the reference implementation does not know deepseek-moe-16b
        assert count.params_active == pytest.approx(2.83e9, rel=1e-3)
        return
    assert count.params_total == known["params_total"]
    assert count.params_active == known["params_active_per_token"]
    assert count.params_embedding == known["params_embedding_and_head"]
    assert count.params_routed_experts == known["params_routed_experts"]


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", FILES)
def test_parts_add_up(name: str, shared_data: Path) -> None:
    count = count_of(shared_data / "configs" / name)
    assert sum(count.parts.values()) == count.params_total
    assert sum(count.active_parts.values()) == count.params_active


@pytest.mark.parametrize(
    ("config", "billions"), [("deepseek-v3", 37), ("deepseek-v2", 21), ("deepseek-v2-lite", 2.4)]
)
def test_published_active_numbers_fit_the_definition_named(config: str, billions: float) -> None:
    found = count_of(config).params_active_without_input_embedding / 1e9
    assert found == pytest.approx(billions, rel=0.04)


def test_a_checkpoint_of_deepseek_v3_repeats_its_tables() -> None:
    count = count_of("deepseek-v3")
    assert count.params_checkpoint == pytest.approx(684.5e9, rel=1e-3)
    assert count.params_mtp == pytest.approx(11.6e9, rel=1e-2)


def test_every_number_names_its_convention() -> None:
    count = count_of("deepseek-v3")
    numbers = {name for name in ModelCount.__dataclass_fields__ if name.startswith("params_")}
    assert numbers <= set(count.conventions)


def test_the_table_names_the_published_numbers() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(render_count(count_of("deepseek-v3")))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "671,026,404,352" in text
    assert "37 B" in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100


def test_a_family_that_is_only_counted_says_so(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_positions": 32, "n_ctx": 32}))
    count = count_of(tmp_path)
    assert not count.is_trainable
    console = Console(file=io.StringIO(), width=100)
    console.print(render_count(count))
    assert isinstance(console.file, io.StringIO)
    assert "is counted" in " ".join(console.file.getvalue().split())
