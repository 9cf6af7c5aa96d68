"""The first part of the page: what was found, and what the target is to be trained with."""

from dataclasses import replace

from reports.blocks import (
    Block,
    Bullets,
    Card,
    Cards,
    Cell,
    Column,
    Details,
    Facts,
    Paragraph,
    Remarks,
    Row,
    Section,
    Table,
    Tone,
    Verdict,
)
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
    times,
)
from reports.rows import ConfigRow
from reports.view import StudyView
from simulator.records.summary import Flag, TargetRecipe

__all__ = ["VERDICT_WORDS", "decision", "recipes"]

VERDICT_WORDS = {
    "resolved": "Resolved",
    "not_resolved": "Not resolved",
    "vacuous": "Vacuous: do not use this result",
    "incomplete": "Incomplete",
}
"""Every verdict as people read it."""

MAX_OPEN_TIES = 4
"""More ties than these are folded away, so that the first screen holds the decision."""

_TONES: dict[str, Tone] = {
    "resolved": "good",
    "not_resolved": "amber",
    "vacuous": "red",
    "incomplete": "amber",
}


def decision(view: StudyView) -> Section:
    """Return the answer: the best three, their ties, the evidence and what lowers confidence."""
    summary = view.summary
    if summary is None:
        return _undecided(view)
    word, tone = VERDICT_WORDS[summary.verdict], _TONES[summary.verdict]
    blocks: list[Block] = [Verdict(word, shown(summary.statement, 1200), tone)]
    top = [row for row in view.rows if row.group == "top"]
    if top:
        blocks.append(Cards(tuple(_card(view, row) for row in top)))
    ties = [row for row in view.rows if row.group == "tie"]
    if len(ties) > MAX_OPEN_TIES:
        title = f"{len(ties)} more configurations tie with the third"
        blocks.append(Details(title, (_ties(ties),)))
    elif ties:
        blocks.append(_ties(ties))
    blocks.append(_facts(view))
    if view.flags:
        blocks.append(Remarks(tuple(replace(f, message=sentence(f.message)) for f in view.flags)))
    return Section(slug="decision", title="The decision", blocks=tuple(blocks))


def recipes(view: StudyView) -> Section:
    """Return what the chosen configurations become at the target's size."""
    rows = [row for row in view.chosen if row.recipe is not None]
    if not rows or rows[0].recipe is None:
        missing = "No configuration has been mapped to the target yet: the study has no outcome."
        return Section(slug="target", title="Recipe for the target", blocks=(Paragraph(missing),))
    first = rows[0].recipe
    grave, notes = _recipe_remarks(view)
    blocks: list[Block] = [_recipe_table(rows), _ratios(first)]
    if grave:
        blocks.append(Remarks(grave))
    if notes:
        blocks.append(Details(f"Notes on single recipes ({len(notes)})", (Remarks(notes),)))
    return Section(
        slug="target",
        title="Recipe for the target",
        lead=f"The chosen configurations carried over from the proxy to {view.target_name}: "
        f"{first.num_steps:,} steps of {first.global_batch_tokens:,} tokens. "
        "Learning rates are peaks; the interval says how sure the carrying-over is, at 80 %.",
        blocks=tuple(blocks),
    )


def _recipe_remarks(view: StudyView) -> tuple[tuple[Flag, ...], tuple[Flag, ...]]:
    """Return what everybody must read, and notes that concern some recipes only."""
    grave: list[Flag] = []
    notes: list[Flag] = []
    for names, flag in view.recipe_flags:
        text = sentence(flag.message)
        named = replace(flag, message=f"{names}: {text}" if names else text)
        (notes if names and flag.severity == "info" else grave).append(named)
    return tuple(grave), tuple(notes)


def _undecided(view: StudyView) -> Section:
    state = f"{view.num_runs_ended} of {view.num_runs} recorded runs have ended"
    blocks: list[Block] = [
        Verdict("No decision yet", f"The study has not reached its end: {state}.", "amber")
    ]
    best = view.ranked[:1]
    if best:
        row = best[0]
        blocks.append(
            Paragraph(
                f"Lowest loss so far: {loss(row.loss)} nats per token by {row.name} "
                f"({row.schedule}, peak learning rate {learning_rate(row.peak_lr)} on the proxy). "
                "It is provisional: configurations are compared on equal seeds and with the noise "
                "at the end."
            )
        )
    else:
        missing = "No run has completed, so there is no loss to compare."
        blocks.append(Bullets((missing, *(_failure(row) for row in view.failed[:5]))))
    return Section(slug="decision", title="The decision", blocks=tuple(blocks))


def _failure(row: ConfigRow) -> str:
    return f"{row.name}: {row.status}. {row.reason}".strip()


def _card(view: StudyView, row: ConfigRow) -> Card:
    return Card(
        rank=f"Rank {row.rank}" + (", incumbent" if row.is_incumbent else ""),
        name=f"Configuration #{row.config}",
        headline=_headline(row),
        evidence=_evidence(view, row),
        items=_recipe_items(row.recipe) if row.recipe else (),
    )


def _recipe_items(recipe: TargetRecipe) -> tuple[tuple[str, str], ...]:
    return (
        ("Schedule", shown(recipe.schedule, 32)),
        ("Peak LR, matrices", learning_rate(recipe.matrix_lr)),
        ("Peak LR, embeddings", learning_rate(recipe.embedding_lr)),
        ("Weight decay", learning_rate(recipe.weight_decay)),
        ("Warmup", f"{recipe.warmup_steps:,} steps"),
    )


