"""What is everything that a command says to its user, whatever shows it?

How a command's document is written
-----------------------------------
1. ``report/documents/<command>.py`` holds one function ``document(content) -> Document``. Its
   input is the plain dictionary that the command writes as JSON, so that every number a reader
   sees is in that file. All sentences for users stand there, and nowhere else.
2. It returns a ``Document``: title, headline, summary, blocks, warnings, notes, next step. A block
   is one of the classes in ``report/blocks.py``. Texts are plain: no markup, no colours, no line
   breaks; names from the data go in as they are, and each renderer makes them safe for its medium.
3. Write every block for both media unless it fits one alone: ``where="page"`` for what takes room
   (figures, folded tables, methods), ``where="terminal"`` for a short form of it. Blocks and
   sections that turn out empty are not shown, so ``Text(sentence_or_nothing)`` needs no ``if``.
4. The command prints with ``render_console.print_document(document, console)``; its page comes
   from ``render_html.render_page(document)``, its figures as files from ``svg.figure_files``.

A terminal shows tables under their titles and leaves out the headings of sections; a page shows
the headings, and gives titles of tables to those who cannot see.

Examples
--------
>>> from calibrail.report.blocks import Column
>>> rows = [(Cell("rad", style="strong"), Cell("91%", below="88 to 94%")), Heading("Baselines")]
>>> table = Table("Scores", (Column("Score"), Column("Caught", "right")), rows)
>>> page = Document("report", headline="certified", blocks=(table, Text(""))).shown_on("page")
>>> len(page.blocks)
1
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from calibrail.report.blocks import (
    Block,
    Bullet,
    Bullets,
    Cell,
    Facts,
    Folded,
    Heading,
    Section,
    Table,
    Text,
    Tile,
)

#: What a document's headline says about the requirement, if there is one.
Verdict = Literal["certified", "rejected", "inconclusive", ""]


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
    summary : str
        What the headline means, in a sentence or two.
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
    alternative : str
        Another way on, where there are two; as the next step.
    reproduce, data : mapping
        How to get this again, and from what; shown on the page, leaf by leaf.
    footer : str
        Where the numbers are kept.
    wide : bool
        Whether the page takes the room that wide tables need.
    """

    title: str
    subject: str = ""
    headline: str = ""
    verdict: Verdict = ""
    summary: str = ""
    lead: Sequence[Bullet] = ()
    brief: str | None = None
    tiles: Sequence[Tile] = ()
    blocks: Sequence[Block | None] = ()
    warnings: Sequence[Bullet] = ()
    notes: Sequence[str] = ()
    next_step: str = ""
    alternative: str = ""
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    footer: str = "Every number on this page is in what --json prints."
    wide: bool = False

    def shown_on(self, medium: Literal["terminal", "page"]) -> Document:
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
            name: shlex.join(map(str, value if isinstance(value, list) else [value]))
            for name, value in names.items()
        }
        named, other = (
            re.sub(r"\b[A-Z]+\b", lambda word: words.get(word[0], word[0]), step)
            for step in (self.next_step, self.alternative)
        )
        return replace(self, next_step=named, alternative=other)

    def steps_and_commands(self) -> list[tuple[str, str]]:
        """Return the next step and its alternative: each without its command, and that command."""
        return [_step_and_command(step) for step in (self.next_step, self.alternative) if step]


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
        if block is None or block.where not in ("both", medium):
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
    places = [
        place
        for place, column in enumerate(table.columns)
        if column.where in ("both", medium)
        and (place == 0 or any(not isinstance(row, Heading) and _holds(row[place]) for row in rows))
    ]
    return replace(
        table,
        columns=[table.columns[place] for place in places],
        rows=[
            row if isinstance(row, Heading) else [row[place] for place in places] for row in rows
        ],
    )


def _holds(cell: Cell) -> bool:
    return bool(cell.text or cell.below) or cell.bar is not None
