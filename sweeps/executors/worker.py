"""What runs in a worker process: one task after the other until the driver is done or dead.

This file imports no numerical library, so that the thread counts are in the environment before the
first one is loaded. SIGINT and SIGTERM are ignored: the driver hears them and decides.
"""

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from simulator.records.task import TrainFn, TrainTask
from sweeps.executors import Advanced, Began, Dropped, Ended, Halted
from sweeps.executors.faults import fault_of_machine

__all__ = ["Finish", "Preempt", "Ready", "serve"]


@dataclass(frozen=True, slots=True)
class Ready:
    """From the worker: the training function is loaded."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """To the worker: save a checkpoint and end the task."""


@dataclass(frozen=True, slots=True)
class Finish:
    """To the worker: there are no more tasks."""


def serve(connection: Any, environment: Mapping[str, str], pickled_train: bytes) -> None:
    """Carry out the tasks that arrive on ``connection`` until told to finish.

    Parameters
    ----------
    connection
        Both ways to the driver. When it closes, the driver is dead and this process ends at once.
    environment
        Set before anything else is imported.
    pickled_train
        The ``TrainFn``, unread so far: reading it imports what it needs.
    """
    _become_worker(environment)
    inbox: queue.SimpleQueue[TrainTask | None] = queue.SimpleQueue()
    is_preempted = threading.Event()
    threading.Thread(target=_listen, args=(connection, inbox, is_preempted), daemon=True).start()
    train: TrainFn = pickle.loads(pickled_train)  # our own function, handed over by the driver
    _send(connection, Ready())
    while (task := inbox.get()) is not None:
        _carry_out(task, train, connection, is_preempted)


def _become_worker(environment: Mapping[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    os.environ.update(environment)
    os.dup2(sys.stderr.fileno(), 1)  # standard output belongs to the driver


def _carry_out(
    task: TrainTask, train: TrainFn, connection: "Connection[Any, Any]", stop: threading.Event
) -> None:
    def report(step: int, loss: float) -> None:
        _send(connection, Advanced(task, step, loss))

    if stop.is_set():  # asked to stop while this process was still starting
        _send(connection, Dropped(task))
        return
    _send(connection, Began(task))
    try:
        record = train(task, report, stop.is_set)
    except OSError as error:
        reason = fault_of_machine(error)
        if reason is None:
            raise
        _send(connection, Halted(reason, is_resumable=True))
        _send(connection, Dropped(task))
    else:
        _send(connection, Ended(task, record))


def _listen(
    connection: Any, inbox: "queue.SimpleQueue[TrainTask | None]", stop: threading.Event
) -> None:
    """Pass on what the driver says; a driver that is gone takes this process with it."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        if isinstance(message, Preempt):
            stop.set()
        elif isinstance(message, Finish):
            inbox.put(None)
            return
        else:
            inbox.put(message)


def _send(connection: Any, message: object) -> None:
    try:
        connection.send(message)
    except OSError:  # the driver is gone; see _listen
        os._exit(1)
