"""Do two scores rank the same answers equally well?"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from calibrail.evaluation.stats.auroc import empty_class, mean_placement, placements
from calibrail.evaluation.stats.measure import (
    Difference,
    Measure,
    checked_confidence,
    missing,
    no_difference,
)


def auroc_test(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    labels: NDArray[np.int8],
    groups: NDArray[np.int64] | None = None,
    *,
    confidence: float = 0.95,
) -> Difference:
    """Test whether two scores rank the same answers equally well.

    DeLong's paired test (1988), with the variance that Obuchowski (1997) gave for groups: placement
    values are summed within each group, hallucinated and faithful answers of one group included.
    Where that variance is zero, Hoeffding's inequality for a kernel in [-1, 1] takes its place.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n,)
        Scores without NaN, higher = more likely hallucinated.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    groups : ndarray of int64, shape (n,), optional
        What answers share; without it every answer stands alone.
    confidence : float
        Level of the interval.

    Examples
    --------
    >>> labels = np.array([1, 1, 1, 0, 0, 0], dtype=np.int8)
    >>> one, two = np.array([3.0, 2, 4, 1, 0, 2]), np.array([1.0, 2, 0, 3, 1, 2])
    >>> test = auroc_test(one, two, labels, np.arange(6))
    >>> round(test.estimate, 3), round(test.p_value, 4), test.method
    (0.722, 0.0037, 'delong-paired')
    """
    level = checked_confidence(confidence)
    positive, negative = labels == 1, labels == 0
    m, n = int(positive.sum()), int(negative.sum())
    if m == 0 or n == 0:
        return no_difference("delong-paired")
    # Twice the counts, as whole numbers: equal placements give a variance of exactly zero.
    doubled = placements(first, labels) - placements(second, labels)
    estimate = mean_placement(doubled[positive], n)
    member = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(member.max()) + 1
    sums = []
    for part, others in ((positive, n), (negative, m)):
        values = doubled[part]
        gap = values / (2.0 * others) - estimate
        if int(values.min()) == int(values.max()):
            gap = np.zeros(len(values))
        sums.append(np.bincount(member[part], weights=gap, minlength=n_groups) / len(values))
    held = [len(np.unique(member[part])) for part in (positive, negative)]
    variance = 0.0
    if min(held) > 1:
        variance = sum(g / (g - 1) * float(s @ s) for g, s in zip(held, sums, strict=True))
        variance += 2.0 * n_groups / (n_groups - 1) * float(sums[0] @ sums[1])
    tail = (1.0 - level) / 2.0
    if variance > 0.0:
        error = math.sqrt(variance)
        half, p = -float(ndtri(tail)) * error, 2.0 * float(ndtr(-abs(estimate) / error))
        method = "delong-paired" if n_groups == len(labels) else "obuchowski-paired"
        return Difference.of(estimate, half, p, method)
    pairs = min(held)
    half = math.sqrt(2.0 * math.log(1.0 / tail) / pairs)
    return Difference.of(
        estimate, half, 2.0 * math.exp(-pairs * estimate**2 / 2.0), "hoeffding-paired"
    )


def auroc_difference(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    labels: NDArray[np.int8],
    *,
    confidence: float = 0.95,
) -> Measure:
    """Return AUROC(first) - AUROC(second) on the same answers, every answer standing alone.

    Parameters are those of ``auroc_test``, whose interval this is.

    Returns
    -------
    Measure
        The difference is shown to differ from zero where its interval leaves zero out.
    """
    test = auroc_test(first, second, labels, confidence=confidence)
    if test.estimate is None:
        return missing(test.method, empty_class(int(np.sum(labels == 1))), confidence)
    return Measure(test.estimate, test.lower, test.upper, test.method, confidence)
