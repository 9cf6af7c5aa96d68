"""The outcome of a study as frozen data: what ``summary.json`` holds and reports show."""

from typing import Literal

from simulator.records.types import SCHEMA_VERSION
from simulator.specs.base import spec

__all__ = [
    "ConfigSummary",
    "Flag",
    "IncumbentSummary",
    "NoiseSummary",
    "StudySummary",
    "TargetRecipe",
]


@spec
class Flag:
    """One remark that lowers confidence."""

    severity: Literal["info", "amber", "red"]
    code: str
    """Stable short name, such as ``horizon_extrapolation``."""
    message: str


@spec
class TargetRecipe:
    """A configuration mapped to the target (science: width, batch, horizon and decay rules)."""

    peak_lr: float
    """Peak learning rate of tensors whose multiplier is 1 on the anchor, at the target."""
    matrix_lr: float
    """Peak learning rate of a hidden matrix of the target (its commonest multiplier)."""
    embedding_lr: float
    weight_decay: float
    """Decay coefficient of a hidden matrix of the target."""
    warmup_steps: int
    schedule: str
    num_steps: int
    global_batch_tokens: int
    lr_interval_80: tuple[float, float]
    """80 % interval of ``peak_lr`` from the exponents' priors."""
    ratios: dict[str, float]
    """Extrapolation ratios: ``width``, ``tokens``, ``batch``, ``tokens_per_param``."""
    flags: tuple[Flag, ...]


@spec
class ConfigSummary:
    """One configuration with all its seeds."""

    config: int
    """Number of its first trial."""
    label: str
    params: dict[str, float | str]
    seeds: tuple[int, ...]
    losses: tuple[float, ...]
    """One smoothed loss a seed."""
    mean_loss: float
    """Over the seeds all finalists share where it is a finalist."""
    standard_error: float | None
    """Of the difference from the best; null for the best itself and with one seed."""
    difference: float
    """From the best, nats."""
    difference_in_noise: float | None
    """The same in units of the noise of one run."""
    is_finalist: bool
    recipe: TargetRecipe | None = None


@spec
class NoiseSummary:
    """How far two runs of one configuration differ."""

    seed_std: float
    """Standard deviation over seeds of one configuration, nats."""
    paired_std: float | None
    """The same after removing what all configurations share under a seed."""
    num_replicates: int
    """Runs behind the estimate."""
    degrees_of_freedom: int
    """Of ``paired_std`` where known, else of ``seed_std``."""
    num_excluded: int = 0
    """Runs left out because their loss is not finite."""


@spec
class IncumbentSummary:
    """The published recipe's own trial, against which gains are stated."""

    config: int
    source: str
    """Where the recipe was published."""
    mean_loss: float | None
    gain: float | None
    """Loss of the incumbent minus loss of the best, nats; positive is better."""
    gain_standard_error: float | None


@spec
class StudySummary:
    """The outcome of a study."""

    schema_version: int = SCHEMA_VERSION
    name: str
    verdict: Literal["resolved", "not_resolved", "vacuous", "incomplete"]
    statement: str
    """The verdict in plain sentences."""
    top: tuple[ConfigSummary, ...]
    """Best three, best first."""
    ties: tuple[ConfigSummary, ...]
    """Further configurations within the indifference margin of the third."""
    others: tuple[ConfigSummary, ...]
    delta: float
    """Indifference margin, nats; fixed before the sweep."""
    noise: NoiseSummary | None
    noise_std: float | None
    """``noise.paired_std`` where known, else ``noise.seed_std``."""
    incumbent: IncumbentSummary | None
    trials: dict[str, int]
    """Number of runs by status."""
    checks: dict[str, float | None]
    """``unigram_entropy``, ``best_loss``, ``loss_below_unigram``, ``lr_spread``,
    ``lr_spread_in_noise``, ``lr_optimum_octaves_from_edge``."""
    flags: tuple[Flag, ...]
    target_name: str
    proxy_params: int
    target_params: int
    sweep_flops: float
    target_flops: float
    wall_seconds: float
