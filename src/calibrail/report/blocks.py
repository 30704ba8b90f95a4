"""Of which blocks is everything made that is shown in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrail.evaluation.stats.phrases import count
from calibrail.report import phrases

_Dict = Mapping[str, Any]


def facts(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print names with their values, in two columns."""
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", overflow="fold", max_width=26)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(cell(name), cell(value))
    show(console, grid)


def warnings(console: Console, found: Sequence[_Dict]) -> None:
    """Print warnings as a list under their number."""
    if not found:
        return
    heading = count(len(found), "warning")
    bullets(console, heading, [item["message"] for item in found], style="bold yellow")


def bullets(console: Console, heading: str, messages: Sequence[str], style: str = "bold") -> None:
    """Print messages as a list; nothing without any."""
    if not messages:
        return
    console.print(Text(heading, style=style))
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for message in messages:
        grid.add_row(cell("-"), cell(message))
    show(console, grid)


def next_step(console: Console, sentence: str) -> None:
    """Print what to do now."""
    console.print(Text.assemble(("Next: ", "bold"), phrases.plain(sentence)))


def paragraph(console: Console, sentence: str, style: str = "") -> None:
    """Print a paragraph and an empty line."""
    show(console, Text(phrases.plain(sentence), style=style))


def table(title: str) -> Table:
    """Return an empty table without borders."""
    return Table(
        title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), header_style="underline", collapse_padding=True,
    )  # fmt: skip


def show(console: Console, renderable: Table | Text) -> None:
    """Print with an empty line below."""
    console.print(renderable)
    console.print()


def cell(text: str) -> Text:
    """Return a cell as literal text: names from data are never read as markup."""
    return Text(phrases.plain(text))
