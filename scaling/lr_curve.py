"""The best loss as a function of the peak learning rate, from trials that vary everything.

::

    LrPoint(peak_lr, loss)
    lr_curve(points, low, high) -> LrCurve | None
    LrCurve.optimum_octaves, .spread, .octaves_from_edge, .spread_over(octaves)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, log2

import numpy as np

__all__ = ["LrCurve", "LrPoint", "lr_curve"]

NUM_NEIGHBOURS = 2
"""Points on each side of the best that the parabola passes: five in all."""
MAX_NEIGHBOUR_OCTAVES = 2.5
"""Farther ones belong to the slope or the cliff, which no parabola describes."""
MAX_SHIFT_OCTAVES = 1.0
"""How far the parabola may move the optimum from the best point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LrPoint:
    """One finished or failed trial."""

    peak_lr: float
    loss: float | None
    """Nats; null, NaN or infinite where the trial diverged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LrCurve:
    """Lower envelope of the trials: the best of each octave, all else being free."""

    octaves: tuple[float, ...]
    """log2 of the rates over the lower bound of the range, rising; one an octave at most."""
    losses: tuple[float, ...]
    diverged_octaves: tuple[float, ...]
    """Where trials diverged."""
    range_octaves: float
    """Width of the searched range."""

    @property
    def spread(self) -> float:
        """Worst minus best of the envelope, nats: what the learning rate alone is worth."""
        return max(self.losses) - min(self.losses)

    @property
    def optimum_octaves(self) -> float:
        """Place of the minimum: a parabola's through five points around the best, if it has one."""
        octaves, losses = np.array(self.octaves), np.array(self.losses)
        best = int(losses.argmin())
        near = slice(max(0, best - NUM_NEIGHBOURS), best + NUM_NEIGHBOURS + 1)
        close = np.abs(octaves[near] - octaves[best]) <= MAX_NEIGHBOUR_OCTAVES
        x, y = octaves[near][close] - octaves[best], losses[near][close]
        if len(x) < 3:
            return float(octaves[best])
        curvature, slope, _ = np.polyfit(x, y, 2)
        if curvature <= 0:
            return float(octaves[best])
        shift = np.clip(-slope / (2.0 * curvature), -MAX_SHIFT_OCTAVES, MAX_SHIFT_OCTAVES)
        return float(octaves[best] + shift)

    @property
    def is_bracketed(self) -> bool:
        """Whether trials on both sides of the best were worse or diverged."""
        best = self.octaves[int(np.argmin(self.losses))]
        others = [x for x in (*self.octaves, *self.diverged_octaves) if x != best]
        return any(x < best for x in others) and any(x > best for x in others)

    @property
    def octaves_from_edge(self) -> float:
        """Distance of the optimum from the nearer end of the range; negative beyond it."""
        return min(self.optimum_octaves, self.range_octaves - self.optimum_octaves)

    def spread_over(self, width_octaves: float) -> float | None:
        """Return the spread within a window around the best; infinite if trials diverged in it.

        Null where the trials in the window cover less than three quarters of it, so that its
        flatness cannot be judged.
        """
        center = self.octaves[int(np.argmin(self.losses))]
        low = min(
            max(0.0, center - width_octaves / 2), max(0.0, self.range_octaves - width_octaves)
        )
        inside = [
            (x, loss)
            for x, loss in zip(self.octaves, self.losses, strict=True)
            if low <= x <= low + width_octaves
        ]
        if any(low <= x <= low + width_octaves for x in self.diverged_octaves):
            return float("inf")
        if inside[-1][0] - inside[0][0] < 0.75 * width_octaves:
            return None
        found = [loss for _, loss in inside]
        return max(found) - min(found)


def lr_curve(points: Sequence[LrPoint], low: float, high: float) -> LrCurve | None:
    """Return the lower envelope over octaves of peak rate; None without a finite loss.

    Parameters
    ----------
    low, high
        Bounds of the searched range of peak rates.
    """
    best: dict[int, tuple[float, float]] = {}
    diverged = []
    for point in points:
        octave = log2(point.peak_lr / low)
        if point.loss is None or not isfinite(point.loss):
            diverged.append(octave)
            continue
        bin_ = floor(octave)
        if bin_ not in best or point.loss < best[bin_][1]:
            best[bin_] = (octave, point.loss)
    if not best:
        return None
    ordered = [best[bin_] for bin_ in sorted(best)]
    return LrCurve(
        octaves=tuple(octave for octave, _ in ordered),
        losses=tuple(loss for _, loss in ordered),
        diverged_octaves=tuple(sorted(diverged)),
        range_octaves=log2(high / low),
    )
