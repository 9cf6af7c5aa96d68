"""What a selection says, as frozen data.

::

    RankedConfig        one configuration in the final order
    Selection           the order, the ties, the verdict and its probabilities
    Discrepancy         how far the target strays from the proxy
"""

from dataclasses import dataclass
from typing import Literal

from scaling.probability import TRANSFER_STD
from simulator.records.summary import Flag, NoiseSummary

__all__ = ["ASSUMED_DISCREPANCY", "Discrepancy", "RankedConfig", "Selection", "Verdict"]

Verdict = Literal["resolved", "not_resolved", "vacuous", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedConfig:
    """One configuration in the final order."""

    config: int
    seeds: tuple[int, ...]
    """Every finished seed."""
    losses: tuple[float, ...]
    """One a seed, in the order of ``seeds``."""
    mean_loss: float
    """On the seeds that ``Selection.seeds`` names; for single runs brought to the same scale."""
    difference: float
    """From the best, nats."""
    standard_error: float | None
    """Of the difference; null for the best and where noise is unknown."""
    difference_in_noise: float | None
    """In units of the noise of one run."""
    is_finalist: bool
    num_failed: int
    p_best: float | None
    """Chance of being the best of those tested at the target; null where noise is unknown."""
    p_within_delta: float | None
    """Chance of being within the margin of the best of those tested at the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The outcome of a study's losses."""

    verdict: Verdict
    statement: str
    top: tuple[RankedConfig, ...]
    ties: tuple[RankedConfig, ...]
    """Further ones that cannot be told to be worse than the last of the top by the margin."""
    others: tuple[RankedConfig, ...]
    failed: tuple[int, ...]
    """Configurations without one finite loss."""
    delta: float
    noise: NoiseSummary | None
    noise_std: float | None
    """``noise.paired_std`` where known, else ``noise.seed_std``, which is not smaller."""
    seeds: tuple[int, ...]
    """What the finalists were compared on."""
    num_tied: int
    """Size of the group that ties with the last of the top, itself included; 0 without ties."""
    num_configs: int
    """All configurations, failed ones included."""
    runs_needed: int
    """Further runs that would resolve a study that is not resolved; 0 if none would or need be."""
    p_contains_best: float | None
    """Chance that the top and its ties hold the best of those tested."""
    p_within_delta: float | None
    """Chance that the best of the top and its ties is within the margin of the best tested."""
    transfer_std: float
    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """How far a configuration's loss at the target strays from what the proxy says."""

    std: float = TRANSFER_STD
    source: str = "assumed from public runs, not measured here"


ASSUMED_DISCREPANCY = Discrepancy()
"""Until the project's own ladder of widths supplies one."""
