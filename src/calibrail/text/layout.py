"""How is an answer laid out: which of its lines are items, headings, rows of a table, code?"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from calibrail.text.sentences import Sentence, lines

Kind = Literal["blank", "plain", "item", "heading", "row", "code", "other"]

_FENCE = re.compile(r"\s*(```+|~~~+)")
_SEPARATOR = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")
_UNDERLINE = re.compile(r" {0,3}(?:={2,}|-{2,})\s*")
_QUOTED = re.compile(r"\s*(?:>\s?)+")
_HASHES = re.compile(r"\s*(#{1,6})\s")
_BOLD = re.compile(r"\s*(?:\*\*[^*]+\*\*|__[^_]+__):?\s*")
_NUMBER = re.compile(r"\s*(\d{1,3})[.)]\s*")
#: The level of a heading that is a bold line: below all that have hashes.
_BOLD_LEVEL: Final = 7


class Row(NamedTuple):
    """A line of an answer.

    Attributes
    ----------
    start, end, stop : int
        Its characters are ``[start:end]``, without the line break; the next row starts at ``stop``.
    body : int
        Where its text starts, after a bullet, number, hash or mark of quotation.
    kind : str
        "other" holds nothing that can be read: a rule, the separator of a table. "code" and "row"
        are lines of a code block or table, its delimiters and separator included.
    level : int
        Of a heading 1 to 7, of others the number of white space characters before them.
    first, last : int
        Positions of its sentences among those of the answer, half open.
    block : int
        Position of the first row of its table or code block, of the heading that it underlines, or
        its own.
    number : int or None
        Of a numbered item.
    """

    start: int
    end: int
    stop: int
    body: int
    kind: Kind
    level: int
    first: int
    last: int
    block: int
    number: int | None = None


def layout(text: str, sentences: Iterable[Sentence]) -> list[Row]:
    """Return the rows of an answer, one a line; a sentence that crosses lines joins them.

    Parameters
    ----------
    text : str
        The answer.
    sentences : iterable of Sentence
        Its sentences in order.
    """
    places = [(sentence.start, sentence.end) for sentence in sentences]
    borders = list(_lines(text, places))
    bodies = {line.start: line for line in lines(text)}
    starts = sorted(bodies)
    rows: list[Row] = []
    at = line = 0
    fence, table = "", False
    for position, (start, stop) in enumerate(borders):
        first = at
        while at < len(places) and places[at][0] < stop:
            at += 1
        while line < len(starts) and starts[line] < start:
            line += 1
        spoken = bodies[starts[line]] if line < len(starts) and starts[line] < stop else None
        end = start + len(text[start:stop].rstrip("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
        piece = text[start:end]
        level = len(piece) - len(piece.lstrip())
        kind: Kind = "plain" if spoken or first < at else "other" if piece.strip() else "blank"
        body, number, block = spoken.start if spoken else start + level, None, position
        marker = _FENCE.match(piece)
        following = text[slice(*borders[position + 1])] if position + 1 < len(borders) else ""
        if fence or marker:
            block = rows[-1].block if fence and rows else position
            kind, body = "code", start
            if marker and not fence:
                fence = marker[1]
            elif marker and marker[1].startswith(fence) and not piece.strip().strip(fence[0]):
                fence = ""
        elif table and "|" in piece:
            kind, body, block = "row", start, rows[-1].block
        elif "|" in piece and "|" in following and _SEPARATOR.fullmatch(following.strip()):
            kind, body, table = "row", start, True
            rows.append(Row(start, end, stop, body, kind, level, first, at, position))
            continue
        elif rows and rows[-1].kind == "plain" and _UNDERLINE.fullmatch(piece):
            rows[-1] = rows[-1]._replace(kind="heading", level=1 if "=" in piece else 2)
            kind, block = "other", position - 1
        elif kind == "plain":
            if spoken and spoken.kind != "plain":
                kind = "item" if spoken.kind == "item" else "heading"
            if quoted := _QUOTED.match(piece):
                body = max(body, start + quoted.end())
            if hashes := _HASHES.match(piece):
                kind, level = "heading", len(hashes[1])
            elif _BOLD.fullmatch(piece) and kind == "plain":
                kind, level = "heading", _BOLD_LEVEL
            if kind == "item" and (found := _NUMBER.match(piece)):
                number = int(found[1])
        table = kind == "row"
        rows.append(Row(start, end, stop, body, kind, level, first, at, block, number))
    return rows


def _lines(text: str, places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places of the lines, those joined that a sentence crosses."""
    begin = offset = at = 0
    for whole in text.splitlines(keepends=True):
        offset += len(whole)
        while at < len(places) and places[at][1] <= offset:
            at += 1
        if at < len(places) and places[at][0] < offset:
            continue
        yield begin, offset
        begin = offset
    if begin < offset:
        yield begin, offset
