"""Progress is told now and then, and at the end."""

import numpy as np

from simulator.training.observers.progress import ProgressObserver
from simulator.training.records import LifeCycle, StepMade, StepStats


def make_step(step: int) -> StepMade:
    stats = StepStats(
        loss=np.array([5.0 - step]),
        mtp_loss=None,
        balance_loss=None,
        grad_norm=np.ones(1),
        is_clipped=np.zeros(1, dtype=bool),
        max_violation=np.zeros((1, 0)),
    )
    return StepMade(
        step=step,
        tokens=step,
        lr=np.ones(1),
        stats=stats,
        data_seconds=0.0,
        forward_backward_seconds=0.0,
        apply_seconds=0.0,
    )


def reports(seconds_per_step: float) -> list[tuple[int, float]]:
    told: list[tuple[int, float]] = []
    now = [0.0]
    observer = ProgressObserver(
        began=lambda: told.append((0, 0.0)),
        report=lambda step, loss: told.append((step, loss)),
        clock=lambda: now[0],
        interval_seconds=1.0,
    )
    for step in range(1, 6):
        observer.observe(make_step(step))
        now[0] += seconds_per_step
    observer.observe(LifeCycle(kind="ended", step=5))
    return told


def test_slow_steps_are_all_told() -> None:
    assert [step for step, _ in reports(2.0)] == [1, 2, 3, 4, 5]


def test_fast_steps_are_told_once_an_interval_and_the_last_at_the_end() -> None:
    assert reports(0.5) == [(1, 4.0), (3, 2.0), (5, 0.0)]


def test_last_step_is_told_even_within_an_interval() -> None:
    assert [step for step, _ in reports(0.1)] == [1, 5]


def test_start_is_told_once() -> None:
    told: list[str] = []
    observer = ProgressObserver(
        began=lambda: told.append("began"), report=lambda step, loss: None, clock=lambda: 0.0
    )
    observer.observe(LifeCycle(kind="started", step=0))
    observer.observe(make_step(1))
    assert told == ["began"]
