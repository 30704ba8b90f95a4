"""Which sentences of an answer hang together, so that removing one concerns another?

All of it is distances between sentences. So the joins of many answers are their concatenation, and
what follows from removing some sentences is counted without any text, by the functions that trim.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.text.connectives import leans, numbered
from calibrail.text.layout import Row, layout
from calibrail.text.nesting import of_blocks, of_headings, of_introductions, of_lists
from calibrail.text.pairs import spanning
from calibrail.text.sentences import Sentence


class Place(Protocol):
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


def joins(text: str, places: Sequence[Place]) -> Joins:
    r"""Return how the sentences of an answer hang together, in time linear in its length.

    Parameters
    ----------
    text : str
        The answer.
    places : sequence of places
        Its sentences in order.

    >>> from calibrail.text.answer_sentences import answer_sentences
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
    _of_pairs(text, sentences, rows, found)
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


def torn(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return at which sentences a join is torn; their answers are for people to review.

    Parameters
    ----------
    joins : Joins
        Of one answer, or of many, concatenated.
    gone : ndarray of bool, shape (m,)
        What `removed_with` returned.
    """
    return leaning(joins, gone) | divided(joins, gone)


def leaning(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sentences are left without the one that they cannot do without."""
    places = np.flatnonzero(joins.leans)
    result = np.zeros(len(gone), dtype=np.bool_)
    result[places] = ~gone[places] & gone[places - joins.leans[places]]
    return result


def divided(joins: Joins, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
        if place and leans(sentence.text, sentences[place - 1].text):
            found.leans[place] = 1
        if (number := numbered(sentence.text)) is None:
            continue
        before, where = members.get(number.kind, (0, 0))
        if number.length == 0 and before == number.place - 1 and before:
            found.leans[place] = place - where
        members[number.kind] = number.place, place


def _of_pairs(text: str, sentences: Sequence[Sentence], rows: Sequence[Row], found: Joins) -> None:
    """Note which sentences stand in one pair of quotation marks, brackets or marks of emphasis."""
    for row in rows:
        if row.last - row.first < 2 or row.kind in ("code", "row"):
            continue
        ends = [sentence.start for sentence in sentences[row.first + 1 : row.last]]
        for start, stop in spanning(text, sentences[row.first].start, row.end, ends):
            first, many = row.first + start, stop - start
            found.together[first] = max(found.together[first], many)
