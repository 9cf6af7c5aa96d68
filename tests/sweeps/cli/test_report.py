import json
from pathlib import Path

import pytest

from simulator.records.layout import StudyLayout
from sweeps.cli import run_command
from tests.reports.studies import Options, write_study


@pytest.fixture
def layout(tmp_path: Path) -> StudyLayout:
    options = Options(num_configs=4, num_steps=30, statuses={})
    return StudyLayout(write_study(tmp_path / "study", options))


def test_page_is_written_beside_the_records(
    layout: StudyLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["report", str(layout.root)]) == 0
    assert layout.report.read_text().startswith("<!doctype html>")
    output = capsys.readouterr().out
    assert str(layout.report) in output
    assert "Configurations tried on the proxy" in output


def test_json_is_the_summary(layout: StudyLayout, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["report", str(layout.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(layout.summary.read_text())


def test_a_study_under_way_has_a_page_too(
    layout: StudyLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.summary.unlink()
    assert run_command(["report", str(layout.root)]) == 0
    assert "no outcome yet" in capsys.readouterr().out
    assert "Lowest loss so far" in layout.report.read_text()


def test_page_that_cannot_be_written_is_the_users_error(
    layout: StudyLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    out = layout.root / "missing" / "page.html"
    assert run_command(["report", str(layout.root), "--out", str(out)]) == 2
    assert f"{out} must be writable" in capsys.readouterr().err


def test_folder_that_is_no_study_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["report", str(tmp_path)]) == 2
    assert "must be a study directory" in capsys.readouterr().err
