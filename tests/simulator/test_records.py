import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.records.layout import StudyLayout
from simulator.records.owner import Owner, is_owner_alive, process_start
from simulator.records.reader import StudyReader
from simulator.records.types import SCHEMA_VERSION
from simulator.specs.errors import StudyError
from tests.reports.studies import Options, write_study

OWNER: dict[str, Any] = {
    "pid": os.getpid(),
    "host": socket.gethostname(),
    "since": "2026-11-30T21:40:00Z",
    "process_start": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", Options(num_configs=3, num_steps=50, num_seeds=2))


@pytest.fixture
def layout(root: Path) -> StudyLayout:
    return StudyLayout(root)


def first_run(root: Path) -> tuple[str, Path]:
    fingerprint = StudyReader(root).trials[0].fingerprint
    return fingerprint, StudyLayout(root).run(fingerprint).root


def test_reader_returns_what_was_written(root: Path) -> None:
    study = StudyReader(root)
    assert study.head.name == "quickstart"
    assert [trial.number for trial in study.trials] == list(range(len(study.trials)))
    run = study.runs[study.trials[0].fingerprint]
    assert run.status == "complete"
    assert run.spec is not None
    assert run.spec.num_steps == 50
    assert [point.step for point in run.steps()] == list(range(1, 51))
    assert [point.step for point in run.evals()] == [25, 50]
    assert run.health() == ()
    assert study.summary is not None
    assert study.summary.top[0].config in {trial.config for trial in study.trials}


def test_reading_changes_no_file(root: Path) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}

    before = state()
    study = StudyReader(root)
    assert study.trials
    assert study.summary
    assert study.plan is None
    assert [run.steps() for run in study.runs.values()]
    assert state() == before


@pytest.mark.parametrize(
    ("prepare", "found"),
    [
        (lambda path: None, "no such folder"),
        (lambda path: path.mkdir(), "an empty folder"),
        (lambda path: path.write_text("x"), "a file"),
        (lambda path: (path.mkdir(), (path / "notes.txt").touch()), "a folder with notes.txt"),
    ],
)
def test_what_is_not_a_study_is_refused_with_what_it_is(tmp_path, prepare, found) -> None:
    prepare(tmp_path / "thing")
    with pytest.raises(StudyError, match=found):
        StudyReader(tmp_path / "thing")


@pytest.mark.parametrize("text", ["{", "[]", "\x00", '{"schema_version": true}', "{}"])
def test_a_broken_head_is_refused_by_its_path(layout: StudyLayout, text: str) -> None:
    layout.study.write_text(text)
    with pytest.raises(StudyError, match=r"study\.json"):
        StudyReader(layout.root)


def test_a_newer_schema_is_refused_before_its_content_is_judged(layout: StudyLayout) -> None:
    layout.study.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1, "unheard_of": 1}))
    with pytest.raises(StudyError, match="schema_version") as caught:
        StudyReader(layout.root)
    assert caught.value.found == SCHEMA_VERSION + 1


def test_a_newer_summary_is_refused(layout: StudyLayout) -> None:
    layout.summary.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(StudyError, match=r"summary\.json"):
        _ = StudyReader(layout.root).summary


def test_a_misspelt_key_of_a_record_is_named(root: Path) -> None:
    fingerprint, folder = first_run(root)
    record = json.loads((folder / "record.json").read_text())
    record["los"] = record.pop("loss")
    (folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(StudyError, match=r"record\.json must hold a RunRecord: los"):
        _ = StudyReader(root).runs[fingerprint].record


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_of_the_ledger_is_left_out(layout: StudyLayout, cut: int) -> None:
    whole = StudyReader(layout.root).trials
    layout.ledger.write_bytes(layout.ledger.read_bytes()[: -1 - cut])
    assert StudyReader(layout.root).trials == whole[:-1]


def test_a_round_cut_short_does_not_count(layout: StudyLayout) -> None:
    lines = [json.loads(line) for line in layout.ledger.read_text().splitlines()]
    lines[-1]["round_size"] = 2
    layout.ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    trials = StudyReader(layout.root).trials
    assert [trial.number for trial in trials] == list(range(len(lines) - 1))


def test_a_broken_line_within_the_ledger_is_an_error_with_its_number(layout: StudyLayout) -> None:
    lines = layout.ledger.read_text().splitlines()
    lines[1] = lines[1][:30]
    layout.ledger.write_text("\n".join(lines) + "\n")
    with pytest.raises(StudyError, match=r"ledger\.jsonl:2"):
        _ = StudyReader(layout.root).trials


def test_a_series_survives_tearing_anywhere(root: Path) -> None:
    fingerprint, folder = first_run(root)
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    torn = [*lines[:10], lines[10][:25], *lines[11:30], lines[30][:40]]
    (folder / "steps.jsonl").write_text("".join(torn))
    steps = [point.step for point in StudyReader(root).runs[fingerprint].steps()]
    assert steps == [*range(1, 11), *range(13, 31)]


def test_of_a_step_written_before_and_after_a_resume_the_later_counts(root: Path) -> None:
    fingerprint, folder = first_run(root)
    lines = (folder / "steps.jsonl").read_text().splitlines()
    again = json.loads(lines[19]) | {"loss": 1.5}
    (folder / "steps.jsonl").write_text("\n".join([*lines[:30], json.dumps(again)]) + "\n")
    steps = StudyReader(root).runs[fingerprint].steps()
    assert [point.step for point in steps] == list(range(1, 31))
    assert steps[19].loss == 1.5


def test_the_last_points_of_a_diverging_run_are_kept(root: Path) -> None:
    fingerprint, folder = first_run(root)
    lines = (folder / "steps.jsonl").read_text().splitlines()
    last = json.loads(lines[-1]) | {"loss": float("nan"), "grad_norm": float("inf")}
    (folder / "steps.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]))
    steps = StudyReader(root).runs[fingerprint].steps()
    assert len(steps) == 50
    assert steps[-1].loss != steps[-1].loss


@pytest.mark.parametrize(("has_driver", "status"), [(True, "running"), (False, "stale")])
def test_a_run_without_record_is_stale_once_the_driver_is_gone(
    layout: StudyLayout, has_driver: bool, status: str
) -> None:
    fingerprint, folder = first_run(layout.root)
    (folder / "record.json").unlink()
    layout.owner.write_text(json.dumps(OWNER))
    study = StudyReader(layout.root, probe=lambda owner: has_driver)
    assert study.runs[fingerprint].status == status


def test_a_trial_nobody_began_has_no_status(root: Path) -> None:
    fingerprint, folder = first_run(root)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    run = StudyReader(root).runs[fingerprint]
    assert (run.status, run.spec, run.record, run.steps()) == (None, None, None, ())


def owner(**changes: Any) -> Owner:
    return Owner(**(OWNER | changes))


def test_an_owner_lives_while_its_process_does() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert is_owner_alive(owner(pid=os.getpid()))
    assert not is_owner_alive(owner(pid=process.pid))


def test_an_owner_on_another_machine_counts_as_alive() -> None:
    assert is_owner_alive(owner(pid=2**22 - 1, host=OWNER["host"] + "-another"))


def test_a_later_process_of_the_same_number_is_not_the_owner() -> None:
    assert is_owner_alive(owner(process_start=process_start(os.getpid())))
    assert not is_owner_alive(owner(process_start="1"))
