"""What runs in a worker process: one cohort after the other until the driver is done or dead.

SIGINT and SIGTERM are ignored: the driver hears them and decides.
"""

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulator.records.task import CohortFn, TrainTask
from sweeps.executors import Dropped, ExecutorEvent
from sweeps.executors.cohort import carry_out

__all__ = ["Finish", "Preempt", "Ready", "serve"]


@dataclass(frozen=True, slots=True)
class Ready:
    """From the worker: the training function is loaded."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """To the worker: save checkpoints and end the cohort."""


@dataclass(frozen=True, slots=True)
class Finish:
    """To the worker: there are no more cohorts."""


def serve(connection: Any, pickled_train: bytes) -> None:
    """Carry out the cohorts that arrive on ``connection`` until told to finish.

    Parameters
    ----------
    connection
        Both ways to the driver. When it closes, the driver is dead and this process ends at once.
    pickled_train
        The ``CohortFn``, unread so far: reading it imports what it needs.
    """
    _become_worker()
    inbox: queue.SimpleQueue[Sequence[TrainTask] | None] = queue.SimpleQueue()
    is_preempted = threading.Event()
    threading.Thread(target=_listen, args=(connection, inbox, is_preempted), daemon=True).start()
    train: CohortFn = pickle.loads(pickled_train)  # our own function, handed over by the driver
    _send(connection, Ready())

    def tell(event: ExecutorEvent) -> None:
        _send(connection, event)

    while (cohort := inbox.get()) is not None:
        if is_preempted.is_set():  # asked to stop while this process was still starting
            for task in cohort:
                tell(Dropped(task))
        else:
            carry_out(cohort, train, tell, is_preempted.is_set)


def _become_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    os.dup2(sys.stderr.fileno(), 1)  # standard output belongs to the driver


def _listen(
    connection: Any, inbox: "queue.SimpleQueue[Sequence[TrainTask] | None]", stop: threading.Event
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
