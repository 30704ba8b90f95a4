"""AUROC, partial AUROC, clustered ranking.

No library that calibrail needs anyway has the variance of an AUROC: scikit-learn gives the area
alone (the tests hold ours against it), scipy the U statistic. Everything here and in ``ranking``
rests on the same placement counts.

A guardrail works where nearly all hallucinations are caught. The whole AUROC mixes that corner with
thresholds that nobody would use.

scikit-learn has the area (the tests hold ours against it), one sample at a time: 1,000 draws of
2,000 answers take it six times as long as they take here.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from calibrail.data.example import n_repeated
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.intervals import Codes, Difference, Estimated, Floats, Ints, Measure
from calibrail.options.fields import share

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
    units, ordered = min(m, n), (np.sort(hallucinated), np.sort(faithful))
    right = _twice_below(ordered[1], ordered[0])
    wrong = np.ascontiguousarray(2 * m - _twice_below(*ordered)[::-1])
    area = _mean_placement(right, n)
    variance = _variance(right, n) + _variance(wrong, m) if units > 1 else 0.0
    return area_measure(area, variance, units, _METHOD, confidence)


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
    return intervals.missing(method, f"no_{name}", confidence)


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
    codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    size = len(codes) + 1
    first = np.zeros(len(codes), np.int64) if bins is None else size * bins
    keys, result = first + codes, np.empty(len(codes), np.int64)
    for label in (1, 0):
        own, others = labels == label, np.sort(keys[labels != label])
        begin, end = np.searchsorted(others, first[own]), np.searchsorted(others, first[own] + size)
        twice = _twice_below(others, keys[own])
        result[own] = twice - 2 * begin if label else 2 * end - twice
    return result


def _twice_below(others: Floats | Ints, values: Floats | Ints) -> Ints:
    """Return of each value twice how many of the others, in order, it exceeds; ties count once."""
    below, up_to = (np.searchsorted(others, values, side) for side in ("left", "right"))
    return below + up_to


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
    member = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    # Twice the counts, as whole numbers: equal placements give a variance of exactly zero.
    doubled = placements(first, labels) - placements(second, labels)
    return test_of_placements(doubled, labels, member, confidence)


def test_of_placements(
    doubled: Ints, labels: Codes, member: Ints, confidence: float = 0.95
) -> Difference:
    """Test, as ``auroc_test`` does, from the differences of placements and the groups' numbers."""
    tail = (1.0 - share(confidence, "confidence")) / 2.0
    classes = labels == 1, labels == 0
    m, n = (int(part.sum()) for part in classes)
    if m == 0 or n == 0:
        return intervals.no_difference("delong-paired")
    estimate = _mean_placement(doubled[classes[0]], n)
    n_groups, sums = int(member.max()) + 1, []
    for part, others in zip(classes, (n, m), strict=True):
        values = doubled[part]
        gap = values / (2.0 * others) - estimate
        if int(values.min()) == int(values.max()):
            gap = np.zeros(len(values))
        sums.append(np.bincount(member[part], weights=gap, minlength=n_groups) / len(values))
    held = [np.count_nonzero(np.bincount(member[part])) for part in classes]
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
    first: Floats, second: Floats, labels: Codes, groups: Ints | None, confidence: float = 0.95
) -> Measure:
    """Return AUROC(first) - AUROC(second) on the same answers.

    Parameters are those of ``auroc_test``, whose interval this is.

    Returns
    -------
    Measure
        The difference is shown to differ from zero where its interval leaves zero out.
    """
    test = auroc_test(first, second, labels, groups, confidence)
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


#: The region: coverage from here up to 1.
LEAST_COVERAGE: Final = 0.8

#: Independent answers (groups) of either class below which there is no interval: it would hold the
#: truth in 0.83 of all cases with 20, in 0.92 with 50 (stated: 0.95; benchmarks/intervals.py).
FEWEST: Final = 100

_PARTIAL_AUROC_METHOD = "bootstrap-groups, McClish"


