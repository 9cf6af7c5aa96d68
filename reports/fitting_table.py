"""A terminal table that leaves columns out rather than cut a number in two."""

from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table

__all__ = ["FittingTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingTable:
    """Rows of text under titles, drawn within whatever width there is."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """One text a column."""
    styles: tuple[str, ...]
    """One a row."""
    left: frozenset[str]
    """Columns of words; all others are numbers and stand to the right."""
    spare: tuple[str, ...] = ()
    """Columns left out where the width does not suffice, the first one first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = self._kept(options.max_width)
        table = Table(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=0,
        )
        for column in kept:
            name = self.columns[column]
            justify: JustifyMethod = "left" if name in self.left else "right"
            table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")
        for row, style in zip(self.rows, self.styles, strict=True):
            table.add_row(*(row[column] for column in kept), style=style)
        yield table

    def _kept(self, width: int) -> list[int]:
        widths = [
            max(cell_len(text) for text in (name, *(row[column] for row in self.rows)))
            for column, name in enumerate(self.columns)
        ]
        kept = list(range(len(self.columns)))
        for name in self.spare:
            if sum(widths[column] + 1 for column in kept) - 1 <= width:
                break
            kept = [column for column in kept if self.columns[column] != name]
        return kept
