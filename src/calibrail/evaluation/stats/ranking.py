"""How well does a score rank answers, among all pairs and among pairs that are alike?"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from calibrail.evaluation.stats.auroc import auroc, placements, without_variance
from calibrail.evaluation.stats.influence import Estimated, measured
from calibrail.evaluation.stats.measure import Measure, missing

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Labels = NDArray[np.int8]

#: How finely answers are binned by a feature until it no longer separates the classes within bins.
BINS: Final = (10, 20, 40, 80, 160, 320)

#: A feature's own AUROC within bins may differ from 1/2 by this much.
BALANCE: Final = 0.01

#: Where no bins reach that, the most even ones must come this close.
UNEVEN: Final = 0.05

#: Fewest answers of each class that share a bin with the other class.
FEWEST: Final = 20

#: How an AUROC's interval is made where answers share groups.
CLUSTERED: Final = "obuchowski-logit"


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
    """

    area: Estimated | None
    n_pairs: int
    n_hallucinated: int
    n_faithful: int


def rank_within(values: _Floats, labels: _Labels, bins: _Ints) -> Ranking:
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
        return Ranking(None, 0, 0, 0)
    won = placements(values, labels, bins) / 2.0
    area = float(won[labels == 1].sum()) / n_pairs
    others = np.where(labels == 1, faithful[bins], hallucinated[bins])
    mixed = (faithful > 0) & (hallucinated > 0)
    sizes = int(hallucinated[mixed].sum()), int(faithful[mixed].sum())
    return Ranking(Estimated(area, (won - area * others) / n_pairs), n_pairs, *sizes)


def ranked(values: _Floats, labels: _Labels) -> Estimated | None:
    """Return the AUROC with each answer's influence; None without both classes."""
    return rank_within(values, labels, np.zeros(len(values), np.int64)).area


def area_measure(
    values: _Floats, labels: _Labels, clusters: _Ints, confidence: float = 0.95
) -> Measure:
    """Return the AUROC with DeLong's interval, or Obuchowski's where answers share clusters.

    At 0 or 1, where both variances vanish, Clopper-Pearson's interval for as many disjoint pairs
    as there are clusters that hold the rarer class.
    """
    hallucinated, faithful = labels == 1, labels == 0
    area = ranked(values, labels)
    if area is None or len(np.unique(clusters)) == len(clusters):
        return auroc(values[hallucinated], values[faithful], confidence=confidence)
    pairs = min(len(np.unique(clusters[part])) for part in (hallucinated, faithful))
    return without_variance(measured(area, clusters, CLUSTERED, confidence, "logit"), pairs)


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

    bins: _Ints
    n_bins: int | None
    balance: Ranking
    reason: str | None


def match(feature: _Floats, labels: _Labels) -> Matching:
    """Bin answers by a feature, as coarsely as balance allows; no score is looked at.

    Of 10, 20, 40, ... bins of equal frequency (equal values together) and equal values alone, the
    coarsest within which the feature's own AUROC lies within 0.01 of 1/2; if none does, the most
    even one, unless that is off by more than 0.05. Ten bins remove most of the confounding by a
    continuous variable (Cochran, 1968), finer ones the rest.
    """
    places = (rankdata(feature) - 0.5) / max(1, len(feature))
    exact = np.unique(feature, return_inverse=True)[1].astype(np.int64)
    best = Matching(exact, None, rank_within(feature, labels, exact), None)
    best = replace(best, reason=too_few(best.balance))
    off = np.inf
    for n_bins in (*BINS, None):
        bins = exact
        if n_bins is not None:
            bins = np.minimum((places * n_bins).astype(np.int64), n_bins - 1)
        balance = rank_within(feature, labels, bins)
        if balance.area is None or too_few(balance) is not None:
            continue
        away = abs(balance.area.value - 0.5)
        if away < off:
            best, off = Matching(bins, n_bins, balance, None), away
        if away <= BALANCE:
            break
    if np.isfinite(off) and off > UNEVEN:
        return replace(
            best, reason="no bins are narrow enough to make pairs alike and wide enough to hold any"
        )
    return best


def too_few(balance: Ranking) -> str | None:
    """Return why too few answers are alike to say anything; None where there are enough."""
    n_h, n_f = balance.n_hallucinated, balance.n_faithful
    if min(n_h, n_f) >= FEWEST:
        return None
    return (
        f"only {n_h:,} hallucinated and {n_f:,} faithful answers are alike in it "
        f"({FEWEST} of each are needed)"
    )


def matched_measure(
    ranking: Ranking, clusters: _Ints, reason: str | None, confidence: float = 0.95
) -> Measure:
    """Return an AUROC over matched pairs with its interval, or why there is none."""
    if reason is not None or ranking.area is None:
        return missing(CLUSTERED, reason or "no two answers of both classes are alike", confidence)
    pairs = min(ranking.n_hallucinated, ranking.n_faithful)
    area = measured(ranking.area, clusters, CLUSTERED, confidence, "logit")
    return without_variance(area, pairs)
