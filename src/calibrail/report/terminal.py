"""Rich output."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group
from rich.containers import Lines
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from calibrail.formatting import count
from calibrail.report import document as parts
from calibrail.report.text import JOINT, plain, tile_line

_STYLES: Final = {
    "": "",
    "strong": "bold",
    "muted": "dim",
    "good": "green",
    "bad": "bold red",
    "warning": "bold yellow",
    "certified": "bold green",
    "conditional": "bold yellow",
    "rejected": "bold red",
    "inconclusive": "bold yellow",
}
#: Lines after which the first ones have left a screen of 24, where files and a prompt follow.
_SMALL: Final = 20
#: Characters of the longest headline that is a verdict, as on a page.
_VERDICT: Final = 60


class BrokenText(Text):
    """Text whose words, where one is longer than a line, are broken at their joints."""

    def wrap(self, console: Console, width: int, *args: Any, **options: Any) -> Lines:
        """Return lines; a name or a path goes on after a ``_`` or ``/``, not within a word."""
        breaks = list(_breaks(self.plain, width))
        if not breaks:
            return super().wrap(console, width, *args, **options)
        lines = Lines()
        for piece in self.divide(breaks):
            piece.rstrip()
            lines.extend(piece.wrap(console, width, *args, **options))
        return lines


def _breaks(text: str, width: int) -> Iterator[int]:
    """Yield where to break words that are longer than a line and have joints."""
    for word in re.finditer(r"\S+", text):
        if cell_len(word[0]) <= width:
            continue
        joints = [joint.start() for joint in JOINT.finditer(word[0])]
        start = 0
        if joints and word.start() and text[word.start() - 1] != "\n":
            yield word.start()
        while cell_len(word[0][start:]) > width:
            fits = [j for j in joints if j > start and cell_len(word[0][start:j]) <= width]
            if not fits:
                break
            start = fits[-1]
            yield word.start() + start


def print_document(document: parts.Document, console: Console, *, verbose: bool = False) -> None:
    """Print a document: headline, blocks, warnings, notes, next step.

    Parameters
    ----------
    document : Document
        From ``report.documents``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough. Texts are never read as markup, and
        characters that steer a terminal are replaced.
    verbose : bool
        Whether tables are printed that one line stands for otherwise.
    """
    document = document.shown_on("verbose" if verbose else "terminal")
    with console.capture() as printed:
        _print(document, console)
    console.file.write(text := printed.get())
    named = document.brief is not None and document.brief.startswith(f"{document.headline}: ")
    parted = document.verdict and any(isinstance(it, parts.Section) for it in document.blocks)
    if named or parted or (document.ends and text.count("\n") >= _SMALL):
        _end(document, console, named=named)


def _print(document: parts.Document, console: Console) -> None:
    if document.brief is not None:
        _paragraph(console, document.brief, "strong")
    elif document.verdict:
        head = _line(_loud(document.headline), _STYLES[document.verdict])
        console.print(head.append(f"  {plain(document.subject)}", style="bold"))
        _paragraph(console, document.summary)
    else:
        _paragraph(console, document.headline, "strong")
        _paragraph(console, document.summary)
    if document.lead:
        console.print(_facts(parts.Facts([(item.title, item.text) for item in document.lead])), "")
    title = count(len(document.warnings), "warning")
    warnings = parts.Bullets(title, document.warnings, "warning")
    _blocks((*document.blocks, warnings, parts.Bullets("Notes", document.notes)), console)
    for number, (step, command) in enumerate(document.steps_and_commands()):
        head = BrokenText("" if number else "Next: ", style="bold")
        console.print(Group(head.append(plain(step), style="not bold")))
        if command:
            # On a line of its own, as long as it is, so that it can be copied.
            console.print(BrokenText(f"  {plain(command)}"), soft_wrap=True)


def _loud(headline: str) -> str:
    """Return a verdict in capitals; a sentence, which may hold names, as it is."""
    return headline.upper() if len(headline) <= _VERDICT and ": " not in headline else headline


def _end(document: parts.Document, console: Console, *, named: bool) -> None:
    """Print verdict and decisive numbers once more; of what has neither, what it comes to."""
    told = "; ".join(filter(None, map(tile_line, document.tiles[:2])))
    if sum(bool(tile.asked) for tile in document.tiles[:2]) > 1:
        told += "; each bound holds by itself"
    name = _loud(document.headline) if document.verdict and not named else document.headline
    if told and not (named or document.verdict):
        name, told = told, ""
    head = _line(name.removesuffix("." if told else ""), _STYLES[document.verdict or "strong"])
    console.print(Group(head.append(f": {told}" if told else "", style="not bold")))


def _blocks(blocks: Iterable[parts.Block | None], console: Console) -> None:
    for block in blocks:
        match block:
            case parts.Text():
                _paragraph(console, block.text, block.style)
            case parts.Code():
                for line in block.text.splitlines():
                    indent = len(line) - len(line.lstrip())
                    console.print(BrokenText(" " * indent + plain(line)), soft_wrap=True)
                console.print()
            case parts.Bullets() if block.items:
                if block.heading:
                    console.print(_line(block.heading, _STYLES[block.style or "strong"]))
                console.print(_bullets(block), "")
            case parts.Table():
                if block.title:
                    console.print(_line(block.title, "bold"))
                console.print(_table(block, console.width), "")
            case parts.Facts():
                console.print(_facts(block), "")
            case parts.Struck():
                console.print(_line(block.about, "bold"))
                console.print(_struck(block), "")
            case parts.EvidenceBlock():
                _evidence(block, console, indent=0)
                console.print()
            case parts.Section() | parts.Folded():
                _blocks(block.blocks, console)
            case _:  # for the page alone
                continue


def _paragraph(console: Console, text: str, style: str = "") -> None:
    if text:
        # In a group, since the console would make one plain text of a text alone.
        console.print(Group(_line(text, _STYLES[style])), "")


def _grid(gap: int, **options: Any) -> Grid:
    return Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), **options)


def _bullets(block: parts.Bullets) -> Grid:
    grid = _grid(1, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for item in block.items:
        grid.add_row("-", _line(item if isinstance(item, str) else item.text))
    return grid


def _facts(block: parts.Facts) -> Grid:
    grid = _grid(2, show_header=False)
    grid.add_column(style="bold", overflow="fold", max_width=26)
    grid.add_column(overflow="fold")
    for name, value in block.items:
        grid.add_row(_line(name), _line(value))
    return grid


def _struck(block: parts.Struck) -> Grid:
    """Return a line for each sentence: what became of it, in words, too; its score; its text."""
    grid = _grid(2, show_header=False)
    grid.add_column(overflow="fold", max_width=27)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for part in block.stretches:
        if not part.verdict:
            continue
        text, style = "".join(text for text, _ in part.segments), _STYLES[part.style]
        struck = "dim strike" if part.removed else ""
        grid.add_row(_line(part.verdict, style), _line(part.score, "dim"), _line(text, struck))
    return grid


def _table(block: parts.Table, width: int) -> Grid:
    names = [it.name if it.brief is None else it.brief for it in block.columns]
    grid = _grid(2, header_style="underline", collapse_padding=True, show_header=any(names))
    for column, name, room in zip(block.columns, names, _widths(block, names, width), strict=True):
        grid.add_column(_line(name), justify=column.align, overflow="fold", width=room)
    for row in block.rows:
        if isinstance(row, parts.Heading):
            grid.add_row(_line(row.text, "underline"))
        else:
            grid.add_row(*(_cell(cell, block.two_lines) for cell in row))
    return grid


def _widths(block: parts.Table, names: Sequence[str], width: int) -> list[int]:
    """Return the characters of each column: as many as its lines need, or all alike.

    A column that has room for its longest word keeps it; where not all have, the longest words are
    broken, and no others.
    """
    words, lines = list[int](), list[int]()
    rows = [row for row in block.rows if not isinstance(row, parts.Heading)]
    # A heading stands in the first column.
    headings = [row.text for row in block.rows if isinstance(row, parts.Heading)]
    for place, column in enumerate(block.columns):
        cells = (_cell(row[place], block.two_lines).plain for row in rows)
        texts = [names[place], *headings * (place == 0), *cells]
        for lengths, parted in (lines, str.splitlines), (words, str.split):
            longest = max(cell_len(part) for text in texts for part in parted(text) or [""])
            lengths.append(min(column.most or width, longest))
    room = width - 2 * (len(words) - 1)
    return _levelled(_levelled([1] * len(words), words, room), lines, room)


def _levelled(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Return widths that fit into a room, of which only the largest are less than the most."""
    for level in range(max(most, default=0) or 1, 0, -1):
        widths = [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]
        if sum(widths) <= room:
            break
    return widths


