"""Policies: what decides, between backward pass and optimiser step, how a run goes on.

Of several policies' verdicts on a run the severest holds, in the order go on, skip, rewind, stop.
Runs that share their steps skip and rewind together and stop each by itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from simulator.training.records import StepStats

__all__ = ["GO_ON", "Action", "Policy", "Verdict", "consult", "severest"]

Action = Literal["go_on", "skip", "rewind", "stop"]
"""``skip``: no update on this batch; ``rewind``: back to the last checkpoint and on with batches
not seen yet; ``stop``: the run ends here."""

_SEVERITY: dict[Action, int] = {"go_on": 0, "skip": 1, "rewind": 2, "stop": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done with one run."""

    action: Action
    reason: str = ""
    """Plain sentence for every action but ``go_on``."""
    status: Literal["diverged", "pruned"] = "diverged"
    """What a stopped run is recorded as."""


GO_ON = Verdict(action="go_on")


class Policy(Protocol):
    """Decides on each run after every backward pass.

    Its memory travels in checkpoints, so that a resumed run is judged as an uninterrupted one.
    """

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        """Return one verdict a run on step number ``step`` (from 1), before its update."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the memory as plain JSON values."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a memory that :meth:`state` returned."""
        ...


def consult(policies: Sequence[Policy], step: int, stats: StepStats) -> tuple[Verdict, ...]:
    """Return the severest verdict on each run."""
    opinions = [policy.decide(step, stats) for policy in policies]
    rows = zip(*opinions, strict=True) if opinions else [()] * len(stats.loss)
    return tuple(severest(row) for row in rows)


def severest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the severest of several verdicts, the first of equals; go on without any."""
    return max(verdicts, key=lambda verdict: _SEVERITY[verdict.action], default=GO_ON)
