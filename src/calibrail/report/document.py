"""Document and its blocks.

How a command's document is written
-----------------------------------
1. ``report/documents/<command>.py`` holds one function ``document(content) -> Document``. Its
   input is the plain dictionary that the command writes as JSON, so that every number a reader
   sees is in that file. Its sentences stand in ``report/catalogue``, as templates.
2. It returns a ``Document``: title, headline, summary, blocks, warnings, notes, next step. A block
   is one of the classes in this module. Texts are plain: no markup, no colours, no line
   breaks; names from the data go in as they are, and each renderer makes them safe for its medium.
3. Write every block for both media unless it fits one alone: ``where="page"`` for what takes room
   (figures, folded tables, methods), ``where="terminal"`` for a short form of it. Blocks and
   sections that turn out empty are not shown, so ``Text(sentence_or_nothing)`` needs no ``if``.
4. The command prints with ``terminal.print_document(document, console)``; its page comes
   from ``html.render_page(document)``, its figures as files from ``html.figure_files``.

A terminal shows tables under their titles and leaves out the headings of sections; a page shows
the headings, and gives titles of tables to those who cannot see.

Examples
--------
>>> rows = [(Cell("rad", style="strong"), Cell("91%", below="88 to 94%")), Heading("Baselines")]
>>> table = Table("Scores", (TableColumn("Score"), TableColumn("Caught", "right")), rows)
>>> page = Document("report", headline="certified", blocks=(table, Text(""))).shown_on("page")
>>> len(page.blocks)
1
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from calibrail.options.fields import cli_or_python

#: What a command writes as JSON, or a part of it.
Json = Mapping[str, Any]
#: Where a block is shown.
Where = Literal["both", "terminal", "brief", "verbose", "page"]
#: What each medium shows: a page and, if asked, a terminal have tables for which a line stands.
_SHOWN: Final = {
    "terminal": ("both", "terminal", "brief"),
    "verbose": ("both", "terminal", "verbose"),
    "page": ("both", "verbose", "page"),
}
#: How a text or a cell reads: a colour or a weight that each medium chooses.
Style = Literal["", "strong", "muted", "good", "bad", "warning"]


class Later(Sequence[Any]):
    """Parts of what one medium alone shows: made when that looks at them, if ever."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._made = cache(lambda: tuple(make()))

    def __len__(self) -> int:
        return len(self._made())

    def __getitem__(self, place: Any) -> Any:
        return self._made()[place]


class Text(NamedTuple):
    """A paragraph."""

    text: str
    style: Style = ""
    where: Where = "both"


class Code(NamedTuple):
    """Lines to copy, as they are."""

    text: str
    where: Where = "both"


class Bullet(NamedTuple):
    """A warning or a remark, with a short title where it has one (for the page)."""

    text: str
    title: str = ""


class Bullets(NamedTuple):
    """Findings as a list under a heading (left out on a page that says it above already)."""

    heading: str
    items: Sequence[Bullet | str]
    style: Style = ""
    where: Where = "both"


class Cell(NamedTuple):
    """One cell.

    Parameters
    ----------
    text : str
        What it says.
    below : str
        A second, quieter line: on the page always, in a terminal where the table asks for it.
    style : Style
        On a row's first cell, ``strong`` holds for the row.
    href : str
        A file beside the page that the text leads to.
    value : float, optional
        What a sortable table sorts by, where that is not the number that the text begins with.
    """

    text: str
    below: str = ""
    style: Style = ""
    href: str = ""
    value: float | None = None


class Heading(NamedTuple):
    """A row of a table that heads those below it."""

    text: str


class TableColumn(NamedTuple):
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
    columns: Sequence[TableColumn]
    rows: Sequence[Row]
    two_lines: bool = False
    where: Where = "both"
    sortable: bool = False


def asked_heading(asked: Iterable[str]) -> list[str]:
    """Return the heading of what was asked; none where nothing was."""
    return ["Required"] if any(asked) else []


class Facts(NamedTuple):
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
        What the axes span, where the slider moves a mark or a box in them.
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


