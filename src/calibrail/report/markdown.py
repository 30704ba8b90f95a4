"""Markdown and JUnit."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from calibrail.formatting import count
from calibrail.report import document as parts
from calibrail.report.messages import say
from calibrail.report.text import clean, leaves

#: What Markdown, or the HTML in it, would read as more than a character.
_ACTIVE: Final = re.compile(
    r"[\\`*\[\]<|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|:(?=//)|(?<=www)\.", re.IGNORECASE
)
#: What GitHub and GitLab turn into a mention of a person or of another pull request.
_MENTION: Final = re.compile(r"@(?=\w)|(?:[#!]|\bGH-)(?=\d)")
#: What makes a list, a heading, a rule or a quotation at the beginning of a line.
_LEADING: Final = re.compile(r"^(\d*)([-+](?=\s|$|--)|#(?=#*(?:\s|$))|>|[.)](?=\s|$))")

#: Characters of a comment, with some room for what a workflow adds; GitHub takes 65,536.
COMMENT: Final = 65_000
#: What heads something else: a heading, a fold, the head of a table.
_OPENING: Final = re.compile(r"#+ |<details>|\|.*\n\| -")
#: Characters of the lines that close folds.
_CLOSING: Final = 100


def render_markdown(document: parts.Document) -> str:
    """Return a document as Markdown (GitHub's, with tables): the words of its page.

    Texts and names are escaped: none becomes markup, a link, HTML, or a mention of somebody. What
    a page folds is folded. Sliders and answers, which only a page can show, are left out, and so
    are pictures that cannot be drawn in characters.

    Parameters
    ----------
    document : Document
        From ``report.documents``.

    Returns
    -------
    str
        The text; the same document gives the same text.
    """
    begin, body, end = _parts(document)
    return "\n".join([*begin, *body, *end])


def render_comment(document: parts.Document, most: int = COMMENT) -> str:
    """Return a document as Markdown that a comment on a pull request can hold.

    Parameters
    ----------
    document : Document
        From ``report.documents``.
    most : int
        Characters. A longer text ends where the next line would not fit, says that the rest is
        left out, and keeps its next step.

    Returns
    -------
    str
        The text of `render_markdown`, or the beginning of it.
    """
    begin, body, end = _parts(document)
    text = "\n".join([*begin, *body, *end])
    if len(text) <= most:
        return text
    lines = [*begin, *body]
    # What is said at the end, and a line that closes each of the folds that are open.
    end = [say("command.left_out", n=len(lines)), "", *end]
    kept, room = [], most - len("\n".join(end)) - _CLOSING
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    while kept and (not kept[-1] or _OPENING.match(kept[-1])):
        kept.pop()
    n_open = sum(line.startswith("<details>") for line in kept) - kept.count("</details>")
    end[0] = say("command.left_out", n=len(lines) - len(kept))
    return "\n".join([*kept, "", *["</details>", ""] * n_open, *end])


def _parts(document: parts.Document) -> tuple[list[str], list[str], list[str]]:
    """Return what is said first, the rest, and what is said at the end whatever is left out."""
    document = document.shown_on("page")
    begin = [f"# calibrail {_text(document.title)} {_text(document.subject)}".rstrip(), ""]
    begin += [f"**{_text(document.headline)}**", ""] if document.headline else []
    begin += [_text(document.summary), ""] if document.summary else []
    begin += [*bullets(document.lead), ""] if document.lead else []
    if document.tiles:
        asked = parts.asked_heading(tile.asked for tile in document.tiles)
        heads = ("", "Value", "Interval", *asked)
        tiles = [(tile.name, tile.value, tile.interval, tile.asked) for tile in document.tiles]
        rows = [[*map(parts.Cell, tile[: len(heads)])] for tile in tiles]
        begin += [*_table(parts.table("", heads, rows)), ""]
    begin += ["## Warnings", "", *bullets(document.warnings), ""] if document.warnings else []
    body = _blocks(document.blocks, 2, "")
    body += ["## Notes", "", *bullets(document.notes), ""] if document.notes else []
    end: list[str] = []
    for number, (step, command) in enumerate(document.steps_and_commands()):
        head = "" if number else "Next: "
        end += [f"{head}{_text(step)}".rstrip(), "", *(_code(command) if command else ())]
    for heading, mapping in (("Reproduce", document.reproduce), ("Data", document.data)):
        known = (item for item in leaves(mapping) if item[1] not in (None, "", [], ()))
        if facts := [(path, str(value)) for path, value in known]:
            body += [*_fold(heading), *_facts(facts), "", "</details>", ""]
    return begin, body, [*end, f"Written by calibrail. {_text(document.footer)}", ""]


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
                lines += [*bullets(block.items), ""]
            case parts.Table():
                lines += [*_table(block), ""]
            case parts.Facts():
                lines += [*_facts(block.items), ""]
            case parts.Struck():
                lines += [f"{_text(block.about)}:", "", *_struck(block.stretches), ""]
            case parts.EvidenceBlock():
                lines += [f"{_text(block.heading)}:", "", *_evidence(block), ""]
            case parts.Figure() if block.lines:
                lines += _code("\n".join(block.lines))
            case parts.Section() if inner := _blocks(block.blocks, level + 1, block.heading):
                lines += [f"{'#' * min(level, 6)} {_text(block.heading)}", "", *inner]
            case parts.Folded() if inner := _blocks(block.blocks, level, block.summary):
                lines += [*_fold(block.summary), *inner, "</details>", ""]
            case _:  # for the page alone
                continue
    return lines


def bullets(items: Iterable[parts.Bullet | str]) -> Iterator[str]:
    """Yield the lines of a list; each item is a line of text, with a title where it has one."""
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

    heads = line(_text(column.name) for column in table.columns)
    rule = line("---:" if column.align == "right" else "---" for column in table.columns)
    # In one, since no table begins with less.
    yield f"{heads}\n{rule}"
    for row in table.rows:
        if isinstance(row, parts.Heading):
            yield line([f"*{_text(row.text)}*", *[""] * (len(table.columns) - 1)])
        else:
            yield line(map(_cell, row))


def _cell(cell: Any) -> str:
    """Return what a ``Cell`` shows: a document that is shown has no other."""
    below = f" ({_text(cell.below)})" if cell.below else ""
    strong = "**" if cell.style == "strong" and cell.text else ""
    return f"{strong}{_text(cell.text)}{strong}{below}"


def _struck(stretches: Iterable[parts.SentenceText]) -> Iterator[str]:
    for part in stretches:
        if not part.verdict:
            continue
        text = _text("".join(text for text, _ in part.segments))
        score = f", {_text(part.score)}" if part.score else ""
        yield f"- {f'~~{text}~~' if part.removed else text} ({_text(part.verdict)}{score})"


def _evidence(block: parts.EvidenceBlock, indent: int = 0) -> Iterator[str]:
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
    """Return lines to copy within a fence that they cannot close; they are never parted."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["\n".join([f"{fence}text", *clean(text).splitlines(), fence]), ""]


def _fold(summary: str) -> list[str]:
    """Return how a part begins that a reader opens."""
    return [f"<details>\n<summary>{_unlinked(escape(_flat(summary)))}</summary>", ""]


def _text(text: str) -> str:
    """Return text on one line in which nothing acts."""
    return _unlinked(_LEADING.sub(r"\1\\\2", _ACTIVE.sub(r"\\\g<0>", _flat(text))))


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def _unlinked(text: str) -> str:
    """Return text that mentions nobody, and no other pull request: escaping it does not do."""
    return _MENTION.sub(r"\g<0><!-- -->", text)


#: What a verdict is of a test. One that is open is neither passed nor failed.
_OUTCOMES: Final = {"rejected": "failure", "inconclusive": "skipped"}


def render_junit(document: parts.Document) -> str:
    """Return a document's verdict as JUnit XML with one test; without a verdict it has passed.

    Parameters
    ----------
    document : Document
        From ``report.documents``.

    Examples
    --------
    >>> from calibrail.report.document import Document
    >>> document = Document("certificate of", "g.json", "Rejected", "rejected", "It flags 9%.")
    >>> print(render_junit(document).splitlines()[1][:72])
    <testsuites><testsuite name="calibrail" tests="1" failures="1" skipped="
    """
    outcome = _OUTCOMES.get(document.verdict)
    counts = {"failures": str(int(outcome == "failure")), "skipped": str(int(outcome == "skipped"))}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "calibrail", "tests": "1", **counts})
    name = _flat(f"{document.title} {document.subject}")
    case = ElementTree.SubElement(suite, "testcase", {"classname": "calibrail", "name": name})
    warnings = (f"warning: {warning.text}" for warning in document.warnings)
    lines = (document.headline, document.summary, *warnings)
    text = "\n".join(_flat(line) for line in lines if line)
    if outcome is not None:
        message = _flat(f"{document.headline}. {document.summary}")
        ElementTree.SubElement(case, outcome, {"message": message}).text = text
    ElementTree.SubElement(case, "system-out").text = text
    xml = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}\n'
