"""View model to page: one function a section, listed in the order in which they are read."""

from collections.abc import Callable

from reports.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
)
from reports.decision import decision, recipes
from reports.figures import (
    FigureFn,
    draw_finalists,
    draw_loss_curves,
    draw_lr_curve,
    draw_schedules,
)
from reports.numbers import (
    DASH,
    count,
    difference,
    duration,
    learning_rate,
    loss,
    noise_units,
    times,
)
from reports.rows import ConfigRow, RunRow
from reports.svg import NARROW, WIDE, to_svg
from reports.view import StudyView

__all__ = [
    "SECTIONS",
    "SectionFn",
    "configurations",
    "evidence",
    "learning_rates",
    "limits",
    "loss_curves",
    "origins",
    "proxy",
]

SectionFn = Callable[[StudyView], Section]


def evidence(view: StudyView) -> Section:
    """Return how far the finalists lie from the best."""
    caption = (
        "How much worse each finalist is than the best. Dot and bar: mean over the seeds and its "
        "standard error; the mean allows for which seeds a configuration was run with. "
        "Ticks: single seeds, compared with the best under the same seed. "
        "Green: differences too small to matter."
    )
    return Section(
        slug="evidence",
        title="How sure is it",
        blocks=(
            _picture(view, draw_finalists, "finalists", caption, "finalists have been run"),
            _check_table(view),
        ),
    )


def loss_curves(view: StudyView) -> Section:
    """Return every run's held-out loss as it was trained."""
    left_out = view.num_curves_left_out
    caption = (
        "Held-out loss while training, one line a run: thick for the first seed, thin for further "
        "seeds. Runs are only compared at their end, because schedules differ in between."
    )
    if left_out:
        caption += f" {left_out} configurations further behind are not drawn."
    block = _picture(view, draw_loss_curves, "curves", caption, "an evaluation has been made")
    return Section(slug="curves", title="Loss curves", blocks=(block,))


def learning_rates(view: StudyView) -> Section:
    """Return how the loss depends on the learning rate, and the schedules of the best."""
    noise = view.noise_std
    bars = (
        "No bars: noise was not measured."
        if noise is None
        else "Bars: noise of the mean; invisible where smaller than the mark."
    )
    sensitivity = (
        "Loss at the end of each configuration's run against its peak learning rate, one octave a "
        "grid line. Other hyperparameters differ too, so points at one rate spread. A good sweep "
        f"shows a valley whose bottom lies inside the range. {bars}"
    )
    schedules = "Learning rate of the best three and of the incumbent as trained on the proxy."
    return Section(
        slug="learning-rate",
        title="Learning rate",
        blocks=(
            _picture(view, draw_lr_curve, "lr", sensitivity, "a run has completed"),
            _picture(view, draw_schedules, "schedules", schedules, "a run has completed"),
        ),
    )


def configurations(view: StudyView) -> Section:
    """Return every configuration that was tried."""
    columns = (
        Column("Rank"),
        Column("Configuration", is_number=False),
        Column("Loss"),
        Column("From the best"),
        Column("In noise"),
        Column("Seeds"),
        Column("Status", is_number=False),
        Column("Schedule", is_number=False),
        Column("Peak LR"),
        Column("Decay timescale"),
        Column("Weight decay"),
        Column("Warmup, steps"),
    )
    table = Table(
        "Values on the proxy. Loss: nats per token. In noise: the difference from the best in "
        "units of the noise of one run. Blue: top three and ties. Amber: the incumbent.",
        columns,
        tuple(_config_row(row) for row in view.rows),
    )
    blocks: list[Block] = [table] if view.rows else [Paragraph("The ledger holds no trial yet.")]
    failures = tuple(f"{row.name}: {row.status}. {row.reason}" for row in view.failed)
    if failures:
        blocks.append(Details(f"Why {len(failures)} gave no loss", (Bullets(failures),)))
    return Section(
        slug="configurations",
        title="All configurations",
        lead="The decay timescale is 1 / (learning rate x weight decay x steps): the share of the "
        "run over which weights are averaged.",
        blocks=tuple(blocks),
    )


