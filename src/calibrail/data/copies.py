"""Which examples are one answer that stands there several times?"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from calibrail.data.duplicates import N_BANDS, THRESHOLD, similar_pairs
from calibrail.data.example import Example
from calibrail.data.ids import n_repeated
from calibrail.data.sketches import Sketcher, Sketches
from calibrail.data.telling import score_copies

#: Estimated similarity of the questions, and of the responses, of which two copies need each.
#: Without it a long question would make copies of two short answers to it, as "yes" and "no" are.
_OF_PART: Final = 0.6

#: Of the contexts. Fewer than of the texts: the same answer to the same question is given.
_OF_CONTEXTS: Final = 0.7

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Which of n examples are copies of one another.

    Attributes
    ----------
    groups : ndarray of int64, shape (n,)
        0, 1, ... for the groups; -1 for an example without a copy.
    n_by_scores : int
        Copies that are known by their scores alone, as they have no texts.
    sketches : Sketches or None
        What told texts apart; None where there are none.
    """

    groups: NDArray[np.int64]
    n_by_scores: int = 0
    sketches: Sketches | None = None

    def counted(self) -> dict[str, int]:
        """Return how many examples have copies, their groups and the size of the largest."""
        return counted_copies(self.groups) | {"n_by_scores": self.n_by_scores}


class CopyFinder:
    """Remembers of examples, one by one, what tells copies apart: sketches of texts, or scores.

    Parameters
    ----------
    columns : iterable of str
        Columns whose scores are asked for. They tell rows without texts apart.
    """

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._columns = {name: array("d") for name in columns}
        self._labels, self._without = array("b"), array("q")
        self._sketcher: Sketcher | None = None
        self._n = 0

    def add(self, example: Example) -> None:
        """Remember one example."""
        textual = bool(example.question or example.response)
        if textual and self._sketcher is None:
            self._sketcher = Sketcher()
            for _ in range(self._n):
                self._sketcher.add(Example())
        if self._sketcher is not None:
            self._sketcher.add(example)
        if not textual and self._columns:
            self._without.append(self._n)
            self._labels.append(-1 if example.label is None else example.label)
            for name, values in self._columns.items():
                values.append(_number(example.columns.get(name)))
        self._n += 1

    def finish(self) -> Copies:
        """Return the copies among all examples, in order; none can be added after."""
        sketches = None if self._sketcher is None else self._sketcher.finish()
        groups = np.full(self._n, -1, np.int64) if sketches is None else find_copies(sketches)
        scores = [np.array(values, np.float64) for values in self._columns.values()]
        by_score = score_copies(scores, np.array(self._labels, np.int8))
        rows = np.array(self._without, np.int64)[by_score >= 0]
        groups[rows] = groups.max(initial=-1) + 1 + by_score[by_score >= 0]
        return Copies(groups, len(rows), sketches)


def copies_by_scores(columns: Sequence[NDArray[np.float64]], labels: NDArray[np.int8]) -> Copies:
    """Return which of n examples without texts are copies, as a `CopyFinder` would."""
    groups = score_copies(columns, labels)
    return Copies(groups, int(np.count_nonzero(groups >= 0)))


def find_copies(sketches: Sketches) -> NDArray[np.int64]:
    """Find the groups of examples that are copies of one another, word for word or nearly.

    Copies have the same contexts, questions and responses, or nearly so: of the word pairs of all
    contexts together seven tenths are shared (estimated), of those of question and response
    together four fifths (as in `cross_split_duplicates`), of those of either of these three fifths.
    A copy of a copy is a copy. Where
    there is no context and no question, responses of at least eight words must be the same.

    Parameters
    ----------
    sketches : Sketches of n examples
        From a `Sketcher`.

    Returns
    -------
    ndarray of int64, shape (n,)
        0, 1, ... for the groups; -1 for an example without a copy.

    Examples
    --------
    >>> from calibrail.data.example import Example
    >>> from calibrail.data.sketches import Sketcher
    >>> sketcher = Sketcher()
    >>> for answer in ("Ada Lovelace.", "Mary Shelley.", "ada lovelace"):
    ...     sketcher.add(Example(question="Who wrote it?", response=answer))
    >>> find_copies(sketcher.finish()).tolist()
    [0, -1, 0]
    """
    found = np.full(len(sketches), -1, dtype=np.int64)
    able = np.flatnonzero((sketches.exact != 0) & (sketches.anchors != 0))
    if not len(able):
        return found
    # A response alone may be of a template: anchored in itself, it has no other that is near it.
    keys = sketches.exact[able] * _ODD + sketches.anchors[able]
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    holder = able[first]
    everywhere = np.full(len(holder), 3, dtype=np.uint8)
    edges = [np.zeros((2, 0), dtype=np.intp)]
    beside = _beside(sketches, holder)
    for pair in similar_pairs(sketches.minhash, holder, everywhere, THRESHOLD, beside):
        left, right = (sketches.parts[holder[side]] for side in pair)
        shared = np.count_nonzero(left == right, axis=2)
        alike = (shared >= _OF_PART * left.shape[2]).all(axis=1)
        alike &= _near_contexts(sketches, *(holder[side] for side in pair))
        edges.append(np.stack(pair)[:, alike])
    text = _components(np.concatenate(edges, axis=1), len(holder))
    _, component, size = np.unique(text[member], return_inverse=True, return_counts=True)
    several = size > 1
    found[able] = np.where(several, np.cumsum(several) - 1, -1)[component]
    return found


