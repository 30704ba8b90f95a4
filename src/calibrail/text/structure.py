"""Lists, headings, tables, code blocks, connectives: which sentences hang together.

Rules of English, over how language models write answers.

All of it is distances between sentences. So the joins of many answers are their concatenation, and
what follows from removing some sentences is counted without any text, by the functions that trim.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.text.sentences import Sentence, lines
from calibrail.text.words import by_edition, lazily_compiled, patterns

Kind = Literal["blank", "plain", "item", "heading", "row", "code", "other"]

_FENCE = lazily_compiled(r"\s*(```+|~~~+)")
_SEPARATOR = lazily_compiled(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")
_UNDERLINE = lazily_compiled(r" {0,3}(?:={2,}|-{2,})\s*")
_QUOTED = lazily_compiled(r"\s*(?:>\s?)+")
_HASHES = lazily_compiled(r"\s*(#{1,6})\s")
_BOLD = lazily_compiled(r"\s*(?:\*\*[^*]+\*\*|__[^_]+__):?\s*")
_FIRST_NUMBER = lazily_compiled(r"\s*(\d{1,3})[.)]\s*")
_NUMBER = lazily_compiled(r"\s*(\d{1,3})[.)\u3001\uff0e\uff09]\s*")
#: How questions and introductions end.
_ASKING: Final = ("?", "\uff1f", "\u061f", "\u037e")
_ANNOUNCING: Final = (":", "\uff1a")
#: The level of a heading that is a bold line: below all that have hashes.
_BOLD_LEVEL: Final = 7


class AnswerLine(NamedTuple):
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


def layout(text: str, sentences: Iterable[Sentence]) -> list[AnswerLine]:
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
    rows: list[AnswerLine] = []
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
            rows.append(AnswerLine(start, end, stop, body, kind, level, first, at, position))
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
            if kind == "item" and (found := by_edition(_FIRST_NUMBER, _NUMBER).match(piece)):
                number = int(found[1])
        table = kind == "row"
        rows.append(AnswerLine(start, end, stop, body, kind, level, first, at, block, number))
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


_WORDING: Final = patterns("structure")
_MARK = lazily_compiled(_WORDING["mark"])
_PAIRS: Final = _WORDING["pairs"]
_CLOSES: Final = dict(zip(_PAIRS[1::2], _PAIRS[::2], strict=True))
_OPENS: Final = frozenset({*_CLOSES.values(), "\u201e"})
#: Those of them that the first edition does not look at.
_LATER: Final = "\u3008\u3009\u300a\u300b\u3010\u3011\uff08\uff09"


def spanning(text: str, start: int, end: int, borders: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of each pair that spans more than one piece.

    What opens and never closes, or closes and never opened, makes no pair. Time is linear.

    Parameters
    ----------
    text : str
        The text.
    start, end : int
        The line, as half open characters of it.
    borders : sequence of int
        Where its second, third, ... piece starts.

    >>> list(spanning("(A. B.) C.", 0, 10, [4, 8]))
    [(0, 1)]
    """
    stack: list[tuple[str, int]] = []
    waiting: Counter[str] = Counter()
    for match in _MARK.finditer(text, start, end):
        mark = match[0]
        if mark.startswith("`") or by_edition(mark in _LATER, False):
            continue
        opener = _CLOSES.get(mark, mark)
        if mark == "\u201c" and waiting["\u201e"]:
            opener = "\u201e"
        elif mark in _OPENS or (mark not in _CLOSES and not waiting[mark]):
            # A mark that may do either opens where something follows it, or nothing stands before
            # it ('music. " The Thicket" is'): behind a word it closes, or means inches.
            before = text[match.start() - 1 : match.start()]
            if (
                mark in _OPENS
                or not text[match.end() : match.end() + 1].isspace()
                or (mark == '"' and before.isspace())
            ):
                stack.append((mark, match.start()))
                waiting[mark] += 1
            continue
        if not waiting[opener]:
            continue
        while True:
            opened, place = stack.pop()
            waiting[opened] -= 1
            if opened == opener:
                break
        pieces = bisect_right(borders, place), bisect_right(borders, match.start())
        if pieces[0] < pieces[1]:
            yield pieces


