"""The outcome of a study as text of at most 100 columns that a stranger understands."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reports.decision import VERDICT_WORDS
from reports.fitting_table import FittingTable
from reports.numbers import (
    DASH,
    count,
    difference,
    duration,
    fraction,
    learning_rate,
    loss,
    noise_units,
    sentence,
    shown,
)
from reports.rows import name_of
from simulator.records.summary import (
    ConfigSummary,
    Flag,
    IncumbentSummary,
    StudySummary,
    TargetRecipe,
)

__all__ = ["MAX_ROWS", "render_summary"]

MAX_ROWS = 20
"""Configurations listed at most; the page lists all."""

MAX_RECIPES = 6
"""Recipes listed at most."""

_SEVERITIES = ("red", "amber", "info")
_FLAG_WORDS = {"red": "serious", "amber": "caution", "info": "note"}
_FLAG_STYLES = {"red": "bold red", "amber": "yellow", "info": "dim"}
_VERDICT_STYLES = {"resolved": "bold green", "vacuous": "bold red"}
_STATUS_NAMES = {"oom": "out of memory"}
_WORDS = frozenset({"config", "schedule", "place"})


def render_summary(summary: StudySummary) -> RenderableType:
    """Return the verdict, all configurations best first, the target's recipes and remarks."""
    parts: list[RenderableType] = [
        Text(f"{shown(summary.name)}: hyperparameters for {shown(summary.target_name)}", "bold"),
        Text(""),
        _verdict(summary),
        Text(""),
    ]
    if summary.top:
        parts += [_configurations(summary), _legend(summary), Text("")]
    else:
        parts += [Text("No configuration gave a loss, so there is nothing to rank."), Text("")]
    if any(row.recipe for row in summary.top):
        parts += [_recipes(summary), Text(_recipes_left_out(summary), style="dim")]
    return Group(*parts, _spent(summary), *_remarks(summary.flags))


def _verdict(summary: StudySummary) -> Text:
    style = _VERDICT_STYLES.get(summary.verdict, "bold yellow")
    word = VERDICT_WORDS[summary.verdict]
    return Text.assemble((f"{word}. ", style), shown(summary.statement, 1500))


def _configurations(summary: StudySummary) -> FittingTable:
    decay = "tau" if any("tau" in row.params for row in summary.top) else "decay"
    shown_rows = [
        (rank, status, row)
        for rank, (status, row) in enumerate(_ranked(summary), 1)
        if rank <= MAX_ROWS or _is_incumbent(summary, row)
    ]
    numbers = ("peak LR", decay, "warmup", "seeds", "loss", "above best", "x noise")
    return FittingTable(
        title="Configurations tried on the proxy, best first",
        columns=("", "config", "schedule", *numbers, "place"),
        rows=tuple(_config_cells(summary, *entry) for entry in shown_rows),
        styles=tuple(_row_style(summary, status, row) for _, status, row in shown_rows),
        left=_WORDS,
        spare=("place", "warmup", "seeds", decay, "x noise"),
    )


def _row_style(summary: StudySummary, status: str, row: ConfigSummary) -> str:
    if _is_incumbent(summary, row):
        return "yellow"
    return "green" if status == "top" else ""


def _ranked(summary: StudySummary) -> Iterator[tuple[str, ConfigSummary]]:
    """Yield every configuration with its place in the outcome, best first."""
    yield from (("top", row) for row in summary.top)
    yield from (("tie", row) for row in summary.ties)
    yield from (("", row) for row in summary.others)


def _config_cells(
    summary: StudySummary, rank: int, status: str, row: ConfigSummary
) -> tuple[str, ...]:
    params = row.params
    warmup = params.get("warmup_ratio")
    error = "" if row.standard_error is None else f" ±{row.standard_error:.4f}"
    return (
        str(rank),
        _config_name(summary, row),
        shown(str(params.get("schedule", DASH)), 19),
        _number(params, "peak_lr"),
        _number(params, "tau" if "tau" in params else "weight_decay"),
        fraction(warmup) if isinstance(warmup, float) else DASH,
        str(len(row.seeds)),
        loss(row.mean_loss),
        difference(row.difference) + error,
        noise_units(row.difference_in_noise),
        status,
    )


def _config_name(summary: StudySummary, row: ConfigSummary) -> str:
    return name_of(row.config, "incumbent" if _is_incumbent(summary, row) else "")


