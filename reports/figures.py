"""View models to figures. A function returns None where there is nothing to draw."""

from collections.abc import Callable, Sequence
from math import ceil, floor, isfinite, log2

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from reports.numbers import count, learning_rate, power_of_two
from reports.rows import ConfigRow
from reports.svg import COLOURS, Canvas, add_legend, new_axes
from reports.view import Curve, Finalist, StudyView

__all__ = ["FigureFn", "draw_finalists", "draw_loss_curves", "draw_lr_curve", "draw_schedules"]

FigureFn = Callable[[StudyView, Canvas], Figure | None]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


def draw_loss_curves(view: StudyView, canvas: Canvas) -> Figure | None:
    """Draw held-out loss against tokens for every run; the best and the incumbent stand out."""
    curves = [_finite(curve) for curve in view.curves]
    curves = [curve for curve in curves if curve.losses]
    if not curves:
        return None
    figure, axes = new_axes(canvas, "training tokens", f"{view.validation_name} loss, nats / token")
    for curve in sorted(curves, key=lambda c: (c.is_best, c.is_incumbent)):
        axes.add_line(_curve_line(curve, num_curves=len(curves)))
    axes.set_ylim(*_loss_limits(curves))
    axes.set_xlim(0, 1.01 * max(curve.tokens[-1] for curve in curves))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
    entropy = view.summary.checks.get("unigram_entropy") if view.summary else None
    entries = _curve_legend(curves)
    if entropy is not None and entropy < axes.get_ylim()[1]:
        line = axes.axhline(entropy, color=COLOURS["muted"], linewidth=1, linestyle=":")
        entries.append(("token frequencies alone", line))
    add_legend(figure, canvas, entries)
    return figure


def draw_lr_curve(view: StudyView, canvas: Canvas) -> Figure | None:
    """Draw loss against peak learning rate: shape tells the schedule, colour the role."""
    rows = [row for row in view.ranked if row.peak_lr]
    if not rows:
        return None
    figure, axes = new_axes(
        canvas, "peak learning rate of the proxy (octaves)", "loss, nats / token"
    )
    markers = _markers(view.rows)
    for row in reversed(rows):
        _draw_point(axes, row, markers[row.schedule], view.noise_std)
    failed = [row.peak_lr for row in view.failed if row.peak_lr]
    axes.margins(y=0.14)
    at_the_top = axes.get_xaxis_transform()
    axes.scatter(
        failed,
        [1.0] * len(failed),
        marker="x",
        color=COLOURS["red"],
        transform=at_the_top,
        clip_on=False,
        zorder=3,
    )
    _octave_axis(axes, [row.peak_lr for row in view.rows if row.peak_lr], canvas)
    entries = _role_legend(view)
    entries += [(name, _dot(marker, "muted")) for name, marker in markers.items()]
    if failed:
        entries.append(("no loss: diverged or failed", _dot("x", "red")))
    add_legend(figure, canvas, entries)
    return figure


