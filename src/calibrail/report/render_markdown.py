"""How does a document read as Markdown, where a page cannot be attached?"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from calibrail.phrases import count
from calibrail.report import blocks as parts
from calibrail.report.document import Document
from calibrail.report.sanitize import clean

#: What Markdown, or the HTML in it, would read as more than a character.
_ACTIVE: Final = re.compile(
    r"[\\`*\[\]<|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|:(?=//)|(?<=www)\.", re.IGNORECASE
)
#: What makes a list, a heading, a rule or a quotation at the beginning of a line.
_LEADING: Final = re.compile(r"^(\d*)([-+](?=\s|$|--)|#(?=#*(?:\s|$))|>|[.)](?=\s|$))")


def render_markdown(document: Document) -> str:
    """Return a document as Markdown (GitHub's, with tables): the words of its page.

    Texts and names are escaped: none becomes markup, a link or HTML. Pictures, sliders
    and answers, which only a page can show, are left out.

    Parameters
    ----------
    document : Document
        From ``report.documents``.

    Returns
    -------
    str
        The text; the same document gives the same text.
    """
    document = document.shown_on("page")
    lines = [f"# calibrail {_text(document.title)} {_text(document.subject)}".rstrip(), ""]
    if document.headline:
        lines += [f"**{_text(document.headline)}**", ""]
    if document.summary:
        lines += [_text(document.summary), ""]
    if document.lead:
        lines += [*_bullets(document.lead), ""]
    if document.tiles:
        columns = (*parts.texts(""), *parts.texts("Value", "Interval", "Asked"))
        rows = [(tile.name, tile.value, tile.interval, tile.asked) for tile in document.tiles]
        lines += [*_table(parts.Table("", columns, rows)), ""]
    if document.warnings:
        lines += ["## Warnings", "", *_bullets(document.warnings), ""]
    lines += _blocks(document.blocks, 2, "")
    if document.notes:
        lines += ["## Notes", "", *_bullets(document.notes), ""]
    if document.next_step:
        step, command = document.step_and_command()
        lines += [f"Next: {_text(step)}".rstrip(), "", *(_code(command) if command else ())]
    for heading, mapping in (("Reproduce", document.reproduce), ("Data", document.data)):
        if facts := [(str(key), str(value)) for key, value in _leaves(mapping)]:
            lines += [f"## {heading}", "", *_facts(facts), ""]
    lines += [f"Written by calibrail. {_text(document.footer)}", ""]
    return "\n".join(lines)


def _blocks(blocks: Iterable[parts.Block | None], level: int, above: str) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        match block:
            case parts.Text():
                lines += [_text(block.text), ""]
            case parts.Code():
                lines += _code(block.text)
            case parts.Bullets():
                if block.heading and block.heading != above:
                    lines += [f"{_text(block.heading)}:", ""]
                lines += [*_bullets(block.items), ""]
            case parts.Table():
                lines += [*_table(block), ""]
            case parts.Facts():
                lines += [*_facts(block.items), ""]
            case parts.Evidence():
                lines += [f"{_text(block.heading)}:", "", *_evidence(block), ""]
            case parts.Section() | parts.Folded():
                heading = block.heading if isinstance(block, parts.Section) else block.summary
                lines += [f"{'#' * min(level, 6)} {_text(heading)}", ""]
                lines += _blocks(block.blocks, level + 1, heading)
            case _:  # for the page alone
                continue
    return lines


def _bullets(items: Iterable[parts.Bullet | str]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield f"- {_text(item)}"
        else:
            title = f"**{_text(item.title)}.** " if item.title else ""
            yield f"- {title}{_text(item.text)}"


def _facts(items: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in items:
        yield f"- **{_text(name)}:** {_text(value)}"


def _table(table: parts.Table) -> Iterator[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    yield line(_text(column.name) for column in table.columns)
    yield line("---:" if column.align == "right" else "---" for column in table.columns)
    for row in table.rows:
        if isinstance(row, parts.Heading):
            yield line([f"*{_text(row.text)}*", *[""] * (len(table.columns) - 1)])
        else:
            yield line(map(_cell, row))


def _cell(cell: parts.Cell | str) -> str:
    if isinstance(cell, str):
        return _text(cell)
    below = f" ({_text(cell.below)})" if cell.below else ""
    strong = "**" if cell.style == "strong" and cell.text else ""
    return f"{strong}{_text(cell.text)}{strong}{below}"


def _evidence(block: parts.Evidence, indent: int = 0) -> Iterator[str]:
    for item in block.items:
        said = filter(None, (item.verdict, item.name, item.value, *item.texts, item.remark))
        measures = f" ({_text(item.measures)})" if item.measures else ""
        quote = f"; {_text(item.place)}: {_text(item.quote)}" if item.quote else ""
        yield f"{'  ' * indent}- {' '.join(map(_text, said))}{measures}{quote}"
        if item.nested is not None:
            yield from _evidence(item.nested, indent + 1)
    if block.more:
        yield f"{'  ' * indent}- and {count(block.more, 'more', 'more')}"


def _code(text: str) -> list[str]:
    """Return lines to copy within a fence that they cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *clean(text).splitlines(), fence, ""]


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif value not in (None, "", [], ()):
        yield path, value


def _text(text: str) -> str:
    """Return text on one line in which nothing acts."""
    flat = " ".join(clean(text).split())
    return _LEADING.sub(r"\1\\\2", _ACTIVE.sub(r"\\\g<0>", flat))
