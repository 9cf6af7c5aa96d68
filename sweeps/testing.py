"""A training run without training, for tests and dry runs of studies with real processes."""

import hashlib
import json
import math
import os
import signal
import socket
import time
from dataclasses import dataclass
from errno import ENOSPC

import numpy as np

from simulator.records.layout import RunLayout
from simulator.records.task import ProgressFn, ShouldStopFn, TrainTask
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
    """A ``TrainFn`` that pretends; it pickles, so that real workers can carry it out.

    What it returns is a function of the task alone: noise is drawn from the run's fingerprint, and
    from its data seed for the part that all configurations share.
    """

    seconds_per_step: float = 0.0
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

    def __call__(self, task: TrainTask, report: ProgressFn, should_stop: ShouldStopFn) -> RunRecord:
        """Pretend to train ``task``, from its checkpoint if it has one."""
        layout = RunLayout(task.directory)
        layout.checkpoint.mkdir(parents=True, exist_ok=True)
        state = layout.checkpoint / "step.json"
        loss = self._loss(task.spec)
        begin = json.loads(state.read_text()) if state.exists() else 0
        for step in range(begin + 1, task.spec.num_steps + 1):
            time.sleep(self.seconds_per_step)
            report(step, loss + 1.0 / step)
            if step == task.spec.num_steps // 2:
                self._misbehave(task, layout)
            if should_stop():
                write_atomically(state, json.dumps(step))
                return self._finish(task, "preempted", None, step)
        lr = task.spec.optimizer.peak_lr
        if lr > self.fails_above_lr:
            return self._finish(task, "failed", None, task.spec.num_steps)
        if lr > self.diverges_above_lr:
            return self._finish(task, "diverged", None, task.spec.num_steps)
        return self._finish(task, "complete", loss, task.spec.num_steps)

    def _loss(self, spec: RunSpec) -> float:
        own = np.random.default_rng(int(fingerprint(spec), 16)).normal(0.0, self.noise_std)
        shared = np.random.default_rng(spec.data_seed).normal(0.0, self.seed_std)
        return analytic_loss(spec) + float(own) + float(shared)

    def _misbehave(self, task: TrainTask, layout: RunLayout) -> None:
        lr = task.spec.optimizer.peak_lr
        mark = layout.root / "was_killed"
        if lr > self.fills_disk_above_lr:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(layout.record))
        if lr > self.kills_worker_above_lr or (
            lr > self.kills_worker_once_above_lr and not mark.exists()
        ):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _finish(
        self, task: TrainTask, status: RunStatus, loss: float | None, step: int
    ) -> RunRecord:
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
                num_rows=1,
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
