"""From what a user wrote to a sweep in which nothing is automatic any more."""

from dataclasses import asdict
from pathlib import Path

from scaling.scale import Transfer
from scaling.transfer import RecipePoint
from simulator.counting.params import count_params
from simulator.data import resolve_data
from simulator.proxy import ProxyPlan, shrink
from simulator.proxy.shape import without_indexer
from simulator.specs.data import DataSpec, SourceSpec, TokenizerChoice
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.specs.run import (
    AdamWSpec,
    EvalSpec,
    MuonScale,
    MuonSpec,
    OptimizerSpec,
    ParametrisationSpec,
)
from simulator.specs.schedule import ScheduleSpec
from sweeps.domains import ResolvedSpace, published_name, resolve_space
from sweeps.draft import Draft
from sweeps.execution import resolve_execution
from sweeps.file import SweepFile
from sweeps.horizon import Horizon, proxy_horizon
from sweeps.incumbent import ResolvedIncumbent, incumbent_from_recipe, incumbent_from_table
from sweeps.machine import UNKNOWN_MACHINE, Machine
from sweeps.recipe import ResolvedTarget, bias_phases, resolve_target
from sweeps.scales import transfer_between
from sweeps.space import warmup_steps_of, weight_decay_of
from sweeps.spec import BudgetSpec, FinalistSpec, SearchSpec, SpaceSpec, SweepSpec, TargetSpec
from sweeps.tables.target import DataTable, EvaluationTable, ProxyTable

__all__ = ["draft_sweep", "resolve", "tokenizer_choice"]

BETA2_BOUNDS = 0.9, 0.9999
BETA2_BATCH_RATIOS = 0.25, 4.0
"""Within these ratios of proxy to target batch the token half-life rule is trusted."""


def resolve(
    file: SweepFile, *, root: Path, cache: Path, machine: Machine = UNKNOWN_MACHINE
) -> SweepSpec:
    """Return the sweep that ``file`` describes, complete; reads and hashes the data.

    Parameters
    ----------
    root
        Folder that relative paths start from: where the file lies.
    cache
        Folder of tokenizers and token ids.
    machine
        What trains; decides on workers and rows where the file does not say.

    Raises
    ------
    SpecError
        If the parts of the file do not go together.
    DataError
        If the data cannot be read as what they claim to be.
    """
    draft = draft_sweep(file, root=root, machine=machine)
    return draft.with_data(_read_data(file.data, draft, root=root, cache=cache))


def draft_sweep(file: SweepFile, *, root: Path, machine: Machine = UNKNOWN_MACHINE) -> Draft:
    """Return the sweep that ``file`` describes but for its data; reads the target's configuration.

    Raises
    ------
    SpecError
        If the parts of the file do not go together.
    """
    target = resolve_target(file.target, root=root)
    proxy = _proxy(file.proxy, target.spec.model)
    horizon = _horizon(file, target.spec, proxy)
    parametrisation = ParametrisationSpec(
        kind=file.parametrisation.kind,
        anchor=file.parametrisation.anchor,
        proxy=proxy.model,
        target=without_indexer(target.spec.model),  # no proxy has one: nothing to compare it with
    )
    transfer = transfer_between(
        target.spec,
        parametrisation,
        batch=horizon.batch,
        num_steps=horizon.num_steps,
        muon_scale=file.parametrisation.muon_scale if target.spec.optimizer == "muon" else None,
    )
    point = _point(target)
    published = point if target.is_known else None
    space = resolve_space(file.space, transfer, target.spec.shape, published)
    incumbent = _incumbent(file, target, space.spec, transfer)
    return _assemble(file, target, proxy, horizon, transfer, space, incumbent, machine)


def tokenizer_choice(table: DataTable, model: ModelSpec) -> TokenizerChoice:
    """Return the tokenizer of ``[data]``: what it says, or what its sources need."""
    choice = table.tokenizer
    if choice is None:
        is_text = any(source.kind in ("text", "jsonl", "sympy") for source in table.sources)
        choice = TokenizerChoice(kind="bytes" if is_text else "none")
    if choice.kind == "none" and choice.vocab_size is None and not _is_synthetic(table.sources):
        return TokenizerChoice(kind="none", vocab_size=model.vocab_size)
    return choice


def _read_data(table: DataTable, draft: Draft, *, root: Path, cache: Path) -> DataSpec:
    model = draft.proxy.model
    return resolve_data(
        table.sources,
        tokenizer_choice(table, model),
        table.validation,
        table.holdout_fraction,
        root=root,
        cache=cache,
        seq_len=draft.batch.seq_len,
        num_extra_tokens=1 + model.n_mtp_modules,
    )


def _is_synthetic(sources: tuple[SourceSpec, ...]) -> bool:
    return any(source.kind == "synthetic" for source in sources)


def _proxy(table: ProxyTable, target: ModelSpec) -> ProxyPlan:
    cuts = {name: value for name, value in asdict(table.cuts).items() if value is not None}
    return shrink(target, width_factor=table.width_factor, ranks=table.ranks, cuts=cuts)


