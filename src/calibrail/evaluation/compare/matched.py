"""What does each detector cost at exactly the same coverage of the test answers?

Thresholds calibrated to one target still catch different shares of the test answers: chance moves
them, and ties push them up. Here every threshold is set on the test answers themselves, so that all
detectors catch the same share. That describes this data; it is no promise, and decides nothing.

A detector with few distinct values (a yes/no judge) cannot reach every coverage. What it can reach
is listed, and the others are compared with it *there*.
"""

import math
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc

from calibrail.evaluation.compare.candidate import Candidates
from calibrail.evaluation.sample import TEST, Floats, Mask
from calibrail.evaluation.stats.arrays import Ints
from calibrail.evaluation.stats.rates import wilson

#: A score with at most this many distinct test values has its attainable coverages listed.
FEW_VALUES: Final = 20
#: Coverages at which detectors are compared, at most; the target is always one of them.
_MOST_LEVELS: Final = 5
#: Coverages nearer to each other than this are one level.
_NEAR: Final = 0.05
#: Where more of the hallucinated scores than this, and at least so many, share one value, a
#: threshold is not moved there.
_TIED: Final = 0.05
_LEAST_TIED: Final = 5


def matched_coverage(candidates: Candidates, target: float) -> dict[str, Any]:
    """Return every candidate's FPR at the same coverage of the test answers.

    Coverages compared: the target, and for each detector that cannot come near the target short of
    flagging everything, the highest coverage that it does reach.

    Parameters
    ----------
    candidates : Candidates
        Detectors and baselines, and the level of the intervals (see ``_interval``).
    target : float
        Coverage that all were calibrated to.

    Returns
    -------
    dict
        ``levels``, each with ``coverage``, ``set_by`` (the detector whose reach it is, None for
        the target) and ``rows``; ``attainable``, for each candidate with few distinct values.
        Both are empty where the test part lacks a class or nothing is compared.
    """
    test = candidates.split == TEST
    caught, faithful = (test & (candidates.labels == label) for label in (1, 0))
    m, confidence = int(caught.sum()), candidates.confidence
    result: dict[str, Any] = {"levels": [], "attainable": [], "confidence": confidence}
    if m == 0 or not faithful.any() or not len(candidates):
        return result
    short: dict[float, str] = {}
    for item in candidates:
        share = 0.0 if item.baseline else _reach(item.ranked[caught], item.ranked[faithful])
        if 0.0 < share < target - 1.0 / m:
            short.setdefault(share, item.name)
    # Of levels close to each other the lowest serves all.
    levels = sorted(short, reverse=True)
    lower = [c for c, below in zip(levels, [*levels[1:], -1.0], strict=False) if c - below > _NEAR]
    for coverage in (target, *lower[: _MOST_LEVELS - 1]):
        # 1e-9 keeps 0.1 * 30 = 3.0000000000000004 from being more than 3.
        missed = math.floor((1.0 - coverage) * m + 1e-9)
        rows = _rows(candidates, test, min(1 + missed, m), 1.0 - coverage)
        result["levels"].append(
            {"coverage": coverage, "set_by": short.get(coverage), "missed": missed, "rows": rows}
        )
    for item in candidates:
        values = np.unique(item.ranked[test])
        if len(values) <= FEW_VALUES:
            classes = item.ranked[caught], item.ranked[faithful]
            attained = [_at(value, *classes, confidence) for value in values.tolist()]
            result["attainable"].append(
                {"name": item.name, "baseline": item.baseline, "at": attained}
            )
    return result


def _reach(hallucinated: Floats, faithful: Floats) -> float:
    """Return the highest coverage at which some faithful answer passes; 0 where none can."""
    ladder = np.concatenate([hallucinated, faithful])
    above = ladder[ladder > faithful.min()]
    return float(np.mean(hallucinated >= above.min())) if len(above) else 0.0


def _rows(candidates: Candidates, test: Mask, rank: int, share: float) -> list[dict[str, Any]]:
    labels, groups = candidates.labels[test], candidates.groups[test]
    positive, negative = labels == 1, labels == 0
    sizes = _independent(groups[positive]), _independent(groups[negative])
    rows = []
    for item in candidates:
        classes = item.ranked[test][positive], item.ranked[test][negative]
        ladder = np.sort(classes[0])
        at = _at(float(ladder[rank - 1]), *classes, candidates.confidence)
        at["fpr"] |= _interval(ladder, classes[1], rank, share, sizes, candidates.confidence)
        cost = {"threshold": at["threshold"], "attained": at["coverage"], "fpr": at["fpr"]}
        rows.append({"name": item.name, "baseline": item.baseline, **cost})
    return sorted(rows, key=lambda row: (row["fpr"]["estimate"], -row["attained"]["estimate"]))