_CONNECTIVE = lazily_compiled(_WORDING["connective"], re.IGNORECASE)
_NUMBERED = lazily_compiled(_WORDING["numbered"], re.IGNORECASE)
#: "The second reason": it cannot be taken out of its sentence. In small letters: no "Second World".
_NUMBERED_NOUN = lazily_compiled(_WORDING["numbered_noun"])
_ORDINALS: Final = _WORDING["places"].split("|")
#: Words of an introduction that take back, or doubt, what it introduces.
_DENIES = lazily_compiled(_WORDING["denies"], re.IGNORECASE)
_ASIDE = lazily_compiled(_WORDING["aside"], re.IGNORECASE)
#: Behind one of these an aside ties clauses of one sentence.
_CLAUSE = lazily_compiled(_WORDING["clause"], re.IGNORECASE)
_LEANS = lazily_compiled(_WORDING["leans"], re.IGNORECASE | re.DOTALL)
_ANSWERS = lazily_compiled(_WORDING["answers"], re.IGNORECASE)
_QUOTE = lazily_compiled("[\"'\u201c\u2018\u00ab\u201e]")


class Ordinal(NamedTuple):
    """A place in an enumeration, as the first words of a sentence have it.

    Attributes
    ----------
    place : int
        1 for "First", 2 for "Second" and so on.
    kind : str
        "hand" for "on the one hand", "ordinal" otherwise.
    length : int
        Characters that can be dropped; 0 where the number is a part of the sentence ("The second
        reason is").
    """

    place: int
    kind: str
    length: int


def connective(sentence: str) -> int:
    """Return how many characters at the beginning tie it to what precedes, and can be dropped.

    >>> sentence = "However, in addition, the bridge is old."
    >>> sentence[connective(sentence):]
    'the bridge is old.'
    """
    length = 0
    while (match := _CONNECTIVE.match(sentence, length)) and match.end() < len(sentence):
        length = match.end()
    return length


def ordinal_of(sentence: str) -> Ordinal | None:
    """Return its place in an enumeration; None where it names none.

    >>> ordinal_of("Second, wait."), ordinal_of("The second reason is cost.")
    (Ordinal(place=2, kind='ordinal', length=8), Ordinal(place=2, kind='ordinal', length=0))
    """
    for pattern in (_NUMBERED, _NUMBERED_NOUN):
        match = pattern.match(sentence)
        if match is None or match.end() == len(sentence):
            continue
        names = {name.removeprefix("bare_") for name, text in match.groupdict().items() if text}
        length = match.end() if pattern is _NUMBERED else 0
        if names & {"one", "other"}:
            return Ordinal(1 if "one" in names else 2, "hand", length)
        place = next(_ORDINALS.index(name) for name in names if name in _ORDINALS)
        return Ordinal(1 + place, "ordinal", length)
    return None


def inner_however(sentence: str) -> tuple[int, int] | None:
    """Return the place of an "however" within or behind it; None where there is none.

    >>> sentence = "The bridge, however, is old."
    >>> start, end = inner_however(sentence)
    >>> sentence[:start] + sentence[end:]
    'The bridge is old.'
    """
    match = _ASIDE.search(sentence)
    return None if match is None or _CLAUSE.search(sentence, 0, match.start()) else match.span()


def depends_on_previous(sentence: str, before: str) -> bool:
    """Return whether a sentence does not stand without the one before it.

    It refers to it by its first words ("The latter", "Otherwise", "This means"), answers its
    question, or is a quotation that begins with a connective.

    Parameters
    ----------
    sentence, before : str
        The sentence and the one before it.

    >>> depends_on_previous("Both are old.", "There are two bridges.")
    True
    >>> depends_on_previous("Both A and B are old.", "Yes.")
    False
    """
    if _LEANS.match(sentence, connective(sentence)):
        return True
    if before.rstrip().endswith(by_edition(("?",), _ASKING)) and _ANSWERS.match(sentence):
        return True
    quote = _QUOTE.match(sentence)
    return quote is not None and connective(sentence[quote.end() :]) > 0


