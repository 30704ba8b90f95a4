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
    following = [*levels[1:], -1.0][: len(levels)]
    lower = [c for c, below in zip(levels, following, strict=True) if c - below > _NEAR]
    lower = lower[: _MOST_LEVELS - 1]
    for coverage in (target, *lower):
        # 1e-9 keeps 0.1 * 30 = 3.0000000000000004 from being more than 3.
        rank = 1 + math.floor((1.0 - coverage) * m + 1e-9)
        rows = _rows(candidates, test, min(rank, m), draws)
        result["levels"].append(
            {"coverage": coverage, "set_by": short.get(coverage), "missed": rank - 1, "rows": rows}
        )
    for item in candidates:
        values = np.unique(item.ranked[test])
        if len(values) <= FEW_VALUES:
            attained = _attainable(values, item.ranked[caught], item.ranked[faithful], confidence)
            result["attainable"].append(
                {"name": item.name, "baseline": item.baseline, "at": attained}
            )
    return result


def _reach(hallucinated: Floats, faithful: Floats) -> float:
    """Return the highest coverage at which some faithful answer passes; 0 where none can."""
    ladder = np.unique(np.concatenate([hallucinated, faithful]))
    above = ladder[ladder > faithful.min()]
    return float(np.mean(hallucinated >= above[0])) if len(above) else 0.0


def _rows(candidates: Candidates, test: Mask, rank: int, draws: int) -> list[dict[str, Any]]:
    labels, groups = candidates.labels[test], candidates.groups[test]
    positive, negative = labels == 1, labels == 0
    scores = [item.ranked[test] for item in candidates]
    ladders = [FixedCoverage(x[positive], x[negative], rank) for x in scores]
    tied = [_tied(x[positive], one.threshold) for x, one in zip(scores, ladders, strict=True)]
    alarms = [x[negative] >= one.threshold for x, one in zip(scores, ladders, strict=True)]

    def fpr(place: int, counts: NDArray[np.int64]) -> Floats:
        faithful = counts[:, negative]
        if tied[place]:
            share: Floats = faithful @ alarms[place] / faithful.sum(axis=1)
            return share
        return ladders[place].fpr(counts[:, positive], faithful)

    n_draws = draws_for(len(labels), draws)
    drawn = np.concatenate(
        [
            np.stack([fpr(place, counts) for place in range(len(candidates))], axis=1)
            for counts in bootstrap_counts(
                groups, labels, draws=n_draws, seed=candidates.seed, stream=4
            )
        ]
    )
    tail = (1.0 - candidates.confidence) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    rows = []
    for place, item in enumerate(candidates):
        threshold = ladders[place].threshold
        shares = _shares(
            scores[place][positive], scores[place][negative], threshold, candidates.confidence
        )
        cost = shares["fpr"]
        cost["lower"] = min(cost["lower"], float(low[place]))
        cost["upper"] = max(cost["upper"], float(high[place]))
        cost["method"] = "bootstrap-groups, at least wilson"
        rows.append(
            {
                "name": item.name,
                "baseline": item.baseline,
                "threshold": _finite(threshold),
                "attained": shares["coverage"],
                "fpr": cost,
            }
        )
    return sorted(rows, key=lambda row: (row["fpr"]["estimate"], -row["attained"]["estimate"]))


def _tied(hallucinated: Floats, threshold: float) -> bool:
    """Return whether ties at the threshold, or just below it, make coverage jump."""
    below = hallucinated[hallucinated < threshold]
    steps = [np.mean(hallucinated == threshold)]
    if len(below):
        steps.append(np.mean(hallucinated == below.max()))
    return max(map(float, steps)) > _TIED


def _attainable(
    values: Floats, hallucinated: Floats, faithful: Floats, confidence: float
) -> list[dict[str, Any]]:
    """Return each distinct value as a threshold, with the coverage and the FPR that it gives."""
    return [
        {"threshold": _finite(value), **_shares(hallucinated, faithful, value, confidence)}
        for value in values.tolist()
    ]


def _shares(
    hallucinated: Floats, faithful: Floats, threshold: float, confidence: float
) -> dict[str, Any]:
    """Return coverage and FPR of a threshold with Wilson's intervals."""
    return {
        name: wilson(int(np.sum(values >= threshold)), len(values), confidence).to_dict()
        for name, values in (("coverage", hallucinated), ("fpr", faithful))
    }


def _finite(threshold: float) -> float | None:
    """Return a threshold; None where the undefined answers alone decide."""
    return threshold if math.isfinite(threshold) else None
