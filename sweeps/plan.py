"""The dry run: what a sweep would do and cost, from its specification alone."""

from typing import Literal

from scaling.checks import plan_flags
from scaling.priors import optimal_batch_tokens
from scaling.scale import RunScale, multipliers_of
from simulator.counting.flops import flops_per_token
from simulator.counting.memory import state_bytes
from simulator.counting.params import count_params
from simulator.proxy import nearest_fitting
from simulator.records.summary import Flag
from simulator.specs.model import ModelSpec
from simulator.specs.run import BatchSpec
from sweeps.data_outlook import DataOutlook
from sweeps.device_memory import STATE_SHARE, DeviceMemory
from sweeps.draft import Draft
from sweeps.plan_types import (
    AlternativePlan,
    CostPlan,
    DimensionPlan,
    ExecutionPlan,
    MemoryPlan,
    ModelPlan,
    MultiplierPlan,
    RunPlan,
    SharingPlan,
    SidePlan,
    StagePlan,
    SweepPlan,
    WarmupLevel,
)
from sweeps.space import warmup_steps_of
from sweeps.spec import ChoiceDomain, FinalistSpec, SearchSpec

__all__ = ["make_plan", "plan_stages"]

USED_VOCABULARY = 0.5
"""Share of the proxy's ids that the data should hold. Ours."""

CHEAP_SHARE = 0.1
"""Share of the target run's FLOPs above which a sweep is called dear. Ours."""

_SEVERITIES = ("red", "amber", "info")


def make_plan(
    draft: Draft,
    *,
    data: DataOutlook | None = None,
    memory: DeviceMemory | None = None,
    sharing: SharingPlan | None = None,
) -> SweepPlan:
    """Return what the sweep would do; a function of its arguments alone.

    Parameters
    ----------
    data
        Null where only a target was named.
    memory
        Of the device that trains; null where it could not be found.
    sharing
        What the known trials share; null where nobody looked.
    """
    room = _memory(draft, memory)
    target, proxy = _target_side(draft), _proxy_side(draft)
    cost = _cost(draft, target, proxy)
    return SweepPlan(
        name=draft.name,
        width_factor=draft.proxy.width_factor,
        transfer_axes=draft.proxy.transfer_axes,
        parametrisation=draft.parametrisation.kind,
        anchor=draft.parametrisation.anchor,
        target=target,
        proxy=proxy,
        dimensions=_dimensions(draft),
        multipliers=_multipliers(draft),
        ratios=_ratios(draft),
        data=data,
        space=draft.space,
        warmup_levels=_warmup_levels(draft),
        incumbent=draft.incumbent,
        search=draft.search,
        finalists=draft.finalists,
        stages=plan_stages(draft.search, draft.finalists),
        cost=cost,
        execution=_execution(draft),
        sharing=sharing,
        memory=room,
        flags=_flags(draft, data, room, cost),
        notes=draft.notes,
    )


def plan_stages(search: SearchSpec, finalists: FinalistSpec) -> tuple[StagePlan, ...]:
    """Return the most runs each stage may come to.

    The configuration that measures the noise is a finalist too, and is not run twice.
    """
    replicates = finalists.noise_replicates - 1
    fresh = finalists.num_seeds - 1
    candidates = min(finalists.max_configs, search.num_trials)
    shared = min(replicates, fresh)
    return (
        StagePlan(
            name="search",
            num_runs=search.num_trials,
            purpose=f"{search.num_trials} configurations, the incumbent among them, one seed each",
        ),
        StagePlan(
            name="noise",
            num_runs=replicates,
            purpose=f"the best one on {replicates} more seeds: how far two equal runs differ",
        ),
        StagePlan(
            name="finalists",
            num_runs=candidates * fresh - shared,
            purpose=f"up to {candidates} configurations, the incumbent among them, on "
            f"{finalists.num_seeds} seeds each in all",
        ),
    )


def _target_side(draft: Draft) -> SidePlan:
    target = draft.target
    batch = BatchSpec(global_batch_sequences=target.global_batch_sequences, seq_len=target.seq_len)
    run = _run(target.model, batch, draft.transfer.target)
    return SidePlan(
        name=target.name, model=_model(target.model, target.seq_len, target.optimizer), run=run
    )


