"""Tables of ``SWEEP.toml`` that say what is searched and how it is run."""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.errors import SpecError
from sweeps.spec import SamplerName
from sweeps.tables.checks import above, all_positive, at_least, bounds, levels

__all__ = [
    "BudgetTable",
    "FinalistsTable",
    "IncumbentTable",
    "PeakLrTable",
    "RunTable",
    "SearchTable",
    "SpaceTable",
    "TauTable",
    "WeightDecayTable",
]


@spec
class PeakLrTable:
    """``[space.peak_lr]``: peak learning rates, log-uniform."""

    centre: float | None = None
    """Left out: the prior for the proxy's size and horizon."""
    octaves: float = 6.0
    """Factors of two from the lowest to the highest, around the centre."""
    low: float | None = None
    high: float | None = None
    """Both bounds, in place of centre and octaves."""

    def __post_init__(self) -> None:
        """Refuse half a range, two ranges and an empty range."""
        bounds("space.peak_lr", self.low, self.high)
        above("space.peak_lr.centre", self.centre)
        above("space.peak_lr.octaves", self.octaves)
        if self.low is not None and self.centre is not None:
            raise SpecError(
                "space.peak_lr.centre",
                f"must be left out where bounds are given ({self.low} to {self.high})",
                self.centre,
                "Keep either centre or low and high.",
            )


@spec
class TauTable:
    """``[space.tau]``: averaging timescales 1 / (lr * weight_decay * steps)."""

    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    """Multiples of 1.084 * tokens_per_param^-0.527 (arXiv 2505.13738) on the proxy."""
    values: tuple[float, ...] | None = None
    """Timescales themselves, in place of ``factors``."""
    low: float | None = None
    high: float | None = None
    """Both bounds of a logarithmic range, in place of a list."""

    def __post_init__(self) -> None:
        """Refuse half a range, an empty list and what is not positive."""
        levels("space.tau", self.values, self.low, self.high)
        all_positive("space.tau.factors", self.factors)


@spec
class WeightDecayTable:
    """``[space.weight_decay]``: decay coefficients themselves, in place of timescales."""

    values: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None
    """Both bounds of a logarithmic range, in place of ``values``."""

    def __post_init__(self) -> None:
        """Demand one way of saying it."""
        levels("space.weight_decay", self.values, self.low, self.high)
        if self.values is None and self.low is None:
            raise SpecError(
                "space.weight_decay",
                "must hold values, or low and high",
                "neither",
                "For example values = [0.05, 0.1, 0.2].",
            )


@spec
class SpaceTable:
    """``[space]``: what is searched; ready-made where left out."""

    peak_lr: PeakLrTable = PeakLrTable()
    tau: TauTable = TauTable()
    weight_decay: WeightDecayTable | None = None
    """Left out: ``tau`` is searched, which is closer to orthogonal to the learning rate."""
    warmup_ratio: tuple[float, ...] = (0.02, 0.06, 0.2)
    """Shares of the run spent warming up; levels that coincide in steps are merged."""
    schedule: tuple[str, ...] = (
        "linear_to_zero",
        "wsd20_sqrt",
        "cosine_to_10pct",
        "target_published",
    )
    """Schedule names; ``target_published`` is the target's own."""

    def __post_init__(self) -> None:
        """Refuse empty lists and ratios outside the run."""
        if not self.warmup_ratio or not all(0 <= ratio <= 1 for ratio in self.warmup_ratio):
            raise SpecError(
                "space.warmup_ratio",
                "must list shares of the run, each in [0, 1]",
                self.warmup_ratio,
                "For example [0.02, 0.06, 0.2].",
            )
        if not self.schedule:
            raise SpecError(
                "space.schedule", "must not be empty", self.schedule, "Name at least one."
            )


@spec
class SearchTable:
    """``[search]``: how the space is searched."""

    sampler: SamplerName = "tpe"
    num_trials: int = 24
    """Trials of the search, the incumbent included."""
    batch_size: int = 4
    """Suggestions made at a time. Part of the result, unlike the number of workers."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an empty search."""
        at_least("search.num_trials", self.num_trials, 2)
        at_least("search.batch_size", self.batch_size, 1)
        at_least("search.seed", self.seed, 0)


