"""What a section of the page is made of: plain values that a template lays out."""

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from simulator.records.summary import Flag

__all__ = [
    "Block",
    "Bullets",
    "Card",
    "Cards",
    "Cell",
    "Column",
    "Details",
    "Facts",
    "Paragraph",
    "Picture",
    "Remarks",
    "Row",
    "Section",
    "Table",
    "Tone",
    "Verdict",
]

Tone = Literal["good", "info", "amber", "red"]
"""How a verdict is to be taken."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain words."""

    text: str
    kind: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True)
class Bullets:
    """Several sentences of the same weight."""

    items: tuple[str, ...]
    kind: Literal["bullets"] = "bullets"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in a word and in a sentence."""

    word: str
    statement: str
    tone: Tone
    kind: Literal["verdict"] = "verdict"


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of (what, value, what it means)."""

    items: tuple[tuple[str, str, str], ...]
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One chosen configuration."""

    rank: str
    name: str
    headline: str
    """The claim made of it."""
    evidence: str
    """The numbers behind the claim."""
    items: tuple[tuple[str, str], ...]
    """What the target is to be trained with."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The chosen configurations side by side."""

    items: tuple[Card, ...]
    kind: Literal["cards"] = "cards"


@dataclass(frozen=True, slots=True)
class Remarks:
    """What lowers confidence."""

    flags: tuple[Flag, ...]
    kind: Literal["remarks"] = "remarks"


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column."""

    title: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a table."""

    text: str
    tone: Literal["", "muted", "code", "bad", "wrap"] = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    cells: tuple[Cell, ...]
    tone: Literal["", "chosen", "incumbent"] = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that scrolls sideways where it is too wide."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure drawn for a wide and for a narrow page."""

    caption: str
    wide: Markup
    narrow: Markup
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True, slots=True)
class Details:
    """Something most readers skip."""

    title: str
    blocks: tuple["Block", ...]
    kind: Literal["details"] = "details"


Block = Paragraph | Bullets | Verdict | Facts | Cards | Remarks | Table | Picture | Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the page."""

    slug: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...]
