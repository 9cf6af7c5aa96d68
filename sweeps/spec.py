"""A sweep, fully resolved: what ``study.json`` stores and ``sweep resume`` reads back.

The user's file is decoded in ``sweeps.file`` and resolved in ``sweeps.resolve``; nothing here is
automatic any more.
"""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.model import ModelSpec
from simulator.specs.run import ExecutionSpec, PhaseSpec, RunSpec
from simulator.specs.schedule import ScheduleShape

__all__ = [
    "BudgetSpec",
    "ChoiceDomain",
    "Domain",
    "FinalistSpec",
    "FloatDomain",
    "IncumbentSpec",
    "NamedShape",
    "ParamName",
    "SamplerName",
    "SearchSpec",
    "SpaceSpec",
    "SweepSpec",
    "TargetSpec",
]

ParamName = Literal["peak_lr", "tau", "weight_decay", "warmup_ratio", "schedule"]
"""``tau`` = 1 / (lr * weight_decay * steps), the averaging timescale as a share of the run."""

SamplerName = Literal["tpe", "gp", "cmaes", "qmc", "random", "grid"]


@spec
class TargetSpec:
    """The run that is to be paid for later."""

    name: str
    model: ModelSpec
    num_tokens: int
    """Tokens the target will be trained on."""
    global_batch_sequences: int
    seq_len: int
    shape: ScheduleShape
    """The target's own published schedule."""
    warmup_steps: int
    """The target's own published warmup."""
    recipe_source: str
    """Where its recipe was published, or that the user gave it."""
    beta1: float = 0.9
    """The target's own; never changed on the target."""
    beta2: float = 0.95
    """The target's own; never changed on the target."""
    clip_norm: float = 1.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Of target and proxy."""
    mtp_weight: tuple[PhaseSpec, ...] = ()
    """Weight of the multi-token-prediction loss by share of the run."""
    bias_rate: tuple[PhaseSpec, ...] = ()
    """Update speed of the balance bias by share of the run."""

    @property
    def num_steps(self) -> int:
        """Optimiser steps of the target run."""
        return max(1, self.num_tokens // (self.global_batch_sequences * self.seq_len))


@spec
class FloatDomain:
    """A positive real between two bounds, searched on a logarithmic scale."""

    kind: Literal["float"] = "float"
    name: ParamName
    low: float
    high: float


@spec
class ChoiceDomain:
    """A short list of values."""

    kind: Literal["choice"] = "choice"
    name: ParamName
    values: tuple[float | str, ...]


Domain = FloatDomain | ChoiceDomain


@spec
class NamedShape:
    """A schedule under the name the search knows it by."""

    name: str
    shape: ScheduleShape


@spec
class SpaceSpec:
    """What is searched: exactly one domain each for ``peak_lr``, decay, warmup and schedule."""

    domains: tuple[Domain, ...]
    schedules: tuple[NamedShape, ...]
    """Every schedule a trial may name, the incumbent's included."""


@spec
class SearchSpec:
    """How the space is searched."""

    sampler: SamplerName
    num_trials: int
    """Trials of the search, the incumbent included."""
    batch_size: int
    """Suggestions made at a time; part of the result, unlike the number of workers."""
    seed: int


@spec
class FinalistSpec:
    """How the best are told apart."""

    max_configs: int
    num_seeds: int
    """Seeds of each finalist, the search's own included."""
    noise_replicates: int
    """Seeds of one near-optimal configuration that measure the noise floor."""
    delta_fraction: float
    """Indifference margin as a share of the best loss; noise never changes it."""
    top_k: int = 3


@spec
class IncumbentSpec:
    """The published recipe mapped back to the proxy; always a trial and a finalist."""

    params: dict[str, float | str]
    source: str


@spec
class BudgetSpec:
    """When to stop starting new runs."""

    max_wall_hours: float | None
    """Wall-clock hours of one driver; null means no limit."""


@spec
class SweepSpec:
    """A sweep, fully resolved."""

    name: str
    target: TargetSpec
    base: RunSpec
    """The proxy's run; the space replaces learning rate, decay, warmup, schedule and seeds."""
    space: SpaceSpec
    search: SearchSpec
    finalists: FinalistSpec
    incumbent: IncumbentSpec
    execution: ExecutionSpec
    num_workers: int
    budget: BudgetSpec
