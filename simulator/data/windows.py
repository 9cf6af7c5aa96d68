"""How a row of tokens is split into training windows and held-out windows.

The last share of each source is held out; training windows lie wholly before it. Consecutive
training windows advance by ``seq_len``, so that every training token is predicted once in an
epoch; the extra tokens of a window are the first of the next one.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["WindowShape", "num_train_tokens", "spread_starts"]


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Lengths of one sequence, in tokens."""

    seq_len: int
    """Tokens that the main head predicts."""
    num_extra_tokens: int
    """1 for the target of the last position, and one for each multi-token-prediction module."""

    @property
    def num_tokens(self) -> int:
        """Tokens of a whole window."""
        return self.seq_len + self.num_extra_tokens

    def count(self, num_tokens: int) -> int:
        """Return how many training windows a row of tokens holds."""
        return max(0, (num_tokens - self.num_extra_tokens) // self.seq_len)


def num_train_tokens(num_tokens: int, holdout_fraction: float) -> int:
    """Return where the held-out tail begins."""
    return num_tokens - math.ceil(num_tokens * holdout_fraction)


def spread_starts(begin: int, end: int, *, count: int, window: int) -> npt.NDArray[np.int64]:
    """Return starts of ``count`` windows spread evenly over tokens ``begin`` to ``end``.

    They do not overlap as long as ``count * window <= end - begin``.
    """
    slack = end - begin - window
    return begin + np.arange(count, dtype=np.int64) * slack // max(1, count - 1)
