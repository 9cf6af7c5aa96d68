"""Tables of ``SWEEP.toml`` that say what is studied: target, data, proxy and horizon."""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.data import SourceSpec, TokenizerChoice, ValidationSpec
from simulator.specs.errors import SpecError
from simulator.specs.run import MuonScale, PhaseSpec
from sweeps.tables.checks import above, at_least

__all__ = [
    "CutsTable",
    "DataTable",
    "EvaluationTable",
    "HorizonTable",
    "ParametrisationTable",
    "ProxyTable",
    "TargetTable",
]


@spec
class TargetTable:
    """``[target]``: the run that is to be paid for later.

    Everything but ``config`` defaults to the recipe its makers published, where this tool knows
    it; for any other model a stated rule applies and the plan says which.
    """

    config: str
    """A Hugging Face ``config.json``, a folder that holds one, or a built-in name such as
    ``"deepseek-v3"``. A relative path starts at the folder of ``SWEEP.toml``."""
    name: str | None = None
    """Left out: the name found with the configuration."""
    tokens: int | None = None
    """Tokens of the full run. Left out: as published; required otherwise."""
    seq_len: int | None = None
    """Left out: as published, else the context before any extension, at most 4,096."""
    global_batch_sequences: int | None = None
    """Sequences of one optimiser step. Left out: as published, else the batch law."""
    peak_lr: float | None = None
    """One learning rate for every tensor, as recipes are published. Left out: as published, else
    the Step Law (arXiv 2503.04715)."""
    weight_decay: float | None = None
    """Left out: as published, else from the timescale law (arXiv 2505.13738)."""
    warmup_steps: int | None = None
    """Left out: as published, else 2 % of the run, at least 2 / (1 - beta2) steps."""
    schedule: str | None = None
    """Name of a schedule. Left out: as published, else ``cosine_to_10pct``."""
    optimizer: Literal["adamw", "muon"] | None = None
    """What trains target and proxy. ``"muon"`` is Muon for hidden matrices and AdamW for the rest.
    Left out: as published, else ``"adamw"``."""
    beta1: float | None = None
    """Left out: as published, else 0.9."""
    beta2: float | None = None
    """Left out: as published, else 0.95. No rule ever changes it on the target."""
    clip_norm: float | None = None
    """Left out: as published, else 1.0."""
    init_std: float | None = None
    """Standard deviation of every matrix at initialisation. Left out: as published, else
    ``initializer_range`` of the configuration."""
    mtp_weight: tuple[PhaseSpec, ...] | None = None
    """Loss weight of multi-token prediction by share of the run. Left out: as published, else
    DeepSeek-V3's 0.3 until 0.68, then 0.1."""
    bias_rate: tuple[PhaseSpec, ...] | None = None
    """Update speed of the router's balance bias by share of the run. Left out: as published, else
    the rule for short runs that the proxy follows."""

    def __post_init__(self) -> None:
        """Refuse numbers no run can use."""
        for name in ("tokens", "seq_len", "global_batch_sequences"):
            at_least(f"target.{name}", getattr(self, name), 1)
        at_least("target.warmup_steps", self.warmup_steps, 0)
        for name in ("peak_lr", "weight_decay", "init_std"):
            above(f"target.{name}", getattr(self, name))


@spec
class DataTable:
    """``[data]``: what the proxy is trained and judged on."""

    sources: tuple[SourceSpec, ...]
    """For example ``[{ kind = "text", path = "corpus/" }]``; several make a weighted mixture."""
    tokenizer: TokenizerChoice | None = None
    """For example ``{ kind = "bpe", vocab_size = 4096 }``. Left out: ids as they are where every
    source holds ids, else bytes."""
    validation: tuple[ValidationSpec, ...] = (ValidationSpec(name="heldout", num_sequences=64),)
    """Named held-out sets; the first ranks the trials, every one is stored."""
    holdout_fraction: float = 0.05
    """Share at the end of each source that only validation sees."""


@spec
class CutsTable:
    """``[proxy.cuts]``: dimensions made smaller beyond the width rule.

    Each cut adds an axis along which transfer is not established; the plan calls the results
    exploratory.
    """

    n_layers: int | None = None
    n_dense_layers: int | None = None
    n_routed_experts: int | None = None
    n_activated_experts: int | None = None
    vocab_size: int | None = None
    n_mtp_modules: int | None = None


@spec
class ProxyTable:
    """``[proxy]``: how the proxy is derived from the target."""

    width_factor: int = 8
    """Every width-like dimension is divided by this; where that cannot be, the next of 8, 4, 2, 1
    that can is used and named."""
    ranks: Literal["scale", "hold"] = "scale"
    """Whether the latent ranks of MLA shrink with the width or keep the target's size."""
    cuts: CutsTable = CutsTable()

    def __post_init__(self) -> None:
        """Refuse a width factor that is none."""
        at_least("proxy.width_factor", self.width_factor, 1)


@spec
class ParametrisationTable:
    """``[parametrisation]``: the rule that carries hyperparameters across width."""

    kind: Literal["sp_fullalign", "mup", "uniform_lr_sp"] = "sp_fullalign"
    """``uniform_lr_sp`` is a negative control: its learning rate does not transfer."""
    anchor: Literal["proxy", "target"] = "proxy"
    """Where every multiplier is 1. ``"target"`` suits a target trained with one learning rate."""
    muon_scale: MuonScale = "rms_matched"
    """How large Muon's update of a matrix is next to the others; acts under Muon alone."""


@spec
class HorizonTable:
    """``[horizon]``: how long one proxy run is."""

    num_steps: int | None = None
    """Optimiser steps of one run. Left out: from ``tokens_per_param``."""
    tokens_per_param: float | None = None
    """Training tokens per active non-embedding parameter. Left out, and without ``num_steps``:
    the target's own."""
    global_batch_sequences: int | None = None
    """Left out: the batch whose ratio to the batch law's optimum is the target's."""
    seq_len: int | None = None
    """Left out: the target's."""

    def __post_init__(self) -> None:
        """Refuse two answers to one question."""
        if self.num_steps is not None and self.tokens_per_param is not None:
            raise SpecError(
                "horizon.tokens_per_param",
                f"must be left out where horizon.num_steps is given ({self.num_steps})",
                self.tokens_per_param,
                "Keep one of the two.",
            )
        at_least("horizon.num_steps", self.num_steps, 1)
        above("horizon.tokens_per_param", self.tokens_per_param)
        at_least("horizon.global_batch_sequences", self.global_batch_sequences, 1)
        at_least("horizon.seq_len", self.seq_len, 1)


@spec
class EvaluationTable:
    """``[evaluation]``: when the held-out loss is measured."""

    num_points: int = 10
    """Evaluations spread evenly over the run."""
    final_points: int = 3
    """Evaluations at the end whose mean ranks the run."""
    final_spacing_fraction: float = 0.01
    """Share of the run between those."""

    def __post_init__(self) -> None:
        """Keep the closing evaluations inside the run."""
        at_least("evaluation.num_points", self.num_points, 1)
        at_least("evaluation.final_points", self.final_points, 1)
        if not 0 <= self.final_spacing_fraction * self.final_points <= 0.5:
            raise SpecError(
                "evaluation.final_spacing_fraction",
                f"times final_points ({self.final_points}) must lie in [0, 0.5]",
                self.final_spacing_fraction,
                "Measure the closing loss within the last half of the run; 0.01 is usual.",
            )
