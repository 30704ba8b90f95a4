"""What do the headings, lists, tables and code blocks of an answer tie together?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

from calibrail.text.connectives import denies
from calibrail.text.layout import Row
from calibrail.text.sentences import Sentence

if TYPE_CHECKING:
    from calibrail.text.joins import Joins

_TITLE = re.compile(r"\*\*[^*]+\*\*|__[^_]+__")
_ENDED = re.compile(
    r"[.!?\u2026\u3002\uff01\uff1f\u0964][\"'\u201d\u2019)\]*_`]*(?:\s*\[[^\[\]]{0,200}\])*$"
)
#: What may stand behind the last mark of a sentence.
_MARKS: Final = "*_`\"'\u201d)] "
#: Columns by which a line that continues an item stands in.
_CONTINUED: Final = 2


def of_blocks(rows: Sequence[Row], found: Joins) -> None:
    """Note what code blocks and tables tie together."""
    last = {row.block: row.last for row in rows}
    for position, row in enumerate(rows):
        header, end = rows[row.block], last[row.block]
        places = np.arange(row.first, row.last)
        if row.kind == "code" and position == row.block and end > row.first:
            found.together[row.first] = end - row.first - 1
        elif row.kind == "row" and len(places):
            found.together[row.first] = len(places) - 1
            if position == row.block:
                found.introduces[row.first : row.last] = end - 1 - places if end > row.last else 0
            elif header.first < header.last:
                found.leans[row.first : row.last] = places - header.first


def of_headings(rows: Sequence[Row], found: Joins) -> None:
    """Note that a heading introduces all up to the next one of its level."""
    open_ones: list[Row] = []

    def close(level: int, end: int) -> None:
        while open_ones and open_ones[-1].level >= level:
            row = open_ones.pop()
            found.introduces[row.first : row.last] = end - 1 - np.arange(row.first, row.last)

    for row in rows:
        if row.kind == "heading":
            close(row.level, row.first)
            open_ones.append(row)
    close(0, len(found.leans))


def of_introductions(rows: Sequence[Row], sentences: Sequence[Sentence], found: Joins) -> None:
    """Note that nothing stands without what denies or doubts it: "These are myths:".

    Headings and titles are looked at, too, and questions before a list; an introduction that denies
    nothing may go. To be called when all is noted that sentences introduce.
    """
    lists = {
        row.last
        for row, after in pairwise(row for row in rows if row.first < row.last)
        if after.kind == "item"
    }
    open_ones: list[tuple[int, int]] = []
    for place, sentence in enumerate(sentences):
        while open_ones and open_ones[-1][1] < place:
            open_ones.pop()
        if open_ones:
            introduction = open_ones[-1][0]
            before, leant_on = place - introduction, int(found.leans[place])
            # What leans on a sentence in between falls with that; what leans on one before the
            # introduction leaves that to it.
            if not 0 < leant_on <= before:
                if leant_on and not found.leans[introduction]:
                    found.leans[introduction] = leant_on - before
                found.leans[place] = before
        end = place + int(found.introduces[place])
        asks = sentence.text.rstrip(_MARKS).endswith(("?", "\uff1f"))
        if end > place and (place + 1 in lists or not asks) and denies(sentence.text):
            open_ones.append((place, end))


def of_lists(rows: Sequence[Row], sentences: Sequence[Sentence], found: Joins) -> None:
    """Note what items, questions and colons introduce, and which items are nested in which."""
    spoken = [row for row in rows if row.first < row.last]
    ends = {row.block: row.last for row in rows}
    paragraphs = _paragraph_ends(rows)
    above: list[tuple[float, Row]] = []
    outer: dict[int, bool] = {}

    def close(depth: float, end: int) -> None:
        while above and above[-1][0] >= depth:
            _, row = above.pop()
            if _introduces(sentences[row.last - 1].text, row):
                found.introduces[row.last - 1] = end - row.last

    for row, after in zip_longest(spoken, spoken[1:]):
        if row.kind in ("code", "row"):
            continue
        depth = -1.0
        if row.kind == "item" or (row.kind == "plain" and row.level >= _CONTINUED):
            # Bullets under a number of the same indentation stand below it, and numbers under one.
            numeric = row.number is not None
            depth = row.level + 0.5 * (row.kind == "item" and outer.get(row.level) == (not numeric))
        else:
            outer.clear()
        close(depth, row.first)
        if row.kind == "item":
            outer = {level: kind for level, kind in outer.items() if level <= row.level}
            outer.setdefault(row.level, row.number is not None)
        if row.kind == "heading":
            continue
        _within(sentences, row, found)
        if above and depth > above[-1][0]:
            nested, parent = above[-1][0] >= 0, above[-1][1]
            # Under a sentence that announces a list, what is a sentence stands without it.
            if nested or not _ENDED.search(sentences[row.last - 1].text):
                places = np.arange(row.first, row.last)
                free = found.leans[row.first : row.last] == 0
                leant_on = parent.first if nested else parent.last - 1
                found.leans[row.first : row.last][free] = (places - leant_on)[free]
        if row.kind == "item":
            above.append((depth, row))
        elif _introduces(sentences[row.last - 1].text, row):
            if after is not None and after.kind in ("code", "row"):
                found.introduces[row.last - 1] = ends[after.block] - row.last
            elif after is not None and after.kind == "plain" and after.level < _CONTINUED:
                found.introduces[row.last - 1] = paragraphs[after.start] - row.last
            elif depth < 0:
                above.append((-0.5, row))
    close(-2.0, len(sentences))


def _introduces(sentence: str, row: Row) -> bool:
    """Return whether the last sentence of a row announces what follows."""
    bare = sentence.rstrip(_MARKS)
    return bare.endswith((":", "?", "\uff1a", "\uff1f")) or (
        row.kind == "item" and _TITLE.fullmatch(sentence) is not None
    )


def _within(sentences: Sequence[Sentence], row: Row, found: Joins) -> None:
    """Note what a title, a question or a colon introduces within its own row."""
    end = row.last
    for place in range(row.last - 2, row.first - 1, -1):
        text = sentences[place].text.rstrip()
        if text.endswith("?"):
            found.introduces[place], end = end - place - 1, place
        elif text.endswith(":"):
            found.introduces[place] = 1
        elif place == row.first and _TITLE.fullmatch(text):
            found.introduces[place] = row.last - place - 1


def _paragraph_ends(rows: Sequence[Row]) -> dict[int, int]:
    """Return where the paragraph of each plain row ends, as a place among the sentences."""
    ends: dict[int, int] = {}
    end: int | None = None
    for row in reversed(rows):
        if row.kind != "plain":
            end = None
            continue
        end = row.last if end is None else end
        ends[row.start] = end
    return ends
