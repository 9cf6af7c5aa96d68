"""Where everything lies in a study directory.

::

    DIR/
      study.json            head: schema version, resolved sweep
      SWEEP.toml            the user's file as it was
      plan.json             what was planned
      ledger.jsonl          append-only: one TrialRecord a line
      lock, owner.json      who drives the study now
      runs/FINGERPRINT/     one folder a run, shared by trials of the same specification
        spec.json           the RunSpec
        record.json         the RunRecord; written atomically, last
        steps.jsonl         StepPoint a line
        evals.jsonl         EvalPoint a line
        health.jsonl        HealthPoint a line
        checkpoint/         last resumable state, removed when the run has ended
      summary.json          the outcome
      report.html
"""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["RunLayout", "StudyLayout"]


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Paths of one run's folder."""

    root: Path

    @property
    def spec(self) -> Path:
        """The run's specification."""
        return self.root / "spec.json"

    @property
    def record(self) -> Path:
        """The run's outcome; present once it has ended."""
        return self.root / "record.json"

    @property
    def steps(self) -> Path:
        """Training series."""
        return self.root / "steps.jsonl"

    @property
    def evals(self) -> Path:
        """Held-out series."""
        return self.root / "evals.jsonl"

    @property
    def health(self) -> Path:
        """Health series."""
        return self.root / "health.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Folder of the last resumable state."""
        return self.root / "checkpoint"


@dataclass(frozen=True, slots=True)
class StudyLayout:
    """Paths of a study directory."""

    root: Path

    @property
    def study(self) -> Path:
        """The head."""
        return self.root / "study.json"

    @property
    def sweep(self) -> Path:
        """Copy of the user's file."""
        return self.root / "SWEEP.toml"

    @property
    def plan(self) -> Path:
        """What was planned."""
        return self.root / "plan.json"

    @property
    def ledger(self) -> Path:
        """Trials in order."""
        return self.root / "ledger.jsonl"

    @property
    def lock(self) -> Path:
        """Lock held by the driver."""
        return self.root / "lock"

    @property
    def owner(self) -> Path:
        """Who holds the lock, in words."""
        return self.root / "owner.json"

    @property
    def summary(self) -> Path:
        """The outcome."""
        return self.root / "summary.json"

    @property
    def report(self) -> Path:
        """The page people read."""
        return self.root / "report.html"

    def run(self, fingerprint: str) -> RunLayout:
        """Return the paths of one run."""
        return RunLayout(self.root / "runs" / fingerprint)
