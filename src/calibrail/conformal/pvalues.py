"""How unusual would this score be for a hallucinated answer?"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats, Ints
from calibrail.errors import InputError

#: With fewer values or fewer scores than this, putting the values in order does not pay.
_MANY: Final = 4096
#: Values put in order at a time: what a processor's cache about holds.
_CHUNK: Final = 2**20
_NOT_SIGN: Final = np.int64(2**63 - 1)


def p_values(calibration_scores: ArrayLike, values: ArrayLike) -> Floats:
    """Return conformal p-values of "this answer is hallucinated".

    p = (1 + #{i : s_i <= S}) / (n + 1). A small p-value says that few hallucinated answers look
    this harmless. For a hallucinated answer exchangeable with the calibration ones,
    P(p <= u) <= u for every u (Vovk et al., 2005).

    Parameters
    ----------
    calibration_scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, sorted ascending.
    values : array-like of float, shape (m,)
        Scores to judge, higher = more likely hallucinated; no NaN.

    Returns
    -------
    ndarray of float64, shape (m,)
        In (0, 1].

    Raises
    ------
    InputError
        If a value is NaN, or the calibration scores are not sorted.

    Examples
    --------
    >>> p_values([1.0, 2.0, 3.0], [0.0, 2.0, 9.0]).tolist()
    [0.25, 0.75, 1.0]
    """
    scores = validation.defined(calibration_scores, "calibration_scores")
    if (scores[1:] < scores[:-1]).any():
        raise InputError("calibration_scores must be sorted ascending")
    counted = count_at_most(scores, validation.defined(values, "values"))
    return np.asarray((1.0 + counted) / (len(scores) + 1.0))


def add_tolerance(values: Floats, tolerance: float) -> Floats:
    """Return ``values + tolerance``: what both the threshold and the p-value look at.

    One sum serves both, so that no rounding can make them disagree.
    """
    slack = validation.tolerance(tolerance)
    if slack == 0.0:
        return values
    with np.errstate(over="ignore"):
        return values + slack


def count_at_most(scores: Floats, values: Floats) -> Ints:
    """Return for each value how many of the scores are at most as large.

    Binary searches for values in random order wait for memory at every step; in ascending order
    neighbours share the way. The order serves speed alone, the count is exact in any order.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Sorted ascending, no NaN.
    values : ndarray of float64, shape (m,)
        No NaN.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    if min(len(values), len(scores)) < _MANY:
        return scores.searchsorted(values, side="right").astype(np.int64, copy=False)
    counted = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _CHUNK):
        part = np.ascontiguousarray(values[start : start + _CHUNK])
        order = _nearly_ascending(part)
        counted[start : start + _CHUNK][order] = scores.searchsorted(part[order], side="right")
    return counted


def _nearly_ascending(values: Floats) -> Ints:
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
