"""Progress is told now and then, and at the end."""

import numpy as np

from simulator.training.observers.progress import ProgressObserver
from simulator.training.records import LifeCycle, StepMade, StepStats


def make_step(step: int) -> StepMade:
    stats = StepStats(
        loss=np.array([5.0 - step, 9.0]),
        mtp_loss=None,
        balance_loss=None,
        grad_norm=np.ones(2),
        is_clipped=np.zeros(2, dtype=bool),
        max_violation=np.zeros((2, 0)),
    )
    return StepMade(
        step=step,
        tokens=step,
        lr=np.ones(2),
        stats=stats,
        data_seconds=0.0,
        forward_backward_seconds=0.0,
        apply_seconds=0.0,
    )


def reports(seconds_per_step: float, *, row: int = 0) -> list[tuple[int, float]]:
    told: list[tuple[int, float]] = []
    now = [0.0]
    observer = ProgressObserver(
        lambda step, loss: told.append((step, loss)),
        clock=lambda: now[0],
        interval_seconds=1.0,
        row=row,
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


def test_loss_of_the_named_row_is_told() -> None:
    assert reports(0.1, row=1)[0] == (1, 9.0)
