"""Which coverages can a score with few distinct values reach at all?"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.errors import InputError


def attainable_coverages(
    scores: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return every distinct score as a threshold, with the share of scores that it catches.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated examples, n >= 1, finite.

    Returns
    -------
    (ndarray, ndarray) of float64, shape (d,)
        Thresholds ascending, and their empirical coverages descending from 1.

    Examples
    --------
    A yes/no judge that misses a third:

    >>> thresholds, coverages = attainable_coverages([0.0, 1.0, 1.0])
    >>> thresholds.tolist(), coverages.round(3).tolist()
    ([0.0, 1.0], [1.0, 0.667])
    """
    values = validation.vector(scores, "scores")
    if not len(values) or not np.isfinite(values).all():
        raise InputError("scores must hold at least one score, all finite")
    thresholds, repeats = np.unique(values, return_counts=True)
    below = np.cumsum(repeats) - repeats
    return thresholds, (len(values) - below) / len(values)
