"""The study directory survives crashes and refuses what it does not know."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.records.layout import StudyLayout
from simulator.records.summary import Flag
from simulator.records.types import StudyRecord, TrialRecord
from simulator.specs.codec import encode
from simulator.specs.errors import StoppedError, StudyError
from sweeps.store import Store, resume_command
from tests.sweeps.studies import run_inline, small_sweep
from tests.sweeps.sweep_specs import make_sweep


def make_round(first: int, size: int) -> list[TrialRecord]:
    return [
        TrialRecord(
            number=number,
            batch=0,
            purpose="search",
            config=number,
            params={"peak_lr": 0.1 + number},
            seed=0,
            round_size=size,
            fingerprint=f"{number:016x}",
        )
        for number in range(first, first + size)
    ]


def make_head(**changes: object) -> StudyRecord:
    fields = {"name": "a", "created": "", "code_version": "", "sweep": encode(make_sweep())}
    return StudyRecord(**(fields | changes))  # type: ignore[arg-type]


def test_ledger_returns_what_was_appended(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path))
    assert store.trials() == ()
    store.append(make_round(0, 2))
    store.append(make_round(2, 3))
    assert list(store.trials()) == [*make_round(0, 2), *make_round(2, 3)]
    assert len(store.layout.ledger.read_text().splitlines()) == 5


@given(st.data())
def test_ledger_torn_anywhere_keeps_its_whole_rounds(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = Store(StudyLayout(tmp_path_factory.mktemp("torn")))
    store.append(make_round(0, 2))
    kept = store.layout.ledger.stat().st_size
    store.append(make_round(2, 3))
    whole = store.layout.ledger.read_bytes()
    end = data.draw(st.integers(0, len(whole)))
    store.layout.ledger.write_bytes(whole[:end])
    expected = make_round(0, 2) if end >= kept else []
    if end == len(whole):
        expected += make_round(2, 3)
    assert list(store.trials()) == expected
    store.append(make_round(len(expected), 1))
    assert list(store.trials()) == [*expected, *make_round(len(expected), 1)]


def test_damage_before_the_end_is_reported(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path))
    store.append(make_round(0, 2))
    lines = store.layout.ledger.read_text().splitlines()
    store.layout.ledger.write_text("\n".join(["{", *lines]) + "\n")
    with pytest.raises(StudyError, match=r"ledger\.jsonl:1 must hold a trial"):
        store.trials()


def test_study_is_created_once_and_read_back(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path))
    assert store.head() is None
    store.create(make_head(), source="x = 1\n", plan={"a": 1})
    assert store.head() == make_head()
    assert store.sweep() == make_sweep()


def test_warnings_of_the_plan_are_read_back(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path))
    assert store.planned_flags() == ()
    flag = Flag(severity="red", code="does_not_fit", message="too large")
    store.create(make_head(), source="", plan={"flags": [encode(flag)]})
    assert store.planned_flags() == (flag,)


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path))
    value = encode(make_head()) | {"schema_version": 99, "unknown": True}
    store.layout.study.write_text(json.dumps(value))
    with pytest.raises(StudyError, match="schema_version 1 to"):
        store.head()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 1}'])
def test_damaged_head_is_reported(tmp_path: Path, text: str) -> None:
    store = Store(StudyLayout(tmp_path))
    store.layout.study.write_text(text)
    with pytest.raises(StudyError, match=r"study\.json"):
        store.sweep()


def test_only_final_records_count(tmp_path: Path) -> None:
    run_inline(tmp_path, small_sweep())
    store = Store(StudyLayout(tmp_path))
    trial = store.trials()[0]
    record = store.record(trial.fingerprint)
    assert record is not None
    path = store.layout.run(trial.fingerprint).record
    for status in ("running", "preempted", "stale"):
        path.write_text(json.dumps(encode(record) | {"status": status}))
        assert store.record(trial.fingerprint) is None


def test_other_errors_of_the_system_pass(tmp_path: Path) -> None:
    store = Store(StudyLayout(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError), store.watching_disk():
        store.append(make_round(0, 1))


def test_full_disk_names_the_command(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs program: a Linux /dev/full")
    store = Store(StudyLayout(tmp_path))
    store.layout.ledger.symlink_to("/dev/full")
    with pytest.raises(StoppedError, match="sweep resume"), store.watching_disk():
        store.append(make_round(0, 1))


def test_resume_command_survives_a_shell() -> None:
    assert resume_command(StudyLayout(Path("my runs/a"))) == "sweep resume 'my runs/a'"
