"""Stop runs whose router has collapsed onto the same few experts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.specs.model import MoESpec
from simulator.training.policies import GO_ON, Verdict
from simulator.training.records import FloatArray, StepStats

__all__ = ["RouterCollapsePolicy", "full_collapse"]


def full_collapse(moe: MoESpec) -> float:
    """Return the MaxVio of a layer in which some expert receives every token.

    A token goes to ``k`` different experts of ``E``, so the mean load is ``k/E`` of the tokens and
    the largest possible load is all of them: ``MaxVio = E/k - 1``.
    """
    return moe.n_routed_experts / moe.n_activated_experts - 1.0


class RouterCollapsePolicy:
    """Stop a run as diverged when a MoE layer uses the same experts for nearly every token.

    The rule: in some layer, MaxVio (largest load over mean load, minus 1; arXiv 2408.15664) has
    been at or above ``share`` of its largest possible value for ``patience`` steps in a row, the
    first of them after ``warmup_steps``.

    Parameters
    ----------
    limit
        MaxVio of a full collapse; see :func:`full_collapse`.
    balance_steps
        Updates in which the balance bias can cross the whole range of scores; 0 without a bias.
        Before that a router that leans on few experts is not collapsed, only not yet balanced, so
        that the patience is no less than this, 5 % of the run and 20 steps.
    """

    def __init__(
        self,
        *,
        limit: float,
        warmup_steps: int,
        num_steps: int,
        balance_steps: int = 0,
        share: float = 0.95,
    ) -> None:
        self._threshold = share * limit
        self._warmup_steps = warmup_steps
        self._patience = max(num_steps // 20, 20, balance_steps)
        self._num_above: FloatArray | None = None

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        """Return ``stop`` for every run the rule holds for."""
        violation = stats.max_violation
        if self._num_above is None:
            self._num_above = np.zeros_like(violation)
        is_above = (violation >= self._threshold) & (step > self._warmup_steps)
        self._num_above = np.where(is_above, self._num_above + 1, 0.0)
        is_collapsed = self._num_above >= self._patience
        if not is_collapsed.any():
            return (GO_ON,) * len(violation)
        return tuple(
            self._stop(step, int(layers.argmax())) if layers.any() else GO_ON
            for layers in is_collapsed
        )

    def state(self) -> dict[str, Any]:
        """Return how long each layer of each run has been above the threshold."""
        return {} if self._num_above is None else {"num_above": self._num_above.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up the memory of :meth:`state`."""
        self._num_above = np.asarray(state["num_above"], dtype=np.float64) if state else None

    def _stop(self, step: int, layer: int) -> Verdict:
        return Verdict(
            action="stop",
            reason=(
                f"router collapsed: MaxVio of MoE layer {layer} at or above {self._threshold:.3g} "
                f"for {self._patience} steps, at step {step}"
            ),
        )
