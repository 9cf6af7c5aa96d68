"""Training runs without training, for tests and dry runs of studies with real processes."""

import hashlib
import json
import math
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOSPC

import numpy as np

from simulator.records.layout import RunLayout
from simulator.records.task import RunListener, TrainTask
from simulator.records.types import ExecutionRecord, RunRecord, RunStatus
from simulator.records.writing import write_atomically
from simulator.specs.codec import encode, fingerprint
from simulator.specs.run import RunSpec

__all__ = ["FakeTrainer", "analytic_loss"]

_BEST_LR = 4e-3
_BEST_TAU = 0.2
_BEST_WARMUP = 0.06


def analytic_loss(spec: RunSpec) -> float:
    """Return the noiseless loss of a run, nats: a bowl in log LR, log tau and warmup.

    Schedules differ by up to 0.02 nats, by the hash of their name.
    """
    lr, decay = spec.optimizer.peak_lr, spec.optimizer.weight_decay
    tau = 1.0 / (lr * decay * spec.num_steps) if decay else _BEST_TAU
    warmup = spec.schedule.warmup_steps / spec.num_steps
    shape = hashlib.sha256(repr(spec.schedule.shape).encode()).digest()[0] / 255
    return (
        2.0
        + 0.05 * math.log2(lr / _BEST_LR) ** 2
        + 0.01 * math.log2(tau / _BEST_TAU) ** 2
        + 0.2 * (warmup - _BEST_WARMUP) ** 2
        + 0.02 * shape
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTrainer:
    """A ``CohortFn`` that pretends; it pickles, so that real workers can carry it out.

    Up to ``num_rows`` runs of a cohort take their steps in turn; the next one begins when one of
    them ends. What a run comes to is a function of its task alone: noise is drawn from its
    fingerprint, and from its data seed for the part that all configurations share.
    """

    seconds_per_step: float = 0.0
    """Of all rows together."""
    seed_std: float = 0.01
    """Of what all configurations share under a seed, nats."""
    noise_std: float = 0.001
    """Of a single run besides, nats."""
    diverges_above_lr: float = math.inf
    fails_above_lr: float = math.inf
    kills_worker_once_above_lr: float = math.inf
    """The worker is killed in the middle of a run, the first time."""
    kills_worker_above_lr: float = math.inf
    """The same, every time."""
    fills_disk_above_lr: float = math.inf

    def __call__(self, tasks: Sequence[TrainTask], listener: RunListener) -> None:
        """Pretend to train ``tasks``, each from its checkpoint if it has one."""
        queue = deque(_Pretence(task) for task in tasks)
        num_rows = tasks[0].execution.num_rows
        under_way: list[_Pretence] = []
        while queue or under_way:
            while queue and len(under_way) < num_rows:
                under_way.append(queue.popleft())
                listener.began(under_way[-1].task)
            time.sleep(self.seconds_per_step)
            under_way = [run for run in under_way if self._is_left(run, listener)]
            if listener.should_stop():
                for run in [*under_way, *queue]:
                    run.save()
                    listener.ended(run.task, self._finish(run, "preempted", None))
                return

    def _is_left(self, run: "_Pretence", listener: RunListener) -> bool:
        """Make one step of a run, and end it if that was its last."""
        run.step += 1
        loss = self._loss(run.task.spec)
        listener.advanced(run.task, run.step, loss + 1.0 / run.step)
        num_steps = run.task.spec.num_steps
        if run.step == num_steps // 2:
            self._misbehave(run)
        if run.step < num_steps:
            return True
        lr = run.task.spec.optimizer.peak_lr
        if lr > self.fails_above_lr:
            record = self._finish(run, "failed", None)
        elif lr > self.diverges_above_lr:
            record = self._finish(run, "diverged", None)
        else:
            record = self._finish(run, "complete", loss)
        listener.ended(run.task, record)
        return False

    def _loss(self, spec: RunSpec) -> float:
        own = np.random.default_rng(int(fingerprint(spec), 16)).normal(0.0, self.noise_std)
        shared = np.random.default_rng(spec.data_seed).normal(0.0, self.seed_std)
        return analytic_loss(spec) + float(own) + float(shared)

    def _misbehave(self, run: "_Pretence") -> None:
        lr = run.task.spec.optimizer.peak_lr
        layout = RunLayout(run.task.directory)
        mark = layout.root / "was_killed"
        if lr > self.fills_disk_above_lr:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(layout.record))
        if lr > self.kills_worker_above_lr or (
            lr > self.kills_worker_once_above_lr and not mark.exists()
        ):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _finish(self, run: "_Pretence", status: RunStatus, loss: float | None) -> RunRecord:
        task, step = run.task, run.step
        execution = task.execution
        record = RunRecord(
            fingerprint=fingerprint(task.spec),
            purpose=task.purpose,
            status=status,
            reason="" if status == "complete" else f"pretended at step {step}",
            loss=loss,
            losses={} if loss is None else {task.spec.data.validation[0].name: loss},
            unigram_entropy=4.0,
            num_steps_done=step,
            num_tokens=step * task.spec.batch.global_batch_tokens,
            train_flops=1e9 * step,
            wall_seconds=self.seconds_per_step * step,
            execution=ExecutionRecord(
                device=execution.device,
                device_name="pretended",
                precision=execution.precision,
                num_rows=execution.num_rows,
                row=0,
                num_threads=execution.num_threads,
                torch_version="",
                host=socket.gethostname(),
                pid=os.getpid(),
            ),
            code_version="",
        )
        layout = RunLayout(task.directory)
        write_atomically(layout.spec, json.dumps(encode(task.spec)))
        write_atomically(layout.record, json.dumps(encode(record)))
        return record


class _Pretence:
    """How far a pretended run has come."""

    def __init__(self, task: TrainTask) -> None:
        self.task = task
        layout = RunLayout(task.directory)
        layout.checkpoint.mkdir(parents=True, exist_ok=True)
        self._state = layout.checkpoint / "step.json"
        self.step: int = json.loads(self._state.read_text()) if self._state.exists() else 0

    def save(self) -> None:
        write_atomically(self._state, json.dumps(self.step))
