import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from reports.terminal import MAX_ROWS, render_summary
from simulator.records.reader import StudyReader
from simulator.records.summary import StudySummary
from tests.reports.studies import Options, write_study


@pytest.fixture(scope="module")
def summary(study: StudyReader) -> StudySummary:
    assert study.summary is not None
    return study.summary


def printed(summary: StudySummary, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(render_summary(summary))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [100, 90, 80, 72])
def test_it_keeps_to_its_columns_without_cutting_a_number(
    summary: StudySummary, width: int
) -> None:
    text = printed(summary, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_every_configuration_has_its_line_best_first(summary: StudySummary) -> None:
    lines = printed(summary).splitlines()
    ranked = [*summary.top, *summary.ties, *summary.others]
    places = [
        next(n for n, line in enumerate(lines) if f"{found.mean_loss:.4f}" in line)
        for found in ranked
    ]
    assert places == sorted(places)


def test_verdict_statement_and_gain_are_stated(summary: StudySummary) -> None:
    text = " ".join(printed(summary).split())
    assert summary.incumbent is not None
    assert text.startswith("quickstart: hyperparameters for deepseek-v3-mini Resolved.")
    assert summary.statement in text
    assert f"beats the incumbent by {summary.incumbent.gain:.4f}" in text


def test_recipes_are_of_the_target(summary: StudySummary) -> None:
    text = printed(summary)
    assert "What they become for deepseek-v3-mini: 1,000 steps of 4,096 tokens" in text
    assert "4.57e-4 3.66e-4 to 5.58e-4" in text


def test_every_column_is_explained(summary: StudySummary) -> None:
    text = printed(summary)
    for word in ("loss:", "above best:", "x noise:", "tau:", "incumbent:"):
        assert word in text


def test_ties_are_explained_where_there_are_some(summary: StudySummary) -> None:
    assert "tie:" not in printed(replace(summary, ties=()))
    assert "tie:" in printed(replace(summary, ties=summary.others[:2]))


def test_recipes_beyond_the_first_are_left_to_the_page(summary: StudySummary) -> None:
    ties = tuple(replace(summary.top[2], config=50 + n) for n in range(7))
    text = printed(replace(summary, ties=ties))
    assert "The page has the recipes of 4 more ties." in text


def test_runs_without_loss_are_counted(summary: StudySummary) -> None:
    assert "1 diverged" in printed(summary)
    assert "2 out of memory" in printed(replace(summary, trials={"complete": 3, "oom": 2}))


def test_noise_that_was_not_measured_is_not_made_up(tmp_path: Path) -> None:
    options = Options(num_configs=3, num_seeds=1, num_steps=30, statuses={})
    summary = StudyReader(write_study(tmp_path, options)).summary
    assert summary is not None
    assert "not measured" in printed(summary)


def test_nothing_ranked_is_said(summary: StudySummary) -> None:
    empty = replace(summary, top=(), ties=(), others=(), verdict="incomplete", incumbent=None)
    text = printed(empty)
    assert "nothing to rank" in text
    assert "Incomplete" in text


def test_a_long_study_is_cut_but_shows_its_incumbent(summary: StudySummary) -> None:
    fill = tuple(replace(summary.others[-1], config=100 + n) for n in range(300))
    last = next(row for row in (*summary.ties, *summary.others) if row.config == 0)
    text = printed(replace(summary, ties=(), others=(*fill, last)))
    assert text.count("cosine_to_10pct") <= MAX_ROWS
    assert "304 #0 incumbent" in text
    assert "304 configurations were tried" in text


def test_hostile_text_is_printed_as_it_is(summary: StudySummary) -> None:
    hostile = "[bold red]x[/] \x1b[2J" + "y" * 3000
    text = printed(replace(summary, name=hostile, statement=hostile, target_name=hostile))
    assert "[bold red]x[/]" in text
    assert "\x1b" not in text
    assert len(text) < 20_000