def proxy(view: StudyView) -> Section:
    """Return the architecture of the target beside the proxy's."""
    changed = [entry for entry in view.dimensions if entry.treatment != "kept"]
    kept = [entry for entry in view.dimensions if entry.treatment == "kept"]
    if not view.dimensions:
        missing = "The study does not say what its target and its proxy look like."
        return Section(slug="proxy", title="The proxy", blocks=(Paragraph(missing),))
    columns = (
        Column("Dimension", is_number=False),
        Column("Target"),
        Column("Proxy"),
        Column("Treatment", is_number=False),
        Column("Reason", is_number=False),
    )
    table = Table(
        "What differs between target and proxy",
        columns,
        tuple(
            Row(
                (
                    Cell(entry.name, "code"),
                    Cell(entry.target),
                    Cell(entry.proxy),
                    Cell(entry.treatment, "bad" if entry.treatment == "cut" else ""),
                    Cell(entry.reason, "wrap"),
                )
            )
            for entry in changed
        ),
    )
    same = Details(
        f"{len(kept)} dimensions are the same in both",
        (Paragraph(", ".join(f"{entry.name} {entry.target}" for entry in kept) + "."),),
    )
    return Section(slug="proxy", title="The proxy", lead=_proxy_lead(view), blocks=(table, same))


def limits(view: StudyView) -> Section:
    """Return what the study can't tell."""
    items = [
        "Every loss on this page is the proxy's. The target's own loss, time and cost are not "
        "forecast here.",
        "That the best on the proxy is best on the target is carried over by published scaling "
        "rules; this study did not test it at a second width.",
        "Noise means other initial weights and another order of the data. It does not contain "
        "the difference between proxy and target.",
        "The best of many looks a little better than it is; its margin over the incumbent "
        "shrinks on fresh seeds.",
        "Configurations that are no finalists were run with one seed each; their order among "
        "themselves is within noise where differences are small.",
        "Hyperparameters that were not searched (betas, clipping, batch, initial scales) keep "
        "the target's values; their best values may lie elsewhere.",
    ]
    if view.is_synthetic:
        items.insert(
            0,
            "The training data is made up. It shows that the machinery works and says nothing "
            "about the best values for real text.",
        )
    return Section(slug="limits", title="What this can't tell", blocks=(Bullets(tuple(items)),))


def origins(view: StudyView) -> Section:
    """Return where every number comes from."""
    source = view.provenance
    pairs = (
        ("Study begun", source.created),
        ("Code version", ", ".join(source.code_versions)),
        ("PyTorch", ", ".join(source.torch_versions)),
        ("Device", ", ".join(source.devices)),
        ("Data", source.data_sources),
        ("Tokenizer", source.tokenizer),
        ("SHA-256 of the token ids", source.data_sha256),
        ("Seeds", ", ".join(map(str, source.seeds))),
        ("Parametrisation", source.parametrisation),
        ("Sampler", source.sampler),
    )
    table = Table(
        "The same for all runs unless several are listed",
        (Column("What", is_number=False), Column("Value", is_number=False)),
        tuple(Row((Cell(name, "muted"), Cell(value or DASH, "wrap"))) for name, value in pairs),
    )
    runs = [(row, run) for row in view.rows for run in row.runs]
    return Section(
        slug="origins",
        title="Where the numbers come from",
        lead="A run's fingerprint is the name of its folder under runs/ in the study directory.",
        blocks=(table, Details(f"All {len(runs)} runs", (_run_table(runs),))),
    )


SECTIONS: tuple[SectionFn, ...] = (
    decision,
    recipes,
    evidence,
    loss_curves,
    learning_rates,
    configurations,
    proxy,
    limits,
    origins,
)
"""The page from top to bottom."""