def _interval(
    ladder: Floats,
    faithful: Floats,
    rank: int,
    share: float,
    sizes: tuple[float, float],
    confidence: float,
) -> dict[str, Any]:
    """Return the interval of the FPR at the threshold that misses a share of all hallucinations.

    Other hallucinated answers would have set another threshold, other faithful ones would have
    been flagged. The distribution-free interval of the quantile, between two order statistics
    (interpolated: Hutson, "Calculating nonparametric confidence intervals for quantiles using
    fractional order statistics", 1999), gives the FPR at either end; Wilson's interval holds at
    the threshold seen. The distances of the two from the estimate are combined as the square root
    of the sum of their squares (MOVER: Zou and Donner, 2008).

    Where even the lowest score lies above the quantile too often, nothing bounds the threshold
    from below, nor the FPR from above. Where ties leave no other threshold, Wilson's interval
    stands alone.

    Parameters
    ----------
    ladder : ndarray of float64, shape (m,)
        Scores of hallucinated answers, ascending.
    faithful : ndarray of float64, shape (n,)
        Scores of faithful answers.
    rank : int
        Of the threshold on the ladder.
    share : float
        Share of hallucinated answers that the threshold is to miss.
    sizes : (float, float)
        Independent answers of each class.
    confidence : float
        Level of the interval.
    """
    m, fpr = len(ladder), float(np.mean(faithful >= ladder[rank - 1]))
    n_hallucinated, n_faithful = sizes
    fixed = wilson(round(fpr * n_faithful), max(1, round(n_faithful)), confidence)
    lower, upper = min(fpr, fixed.lower), max(fpr, fixed.upper)
    if _tied(ladder, float(ladder[rank - 1])):
        return {"lower": lower, "upper": upper, "method": "wilson", "reason": None}
    tail, method = (1.0 - confidence) / 2.0, "order statistics and wilson, mover"
    first, last = _quantile_ranks(n_hallucinated, share, tail)
    flagged = 1.0 - np.searchsorted(np.sort(faithful), ladder, side="left") / len(faithful)
    scale = (m + 1) / (n_hallucinated + 1)
    low, high = np.interp([last * scale, first * scale], np.arange(1, m + 1), flagged).tolist()
    least = 0.0 if last > n_hallucinated else min(fpr, low)
    lower = max(0.0, fpr - math.hypot(fpr - lower, fpr - least))
    if first < 1.0:
        needed = math.ceil(math.log(tail) / math.log1p(-share))
        return {"lower": lower, "upper": None, "method": method, "reason": f"few_to_miss:{needed}"}
    upper = min(1.0, fpr + math.hypot(upper - fpr, max(fpr, high) - fpr))
    return {"lower": lower, "upper": upper, "method": method, "reason": None}


def _quantile_ranks(n: float, share: float, tail: float) -> tuple[float, float]:
    """Return the ranks, of n, between which the quantile lies but for the tail on either side."""

    def rank(error: float) -> float:
        # The chance that at least so many of n lie below the quantile falls from 1 to 0.
        edge = 1e-9
        return float(brentq(lambda k: betainc(k, n + 1.0 - k, share) - error, edge, n + 1.0 - edge))

    return rank(1.0 - tail), rank(tail)


def _independent(groups: Ints) -> float:
    """Return how many independent answers groups of answers are worth at least.

    The square of the sum of the groups' sizes over the sum of their squares (Kish, 1965): what is
    left where the answers of a group are all alike.
    """
    sizes = np.unique(groups, return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def _tied(hallucinated: Floats, threshold: float) -> bool:
    """Return whether ties at the threshold, or just below it, make coverage jump."""
    below = hallucinated[hallucinated < threshold].max(initial=-math.inf)
    least = max(_LEAST_TIED, _TIED * len(hallucinated))
    return any(np.sum(hallucinated == value) >= least for value in (threshold, below))


def _at(
    threshold: float, hallucinated: Floats, faithful: Floats, confidence: float
) -> dict[str, Any]:
    """Return coverage and FPR of a threshold with Wilson's intervals."""
    shares = {
        name: wilson(int(np.sum(values >= threshold)), len(values), confidence).to_dict()
        for name, values in (("coverage", hallucinated), ("fpr", faithful))
    }
    # Where the undefined answers alone decide, there is none.
    return {"threshold": threshold if math.isfinite(threshold) else None, **shares}
