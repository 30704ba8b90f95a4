"""Could the label be known from copies, from the group, or from the question alone?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

# Pairs wherever they lie: the search for pairs across a split is the same one, filtered.
from calibrail.data.duplicates import THRESHOLD, similar_pairs
from calibrail.data.sketches import Sketches
from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.stats.arrays import Codes, Ints
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.ranking import CLUSTERED
from calibrail.record import Record

#: Pairs that are named.
NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Copies(Record):
    """Near-duplicate answers (question and response) that lie apart.

    Parameters
    ----------
    across : str
        What they lie apart in: ``label``, ``group`` or ``split``.
    n : int
        Answers with a near-duplicate that lies apart.
    exact : int
        Those of them with an identical one.
    pairs : tuple of (str, str)
        Ids of some.
    """

    across: str
    n: int
    exact: int
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A text that several answers have.

    Parameters
    ----------
    what : str
        ``question``, ``answer``, or ``whole`` for question, contexts and answer together.
    n_distinct : int
        Distinct texts (case folded, without punctuation; ``whole``: to the letter).
    n_repeated : int
        Those that occur more than once.
    n_both : int
        Those that occur with both labels.
    n_answers_both : int
        Answers that have one of them.
    """

    what: str
    n_distinct: int
    n_repeated: int
    n_both: int
    n_answers_both: int


@dataclass(frozen=True, slots=True)
class Giveaway(Record):
    """How well the label can be told from the labels of the other answers of a group.

    Parameters
    ----------
    column : str
        ``group``, or a column.
    n_values : int
        Groups.
    n_mixed : int
        Groups of at least two answers with both labels.
    n_alike : int
        Groups of at least two answers with one label.
    auroc : Measure
        AUROC of the hallucination rate among the group's other answers (alone: undefined, left
        out). Far from 0.5 on either side, the group tells the label.
    """

    column: str
    n_values: int
    n_mixed: int
    n_alike: int
    auroc: Measure


@dataclass(frozen=True, slots=True)
class Leakage(Record):
    """Everything that could give labels away.

    Parameters
    ----------
    threshold : float
        Estimated Jaccard similarity of word pairs that makes a near-duplicate.
    copies : tuple of Copies
        Empty where there are no texts.
    shared : tuple of Shared
        Likewise.
    giveaways : tuple of Giveaway
        For the groups, and every column named.
    n_ids_repeated : int
        Ids that occur more than once.
    """

    threshold: float = field(default=THRESHOLD, kw_only=True)
    copies: tuple[Copies, ...]
    shared: tuple[Shared, ...]
    giveaways: tuple[Giveaway, ...]
    n_ids_repeated: int


def copies(sketches: Sketches, sides: Mapping[str, Ints], ids: Sequence[str]) -> tuple[Copies, ...]:
    """Find near-duplicates that lie apart in a label, a group or a split.

    Parameters
    ----------
    sketches : Sketches of n examples
        From a ``Sketcher``.
    sides : mapping of str to ndarray of int64, shape (n,)
        For each way to divide answers, the side of each.
    ids : sequence of str, length n
        Names for the pairs.
    """
    worded = np.flatnonzero(sketches.exact)
    if not len(worded):
        return ()
    texts, first, member = np.unique(sketches.exact[worded], return_index=True, return_inverse=True)
    holder = worded[first]
    everywhere = np.full(len(texts), 3, dtype=np.uint8)
    alike = list(similar_pairs(sketches.minhash, holder, everywhere, THRESHOLD))
    left, right = (
        np.concatenate([np.zeros(0, np.intp), *(pair[side] for pair in alike)]) for side in (0, 1)
    )

    def apart(name: str, side: Ints) -> Copies:
        """Count the answers whose text, or one like it, is on another side."""
        ends = np.iinfo(np.int64)
        low, high = np.full(len(texts), ends.max), np.full(len(texts), ends.min)
        np.minimum.at(low, member, side)
        np.maximum.at(high, member, side)
        wide_low, wide_high = low.copy(), high.copy()
        for one, other in ((left, right), (right, left)):
            np.minimum.at(wide_low, one, low[other])
            np.maximum.at(wide_high, one, high[other])
        exact = (low[member] != side) | (high[member] != side)
        near = (wide_low[member] != side) | (wide_high[member] != side)
        pairs: dict[tuple[int, int], None] = {}
        for text in np.unique(member[exact])[:NAMED].tolist():
            rows = np.flatnonzero(member == text)
            other = rows[side[rows] != side[rows[0]]][0]
            pairs[int(worded[rows[0]]), int(worded[other])] = None
        differing = np.flatnonzero((low[left] != high[right]) | (high[left] != low[right]))
        for at in differing[: 4 * NAMED].tolist():
            two = sorted((int(holder[left[at]]), int(holder[right[at]])))
            pairs[two[0], two[1]] = None
        named = tuple((str(ids[a]), str(ids[b])) for a, b in list(pairs)[:NAMED])
        return Copies(name, int(near.sum()), int(exact.sum()), named)

    return tuple(apart(name, side[worded]) for name, side in sides.items())


def shared(what: str, digests: NDArray[np.uint64], labels: Codes) -> Shared | None:
    """Count texts that occur with both labels; 0 stands for no text, None for none at all.

    Examples
    --------
    >>> texts = shared("question", np.array([5, 5, 6], np.uint64), np.array([0, 1, 1], np.int8))
    >>> texts.n_distinct, texts.n_both, texts.n_answers_both
    (2, 1, 2)
    """
    there = digests != 0
    if not there.any():
        return None
    texts, member = np.unique(digests[there], return_inverse=True)
    size = np.bincount(member)
    hallucinated = np.bincount(member[labels[there] == 1], minlength=len(texts))
    both = (hallucinated > 0) & (hallucinated < size)
    counts = np.sum(size > 1), both.sum(), size[both].sum()
    return Shared(what, len(texts), *map(int, counts))


def giveaway(column: str, members: Ints, answers: Answers) -> Giveaway:
    """Measure how well the other answers of a group tell the label.

    Parameters
    ----------
    column : str
        How the groups are called.
    members : ndarray of int64, shape (n,)
        Group of each answer; negative for one without.
    answers : Answers
        Labels; the groups here are ``members``.
    """
    there = members >= 0
    _, member = np.unique(members[there], return_inverse=True)
    labels = answers.labels[there]
    size = np.bincount(member)
    hallucinated = np.bincount(member, weights=labels, minlength=len(size)).astype(np.int64)
    several = size > 1
    mixed = several & (hallucinated > 0) & (hallucinated < size)
    area = missing(CLUSTERED, "no_group_of_two", answers.confidence)
    if several.any():
        rows = several[member]
        group, labels = member[rows].astype(np.int64), labels[rows]
        rate = (hallucinated[group] - labels) / (size[group] - 1)
        area = Answers(labels, group, answers.confidence).auroc(rate)
    return Giveaway(column, len(size), int(mixed.sum()), int(np.sum(several & ~mixed)), area)


def repeated(ids: Sequence[str]) -> int:
    """Return how many ids occur more than once; an empty id is none."""
    return sum(1 for name, times in Counter(ids).items() if name and times > 1)
