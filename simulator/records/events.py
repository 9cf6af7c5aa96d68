"""What a study tells its observers while it runs, as frozen data.

Observers only read: an event decides nothing. Every event carries plain values and records, so
that a progress display, a log and a web page can be fed by the same stream.
"""

from collections.abc import Callable
from dataclasses import dataclass

from simulator.records.summary import StudySummary
from simulator.records.types import RunPurpose, RunRecord, TrialRecord

__all__ = [
    "Notice",
    "RunFinished",
    "RunProgress",
    "RunStarted",
    "StageStarted",
    "StudyEvent",
    "StudyFinished",
    "StudyObserver",
    "StudyStarted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStarted:
    """A driver took up a study, for the first time or again."""

    name: str
    directory: str
    total_planned_runs: int
    """Search, noise and finalist runs expected in all; finalists may turn out fewer."""
    num_runs_done: int = 0
    """Runs of earlier drivers that are taken over as they are."""
    num_workers: int = 1
    delta_fraction: float = 0.0
    """Indifference margin as a share of the best loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted:
    """The study entered its next stage."""

    name: str
    """Such as ``search``, ``noise`` or ``finalists``."""
    num_runs: int
    """Runs planned in this stage, those already done included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A worker began a run."""

    trial: TrialRecord
    num_steps: int

    @property
    def fingerprint(self) -> str:
        """Identity of the run."""
        return self.trial.fingerprint

    @property
    def purpose(self) -> RunPurpose:
        """Why it is run."""
        return self.trial.purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run is on its way."""

    fingerprint: str
    step: int
    """Optimiser steps finished."""
    num_steps: int
    loss: float
    """Last training loss, nats per token; may be NaN when the run diverges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """A run ended, well or not; also sent for runs taken over from an earlier driver."""

    trial: TrialRecord
    record: RunRecord
    is_reused: bool = False
    """The record was there already; nothing was trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A sentence the user should see, such as a merged level or a run that was tried again."""

    message: str
    severity: str = "info"
    """``info``, ``amber`` or ``red``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFinished:
    """The study reached its end."""

    summary: StudySummary


StudyEvent = (
    StudyStarted | StageStarted | RunStarted | RunProgress | RunFinished | Notice | StudyFinished
)
"""Everything an observer may be handed."""

StudyObserver = Callable[[StudyEvent], None]
"""Reads one event; is called from the driver's thread, in order, and decides nothing."""