class Tile(NamedTuple):
    """One number that a reader looks for first: an interval, what was asked, what it means."""

    name: str
    value: str
    interval: str = ""
    asked: str = ""
    note: str = ""


class Slider(NamedTuple):
    """Thresholds to try on the page: ``points`` of ``operating_points``, words, and ``jumps``.

    Each of these is a button: what it says, and the place in ``points`` that it leads to.
    """

    points: Mapping[str, Any]
    label: str
    back: str
    caveat: str
    jumps: Sequence[tuple[str, int]] = ()
    where: Where = "page"


class QuotedText(NamedTuple):
    """A stretch of somebody's text: clean segments, each marked or not, and what was left out."""

    about: str
    segments: Sequence[tuple[str, bool]]
    before: bool = False
    after: bool = False
    whole: str = ""
    style: str = ""


class SentenceText(NamedTuple):
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


class Struck(NamedTuple):
    """An answer in which removed sentences are struck out; marked is what people marked."""

    about: str
    stretches: Sequence[SentenceText]
    before: bool = False
    after: bool = False
    whole: str = ""
    where: Where = "both"


class EvidenceItem(NamedTuple):
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
    nested: EvidenceBlock | None = None


class EvidenceBlock(NamedTuple):
    """What a detector's decision rests on, item by item; ``more`` were left out."""

    heading: str
    items: Sequence[EvidenceItem]
    more: int = 0
    where: Where = "both"


class AnswerCard(NamedTuple):
    """One answer on the page: facts about it, its texts, the evidence, its context folded."""

    title: str
    name: str
    facts: Sequence[str]
    quotes: Sequence[QuotedText | Struck]
    evidence: EvidenceBlock | None = None
    note: str = ""
    folded_title: str = ""
    folded: Sequence[QuotedText] = ()
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


def listing(heading: str, items: Sequence[Bullet | str], where: Where = "both") -> Section:
    """Return a section that is one list."""
    return Section(heading, (Bullets(heading, items),), where)


def table(
    title: str, heads: Iterable[str | TableColumn], rows: Sequence[Row], **options: Any
) -> Table:
    """Return rows under headings, of which ``>`` begins those of numbers: these stand right.

    A heading that comes from data is a ``TableColumn``, so that nothing in it is a sign.

    >>> [column.align for column in table("Scores", ("Score", ">Caught"), ()).columns]
    ['left', 'right']
    """
    columns = [
        TableColumn(head.removeprefix(">"), "right" if head.startswith(">") else "left")
        if isinstance(head, str)
        else head
        for head in heads
    ]
    return Table(title, columns, rows, **options)


def tabled(
    title: str,
    heads: Iterable[str | TableColumn],
    rows: Sequence[Row],
    *more: Block | None,
    where: Where = "both",
    **options: Any,
) -> Section:
    """Return a section that begins with a `table` of its title."""
    return Section(title, (table(title, heads, rows, **options), *more), where)


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
    | EvidenceBlock
    | AnswerCard
    | Folded
    | Section
)


