"""Run tasks one after the other in this process: the executor of tests and notebooks."""

from collections import deque

from simulator.records.task import TrainFn, TrainTask
from sweeps.executors import (
    Advanced,
    Began,
    Dropped,
    Ended,
    ExecutorEvent,
    Halted,
    StopUrgency,
    UrgencyFn,
    never,
)
from sweeps.executors.faults import fault_of_machine

__all__ = ["InlineExecutor"]


class InlineExecutor:
    """An executor whose only worker is the caller.

    Parameters
    ----------
    train
        Carries out a task. What it raises reaches the caller, except that the machine is at fault.
    urgency
        Asked after every step of a run, as nobody can call ``stop`` while one is under way.
    """

    def __init__(self, train: TrainFn, *, urgency: UrgencyFn = never) -> None:
        self._train = train
        self._urgency = urgency
        self._queue: deque[TrainTask] = deque()
        self._dropped: list[ExecutorEvent] = []
        self._is_stopped = False

    def submit(self, task: TrainTask) -> None:
        """Queue one task; drop it if the executor was stopped."""
        if self._is_stopped:
            self._dropped.append(Dropped(task))
        else:
            self._queue.append(task)

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:  # noqa: ARG002
        """Run the next task to its end and return what happened."""
        if self._dropped:
            dropped, self._dropped = tuple(self._dropped), []
            return dropped
        return self._run(self._queue.popleft()) if self._queue else ()

    def stop(self, urgency: StopUrgency) -> None:
        """Drop what has not begun."""
        if urgency != "none":
            self._is_stopped = True
            self._dropped += [Dropped(task) for task in self._queue]
            self._queue.clear()

    def _run(self, task: TrainTask) -> tuple[ExecutorEvent, ...]:
        happened: list[ExecutorEvent] = [Began(task)]

        def report(step: int, loss: float) -> None:
            happened.append(Advanced(task, step, loss))

        def should_stop() -> bool:
            return self._urgency() in ("preempt", "kill")

        try:
            happened.append(Ended(task, self._train(task, report, should_stop)))
        except OSError as error:
            reason = fault_of_machine(error)
            if reason is None:
                raise
            happened += [Halted(reason, is_resumable=True), Dropped(task)]
        return tuple(happened)
