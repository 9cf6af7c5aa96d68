"""What every executor promises."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.records.task import TrainTask
from simulator.specs.codec import fingerprint
from sweeps.executors import Advanced, Began, Dropped, Ended, Executor, ExecutorEvent, Halted, Lost
from sweeps.executors.inline import InlineExecutor
from sweeps.executors.process import ProcessExecutor, thread_environment
from sweeps.space import apply
from sweeps.testing import FakeTrainer
from tests.sweeps.sweep_specs import make_sweep

TERMINAL = (Ended, Lost, Dropped)
MakeExecutor = Callable[[FakeTrainer], Executor]


@pytest.fixture(params=["inline", "one process", "two processes"])
def make_executor(request: pytest.FixtureRequest) -> Iterator[MakeExecutor]:
    with ExitStack() as stack:

        def make(train: FakeTrainer) -> Executor:
            if request.param == "inline":
                return InlineExecutor(train)
            num_workers = 1 if request.param == "one process" else 2
            environment = thread_environment(1)
            return stack.enter_context(
                ProcessExecutor(train, num_workers=num_workers, environment=environment)
            )

        yield make


def make_tasks(folder: Path, count: int) -> list[TrainTask]:
    sweep = make_sweep()
    specs = [apply(sweep, sweep.incumbent.params, seed) for seed in range(count)]
    return [
        TrainTask(
            spec=spec,
            execution=sweep.execution,
            purpose="search",
            directory=folder / fingerprint(spec),
            cache_directory=folder / "cache",
        )
        for spec in specs
    ]


def drain(executor: Executor, count: int, seconds: float = 30.0) -> list[ExecutorEvent]:
    """Collect events until ``count`` tasks have ended."""
    events: list[ExecutorEvent] = []
    deadline = time.monotonic() + seconds
    while sum(isinstance(event, TERMINAL) for event in events) < count:
        assert time.monotonic() < deadline, events
        events += executor.events(0.2)
    return events


def of(task: TrainTask, events: list[ExecutorEvent]) -> list[ExecutorEvent]:
    return [e for e in events if not isinstance(e, Halted) and e.task.directory == task.directory]


def test_each_task_begins_advances_and_ends_once(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(FakeTrainer())
    tasks = make_tasks(tmp_path, 3)
    for task in tasks:
        executor.submit([task])
    events = drain(executor, 3)
    for task in tasks:
        first, *middle, last = of(task, events)
        assert isinstance(first, Began)
        assert [event.step for event in middle if isinstance(event, Advanced)] == [*range(1, 21)]
        assert isinstance(last, Ended)
        assert last.record.status == "complete"
        assert last.record.fingerprint == fingerprint(task.spec)


def test_nothing_happens_without_tasks(make_executor: MakeExecutor) -> None:
    assert make_executor(FakeTrainer()).events(0.01) == ()


def test_tasks_may_be_submitted_while_others_run(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(FakeTrainer())
    first, second = make_tasks(tmp_path, 2)
    executor.submit([first])
    events = list(executor.events(10.0))
    executor.submit([second])
    while sum(isinstance(event, Ended) for event in events) < 2:
        events += executor.events(0.2)
    assert isinstance(of(second, events)[-1], Ended)


@pytest.mark.parametrize("urgency", ["drain", "preempt", "kill"])
def test_after_a_stop_every_task_still_ends_once(
    make_executor: MakeExecutor, tmp_path: Path, urgency: str
) -> None:
    executor = make_executor(FakeTrainer(seconds_per_step=0.02))
    tasks = make_tasks(tmp_path, 5)
    for task in tasks[:4]:
        executor.submit([task])
    events: list[ExecutorEvent] = []
    while not any(isinstance(event, Began) for event in events):
        events += executor.events(0.2)
    executor.stop(urgency)  # type: ignore[arg-type]
    executor.submit(tasks[4:])
    num_ended = sum(isinstance(event, TERMINAL) for event in events)
    events += drain(executor, 5 - num_ended)
    for task in tasks:
        assert sum(isinstance(event, TERMINAL) for event in of(task, events)) == 1
    assert isinstance(of(tasks[3], events)[-1], Dropped)
    assert isinstance(of(tasks[4], events)[-1], Dropped)


def test_full_disk_halts_and_ends_the_task(make_executor: MakeExecutor, tmp_path: Path) -> None:
    executor = make_executor(FakeTrainer(fills_disk_above_lr=0.0))
    (task,) = make_tasks(tmp_path, 1)
    executor.submit([task])
    events = drain(executor, 1)
    halted = [event for event in events if isinstance(event, Halted)]
    assert "No space left on device" in halted[0].reason
    assert halted[0].is_resumable
    assert isinstance(of(task, events)[-1], Dropped)


def test_faults_of_the_run_are_its_record(make_executor: MakeExecutor, tmp_path: Path) -> None:
    executor = make_executor(FakeTrainer(fails_above_lr=0.0))
    (task,) = make_tasks(tmp_path, 1)
    executor.submit([task])
    last = drain(executor, 1)[-1]
    assert isinstance(last, Ended)
    assert last.record.status == "failed"


def with_rows(tasks: list[TrainTask], num_rows: int) -> list[TrainTask]:
    return [replace(task, execution=replace(task.execution, num_rows=num_rows)) for task in tasks]


@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_tasks_of_a_cohort_each_end_once(
    make_executor: MakeExecutor, tmp_path: Path, num_rows: int
) -> None:
    executor = make_executor(FakeTrainer())
    tasks = with_rows(make_tasks(tmp_path, 5), num_rows)
    executor.submit(tasks[:3])
    executor.submit(tasks[3:])
    events = drain(executor, 5)
    for task in tasks:
        first, *middle, last = of(task, events)
        assert isinstance(first, Began)
        assert all(isinstance(event, Advanced) for event in middle)
        assert isinstance(last, Ended)
        assert last.record.fingerprint == fingerprint(task.spec)


def test_rows_of_a_cohort_advance_side_by_side(make_executor: MakeExecutor, tmp_path: Path) -> None:
    executor = make_executor(FakeTrainer())
    tasks = with_rows(make_tasks(tmp_path, 3), 2)
    executor.submit(tasks)
    events = drain(executor, 3)
    order = [(type(e), e.task.directory) for e in events if isinstance(e, Began | Ended)]
    begun = [directory for kind, directory in order[:2]]
    assert [kind for kind, _ in order] == [Began, Began, Ended, Ended, Began, Ended]
    assert begun == [task.directory for task in tasks[:2]]


def test_stopped_cohort_ends_its_queue_too(make_executor: MakeExecutor, tmp_path: Path) -> None:
    executor = make_executor(FakeTrainer(seconds_per_step=0.02))
    if isinstance(executor, InlineExecutor):
        executor = InlineExecutor(FakeTrainer(), urgency=lambda: "preempt")
    tasks = with_rows(make_tasks(tmp_path, 4), 2)
    executor.submit(tasks)
    events: list[ExecutorEvent] = []
    while not any(isinstance(event, Advanced) for event in events):
        events += executor.events(0.2)
    executor.stop("preempt")
    num_ended = sum(isinstance(event, TERMINAL) for event in events)
    events += drain(executor, 4 - num_ended)
    for task in tasks:
        last = of(task, events)[-1]
        assert isinstance(last, Ended)
        assert last.record.status == "preempted"


def test_full_disk_drops_what_its_cohort_had_left(
    make_executor: MakeExecutor, tmp_path: Path
) -> None:
    executor = make_executor(FakeTrainer(fills_disk_above_lr=4e-3))
    good, bad, waiting = make_tasks(tmp_path, 3)
    good = replace(
        good, spec=replace(good.spec, optimizer=replace(good.spec.optimizer, peak_lr=1e-3))
    )
    executor.submit([good, bad, waiting])
    events = drain(executor, 3)
    assert sum(isinstance(event, Halted) for event in events) == 1
    assert isinstance(of(good, events)[-1], Ended)
    assert [of(task, events)[-1] for task in (bad, waiting)] == [Dropped(bad), Dropped(waiting)]