#: What a document's headline says about the requirement, if there is one.
Verdict = Literal["certified", "conditional", "rejected", "inconclusive", ""]


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that a command says.

    Parameters
    ----------
    title : str
        What this is, before its subject: ``report for``.
    subject : str
        What it is about, e.g. the detector's name; text from the data.
    headline : str
        What it comes to, in a few words: a verdict, or a sentence.
    verdict : Verdict
        Where the headline is one.
    tone : Verdict
        As what a page colours it, where that is not as bad as the verdict.
    summary : str
        What the headline means, in a sentence or two.
    rule : str
        What decides, in a sentence, where a result is shown in a few lines.
    lead : sequence of Bullet
        The few questions that the document answers first, each a title with its answer.
    brief : str, optional
        What a terminal says in place of headline and summary.
    tiles : sequence of Tile
        The few numbers to look at first (page).
    blocks : sequence of Block
        The body; None is left out.
    warnings : sequence of Bullet
        Early on the page, late in a terminal, where the end is what is read.
    notes : sequence of str
        Further remarks.
    next_step : str
        What to do now. RUN, GUARDRAIL and DATA in it stand for what `naming` knows.
    alternatives : sequence of str
        Other ways on; as the next step.
    reproduce, data : mapping
        How to get this again, and from what; shown on the page, leaf by leaf.
    footer : str
        Where the numbers are kept.
    ends : bool
        Whether a long text in a terminal ends in what it comes to.
    wide : bool
        Whether the page takes the room that wide tables need.
    sheet : bool
        Whether it is printed in two columns of small type, to fit one sheet of A4.
    """

    title: str
    subject: str = ""
    headline: str = ""
    verdict: Verdict = ""
    tone: Verdict = ""
    summary: str = ""
    rule: str = ""
    lead: Sequence[Bullet] = ()
    brief: str | None = None
    tiles: Sequence[Tile] = ()
    blocks: Sequence[Block | None] = ()
    warnings: Sequence[Bullet] = ()
    notes: Sequence[str] = ()
    next_step: str = ""
    alternatives: Sequence[str] = ()
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    footer: str = "Every number on this page is in what --json prints."
    ends: bool = True
    wide: bool = False
    sheet: bool = False

    def shown_on(self, medium: Literal["terminal", "verbose", "page"]) -> Document:
        """Return what one medium shows: no empty blocks, every cell a ``Cell``."""
        return replace(self, blocks=_visible(self.blocks, medium))

    def naming(self, **names: object) -> Document:
        """Return the document with the stand-ins of its next step replaced.

        Parameters
        ----------
        **names
            A path, or a list of them, for each stand-in that is known, e.g. ``RUN=folder``.
        """
        words = {
            name: cli_or_python(shlex.join(items), repr(items if len(items) > 1 else items[0]))
            for name, value in names.items()
            if (items := [str(item) for item in (value if isinstance(value, list) else [value])])
        }
        named, *others = (
            _STAND_IN.sub(lambda word: words.get(word[0], word[0]), step)
            for step in (self.next_step, *self.alternatives)
        )
        return replace(self, next_step=named, alternatives=others)

    def steps_and_commands(self) -> list[tuple[str, str]]:
        """Return the next step and its alternatives: each without its command, and that command."""
        return [_step_and_command(step) for step in (self.next_step, *self.alternatives) if step]


#: A word in capitals that is no part of a name, such as RUN.csv.
_STAND_IN: Final = re.compile(r"(?<![\w./])[A-Z]+(?![\w/]|\.\w)")


def all_blocks(blocks: Iterable[Block | None]) -> Iterator[Block]:
    """Yield blocks and those inside them, in reading order."""
    for block in blocks:
        if block is not None:
            yield block
        if isinstance(block, Section | Folded):
            yield from all_blocks(block.blocks)


def _step_and_command(step: str) -> tuple[str, str]:
    said, found, command = f": {step}".rpartition(": calibrail ")
    if not found:
        return step, ""
    return f"{said[2:]}:" if said else "", f"calibrail {command}"


def _visible(blocks: Iterable[Block | None], medium: str) -> tuple[Block, ...]:
    """Return the blocks of one medium that say something."""
    visible: list[Block] = []
    for block in blocks:
        if block is None or block.where not in _SHOWN[medium]:
            continue
        content: object = block
        match block:
            case Section() | Folded():
                block = replace(block, blocks=_visible(block.blocks, medium))
                content = block.blocks
            case Table():
                block = _cells(block, medium)
                content = block.rows
            case Text():
                content = block.text
            case Bullets() | Facts():
                content = block.items
        if content:
            visible.append(block)
    return tuple(visible)


def _cells(table: Table, medium: str) -> Table:
    """Return a table of the columns that one medium shows and that hold anything."""
    rows = [
        row if isinstance(row, Heading) else [c if isinstance(c, Cell) else Cell(c) for c in row]
        for row in table.rows
    ]
    cells = [row for row in rows if not isinstance(row, Heading)]
    places = [
        place
        for place, column in enumerate(table.columns)
        if column.where in _SHOWN[medium]
        and (place == 0 or any(row[place].text or row[place].below for row in cells))
    ]
    return replace(
        table,
        columns=[table.columns[place] for place in places],
        rows=[row if isinstance(row, Heading) else [row[at] for at in places] for row in rows],
    )