def partial_auroc(
    ranked: Floats,
    labels: Codes,
    groups: Ints,
    *,
    least_coverage: float = LEAST_COVERAGE,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Measure:
    """Return the area under the ROC curve where coverage is at least ``least_coverage``.

    The area between the curve and the axis of coverage, over coverage in [c, 1], is standardised
    as McClish (1989) does: 0.5 for a score that guesses, 1 for one that separates the classes
    perfectly. Turned around (faithful answers as the positives, negated scores) it is what
    scikit-learn computes as ``roc_auc_score(max_fpr=1 - c)``.

    The interval holds the middle of bootstrap draws of whole groups; where no draw differs, it is
    Clopper-Pearson's for min(m, n) equal outcomes. With fewer than ``FEWEST`` groups of a class
    there is none: the region then rests on a handful of misses.

    Parameters
    ----------
    ranked : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated, no NaN (see ``ranked_values``).
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    groups : ndarray of int64, shape (n,)
        What examples share; one that stands alone has a number of its own.
    least_coverage : float
        Lower end of the region, in [0, 1).
    confidence : float
        Level of the two-sided interval.
    draws, seed : int
        Bootstrap draws, fewer for very many examples; the same seed gives the same interval.

    Returns
    -------
    Measure
        Without an estimate, and with the reason, if a class is empty.

    Examples
    --------
    >>> labels = np.array([1, 1, 0, 0], dtype=np.int8)
    >>> partial_auroc(np.array([0.9, 0.4, 0.1, 0.5]), labels, np.arange(4)).estimate
    0.7222222222222222
    """
    m, n = int(np.sum(labels == 1)), int(np.sum(labels == 0))
    if m == 0 or n == 0:
        return intervals.missing(_PARTIAL_AUROC_METHOD, "one_class", confidence)
    order = np.argsort(ranked, kind="stable")
    ordered, hallucinated, most = ranked[order], labels[order] == 1, 1.0 - least_coverage
    # Examples of one value are passed together: only where a value ends is there a threshold.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))

    def shares(counts: Ints) -> Floats:
        """Return, per draw, the share of a class at or below each threshold."""
        steps = np.cumsum(counts, axis=1)[:, ends]
        result = np.zeros((len(steps), len(ends) + 1))
        result[:, 1:] = steps / steps[:, -1:]
        return result

    def area(counts: Ints) -> Floats:
        """Return the standardised area of each draw, given how often examples are drawn."""
        missed = shares(counts[:, order] * hallucinated)
        passed = shares(counts[:, order] * ~hallucinated)
        # Trapezoids under the share of faithful answers passed, over the share of misses.
        left, step = missed[:, :-1], np.diff(missed)
        width = np.clip(np.minimum(missed[:, 1:], most) - left, 0.0, None)
        part = np.divide(width, step, out=np.zeros_like(step), where=step > 0.0)
        height = passed[:, :-1] + 0.5 * part * np.diff(passed)
        guessing, perfect = 0.5 * most**2, most
        whole = (width * height).sum(axis=1)
        result: Floats = 0.5 * (1.0 + (whole - guessing) / (perfect - guessing))
        return np.clip(result, 0.0, 1.0)

    estimate = float(area(np.ones((1, len(ranked)), dtype=np.int64))[0])
    if min(len(np.unique(groups[labels == label])) for label in (0, 1)) < FEWEST:
        reason = f"few_for_the_corner:{FEWEST}"
        return Measure(estimate, None, None, _PARTIAL_AUROC_METHOD, confidence, reason)
    draws = intervals.draws_for(len(ranked), draws)
    chunks = intervals.bootstrap_counts(groups, labels, draws=draws, seed=seed, stream=1)
    drawn = np.concatenate([area(counts) for counts in chunks])
    tail = (1.0 - confidence) / 2.0
    lower, upper = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    if float(np.ptp(drawn)) < 1e-12:
        slack = 1.0 - tail ** (1.0 / min(m, n))
        lower, upper = max(0.0, estimate - slack), min(1.0, estimate + slack)
    reach = min(lower, estimate), max(upper, estimate)
    return Measure(estimate, *reach, _PARTIAL_AUROC_METHOD, confidence)


#: How an AUROC's interval is made where answers share groups.
CLUSTERED: Final = "obuchowski, korn-graubard"

#: How finely answers are binned by a feature until it no longer separates the classes within bins.
BINS: Final = (10, 20, 40, 80, 160, 320)

#: A feature's own AUROC within bins may differ from 1/2 by this much.
BALANCE: Final = 0.01

#: Where no bins reach that, the most even ones must come this close.
UNEVEN: Final = 0.05

#: Fewest answers of each class that share a bin with the other class.
RANKING_FEWEST: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """An AUROC over pairs of a hallucinated and a faithful answer from the same bin.

    Parameters
    ----------
    area : Estimated or None
        The share of these pairs in which the hallucinated answer scores higher (ties count half);
        None without a pair.
    n_pairs : int
        Pairs.
    n_hallucinated, n_faithful : int
        Answers that are in a pair.
    n_disjoint : float
        Pairs without a common answer that would be as telling: the smaller class of each bin, less
        where bins differ in their number of pairs.
    """

    area: Estimated | None
    n_pairs: int
    n_hallucinated: int
    n_faithful: int
    n_disjoint: float


def rank_within(values: Floats, labels: Codes, bins: Ints) -> Ranking:
    """Return the AUROC over pairs within bins, every pair counting once, in O(n log n).

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores without NaN, higher = more likely hallucinated.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    bins : ndarray of int64, shape (n,)
        Bin of each answer, counted from 0; all 0 for the AUROC itself.

    Examples
    --------
    >>> labels, bins = np.array([1, 0, 1, 0], np.int8), np.array([0, 0, 1, 1])
    >>> rank_within(np.array([2.0, 1.0, 3.0, 4.0]), labels, bins).area.value
    0.5
    """
    size = int(bins.max(initial=0)) + 1
    faithful, hallucinated = (np.bincount(bins[labels == k], minlength=size) for k in (0, 1))
    n_pairs = int(faithful @ hallucinated)
    if not n_pairs:
        return Ranking(None, 0, 0, 0, 0.0)
    won = placements(values, labels, bins) / 2.0
    area = float(won[labels == 1].sum()) / n_pairs
    others = np.where(labels == 1, faithful[bins], hallucinated[bins])
    mixed = (faithful > 0) & (hallucinated > 0)
    sizes = int(hallucinated[mixed].sum()), int(faithful[mixed].sum())
    smaller, weights = np.minimum(faithful, hallucinated)[mixed], (faithful * hallucinated)[mixed]
    n_disjoint = float(n_pairs) ** 2 / float((weights.astype(np.float64) ** 2 / smaller).sum())
    influence = (won - area * others) / n_pairs
    return Ranking(Estimated(area, influence), n_pairs, *sizes, n_disjoint)


def ranked(values: Floats, labels: Codes) -> Estimated | None:
    """Return the AUROC with each answer's influence; None without both classes."""
    return rank_within(values, labels, np.zeros(len(values), np.int64)).area


def clustered_auroc(
    values: Floats, labels: Codes, clusters: Ints, confidence: float = 0.95
) -> Measure:
    """Return the AUROC of examples that hang together, with its interval.

    The variance is that of Obuchowski (1997), or of ``auroc`` where each example stands alone; see
    ``area_measure`` for the interval.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores without NaN, higher = more likely hallucinated.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    clusters : ndarray of int64, shape (n,)
        What examples hang together with; a number of its own for one that stands alone.
    confidence : float
        Level of the two-sided interval.

    Examples
    --------
    >>> labels, clusters = np.array([1, 0, 1, 0], np.int8), np.array([5, 5, 7, 7])
    >>> clustered_auroc(np.array([2.0, 1.0, 4.0, 3.0]), labels, clusters).estimate
    0.75
    """
    area = ranked(values, labels) if n_repeated(clusters) else None
    if area is None:
        return auroc(values[labels == 1], values[labels == 0], confidence=confidence)
    variance, _ = area.variance(clusters)
    units = min(len(np.unique(clusters[labels == label])) for label in (0, 1))
    return area_measure(area.value, variance, units, CLUSTERED, confidence)


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Bins of a feature within which it hardly tells the classes apart.

    Parameters
    ----------
    bins : ndarray of int64, shape (n,)
        Bin of each answer.
    n_bins : int or None
        Into how many bins of equal frequency the feature was cut; None where answers share a bin
        only with an equal value.
    balance : Ranking
        How well the feature itself ranks answers within bins.
    reason : str or None
        Why there are too few pairs to say anything.
    """

    bins: Ints
    n_bins: int | None
    balance: Ranking
    reason: str | None


def match(feature: Floats, labels: Codes) -> Matching:
    """Bin answers by a feature, as coarsely as balance allows; no score is looked at.

    Of 10, 20, 40, ... bins of equal frequency (equal values together) and equal values alone, the
    coarsest within which the feature's own AUROC lies within 0.01 of 1/2; if none does, the most
    even one, unless that is off by more than 0.05. Ten bins remove most of the confounding by a
    continuous variable (Cochran, 1968), finer ones the rest.
    """
    from scipy.stats import rankdata  # takes long to import

    places = (rankdata(feature) - 0.5) / max(1, len(feature))
    exact = np.unique(feature, return_inverse=True)[1].astype(np.int64)
    nearest = np.inf
    for n_bins in (*BINS, None):
        bins = exact
        if n_bins is not None:
            bins = np.minimum((places * n_bins).astype(np.int64), n_bins - 1)
        balance = rank_within(feature, labels, bins)
        reason = too_few(balance)
        off = np.inf if balance.area is None or reason else abs(balance.area.value - 0.5)
        # Until some bins hold enough answers, the last ones stand, with the reason.
        if off < nearest or np.isinf(nearest):
            best, nearest = Matching(bins, n_bins, balance, reason), off
        if off <= BALANCE:
            break
    return replace(best, reason="bins_uneven") if UNEVEN < nearest < np.inf else best


def too_few(balance: Ranking) -> str | None:
    """Return why too few answers are alike to say anything; None where there are enough."""
    if min(balance.n_hallucinated, balance.n_faithful) >= RANKING_FEWEST:
        return None
    return f"few_alike:{balance.n_hallucinated:,}:{balance.n_faithful:,}:{RANKING_FEWEST}"
