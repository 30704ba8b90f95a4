"""How unusual would this score be for a hallucinated answer?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.errors import InputError

#: From this many values on it pays to look them up in order: neighbours share cache lines.
_MANY = 4096


def p_values(calibration_scores: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
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
    scores = validation.vector(calibration_scores, "calibration_scores")
    if np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
        raise InputError("calibration_scores must be sorted ascending and hold no NaN")
    queries = validation.vector(values, "values")
    if np.isnan(queries).any():
        raise InputError("values must not hold NaN: an undefined score has no p-value")
    return np.asarray((1.0 + count_at_most(scores, queries)) / (len(scores) + 1.0), np.float64)


def count_at_most(scores: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each value how many of the sorted scores are at most as large."""
    if len(values) < _MANY:
        return np.searchsorted(scores, values, side="right").astype(np.int64)
    order = np.argsort(values)
    counted = np.empty(len(values), dtype=np.int64)
    counted[order] = np.searchsorted(scores, values[order], side="right")
    return counted
