"""How unusual would this score be for a hallucinated answer?"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.rank_table import MANY, RankTable, search
from calibrail.conformal.validation import Floats, Ints
from calibrail.errors import InputError

#: So many scores for each value, and more, make a table of them cost more than searches.
_WORTH: Final = 8


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
    p = count_at_most(scores, validation.defined(values, "values")).astype(np.float64)
    p += 1.0
    p /= len(scores) + 1.0
    return p


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
    if len(scores) < MANY or len(values) < max(MANY, len(scores) // _WORTH):
        return search(scores, values)
    return RankTable(scores).count(values)
