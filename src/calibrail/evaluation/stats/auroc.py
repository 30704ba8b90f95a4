"""How well does a score rank hallucinated answers above faithful ones?

No library that calibrail needs anyway has the variance of an AUROC: scikit-learn gives the area
alone (the tests hold ours against it), scipy the U statistic. Everything here and in
``paired_auroc`` and ``ranking`` rests on the same placement counts.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrail.evaluation.stats.influence import interval
from calibrail.evaluation.stats.measure import Measure, checked_confidence, missing

_Floats = NDArray[np.float64]
_Counts = NDArray[np.int64]


def auroc(hallucinated: _Floats, faithful: _Floats, *, confidence: float = 0.95) -> Measure:
    """Return the area under the ROC curve with DeLong's interval on the logit scale.

    The area is P(S_h > S_f) + P(S_h = S_f)/2. Placement counts come from one sort, O(N log N),
    which gives the same numbers as the midrank algorithm of Sun and Xu (2014) for the variance of
    DeLong et al. (1988). The interval is taken for logit(A), whose standard error is
    se/(A(1 - A)), and mapped back, so that it stays inside (0, 1).

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
        return missing("delong-logit", empty_class(m), level)
    doubled = placements(
        np.concatenate([hallucinated, faithful]), np.repeat([1, 0], [m, n]).astype(np.int8)
    )
    area = mean_placement(doubled[:m], n)
    pairs = min(m, n)
    variance = _variance(doubled[:m], n) + _variance(doubled[m:], m) if pairs > 1 else 0.0
    if variance <= 0.0:
        return without_variance(Measure(area, None, None, "delong-logit", level), pairs)
    half = float(ndtri(1.0 - (1.0 - level) / 2.0)) * math.sqrt(variance)
    return Measure(area, *interval(area, half, "logit"), "delong-logit", level)


def without_variance(area: Measure, pairs: int) -> Measure:
    """Return an AUROC whose missing interval is replaced by one that holds for any scores.

    At 0 or 1 it is Clopper-Pearson's for so many disjoint pairs, elsewhere Hoeffding's.
    """
    if area.estimate is None or area.lower is not None or area.confidence is None:
        return area
    tail = (1.0 - area.confidence) / 2.0
    if area.estimate in (0.0, 1.0):
        edge = tail ** (1.0 / pairs)
        lower, upper = (edge, 1.0) if area.estimate == 1.0 else (0.0, 1.0 - edge)
        return Measure(area.estimate, lower, upper, "clopper-pearson-pairs", area.confidence)
    half = math.sqrt(math.log(1.0 / tail) / (2.0 * pairs))
    lower, upper = max(0.0, area.estimate - half), min(1.0, area.estimate + half)
    return Measure(area.estimate, lower, upper, "hoeffding", area.confidence)


def empty_class(n_hallucinated: int) -> str:
    """Return why there is no AUROC where a class is empty."""
    return f"there is no {'faithful' if n_hallucinated else 'hallucinated'} example"


def placements(values: _Floats, labels: NDArray[np.int8], bins: _Counts | None = None) -> _Counts:
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
    order = np.argsort(values) if bins is None else np.lexsort((values, bins))
    ordered, hallucinated = values[order], labels[order] == 1
    first = np.append(True, ordered[1:] != ordered[:-1])
    bin_first = np.append(True, np.zeros(len(order) - 1, dtype=bool))
    if bins is not None:
        bin_first[1:] = np.diff(bins[order]) != 0
        first |= bin_first

    def both_ends(starts: NDArray[np.bool_], members: NDArray[np.bool_]) -> tuple[_Counts, _Counts]:
        """Return how many members stand before the start and the end of each example's run."""
        before = np.append(0, np.cumsum(members))
        begins = np.flatnonzero(starts)
        ends = np.append(begins[1:], len(members))
        run = np.cumsum(starts) - 1
        return before[begins][run], before[ends][run]

    below, upto = both_ends(first, ~hallucinated)
    doubled = below + upto - 2 * both_ends(bin_first, ~hallucinated)[0]
    below, upto = both_ends(first, hallucinated)
    above = 2 * both_ends(bin_first, hallucinated)[1] - below - upto
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.where(hallucinated, doubled, above)
    return result


def mean_placement(doubled: _Counts, others: int) -> float:
    """Return the share of pairs that are ranked right, from doubled counts of one class."""
    return float(int(doubled.sum()) / (2 * others * len(doubled)))


def _variance(doubled: _Counts, others: int) -> float:
    """Return the variance of a mean placement, from doubled counts."""
    if int(doubled.min()) == int(doubled.max()):
        return 0.0
    return float(np.var(doubled / (2.0 * others), ddof=1)) / len(doubled)
