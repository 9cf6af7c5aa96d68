"""A plan for people: at most 100 columns, what matters first."""

from collections.abc import Iterable, Iterator
from math import log2

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.numbers import learning_rate
from sweeps.amounts import amount, flops, gibibytes, share
from sweeps.plan_types import DimensionPlan, SidePlan, SweepPlan
from sweeps.spec import Domain, FloatDomain

__all__ = ["render_plan"]

_STYLES = {"red": "bold red", "amber": "yellow", "info": "default"}
_LABELS = {"red": "STOP", "amber": "CAUTION", "info": "note"}
_TREATMENT_STYLES = {"scaled": "cyan", "kept": "default", "cut": "bold yellow"}
_DITTO = '"'
"""Stands for the reason of the line above."""


def render_plan(plan: SweepPlan) -> RenderableType:
    """Return the plan as text and tables for a terminal."""
    sections = (
        ("", _headline(plan)),
        ("Target and proxy", _sides(plan)),
        ("What is scaled, what is kept", _dimensions(plan.dimensions)),
        ("What is searched on the proxy", _space(plan)),
        ("Runs and their cost", _runs(plan)),
        ("From the proxy to the target", _transfer(plan)),
        ("Memory", _memory(plan)),
        ("Warnings", _flags(plan)),
        ("Where the numbers come from", _notes(plan.notes)),
    )
    return Group(*_with_titles(sections))


def _with_titles(sections: Iterable[tuple[str, RenderableType]]) -> Iterator[RenderableType]:
    for title, body in sections:
        if title:
            yield Text(f"\n{title}", style="bold")
        yield Padding(body, (0, 0, 0, 2)) if title else body


def _headline(plan: SweepPlan) -> RenderableType:
    cost, proxy, target = plan.cost, plan.proxy, plan.target
    title = Text(f"Plan of {plan.name}: nothing is trained yet", style="bold")
    what = (
        f"{cost.num_runs} runs at most of a 1/{plan.width_factor}-width proxy with "
        f"{amount(proxy.model.params_total)} parameters "
        f"({amount(proxy.model.params_active_non_embedding)} active without tables), each "
        f"{proxy.run.num_steps:,} steps on {amount(proxy.run.num_tokens)} tokens, to choose the "
        f"hyperparameters of {target.name} with {amount(target.model.params_total)} parameters."
    )
    price = (
        f"{flops(cost.sweep_flops)} FLOPs in all, {share(cost.share_of_target)} of the target "
        f"run's {flops(cost.target_flops)}."
    )
    return Group(title, Text(what), Text(price))


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _sides(plan: SweepPlan) -> RenderableType:
    target, proxy = plan.target, plan.proxy
    table = _table(
        "", target.name, f"proxy, {proxy.name}", right=(target.name, f"proxy, {proxy.name}")
    )
    for row in zip(_side_rows(target), _side_rows(proxy), strict=True):
        (label, left), (_, right) = row
        table.add_row(label, left, right)
    return table


def _side_rows(side: SidePlan) -> Iterator[tuple[str, str]]:
    model, run = side.model, side.run
    yield "parameters", amount(model.params_total)
    yield "  used by one token", amount(model.params_active)
    yield "  of those, without tables (N)", amount(model.params_active_non_embedding)
    tables = share(model.params_tables / model.params_active)
    yield "  tables: embedding and head", f"{amount(model.params_tables)} ({tables} of used)"
    if model.params_mtp:
        yield "  prediction modules, not counted above", amount(model.params_mtp)
    yield "FLOPs per training token", flops(model.flops_per_token)
    yield "training state, 4-byte numbers", gibibytes(model.state_bytes)
    yield "tokens", amount(run.num_tokens)
    yield "tokens / N", f"{run.tokens_per_param:,.4g}"
    batch = f"{run.global_batch_sequences:,} x {run.seq_len:,} = {amount(run.global_batch_tokens)}"
    yield "batch: sequences x length", batch
    yield "batch / optimal batch of its horizon", f"{run.batch_over_optimal:.2g}"
    yield "steps", f"{run.num_steps:,}"
    yield "FLOPs of the run", flops(run.train_flops)


