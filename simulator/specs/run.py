"""One training run, fully resolved: what is hashed, stored and executed.

Nothing in a ``RunSpec`` is automatic; whatever has to be derived was derived before it was made.
How a run is executed (device, precision, threads, micro-batch) is an ``ExecutionSpec`` and is not
part of the run's identity.
"""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.data import DataSpec
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.schedule import ScheduleSpec

__all__ = [
    "AdamWSpec",
    "BatchSpec",
    "EvalSpec",
    "ExecutionSpec",
    "MuonScale",
    "MuonSpec",
    "OptimizerSpec",
    "ParametrisationSpec",
    "PhaseSpec",
    "RunSpec",
]


@spec
class ParametrisationSpec:
    """Which rule gives each tensor its initial scale, learning rate and decay.

    The rule compares a model with two reference shapes. With ``anchor="proxy"`` every multiplier
    is 1 on the proxy; with ``anchor="target"`` it is 1 on the target.
    """

    kind: Literal["sp_fullalign", "mup", "uniform_lr_sp"] = "sp_fullalign"
    anchor: Literal["proxy", "target"] = "proxy"
    proxy: ModelSpec
    target: ModelSpec


MuonScale = Literal["rms_matched", "spectral", "original"]
"""How large Muon's update of an ``[out, in]`` matrix is, next to its other matrices:

- ``rms_matched``: ``sqrt(max(out, in))``, so that every element moves as under AdamW (arXiv
  2502.16982, section 2.2; torch's ``match_rms_adamw``);
- ``spectral``: ``sqrt(out / in)``, the spectral condition itself (arXiv 2310.17813);
- ``original``: ``sqrt(max(1, out / in))`` (the first implementation and torch's ``original``).
"""


@spec
class AdamWSpec:
    """AdamW in PyTorch's convention: theta <- theta * (1 - lr * weight_decay) - lr * update."""

    kind: Literal["adamw"] = "adamw"
    peak_lr: float
    """Peak learning rate of a tensor whose multiplier is 1."""
    weight_decay: float
    """Decay coefficient of a tensor whose multiplier is 1."""
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    clip_norm: float = 1.0
    """Global gradient norm above which the gradient is scaled down; 0 switches clipping off."""

    def __post_init__(self) -> None:
        """Refuse values no optimiser can use."""
        _check_optimizer(self)

    @property
    def muon_scale(self) -> None:
        """No tensor is given to Muon."""
        return None


@spec
class MuonSpec:
    """Muon for hidden matrices, AdamW for embedding, head, router and gains.

    One peak rate serves both: whatever the convention, it is the size of AdamW's update, which
    Muon's has on the anchor. Decay is decoupled as under AdamW.
    """

    kind: Literal["muon"] = "muon"
    peak_lr: float
    """Peak learning rate of a tensor whose multiplier is 1."""
    weight_decay: float
    """Decay coefficient of a tensor whose multiplier is 1."""
    momentum: float = 0.95
    """Of Muon's average of gradients; Nesterov's form is used."""
    muon_scale: MuonScale = "rms_matched"
    beta1: float = 0.9
    """Of the AdamW part, like ``beta2`` and ``eps``."""
    beta2: float = 0.95
    eps: float = 1e-12
    clip_norm: float = 1.0
    """Global gradient norm above which the gradient is scaled down; 0 switches clipping off."""

    def __post_init__(self) -> None:
        """Refuse values no optimiser can use."""
        _check_optimizer(self)
        if not 0 <= self.momentum < 1:
            raise SpecError("optimizer.momentum", "must lie in [0, 1)", self.momentum, "Try 0.95.")


OptimizerSpec = AdamWSpec | MuonSpec


def _check_optimizer(optimizer: OptimizerSpec) -> None:
    for name, fix in (("peak_lr", "Try 1e-3."), ("eps", "Try 1e-12.")):
        value = getattr(optimizer, name)
        if value <= 0:
            raise SpecError(f"optimizer.{name}", "must be positive", value, fix)
    for name in ("weight_decay", "clip_norm"):
        value = getattr(optimizer, name)
        if value < 0:
            raise SpecError(f"optimizer.{name}", "must be >= 0", value, "Use 0 for none.")
    for name in ("beta1", "beta2"):
        value = getattr(optimizer, name)
        if not 0 <= value < 1:
            raise SpecError(f"optimizer.{name}", "must lie in [0, 1)", value, "Try 0.95.")


