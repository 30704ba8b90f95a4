"""What are the parts of a document: texts, lists, tables, figures, sections?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

#: What a command writes as JSON, or a part of it.
Json = Mapping[str, Any]
#: Where a block is shown.
Where = Literal["both", "terminal", "page"]
#: How a text or a cell reads: a colour or a weight that each medium chooses.
Style = Literal["", "strong", "muted", "good", "bad", "warning"]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    style: Style = ""
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy, as they are."""

    text: str
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Bullet:
    """A warning or a remark, with a short title where it has one (for the page)."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """Findings as a list under a heading (left out on a page that says it above already)."""

    heading: str
    items: Sequence[Bullet | str]
    style: Style = ""
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Parameters
    ----------
    text : str
        What it says.
    below : str
        A second, quieter line: on the page always, in a terminal where the table asks for it.
    style : Style
        On a row's first cell, ``strong`` holds for the row.
    bar : float, optional
        A share to draw as a bar in place of the text.
    href : str
        A file beside the page that the text leads to.
    value : float, optional
        What a sortable table sorts by, where that is not the number that the text begins with.
    """

    text: str
    below: str = ""
    style: Style = ""
    bar: float | None = None
    href: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A row of a table that heads those below it."""

    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, and how it stands.

    Parameters
    ----------
    name : str
        Heading.
    align : {"left", "right"}
        Numbers stand right.
    brief : str, optional
        The heading in a terminal, where it has less room.
    most : int, optional
        Characters in a terminal before a cell goes on in the next line.
    where : Where
        Where the column is shown.
    """

    name: str
    align: Literal["left", "right"] = "left"
    brief: str | None = None
    most: int | None = None
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a cell may be given as text.

    Parameters
    ----------
    title : str
        Above the table in a terminal, a caption for screen readers on a page.
    columns : sequence of Column
        One or more.
    rows : sequence
        Cells or texts, as many as there are columns, or a ``Heading``.
    two_lines : bool
        Whether a terminal shows the second lines of cells.
    where : Where
        Where it is shown.
    sortable : bool
        Whether a page sorts it by the column whose heading is pressed, and a phone shows each row
        as a card.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    two_lines: bool = False
    where: Where = "both"
    sortable: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values, side by side."""

    items: Sequence[tuple[str, str]]
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture, on the page and as a file.

    Parameters
    ----------
    name : str
        Distinct among the document's figures; the file's name without its ending.
    draw : callable
        Takes whether to draw for a phone, and returns an ``<svg>`` element. It is called when a
        page is made, never for a terminal.
    caption : str
        What it shows.
    limits : tuple of 4 floats, optional
        What the axes span, where the slider moves a mark in them.
    size : {"fitted", "fixed", "half"}
        Drawn for a phone, too; drawn once; drawn once and put beside its neighbour.
    where : Where
        Never in a terminal.
    lines : sequence of str
        The same in characters of one width, for Markdown, which shows no drawing.
    drawn : dict of bool to str
        What was drawn already.
    """

    name: str
    draw: Callable[[bool], str]
    caption: str = ""
    limits: tuple[float, float, float, float] | None = None
    size: Literal["fitted", "fixed", "half"] = "fitted"
    where: Where = "page"
    lines: Sequence[str] = ()
    drawn: dict[bool, str] = field(default_factory=dict, compare=False, repr=False)

    def svg(self, narrow: bool = False) -> str:
        """Return the picture, drawn once for each width."""
        if narrow not in self.drawn:
            self.drawn[narrow] = self.draw(narrow)
        return self.drawn[narrow]


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that a reader looks for first, with its interval and what was asked."""

    name: str
    value: str
    interval: str = ""
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Slider:
    """Thresholds to try on the page: ``points`` of ``slider.operating_points``, and words."""

    points: Mapping[str, Any]
    label: str
    back: str
    caveat: str
    where: Where = "page"


@dataclass(frozen=True, slots=True)
class Quote:
    """A stretch of somebody's text: clean segments, each marked or not, and what was left out."""

    about: str
    segments: Sequence[tuple[str, bool]]
    before: bool = False
    after: bool = False
    whole: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A sentence of an answer, or what stands between two: segments as a ``Quote`` has them.

    A sentence has a ``verdict``: what became of it, and whether rightly. A ``sign`` says the same
    in one character, for those who see no colours; ``score`` is its score.
    """

    segments: Sequence[tuple[str, bool]]
    removed: bool = False
    verdict: str = ""
    sign: str = ""
    style: Style = ""
    score: str = ""


@dataclass(frozen=True, slots=True)
class Struck:
    """An answer in which removed sentences are struck out; marked is what people marked."""

    about: str
    stretches: Sequence[Stretch]
    before: bool = False
    after: bool = False
    whole: str = ""
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """What a detector says about one part of an answer; every field may be empty."""

    verdict: str = ""
    style: Style = ""
    name: str = ""
    value: str = ""
    texts: Sequence[str] = ()
    remark: str = ""
    measures: str = ""
    quote: str = ""
    place: str = ""
    nested: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a detector's decision rests on, item by item; ``more`` were left out."""

    heading: str
    items: Sequence[EvidenceItem]
    more: int = 0
    where: Where = "both"


@dataclass(frozen=True, slots=True)
class Card:
    """One answer on the page: facts about it, its texts, the evidence, its context folded."""

    title: str
    name: str
    facts: Sequence[str]
    quotes: Sequence[Quote | Struck]
    evidence: Evidence | None = None
    note: str = ""
    folded_title: str = ""
    folded: Sequence[Quote] = ()
    where: Where = "page"


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a reader opens on the page; a terminal shows them as they are, if at all."""

    summary: str
    blocks: Sequence[Block | None]
    where: Where = "page"


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading, which only a page shows."""

    heading: str
    blocks: Sequence[Block | None]
    where: Where = "both"


def section(heading: str, *blocks: Block | None, where: Where = "both") -> Section:
    """Return blocks under a heading."""
    return Section(heading, blocks, where)


def folded(summary: str, *blocks: Block | None) -> Folded:
    """Return blocks that a reader opens on the page."""
    return Folded(summary, blocks)


def note(text: str) -> Text:
    """Return a quieter text for the page alone."""
    return Text(text, "muted", "page")


def listing(
    heading: str, items: Sequence[Bullet | str], style: Style = "", where: Where = "both"
) -> Section:
    """Return a section that is one list."""
    return Section(heading, (Bullets(heading, items, style),), where)


def texts(*names: str) -> list[Column]:
    """Return columns of texts."""
    return [Column(name) for name in names]


def numbers(*names: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(name, "right") for name in names]


Row = Sequence[Cell | str] | Heading
Block = (
    Text
    | Code
    | Bullets
    | Table
    | Facts
    | Figure
    | Slider
    | Struck
    | Evidence
    | Card
    | Folded
    | Section
)
