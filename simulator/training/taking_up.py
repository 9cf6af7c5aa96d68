"""Where interrupted runs can be taken up, given that they shared some of their steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.prefix import Stretch
from simulator.training.checkpoint import Saved

__all__ = ["Start", "find_starts"]


@dataclass(frozen=True, slots=True)
class Start:
    """A stretch that can begin at once."""

    stretch: Stretch
    saved_by: int | None
    """Run whose checkpoint holds the state to begin with; None: that before the first step."""

    def from_scratch(self) -> "Start":
        """Return the same runs from their first step, for want of a sound checkpoint."""
        return Start(replace(self.stretch, start=0), None)


@dataclass(frozen=True, slots=True)
class _Kept:
    step: int
    riders: frozenset[int]


def find_starts(
    roots: Sequence[Stretch], saved: Mapping[int, Saved], identities: Sequence[str]
) -> tuple[Start, ...]:
    """Return where the runs below ``roots`` begin, so that the least is trained again.

    Parameters
    ----------
    saved
        The newest checkpoint of each run that has one. It serves every run that rode along when it
        was written.
    identities
        Of the runs, as checkpoints name them.
    """
    kept = {
        run: _Kept(
            found.step, frozenset(i for i, name in enumerate(identities) if name in found.riders)
        )
        for run, found in saved.items()
    }
    starts: list[Start] = []
    for root in roots:
        independent, left = _place(root, kept)
        starts += independent
        if left is not None:
            starts.append(Start(left, None))
    return tuple(starts)


def _place(node: Stretch, saved: Mapping[int, _Kept]) -> tuple[list[Start], Stretch | None]:
    """Return what below ``node`` begins by itself, and what is left for its parent to lead to."""
    starts: list[Start] = []
    children = []
    for child in node.children:
        independent, left = _place(child, saved)
        starts += independent
        if left is not None:
            children.append(left)
    served = {run for start in starts for run in start.stretch.runs}
    runs = tuple(run for run in node.runs if run not in served)
    if not runs:
        return starts, None
    kept = replace(node, runs=runs, children=tuple(children))
    savers = [run for run in runs if run in saved and _serves(saved[run], kept)]
    if not savers:
        return starts, kept
    latest = max(savers, key=lambda run: (saved[run].step, -run))
    return [*starts, Start(kept, latest)], None


def _serves(saved: _Kept, stretch: Stretch) -> bool:
    return stretch.start < saved.step <= stretch.stop and saved.riders >= set(stretch.runs)
