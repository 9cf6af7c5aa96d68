"""Where a training loop is: the only state outside its engine, policies and observers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from simulator.training.records import BoolArray, FloatArray

__all__ = ["Position", "RowOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome:
    """How one of the runs trained together fares."""

    status: Literal["running", "complete", "diverged", "pruned", "preempted"]
    num_steps: int
    """Steps finished when it ended."""
    reason: str = ""
    """Plain sentence where a policy ended it."""


@dataclass(slots=True, kw_only=True)
class Position:
    """Steps, batches, runs and counters."""

    step: int = 0
    """Steps finished."""
    num_batches: int = 0
    """Batches consumed; more than steps after a rewind."""
    rows: list[RowOutcome]
    num_clipped: FloatArray
    """Clipped steps of each run since the last health point; shape [K]."""
    num_since_health: int = 0
    """Steps since the last health point."""
    seconds_before: float = 0.0
    """Time earlier processes spent on the run up to their last checkpoint."""

    @classmethod
    def start(cls, num_rows: int) -> "Position":
        """Return the position before the first step."""
        running = RowOutcome(status="running", num_steps=0)
        return cls(rows=[running] * num_rows, num_clipped=np.zeros(num_rows))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Position":
        """Take up what :meth:`state` returned."""
        values = dict(state)
        values["rows"] = [RowOutcome(**row) for row in values["rows"]]
        values["num_clipped"] = np.asarray(values["num_clipped"], dtype=np.float64)
        return cls(**values)

    def state(self, *, seconds: float) -> dict[str, Any]:
        """Return the position as plain JSON values.

        Parameters
        ----------
        seconds
            Time spent on the run so far, by all processes together.
        """
        values = asdict(self)
        return values | {"num_clipped": self.num_clipped.tolist(), "seconds_before": seconds}

    @property
    def active(self) -> BoolArray:
        """Which runs go on; shape [K]."""
        return np.array([row.status == "running" for row in self.rows])
