"""The loop: what it asks of whom, in which order, and how it goes on after a stop."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.training.checkpoint import CheckpointFolder, Checkpoints, NoCheckpoints
from simulator.training.loop import TrainingJob, TrainingOutcome, train
from simulator.training.policies import GO_ON, Action, Policy, Verdict
from simulator.training.records import (
    Evaluation,
    EvaluationMade,
    FloatArray,
    Health,
    HealthTaken,
    LifeCycle,
    StepMade,
    StepStats,
    StepValues,
    TokenArray,
    TrainingRecord,
)
from simulator.training.scripted import ScriptedEngine

NUM_STEPS = 10


class Recorder:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.records: list[TrainingRecord] = []

    def observe(self, record: TrainingRecord) -> None:
        self.records.append(record)

    def steps(self) -> list[int]:
        return [record.step for record in self.records if isinstance(record, StepMade)]

    def kinds(self) -> list[str]:
        return [r.kind if isinstance(r, LifeCycle) else type(r).__name__ for r in self.records]


class Once:
    """A policy that decides ``action`` on one row the first time step ``step`` comes by."""

    def __init__(self, action: Action, step: int, *, row: int = 0) -> None:
        self._verdict = Verdict(action=action, reason=f"told to {action}")
        self._step, self._row = step, row
        self._is_spent = False

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        verdicts = [GO_ON] * len(stats.loss)
        if step == self._step and not self._is_spent:
            self._is_spent = True
            verdicts[self._row] = self._verdict
        return verdicts

    def state(self) -> dict[str, Any]:
        return {"is_spent": self._is_spent}

    def restore(self, state: dict[str, Any]) -> None:
        self._is_spent = state["is_spent"]


class StopAfter:
    """Asks the loop to stop at the n-th question."""

    def __init__(self, num_questions: int) -> None:
        self._left = num_questions

    def __call__(self) -> bool:
        self._left -= 1
        return self._left == 0


def make_batch(number: int) -> TokenArray:
    return np.full((2, 4), number, dtype=np.int64)


def make_job(
    *,
    num_rows: int = 1,
    losses: Callable[[int], FloatArray] | None = None,
    checkpoints: Checkpoints | None = None,
    policies: Sequence[Policy] = (),
    observers: Sequence[Recorder] = (),
    **changes: Any,
) -> TrainingJob:
    found = losses or (lambda number: np.full(num_rows, 5.0 - 0.1 * number))
    ticks = itertools.count()
    job = TrainingJob(
        engine=ScriptedEngine(found, num_rows=num_rows),
        num_rows=num_rows,
        num_steps=NUM_STEPS,
        tokens_per_step=8,
        batches=make_batch,
        schedule=lambda step: StepValues(
            lr=np.full(num_rows, 2.0**step), mtp_weight=0.0, bias_rate=0.0
        ),
        evaluate=lambda: Evaluation(
            loss={"heldout": np.ones(num_rows)},
            bits_per_byte={"heldout": None},
            mtp_loss={"heldout": None},
        ),
        inspect=lambda tokens: Health(
            max_attention_logit=(), min_grad_rms_over_eps=np.ones(num_rows)
        ),
        is_eval_due=lambda step: False,
        is_checkpoint_due=lambda step: step % 4 == 0,
        checkpoints=checkpoints or NoCheckpoints(),
        observers=observers,
        policies=policies,
        should_stop=lambda: False,
        clock=lambda: float(next(ticks)),
    )
    return replace(job, **changes)


def weights(job: TrainingJob) -> list[float]:
    found: list[float] = job.engine.state()["weight"].tolist()
    return found


def expected_weight(updates: Sequence[tuple[int, int]]) -> float:
    """Return the weight after updates of (step from 0, batch)."""
    return float(sum(2.0**step * (batch + 1) for step, batch in updates))


ALL = [(step, step) for step in range(NUM_STEPS)]


def statuses(outcome: TrainingOutcome) -> list[str]:
    return [row.status for row in outcome.rows]


def test_every_step_trains_on_its_own_batch_at_its_own_rate() -> None:
    job = make_job()
    outcome = train(job)
    assert weights(job) == [expected_weight(ALL)]
    assert (outcome.rows[0].status, outcome.rows[0].num_steps) == ("complete", NUM_STEPS)


def test_observers_see_every_step_in_order_between_start_and_end() -> None:
    recorder = Recorder()
    train(make_job(observers=[recorder]))
    assert recorder.steps() == list(range(1, NUM_STEPS + 1))
    assert recorder.kinds()[0] == "started"
    assert recorder.kinds()[-1] == "ended"


def test_step_carries_its_tokens_rate_and_the_split_of_its_time() -> None:
    recorder = Recorder()
    train(make_job(observers=[recorder]))
    step = next(record for record in recorder.records if isinstance(record, StepMade))
    assert (step.step, step.tokens, step.lr.tolist()) == (1, 8, [1.0])
    assert step.data_seconds == step.forward_backward_seconds == step.apply_seconds == 1.0


def test_evaluation_and_health_come_when_they_are_due() -> None:
    recorder = Recorder()
    train(make_job(observers=[recorder], is_eval_due={3, 10}.__contains__))
    evals = [r for r in recorder.records if isinstance(r, EvaluationMade)]
    healths = [r for r in recorder.records if isinstance(r, HealthTaken)]
    assert [r.step for r in evals] == [r.step for r in healths] == [3, 10]
    assert evals[0].seconds == 1.0


def test_clipped_fraction_counts_since_the_last_point() -> None:
    recorder = Recorder()
    train(make_job(observers=[recorder], is_eval_due={3, 10}.__contains__))
    healths = [r for r in recorder.records if isinstance(r, HealthTaken)]
    assert [r.clipped_fraction.tolist() for r in healths] == [[1 / 3], [4 / 7]]  # odd batches


def test_skipped_step_counts_but_does_not_update() -> None:
    job = make_job(policies=[Once("skip", 4)])
    outcome = train(job)
    assert weights(job) == [expected_weight([pair for pair in ALL if pair[0] != 3])]
    assert outcome.rows[0].num_steps == NUM_STEPS


def test_stopped_run_is_not_updated_by_its_last_batch() -> None:
    recorder = Recorder()
    job = make_job(policies=[Once("stop", 4)], observers=[recorder])
    (row,) = train(job).rows
    assert (row.status, row.num_steps, row.reason) == ("diverged", 3, "told to stop")
    assert weights(job) == [expected_weight(ALL[:3])]
    assert recorder.kinds()[-2:] == ["row_stopped", "ended"]


def test_one_run_stops_and_the_others_go_on() -> None:
    job = make_job(num_rows=3, policies=[Once("stop", 4, row=1)])
    outcome = train(job)
    assert statuses(outcome) == ["complete", "diverged", "complete"]
    assert [row.num_steps for row in outcome.rows] == [NUM_STEPS, 3, NUM_STEPS]
    assert weights(job) == [expected_weight(ALL), expected_weight(ALL[:3]), expected_weight(ALL)]


def test_loop_ends_when_every_run_has_stopped() -> None:
    recorder = Recorder()
    policies = [Once("stop", 4), Once("stop", 6, row=1)]
    outcome = train(make_job(num_rows=2, policies=policies, observers=[recorder]))
    assert statuses(outcome) == ["diverged", "diverged"]
    assert recorder.steps() == [1, 2, 3, 4, 5]


def make_folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoint", identity="abc")


def test_rewind_goes_back_and_on_with_batches_not_seen_yet(tmp_path: Path) -> None:
    recorder = Recorder()
    job = make_job(
        checkpoints=make_folder(tmp_path), policies=[Once("rewind", 7)], observers=[recorder]
    )
    outcome = train(job)
    later = [(step, step + 3) for step in range(4, NUM_STEPS)]  # batches 4, 5, 6 are not read again
    assert weights(job) == [expected_weight(ALL[:4] + later)]
    assert statuses(outcome) == ["complete"]
    assert recorder.steps() == [1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9, 10]
    rewound = [r for r in recorder.records if isinstance(r, LifeCycle) and r.kind == "rewound"]
    assert [(r.step, r.reason) for r in rewound] == [(4, "told to rewind")]


def test_rewind_without_a_checkpoint_stops_the_run() -> None:
    (row,) = train(make_job(policies=[Once("rewind", 3)])).rows
    assert row.status == "diverged"
    assert row.reason == "told to rewind (no checkpoint to go back to)"


@pytest.mark.parametrize("stop_after", [1, 3, 4, 9])
def test_preempted_run_goes_on_where_it_was(tmp_path: Path, stop_after: int) -> None:
    recorder = Recorder()
    first = make_job(checkpoints=make_folder(tmp_path), should_stop=StopAfter(stop_after))
    outcome = train(first)
    assert (outcome.rows[0].status, outcome.rows[0].num_steps) == ("preempted", stop_after)
    second = make_job(checkpoints=make_folder(tmp_path), observers=[recorder])
    assert statuses(train(second)) == ["complete"]
    assert weights(second) == [expected_weight(ALL)]
    assert recorder.steps() == list(range(stop_after + 1, NUM_STEPS + 1))


def test_run_stopped_at_its_last_step_is_complete(tmp_path: Path) -> None:
    job = make_job(checkpoints=make_folder(tmp_path), should_stop=StopAfter(NUM_STEPS))
    assert statuses(train(job)) == ["complete"]


def test_stopped_rows_stay_stopped_after_a_resume(tmp_path: Path) -> None:
    make = partial(make_job, num_rows=2, checkpoints=make_folder(tmp_path))
    train(make(policies=[Once("stop", 3)], should_stop=StopAfter(5)))
    outcome = train(make(policies=[Once("stop", 3)]))
    assert [(row.status, row.num_steps) for row in outcome.rows] == [
        ("diverged", 2),
        ("complete", NUM_STEPS),
    ]


def test_policies_take_their_memory_through_a_checkpoint(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    train(make_job(checkpoints=folder, policies=[Once("skip", 3)], should_stop=StopAfter(5)))
    policy = Once("skip", 9)
    job = make_job(checkpoints=folder, policies=[policy])
    train(job)
    assert weights(job) == [expected_weight([pair for pair in ALL if pair[0] != 2])]


def test_rewound_run_keeps_its_batches_through_a_resume(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    first = make_job(checkpoints=folder, policies=[Once("rewind", 7)], should_stop=StopAfter(9))
    train(first)
    second = make_job(checkpoints=folder, policies=[Once("rewind", 7)])
    train(second)
    later = [(step, step + 3) for step in range(4, NUM_STEPS)]
    assert weights(second) == [expected_weight(ALL[:4] + later)]


def test_time_of_earlier_processes_is_counted(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    first = train(make_job(checkpoints=folder, should_stop=StopAfter(5)))
    alone = train(make_job(checkpoints=NoCheckpoints())).seconds
    second = train(make_job(checkpoints=folder)).seconds
    assert first.seconds < second
    assert second == pytest.approx(alone, abs=4.0)  # a tick or two more for the second start


def test_observers_hear_of_a_checkpoint_before_it_is_written(tmp_path: Path) -> None:
    found: list[tuple[int, bool]] = []

    class Watcher(Recorder):
        def observe(self, record: TrainingRecord) -> None:
            if isinstance(record, LifeCycle) and record.kind == "checkpoint":
                path = tmp_path / "checkpoint" / f"step-{record.step:08d}"
                found.append((record.step, path.exists()))

    train(make_job(checkpoints=make_folder(tmp_path), observers=[Watcher()]))
    assert found == [(4, False), (8, False)]