def draw_finalists(view: StudyView, canvas: Canvas) -> Figure | None:
    """Draw the finalists' distance from the best with standard errors and the margin."""
    finalists = view.finalists
    if not finalists or view.summary is None:
        return None
    height = 1.1 + 0.34 * len(finalists)
    sized = Canvas(name=canvas.name, width=canvas.width, height=height)
    figure, axes = new_axes(sized, "loss above the best, nats / token", "")
    axes.axvspan(0, view.summary.delta, color=COLOURS["green"], alpha=0.16, linewidth=0)
    for place, finalist in enumerate(finalists):
        _draw_finalist(axes, finalist, place)
    axes.set_yticks(range(len(finalists)), [finalist.name for finalist in finalists])
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"], length=0)
    axes.set_ylim(len(finalists) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    margin = Patch(color=COLOURS["green"], alpha=0.3, linewidth=0)
    entries: list[tuple[str, Artist]] = [
        ("mean ± standard error", _dot("o", "blue")),
        ("one seed", _dot("|", "muted")),
        (f"margin {view.summary.delta:.4f}", margin),
    ]
    add_legend(figure, canvas, entries)
    return figure


def draw_schedules(view: StudyView, canvas: Canvas) -> Figure | None:
    """Draw the learning rate of the best three and of the incumbent over the run."""
    if not view.schedules:
        return None
    figure, axes = new_axes(canvas, "share of the run", "learning rate of the proxy")
    colours = {1: "blue", 2: "green", 3: "purple"}
    entries: list[tuple[str, Artist]] = []
    for curve in reversed(view.schedules):
        colour = "orange" if curve.is_incumbent else colours.get(curve.place, "muted")
        line = Line2D(
            (0.0, *curve.fractions),
            (0.0, *curve.rates),
            color=COLOURS[colour],
            linestyle="--" if curve.is_incumbent else "-",
            linewidth=2.0 if curve.place == 1 else 1.5,
        )
        axes.add_line(line)
        entries.insert(0, (curve.name, line))
    axes.autoscale_view()
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    add_legend(figure, canvas, entries)
    return figure


def _finite(curve: Curve) -> Curve:
    kept = [
        (tokens, loss)
        for tokens, loss in zip(curve.tokens, curve.losses, strict=True)
        if isfinite(loss)
    ]
    return Curve(
        config=curve.config,
        seed=curve.seed,
        is_best=curve.is_best,
        is_incumbent=curve.is_incumbent,
        tokens=tuple(tokens for tokens, _ in kept),
        losses=tuple(loss for _, loss in kept),
    )


def _curve_line(curve: Curve, *, num_curves: int) -> Line2D:
    x, y = curve.tokens, curve.losses
    is_first = curve.seed == 0
    if curve.is_best:
        return Line2D(x, y, color=COLOURS["blue"], linewidth=1.8 if is_first else 0.9)
    if curve.is_incumbent:
        width = 1.6 if is_first else 0.8
        return Line2D(x, y, color=COLOURS["orange"], linewidth=width, linestyle="--")
    alpha = 0.55 if num_curves < 40 else 0.3
    return Line2D(x, y, color=COLOURS["muted"], linewidth=0.7, alpha=alpha)


def _curve_legend(curves: Sequence[Curve]) -> list[tuple[str, Artist]]:
    line = {name: Line2D([], [], color=COLOURS[name]) for name in ("blue", "orange", "muted")}
    line["orange"].set_linestyle("--")
    found: list[tuple[str, Artist]] = []
    best = [curve.config for curve in curves if curve.is_best]
    if best:
        found.append((f"best, #{best[0]}", line["blue"]))
    if any(curve.is_incumbent and not curve.is_best for curve in curves):
        found.append(("incumbent", line["orange"]))
    if any(not curve.is_incumbent and not curve.is_best for curve in curves):
        found.append(("others", line["muted"]))
    return found


def _loss_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Leave the first steep stretch out: it is the same for all and would hide the rest."""
    lowest = min(min(curve.losses) for curve in curves)
    early = sorted(curve.losses[len(curve.losses) // 10] for curve in curves)
    highest = max(early[int(0.8 * (len(early) - 1))], lowest + 1e-3)
    room = 0.06 * (highest - lowest)
    return lowest - room, highest + room


def _markers(rows: Sequence[ConfigRow]) -> dict[str, str]:
    names = sorted({row.schedule for row in rows})
    return {name: _MARKERS[place % len(_MARKERS)] for place, name in enumerate(names)}


def _draw_point(axes: Axes, row: ConfigRow, marker: str, noise: float | None) -> None:
    if row.peak_lr is None or row.loss is None:
        return
    colour = "orange" if row.is_incumbent else "blue" if row.group in ("top", "tie") else "muted"
    spread = None if noise is None else noise / row.num_seeds**0.5 if row.num_seeds else noise
    axes.errorbar(
        [row.peak_lr],
        [row.loss],
        yerr=spread,
        marker=marker,
        color=COLOURS[colour],
        markeredgecolor=COLOURS["paper"],
        markeredgewidth=0.6,
        markersize=8 if colour != "muted" else 6.5,
        elinewidth=1.2,
        capsize=2,
    )
    if row.rank == 1 or row.is_incumbent:  # the rest is in the table
        axes.annotate(
            row.name,
            (row.peak_lr, row.loss),
            xytext=(0, -16),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=COLOURS[colour],
        )


def _octave_axis(axes: Axes, rates: Sequence[float], canvas: Canvas) -> None:
    low, high = floor(log2(min(rates)) - 0.15), ceil(log2(max(rates)) + 0.15)
    stride = max(1, ceil((high - low) / (5 if canvas.is_narrow else 10)))
    octaves = range(low, high + 1, stride)
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0**low, 2.0**high)
    axes.set_xticks(
        [2.0**octave for octave in octaves],
        [f"{power_of_two(octave)}\n{learning_rate(2.0**octave)}" for octave in octaves],
    )
    axes.xaxis.set_minor_locator(NullLocator())


def _role_legend(view: StudyView) -> list[tuple[str, Artist]]:
    found: list[tuple[str, Artist]] = []
    if view.chosen:
        found.append(("top three and ties", _dot("o", "blue")))
    if view.incumbent is not None and view.incumbent.loss is not None:
        found.append(("incumbent", _dot("o", "orange")))
    return found


def _dot(marker: str, colour: str) -> Line2D:
    return Line2D([], [], marker=marker, color=COLOURS[colour], linestyle="", markersize=6)


def _draw_finalist(axes: Axes, finalist: Finalist, place: int) -> None:
    colour = "orange" if finalist.is_incumbent else "blue" if finalist.is_chosen else "muted"
    axes.plot(
        finalist.by_seed,
        [place] * len(finalist.by_seed),
        "|",
        color=COLOURS["muted"],
        markersize=9,
        alpha=0.8,
    )
    axes.errorbar(
        [finalist.difference],
        [place],
        xerr=finalist.standard_error,
        marker="o",
        color=COLOURS[colour],
        markersize=6,
        elinewidth=1.6,
        capsize=3,
    )
