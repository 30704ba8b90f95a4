"""Answer text without some sentences."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.text import structure
from calibrail.text.sentences import Sentence
from calibrail.text.structure import AnswerLine, Ordinal
from calibrail.text.words import edition

#: Why a text cannot be trimmed: a sentence that is left refers to one that is not, or a code block,
#: a row of a table, a quotation or brackets would be torn.
Tear = Literal["leans", "together"]
TEARS: Final[dict[Tear, str]] = {
    "leans": "a sentence that would be left cannot do without one that would go",
    "together": "what would go is part of a code block, a row of a table, a quotation or brackets",
}

_OPENING = re.compile(r"[\s\"'\u201c\u2018\u00ab\u201e(\[*_~]*")
_SPACE = re.compile(r"\s+")
_STEP = re.compile(r"\b(?:steps?|items?|points?|numbers?|options?|reasons?) #?\d", re.IGNORECASE)


class TrimmedAnswer(NamedTuple):
    """An answer without some of its sentences.

    Attributes
    ----------
    text : str or None
        What may be shown; "" where nothing is left, None where it is for a person to review.
    also_removed : tuple of int
        The sentences that go though they were not to be removed: headings and introductions of
        which nothing is left.
    review : {"leans", "together"} or None
        Why it cannot be trimmed.
    """

    text: str | None
    also_removed: tuple[int, ...] = ()
    review: Tear | None = None


def trim(
    text: str,
    places: Sequence[structure.SentencePlace],
    removed: Sequence[bool] | NDArray[np.bool_],
    joins: structure.Joins,
) -> TrimmedAnswer:
    """Return an answer without the sentences that are to be removed.

    What is left stands as it stood, but for a connective that has lost what it connected
    ("However, ..."). Marks of lists, blank lines and rules that are left over go, and numbered
    items are counted anew. Where nothing is removed, every byte is left. Time is linear.

    Parameters
    ----------
    text : str
        The answer.
    places : sequence of places
        Its sentences in order.
    removed : sequence of bool
        Whether each of them is to be removed.
    joins : Joins
        What `calibrail.text.structure.joins` returned for both.

    >>> from calibrail.text.sentences import answer_sentences
    >>> from calibrail.text.structure import joins
    >>> text = "It has four arches. However, it is old."
    >>> found = answer_sentences(text)
    >>> trim(text, found, [True, False], joins(text, found)).text
    'It is old.'
    """
    asked = np.asarray(removed, dtype=np.bool_)
    gone = structure.removed_with(joins, asked)
    also = tuple(np.flatnonzero(gone & ~asked).tolist())
    if not gone.any():
        return TrimmedAnswer(text)
    if gone.all():
        return TrimmedAnswer("", also)
    if structure.broken_links(joins, gone).any():
        kind: Tear = "together" if structure.split_blocks(joins, gone).any() else "leans"
        return TrimmedAnswer(None, also, kind)
    sentences = [Sentence(text[item.start : item.end], item.start, item.end) for item in places]
    rows = structure.layout(text, sentences)
    edited = _edited(sentences, rows, gone)
    return TrimmedAnswer(_composed(text, sentences, rows, gone, edited), also)


def _edited(
    sentences: Sequence[Sentence], rows: Sequence[AnswerLine], gone: NDArray[np.bool_]
) -> dict[int, str]:
    """Return the sentences that lose a connective, without it."""
    edited: dict[int, str] = {}
    alone = _enumerations(sentences, gone)
    # The row before, and all of its list: a paragraph that follows a list speaks of all of it.
    before = whole = (0, 0)
    listed = False
    for row in rows:
        if row.first == row.last:
            continue
        item = row.kind == "item"
        for place in range(row.first, row.last):
            first, last = before if item else whole
            if place > row.first:
                first, last = place - 1, place
            lost = first < last and bool(gone[first:last].all())
            if not gone[place] and (lost or place in alone) and row.kind not in ("code", "row"):
                sentence = sentences[place].text
                if (shorter := _without(sentence, alone.get(place), lost)) != sentence:
                    edited[place] = shorter
        before = row.first, row.last
        whole = (whole[0] if item and listed else row.first), row.last
        listed = item
    return edited


def _enumerations(sentences: Sequence[Sentence], gone: NDArray[np.bool_]) -> dict[int, Ordinal]:
    """Return the places with a "First" or "Second" of which one has gone."""
    runs: list[list[tuple[int, Ordinal]]] = []
    latest: dict[str, list[tuple[int, Ordinal]]] = {}
    for place, sentence in enumerate(sentences):
        if (number := structure.ordinal_of(sentence.text)) is None:
            continue
        run = latest.get(number.kind, [])
        if not run or number.place <= run[-1][1].place:
            run = []
            runs.append(run)
            latest[number.kind] = run
        run.append((place, number))
    return {
        place: number
        for run in runs
        if any(gone[place] for place, _ in run)
        for place, number in run
        if not gone[place] and number.length
    }


def _without(sentence: str, number: Ordinal | None, lost: bool) -> str:
    """Return a sentence without what ties it to what has gone, its next letter raised."""
    rest = sentence[number.length :] if number else sentence
    if lost:
        if place := structure.inner_however(rest):
            rest = rest[: place[0]] + rest[place[1] :]
        rest = rest[structure.connective(rest) :]
    return _raised(rest) if sentence[:1] != rest[:1] and sentence[:1].isupper() else rest


def _raised(sentence: str) -> str:
    """Return a sentence with its first letter raised, unless it is spelt otherwise ("iPhone")."""
    at = _OPENING.match(sentence)
    place = at.end() if at else 0
    letter, following = sentence[place : place + 1], sentence[place + 1 : place + 2]
    raised = letter.title()
    if len(raised) != 1 or following.isupper():
        return sentence
    return sentence[:place] + raised + sentence[place + 1 :]


def _composed(
    text: str,
    sentences: Sequence[Sentence],
    rows: Sequence[AnswerLine],
    gone: NDArray[np.bool_],
    edited: dict[int, str],
) -> str:
    """Return the rows that are left, with what stands between them."""
    blocks = {row.block for row in rows if not gone[row.first : row.last].all()}
    numbers = _numbers(sentences, rows, gone)
    pieces: list[str] = []
    segments: list[list[AnswerLine]] = [[]]
    for position, row in enumerate(rows):
        empty = row.first == row.last
        if row.kind == "blank" or (empty and row.kind == "other" and row.block == position):
            segments[-1].append(row)
            continue
        if row.block not in blocks if empty else bool(gone[row.first : row.last].all()):
            segments.append([])
            continue
        pieces += [text[item.start : item.stop] for item in _between(segments, bool(pieces))]
        segments = [[]]
        touched = gone[row.first : row.last].any() or edited or row.first in numbers
        if touched and not empty:
            pieces.append(_row(text, sentences, row, gone, edited, numbers.get(row.first)))
            pieces.append(text[row.end : row.stop])
        else:
            pieces.append(text[row.start : row.stop])
    if len(segments) == 1:
        return "".join(pieces) + "".join(text[row.start : row.stop] for row in segments[0])
    return "".join(pieces).rstrip() + text[len(text.rstrip()) :]


def _between(segments: list[list[AnswerLine]], begun: bool) -> list[AnswerLine]:
    """Return the blank lines and rules before a row that is left.

    Each segment holds those between two rows, of which all but the last row have gone.
    """
    if len(segments) == 1:
        return segments[0]
    if not begun:
        return [row for row in segments[0] if row.kind == "blank"]
    ruled = [segment for segment in segments if any(row.kind != "blank" for row in segment)]
    return ruled[0] if ruled else max(segments, key=len)


def _row(
    text: str,
    sentences: Sequence[Sentence],
    row: AnswerLine,
    gone: NDArray[np.bool_],
    edited: dict[int, str],
    number: int | None,
) -> str:
    """Return what is left of a row, of which something is."""
    kept = [place for place in range(row.first, row.last) if not gone[place]]
    first = sentences[row.first].start
    body = first if kept[0] == row.first else min(max(first, row.body), sentences[row.first].end)
    mark = text[row.start : body]
    if number is not None:
        mark = re.sub(r"\d+", lambda old: _in_digits_of(old[0], number), mark, count=1)
    pieces = [mark]
    for place in kept:
        if place > row.first and gone[place - 1]:
            _, space, opening = _gap(text, sentences, place - 1)
            pieces += [space if len(pieces) > 1 and not pieces[-1] else "", opening]
        pieces.append(edited.get(place, sentences[place].text))
        if place == row.last - 1:
            pieces.append(text[sentences[place].end : row.end])
        elif not gone[place + 1]:
            pieces.append(text[sentences[place].end : sentences[place + 1].start])
        elif place < kept[-1]:
            pieces += _gap(text, sentences, place)[:2]
        else:
            pieces.append(_gap(text, sentences, place)[0])
    return "".join(pieces)


def _in_digits_of(old: str, number: int) -> str:
    """Return a number in the digits of the one whose place it takes."""
    zero = ord("0") if edition() == 1 else ord(old[0]) - unicodedata.decimal(old[0])
    return "".join(chr(zero + int(digit)) for digit in str(number))


def _gap(text: str, sentences: Sequence[Sentence], left: int) -> tuple[str, str, str]:
    """Return what stands between two sentences: of the first, of neither, of the second."""
    gap = text[sentences[left].end : sentences[left + 1].start]
    spaces = [match.span() for match in _SPACE.finditer(gap)]
    start, end = spaces[-1] if spaces else (len(gap), len(gap))
    return gap[:start], gap[start:end], gap[end:]


def _numbers(
    sentences: Sequence[Sentence], rows: Sequence[AnswerLine], gone: NDArray[np.bool_]
) -> dict[int, int]:
    """Return the new numbers of items, by their first sentences, where items before them go.

    Where what is left names an item by its number ("step 2"), all keep theirs.
    """
    if any(not gone[place] and _STEP.search(item.text) for place, item in enumerate(sentences)):
        return {}
    numbers: dict[int, int] = {}
    lists: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row.kind == "heading":
            lists.clear()
        if row.number is None or row.first == row.last:
            continue
        lists = {level: value for level, value in lists.items() if level <= row.level}
        before, given = lists.get(row.level, (row.number - 1, row.number - 1))
        if row.number != before + 1:
            given = row.number - 1
        if bool(gone[row.first : row.last].all()):
            lists[row.level] = row.number, given
            continue
        lists[row.level] = row.number, given + 1
        if given + 1 != row.number:
            numbers[row.first] = given + 1
    return numbers