def _headline(row: ConfigRow) -> str:
    if row.is_incumbent:
        return "The published recipe itself"
    if row.gain is None:
        return "No incumbent to compare with"
    side = "better" if row.gain >= 0 else "worse"
    return f"{abs(row.gain):.4f} nats {side} than the published recipe"


def _evidence(view: StudyView, row: ConfigRow) -> str:
    seeds = f"{row.num_seeds} seed" + ("s" if row.num_seeds != 1 else "")
    parts = [f"Loss {loss(row.loss)} over {seeds}"]
    if row.rank == 1:
        parts.append("the lowest of all")
    else:
        error = "" if row.standard_error is None else f" ± {row.standard_error:.4f}"
        parts.append(f"{difference(row.difference)}{error} from the best")
    if row.difference_in_noise and view.noise_std:
        parts.append(f"{noise_units(row.difference_in_noise)} times the noise")
    return "; ".join(parts) + "."


def _ties(rows: list[ConfigRow]) -> Table:
    columns = (
        Column("Configuration", is_number=False),
        Column("Schedule", is_number=False),
        Column("Loss"),
        Column("From the best"),
        Column("In units of noise"),
        Column("Better than incumbent by"),
    )
    return Table(
        "Ties: the noise does not let them be told apart from the third by the margin",
        columns,
        tuple(
            Row(
                (
                    Cell(row.name),
                    Cell(row.schedule),
                    Cell(loss(row.loss)),
                    Cell(_difference_with_error(row)),
                    Cell(noise_units(row.difference_in_noise)),
                    Cell(difference(row.gain)),
                )
            )
            for row in rows
        ),
    )


def _difference_with_error(row: ConfigRow) -> str:
    error = row.standard_error
    return difference(row.difference) + ("" if error is None else f" ± {error:.4f}")


def _facts(view: StudyView) -> Facts:
    summary = view.summary
    assert summary is not None, "facts are of an outcome"
    noise = summary.noise
    items = [
        (
            "Gain over the published recipe",
            *_gain(view),
        ),
        (
            "Noise of one run",
            DASH if summary.noise_std is None else f"{summary.noise_std:.4f} nats",
            "Not measured: one seed only."
            if noise is None
            else f"Standard deviation over seeds, {noise.degrees_of_freedom} degrees of freedom.",
        ),
        (
            "Indifference margin",
            f"{summary.delta:.4f} nats",
            "Fixed before the sweep; smaller differences do not matter.",
        ),
        (
            "Spent on training",
            duration(summary.wall_seconds),
            f"Summed over workers. {view.num_runs} runs, {count(summary.sweep_flops)}FLOP: "
            f"{fraction(view.flops_share)} of one target run.",
        ),
    ]
    return Facts(tuple(items))


def _gain(view: StudyView) -> tuple[str, str]:
    incumbent = view.summary.incumbent if view.summary else None
    if incumbent is None:
        return DASH, "The study has no incumbent."
    if incumbent.gain is None:
        return DASH, "The incumbent's own run gave no loss."
    error = incumbent.gain_standard_error
    sure = "" if error is None else f"± {error:.4f}; "
    units = view.gain_in_noise
    scale = "" if units is None else f"{noise_units(units)} times the noise of one run. "
    return (
        f"{difference(incumbent.gain)} nats",
        f"{sure}{scale}Recipe: {shown(incumbent.source, 120)}.",
    )


def _recipe_table(rows: list[ConfigRow]) -> Table:
    columns = (
        Column("Rank"),
        Column("Configuration", is_number=False),
        Column("Schedule", is_number=False),
        Column("Peak LR, matrices"),
        Column("80 % interval"),
        Column("Peak LR, embeddings"),
        Column("Weight decay"),
        Column("Warmup, steps"),
    )
    return Table(
        "Peak learning rates, decay and warmup at the target",
        columns,
        tuple(_recipe_row(row, row.recipe) for row in rows if row.recipe is not None),
    )


def _recipe_row(row: ConfigRow, recipe: TargetRecipe) -> Row:
    low, high = row.matrix_lr_interval or (None, None)
    cells = (
        Cell(str(row.rank)),
        Cell(row.name),
        Cell(shown(recipe.schedule, 32)),
        Cell(learning_rate(recipe.matrix_lr)),
        Cell(f"{learning_rate(low)} to {learning_rate(high)}", "muted"),
        Cell(learning_rate(recipe.embedding_lr)),
        Cell(learning_rate(recipe.weight_decay)),
        Cell(f"{recipe.warmup_steps:,}"),
    )
    return Row(cells, "incumbent" if row.is_incumbent else "")


def _ratios(recipe: TargetRecipe) -> Facts:
    words = {
        "width": ("Width", "target over proxy"),
        "tokens": ("Training tokens", "target over proxy"),
        "batch": ("Batch", "target over proxy, tokens"),
        "tokens_per_param": ("Tokens per parameter", "target over proxy; 1 is best"),
    }
    return Facts(
        tuple(
            (words.get(name, (name, ""))[0], times(ratio), words.get(name, ("", ""))[1])
            for name, ratio in recipe.ratios.items()
        )
    )
