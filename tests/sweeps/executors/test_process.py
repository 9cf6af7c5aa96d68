"""Worker processes: their environment, their death, and whom they obey."""

import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simulator.records.task import RunListener, TrainTask
from simulator.records.types import RunRecord
from sweeps.executors import Advanced, Began, Ended, ExecutorEvent, Halted, Lost
from sweeps.executors.process import ProcessExecutor, thread_environment
from sweeps.testing import FakeTrainer
from tests.contracts.test_executor import drain, make_tasks

ENVIRONMENT = thread_environment(1)


@dataclass(frozen=True)
class Confessor:
    """Says in its record where and how it ran."""

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        sys.stdout.write("a training function that prints\n")
        sys.stdout.flush()
        threads = os.environ["OMP_NUM_THREADS"]
        facts = (threads, tasks[0].execution.device, "torch" in sys.modules)
        FakeTrainer()(tasks, Adding(listener, repr(facts)))


@dataclass(frozen=True)
class Adding:
    """A listener that adds a reason to every record."""

    listener: RunListener
    reason: str

    def began(self, task: TrainTask) -> None:
        self.listener.began(task)

    def advanced(self, task: TrainTask, step: int, loss: float) -> None:
        self.listener.advanced(task, step, loss)

    def ended(self, task: TrainTask, record: RunRecord) -> None:
        self.listener.ended(task, replace(record, reason=self.reason))

    def should_stop(self) -> bool:
        return self.listener.should_stop()


class Unloadable:
    """Pickles here and cannot be loaded there."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return sys.exit, ("this worker cannot start",)

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        raise AssertionError


def test_worker_gets_its_environment_and_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (task,) = make_tasks(tmp_path, 1)
    task = replace(task, execution=replace(task.execution, device="cuda"))
    environment = thread_environment(3)
    with ProcessExecutor(Confessor(), num_workers=1, environment=environment) as executor:
        executor.submit([task])
        last = drain(executor, 1)[-1]
    assert isinstance(last, Ended)
    assert last.record.reason == repr(("3", "cuda:0", False))
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "prints" in captured.err


def test_workers_stay_from_task_to_task(tmp_path: Path) -> None:
    with ProcessExecutor(FakeTrainer(), num_workers=1, environment=ENVIRONMENT) as executor:
        for task in make_tasks(tmp_path, 3):
            executor.submit([task])
        ended = [event for event in drain(executor, 3) if isinstance(event, Ended)]
    assert len({event.record.execution.pid for event in ended}) == 1


def test_killed_worker_is_noticed_and_replaced(tmp_path: Path) -> None:
    train = FakeTrainer(kills_worker_once_above_lr=0.0)
    (task,) = make_tasks(tmp_path, 1)
    with ProcessExecutor(train, num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([task])
        first = drain(executor, 1)[-1]
        executor.submit([task])
        second = drain(executor, 1)[-1]
    assert isinstance(first, Lost)
    assert first.reason == "killed by SIGKILL"
    assert isinstance(second, Ended)
    assert second.record.status == "complete"


def test_killed_worker_loses_only_what_its_cohort_had_not_ended(tmp_path: Path) -> None:
    first, second, third = make_tasks(tmp_path, 3)
    slow = replace(first.spec, optimizer=replace(first.spec.optimizer, peak_lr=1e-3))
    first = replace(first, spec=slow)
    train = FakeTrainer(kills_worker_once_above_lr=4e-3)
    with ProcessExecutor(train, num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([first, second, third])
        events = drain(executor, 3)
        executor.submit([second])
        assert isinstance(drain(executor, 1)[-1], Ended)
    last = {
        event.task.directory: type(event) for event in events if isinstance(event, Ended | Lost)
    }
    assert last == {first.directory: Ended, second.directory: Lost, third.directory: Lost}


class Forgetful:
    """Returns without having ended its runs."""

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        pass


def test_run_that_is_forgotten_counts_as_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks = make_tasks(tmp_path, 2)
    with ProcessExecutor(Forgetful(), num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit(tasks)
        events = drain(executor, 2)
    assert [type(event) for event in events] == [Lost, Lost]
    assert "left runs without an end" in capfd.readouterr().err


class Faulting:
    """Says in its record how often the system had to hand it memory for the same large block."""

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        touch_block()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            touch_block()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        FakeTrainer()(tasks, Adding(listener, str(faults)))


def touch_block() -> None:
    bytearray(48 * 2**20)


@pytest.mark.skipif("MALLOC_TRIM_THRESHOLD_" not in ENVIRONMENT, reason="needs GNU libc 2.36")
def test_worker_on_cpu_keeps_its_memory(tmp_path: Path) -> None:
    before = dict(os.environ)
    with ProcessExecutor(Faulting(), num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit(make_tasks(tmp_path, 1))
        last = drain(executor, 1)[-1]
    assert isinstance(last, Ended)
    assert int(last.record.reason) < 1000
    assert dict(os.environ) == before


def test_worker_with_a_gpu_manages_memory_as_ever() -> None:
    assert not any("MALLOC" in name for name in thread_environment(1, device="cuda"))


def test_workers_leave_signals_to_the_driver(tmp_path: Path) -> None:
    (task,) = make_tasks(tmp_path, 1)
    train = FakeTrainer(seconds_per_step=0.02)
    with ProcessExecutor(train, num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([task])
        events: list[ExecutorEvent] = []
        while not any(isinstance(event, Advanced) for event in events):
            events += executor.events(0.2)
        (worker,) = executor._workers()
        assert worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGINT)
        os.kill(worker.process.pid, signal.SIGTERM)
        last = drain(executor, 1)[-1]
    assert isinstance(last, Ended)
    assert last.record.status == "complete"


def test_preempted_run_is_saved_and_goes_on(tmp_path: Path) -> None:
    (task,) = make_tasks(tmp_path, 1)
    train = FakeTrainer(seconds_per_step=0.02)
    with ProcessExecutor(train, num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([task])
        events: list[ExecutorEvent] = []
        while not any(isinstance(event, Advanced) for event in events):
            events += executor.events(0.2)
        executor.stop("preempt")
        first = drain(executor, 1)[-1]
    with ProcessExecutor(train, num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([task])
        again = drain(executor, 1)
    assert isinstance(first, Ended)
    assert first.record.status == "preempted"
    steps = [event.step for event in again if isinstance(event, Advanced)]
    assert steps[0] == first.record.num_steps_done + 1
    assert isinstance(again[-1], Ended)
    assert again[-1].record.status == "complete"


def test_worker_that_cannot_start_halts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (task,) = make_tasks(tmp_path, 1)
    with ProcessExecutor(Unloadable(), num_workers=1, environment=ENVIRONMENT) as executor:
        executor.submit([task])
        events = drain(executor, 1)
    assert not any(isinstance(event, Began) for event in events)
    halted = [event for event in events if isinstance(event, Halted)]
    assert "could not start (exit code 1)" in halted[0].reason
    assert not halted[0].is_resumable
    assert "this worker cannot start" in capfd.readouterr().err