@spec
class FinalistsTable:
    """``[finalists]``: how the best are told apart."""

    max_configs: int = 5
    """Configurations, the incumbent among them, that are run again with further seeds."""
    num_seeds: int = 3
    """Seeds of each finalist, the search's own included."""
    noise_replicates: int = 6
    """Seeds of one near-optimal configuration that measure the noise floor; at least 2."""
    delta_fraction: float = 0.001
    """Indifference margin as a share of the best loss; 0.003 in quick demonstrations. Noise
    decides how many seeds are needed and how many tie, never this margin."""
    top_k: int = 3

    def __post_init__(self) -> None:
        """Refuse counts with which nothing can be told apart."""
        at_least("finalists.top_k", self.top_k, 1)
        at_least("finalists.max_configs", self.max_configs, self.top_k)
        at_least("finalists.num_seeds", self.num_seeds, 1)
        at_least("finalists.noise_replicates", self.noise_replicates, 2)
        above("finalists.delta_fraction", self.delta_fraction)


@spec
class IncumbentTable:
    """``[incumbent]``: the recipe on the proxy against which gains are stated.

    Left out: the target's recipe mapped back to the proxy.
    """

    peak_lr: float
    tau: float | None = None
    weight_decay: float | None = None
    """One of ``tau`` and ``weight_decay``."""
    warmup_ratio: float
    schedule: str
    source: str = "given in [incumbent]"

    def __post_init__(self) -> None:
        """Demand one way of saying how strong the decay is."""
        above("incumbent.peak_lr", self.peak_lr)
        above("incumbent.tau", self.tau)
        above("incumbent.weight_decay", self.weight_decay)
        if (self.tau is None) == (self.weight_decay is None):
            raise SpecError(
                "incumbent.tau",
                "and incumbent.weight_decay must not both be given or both be missing",
                (self.tau, self.weight_decay),
                "Keep one of the two.",
            )
        if not 0 <= self.warmup_ratio <= 1:
            raise SpecError(
                "incumbent.warmup_ratio", "must lie in [0, 1]", self.warmup_ratio, "Try 0.02."
            )


@spec
class RunTable:
    """``[run]``: how runs are executed; changes speed, never which trials are run."""

    workers: int | None = None
    """Processes that train, each a cohort of runs. Left out: one a core on a CPU, but no more than
    a batch has cohorts or the memory holds models; one a GPU on ``"cuda"``, which is the most."""
    cohort_rows: int | None = None
    """Runs a worker trains at the same time, at most. Left out: on a CPU a batch's share of each
    worker, at most 4; 16 on a GPU; fewer where the memory does not hold them."""
    share_prefixes: bool = True
    """Whether steps that several runs of a batch have in common are trained once for all."""
    compile: Literal["auto"] | bool = "auto"
    """Whether the step is compiled; the plan says what ``"auto"`` comes to, and why."""
    device: str = "cpu"
    """``"cpu"``, ``"cuda"`` or ``"cuda:0"``."""
    precision: Literal["fp32", "bf16"] | None = None
    """Left out: fp32 on a CPU, bf16 autocast on a GPU."""
    threads: int = 1
    """CPU threads of one worker."""
    micro_batch_sequences: int | None = None
    """Sequences of one forward pass of a run; the gradient is accumulated. Left out: as many as
    make 16,384 tokens in all rows together, at least one."""
    checkpoint_interval_steps: int | None = None
    """Optimiser steps between checkpoints, 0 for none. Left out: a tenth of the run."""

    def __post_init__(self) -> None:
        """Refuse a sweep that nobody runs."""
        at_least("run.workers", self.workers, 1)
        at_least("run.cohort_rows", self.cohort_rows, 1)
        at_least("run.threads", self.threads, 1)
        at_least("run.micro_batch_sequences", self.micro_batch_sequences, 1)
        at_least("run.checkpoint_interval_steps", self.checkpoint_interval_steps, 0)


@spec
class BudgetTable:
    """``[budget]``: when to stop starting new runs."""

    max_wall_hours: float | None = None
    """Left out: no limit."""

    def __post_init__(self) -> None:
        """Refuse a budget of nothing."""
        above("budget.max_wall_hours", self.max_wall_hours)
