"""The outcome of a study on a terminal: a verdict, two tables and what their columns mean."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reports.decision import VERDICT_WORDS
from reports.numbers import (
    DASH,
    count,
    difference,
    fraction,
    learning_rate,
    loss,
    noise_units,
    shown,
)
from reports.rows import name_of
from simulator.records.summary import ConfigSummary, Flag, StudySummary

__all__ = ["render_summary"]

MAX_TIES = 6
"""Tied configurations that get a line; the report has them all."""

_VERDICT_STYLES = {"resolved": "bold green", "vacuous": "bold red"}
_FLAG_WORDS = {"info": ("note", ""), "amber": ("caution", "yellow"), "red": ("serious", "red")}


def render_summary(summary: StudySummary) -> RenderableType:
    """Return the outcome as it is printed at the end of a sweep, at most 100 columns wide."""
    parts: list[RenderableType] = [Text(""), _verdict(summary)]
    if summary.top:
        parts += [Text(""), _losses(summary), *_legend(summary)]
        parts += [Text(""), _recipes(summary)]
    parts += [Text(""), *(_flag(flag) for flag in summary.flags), _effort(summary)]
    return Group(*parts)


def _verdict(summary: StudySummary) -> Text:
    style = _VERDICT_STYLES.get(summary.verdict, "bold yellow")
    head = Text(f"{shown(summary.name)}: {VERDICT_WORDS[summary.verdict]}. ", style=style)
    return head + Text(shown(summary.statement, 1500), style="")


def _losses(summary: StudySummary) -> Table:
    table = _table("Held-out loss on the proxy")
    for name in ("", "trial", "schedule"):
        table.add_column(name, no_wrap=True)
    for name in ("peak LR", "tau", "warmup", "seeds", "loss", "from best", "in noise"):
        table.add_column(name, justify="right", no_wrap=True)
    for rank, config in enumerate(summary.top, 1):
        table.add_row(str(rank), *_cells(config), style="bold")
    for config in summary.ties[:MAX_TIES]:
        table.add_row("tie", *_cells(config))
    left_out = len(summary.ties) - MAX_TIES
    if left_out > 0:
        table.add_row("tie", f"and {left_out} more")
    for config in _incumbent_elsewhere(summary):
        table.add_row(DASH, *_cells(config), style="dim")
    return table


def _cells(config: ConfigSummary) -> tuple[str, ...]:
    return (
        _name(config),
        shown(str(config.params.get("schedule", DASH)), 20),
        _rate(config, "peak_lr"),
        _rate(config, "tau"),
        _rate(config, "warmup_ratio"),
        str(len(config.losses)),
        loss(config.mean_loss),
        difference(config.difference),
        noise_units(config.difference_in_noise),
    )


def _name(config: ConfigSummary) -> str:
    label = config.label if not config.label.startswith("#") else ""
    return name_of(config.config, label)


def _rate(config: ConfigSummary, name: str) -> str:
    value = config.params.get(name)
    return learning_rate(float(value)) if isinstance(value, int | float) else DASH


def _incumbent_elsewhere(summary: StudySummary) -> Sequence[ConfigSummary]:
    """Return the incumbent where the table would otherwise not show it."""
    if summary.incumbent is None:
        return ()
    left = (*summary.ties[MAX_TIES:], *summary.others)
    return [config for config in left if config.config == summary.incumbent.config]


def _legend(summary: StudySummary) -> tuple[Text, ...]:
    noise = DASH if summary.noise_std is None else f"{summary.noise_std:.4f} nats"
    lines = [
        "loss: nats per token, mean over the seeds that can be compared; in noise: the difference",
        f"in units of {noise}, by which two runs of one configuration differ; ties: not told apart",
        f"from the third by more than {summary.delta:.4f} nats. tau: share of the run that weights",
        "average over, 1 / (LR x weight decay x steps); warmup: share of the run.",
    ]
    incumbent = summary.incumbent
    if incumbent is not None and incumbent.gain is not None:
        error = incumbent.gain_standard_error
        sure = "" if error is None else f" +- {error:.4f}"
        lines.append(f"The best beats the incumbent by {incumbent.gain:.4f}{sure} nats.")
    return tuple(Text(f"  {line}", style="dim") for line in lines)


def _recipes(summary: StudySummary) -> Table:
    table = _table(f"For the target, {shown(summary.target_name, 40)}")
    for name in ("", "trial", "schedule"):
        table.add_column(name, no_wrap=True)
    for name in ("matrix LR", "80 % interval", "embedding LR", "decay", "warmup steps"):
        table.add_column(name, justify="right", no_wrap=True)
    for rank, config in enumerate(summary.top, 1):
        recipe = config.recipe
        if recipe is None:
            table.add_row(str(rank), _name(config), "not mapped")
            continue
        scale = recipe.matrix_lr / recipe.peak_lr
        low, high = (learning_rate(bound * scale) for bound in recipe.lr_interval_80)
        table.add_row(
            str(rank),
            _name(config),
            shown(recipe.schedule, 20),
            learning_rate(recipe.matrix_lr),
            f"{low} to {high}",
            learning_rate(recipe.embedding_lr),
            learning_rate(recipe.weight_decay),
            f"{recipe.warmup_steps:,}",
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )


def _flag(flag: Flag) -> Text:
    word, style = _FLAG_WORDS[flag.severity]
    return Text(f"{word}: ", style=style) + Text(shown(flag.message, 400), style="")


def _effort(summary: StudySummary) -> Text:
    runs = ", ".join(f"{number} {status}" for status, number in summary.trials.items())
    share = summary.sweep_flops / summary.target_flops if summary.target_flops > 0 else None
    return Text(
        f"runs: {runs}; {count(summary.sweep_flops)}FLOP, {fraction(share)} of the target's run",
        style="dim",
    )
