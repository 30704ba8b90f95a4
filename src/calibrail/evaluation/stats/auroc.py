"""How well does a score rank hallucinated answers above faithful ones?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from calibrail.evaluation.stats.measure import Measure, checked_confidence, missing

_Counts = NDArray[np.int64]


def auroc(
    hallucinated: NDArray[np.float64],
    faithful: NDArray[np.float64],
    *,
    confidence: float = 0.95,
) -> Measure:
    """Return the area under the ROC curve with DeLong's interval on the logit scale.

    The area is P(S_h > S_f) + P(S_h = S_f)/2. Placement values come from two sorts and binary
    searches, O((m + n) log(m + n)), which gives the same numbers as the midrank algorithm of Sun
    and Xu (2014) for the variance of DeLong et al. (1988). The interval is taken for logit(A),
    whose standard error is se/(A(1 - A)), and mapped back, so that it stays inside (0, 1).

    DeLong's variance is zero or undefined in three cases, where a valid interval replaces it:
    at A = 0 or 1, Clopper-Pearson's for min(m, n) disjoint pairs that were all ordered the same
    way; with a single example in a class, or equal placements throughout (a constant score),
    Hoeffding's for two-sample U-statistics, A ± sqrt(log(2/(1 - confidence)) / (2 min(m, n))).

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores per class, higher = more likely hallucinated; infinite values rank as such, NaN is
        not allowed (see ``ranked_values``).
    confidence : float
        Level of the two-sided interval.

    Returns
    -------
    Measure
        Without an estimate, and with the reason, if a class is empty.

    Examples
    --------
    >>> auroc(np.array([0.4, 0.9, 0.8]), np.array([0.1, 0.2, 0.5])).estimate
    0.8888888888888888
    """
    level = checked_confidence(confidence)
    m, n = len(hallucinated), len(faithful)
    if m == 0 or n == 0:
        return missing("delong-logit", _empty(m), level)
    above, below = _placements(hallucinated, faithful)
    area = _mean_placement(above, n)
    pairs = min(m, n)
    tail = (1.0 - level) / 2.0
    if area in (0.0, 1.0):
        edge = tail ** (1.0 / pairs)
        lower, upper = (edge, 1.0) if area == 1.0 else (0.0, 1.0 - edge)
        return Measure(area, lower, upper, "clopper-pearson-pairs", level)
    variance = _variance(above, n) + _variance(below, m) if pairs > 1 else 0.0
    if variance <= 0.0:
        half = math.sqrt(math.log(1.0 / tail) / (2.0 * pairs))
        bounds = max(0.0, area - half), min(1.0, area + half)
        return Measure(area, *bounds, "hoeffding", level)
    half = float(ndtri(1.0 - tail)) * math.sqrt(variance) / (area * (1.0 - area))
    centre = float(logit(area))
    return Measure(
        area, float(expit(centre - half)), float(expit(centre + half)), "delong-logit", level
    )


def auroc_difference(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    labels: NDArray[Any],
    *,
    confidence: float = 0.95,
) -> Measure:
    """Return AUROC(first) - AUROC(second) on the same examples with DeLong's paired interval.

    The variance is that of the paired placement differences (DeLong et al., 1988). Where it is
    zero or undefined, Hoeffding's interval for a kernel in [-1, 1] takes its place.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n,)
        Two scores of the same examples, without NaN, both higher = more likely hallucinated.
    labels : ndarray of integers, shape (n,)
        1 = hallucinated, 0 = faithful.
    confidence : float
        Level of the two-sided interval.

    Returns
    -------
    Measure
        The difference is shown to differ from zero where its interval leaves zero out.
    """
    level = checked_confidence(confidence)
    positive, negative = labels == 1, labels == 0
    m, n = int(positive.sum()), int(negative.sum())
    if m == 0 or n == 0:
        return missing("delong-paired", _empty(m), level)
    above_1, below_1 = _placements(first[positive], first[negative])
    above_2, below_2 = _placements(second[positive], second[negative])
    difference = _mean_placement(above_1 - above_2, n)
    pairs = min(m, n)
    tail = (1.0 - level) / 2.0
    variance = 0.0
    if pairs > 1:
        variance = _variance(above_1 - above_2, n) + _variance(below_1 - below_2, m)
    if variance > 0.0:
        half, method = float(ndtri(1.0 - tail)) * math.sqrt(variance), "delong-paired"
    else:
        half, method = math.sqrt(2.0 * math.log(1.0 / tail) / pairs), "hoeffding-paired"
    lower, upper = max(-1.0, difference - half), min(1.0, difference + half)
    return Measure(difference, lower, upper, method, level)


def _empty(m: int) -> str:
    return f"there is no {'hallucinated' if m == 0 else 'faithful'} example"


def _placements(
    hallucinated: NDArray[np.float64], faithful: NDArray[np.float64]
) -> tuple[_Counts, _Counts]:
    """Return, per example, twice the number of other-class examples that it is ranked right of.

    Integers, so that equal placements are exactly equal and a zero variance is exactly zero.
    """
    order_h, order_f = np.argsort(hallucinated), np.argsort(faithful)
    ordered_h, ordered_f = hallucinated[order_h], faithful[order_f]
    above = np.empty(len(order_h), dtype=np.int64)
    below = np.empty(len(order_f), dtype=np.int64)
    # Sorted queries walk through memory in order, which is several times faster than random ones.
    above[order_h] = _doubled_rank(ordered_f, ordered_h)
    below[order_f] = 2 * len(order_h) - _doubled_rank(ordered_h, ordered_f)
    return above, below


def _doubled_rank(ordered: NDArray[np.float64], queries: NDArray[np.float64]) -> _Counts:
    """Return twice the number of smaller values plus the number of equal ones."""
    smaller = np.searchsorted(ordered, queries, "left").astype(np.int64)
    return smaller + np.searchsorted(ordered, queries, "right")


def _mean_placement(doubled: _Counts, others: int) -> float:
    return float(int(doubled.sum()) / (2 * others * len(doubled)))


def _variance(doubled: _Counts, others: int) -> float:
    """Return the variance of a mean placement, from doubled counts."""
    if int(doubled.min()) == int(doubled.max()):
        return 0.0
    return float(np.var(doubled / (2.0 * others), ddof=1)) / len(doubled)
