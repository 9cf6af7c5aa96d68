"""Write a run's series as JSON lines."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path

from simulator.records.layout import RunLayout
from simulator.records.types import EvalPoint, HealthPoint, StepPoint
from simulator.records.writing import append_lines, write_atomically
from simulator.training.records import (
    EvaluationMade,
    HealthTaken,
    LifeCycle,
    LossArray,
    StepMade,
    TrainingRecord,
)

__all__ = ["JsonLinesObserver", "cut_series"]

_FLUSH_LINES = 200
"""Steps held in memory at most, so that a long run can be followed between evaluations."""


class JsonLinesObserver:
    """Writes the series of a run.

    Lines are held back and written at evaluations, at checkpoints and at the end, so that a step
    costs no system call. At a checkpoint everything up to its step is on the disk; a run that
    starts again from it first drops the lines of later steps.

    Parameters
    ----------
    layout
        The run's own folder.
    """

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._pending: dict[Path, list[str]] = {}

    def observe(self, record: TrainingRecord) -> None:
        """Keep a point, write what is due, or cut the series back."""
        match record:
            case LifeCycle(kind="started" | "rewound"):
                self._pending.clear()
                for path in (self._layout.steps, self._layout.evals, self._layout.health):
                    cut_series(path, record.step)
            case LifeCycle():
                self._flush()
            case StepMade():
                self._keep(self._layout.steps, _step_point(record))
                if len(self._pending[self._layout.steps]) >= _FLUSH_LINES:
                    self._flush()
            case EvaluationMade():
                self._keep(self._layout.evals, _eval_point(record))
                self._flush()
            case HealthTaken():
                self._keep(self._layout.health, _health_point(record))

    def _keep(self, path: Path, point: StepPoint | EvalPoint | HealthPoint) -> None:
        values = {field.name: getattr(point, field.name) for field in dataclasses.fields(point)}
        line = json.dumps(values, separators=(",", ":"))
        self._pending.setdefault(path, []).append(line)

    def _flush(self) -> None:
        for path, lines in self._pending.items():
            append_lines(path, lines)
        self._pending.clear()


def cut_series(path: Path, step: int) -> None:
    """Drop every line of a series that is torn or of a step after ``step``."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [line for line in lines if _step_of(line) <= step]
    if kept:
        write_atomically(path, "".join(f"{line}\n" for line in kept))
    else:
        path.unlink()


def _step_of(line: str) -> float:
    with contextlib.suppress(json.JSONDecodeError, TypeError, KeyError):
        return int(json.loads(line)["step"])
    return math.inf


def _step_point(record: StepMade) -> StepPoint:
    stats = record.stats
    return StepPoint(
        step=record.step,
        tokens=record.tokens,
        loss=float(stats.loss[0]),
        mtp_loss=_only(stats.mtp_loss),
        balance_loss=_only(stats.balance_loss),
        lr=float(record.lr[0]),
        grad_norm=float(stats.grad_norm[0]),
        is_clipped=bool(stats.is_clipped[0]),
        data_seconds=round(record.data_seconds, 6),
        forward_backward_seconds=round(record.forward_backward_seconds, 6),
        apply_seconds=round(record.apply_seconds, 6),
    )


def _eval_point(record: EvaluationMade) -> EvalPoint:
    found = record.evaluation
    return EvalPoint(
        step=record.step,
        tokens=record.tokens,
        loss={name: float(loss[0]) for name, loss in found.loss.items()},
        bits_per_byte={name: _only(bits) for name, bits in found.bits_per_byte.items()},
        mtp_loss={name: _only(loss) for name, loss in found.mtp_loss.items()},
        seconds=round(record.seconds, 6),
    )


def _health_point(record: HealthTaken) -> HealthPoint:
    health = record.health
    return HealthPoint(
        step=record.step,
        max_attention_logit=tuple(tuple(layer[0].tolist()) for layer in health.max_attention_logit),
        max_violation=tuple(record.max_violation[0].tolist()),
        clipped_fraction=float(record.clipped_fraction[0]),
        min_grad_rms_over_eps=float(health.min_grad_rms_over_eps[0]),
    )


def _only(values: LossArray) -> float | None:
    return None if values is None else float(values[0])