def _horizon(file: SweepFile, target: TargetSpec, proxy: ProxyPlan) -> Horizon:
    horizon = proxy_horizon(
        file.horizon,
        target,
        target_params=count_params(target.model).active_non_embedding,
        proxy_params=count_params(proxy.model).active_non_embedding,
    )
    seq_len = horizon.batch.seq_len
    if seq_len > proxy.model.max_seq_len:
        raise SpecError(
            "horizon.seq_len",
            f"must not exceed the model's context ({proxy.model.max_seq_len})",
            seq_len,
            "Shorten the sequences.",
        )
    return horizon


def _point(target: ResolvedTarget) -> RecipePoint:
    return RecipePoint(
        matrix_lr=target.peak_lr,
        weight_decay=target.weight_decay,
        warmup_steps=target.spec.warmup_steps,
        schedule=published_name(target.spec.shape),
    )


def _incumbent(
    file: SweepFile, target: ResolvedTarget, space: SpaceSpec, transfer: Transfer
) -> ResolvedIncumbent:
    if file.incumbent is not None:
        return incumbent_from_table(file.incumbent, space, transfer.proxy.num_steps)
    source = target.spec.recipe_source
    return incumbent_from_recipe(_point(target), space, transfer, source=source)


def _assemble(
    file: SweepFile,
    target: ResolvedTarget,
    proxy: ProxyPlan,
    horizon: Horizon,
    transfer: Transfer,
    space: ResolvedSpace,
    incumbent: ResolvedIncumbent,
    machine: Machine,
) -> Draft:
    execution = resolve_execution(
        file.run, horizon, proxy.model, batch_size=file.search.batch_size, machine=machine
    )
    beta2, beta2_note = _beta2(target.spec.beta2, 1.0 / transfer.batch_ratio)
    return Draft(
        name=file.name or target.spec.name,
        target=target.spec,
        proxy=proxy,
        ranks=file.proxy.ranks,
        parametrisation=transfer.parametrisation,
        transfer=transfer,
        num_steps=horizon.num_steps,
        batch=horizon.batch,
        eval=_evaluation(file.evaluation, horizon.num_steps),
        optimizer=_optimizer(
            incumbent,
            target.spec,
            transfer.proxy.num_steps,
            beta2=beta2,
            muon_scale=transfer.muon_scale,
        ),
        schedule=_schedule(incumbent, horizon.num_steps),
        mtp_weight=target.spec.mtp_weight if proxy.model.n_mtp_modules else (),
        bias_rate=bias_phases(proxy.model, horizon.num_steps),
        space=incumbent.space,
        search=SearchSpec(**asdict(file.search)),
        finalists=FinalistSpec(**asdict(file.finalists)),
        incumbent=incumbent.spec,
        execution=execution.spec,
        compile_reason=execution.compile_reason,
        num_workers=execution.num_workers,
        budget=BudgetSpec(max_wall_hours=file.budget.max_wall_hours),
        notes=(*target.notes, *horizon.notes, *beta2_note, *space.notes),
        flags=(*target.flags, *incumbent.flags),
    )


def _optimizer(
    incumbent: ResolvedIncumbent,
    target: TargetSpec,
    num_steps: int,
    *,
    beta2: float,
    muon_scale: MuonScale | None,
) -> OptimizerSpec:
    params = incumbent.spec.params
    peak_lr = float(params["peak_lr"])
    if "tau" in params:
        decay = weight_decay_of(float(params["tau"]), peak_lr, num_steps)
    else:
        decay = float(params["weight_decay"])
    common = AdamWSpec(
        peak_lr=peak_lr,
        weight_decay=decay,
        beta1=target.beta1,
        beta2=beta2,
        clip_norm=target.clip_norm,
    )
    if muon_scale is None:
        return common
    return MuonSpec(**asdict(common) | {"kind": "muon", "muon_scale": muon_scale})


def _schedule(incumbent: ResolvedIncumbent, num_steps: int) -> ScheduleSpec:
    params = incumbent.spec.params
    shapes = {named.name: named.shape for named in incumbent.space.schedules}
    return ScheduleSpec(
        warmup_steps=warmup_steps_of(float(params["warmup_ratio"]), num_steps),
        shape=shapes[str(params["schedule"])],
    )


def _beta2(beta2: float, batch_ratio: float) -> tuple[float, tuple[str, ...]]:
    """Return the proxy's beta2 for its batch over the target's, and what was done.

    The half-life of the second moment is kept in tokens, beta2^(batch ratio), where the batches
    are at most a factor four apart (arXiv 2507.07101); beyond that it is left alone.
    """
    low, high = BETA2_BATCH_RATIOS
    if batch_ratio == 1.0:
        return beta2, ()
    if not low <= batch_ratio <= high:
        return beta2, (
            f"beta2 {beta2:g} as on the target: the batches are {batch_ratio:.3g} apart, too far "
            "for the token half-life rule",
        )
    scaled = min(max(beta2**batch_ratio, BETA2_BOUNDS[0]), BETA2_BOUNDS[1])
    return scaled, (
        f"beta2 {scaled:.4g} on the proxy, {beta2:g} on the target: the same half-life in tokens "
        "(arXiv 2507.07101)",
    )


def _evaluation(table: EvaluationTable, num_steps: int) -> EvalSpec:
    final_points = min(table.final_points, num_steps)
    spacing = max(1, round(table.final_spacing_fraction * num_steps))
    if (final_points - 1) * spacing >= num_steps:
        spacing = 1
    return EvalSpec(
        interval_steps=max(1, num_steps // table.num_points),
        final_points=final_points,
        final_spacing_steps=spacing,
    )
