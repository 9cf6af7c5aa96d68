"""Worker processes: their environment, their death, and whom they obey."""

import os
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