def _dimensions(dimensions: tuple[DimensionPlan, ...]) -> RenderableType:
    table = _table("dimension", "target", "proxy", "", "why", right=("target", "proxy"))
    before = ""
    for change in dimensions:
        table.add_row(
            change.name,
            f"{change.target:,g}" if change.target < 1e6 else f"{change.target:,.0f}",
            f"{change.proxy:,g}" if change.proxy < 1e6 else f"{change.proxy:,.0f}",
            Text(change.treatment, style=_TREATMENT_STYLES[change.treatment]),
            _DITTO if change.reason == before else change.reason,
        )
        before = change.reason
    return table


def _space(plan: SweepPlan) -> RenderableType:
    table = _table("", "searched", "incumbent")
    params = plan.incumbent.params
    for domain in plan.space.domains:
        incumbent = params.get(domain.name)
        shown = learning_rate(incumbent) if isinstance(incumbent, float) else str(incumbent)
        table.add_row(domain.name, _values(domain), shown)
    steps = plan.proxy.run.num_steps
    levels = ", ".join(f"{level.num_steps:,}" for level in plan.warmup_levels)
    lines = [
        f"The incumbent is the recipe to beat, always a trial and a finalist: "
        f"{plan.incumbent.source}.",
        f"Every trial runs its whole schedule of {steps:,} steps; warmup takes {levels} of them.",
        "tau = 1 / (lr * weight_decay * steps): over which share of the run weights average.",
    ]
    return Group(table, *(Text(line) for line in lines))


def _values(domain: Domain) -> str:
    if isinstance(domain, FloatDomain):
        octaves = log2(domain.high / domain.low)
        low, high = learning_rate(domain.low), learning_rate(domain.high)
        return f"{low} to {high}, log-uniform ({octaves:.2g} octaves)"
    return ", ".join(
        learning_rate(value) if isinstance(value, float) else str(value) for value in domain.values
    )


def _runs(plan: SweepPlan) -> RenderableType:
    table = _table("stage", "runs", "FLOPs", "what for", right=("runs", "FLOPs"))
    for stage in plan.stages:
        cost = flops(stage.num_runs * plan.cost.run_flops)
        table.add_row(stage.name, str(stage.num_runs), cost, stage.purpose)
    total = plan.cost
    table.add_row("in all", str(total.num_runs), flops(total.sweep_flops), "at most")
    run = plan.execution
    workers = "one worker" if run.num_workers == 1 else f"{run.num_workers} workers"
    rows = "one run at a time" if run.num_rows == 1 else f"up to {run.num_rows} runs at a time each"
    where = (
        f"Trained by {workers} on {run.device} in {run.precision}, {rows}, evaluated every "
        f"{run.eval_interval_steps:,} steps; sampler {plan.search.sampler}, "
        f"{plan.search.batch_size} suggestions at a time."
    )
    steps = "compiled" if run.is_compiled else "run as they are, not compiled"
    compiling = f"Steps are {steps}: {run.compile_reason}."
    margin = (
        f"Configurations within {share(plan.finalists.delta_fraction)} of the best loss count as "
        "equal; noise decides how many seeds are needed, never this margin."
    )
    lines = [Text(where), Text(compiling), *_sharing_lines(plan)]
    return Group(table, *lines, Text(margin), *_data_lines(plan))


def _sharing_lines(plan: SweepPlan) -> Iterator[Text]:
    sharing, is_on = plan.sharing, plan.execution.shares_prefixes
    if not is_on:
        yield Text("Every run trains all of its steps: run.share_prefixes is false.")
        return
    yield Text("Runs of a batch that begin alike (one WSD trunk, say) train those steps once.")
    if sharing is None:
        return
    whole = sharing.is_whole_search
    which = "All trials of the search" if whole else f"The first {sharing.num_trials} trials"
    rest = "" if whole else "; what the others save depends on what is suggested"
    saved = sharing.steps_alone - sharing.steps_trained
    yield Text(
        f"{which} take {sharing.steps_alone:,} steps, of which {saved:,} "
        f"({share(saved / sharing.steps_alone)}) are saved so{rest}."
    )
    if whole and sharing.steps_trained_in_one_batch < sharing.steps_trained:
        more = sharing.steps_alone - sharing.steps_trained_in_one_batch
        yield Text(
            f"Suggested in one batch, they would save {more:,} "
            f"({share(more / sharing.steps_alone)}): search.batch_size = {sharing.num_trials}."
        )


