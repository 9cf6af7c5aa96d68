"""The summary says what ledger and records hold."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.records.layout import StudyLayout
from simulator.records.summary import StudySummary
from simulator.specs.codec import decode_json, encode
from sweeps.outcome import summarise
from sweeps.scales import transfer_of
from sweeps.spec import SweepSpec
from sweeps.stages import loss_table, margin, num_planned
from sweeps.store import Store
from sweeps.testing import FakeTrainer
from tests.sweeps.studies import ledger, run_inline, small_sweep

SWEEP = small_sweep(num_trials=12)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    run_inline(folder, SWEEP, FakeTrainer(diverges_above_lr=3e-2))
    return folder


@pytest.fixture(scope="module")
def summary(root: Path) -> StudySummary:
    return decode_json(StudySummary, StudyLayout(root).summary.read_bytes())


def summarise_with(root: Path, sweep: SweepSpec, **changes: object) -> StudySummary:
    """Summarise the stored study with every record changed alike."""
    store = Store(StudyLayout(root))
    trials = store.trials()
    records = {}
    for trial in trials:
        record = store.record(trial.fingerprint)
        assert record is not None
        records[trial.fingerprint] = replace(record, **changes)  # type: ignore[arg-type]
    return summarise(sweep, trials, records)


def test_every_configuration_that_ended_well_is_there_once(
    root: Path, summary: StudySummary
) -> None:
    shown = [*summary.top, *summary.ties, *summary.others]
    store = Store(StudyLayout(root))
    losses = loss_table(
        store.trials(),
        {t.fingerprint: r for t in store.trials() if (r := store.record(t.fingerprint))},
    )
    well = {config for config, row in losses.items() if not all(map(math.isnan, row.values()))}
    assert Counter(config.config for config in shown) == Counter(well)
    for config in shown:
        assert dict(zip(config.seeds, config.losses, strict=True)) == {
            seed: loss for seed, loss in losses[config.config].items() if math.isfinite(loss)
        }


def test_top_and_ties_have_recipes_for_the_target(summary: StudySummary) -> None:
    assert len(summary.top) == 3
    for config in (*summary.top, *summary.ties):
        assert config.recipe is not None
        assert config.recipe.num_steps == SWEEP.target.num_steps
        assert config.recipe.schedule == config.params["schedule"]
    assert all(config.recipe is None for config in summary.others)


def test_finalists_are_those_of_the_ledger(root: Path, summary: StudySummary) -> None:
    finalists = {trial.config for trial in ledger(root) if trial.purpose == "finalist"}
    shown = [*summary.top, *summary.ties, *summary.others]
    assert {config.config for config in shown if config.is_finalist} == finalists


def test_incumbent_is_compared_with_the_best(summary: StudySummary) -> None:
    assert summary.incumbent is not None
    assert summary.incumbent.mean_loss is not None
    gain = summary.incumbent.mean_loss - summary.top[0].mean_loss
    assert summary.incumbent.gain == pytest.approx(gain)


def test_runs_are_counted_once_by_status(root: Path, summary: StudySummary) -> None:
    assert sum(summary.trials.values()) == len({trial.fingerprint for trial in ledger(root)})
    assert summary.trials["diverged"] > 0
    assert summary.sweep_flops == 1e9 * 20 * sum(summary.trials.values())


def test_margin_is_the_fixed_share_of_the_best_loss(root: Path, summary: StudySummary) -> None:
    store = Store(StudyLayout(root))
    records = {t.fingerprint: r for t in store.trials() if (r := store.record(t.fingerprint))}
    losses = loss_table(store.trials(), records)
    best = min(row[0] for row in losses.values() if math.isfinite(row[0]))
    assert margin(SWEEP, losses) == summary.delta == 0.003 * best


def test_summary_is_a_function_of_ledger_and_records(root: Path, summary: StudySummary) -> None:
    assert summarise_with(root, SWEEP) == summary


def test_sweep_that_learnt_nothing_is_vacuous(root: Path) -> None:
    assert summarise_with(root, SWEEP, unigram_entropy=2.0).verdict == "vacuous"


def test_axes_changed_besides_width_are_named(root: Path) -> None:
    target = replace(SWEEP.target, model=replace(SWEEP.target.model, n_layers=61))
    found = summarise_with(root, replace(SWEEP, target=target))
    assert "the change of depth from 3 to 61" in found.statement


def test_transfer_has_both_sides() -> None:
    transfer = transfer_of(SWEEP)
    assert transfer.width_ratio == 8
    assert transfer.proxy.num_tokens == 20 * 8 * 32
    assert transfer.target.num_tokens == SWEEP.target.num_tokens


def test_plan_bounds_the_number_of_runs(root: Path) -> None:
    assert len({trial.fingerprint for trial in ledger(root)}) <= num_planned(SWEEP)


def test_summary_survives_encoding(summary: StudySummary) -> None:
    assert encode(summary)["verdict"] == summary.verdict
