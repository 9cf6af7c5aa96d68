import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweeps.data_outlook import DataOutlook
from sweeps.device_memory import DeviceMemory
from sweeps.plan import make_plan
from sweeps.plan_render import render_plan
from sweeps.plan_types import SharingPlan, SweepPlan
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


def words_of(plan: SweepPlan) -> str:
    return " ".join(text_of(plan).split())


KNOWN = SharingPlan(
    num_trials=12,
    is_whole_search=True,
    steps_alone=1200,
    steps_trained=900,
    steps_trained_in_one_batch=600,
)


def test_a_plan_says_what_sharing_saves() -> None:
    words = words_of(plan_of("deepseek-v2-lite", sharing=KNOWN))
    assert "All trials of the search take 1,200 steps, of which 300 (25 %) are saved so." in words
    assert "in one batch, they would save 600 (50 %): search.batch_size = 12." in words


def test_a_plan_says_where_savings_cannot_be_known() -> None:
    sharing = replace(KNOWN, is_whole_search=False, num_trials=4)
    words = words_of(plan_of("deepseek-v2-lite", sharing=sharing))
    assert "The first 4 trials take 1,200 steps" in words
    assert "what the others save depends on what is suggested" in words
    assert "in one batch" not in words


def test_a_plan_says_that_sharing_is_off() -> None:
    plan = plan_of("deepseek-v2-lite", sharing=KNOWN)
    off = replace(plan, execution=replace(plan.execution, shares_prefixes=False))
    assert "run.share_prefixes is false" in words_of(off)


def test_a_plan_shows_rows_and_compilation() -> None:
    plan = plan_of("deepseek-v2-lite")
    shown = replace(
        plan,
        execution=replace(
            plan.execution, num_workers=2, num_rows=3, is_compiled=True, compile_reason="it pays"
        ),
    )
    words = words_of(shown)
    assert "Trained by 2 workers on cpu in fp32, up to 3 runs at a time each" in words
    assert "Steps are compiled: it pays." in words