def _legend(summary: StudySummary) -> Text:
    rows = [row for _, row in _ranked(summary)]
    lost = {status: n for status, n in summary.trials.items() if status != "complete"}
    lines = []
    if len(rows) > MAX_ROWS:
        lines.append(f"{len(rows)} configurations were tried; the page lists them all.")
    if lost:
        words = ", ".join(f"{n} {_STATUS_NAMES.get(s, shown(s, 20))}" for s, n in lost.items())
        lines.append(f"Runs that gave no loss: {words}.")
    lines += [
        "loss: held-out, nats per token, mean over the seeds that can be compared.",
        "above best: difference from the first row, ± its standard error.",
        "x noise: the same in units of the noise of one run, which was not measured here."
        if summary.noise_std is None
        else "x noise: the same in units of the noise of one run, by which equal runs differ: "
        f"{summary.noise_std:.4f} nats.",
    ]
    if any("tau" in row.params for row in rows):
        lines.append("tau: share of the run that weights average over, 1 / (LR x decay x steps).")
    if summary.ties:
        lines.append(
            f"tie: cannot be told apart from the third by the margin of {summary.delta:.4f} nats."
        )
    return Text("\n".join([*lines, *_incumbent_lines(summary.incumbent)]), style="dim")


def _incumbent_lines(incumbent: IncumbentSummary | None) -> Iterator[str]:
    if incumbent is None:
        return
    yield f"incumbent: the published recipe carried to the proxy ({shown(incumbent.source, 60)})."
    if incumbent.gain is None:
        yield "The incumbent gave no loss, so no gain over it can be stated."
    else:
        error = incumbent.gain_standard_error
        sure = "" if error is None else f" ± {error:.4f}"
        yield f"The best beats the incumbent by {incumbent.gain:.4f}{sure} nats."


def _recipes(summary: StudySummary) -> FittingTable:
    ranked = enumerate((*summary.top, *summary.ties), 1)
    rows = [(rank, row, row.recipe) for rank, row in ranked if row.recipe][:MAX_RECIPES]
    first = rows[0][2]
    return FittingTable(
        title=f"What they become for {shown(summary.target_name, 40)}: {first.num_steps:,} steps "
        f"of {first.global_batch_tokens:,} tokens",
        columns=(
            *("", "config", "schedule", "matrix LR", "80 % interval", "embedding LR"),
            *("decay", "warmup steps"),
        ),
        rows=tuple(
            (str(rank), _config_name(summary, row), *_recipe_cells(recipe))
            for rank, row, recipe in rows
        ),
        styles=tuple(_row_style(summary, "", row) for _, row, _ in rows),
        left=_WORDS,
        spare=("80 % interval", "schedule"),
    )


def _recipes_left_out(summary: StudySummary) -> str:
    num_left = len(summary.top) + len(summary.ties) - MAX_RECIPES
    return f"The page has the recipes of {num_left} more ties.\n" if num_left > 0 else ""


def _recipe_cells(recipe: TargetRecipe) -> tuple[str, ...]:
    factor = recipe.matrix_lr / recipe.peak_lr
    low, high = (learning_rate(bound * factor) for bound in recipe.lr_interval_80)
    return (
        shown(recipe.schedule, 20),
        learning_rate(recipe.matrix_lr),
        f"{low} to {high}",
        learning_rate(recipe.embedding_lr),
        learning_rate(recipe.weight_decay),
        f"{recipe.warmup_steps:,}",
    )


def _spent(summary: StudySummary) -> Text:
    share = summary.sweep_flops / summary.target_flops if summary.target_flops > 0 else None
    return Text(
        f"{sum(summary.trials.values())} runs of a proxy of {count(summary.proxy_params)} "
        f"parameters: {duration(summary.wall_seconds)} of training, summed over workers, and "
        f"{fraction(share)} of the compute of one target run ({count(summary.target_params)} "
        "parameters)."
    )


def _remarks(flags: Sequence[Flag]) -> Iterator[RenderableType]:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=8)
    table.add_column()
    for flag in sorted(flags, key=lambda flag: _SEVERITIES.index(flag.severity)):
        word = Text(_FLAG_WORDS[flag.severity], _FLAG_STYLES[flag.severity])
        table.add_row(word, Text(sentence(flag.message)))
    if flags:
        yield Text("")
        yield table


def _is_incumbent(summary: StudySummary, row: ConfigSummary) -> bool:
    return summary.incumbent is not None and summary.incumbent.config == row.config


def _number(params: dict[str, float | str], name: str) -> str:
    value = params.get(name)
    return learning_rate(value) if isinstance(value, float) else DASH
