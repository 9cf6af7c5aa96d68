"""Runs trained together: each is what it would be alone, and nothing is trained twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.task import TrainTask
from simulator.records.types import RunRecord
from simulator.specs.run import RunSpec
from simulator.specs.schedule import ScheduleSpec, WSDShape
from simulator.training import execute_cohort
from simulator.training.records import StepValues
from tests.builders import make_run, resolved
from tests.simulator.training.engines import VALUES, make_tokens, make_trained
from tests.simulator.training.runs import AfterSteps, Runs, series

NUM_STEPS = 20


@dataclass
class Listener:
    """Keeps what it is told."""

    stop_after: int = 0
    records: dict[str, RunRecord] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._is_stopped = AfterSteps(self.stop_after)

    def began(self, task: TrainTask) -> None:
        self.begun.append(task.directory.name)

    def advanced(self, task: TrainTask, step: int, loss: float) -> None:
        assert 0 < step <= task.spec.num_steps
        assert loss > 0

    def ended(self, task: TrainTask, record: RunRecord) -> None:
        assert task.directory.name not in self.records
        self.records[task.directory.name] = record

    def should_stop(self) -> bool:
        return self._is_stopped()


def wsd_runs(cache: Path) -> list[RunSpec]:
    """Return four runs: two trunks, of which each ends in two ways."""
    run = resolved(make_run(num_steps=NUM_STEPS), cache)
    return [
        replace(
            run,
            optimizer=replace(run.optimizer, peak_lr=peak_lr),
            schedule=ScheduleSpec(
                warmup_steps=2, shape=WSDShape(decay_fraction=fraction, decay_shape="linear")
            ),
        )
        for peak_lr in (4e-3, 8e-3)
        for fraction in (0.2, 0.4)
    ]


def train(
    run: Runs,
    specs: Sequence[RunSpec],
    *,
    folder: str,
    num_rows: int,
    shares_prefixes: bool = True,
    stop_after: int = 0,
) -> tuple[dict[str, RunRecord], list[RunReader]]:
    execution = {"num_rows": num_rows, "shares_prefixes": shares_prefixes}
    tasks = [
        run.task(spec, folder=f"{folder}/{number}", execution=execution)
        for number, spec in enumerate(specs)
    ]
    listener = Listener(stop_after)
    execute_cohort(tasks, listener, corpora=run.corpora)
    readers = [RunReader(RunLayout(task.directory), has_driver=False) for task in tasks]
    return listener.records, readers


def test_step_of_a_row_equals_the_step_alone() -> None:
    seeds = (0, 1, 2)
    together = make_trained(seeds=seeds)
    tokens = np.concatenate([make_tokens(seed=seed) for seed in seeds])
    values = StepValues.stack([VALUES] * len(seeds))
    stats = together.engine.forward_backward(tokens, values)
    for row, seed in enumerate(seeds):
        alone = make_trained(seeds=(seed,))
        expected = alone.engine.forward_backward(make_tokens(seed=seed), VALUES)
        assert stats.loss[row] == pytest.approx(expected.loss[0], rel=1e-6)
        difference = torch.linalg.vector_norm(together.optimizer.grads[row] - alone.optimizer.grads)
        assert float(difference) <= 1e-6 * float(alone.optimizer.grad_norm())


@pytest.mark.parametrize("num_rows", [2, 4])
def test_shared_beginnings_change_no_bit(run: Runs, num_rows: int) -> None:
    specs = wsd_runs(run.cache)
    shared, with_sharing = train(run, specs, folder="shared", num_rows=num_rows)
    apart, without = train(run, specs, folder="apart", num_rows=num_rows, shares_prefixes=False)
    for one, other in zip(with_sharing, without, strict=True):
        assert series(one) == series(other)
    assert [shared[n].loss for n in "0123"] == [apart[n].loss for n in "0123"]
    assert sum(record.num_steps_shared for record in shared.values()) == 2 * 13
    assert sum(record.num_steps_shared for record in apart.values()) == 0
    assert shared["1"].train_flops < apart["1"].train_flops


def test_losses_agree_with_those_of_runs_alone(run: Runs) -> None:
    specs = wsd_runs(run.cache)
    _, together = train(run, specs, folder="together", num_rows=4)
    _, alone = train(run, specs, folder="alone", num_rows=1, shares_prefixes=False)
    for one, other in zip(together, alone, strict=True):
        losses, expected = ([point.loss for point in r.steps()] for r in (one, other))
        assert losses == pytest.approx(expected, rel=1e-5)  # 2e-7 measured; rounding grows


def test_step_that_cannot_be_compiled_is_refused_by_name(
    run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    task = run.task(wsd_runs(run.cache)[0], folder="alone", execution={"is_compiled": True})
    listener = Listener()
    execute_cohort([task], listener, corpora=run.corpora)
    record = listener.records["alone"]
    assert record.status == "failed"
    assert "run.compile must not be true where no C++ compiler is installed" in record.reason


def test_diverged_run_leaves_its_neighbours_alone(run: Runs) -> None:
    specs = wsd_runs(run.cache)
    lost = replace(specs[0], optimizer=replace(specs[0].optimizer, peak_lr=1e30))
    records, readers = train(run, [lost, *specs[1:]], folder="lost", num_rows=2)
    _, expected = train(run, specs, folder="fine", num_rows=2)
    assert records["0"].status == "diverged"
    for one, other in zip(readers[1:], expected[1:], strict=True):
        assert series(one) == series(other)


@pytest.mark.parametrize("stop_after", [7, 17])
def test_stopped_cohort_goes_on_to_the_same_bits(run: Runs, stop_after: int) -> None:
    specs = wsd_runs(run.cache)
    first, _ = train(run, specs, folder="cut", num_rows=2, stop_after=stop_after)
    assert "preempted" in {record.status for record in first.values()}
    second, readers = train(run, specs, folder="cut", num_rows=2)
    assert {record.status for record in second.values()} == {"complete"}
    _, expected = train(run, specs, folder="whole", num_rows=2)
    for one, other in zip(readers, expected, strict=True):
        assert series(one) == series(other)


def test_settled_runs_are_not_trained_again(run: Runs) -> None:
    specs = wsd_runs(run.cache)[:2]
    train(run, specs, folder="once", num_rows=2)
    execution = {"num_rows": 2}
    tasks = [run.task(s, folder=f"once/{n}", execution=execution) for n, s in enumerate(specs)]
    listener = Listener()
    execute_cohort(tasks, listener, corpora=run.corpora)
    assert listener.begun == []
    assert len(listener.records) == 2


def test_records_say_where_the_runs_were(run: Runs) -> None:
    records, _ = train(run, wsd_runs(run.cache), folder="where", num_rows=2)
    assert {record.execution.num_rows for record in records.values()} == {2}
    assert {record.execution.row for record in records.values()} == {0, 1}


@pytest.mark.parametrize("seeds", [(1, 0), (2, 0, 1), (3, 1, 2, 0, 4)])
def test_bits_of_a_run_depend_neither_on_its_row_nor_on_the_others(seeds: tuple[int, ...]) -> None:
    found, expected = (_two_steps(order, seed=1) for order in (seeds, (0, 1)))
    assert torch.equal(found, expected)


def test_lonely_row_rounds_as_in_company() -> None:
    assert torch.equal(_two_steps((1, 0), seed=1, busy=1), _two_steps((1, 0), seed=1))


def _two_steps(seeds: tuple[int, ...], *, seed: int, busy: int | None = None) -> torch.Tensor:
    """Return the parameters of the row of ``seed`` after two steps of the first ``busy`` rows."""
    trained = make_trained(seeds=seeds)
    busy = busy or len(seeds)
    values = StepValues.stack([VALUES] * busy)
    for step in range(2):
        tokens = [make_tokens(seed=10 * step + row_seed) for row_seed in seeds[:busy]]
        trained.engine.forward_backward(np.concatenate(tokens), values)
        trained.engine.apply(values, np.ones(busy, dtype=bool))
    return trained.optimizer.values[seeds.index(seed)]
