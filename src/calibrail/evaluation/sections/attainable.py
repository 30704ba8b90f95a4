"""Which promises can a score with few distinct values keep at all, and at what price?"""

import math
from typing import Any, Final

import numpy as np
from scipy.special import betaincinv

from calibrail.conformal import Calibration, ClusteredCalibration
from calibrail.conformal.eprocess import lowest_limit
from calibrail.evaluation.sample import TEST, Sample

#: A score with at most this many distinct calibration values has few thresholds to choose from.
FEW_DISTINCT: Final = 20
#: A promise this much above the target is another promise.
GAP: Final = 0.02


def attainable(
    calibration: Calibration, sample: Sample, confidence: float
) -> dict[str, Any] | None:
    """Return every threshold that the score offers, with its promise and what it does on the test.

    Parameters
    ----------
    calibration : Calibration
        The threshold in use and the calibration scores.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Of the intervals.

    Returns
    -------
    dict or None
        None where any target can be aimed at. Else, all thresholds of a score with few values, or
        those about a gap that ties leave in one with many: ``target``,
        ``is_attainable`` (whether a threshold promises the target and not much more, short of
        flagging everything), and
        ``steps``: ``threshold``, ``promise`` (largest coverage that the guarantee gives it),
        ``coverage`` and ``fpr`` on the test part, ``is_used``.
    """
    distinct, repeats = np.unique(calibration.scores, return_counts=True)
    n_distinct = len(distinct)
    if not n_distinct:
        return None
    # Undefined scores count as caught or missed by the policy, before any threshold.
    missed = calibration.n_undefined if calibration.undefined == "pass" else 0
    below = np.cumsum(repeats) - repeats + missed
    target, slack = 1.0 - calibration.alpha, max(GAP, 2.0 / (calibration.n + 1))
    if n_distinct > FEW_DISTINCT or 2 * n_distinct > len(calibration.scores):
        # Many values, and yet nothing between two of them where most answers share one.
        used_at = int(np.searchsorted(distinct, calibration.threshold))
        if isinstance(calibration, ClusteredCalibration):
            # Between two scores of many the answers of a large group leave a gap, too.
            return None
        if calibration.flag_all or used_at >= n_distinct:
            return None
        if 1.0 - _least_alpha(int(below[used_at]), calibration) - target <= slack:
            return None
        near_it = slice(max(0, used_at - 1), used_at + 2)
        distinct, below = distinct[near_it], below[near_it]
    values = sample.values + sample.tolerance
    undefined = np.isnan(values) & (calibration.undefined != "pass")
    steps, is_attainable = [], False
    for threshold, n_below in zip(distinct.tolist(), below.tolist(), strict=True):
        reached = values >= threshold
        coverage, fpr = sample.bounds(reached | undefined, confidence)
        promise = 1.0 - _least_alpha(n_below, calibration)
        is_used = not calibration.flag_all and threshold == calibration.threshold
        # A threshold that no answer stays below keeps any promise, and detects nothing.
        if is_used and promise - target <= slack and not reached[sample.rows(TEST)].all():
            is_attainable = True
        step = {"threshold": threshold, "promise": promise, "is_used": is_used}
        steps.append({**step, "coverage": coverage.to_dict(), "fpr": fpr.to_dict()})
    section = {"target": target, "is_attainable": is_attainable, "n_distinct": n_distinct}
    return {**section, "steps": steps}


def _least_alpha(below: int, calibration: Calibration) -> float:
    """Return the smallest alpha at which a threshold with so many scores below it is allowed."""
    n = calibration.n
    if isinstance(calibration, ClusteredCalibration):
        return calibration.least_alpha(below)
    if calibration.guarantee == "anytime":
        goal = -math.log(calibration.delta or 0.1)
        return 1.0 - float(lowest_limit(n - below, below, goal))
    if calibration.guarantee == "pac":
        return float(betaincinv(below + 1, n - below, 1.0 - (calibration.delta or 0.1)))
    if calibration.guarantee == "paper":
        return below / (n + 1)
    return (below + 1) / (n + 1)
