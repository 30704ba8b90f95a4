"""How well does a score rank answers, among all pairs and among pairs that are alike?"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.stats import rankdata

from calibrail.evaluation.stats.arrays import Codes, Floats, Ints
from calibrail.evaluation.stats.auroc import area_measure, placements, without_a_class
from calibrail.evaluation.stats.influence import Estimated
from calibrail.evaluation.stats.measure import Measure

#: How an AUROC's interval is made where answers share groups.
CLUSTERED: Final = "obuchowski, korn-graubard"

#: How finely answers are binned by a feature until it no longer separates the classes within bins.
BINS: Final = (10, 20, 40, 80, 160, 320)

#: A feature's own AUROC within bins may differ from 1/2 by this much.
BALANCE: Final = 0.01

#: Where no bins reach that, the most even ones must come this close.
UNEVEN: Final = 0.05

#: Fewest answers of each class that share a bin with the other class.
FEWEST: Final = 20


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

    The variance is that of Obuchowski (1997); see ``auroc.area_measure`` for the interval.

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
    area = ranked(values, labels)
    if area is None:
        return without_a_class(CLUSTERED, int(np.sum(labels == 1)), confidence)
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
    if UNEVEN < nearest < np.inf:
        return replace(best, reason="bins_uneven")
    return best


def too_few(balance: Ranking) -> str | None:
    """Return why too few answers are alike to say anything; None where there are enough."""
    if min(balance.n_hallucinated, balance.n_faithful) >= FEWEST:
        return None
    return f"few_alike:{balance.n_hallucinated:,}:{balance.n_faithful:,}:{FEWEST}"
