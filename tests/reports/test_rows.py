import json
from pathlib import Path

import pytest

from reports.rows import config_rows
from simulator.records.layout import StudyLayout
from simulator.records.reader import StudyReader
from tests.reports.studies import Options, write_study

SMALL = Options(num_configs=5, num_steps=30, statuses={3: "diverged"})


def test_order_and_numbers_are_the_summarys(study: StudyReader) -> None:
    summary = study.summary
    assert summary is not None
    ranked = [*summary.top, *summary.ties, *summary.others]
    rows = [row for row in config_rows(study) if row.rank is not None]
    assert [row.config for row in rows] == [found.config for found in ranked]
    assert [row.loss for row in rows] == [found.mean_loss for found in ranked]
    assert [row.difference for row in rows] == [found.difference for found in ranked]
    assert [row.rank for row in rows] == list(range(1, len(ranked) + 1))


def test_gain_is_against_the_incumbent(study: StudyReader) -> None:
    rows = config_rows(study)
    assert study.summary is not None
    assert study.summary.incumbent is not None
    assert rows[0].gain == pytest.approx(study.summary.incumbent.gain)
    assert [row.gain for row in rows if row.is_incumbent] == [0.0]


def test_without_summary_the_order_is_provisional_by_mean_loss(tmp_path: Path) -> None:
    write_study(tmp_path, SMALL)
    (tmp_path / "summary.json").unlink()
    rows = config_rows(StudyReader(tmp_path))
    losses = [row.loss for row in rows if row.loss is not None]
    assert losses == sorted(losses)
    assert rows[0].difference == 0.0
    assert {row.rank for row in rows} == {None}


def test_a_configuration_without_loss_comes_last_with_its_reason(tmp_path: Path) -> None:
    last = config_rows(StudyReader(write_study(tmp_path, SMALL)))[-1]
    assert (last.config, last.status, last.loss) == (3, "diverged", None)
    assert "not finite" in last.reason


def test_status_counts_the_seeds_that_completed(tmp_path: Path) -> None:
    write_study(tmp_path, SMALL)
    study = StudyReader(tmp_path)
    best = config_rows(study)[0]
    StudyLayout(tmp_path).run(best.runs[-1].fingerprint).record.unlink()
    row = next(r for r in config_rows(StudyReader(tmp_path)) if r.config == best.config)
    assert row.status == "2 of 3 complete"
    assert row.runs[-1].status == "stale"


def test_a_run_that_serves_two_purposes_counts_once(tmp_path: Path) -> None:
    ledger = StudyLayout(write_study(tmp_path, SMALL)).ledger
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    again = lines[-1] | {"number": len(lines), "purpose": "noise"}
    ledger.write_text("".join(json.dumps(line) + "\n" for line in [*lines, again]))
    fingerprints = [
        run.fingerprint for row in config_rows(StudyReader(tmp_path)) for run in row.runs
    ]
    assert len(fingerprints) == len(set(fingerprints)) == len(lines)


def test_timescale_follows_from_rate_decay_and_steps(study: StudyReader) -> None:
    for row in config_rows(study):
        assert row.tau is not None
        assert row.peak_lr is not None
        assert row.weight_decay is not None
        assert row.tau == pytest.approx(1 / (row.peak_lr * row.weight_decay * 100))


def test_interval_of_matrices_is_in_the_ratio_of_their_rate(study: StudyReader) -> None:
    row = config_rows(study)[0]
    assert row.recipe is not None
    assert row.matrix_lr_interval is not None
    low, high = row.matrix_lr_interval
    assert low < row.recipe.matrix_lr < high
    assert high / row.recipe.matrix_lr == pytest.approx(
        row.recipe.lr_interval_80[1] / row.recipe.peak_lr
    )
