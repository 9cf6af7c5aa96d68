"""What a study and its runs leave behind, as frozen data.

Losses are nats per token on the main next-token task unless the name says otherwise.
"""

from typing import Any, Literal

from simulator.specs.base import spec
from simulator.specs.errors import StudyError

__all__ = [
    "SCHEMA_VERSION",
    "EvalPoint",
    "ExecutionRecord",
    "HealthPoint",
    "RunPurpose",
    "RunRecord",
    "RunStatus",
    "StepPoint",
    "StudyRecord",
    "TrialRecord",
    "check_schema",
]

SCHEMA_VERSION = 1
"""Version of the study directory's layout and record types; a reader refuses a newer one."""

RunPurpose = Literal[
    "search", "noise", "finalist", "width_ladder", "horizon_ladder", "verify", "lab", "full"
]

RunStatus = Literal[
    "running", "complete", "pruned", "diverged", "failed", "oom", "preempted", "stale"
]
"""``stale``: the record says running, but nobody runs it any more."""


@spec
class StepPoint:
    """One optimiser step as logged."""

    step: int
    """From 1: the number of steps finished."""
    tokens: int
    loss: float
    """Mean training loss of the step's batch before the update."""
    mtp_loss: float | None = None
    """Unweighted multi-token-prediction loss."""
    balance_loss: float | None = None
    """Weighted auxiliary balance loss."""
    lr: float
    """Learning rate of a tensor whose multiplier is 1."""
    grad_norm: float
    """Global norm before clipping."""
    is_clipped: bool
    data_seconds: float
    forward_backward_seconds: float
    apply_seconds: float


@spec
class HealthPoint:
    """Slower health series of one run."""

    step: int
    max_attention_logit: tuple[tuple[float, ...], ...]
    """Per layer, per head: largest scaled attention logit of the last batch."""
    max_violation: tuple[float, ...]
    """Per MoE layer: largest expert load over the mean load, minus 1 (arXiv 2408.15664)."""
    clipped_fraction: float
    """Share of steps clipped since the last point."""
    min_grad_rms_over_eps: float
    """Smallest RMS(gradient) / eps over the tensors (should stay >= 1e3)."""


@spec
class EvalPoint:
    """One evaluation on every held-out set."""

    step: int
    tokens: int
    loss: dict[str, float]
    """Per validation set, nats per token."""
    bits_per_byte: dict[str, float | None]
    """Per validation set; null where the source has no bytes."""
    mtp_loss: dict[str, float | None]
    """Per validation set; null without multi-token prediction."""
    seconds: float


@spec
class ExecutionRecord:
    """Where and how a run was executed."""

    device: str
    device_name: str
    precision: str
    num_rows: int
    """Runs trained together in the same cohort (K)."""
    row: int
    """Position of this run in its cohort."""
    num_threads: int
    torch_version: str
    host: str
    pid: int


@spec
class RunRecord:
    """The outcome of one training run."""

    schema_version: int = SCHEMA_VERSION
    fingerprint: str
    """Identity of the run's specification."""
    purpose: RunPurpose
    """Why it was first run; not part of the identity."""
    status: RunStatus
    reason: str = ""
    """Plain sentence for every status but complete; there only where something is worth noting."""
    loss: float | None
    """Smoothed loss on the first validation set; null unless complete."""
    losses: dict[str, float]
    """The same for every validation set."""
    unigram_entropy: float | None
    """Entropy of the training tokens' unigram distribution, nats; null where unknown."""
    exact_entropy: float | None = None
    """Irreducible loss of the source where it is known exactly."""
    num_steps_done: int
    num_steps_shared: int = 0
    """Of those, the first ones, which were trained as another run's and taken over from it."""
    num_tokens: int
    """Tokens of all steps done."""
    train_flops: float
    """Spent on this run alone: on the steps that were not taken over."""
    wall_seconds: float
    """Likewise; of a cohort trained together, the run's share."""
    execution: ExecutionRecord
    code_version: str
    """Version of this tool, and the commit when run from a checkout."""


@spec
class TrialRecord:
    """One line of the study's ledger: a configuration somebody decided to run."""

    number: int
    """Position in the study, from 0; the ledger is ordered by it."""
    batch: int
    """Suggestion batch it belongs to; -1 for trials no sampler suggested."""
    purpose: RunPurpose
    config: int
    """Number of the first trial with the same configuration: replicates share it."""
    params: dict[str, Any]
    """Values of the search space."""
    seed: int
    """Replicate number: the same for initial weights and data order of all trials."""
    label: str = ""
    """Such as ``incumbent``."""
    draw: int = -1
    """Which of its batch's suggestions it was, from 0; a gap is one that repeated an earlier run.
    -1 for trials no sampler suggested."""
    round_size: int = 1
    """Trials decided and written together; a round cut short by a crash does not count."""
    fingerprint: str


@spec
class StudyRecord:
    """Head of a study directory."""

    schema_version: int = SCHEMA_VERSION
    name: str
    created: str
    """ISO 8601, UTC."""
    code_version: str
    sweep: dict[str, Any]
    """The resolved sweep, as its own codec reads it back."""


def check_schema(version: int, path: str) -> None:
    """Refuse a record of a schema this code does not know.

    Raises
    ------
    StudyError
        If ``version`` is newer than this code, or below 1.
    """
    if not 1 <= version <= SCHEMA_VERSION:
        raise StudyError(
            path,
            f"must have schema_version 1 to {SCHEMA_VERSION}",
            version,
            "Read it with the version of the tool that wrote it, or a newer one.",
        )