def _picture(view: StudyView, draw: FigureFn, name: str, caption: str, when: str) -> Block:
    wide, narrow = draw(view, WIDE), draw(view, NARROW)
    if wide is None or narrow is None:
        return Paragraph(f"Nothing to draw yet: this figure appears once {when}.")
    return Picture(
        caption,
        to_svg(wide, name=f"{name}-wide", label=caption),
        to_svg(narrow, name=f"{name}-narrow", label=caption),
    )


def _check_table(view: StudyView) -> Block:
    checks = view.summary.checks if view.summary else {}
    if not checks:
        return Paragraph("The checks on the sweep as a whole are made at its end.")
    entropy = checks.get("unigram_entropy")
    below = checks.get("loss_below_unigram")
    rows = (
        ("Loss of the best", loss(checks.get("best_loss")), "nats per token"),
        (
            "Loss from token frequencies alone",
            loss(entropy),
            f"a model that learned only these; the best is {_percent(below)} below",
        ),
        (
            "Spread over the learning rate",
            loss(checks.get("lr_spread")),
            f"{times(checks.get('lr_spread_in_noise'))} the noise; below 3 a sweep is vacuous",
        ),
        (
            "Best learning rate from the edge",
            _octaves(checks.get("lr_optimum_octaves_from_edge")),
            "octaves; 0 means the true optimum may lie outside the range",
        ),
    )
    return Table(
        "Did the sweep measure anything?",
        (Column("Check", is_number=False), Column("Value"), Column("Meaning", is_number=False)),
        tuple(Row((Cell(a), Cell(b), Cell(c, "wrap"))) for a, b, c in rows),
    )


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{100 * share:.0f} %"


def _octaves(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}"


def _proxy_lead(view: StudyView) -> str:
    summary = view.summary
    if summary is None:
        return "The proxy keeps the target's depth and divides its width."
    return (
        f"{view.target_name} has {count(summary.target_params)} parameters, the proxy "
        f"{count(summary.proxy_params)}. Widths are divided, everything else is kept unless "
        "it says cut."
    )


def _config_row(row: ConfigRow) -> Row:
    cells = (
        Cell(DASH if row.rank is None else str(row.rank)),
        Cell(row.name),
        Cell(loss(row.loss)),
        Cell(difference(row.difference)),
        Cell(noise_units(row.difference_in_noise)),
        Cell(str(row.num_seeds)),
        Cell(row.status, "muted" if row.status == "complete" else "bad"),
        Cell(row.schedule),
        Cell(learning_rate(row.peak_lr)),
        Cell(learning_rate(row.tau)),
        Cell(learning_rate(row.weight_decay)),
        Cell(DASH if row.warmup_steps is None else str(row.warmup_steps)),
    )
    if row.is_incumbent:
        return Row(cells, "incumbent")
    return Row(cells, "chosen" if row.group in ("top", "tie") else "")


def _run_table(runs: list[tuple[ConfigRow, RunRow]]) -> Table:
    columns = (
        Column("Trial"),
        Column("Configuration", is_number=False),
        Column("Seed"),
        Column("Purpose", is_number=False),
        Column("Status", is_number=False),
        Column("Loss"),
        Column("Steps"),
        Column("Time"),
        Column("Fingerprint", is_number=False),
    )
    return Table(
        "One line a run, in order of trials",
        columns,
        tuple(_run_row(row, run) for row, run in sorted(runs, key=lambda pair: pair[1].trial)),
    )


def _run_row(row: ConfigRow, run: RunRow) -> Row:
    cells = (
        Cell(str(run.trial)),
        Cell(row.name),
        Cell(str(run.seed)),
        Cell(run.purpose),
        Cell(run.status, "" if run.status == "complete" else "bad"),
        Cell(loss(run.loss)),
        Cell(DASH if run.num_steps_done is None else f"{run.num_steps_done} / {run.num_steps}"),
        Cell(duration(run.wall_seconds)),
        Cell(run.fingerprint, "code"),
    )
    return Row(cells)
