"""Stop runs that have diverged: not a number, above the start, or far above their own median."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.training.policies import GO_ON, Verdict
from simulator.training.records import FloatArray, StepStats

__all__ = ["DivergencePolicy", "NonFinitePolicy", "divergence_window"]


def divergence_window(num_steps: int) -> int:
    """Return over how many losses the running median is taken: 5 % of the run, 5 to 50."""
    return min(max(num_steps // 20, 5), 50)


class NonFinitePolicy:
    """Stop a run as diverged when its loss or gradient is not a finite number."""

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        """Return ``stop`` for every run with a NaN or an infinity."""
        is_finite = np.isfinite(stats.loss) & np.isfinite(stats.grad_norm)
        if is_finite.all():
            return (GO_ON,) * len(is_finite)
        return tuple(
            GO_ON if fine else _stop(f"loss {loss:.4g}, gradient norm {norm:.4g} at step {step}")
            for fine, loss, norm in zip(is_finite, stats.loss, stats.grad_norm, strict=True)
        )

    def state(self) -> dict[str, Any]:
        """Return nothing: every step is judged by itself."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up nothing."""


@dataclass(slots=True)
class _Memory:
    initial: FloatArray
    """Loss of the first step; shape [K]."""
    recent: deque[FloatArray]
    num_above: FloatArray
    """How many losses in a row lay above the ratio; shape [K]."""


class DivergencePolicy:
    """Stop a run as diverged by one of two rules.

    1. After warmup, the median of the last ``window`` losses lies above the very first loss by
       more than ``margin`` of it: the run is worse than untrained. The margin is room for the
       spread of batches, within which a run that hardly learns stays.
    2. ``patience`` losses in a row lie above ``ratio`` times the median of the ``window`` before.
       One such loss is a spike, and most spikes heal by themselves.

    Parameters
    ----------
    warmup_steps
        Of the schedule; rule 1 is silent until ``window`` losses were seen after it.
    window
        Losses of a median; see :func:`divergence_window`.

    Notes
    -----
    The rules stop what no schedule brings back. They never compare runs with each other: a run at
    a high learning rate looks worse than others until it decays.
    """

    def __init__(
        self,
        *,
        warmup_steps: int,
        window: int,
        margin: float = 0.02,
        ratio: float = 3.0,
        patience: int = 3,
    ) -> None:
        self._first_judged = warmup_steps + window
        self._window = window
        self._margin = margin
        self._ratio = ratio
        self._patience = patience
        self._memory: _Memory | None = None

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        """Return ``stop`` for every run one of the rules holds for."""
        loss = stats.loss
        memory = self._memory
        if memory is None:
            self._memory = _Memory(loss, deque([loss], self._window), np.zeros_like(loss))
            return (GO_ON,) * len(loss)
        median = _median(memory.recent)
        memory.recent.append(loss)
        memory.num_above = np.where(loss > self._ratio * median, memory.num_above + 1, 0.0)
        is_lost = (median > memory.initial * (1.0 + self._margin)) & (step > self._first_judged)
        is_blown = memory.num_above >= self._patience
        if not (is_lost | is_blown).any():
            return (GO_ON,) * len(loss)
        return tuple(
            self._lost(step, median[row], memory.initial[row])
            if is_lost[row]
            else self._blown(step, median[row], loss[row])
            if is_blown[row]
            else GO_ON
            for row in range(len(loss))
        )

    def state(self) -> dict[str, Any]:
        """Return the first losses, the recent ones, and the counts of rule 2."""
        memory = self._memory
        if memory is None:
            return {}
        return {
            "initial": memory.initial.tolist(),
            "recent": [loss.tolist() for loss in memory.recent],
            "num_above": memory.num_above.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up the memory of :meth:`state`."""
        self._memory = None
        if state:
            recent = [np.asarray(loss, dtype=np.float64) for loss in state["recent"]]
            self._memory = _Memory(
                initial=np.asarray(state["initial"], dtype=np.float64),
                recent=deque(recent, maxlen=self._window),
                num_above=np.asarray(state["num_above"], dtype=np.float64),
            )

    def _lost(self, step: int, median: float, initial: float) -> Verdict:
        return _stop(f"median loss {median:.4g} above the first loss {initial:.4g} at step {step}")

    def _blown(self, step: int, median: float, loss: float) -> Verdict:
        return _stop(f"loss {loss:.4g} above {self._ratio:g} x median {median:.4g} at step {step}")


def _median(losses: deque[FloatArray]) -> FloatArray:
    """Return the upper median of each run's losses; a stopped run's NaNs sort to the end."""
    middle = len(losses) // 2
    median: FloatArray = np.partition(np.stack(losses), middle, axis=0)[middle]
    return median


def _stop(reason: str) -> Verdict:
    return Verdict(action="stop", reason=f"diverged: {reason}")