def _proxy_side(draft: Draft) -> SidePlan:
    model = draft.proxy.model
    return SidePlan(
        name=f"1/{draft.proxy.width_factor} width",
        model=_model(model, draft.batch.seq_len, draft.optimizer.kind),
        run=_run(model, draft.batch, draft.transfer.proxy),
    )


def _model(model: ModelSpec, seq_len: int, optimizer: Literal["adamw", "muon"]) -> ModelPlan:
    count = count_params(model)
    return ModelPlan(
        params_total=count.total,
        params_active=count.active,
        params_active_non_embedding=count.active_non_embedding,
        params_tables=count.embedding + count.head,
        params_mtp=count.mtp,
        flops_per_token=flops_per_token(model, seq_len).training_with_mtp,
        state_bytes=state_bytes(model, optimizer),
    )


def _run(model: ModelSpec, batch: BatchSpec, scale: RunScale) -> RunPlan:
    cost = flops_per_token(model, batch.seq_len).training_with_mtp
    return RunPlan(
        num_tokens=scale.num_tokens,
        num_steps=scale.num_steps,
        global_batch_sequences=batch.global_batch_sequences,
        seq_len=batch.seq_len,
        global_batch_tokens=batch.global_batch_tokens,
        batch_over_optimal=batch.global_batch_tokens / optimal_batch_tokens(scale.num_tokens),
        tokens_per_param=scale.tokens_per_param,
        train_flops=cost * scale.num_tokens,
    )


def _dimensions(draft: Draft) -> tuple[DimensionPlan, ...]:
    return tuple(
        DimensionPlan(
            name=change.name,
            target=change.target,
            proxy=change.proxy,
            treatment=change.treatment,
            reason=change.reason,
        )
        for change in draft.proxy.dimensions
    )


def _ratios(draft: Draft) -> dict[str, float]:
    transfer = draft.transfer
    return {
        "width": transfer.width_ratio,
        "tokens": transfer.tokens_ratio,
        "batch": transfer.batch_ratio,
        "steps": transfer.steps_ratio,
        "tokens_per_param": transfer.tokens_per_param_ratio,
    }


def _multipliers(draft: Draft) -> dict[str, MultiplierPlan]:
    models = {"proxy": draft.parametrisation.proxy, "target": draft.parametrisation.target}
    found = {
        name: multipliers_of(model, draft.parametrisation, draft.transfer.muon_scale)
        for name, model in models.items()
    }
    return {
        name: MultiplierPlan(
            matrix_lr=one.matrix_lr, matrix_decay=one.matrix_decay, embedding_lr=one.embedding_lr
        )
        for name, one in found.items()
    }


def _warmup_levels(draft: Draft) -> tuple[WarmupLevel, ...]:
    return tuple(
        WarmupLevel(ratio=float(ratio), num_steps=warmup_steps_of(float(ratio), draft.num_steps))
        for domain in draft.space.domains
        if isinstance(domain, ChoiceDomain) and domain.name == "warmup_ratio"
        for ratio in domain.values
    )


def _cost(draft: Draft, target: SidePlan, proxy: SidePlan) -> CostPlan:
    num_runs = sum(stage.num_runs for stage in plan_stages(draft.search, draft.finalists))
    sweep_flops = num_runs * proxy.run.train_flops
    return CostPlan(
        num_runs=num_runs,
        run_flops=proxy.run.train_flops,
        sweep_flops=sweep_flops,
        target_flops=target.run.train_flops,
        share_of_target=sweep_flops / target.run.train_flops,
    )


def _execution(draft: Draft) -> ExecutionPlan:
    return ExecutionPlan(
        device=draft.execution.device,
        precision=draft.execution.precision,
        num_workers=draft.num_workers,
        num_threads=draft.execution.num_threads,
        num_rows=draft.execution.num_rows,
        shares_prefixes=draft.execution.shares_prefixes,
        is_compiled=draft.execution.is_compiled,
        compile_reason=draft.compile_reason,
        micro_batch_sequences=draft.execution.micro_batch_sequences,
        eval_interval_steps=draft.eval.interval_steps,
        max_wall_hours=draft.budget.max_wall_hours,
    )