def _data_lines(plan: SweepPlan) -> Iterator[Text]:
    data = plan.data
    if data is None:
        yield Text("Data: none named. Write a SWEEP.toml with a [data] table.", style="yellow")
        return
    where = ", ".join(data.sources)
    if data.unique_tokens is None:
        yield Text(f"Data: {where}; never repeats.")
        return
    about = "about " if data.is_estimate else ""
    passes = plan.proxy.run.num_tokens / data.unique_tokens if data.unique_tokens else float("inf")
    yield Text(
        f"Data: {where} ({data.tokenizer}, {data.vocab_size:,} ids), {about}"
        f"{amount(data.unique_tokens)} unique training tokens; one run reads {passes:.2g} of them."
    )


def _transfer(plan: SweepPlan) -> RenderableType:
    ratios = plan.ratios
    proxy, target = plan.multipliers["proxy"], plan.multipliers["target"]
    axes = ", ".join(plan.transfer_axes) or "none: the proxy is the target"
    lines = [
        f"Axes of transfer: {axes}.",
        f"The target has {ratios['width']:g} x the width, {ratios['tokens']:,.3g} x the tokens, "
        f"{ratios['batch']:,.3g} x the batch, {ratios['steps']:,.3g} x the steps and "
        f"{ratios['tokens_per_param']:,.3g} x the tokens per active parameter.",
        f"Rule {plan.parametrisation}, anchored at the {plan.anchor}: hidden matrices of the "
        f"target take {target.matrix_lr / proxy.matrix_lr:.3g} x the learning rate and "
        f"{target.matrix_decay / proxy.matrix_decay:.3g} x the weight decay of the proxy's, "
        "embedding and gains the same rate, before the rules for horizon and batch.",
    ]
    return Group(*(Text(line) for line in lines))


def _memory(plan: SweepPlan) -> RenderableType:
    memory = plan.memory
    models = "The proxy needs" if memory.num_models == 1 else f"{memory.num_models} proxies need"
    need = f"{models} {gibibytes(memory.state_bytes)} for weights, gradients and moments"
    if memory.device is None or memory.room_bytes is None:
        return Text(f"{need}; the device's memory is unknown (give --memory-gib).")
    size = f"{memory.device.name} has {gibibytes(memory.device.total_bytes)}"
    if memory.fits:
        return Text(f"{need}; {size}: it fits.")
    lines = [Text(f"{need}; {size}, {gibibytes(memory.room_bytes)} usable: it does NOT fit.")]
    return Group(*lines, *_alternatives(plan))


def _alternatives(plan: SweepPlan) -> Iterator[RenderableType]:
    found = plan.memory.alternatives
    if not found:
        yield Text("No proxy of this target fits that memory: bring more, or another target.")
        return
    yield Text("Nearest proxies that fit, each with what it asks you to take on trust:")
    table = _table("proxy", "adds as axis of transfer", "write")
    for one in found:
        cuts = [f"{name} = {value}" for name, value in one.cuts.items()]
        keys = (
            [f"width_factor = {one.width_factor}"] if one.width_factor != plan.width_factor else []
        )
        written = f"[proxy] {', '.join(keys)}" if keys else ""
        if cuts:
            written += f"{' ' if written else ''}[proxy.cuts] {', '.join(cuts)}"
        axes = ", ".join(one.added_axes) or f"none, but {one.width_factor} x in width"
        table.add_row(one.description, axes, Text(written))
    yield table


def _flags(plan: SweepPlan) -> RenderableType:
    if not plan.flags:
        return Text("none")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for flag in plan.flags:
        style = _STYLES[flag.severity]
        table.add_row(Text(_LABELS[flag.severity], style=style), Text(flag.message))
    return table


def _notes(notes: tuple[str, ...]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for note in notes:
        table.add_row("-", Text(note))
    return table
