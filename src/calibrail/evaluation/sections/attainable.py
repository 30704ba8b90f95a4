"""Which promises can a score with few distinct values keep at all, and at what price?"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from scipy.special import betaincinv

from calibrail.conformal import Calibration
from calibrail.evaluation.sample import TEST, Sample
from calibrail.evaluation.stats.rates import wilson
from calibrail.phrases import count, listed, number, percent

#: A score with at most this many distinct calibration values has few thresholds to choose from.
FEW_DISTINCT: Final = 20
#: A promise this much above the target is another promise.
GAP: Final = 0.02


def attainable(
    calibration: Calibration,
    sample: Sample,
    confidence: float,
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
    scores = calibration.scores
    if not len(scores):
        return None
    distinct, repeats = np.unique(scores, return_counts=True)
    n_distinct = len(distinct)
    # Undefined scores count as caught or missed by the policy, before any threshold.
    missed = calibration.n_undefined if calibration.undefined == "pass" else 0
    below = np.cumsum(repeats) - repeats + missed
    target, slack = 1.0 - calibration.alpha, max(GAP, 2.0 / (calibration.n + 1))
    if n_distinct > FEW_DISTINCT or 2 * n_distinct > len(scores):
        # Many values, and yet nothing between two of them where most answers share one.
        used_at = int(np.searchsorted(distinct, calibration.threshold))
        if calibration.flag_all or used_at >= n_distinct:
            return None
        if 1.0 - _least_alpha(int(below[used_at]), calibration) - target <= slack:
            return None
        near_it = slice(max(0, used_at - 1), used_at + 2)
        distinct, below = distinct[near_it], below[near_it]
    values = sample.values + sample.tolerance
    undefined = np.isnan(values) & (calibration.undefined != "pass")
    steps = []
    for threshold, n_below in zip(distinct.tolist(), below.tolist(), strict=True):
        flagged = (values >= threshold) | undefined
        step: dict[str, Any] = {
            "threshold": threshold,
            "promise": 1.0 - _least_alpha(n_below, calibration),
            "is_used": not calibration.flag_all and threshold == calibration.threshold,
        }
        for name, label in (("coverage", 1), ("fpr", 0)):
            step[name] = wilson(*sample.count(flagged, TEST, label), confidence).to_dict()
        steps.append(step)
    used = next((step for step in steps if step["is_used"]), None)
    near = used is not None and used["promise"] - target <= slack
    # A threshold that no answer stays below keeps any promise, and detects nothing.
    near = near and used is not None and not (values[sample.rows(TEST)] >= used["threshold"]).all()
    return {"target": target, "is_attainable": near, "n_distinct": n_distinct, "steps": steps}


def _least_alpha(below: int, calibration: Calibration) -> float:
    """Return the smallest alpha at which a threshold with so many scores below it is allowed."""
    n = calibration.n
    if calibration.guarantee == "pac":
        return float(betaincinv(below + 1, n - below, 1.0 - (calibration.delta or 0.1)))
    if calibration.guarantee == "paper":
        return below / (n + 1)
    return (below + 1) / (n + 1)


def few_distinct_scores(calibration: Calibration, found: Mapping[str, Any] | None) -> str | None:
    """Warn where ties leave few thresholds; say what they catch, and whether the target is had."""
    if found is None:
        return None
    scores = calibration.scores
    distinct = np.unique(scores)
    if found["n_distinct"] > len(found["steps"]):
        tied = int(np.count_nonzero(scores == calibration.threshold))
        return (
            f"{tied:,} of {count(len(scores), 'hallucinated calibration example')} share the score "
            f"{number(calibration.threshold)}. {_what_can_be_had(found)}Use a score that tells "
            "them apart, such as mode=logprob of a judge."
        )
    at_least = len(scores) - np.searchsorted(scores, distinct, "left")
    caught = at_least + (0 if calibration.undefined == "pass" else calibration.n_undefined)
    shown = [percent(float(c) / calibration.n) for c in sorted(set(caught.tolist()))]
    shares = listed(shown) if len(shown) <= 6 else f"{', '.join(shown[:3])}, ..., {shown[-1]}"
    return (
        f"The score takes only {count(len(distinct), 'distinct value')} on "
        f"{count(len(scores), 'hallucinated calibration example')}, so thresholds can only catch "
        f"{shares} of them. {_what_can_be_had(found)}Use a finer score, such as a probability in "
        "place of a yes/no verdict (mode=logprob of a judge)."
    )


def _what_can_be_had(found: Mapping[str, Any]) -> str:
    """Say that the target itself cannot be had, where that is so, and what can."""
    if found["is_attainable"]:
        return ""
    used = next((step for step in found["steps"] if step["is_used"]), None)
    said = f"{percent(found['target'])} itself cannot be had"
    if used is not None:
        fpr = used["fpr"]
        said += (
            f": the threshold in use, {number(used['threshold'])}, catches more than was asked and "
            f"flags {fpr['count']:,} of {count(fpr['n'], 'faithful test answer')}"
        )
    lower = [
        f"{percent(step['promise'])} (at {percent(step['fpr']['estimate'])} false alarms)"
        for step in found["steps"]
        if 0.0 < step["promise"] < found["target"] and step["fpr"]["estimate"] is not None
    ]
    return f"{said}. Below it, {listed(lower[:3])} can be promised. " if lower else f"{said}. "