def _memory(draft: Draft, device: DeviceMemory | None) -> MemoryPlan:
    """Compare the training state with the device; workers share a CPU's memory, not a GPU's."""
    num_workers = draft.num_workers if draft.execution.device == "cpu" else 1
    num_models = min(num_workers * draft.execution.num_rows, _largest_round(draft))
    needed = num_models * state_bytes(draft.proxy.model, draft.optimizer.kind)
    if device is None:
        return MemoryPlan(
            device=None,
            num_models=num_models,
            state_bytes=needed,
            room_bytes=None,
            fits=None,
            alternatives=(),
        )
    room = int(STATE_SHARE * device.total_bytes)
    fits = needed <= room
    return MemoryPlan(
        device=device,
        num_models=num_models,
        state_bytes=needed,
        room_bytes=room,
        fits=fits,
        alternatives=() if fits else _alternatives(draft, room // num_models),
    )


def _largest_round(draft: Draft) -> int:
    """Return how many runs there may be to train at the same time."""
    _, noise, finalists = plan_stages(draft.search, draft.finalists)
    return max(draft.search.batch_size, noise.num_runs, finalists.num_runs)


def _alternatives(draft: Draft, room: int) -> tuple[AlternativePlan, ...]:
    found = nearest_fitting(
        draft.target.model,
        memory_bytes=room,
        width_factor=draft.proxy.width_factor,
        ranks=draft.ranks,
    )
    return tuple(
        AlternativePlan(
            description=one.description,
            width_factor=one.width_factor,
            cuts=one.cuts,
            params_total=one.params_total,
            state_bytes=one.state_bytes,
            added_axes=one.added_axes,
        )
        for one in found
    )


def _flags(
    draft: Draft, data: DataOutlook | None, memory: MemoryPlan, cost: CostPlan
) -> tuple[Flag, ...]:
    """Return every remark once, the gravest first."""
    found = (
        *_does_not_fit(memory),
        *draft.proxy.warnings,
        *draft.flags,
        *plan_flags(
            draft.transfer,
            unique_tokens=None if data is None else data.unique_tokens,
            is_synthetic=data is not None and data.is_synthetic,
        ),
        *_unused_vocabulary(draft.proxy.model, data),
        *_dear(cost),
    )
    unique: dict[str, Flag] = {}
    for flag in found:
        unique.setdefault(flag.code, flag)
    return tuple(sorted(unique.values(), key=lambda flag: _SEVERITIES.index(flag.severity)))


def _does_not_fit(memory: MemoryPlan) -> tuple[Flag, ...]:
    if memory.fits is not False or memory.device is None or memory.room_bytes is None:
        return ()
    gib = 2.0**30
    models = memory.num_models
    who = "the proxy needs" if models == 1 else f"{models} proxies side by side need"
    message = (
        f"{who} {memory.state_bytes / gib:,.1f} GiB for weights, gradients and moments; "
        f"{memory.device.name} has {memory.device.total_bytes / gib:,.1f} GiB, of which "
        f"{memory.room_bytes / gib:,.1f} may go to them"
    )
    return (Flag(severity="red", code="does_not_fit", message=message),)


def _unused_vocabulary(model: ModelSpec, data: DataOutlook | None) -> tuple[Flag, ...]:
    if data is None or data.vocab_size >= USED_VOCABULARY * model.vocab_size:
        return ()
    message = (
        f"the data hold at most {data.vocab_size:,} different ids, the proxy has embeddings for "
        f"{model.vocab_size:,}: it is not trained on the target's tokens. Use the target's "
        "tokenizer, or cut proxy.cuts.vocab_size"
    )
    return (Flag(severity="amber", code="vocabulary_unused", message=message),)


def _dear(cost: CostPlan) -> tuple[Flag, ...]:
    if cost.share_of_target <= CHEAP_SHARE:
        return ()
    message = (
        f"the sweep costs {100 * cost.share_of_target:.0f} % of the target run (over "
        f"{100 * CHEAP_SHARE:.0f} %): worth it for a demonstration, or if the recipe is used often"
    )
    severity: Literal["info", "amber"] = "info" if cost.share_of_target < 1 else "amber"
    return (Flag(severity=severity, code="sweep_cost", message=message),)
