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
from numpy.typing import NDArray

from calibrail.evaluation.compare.candidate import Candidates
from calibrail.evaluation.compare.fixed_coverage import FixedCoverage
from calibrail.evaluation.sample import TEST, Floats, Mask
from calibrail.evaluation.stats.rates import wilson
from calibrail.evaluation.stats.resampling import bootstrap_counts, draws_for

#: A score with at most this many distinct test values has its attainable coverages listed.
FEW_VALUES: Final = 20
#: Coverages at which detectors are compared, at most; the target is always one of them.
_MOST_LEVELS: Final = 5
#: Coverages nearer to each other than this are one level.
_NEAR: Final = 0.05
#: Where more of the hallucinated scores than this share one value, a threshold is not moved there.
_TIED: Final = 0.05


def matched_coverage(candidates: Candidates, target: float, *, draws: int = 1000) -> dict[str, Any]:
    """Return every candidate's FPR at the same coverage of the test answers.

    Coverages compared: the target, and for each detector that cannot come near the target short of
    flagging everything, the highest coverage that it does reach.

    Parameters
    ----------
    candidates : Candidates
        Detectors and baselines, and the level of the intervals: the middle of bootstrap draws of
        whole groups, each with its own threshold (the same one where ties leave no other), and
        never narrower than Wilson's.
    target : float
        Coverage that all were calibrated to.
    draws : int
        Of the bootstrap, fewer for very many examples.

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
        rows = _rows(candidates, test, min(1 + missed, m), draws)
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


def _rows(candidates: Candidates, test: Mask, rank: int, draws: int) -> list[dict[str, Any]]:
    labels, groups = candidates.labels[test], candidates.groups[test]
    positive, negative = labels == 1, labels == 0
    rows, scorers = [], []
    for item in candidates:
        classes = item.ranked[test][positive], item.ranked[test][negative]
        ladder = FixedCoverage(*classes, rank)
        at = _at(ladder.threshold, *classes, candidates.confidence)
        cost = {"threshold": at["threshold"], "attained": at["coverage"], "fpr": at["fpr"]}
        rows.append({"name": item.name, "baseline": item.baseline, **cost})
        tied = _tied(classes[0], ladder.threshold)
        scorers.append((ladder, classes[1] >= ladder.threshold if tied else None))

    def fpr(ladder: FixedCoverage, alarms: Mask | None, counts: NDArray[np.int64]) -> Floats:
        faithful = counts[:, negative]
        if alarms is None:
            return ladder.fpr(counts[:, positive], faithful)
        # Ties leave no other threshold.
        share: Floats = faithful @ alarms / faithful.sum(axis=1)
        return share

    n_draws, seed = draws_for(len(labels), draws), candidates.seed
    drawn = [
        [fpr(*scorer, counts) for scorer in scorers]
        for counts in bootstrap_counts(groups, labels, draws=n_draws, seed=seed, stream=4)
    ]
    tail = (1.0 - candidates.confidence) / 2.0
    ends = np.quantile(np.concatenate(drawn, axis=1), [tail, 1.0 - tail], axis=1)
    for row, low, high in zip(rows, *ends.tolist(), strict=True):
        cost = row["fpr"]
        lower, upper = min(cost["lower"], low), max(cost["upper"], high)
        cost |= {"lower": lower, "upper": upper, "method": "bootstrap-groups, at least wilson"}
    return sorted(rows, key=lambda row: (row["fpr"]["estimate"], -row["attained"]["estimate"]))


def _tied(hallucinated: Floats, threshold: float) -> bool:
    """Return whether ties at the threshold, or just below it, make coverage jump."""
    below = hallucinated[hallucinated < threshold].max(initial=-math.inf)
    return any(np.mean(hallucinated == value) > _TIED for value in (threshold, below))


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
