"""How many of the scores are at most as large as each of many values, without a search for each?

The range of the scores is cut into equal cells, two for each score, and a table says how many
scores lie in the cells before. A subtraction and a product tell a value's cell. Rounding never
reverses the order of two values, so that every score of an earlier cell is smaller than the value;
from there on scores are compared one by one until one is larger. The few values that are still open
after some steps are searched for, and all of them where scores are so unevenly spread that many
share a cell. How scores are distributed decides about speed alone: the count is exact.
"""

from typing import Final

import numpy as np

from calibrail.conformal.validation import Floats, Ints

#: With fewer values or fewer scores than this, neither a table nor putting values in order pays.
MANY: Final = 4096
#: Cells for each score.
_CELLS: Final = 2
#: Values at a time, so that what is made of them stays in a processor's cache.
_BLOCK: Final = 2**14
#: Scores that are compared after the first of a cell, before a search takes over.
_STEPS: Final = 5
#: In how many parts of equal size the spread is looked at, and which share may be crowded.
_PARTS, _CROWDED = 512, 0.05
#: Values put in order at a time: what a processor's cache about holds.
_CHUNK: Final = 2**20
_NOT_SIGN: Final = np.int64(2**63 - 1)


class RankTable:
    """Counts the scores at most as large as each of many values.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Sorted ascending, no NaN.

    Notes
    -----
    Holds 16 bytes for each distinct score beside the scores.
    """

    def __init__(self, scores: Floats) -> None:
        self._scores = scores
        self._upto: Ints | None = None
        fresh = np.empty(len(scores), dtype=np.bool_)
        fresh[:1] = True
        np.not_equal(scores[1:], scores[:-1], out=fresh[1:])
        if np.count_nonzero(fresh) < len(scores) - len(scores) // 8:
            # Tied scores stand side by side; one of each is compared.
            self._upto = np.append(np.flatnonzero(fresh), len(scores))
            scores = scores[fresh]
        self._top = _CELLS * len(scores) - 1.0
        self._low, self._scale = _grid(scores, self._top)
        if not self._scale:
            return
        # Nothing is at least as large as NaN: comparing ends after the last score.
        self._distinct = np.append(scores, np.nan)
        kind = np.int32 if _CELLS * len(scores) < 2**31 else np.int64
        counts = np.zeros(_CELLS * len(scores) + 1, dtype=kind)
        for start in range(0, len(scores), _BLOCK):
            cells = self._cells(scores[start : start + _BLOCK])
            repeats = np.bincount(cells - cells[0])
            into = counts[cells[0] + 1 : cells[0] + 1 + len(repeats)]
            np.add(into, repeats, out=into, casting="unsafe")
        self._before = np.cumsum(counts, out=counts)

    def count(self, values: Floats) -> Ints:
        """Return for each value how many of the scores are at most as large.

        Parameters
        ----------
        values : ndarray of float64, shape (m,)
            No NaN.

        Returns
        -------
        ndarray of int64, shape (m,)
        """
        if not self._scale:
            return search(self._scores, values)
        counted = np.empty(len(values), dtype=np.int64)
        still_open = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            reached, left = self._reached(values[block])
            counted[block] = reached if self._upto is None else self._upto.take(reached)
            still_open.append(start + left)
        rest = np.concatenate(still_open)
        if len(rest):
            counted[rest] = search(self._scores, values[rest])
        return counted

    def _reached(self, values: Floats) -> tuple[Ints, Ints]:
        """Return counts of distinct scores, and the positions of the values that are still open."""
        reached = self._before.take(self._cells(values)).astype(np.int64, copy=False)
        left = np.flatnonzero(self._distinct.take(reached) <= values)
        place, wanted = reached.take(left), values.take(left)
        for _ in range(_STEPS):
            place += 1
            reached[left] = place
            larger = np.flatnonzero(self._distinct.take(place) <= wanted)
            left, place, wanted = left.take(larger), place.take(larger), wanted.take(larger)
            if not len(left):
                break
        return reached, left

    def _cells(self, values: Floats) -> Ints:
        # An infinite value, or one so far away that the difference is, lies in the last cell.
        with np.errstate(over="ignore"):
            cells = values - self._low
            cells *= self._scale
        return np.clip(cells, 0.0, self._top, out=cells).astype(np.int64)


def _grid(scores: Floats, top: float) -> tuple[float, float]:
    """Return where the cells begin and how many there are per unit, 0 where cells do not serve.

    Single scores far away from the others lie outside, so that they do not widen every cell.
    """
    sample = scores[:: max(1, len(scores) // _PARTS)]
    if len(sample) < _PARTS:
        return 0.0, 0.0
    low, high = float(sample[1]), float(sample[-2])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = np.float64(top) / (high - low)
        wide = np.diff(sample[1:-1]) * scale * _STEPS >= len(scores) / len(sample)
    serves = 0.0 < scale < np.inf and np.mean(wide) >= 1.0 - _CROWDED
    return low, float(scale) if serves else 0.0


def search(scores: Floats, values: Floats) -> Ints:
    """Return for each value how many of the scores are at most as large, by binary search.

    Searches for values in random order wait for memory at every step; in ascending order neighbours
    share the way. The order serves speed alone, the count is exact in any order.
    """
    if min(len(values), len(scores)) < MANY:
        return scores.searchsorted(values, side="right").astype(np.int64, copy=False)
    counted = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _CHUNK):
        part = np.ascontiguousarray(values[start : start + _CHUNK])
        order = nearly_ascending(part)
        counted[start : start + _CHUNK][order] = scores.searchsorted(part[order], side="right")
    return counted


def nearly_ascending(values: Floats) -> Ints:
    """Return positions that put values in ascending order but for their last digits.

    A float's bits, with all but the sign flipped where it is negative, are an integer of the same
    order. Its lowest bits make room for the position, and one plain integer sort, several times
    faster than ``argsort``, orders both.
    """
    room = (len(values) - 1).bit_length()
    bits = values.view(np.int64)
    keys = bits ^ ((bits >> 63) & _NOT_SIGN)
    keys = ((keys >> room) << room) | np.arange(len(values))
    keys.sort()
    return keys & ((1 << room) - 1)
