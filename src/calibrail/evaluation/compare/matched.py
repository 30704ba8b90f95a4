"""What does each detector cost at exactly the same coverage of the test answers?

Thresholds calibrated to one target still catch different shares of the test answers: chance moves
them, and ties push them up. Here every threshold is set on the test answers themselves, so that all
detectors catch the same share. That describes this data; it is no promise, and decides nothing.

A detector with few distinct values (a yes/no judge) cannot reach every coverage. What it can reach
is listed, and the others are compared with it *there*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.compare.candidate import Contender
from calibrail.evaluation.compare.fixed_coverage import FixedCoverage
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


def matched_coverage(
    contenders: Sequence[Contender],
    target: float,
    test: NDArray[np.bool_],
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    *,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Return every contender's FPR at the same coverage of the test answers.

    Coverages compared: the target, and for each detector that cannot come near the target short of
    flagging everything, the highest coverage that it does reach.

    Parameters
    ----------
    contenders : sequence of Contender
        Detectors and baselines.
    target : float
        Coverage that all were calibrated to.
    test : ndarray of bool, shape (n,)
        The test examples.
    labels, groups : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; what examples share.
    confidence : float
        Level of the intervals: the middle of bootstrap draws of whole groups, each with its own
        threshold (the same one where ties leave no other), and never narrower than Wilson's.
    draws, seed : int
        Of the bootstrap, fewer for very many examples.

    Returns
    -------
    dict
        ``levels``, each with ``coverage``, ``set_by`` (the detector whose reach it is, None for
        the target) and ``rows``; ``attainable``, for each contender with few distinct values.
        Both are empty where the test part lacks a class or nothing is compared.
    """
    caught, faithful = test & (labels == 1), test & (labels == 0)
    m = int(caught.sum())
    found: dict[str, Any] = {"levels": [], "attainable": [], "confidence": confidence}
    if m == 0 or not faithful.any() or not contenders:
        return found
    reach = {
        item.name: _reach(item.ranked[caught], item.ranked[faithful])
        for item in contenders
        if not item.baseline
    }
    short: dict[float, str] = {}
    for name, share in reach.items():
        if 0.0 < share < target - 1.0 / m:
            short.setdefault(share, name)
    # Of levels close to each other the lowest serves all.
    levels = sorted(short, reverse=True)
    following = [*levels[1:], -1.0][: len(levels)]
    lower = [c for c, below in zip(levels, following, strict=True) if c - below > _NEAR]
    lower = lower[: _MOST_LEVELS - 1]
    for coverage in (target, *lower):
        # 1e-9 keeps 0.1 * 30 = 3.0000000000000004 from being more than 3.
        rank = 1 + math.floor((1.0 - coverage) * m + 1e-9)
        rows = _rows(contenders, min(rank, m), test, labels, groups, confidence, draws, seed)
        found["levels"].append(
            {"coverage": coverage, "set_by": short.get(coverage), "missed": rank - 1, "rows": rows}
        )
    for item in contenders:
        values = np.unique(item.ranked[test])
        if len(values) <= FEW_VALUES:
            found["attainable"].append(
                {"name": item.name, "baseline": item.baseline}
                | {"at": _attainable(item, values, caught, faithful, confidence)}
            )
    return found


def _reach(hallucinated: NDArray[np.float64], faithful: NDArray[np.float64]) -> float:
    """Return the highest coverage at which some faithful answer passes; 0 where none can."""
    ladder = np.unique(np.concatenate([hallucinated, faithful]))
    above = ladder[ladder > faithful.min()]
    return float(np.mean(hallucinated >= above[0])) if len(above) else 0.0


def _rows(
    contenders: Sequence[Contender],
    rank: int,
    test: NDArray[np.bool_],
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    confidence: float,
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    positive, negative = labels[test] == 1, labels[test] == 0
    scores = [item.ranked[test] for item in contenders]
    thresholds = [float(np.partition(x[positive], rank - 1)[rank - 1]) for x in scores]
    ladders = [FixedCoverage(x[positive], x[negative], rank) for x in scores]
    tied = [_tied(x[positive], edge) for x, edge in zip(scores, thresholds, strict=True)]
    alarms = [x[negative] >= edge for x, edge in zip(scores, thresholds, strict=True)]

    def fpr(place: int, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = counts[:, negative]
        if tied[place]:
            share: NDArray[np.float64] = drawn @ alarms[place] / drawn.sum(axis=1)
            return share
        return ladders[place].fpr(counts[:, positive], drawn)

    drawn = np.concatenate(
        [
            np.stack([fpr(place, counts) for place in range(len(contenders))], axis=1)
            for counts in bootstrap_counts(
                groups[test], labels[test], draws=draws_for(int(test.sum()), draws), seed=seed,
                stream=4,
            )
        ]
    )  # fmt: skip
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    rows = []
    for place, item in enumerate(contenders):
        threshold = thresholds[place]
        flagged = scores[place] >= threshold
        cost = wilson(int(np.sum(flagged & negative)), int(negative.sum()), confidence).to_dict()
        cost["lower"] = min(cost["lower"], float(low[place]))
        cost["upper"] = max(cost["upper"], float(high[place]))
        cost["method"] = "bootstrap-groups, at least wilson"
        attained = wilson(int(np.sum(flagged & positive)), int(positive.sum()), confidence)
        rows.append(
            {
                "name": item.name,
                "baseline": item.baseline,
                # Without a finite threshold the undefined answers alone decide.
                "threshold": threshold if math.isfinite(threshold) else None,
                "attained": attained.to_dict(),
                "fpr": cost,
            }
        )
    return sorted(rows, key=lambda row: (row["fpr"]["estimate"], -row["attained"]["estimate"]))


def _tied(hallucinated: NDArray[np.float64], threshold: float) -> bool:
    """Return whether ties at the threshold, or just below it, make coverage jump."""
    below = hallucinated[hallucinated < threshold]
    steps = [np.mean(hallucinated == threshold)]
    if len(below):
        steps.append(np.mean(hallucinated == below.max()))
    return max(map(float, steps)) > _TIED


def _attainable(
    item: Contender,
    values: NDArray[np.float64],
    caught: NDArray[np.bool_],
    faithful: NDArray[np.bool_],
    confidence: float,
) -> list[dict[str, Any]]:
    """Return each distinct value as a threshold, with the coverage and the FPR that it gives."""
    return [
        {
            "threshold": value if math.isfinite(value) else None,
            **{
                name: wilson(
                    int(np.sum(item.ranked[part] >= value)), int(part.sum()), confidence
                ).to_dict()
                for name, part in (("coverage", caught), ("fpr", faithful))
            },
        }
        for value in values.tolist()
    ]
