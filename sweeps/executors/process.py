"""Run cohorts in persistent worker processes: one thread each on CPU, one process a GPU.

Workers are spawned, never forked. They are told everything by a pipe and die with the driver; a
worker that dies is replaced, and the tasks it had not ended are reported as lost.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simulator.records.task import CohortFn, TrainTask
from sweeps.executors import Dropped, Ended, ExecutorEvent, Halted, Lost, StopUrgency
from sweeps.executors.worker import Finish, Preempt, Ready, serve

__all__ = ["ProcessExecutor", "thread_environment"]

_CLOSING_SECONDS = 5.0
"""How long an idle worker may take to end before it is killed."""

_TERMINAL = (Ended, Lost, Dropped)


_KEPT_BYTES = 512 * 2**20
"""Freed blocks up to this size stay with a worker on CPU."""

_FIRST_GLIBC = 2, 36
"""Measured from here on; old ones refuse to keep blocks above 32 MiB and would keep none at all."""


def thread_environment(num_threads: int, *, device: str = "cpu") -> Mapping[str, str]:
    """Return the environment that keeps the numerical libraries at ``num_threads`` threads.

    A worker on CPU also keeps the memory it has freed. Without that glibc returns large activations
    to the system and faults them in again every step: 4 to 7 % of a step from width 128 on.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    threads = dict.fromkeys(names, str(num_threads))
    if device != "cpu" or _glibc_version() < _FIRST_GLIBC:
        return threads
    kept = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    return threads | dict.fromkeys(kept, str(_KEPT_BYTES))


def _glibc_version() -> tuple[int, ...]:
    """Return the version of the GNU C library; (0,) where there is another one."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError):
        return (0,)
    numbers = name.rpartition(" ")[2].split(".")
    return tuple(int(number) for number in numbers if number.isdigit()) or (0,)


class ProcessExecutor:
    """An executor of ``num_workers`` processes on this machine; a context manager.

    Parameters
    ----------
    train
        Carries out a cohort; must pickle. It is imported in the workers only.
    num_workers
        Processes that train at the same time. With device ``cuda``, worker ``i`` uses ``cuda:i``.
    environment
        What a worker process starts with, beside this process's own environment.
    """

    def __init__(
        self, train: CohortFn, *, num_workers: int, environment: Mapping[str, str]
    ) -> None:
        self._start = (dict(environment), pickle.dumps(train))
        self._slots: list[_Worker | None] = [None] * num_workers
        self._queue: deque[Sequence[TrainTask]] = deque()
        self._happened: list[ExecutorEvent] = []
        self._urgency: StopUrgency = "none"

    def __enter__(self) -> Self:
        """Return the executor; workers start with the first cohorts."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all workers: idle ones in peace, the others at once."""
        for worker in self._workers():
            worker.close()
        self._slots = [None] * len(self._slots)

    def submit(self, cohort: Sequence[TrainTask]) -> None:
        """Queue one cohort; drop it if the executor was stopped."""
        if self._urgency == "none":
            self._queue.append(cohort)
        else:
            self._happened += [Dropped(task) for task in cohort]

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:
        """Hand out cohorts, then wait up to ``timeout_seconds`` for news of them."""
        self._hand_out()
        workers = {worker.connection: worker for worker in self._workers()}
        if workers and not self._happened:
            for connection in wait(list(workers), timeout_seconds):
                self._listen(workers[connection])  # type: ignore[index]
        happened, self._happened = tuple(self._happened), []
        return happened

    def stop(self, urgency: StopUrgency) -> None:
        """Drop what has not begun; ask or force what runs to end."""
        if urgency == "none":
            return
        self._urgency = urgency
        self._happened += [Dropped(task) for cohort in self._queue for task in cohort]
        self._queue.clear()
        for worker in self._workers():
            if urgency == "preempt":
                worker.send(Preempt())
            elif urgency == "kill":
                worker.process.kill()

    def _workers(self) -> "tuple[_Worker, ...]":
        return tuple(worker for worker in self._slots if worker is not None)

    def _hand_out(self) -> None:
        for slot, worker in enumerate(self._slots):
            if not self._queue:
                return
            if worker is None:
                worker = self._slots[slot] = _Worker(slot, *self._start)
            if not worker.tasks:
                worker.take(self._queue.popleft())

    def _listen(self, worker: "_Worker") -> None:
        """Take in everything ``worker`` has said, its death included."""
        for message in worker.messages():
            self._happened.append(message)
        if worker.is_dead:
            self._slots[worker.slot] = None
            if not worker.was_ready and self._urgency == "none":
                reason = f"a worker could not start ({worker.cause}); its message is above"
                self._happened.append(Halted(reason, is_resumable=False))


class _Worker:
    """One process as the driver sees it."""

    def __init__(self, slot: int, environment: dict[str, str], pickled_train: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection: Connection[Any, Any]
        self.connection, theirs = context.Pipe()
        self.slot = slot
        self.process = context.Process(target=serve, args=(theirs, pickled_train), daemon=True)
        with _signals_blocked(), _environment(environment):
            self.process.start()
        theirs.close()  # else the worker's death would not close the pipe
        self.tasks: dict[Path, TrainTask] = {}
        """Those of its cohort that have not ended, by their folders."""
        self.was_ready = False
        self.is_dead = False

    @property
    def cause(self) -> str:
        """How a dead worker died."""
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def take(self, cohort: Sequence[TrainTask]) -> None:
        execution = cohort[0].execution
        if execution.device == "cuda":
            execution = replace(execution, device=f"cuda:{self.slot}")
        own = tuple(replace(task, execution=execution) for task in cohort)
        self.tasks = {task.directory: task for task in own}
        self.send(own)

    def send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # a dead worker is noticed by its closed pipe
            self.connection.send(message)

    def messages(self) -> Iterator[ExecutorEvent]:
        """Yield what has arrived; after the last words of a dead worker, the loss of its tasks."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, Ready):
                    self.was_ready = True
                    continue
                if isinstance(message, _TERMINAL):
                    del self.tasks[message.task.directory]
                yield message
        except (EOFError, OSError):
            self.process.join()
            self.is_dead = True
            self.connection.close()
            for task in self.tasks.values():
                yield Lost(task, self.cause)
            self.tasks = {}

    def close(self) -> None:
        self.send(Finish())
        if not self.tasks:
            self.process.join(_CLOSING_SECONDS)
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Have processes start with ``changes``: too late for memory and threads once they run."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Start processes that hear no signals until they choose to.

    A Ctrl-C goes to every process of the terminal; without this, one that is still starting would
    die of it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
