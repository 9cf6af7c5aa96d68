"""The loop: what it asks of whom, in which order, and how it goes on after a stop."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.prefix import Stretch
from simulator.training.checkpoint import CheckpointFolder, NoCheckpoints
from simulator.training.job import RunOutcome, TrainingJob, TrainingRun
from simulator.training.loop import train
from simulator.training.policies import GO_ON, Action, Verdict
from simulator.training.records import (
    Evaluation,
    EvaluationMade,
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
    """A policy that decides ``action`` the first time step ``step`` comes by."""

    def __init__(self, action: Action, step: int) -> None:
        self._verdict = Verdict(action=action, reason=f"told to {action}")
        self._step = step
        self._is_spent = False

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        verdicts = [GO_ON] * len(stats.loss)
        if step == self._step and not self._is_spent:
            self._is_spent = True
            verdicts[0] = self._verdict
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


def falling(row: int, batch: int) -> float:
    return 5.0 - 0.1 * batch


def never() -> bool:
    return False


@dataclass
class Trained:
    """A job of scripted runs, what became of them, and the weights they ended with."""

    job: TrainingJob
    outcomes: dict[int, RunOutcome]
    weights: dict[int, float]

    def run(self) -> "Trained":
        train(self.job)
        return self

    def statuses(self) -> list[str]:
        return [self.outcomes[run].status for run in range(len(self.job.runs))]

    def seconds(self) -> float:
        return sum(outcome.seconds for outcome in self.outcomes.values())


def make_run(engine: ScriptedEngine, run: int = 0, **changes: Any) -> TrainingRun:
    fields: dict[str, Any] = {
        "identity": f"run {run}",
        "num_steps": NUM_STEPS,
        "tokens_per_step": 8,
        "assign": lambda row: None,
        "start": engine.start,
        "batches": make_batch,
        "schedule": rates(),
        "is_eval_due": lambda step: False,
        "is_checkpoint_due": lambda step: step % 4 == 0,
        "checkpoints": NoCheckpoints(),
    }
    return TrainingRun(**(fields | changes))


def rates(branch: int = NUM_STEPS, factor: float = 1.0) -> Callable[[int], StepValues]:
    """Return a schedule whose rates are ``factor`` times the usual from step ``branch``."""

    def schedule(step: int) -> StepValues:
        rate = 2.0**step * (factor if step >= branch else 1.0)
        return StepValues(lr=np.array([rate]), mtp_weight=np.zeros(1), bias_rate=np.zeros(1))

    return schedule


def make_job(
    runs: Sequence[dict[str, Any]] = ({},),
    *,
    roots: Sequence[Stretch] | None = None,
    num_rows: int | None = None,
    losses: Callable[[int, int], float] = falling,
    should_stop: Callable[[], bool] = never,
) -> Trained:
    """Return runs with the changes named; each is a root of its own unless ``roots`` are given."""
    num_rows = num_rows or len(runs)
    engine = ScriptedEngine(losses, num_rows=num_rows)
    ticks = itertools.count()
    made = [make_run(engine, run, **changes) for run, changes in enumerate(runs)]
    outcomes: dict[int, RunOutcome] = {}
    weights: dict[int, float] = {}

    def ended(run: int, outcome: RunOutcome) -> None:
        outcomes[run] = outcome
        weights[run] = float(engine.state(outcome.row)["weight"])

    job = TrainingJob(
        engine=engine,
        num_rows=num_rows,
        runs=made,
        roots=roots or [Stretch((i,), 0, run.num_steps, ()) for i, run in enumerate(made)],
        evaluate=lambda row: Evaluation(
            loss={"heldout": np.ones(1)},
            bits_per_byte={"heldout": None},
            mtp_loss={"heldout": None},
        ),
        inspect=lambda row, tokens: Health(
            max_attention_logit=(), min_grad_rms_over_eps=np.ones(1)
        ),
        ended=ended,
        should_stop=should_stop,
        clock=lambda: float(next(ticks)),
    )
    return Trained(job, outcomes, weights)


def expected_weight(updates: Sequence[tuple[int, int]]) -> float:
    """Return the weight after updates of (step from 0, batch)."""
    return float(sum(2.0**step * (batch + 1) for step, batch in updates))


ALL = [(step, step) for step in range(NUM_STEPS)]


def test_every_step_trains_on_its_own_batch_at_its_own_rate() -> None:
    found = make_job().run()
    assert found.weights == {0: expected_weight(ALL)}
    assert (found.outcomes[0].status, found.outcomes[0].num_steps) == ("complete", NUM_STEPS)


def test_observers_see_every_step_in_order_between_start_and_end() -> None:
    recorder = Recorder()
    make_job([{"observers": [recorder]}]).run()
    assert recorder.steps() == list(range(1, NUM_STEPS + 1))
    assert recorder.kinds()[0] == "started"
    assert recorder.kinds()[-1] == "ended"


def test_step_carries_its_tokens_rate_and_the_split_of_its_time() -> None:
    recorder = Recorder()
    make_job([{"observers": [recorder]}]).run()
    step = next(record for record in recorder.records if isinstance(record, StepMade))
    assert (step.step, step.tokens, step.lr.tolist()) == (1, 8, [1.0])
    assert step.data_seconds == step.forward_backward_seconds == step.apply_seconds == 1.0


def test_time_is_divided_among_the_rows() -> None:
    recorders = [Recorder(), Recorder()]
    alone = make_job().run()
    found = make_job([{"observers": [recorder]} for recorder in recorders]).run()
    step = next(record for record in recorders[1].records if isinstance(record, StepMade))
    assert step.forward_backward_seconds == 0.5
    assert found.outcomes[0].seconds == found.outcomes[1].seconds == alone.seconds() / 2


def test_evaluation_and_health_come_when_they_are_due() -> None:
    recorder = Recorder()
    make_job([{"observers": [recorder], "is_eval_due": {3, 10}.__contains__}]).run()
    evals = [r for r in recorder.records if isinstance(r, EvaluationMade)]
    healths = [r for r in recorder.records if isinstance(r, HealthTaken)]
    assert [r.step for r in evals] == [r.step for r in healths] == [3, 10]
    assert evals[0].seconds == 1.0


def test_clipped_fraction_counts_since_the_last_point() -> None:
    recorder = Recorder()
    make_job([{"observers": [recorder], "is_eval_due": {3, 10}.__contains__}]).run()
    healths = [r for r in recorder.records if isinstance(r, HealthTaken)]
    assert [r.clipped_fraction.tolist() for r in healths] == [[1 / 3], [4 / 7]]  # odd batches


def test_skipped_step_counts_but_does_not_update() -> None:
    found = make_job([{"policies": [Once("skip", 4)]}]).run()
    assert found.weights[0] == expected_weight([pair for pair in ALL if pair[0] != 3])
    assert found.outcomes[0].num_steps == NUM_STEPS


def test_stopped_run_is_not_updated_by_its_last_batch() -> None:
    recorder = Recorder()
    found = make_job([{"policies": [Once("stop", 4)], "observers": [recorder]}]).run()
    end = found.outcomes[0]
    assert (end.status, end.num_steps, end.reason) == ("diverged", 3, "told to stop")
    assert found.weights[0] == expected_weight(ALL[:3])
    assert recorder.kinds()[-2:] == ["stopped", "ended"]


def test_one_run_stops_and_the_others_go_on() -> None:
    found = make_job([{}, {"policies": [Once("stop", 4)]}, {}]).run()
    assert found.statuses() == ["complete", "diverged", "complete"]
    assert [found.outcomes[run].num_steps for run in range(3)] == [NUM_STEPS, 3, NUM_STEPS]
    assert found.weights == {
        0: expected_weight(ALL),
        1: expected_weight(ALL[:3]),
        2: expected_weight(ALL),
    }


def test_row_of_a_stopped_run_is_refilled() -> None:
    found = make_job([{"policies": [Once("stop", 4)]}, {}, {}], num_rows=2).run()
    assert found.statuses() == ["diverged", "complete", "complete"]
    assert found.outcomes[2].row == 0
    assert found.weights[1] == found.weights[2] == expected_weight(ALL)


def test_runs_wait_for_a_row() -> None:
    found = make_job([{}, {}, {}, {}, {}], num_rows=2).run()
    assert found.statuses() == ["complete"] * 5
    assert set(found.weights.values()) == {expected_weight(ALL)}


FORK = [Stretch((0, 1, 2), 0, 6, (Stretch((0, 2), 6, NUM_STEPS, ()), Stretch((1,), 6, 10, ())))]


def forked(**changes: Any) -> list[dict[str, Any]]:
    """Return three runs, two of which differ from the other in the rates of their last steps."""
    return [changes | {"schedule": rates(6, 3.0 if run == 1 else 1.0)} for run in range(3)]


@pytest.mark.parametrize("num_rows", [1, 2])
def test_forked_run_ends_where_an_unforked_one_does(num_rows: int) -> None:
    together = make_job(forked(), roots=FORK, num_rows=num_rows).run()
    alone = make_job(forked()).run()
    assert together.weights == alone.weights


def test_shared_steps_are_one_run_s_own() -> None:
    found = make_job(forked(), roots=FORK, num_rows=1).run()
    assert [found.outcomes[run].num_steps for run in range(3)] == [10, 10, 10]
    assert [found.outcomes[run].num_steps_shared for run in range(3)] == [0, 6, 10]


def test_every_sharer_s_observers_see_every_step() -> None:
    recorders = [Recorder() for _ in range(3)]
    runs = [
        run | {"observers": [recorder]} for run, recorder in zip(forked(), recorders, strict=True)
    ]
    make_job(runs, roots=FORK, num_rows=1).run()
    assert all(recorder.steps() == list(range(1, 11)) for recorder in recorders)


def test_shorter_run_ends_on_the_trunk() -> None:
    trunk = [Stretch((0, 1), 0, 6, (Stretch((1,), 6, 10, ()),))]
    found = make_job([{"num_steps": 6}, {}], roots=trunk, num_rows=1).run()
    assert [found.outcomes[run].num_steps for run in range(2)] == [6, 10]
    assert found.weights[1] == expected_weight(ALL)


def test_sharer_stops_alone() -> None:
    runs = forked()
    runs[0] |= {"policies": [Once("stop", 4)]}
    found = make_job(runs, roots=FORK, num_rows=1).run()
    assert found.statuses() == ["diverged", "complete", "complete"]
    assert [found.outcomes[run].num_steps_shared for run in range(3)] == [0, 3, 6]
    assert found.weights[2] == expected_weight(ALL)


@pytest.mark.parametrize("stop_after", [2, 6, 8, 12])
@pytest.mark.parametrize("num_rows", [1, 2])
def test_preempted_sharers_go_on_where_they_were(
    tmp_path: Path, stop_after: int, num_rows: int
) -> None:
    def make(should_stop: Callable[[], bool], left: Sequence[int] = (0, 1, 2)) -> Trained:
        folders = [CheckpointFolder(tmp_path / str(run), identity=f"run {run}") for run in range(3)]
        runs = [
            run | {"checkpoints": folder} for run, folder in zip(forked(), folders, strict=True)
        ]
        kept = [_without(root, left) for root in FORK]
        return make_job(runs, roots=kept, num_rows=num_rows, should_stop=should_stop)

    first = make(StopAfter(stop_after)).run()
    left = [run for run in range(3) if first.outcomes[run].status == "preempted"]
    second = make(never, left).run()
    alone = make_job(forked()).run()
    assert first.weights | second.weights == alone.weights
    outcomes = (first.outcomes | second.outcomes).values()
    assert sum(o.num_steps - o.num_steps_shared for o in outcomes) == 14


def _without(stretch: Stretch, runs: Sequence[int]) -> Stretch:
    """Return a stretch with no other runs than ``runs``."""
    children = [_without(child, runs) for child in stretch.children]
    return replace(
        stretch,
        runs=tuple(run for run in stretch.runs if run in runs),
        children=tuple(child for child in children if child.runs),
    )


def make_folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoint", identity="run 0")


def test_rewind_goes_back_and_on_with_batches_not_seen_yet(tmp_path: Path) -> None:
    recorder = Recorder()
    run = {
        "checkpoints": make_folder(tmp_path),
        "policies": [Once("rewind", 7)],
        "observers": [recorder],
    }
    found = make_job([run]).run()
    later = [(step, step + 3) for step in range(4, NUM_STEPS)]  # batches 4, 5, 6 are not read again
    assert found.weights[0] == expected_weight(ALL[:4] + later)
    assert found.statuses() == ["complete"]
    assert recorder.steps() == [1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9, 10]
    rewound = [r for r in recorder.records if isinstance(r, LifeCycle) and r.kind == "rewound"]
    assert [(r.step, r.reason) for r in rewound] == [(4, "told to rewind")]


def test_rewind_without_a_checkpoint_stops_the_run() -> None:
    end = make_job([{"policies": [Once("rewind", 3)]}]).run().outcomes[0]
    assert end.status == "diverged"
    assert end.reason == "told to rewind (no checkpoint to go back to)"


@pytest.mark.parametrize("stop_after", [1, 3, 4, 9])
def test_preempted_run_goes_on_where_it_was(tmp_path: Path, stop_after: int) -> None:
    recorder = Recorder()
    run = {"checkpoints": make_folder(tmp_path)}
    first = make_job([run], should_stop=StopAfter(stop_after)).run()
    assert (first.outcomes[0].status, first.outcomes[0].num_steps) == ("preempted", stop_after)
    second = make_job([run | {"observers": [recorder]}]).run()
    assert second.statuses() == ["complete"]
    assert second.weights[0] == expected_weight(ALL)
    assert recorder.steps() == list(range(stop_after + 1, NUM_STEPS + 1))


def test_run_stopped_at_its_last_step_is_complete(tmp_path: Path) -> None:
    run = {"checkpoints": make_folder(tmp_path)}
    found = make_job([run], should_stop=StopAfter(NUM_STEPS)).run()
    assert found.statuses() == ["complete"]


def test_policies_take_their_memory_through_a_checkpoint(tmp_path: Path) -> None:
    run = {"checkpoints": make_folder(tmp_path)}
    make_job([run | {"policies": [Once("skip", 3)]}], should_stop=StopAfter(5)).run()
    found = make_job([run | {"policies": [Once("skip", 9)]}]).run()
    assert found.weights[0] == expected_weight([pair for pair in ALL if pair[0] != 2])


def test_rewound_run_keeps_its_batches_through_a_resume(tmp_path: Path) -> None:
    def make(should_stop: Callable[[], bool]) -> Trained:
        run = {"checkpoints": make_folder(tmp_path), "policies": [Once("rewind", 7)]}
        return make_job([run], should_stop=should_stop)

    make(StopAfter(9)).run()
    later = [(step, step + 3) for step in range(4, NUM_STEPS)]
    assert make(never).run().weights[0] == expected_weight(ALL[:4] + later)


def test_time_of_earlier_processes_is_counted(tmp_path: Path) -> None:
    run = {"checkpoints": make_folder(tmp_path)}
    first = make_job([run], should_stop=StopAfter(5)).run().seconds()
    alone = make_job().run().seconds()
    second = make_job([run]).run().seconds()
    assert first < second == alone


def test_observers_hear_of_a_checkpoint_before_it_is_written(tmp_path: Path) -> None:
    found: list[tuple[int, bool]] = []

    class Watcher(Recorder):
        def observe(self, record: TrainingRecord) -> None:
            if isinstance(record, LifeCycle) and record.kind == "checkpoint":
                path = tmp_path / "checkpoint" / f"step-{record.step:08d}"
                found.append((record.step, path.exists()))

    make_job([{"checkpoints": make_folder(tmp_path), "observers": [Watcher()]}]).run()
    assert found == [(4, False), (8, False)]
