"""Where the training of runs is: the only state outside engine, policies and observers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from simulator.training.job import RunEnd, RunOutcome, TrainingRun
from simulator.training.policies import Verdict, consult
from simulator.training.records import StepStats, TrainingRecord

__all__ = ["Position", "Rider"]


@dataclass(slots=True, kw_only=True)
class Position:
    """Where the runs of one stretch are together."""

    step: int = 0
    """Steps finished."""
    num_batches: int = 0
    """Batches consumed; more than steps after a rewind."""

    def state(self) -> dict[str, int]:
        """Return the position as plain JSON values."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class _Counters:
    num_clipped: int = 0
    """Clipped steps since the last health point."""
    num_since_health: int = 0
    """Steps since the last health point."""
    num_steps_shared: int = 0
    seconds: float = 0.0


class Rider:
    """One run on its way, with what it remembers besides its model.

    Parameters
    ----------
    number
        Its place among the runs trained together.
    """

    def __init__(self, number: int, run: TrainingRun) -> None:
        self.number = number
        self.run = run
        self._counters = _Counters()

    def tell(self, record: TrainingRecord) -> None:
        """Hand a record to the run's observers."""
        for observer in self.run.observers:
            observer.observe(record)

    def judge(self, step: int, stats: StepStats) -> Verdict:
        """Return the severest verdict of the run's policies."""
        return consult(self.run.policies, step, stats)[0]

    def count(self, *, is_clipped: bool, is_owner: bool) -> None:
        """Count one step made, as the run's own or as another's."""
        counters = self._counters
        counters.num_clipped += is_clipped
        counters.num_since_health += 1
        counters.num_steps_shared += not is_owner

    def charge(self, seconds: float) -> None:
        """Count time spent on the run."""
        self._counters.seconds += seconds

    def take_clipped_fraction(self) -> float:
        """Return the share of steps clipped since this was last asked."""
        counters = self._counters
        fraction = counters.num_clipped / counters.num_since_health
        counters.num_clipped = counters.num_since_health = 0
        return fraction

    def recount(self, state: Mapping[str, Any]) -> None:
        """Take the counts since the last health point, and no more, from :meth:`state`."""
        self._counters.num_clipped = state["num_clipped"]
        self._counters.num_since_health = state["num_since_health"]

    def outcome(self, status: RunEnd, *, num_steps: int, row: int, reason: str = "") -> RunOutcome:
        """Return how the run ended."""
        return RunOutcome(
            status=status,
            num_steps=num_steps,
            num_steps_shared=self._counters.num_steps_shared,
            seconds=self._counters.seconds,
            row=row,
            reason=reason,
        )

    def state(self) -> dict[str, Any]:
        """Return what the run remembers, as plain JSON values."""
        return asdict(self._counters) | {"policies": [p.state() for p in self.run.policies]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state` returned."""
        values = dict(state)
        for policy, memory in zip(self.run.policies, values.pop("policies"), strict=True):
            policy.restore(memory)
        self._counters = _Counters(**values)