def is_negation(sentence: str) -> bool:
    """Return whether a sentence takes back or doubts something, so that what it introduces may not.

    >>> is_negation("The following statements are myths:"), is_negation("Three reasons:")
    (True, False)
    """
    return _DENIES.search(sentence) is not None


_TITLE = lazily_compiled(r"\*\*[^*]+\*\*|__[^_]+__")
_FIRST_ENDED = lazily_compiled(_WORDING["first_ended"])
_ENDED = lazily_compiled(_WORDING["ended"])
#: What may stand behind the last mark of a sentence.
_MARKS: Final = "*_`\"'\u201d)] "
#: Columns by which a line that continues an item stands in.
_CONTINUED: Final = 2


def of_blocks(rows: Sequence[AnswerLine], found: Joins) -> None:
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


def of_headings(rows: Sequence[AnswerLine], found: Joins) -> None:
    """Note that a heading introduces all up to the next one of its level."""
    open_ones: list[AnswerLine] = []

    def close(level: int, end: int) -> None:
        while open_ones and open_ones[-1].level >= level:
            row = open_ones.pop()
            found.introduces[row.first : row.last] = end - 1 - np.arange(row.first, row.last)

    for row in rows:
        if row.kind == "heading":
            close(row.level, row.first)
            open_ones.append(row)
    close(0, len(found.leans))


def of_introductions(
    rows: Sequence[AnswerLine], sentences: Sequence[Sentence], found: Joins
) -> None:
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
        asks = sentence.text.rstrip(_MARKS).endswith(by_edition(_ASKING[:2], _ASKING))
        if end > place and (place + 1 in lists or not asks) and is_negation(sentence.text):
            open_ones.append((place, end))


def of_lists(rows: Sequence[AnswerLine], sentences: Sequence[Sentence], found: Joins) -> None:
    """Note what items, questions and colons introduce, and which items are nested in which."""
    spoken = [row for row in rows if row.first < row.last]
    ends = {row.block: row.last for row in rows}
    paragraphs = _paragraph_ends(rows)
    above: list[tuple[float, AnswerLine]] = []
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
            if nested or not by_edition(_FIRST_ENDED, _ENDED).search(sentences[row.last - 1].text):
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


def _introduces(sentence: str, row: AnswerLine) -> bool:
    """Return whether the last sentence of a row announces what follows."""
    bare = sentence.rstrip(_MARKS)
    return bare.endswith(_ANNOUNCING + by_edition(_ASKING[:2], _ASKING)) or (
        row.kind == "item" and _TITLE.fullmatch(sentence) is not None
    )


def _within(sentences: Sequence[Sentence], row: AnswerLine, found: Joins) -> None:
    """Note what a title, a question or a colon introduces within its own row."""
    end = row.last
    for place in range(row.last - 2, row.first - 1, -1):
        text = sentences[place].text.rstrip()
        if text.endswith(by_edition(("?",), _ASKING)):
            found.introduces[place], end = end - place - 1, place
        elif text.endswith(by_edition((":",), _ANNOUNCING)):
            found.introduces[place] = 1
        elif place == row.first and _TITLE.fullmatch(text):
            found.introduces[place] = row.last - place - 1


def _paragraph_ends(rows: Sequence[AnswerLine]) -> dict[int, int]:
    """Return where the paragraph of each plain row ends, as a place among the sentences."""
    ends: dict[int, int] = {}
    end: int | None = None
    for row in reversed(rows):
        end = None if row.kind != "plain" else row.last if end is None else end
        if end is not None:
            ends[row.start] = end
    return ends


class SentencePlace(Protocol):
    """A sentence's place: half open characters of its answer."""

    @property
    def start(self) -> int:
        """The first character."""

    @property
    def end(self) -> int:
        """The one behind the last."""


