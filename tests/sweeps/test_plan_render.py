import io
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.data_outlook import DataOutlook
from sweeps.device_memory import DeviceMemory
from sweeps.plan import make_plan
from sweeps.plan_render import render_plan
from sweeps.plan_types import SweepPlan
from sweeps.resolve import draft_sweep
from sweeps.tables.target import CutsTable, ProxyTable
from tests.sweeps.files import PRESETS, preset_file

COLUMNS = 100
H200 = DeviceMemory(name="H200", total_bytes=139 * 2**30)
DATA = DataOutlook(
    sources=("corpus/",),
    tokenizer="bpe",
    vocab_size=4096,
    unique_tokens=7_500_000,
    is_estimate=True,
    is_synthetic=False,
)


def text_of(plan: SweepPlan) -> str:
    console = Console(file=io.StringIO(), width=COLUMNS)
    console.print(render_plan(plan))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plan_of(config: str, **extras: object) -> SweepPlan:
    return make_plan(draft_sweep(preset_file(config), root=Path()), **extras)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", PRESETS)
def test_a_plan_keeps_to_100_columns(config: str) -> None:
    text = text_of(plan_of(config, memory=H200, data=DATA))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= COLUMNS
    assert "…" not in text


@pytest.mark.parametrize("config", PRESETS)
def test_a_plan_shows_every_dimension_flag_and_note(config: str) -> None:
    plan = plan_of(config, memory=H200)
    words = " ".join(text_of(plan).split())
    for change in plan.dimensions:
        assert f" {change.name} " in words
    assert words.count("CAUTION") == sum(flag.severity == "amber" for flag in plan.flags)
    assert words.count("STOP") == sum(flag.severity == "red" for flag in plan.flags)
    for note in plan.notes:
        assert " ".join(note.split()) in words


def test_a_proxy_that_does_not_fit_comes_with_what_to_write_instead() -> None:
    text = text_of(plan_of("deepseek-v3", memory=H200))
    assert "does NOT fit" in text
    assert "10.7 B" in text
    assert "[proxy.cuts]" in text


def test_nothing_that_fits_is_said() -> None:
    tiny = DeviceMemory(name="tiny", total_bytes=2**20)
    assert "No proxy of this target fits" in text_of(plan_of("deepseek-v3", memory=tiny))


def test_an_unknown_memory_is_said() -> None:
    assert "--memory-gib" in text_of(plan_of("deepseek-v3"))


def test_missing_data_are_said() -> None:
    assert "Data: none named" in text_of(plan_of("llama-3.1-8b"))


def test_estimated_tokens_are_called_estimated() -> None:
    assert "about 7.5 M unique training tokens" in text_of(plan_of("llama-3.1-8b", data=DATA))


def test_a_cut_stands_out() -> None:
    file = preset_file("deepseek-v3", proxy=ProxyTable(cuts=CutsTable(n_layers=7)))
    text = text_of(make_plan(draft_sweep(file, root=Path())))
    assert "depth as an axis of transfer" in " ".join(text.split())
    assert "Axes of transfer: width, depth." in text
