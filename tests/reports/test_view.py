import json
from pathlib import Path

import pytest

from reports import view as views
from reports.view import StudyView, make_view
from simulator.records.layout import StudyLayout
from simulator.records.reader import StudyReader
from tests.reports.studies import Options, write_head, write_study

SMALL = Options(num_configs=4, num_steps=30, statuses={})


def test_every_run_with_evaluations_has_its_curve(study: StudyReader, view: StudyView) -> None:
    assert len(view.curves) == len(study.trials)
    best = [curve for curve in view.curves if curve.is_best]
    assert {curve.config for curve in best} == {view.rows[0].config}
    assert len(best) == 3


def test_finalists_are_compared_seed_by_seed(view: StudyView) -> None:
    best = view.finalists[0]
    assert best.by_seed == (0.0, 0.0, 0.0)
    for finalist in view.finalists[1:]:
        mean = sum(finalist.by_seed) / len(finalist.by_seed)
        assert mean == pytest.approx(finalist.difference)


def test_schedules_are_those_of_the_top_and_the_incumbent(view: StudyView) -> None:
    assert [curve.name for curve in view.schedules][:3] == [row.name for row in view.rows[:3]]
    assert view.schedules[-1].is_incumbent
    for curve in view.schedules:
        row = next(row for row in view.rows if row.name == curve.name)
        assert max(curve.rates) == pytest.approx(row.peak_lr)
        assert curve.fractions[-1] == 1.0


def test_without_plan_dimensions_come_from_the_models(view: StudyView) -> None:
    found = {entry.name: entry for entry in view.dimensions}
    assert (found["dim"].target, found["dim"].proxy) == ("1024", "128")
    assert found["dim"].treatment == "scaled"
    assert found["n_layers"].treatment == "kept"
    assert view.width_factor == 8


def test_the_plans_dimensions_and_reasons_are_preferred(tmp_path: Path) -> None:
    layout = StudyLayout(write_study(tmp_path, SMALL))
    change = {
        "name": "n_layers",
        "target": 61.0,
        "proxy": 4.0,
        "treatment": "cut",
        "reason": "cut: adds depth",
    }
    layout.plan.write_text(json.dumps({"dimensions": [change]}))
    (found,) = make_view(StudyReader(tmp_path)).dimensions
    assert (found.target, found.proxy, found.treatment) == ("61", "4", "cut")
    assert found.reason == "cut: adds depth"


def test_flags_are_the_gravest_first(view: StudyView) -> None:
    assert [flag.severity for flag in view.flags] == ["amber", "info"]


def test_a_remark_on_every_recipe_names_none(view: StudyView) -> None:
    ((names, flag),) = view.recipe_flags
    assert names == ""
    assert flag.code == "tokens_per_param"


def test_a_remark_made_on_the_study_is_not_made_again(study: StudyReader, tmp_path: Path) -> None:
    layout = StudyLayout(write_study(tmp_path, SMALL))
    summary = json.loads(layout.summary.read_text())
    summary["flags"].append({"severity": "red", "code": "tokens_per_param", "message": "Far."})
    layout.summary.write_text(json.dumps(summary))
    assert make_view(StudyReader(tmp_path)).recipe_flags == ()


def test_curves_are_bounded_and_the_rest_counted(
    study: StudyReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_CURVES", 3)
    view = make_view(study)
    assert view.num_curves_left_out == 13 - 3
    assert {curve.config for curve in view.curves} == {row.config for row in view.rows[:3]}


def test_provenance_lists_what_differs_between_runs(tmp_path: Path) -> None:
    layout = StudyLayout(write_study(tmp_path, SMALL))
    path = next(layout.root.glob("runs/*/record.json"))
    record = json.loads(path.read_text()) | {"code_version": "0.2.0"}
    path.write_text(json.dumps(record))
    source = make_view(StudyReader(tmp_path)).provenance
    assert source.code_versions == ("0.1.0+g1e00a86", "0.2.0")
    assert source.seeds == (0, 1, 2)
    assert source.data_sha256 == "3f1c" * 16


def test_an_empty_study_is_a_view_of_nothing(tmp_path: Path) -> None:
    write_head(tmp_path, SMALL)
    view = make_view(StudyReader(tmp_path))
    assert (view.rows, view.curves, view.finalists, view.schedules) == ((), (), (), ())
    assert view.dimensions


def test_a_head_without_known_keys_is_a_view_of_nothing(tmp_path: Path) -> None:
    write_head(tmp_path, SMALL)
    path = StudyLayout(tmp_path).study
    head = json.loads(path.read_text()) | {"sweep": {"target": 3, "base": {"data": []}}}
    path.write_text(json.dumps(head))
    view = make_view(StudyReader(tmp_path))
    assert view.dimensions == ()
    assert view.target_name == "the target"
