"""Matplotlib figures as inline SVG that takes its colours and its font from the page."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

__all__ = ["COLOURS", "NARROW", "WIDE", "Canvas", "add_legend", "new_axes", "to_svg"]

_METADATA = ("Date", "Creator", "Format", "Type")
"""What matplotlib would write of itself into every figure."""

COLOURS = {
    "ink": "#010101",
    "muted": "#020202",
    "grid": "#030303",
    "paper": "#040404",
    "blue": "#050505",
    "orange": "#060606",
    "green": "#070707",
    "purple": "#080808",
    "sky": "#090909",
    "red": "#0a0a0a",
}
"""Stand-ins that become the page's variables ``--ink``, ``--muted``, ...; the page gives each one
value for light and one for dark (hues of Okabe and Ito, told apart by the colour-blind)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """Size of a figure in inches; text has the same size on every canvas."""

    name: str
    width: float
    height: float

    @property
    def is_narrow(self) -> bool:
        """Whether it is meant for a phone."""
        return self.width < 5


WIDE = Canvas(name="wide", width=7.6, height=3.7)
NARROW = Canvas(name="narrow", width=3.9, height=3.7)


def new_axes(canvas: Canvas, xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    """Return a figure with one quiet pair of axes and no ground of its own."""
    figure = Figure(figsize=(canvas.width, canvas.height), layout="constrained", frameon=False)
    axes = figure.add_subplot(frameon=True)
    axes.patch.set_visible(False)
    axes.set_xlabel(xlabel, color=COLOURS["ink"], fontsize=9)
    axes.set_ylabel(ylabel, color=COLOURS["ink"], fontsize=9)
    axes.tick_params(colors=COLOURS["muted"], labelsize=8, length=3, which="both")
    axes.grid(visible=True, color=COLOURS["grid"], linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLOURS["grid"])
    return figure, axes


def add_legend(figure: Figure, canvas: Canvas, entries: Sequence[tuple[str, Artist]]) -> None:
    """Put a legend of (text, what it stands for) above the axes."""
    figure.legend(
        handles=[artist for _, artist in entries],
        labels=[text.lstrip("_") for text, _ in entries],
        loc="outside upper left",
        ncols=2 if canvas.is_narrow else 4,
        frameon=False,
        fontsize=8,
        labelcolor=COLOURS["ink"],
        handlelength=1.6,
        columnspacing=1.2,
        borderpad=0.1,
    )


def to_svg(figure: Figure, *, name: str, label: str) -> Markup:
    """Return a figure as SVG that can stand in a page among others.

    Parameters
    ----------
    name
        Put before every identifier, so that figures of one page don't share any.
    label
        What the figure shows, for those who can't see it.
    """
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(_METADATA))
    body = buffer.getvalue()
    view_box = re.search(r'viewBox="[^"]*"', body)
    assert view_box is not None, "matplotlib writes a view box"
    inner = body[body.index(">", body.index("<svg")) + 1 :]
    inner = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"<[^>]+>", lambda tag: _page_tag(tag.group(), name), inner)
    opening = f'<svg role="img" aria-label="{escape(label)}" {view_box.group()}>'
    return Markup(opening + re.sub(r"\s*\n\s*", "\n", inner).strip())


def _page_tag(tag: str, name: str) -> str:
    """Let one tag take its colours and font from the page; give its identifiers a prefix."""
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag)
    tag = re.sub(r"font-family:[^;\"]*;? ?", "", tag)
    for variable, colour in COLOURS.items():
        tag = tag.replace(colour, f"var(--{variable})")
    return tag