def _cell(cell: Any, two_lines: bool) -> BrokenText:
    """Return what a ``Cell`` shows: a document that is shown has no other."""
    line = _line(cell.text, "" if cell.style == "strong" else _STYLES[cell.style])
    if two_lines:
        line.append(f"\n{plain(cell.below)}")
    return line


def _evidence(block: parts.EvidenceBlock, console: Console, indent: int) -> None:
    def put(line: Text, extra: int = 0) -> None:
        margin = min(indent + extra, console.width // 2)
        console.print(Padding(line, (0, 0, 0, margin), expand=False))

    put(_line(block.heading, "bold"))
    if not block.items:
        put(BrokenText("none"), 2)
    for item in block.items:
        quoted = [f'"{plain(text)}"' for text in item.texts]
        pieces = [
            BrokenText(plain(item.verdict), _STYLES[item.style]),
            BrokenText(plain(item.name), "bold"),
            *map(BrokenText, (plain(item.value), *quoted, plain(item.remark))),
        ]
        pieces = [piece for piece in pieces if piece]
        if item.measures:
            pieces.append(BrokenText(f"({item.measures})" if pieces else item.measures))
        put(BrokenText("  ").join(pieces), 2)
        if item.quote:
            put(_line(f'{item.place}: "{plain(item.quote)}"', "dim"), 6)
        if item.nested is not None:
            _evidence(item.nested, console, indent + 6)
    if block.more:
        put(_line(f"and {block.more:,} more", "dim"), 2)


def _line(text: str, style: str = "") -> BrokenText:
    """Return literal text on one line: names from data are never read as markup."""
    return BrokenText(plain(text), style=style)
