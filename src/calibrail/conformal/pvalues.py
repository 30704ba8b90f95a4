"""How unusual would this score be for a hallucinated answer?"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.lookup import count_at_most
from calibrail.errors import InputError


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
    scores = validation.defined(calibration_scores, "calibration_scores")
    if (scores[1:] < scores[:-1]).any():
        raise InputError("calibration_scores must be sorted ascending")
    counted = count_at_most(scores, validation.defined(values, "values"))
    return from_counts(counted, 0, len(scores))


def add_tolerance(values: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Return ``values + tolerance``: what both the threshold and the p-value look at.

    One sum serves both, so that no rounding can make them disagree.
    """
    slack = validation.tolerance(tolerance)
    if slack == 0.0:
        return values
    with np.errstate(over="ignore"):
        return values + slack


def from_counts(counted: NDArray[np.int64], below: int, n: int) -> NDArray[np.float64]:
    """Return the p-values (1 + below + counted) / (n + 1)."""
    result = counted.astype(np.float64)
    result += 1.0 + below
    result /= n + 1.0
    return result