@spec
class PhaseSpec:
    """A value that holds until a share of the run has passed."""

    until_fraction: float
    value: float


@spec
class BatchSpec:
    """The global batch of one optimiser step."""

    global_batch_sequences: int
    seq_len: int
    """Tokens of one sequence that are predicted."""

    def __post_init__(self) -> None:
        """Refuse an empty batch."""
        for name in ("global_batch_sequences", "seq_len"):
            value = getattr(self, name)
            if value <= 0:
                raise SpecError(f"batch.{name}", "must be positive", value, "Give >= 1.")

    @property
    def global_batch_tokens(self) -> int:
        """Predicted tokens of one optimiser step."""
        return self.global_batch_sequences * self.seq_len


@spec
class EvalSpec:
    """When and how the held-out loss is measured."""

    interval_steps: int
    """Optimiser steps between evaluations during the run."""
    final_points: int = 3
    """Evaluations at the end whose mean is the smoothed loss that ranks the run."""
    final_spacing_steps: int = 1
    """Optimiser steps between those."""


@spec
class RunSpec:
    """One training run."""

    model: ModelSpec
    """The model that is trained: the proxy, a rung of a ladder, or the target itself."""
    parametrisation: ParametrisationSpec
    optimizer: OptimizerSpec
    schedule: ScheduleSpec
    data: DataSpec
    batch: BatchSpec
    eval: EvalSpec
    num_steps: int
    mtp_weight: tuple[PhaseSpec, ...] = ()
    """Weight of the multi-token-prediction loss by share of the run (arXiv 2412.19437, 4.2)."""
    bias_rate: tuple[PhaseSpec, ...] = ()
    """Update speed of the balance bias by share of the run."""
    init_seed: int
    data_seed: int

    def __post_init__(self) -> None:
        """Check the invariants across fields."""
        if self.num_steps <= 0:
            raise SpecError("run.num_steps", "must be positive", self.num_steps, "Give >= 1.")
        if self.schedule.warmup_steps > self.num_steps:
            raise SpecError(
                "run.schedule.warmup_steps",
                f"must not exceed run.num_steps ({self.num_steps})",
                self.schedule.warmup_steps,
                "Shorten the warmup or lengthen the run.",
            )
        if self.model.n_mtp_modules and not self.mtp_weight:
            raise SpecError(
                "run.mtp_weight",
                "must be given when model.n_mtp_modules > 0",
                self.mtp_weight,
                "Give the weight by share of the run, for example 0.3 until 0.68, then 0.1.",
            )

    @property
    def num_tokens(self) -> int:
        """Tokens the run is trained on."""
        return self.num_steps * self.batch.global_batch_tokens


@spec
class ExecutionSpec:
    """How a run is executed; changes speed and rounding, never the mathematics."""

    device: str = "cpu"
    precision: Literal["fp32", "bf16"] = "fp32"
    micro_batch_sequences: int
    """Sequences of one forward pass; the gradient is accumulated over the global batch."""
    num_threads: int = 1
    """CPU threads of the process that runs it."""
    checkpoint_interval_steps: int = 0
    """Optimiser steps between checkpoints; 0 means none."""
    num_rows: int = 1
    """Runs of a cohort that are trained at the same time (K), at most."""
    shares_prefixes: bool = True
    """Whether what several runs of a cohort have in common at their beginning is trained once."""
    is_compiled: bool = False
    """Whether the step is compiled."""

    def __post_init__(self) -> None:
        """Refuse an empty micro-batch and a process without threads."""
        for name in ("micro_batch_sequences", "num_threads", "num_rows"):
            value = getattr(self, name)
            if value <= 0:
                raise SpecError(f"execution.{name}", "must be positive", value, "Give >= 1.")