def _beside(sketches: Sketches, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return what the contexts add to the key of each band of a text, shape (n, 16)."""
    contexts = sketches.contexts[rows]
    bands = np.ascontiguousarray(contexts).view(np.uint32).astype(np.uint64)
    assert bands.shape[1] == N_BANDS
    anchors = sketches.anchors[rows, np.newaxis]
    return np.where(contexts.any(axis=1, keepdims=True), (bands + np.uint64(1)) * _ODD, anchors)


def _near_contexts(
    sketches: Sketches, left: NDArray[np.intp], right: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return whether contexts are nearly the same; without contexts, whether anchors are equal."""
    ones, others = sketches.contexts[left], sketches.contexts[right]
    held = np.count_nonzero((ones > 0) | (others > 0), axis=1)
    same = np.count_nonzero((ones == others) & (ones > 0), axis=1)
    equal: NDArray[np.bool_] = sketches.anchors[left] == sketches.anchors[right]
    near: NDArray[np.bool_] = equal | ((held > 0) & (same >= _OF_CONTEXTS * held))
    return near


def united(groups: NDArray[np.int64], copies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return groups in which copies belong together, with all that their groups hold.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        One number per group.
    copies : ndarray of int64, shape (n,)
        From `find_copies`.

    Examples
    --------
    >>> united(np.array([0, 0, 1, 2, 3]), np.array([-1, 0, 0, -1, -1])).tolist()
    [0, 0, 0, 1, 2]
    """
    copied = np.flatnonzero(copies >= 0)
    if not len(copied):
        return groups
    _, member = np.unique(groups, return_inverse=True)
    n_groups = int(member.max()) + 1
    edges = np.stack([member[copied], n_groups + copies[copied]])
    return _components(edges, n_groups + int(copies.max()) + 1)[member]


def first_sides(copies: NDArray[np.int64] | None, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the side of each example, of copies on several sides the first of these.

    Parameters
    ----------
    copies : ndarray of int64, shape (n,), or None
        From `find_copies`; None for no copies.
    codes : ndarray of int8, shape (n,)
        The side of every example: fit comes before calibration, and calibration before test.

    Examples
    --------
    >>> first_sides(np.array([0, -1, 0]), np.array([2, 2, 1], dtype=np.int8)).tolist()
    [1, 2, 1]
    """
    if copies is None or not (copied := copies >= 0).any():
        return codes
    first = np.full(int(copies.max()) + 1, np.iinfo(np.int8).max, dtype=np.int8)
    np.minimum.at(first, copies[copied], codes[copied])
    return np.where(copied, first[copies], codes)


def counted_copies(copies: NDArray[np.int64]) -> dict[str, int]:
    """Return how many examples have copies, in how many groups, and the size of the largest.

    >>> counted_copies(np.array([0, -1, 0]))
    {'n': 2, 'n_groups': 1, 'largest': 2}
    """
    sizes = np.bincount(copies[copies >= 0])
    counts = sizes.sum(), len(sizes), sizes.max(initial=0)
    return dict(zip(("n", "n_groups", "largest"), map(int, counts), strict=True))


def n_untold(copies: Copies, scores: NDArray[np.float64]) -> int:
    """Return how many examples may be copies or alike by chance, since nothing tells which.

    These are examples of which another one shows the same, and little: a short
    response without question and contexts, or, where there are no texts at all, a score.

    Parameters
    ----------
    copies : Copies of n examples
        Those that are known to be copies are told.
    scores : ndarray of float64, shape (n,)
        One score of each example.
    """
    sketches = copies.sketches
    if sketches is None:
        return n_repeated(scores[~np.isnan(scores) & (copies.groups < 0)])
    return n_repeated(sketches.exact[(sketches.exact != 0) & (sketches.anchors == 0)])


def _number(cell: float | str | None) -> float:
    try:
        number = float("nan" if cell is None else cell)
    except (ValueError, TypeError, OverflowError):
        return float("nan")
    return number if abs(number) < float("inf") else float("nan")


def _components(edges: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Return the number of each node's connected component."""
    graph = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)