class Joins(NamedTuple):
    """How the sentences of one or of many answers hang together: distances, no text.

    Attributes
    ----------
    introduces : ndarray of int32, shape (m,)
        How many sentences after this one it introduces, as a heading or "Three reasons:" does;
        where all of them are removed it goes, too. 0 where none.
    leans : ndarray of int32, shape (m,)
        How many sentences before this one the one stands without which it cannot ("The latter",
        the header of a table, the item above a nested one, "These are myths:"). 0 where none.
    together : ndarray of int32, shape (m,)
        How many sentences after this one share its fate: those of a code block, a row of a table,
        a quotation or brackets. 0 where none.
    """

    introduces: NDArray[np.int32]
    leans: NDArray[np.int32]
    together: NDArray[np.int32]


def joins(text: str, places: Sequence[SentencePlace]) -> Joins:
    r"""Return how the sentences of an answer hang together, in time linear in its length.

    Parameters
    ----------
    text : str
        The answer.
    places : sequence of places
        Its sentences in order.

    >>> from calibrail.text.sentences import answer_sentences
    >>> text = "Three reasons:\n- It is old.\n- It is small.\n\nGo elsewhere."
    >>> joins(text, answer_sentences(text)).introduces.tolist()
    [2, 0, 0, 0]
    """
    sentences = [Sentence(text[item.start : item.end], item.start, item.end) for item in places]
    rows = layout(text, sentences)
    found = Joins(*(np.zeros(len(sentences), dtype=np.int32) for _ in range(3)))
    _of_words(sentences, found)
    of_lists(rows, sentences, found)
    of_headings(rows, found)
    of_blocks(rows, found)
    of_introductions(rows, sentences, found)
    # Those that stand in one pair of quotation marks, brackets or marks of emphasis.
    for row in rows:
        if row.last - row.first < 2 or row.kind in ("code", "row"):
            continue
        ends = [sentence.start for sentence in sentences[row.first + 1 : row.last]]
        for start, stop in spanning(text, sentences[row.first].start, row.end, ends):
            first, many = row.first + start, stop - start
            found.together[first] = max(found.together[first], many)
    return found


def removed_with(joins: Joins, removed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sentences go, where some are removed: these, and what nothing is left of.

    Parameters
    ----------
    joins : Joins
        Of one answer, or of many, concatenated.
    removed : ndarray of bool, shape (m,)
        The sentences to remove.
    """
    gone, n = removed.astype(np.bool_, copy=True), len(removed)
    kept = np.append(np.where(gone, n, np.arange(n)), n)
    # The next sentence that is kept, from each place on.
    following = np.minimum.accumulate(kept[::-1])[::-1]
    instead: dict[int, int] = {}
    for place in np.flatnonzero((joins.introduces > 0) & ~gone)[::-1].tolist():
        after = int(following[place + 1])
        after = instead.get(after, after)
        if after > place + int(joins.introduces[place]):
            gone[place] = True
            instead[place] = after
    return gone


def broken_links(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return at which sentences a join is torn; their answers are for people to review.

    Parameters
    ----------
    joins : Joins
        Of one answer, or of many, concatenated.
    gone : ndarray of bool, shape (m,)
        What `removed_with` returned.
    """
    return dangling(joins, gone) | split_blocks(joins, gone)


def dangling(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sentences are left without the one that they cannot do without."""
    places = np.flatnonzero(joins.leans)
    result = np.zeros(len(gone), dtype=np.bool_)
    result[places] = ~gone[places] & gone[places - joins.leans[places]]
    return result


def split_blocks(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sentences begin what would be divided: a code block, a row, a quotation."""
    places = np.flatnonzero(joins.together)
    result = np.zeros(len(gone), dtype=np.bool_)
    before = np.append(0, np.cumsum(gone))
    many = joins.together[places] + 1
    count = before[places + many] - before[places]
    result[places] = (count > 0) & (count < many)
    return result


def _of_words(sentences: Sequence[Sentence], found: Joins) -> None:
    """Note which sentences lean on another by what they say."""
    members: dict[str, tuple[int, int]] = {}
    for place, sentence in enumerate(sentences):
        if place and depends_on_previous(sentence.text, sentences[place - 1].text):
            found.leans[place] = 1
        if (number := ordinal_of(sentence.text)) is None:
            continue
        before, where = members.get(number.kind, (0, 0))
        if number.length == 0 and before == number.place - 1 and before:
            found.leans[place] = place - where
        members[number.kind] = number.place, place
