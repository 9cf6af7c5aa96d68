"""Series on disk: what is written when, and what a resumed run drops."""

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.types import EvalPoint, HealthPoint, StepPoint
from simulator.training.observers.json_lines import JsonLinesObserver, cut_series
from simulator.training.records import (
    Evaluation,
    EvaluationMade,
    Health,
    HealthTaken,
    LifeCycle,
    StepMade,
    StepStats,
)


def make_step(step: int) -> StepMade:
    stats = StepStats(
        loss=np.array([3.5]),
        mtp_loss=np.array([4.5]),
        balance_loss=None,
        grad_norm=np.array([0.25]),
        is_clipped=np.array([False]),
        max_violation=np.zeros((1, 2)),
    )
    return StepMade(
        step=step,
        tokens=8 * step,
        lr=np.array([1e-3]),
        stats=stats,
        data_seconds=0.1,
        forward_backward_seconds=0.2,
        apply_seconds=0.3,
    )


def make_eval(step: int) -> EvaluationMade:
    evaluation = Evaluation(
        loss={"heldout": np.array([3.0])},
        bits_per_byte={"heldout": None},
        mtp_loss={"heldout": np.array([5.0])},
    )
    return EvaluationMade(step=step, tokens=8 * step, evaluation=evaluation, seconds=0.5)


def make_health(step: int) -> HealthTaken:
    health = Health(
        max_attention_logit=(np.array([[3.0, 4.0]]),),
        min_grad_rms_over_eps=np.array([2e6]),
    )
    return HealthTaken(
        step=step,
        health=health,
        max_violation=np.array([[0.3, 0.4]]),
        clipped_fraction=np.array([0.5]),
    )


def steps_on_disk(layout: RunLayout) -> list[int]:
    if not layout.steps.exists():
        return []
    return [json.loads(line)["step"] for line in layout.steps.read_text().splitlines()]


def observed(layout: RunLayout, *steps: int, start: int = 0) -> JsonLinesObserver:
    observer = JsonLinesObserver(layout)
    observer.observe(LifeCycle(kind="started", step=start))
    for step in steps:
        observer.observe(make_step(step))
    return observer


def test_points_read_back_as_they_were(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observer = JsonLinesObserver(layout)
    records = (make_step(1), make_health(1), make_eval(1))
    for record in (*records, LifeCycle(kind="ended", step=1)):
        observer.observe(record)
    reader = RunReader(layout, has_driver=False)
    assert reader.steps() == (
        StepPoint(
            step=1,
            tokens=8,
            loss=3.5,
            mtp_loss=4.5,
            balance_loss=None,
            lr=1e-3,
            grad_norm=0.25,
            is_clipped=False,
            data_seconds=0.1,
            forward_backward_seconds=0.2,
            apply_seconds=0.3,
        ),
    )
    assert reader.evals() == (
        EvalPoint(
            step=1,
            tokens=8,
            loss={"heldout": 3.0},
            bits_per_byte={"heldout": None},
            mtp_loss={"heldout": 5.0},
            seconds=0.5,
        ),
    )
    assert reader.health() == (
        HealthPoint(
            step=1,
            max_attention_logit=((3.0, 4.0),),
            max_violation=(0.3, 0.4),
            clipped_fraction=0.5,
            min_grad_rms_over_eps=2e6,
        ),
    )


def test_steps_are_held_back_until_something_is_due(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, 1, 2, 3)
    assert steps_on_disk(layout) == []


@pytest.mark.parametrize("kind", ["checkpoint", "ended", "stopped"])
def test_everything_is_on_the_disk_after_a_life_cycle_record(tmp_path: Path, kind: str) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, 1, 2, 3).observe(LifeCycle(kind=kind, step=3))  # type: ignore[arg-type]
    assert steps_on_disk(layout) == [1, 2, 3]


def test_evaluation_brings_the_steps_to_the_disk(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, 1, 2).observe(make_eval(2))
    assert steps_on_disk(layout) == [1, 2]


def test_long_stretch_without_evaluation_is_written_in_between(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, *range(1, 251))
    assert steps_on_disk(layout) == list(range(1, 201))


def test_start_from_a_checkpoint_drops_later_and_torn_lines(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, 1, 2, 3, 4).observe(LifeCycle(kind="ended", step=4))
    with layout.steps.open("a") as file:
        file.write('{"step":2,"tok')
    observed(layout, 3, start=2).observe(LifeCycle(kind="ended", step=3))
    assert steps_on_disk(layout) == [1, 2, 3]


def test_start_from_nothing_drops_every_line(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observed(layout, 1, 2).observe(LifeCycle(kind="ended", step=2))
    observed(layout)
    assert not layout.steps.exists()


def test_rewind_drops_what_is_pending_and_what_is_written(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    observer = observed(layout, 1, 2, 3)
    observer.observe(LifeCycle(kind="checkpoint", step=3))
    observer.observe(make_step(4))
    observer.observe(LifeCycle(kind="rewound", step=2))
    observer.observe(make_step(3))
    observer.observe(LifeCycle(kind="ended", step=3))
    assert steps_on_disk(layout) == [1, 2, 3]


def test_series_that_is_not_there_needs_no_cut(tmp_path: Path) -> None:
    cut_series(tmp_path / "steps.jsonl", 3)
    assert not list(tmp_path.iterdir())
