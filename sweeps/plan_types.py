"""What a plan says, as frozen data: what ``sweep plan --json`` prints and ``plan.json`` holds."""

from typing import Literal

from simulator.records.summary import Flag
from simulator.specs.base import spec
from sweeps.data_outlook import DataOutlook
from sweeps.device_memory import DeviceMemory
from sweeps.spec import FinalistSpec, IncumbentSpec, SearchSpec, SpaceSpec

__all__ = [
    "AlternativePlan",
    "CostPlan",
    "DimensionPlan",
    "ExecutionPlan",
    "MemoryPlan",
    "ModelPlan",
    "MultiplierPlan",
    "RunPlan",
    "SharingPlan",
    "SidePlan",
    "StagePlan",
    "SweepPlan",
    "WarmupLevel",
]


@spec
class ModelPlan:
    """Size of one model."""

    params_total: int
    """Main model, embedding and head counted, multi-token-prediction modules not."""
    params_active: int
    """Those one token uses, embedding and head counted."""
    params_active_non_embedding: int
    """Those one token uses without embedding and head: N in tokens per parameter."""
    params_tables: int
    """Embedding and head."""
    params_mtp: int
    """Own tensors of the multi-token-prediction modules."""
    flops_per_token: float
    """Forward and backward, multi-token prediction included, at the run's sequence length."""
    state_bytes: int
    """fp32 weights, gradients and two Adam moments."""


@spec
class RunPlan:
    """Length and batch of one run."""

    num_tokens: int
    num_steps: int
    global_batch_sequences: int
    seq_len: int
    global_batch_tokens: int
    batch_over_optimal: float
    """Batch over the optimal batch of the horizon (arXiv 2505.13738)."""
    tokens_per_param: float
    """Tokens per active non-embedding parameter."""
    train_flops: float


@spec
class SidePlan:
    """Target or proxy."""

    name: str
    model: ModelPlan
    run: RunPlan


@spec
class DimensionPlan:
    """One dimension of the target beside the proxy's."""

    name: str
    target: float
    proxy: float
    treatment: Literal["scaled", "kept", "cut"]
    reason: str


@spec
class MultiplierPlan:
    """Factors of the base learning rate and decay in one model."""

    matrix_lr: float
    """Of the commonest hidden matrix."""
    matrix_decay: float
    embedding_lr: float


@spec
class WarmupLevel:
    """One searched length of the warmup on the proxy."""

    ratio: float
    num_steps: int


@spec
class StagePlan:
    """Runs of one purpose."""

    name: str
    num_runs: int
    """The most it may come to."""
    purpose: str
    """One plain phrase."""


@spec
class CostPlan:
    """What the sweep costs beside the target's run."""

    num_runs: int
    run_flops: float
    sweep_flops: float
    """All runs; evaluations are not counted."""
    target_flops: float
    share_of_target: float


@spec
class AlternativePlan:
    """A proxy that fits the device."""

    description: str
    width_factor: int
    cuts: dict[str, int]
    """As they are written under ``[proxy.cuts]``."""
    params_total: int
    state_bytes: int
    added_axes: tuple[str, ...]
    """Axes of transfer beyond width, along which nothing is established."""


@spec
class MemoryPlan:
    """Whether the proxy fits where it is to be trained."""

    device: DeviceMemory | None
    """Null where it could not be found."""
    num_models: int
    """Proxies trained side by side in that memory."""
    state_bytes: int
    """Of all of them."""
    room_bytes: int | None
    """Memory left for it: the device's less a share for activations; null where unknown."""
    fits: bool | None
    alternatives: tuple[AlternativePlan, ...]
    """Nearest proxies that fit, fewest added axes first; empty where this one does."""


@spec
class ExecutionPlan:
    """Where and how runs are executed."""

    device: str
    precision: str
    num_workers: int
    num_threads: int
    num_rows: int
    """Runs a worker trains at the same time, at most."""
    shares_prefixes: bool
    is_compiled: bool
    compile_reason: str
    """Why, or why not; a plain phrase."""
    micro_batch_sequences: int
    eval_interval_steps: int
    max_wall_hours: float | None


@spec
class SharingPlan:
    """What sharing prefixes saves in the trials of the search that are known before the start."""

    num_trials: int
    """Trials that are known."""
    is_whole_search: bool
    """Whether that is all of them; otherwise it is the first batch, and the others depend on what
    is suggested."""
    steps_alone: int
    """Optimiser steps of those trials."""
    steps_trained: int
    """Those that are trained, batch by batch."""
    steps_trained_in_one_batch: int
    """The same if all were suggested in one batch."""


@spec
class SweepPlan:
    """Everything a sweep would do, before it does anything."""

    name: str
    width_factor: int
    transfer_axes: tuple[str, ...]
    """``width`` alone is the supported case."""
    parametrisation: str
    anchor: str
    target: SidePlan
    proxy: SidePlan
    dimensions: tuple[DimensionPlan, ...]
    multipliers: dict[str, MultiplierPlan]
    """Of ``proxy`` and ``target``."""
    ratios: dict[str, float]
    """Extrapolation, target over proxy: ``width``, ``tokens``, ``batch``, ``steps``,
    ``tokens_per_param``."""
    data: DataOutlook | None
    """Null where only a target was named."""
    space: SpaceSpec
    warmup_levels: tuple[WarmupLevel, ...]
    incumbent: IncumbentSpec
    search: SearchSpec
    finalists: FinalistSpec
    stages: tuple[StagePlan, ...]
    cost: CostPlan
    execution: ExecutionPlan
    sharing: SharingPlan | None
    """Null where nobody looked."""
    memory: MemoryPlan
    flags: tuple[Flag, ...]
    """Red first."""
    notes: tuple[str, ...]
    """Which value was taken from which rule or publication."""
