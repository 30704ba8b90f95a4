"""How well does a score rank hallucinated answers above faithful ones, and another one as well?

No library that calibrail needs anyway has the variance of an AUROC: scikit-learn gives the area
alone (the tests hold ours against it), scipy the U statistic. Everything here and in ``ranking``
rests on the same placement counts.
"""

import math
from typing import Final

import numpy as np
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from calibrail.evaluation.stats.arrays import Codes, Floats, Ints
from calibrail.evaluation.stats.measure import Difference, Measure, missing, no_difference
from calibrail.settings.checks import share

_METHOD: Final = "delong, korn-graubard"


def auroc(hallucinated: Floats, faithful: Floats, *, confidence: float = 0.95) -> Measure:
    """Return the area under the ROC curve with an interval that holds near 1, and for few.

    The area is P(S_h > S_f) + P(S_h = S_f)/2. Placement counts come from one sort, O(N log N),
    which gives the same numbers as the midrank algorithm of Sun and Xu (2014) for the variance of
    DeLong et al. (1988). See ``area_measure`` for the interval.

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
    m, n = len(hallucinated), len(faithful)
    if m == 0 or n == 0:
        return without_a_class(_METHOD, m, confidence)
    classes, units = (np.sort(hallucinated), np.sort(faithful)), min(m, n)
    right = _ranked_right(*classes)
    area, variance = _mean_placement(right, n), _variance(right, n) if units > 1 else 0.0
    if units > 1:
        right = _ranked_right(-classes[1][::-1], -classes[0][::-1])
        variance += _variance(right, m)
    return area_measure(area, variance, units, _METHOD, confidence)


def _ranked_right(own: Floats, others: Floats) -> Ints:
    """Return twice the number of others below each value, and once that of equal ones; all rise."""
    doubled = np.searchsorted(others, own, side="left")
    doubled += np.searchsorted(others, own, side="right")
    return doubled


def area_measure(
    area: float, variance: float, units: float, method: str, confidence: float
) -> Measure:
    """Return an AUROC with its interval, from its estimated variance and its largest one.

    The estimated variance comes from few wrongly ordered pairs where the area is near 0 or 1 or a
    class is small: it is then far too small far too often (at an area of 0.98 and 20 against 500
    answers its logit interval covers 0.68 to 0.92 instead of 0.95). No area of so many disjoint
    pairs has a larger variance than A(1 - A)/``units`` (Birnbaum and Klose, 1957). The two are
    averaged, the estimate with the weight of the pairs that are ordered the rarer way,
    ``units`` min(A, 1 - A), the limit with that of z^2 pairs. The interval is then
    Clopper-Pearson's for as many independent pairs as have that variance (Korn and Graubard,
    "Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data", 1998).

    Parameters
    ----------
    area, variance : float
        The area and its estimated variance, 0 where there is none.
    units : float
        Disjoint pairs of independent answers: of m and n, min(m, n); where answers share groups,
        groups of the class that has fewer.
    method : str
        Where the variance comes from.
    confidence : float
        Level of the two-sided interval.
    """
    tail = (1.0 - share(confidence, "confidence")) / 2.0
    limit, weight = area * (1.0 - area) / units, float(ndtri(tail)) ** 2
    # A single pair says nothing about variance.
    seen = units * min(area, 1.0 - area) if units > 1 else 0.0
    pooled = (seen * variance + weight * limit) / (seen + weight)
    n = area * (1.0 - area) / pooled if pooled > 0.0 else units
    right, wrong = area * n, (1.0 - area) * n
    lower = float(betaincinv(right, wrong + 1.0, tail)) if right > 0.0 else 0.0
    upper = float(betaincinv(right + 1.0, wrong, 1.0 - tail)) if wrong > 0.0 else 1.0
    return Measure(area, min(lower, area), max(upper, area), method, confidence)


def without_a_class(method: str, n_hallucinated: int, confidence: float) -> Measure:
    """Return no AUROC, and which class has no answer."""
    name = "faithful" if n_hallucinated else "hallucinated"
    return missing(method, f"no_{name}", confidence)


def placements(values: Floats, labels: Codes, bins: Ints | None = None) -> Ints:
    """Return, per example, twice the number of other-class examples that it is ranked right of.

    Integers, so that equal placements are exactly equal and a zero variance is exactly zero.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores without NaN, higher = more likely hallucinated.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    bins : ndarray of int64, shape (n,), optional
        Compare only examples of the same bin.

    Examples
    --------
    >>> labels = np.array([1, 1, 0, 0], dtype=np.int8)
    >>> placements(np.array([3.0, 2.0, 2.0, 1.0]), labels).tolist()
    [4, 3, 3, 4]
    """
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    n, order = len(values), np.argsort(values) if bins is None else np.lexsort((values, bins))
    ordered, hallucinated = values[order], labels[order] == 1
    changes = np.zeros(n - 1, dtype=bool) if bins is None else np.diff(bins[order]) != 0
    begins = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]) | changes))
    ends = np.append(begins[1:], n)
    sizes = ends - begins
    # How many faithful examples stand before each place; all others before it are hallucinated.
    faithful = np.append(0, np.cumsum(~hallucinated))
    # Of each run of ties: how many stand before its start, and before its end, added up.
    below = faithful[begins] + faithful[ends]
    above = begins + ends - below
    bin_begins, bin_ends = np.zeros(1, dtype=np.intp), np.full(1, n)
    if bins is not None:
        bin_begins = np.append(0, np.flatnonzero(changes) + 1)
        bin_ends = np.append(bin_begins[1:], n)
        own = np.searchsorted(bin_begins, begins, side="right") - 1
        bin_begins, bin_ends = bin_begins[own], bin_ends[own]
    below -= 2 * faithful[bin_begins]
    above = 2 * (bin_ends - faithful[bin_ends]) - above
    # Of 10^7 examples each of these is tens of megabytes.
    del ordered, begins, ends, faithful
    result = np.empty(n, dtype=np.int64)
    for members, doubled in ((hallucinated, below), (~hallucinated, above)):
        result[order[members]] = np.repeat(doubled, sizes)[members]
    return result


def auroc_test(
    first: Floats,
    second: Floats,
    labels: Codes,
    groups: Ints | None = None,
    confidence: float = 0.95,
) -> Difference:
    """Test whether two scores rank the same answers equally well.

    DeLong's paired test (1988), with the variance that Obuchowski (1997) gave for groups: placement
    values are summed within each group, hallucinated and faithful answers of one group included.
    The variance of few groups is itself uncertain, so the test is Student's t, with a degree of
    freedom less than the rarer class has groups (answers, where each stands alone). Where that
    variance is zero, Hoeffding's inequality for a kernel in [-1, 1] takes its place.

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
    (0.722, 0.1008, 'delong-paired')
    """
    tail = (1.0 - share(confidence, "confidence")) / 2.0
    classes = labels == 1, labels == 0
    m, n = (int(part.sum()) for part in classes)
    if m == 0 or n == 0:
        return no_difference("delong-paired")
    # Twice the counts, as whole numbers: equal placements give a variance of exactly zero.
    doubled = placements(first, labels) - placements(second, labels)
    estimate = _mean_placement(doubled[classes[0]], n)
    member = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups, sums = int(member.max()) + 1, []
    for part, others in zip(classes, (n, m), strict=True):
        values = doubled[part]
        gap = values / (2.0 * others) - estimate
        if int(values.min()) == int(values.max()):
            gap = np.zeros(len(values))
        sums.append(np.bincount(member[part], weights=gap, minlength=n_groups) / len(values))
    held = [len(np.unique(member[part])) for part in classes]
    pairs, variance = min(held), 0.0
    if pairs > 1:
        variance = sum(g / (g - 1) * float(s @ s) for g, s in zip(held, sums, strict=True))
        variance += 2.0 * n_groups / (n_groups - 1) * float(sums[0] @ sums[1])
    if variance > 0.0:
        error = math.sqrt(variance)
        half = -float(stdtrit(pairs - 1, tail)) * error
        p = 2.0 * float(stdtr(pairs - 1, -abs(estimate) / error))
        method = "delong-paired" if n_groups == len(labels) else "obuchowski-paired"
        return Difference.of(estimate, half, p, method)
    half, p = math.sqrt(2.0 * math.log(1.0 / tail) / pairs), math.exp(-pairs * estimate**2 / 2.0)
    return Difference.of(estimate, half, 2.0 * p, "hoeffding-paired")


def auroc_difference(
    first: Floats, second: Floats, labels: Codes, confidence: float = 0.95
) -> Measure:
    """Return AUROC(first) - AUROC(second) on the same answers, every answer standing alone.

    Parameters are those of ``auroc_test``, whose interval this is.

    Returns
    -------
    Measure
        The difference is shown to differ from zero where its interval leaves zero out.
    """
    test = auroc_test(first, second, labels, None, confidence)
    if test.estimate is None:
        return without_a_class(test.method, int(np.sum(labels == 1)), confidence)
    return Measure(test.estimate, test.lower, test.upper, test.method, confidence)


def _mean_placement(doubled: Ints, others: int) -> float:
    """Return the share of pairs that are ranked right, from doubled counts of one class."""
    return float(int(doubled.sum()) / (2 * others * len(doubled)))


def _variance(doubled: Ints, others: int) -> float:
    """Return the variance of a mean placement, from doubled counts."""
    if int(doubled.min()) == int(doubled.max()):
        return 0.0
    return float(np.var(doubled / (2.0 * others), ddof=1)) / len(doubled)
