"""What does a three-way decision promise on each side, and how much must people look at?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrail.conformal import DECISIONS, exact_bound, least_withheld
from calibrail.conformal.rule import Rule
from calibrail.evaluation.sample import TEST, Sample
from calibrail.evaluation.stats.rates import wilson


def three_way_review(
    rule: Rule,
    groups: Sequence[str] | None,
    sample: Sample,
    confidence: float,
) -> dict[str, Any]:
    """Return the shares of both classes that pass, go to review and are flagged on the test part.

    The shares that the promises are about (hallucinated answers that pass, faithful ones that are
    flagged) have exact bounds; the shares that cost (review) have Wilson intervals.

    Parameters
    ----------
    rule : Rule
        With an upper threshold.
    groups : sequence of str or None
        Group of each example, where the rule has groups.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Level of every interval.
    """
    assert rule.upper is not None
    decided = rule.decide(sample.values, groups, sample.tolerance)
    hallucinated, faithful = sample.rows(TEST, 1), sample.rows(TEST, 0)
    counts = {
        name: {
            decision: int(np.sum(decided[part] == code)) for code, decision in enumerate(DECISIONS)
        }
        for name, part in (("hallucinated", hallucinated), ("faithful", faithful))
    }
    n_h, n_f = int(hallucinated.sum()), int(faithful.sum())
    passed = counts["hallucinated"]["pass"] + counts["faithful"]["pass"]
    base_rate = n_h / (n_h + n_f) if n_h + n_f else 0.0
    alpha, beta = rule.calibration.alpha, rule.upper.alpha
    missed = exact_bound(counts["hallucinated"]["pass"], n_h, confidence)
    blocked = exact_bound(counts["faithful"]["flag"], n_f, confidence)
    reviewed = counts["hallucinated"]["review"] + counts["faithful"]["review"]
    threshold = rule.calibration.threshold
    return {
        "alpha": alpha,
        "beta": beta,
        "pass_below": None if rule.calibration.flag_all else threshold,
        "flag_above": max(-rule.upper.threshold, threshold),
        "by_group": rule.groups is not None,
        "needs_review": -rule.upper.threshold >= threshold,
        "counts": counts,
        "missed": missed.to_dict(),
        "blocked": blocked.to_dict(),
        "review": wilson(reviewed, n_h + n_f, confidence).to_dict(),
        "released_hallucinated": wilson(
            counts["hallucinated"]["pass"], passed, confidence
        ).to_dict(),
        "withheld": wilson(n_h + n_f - passed, n_h + n_f, confidence).to_dict(),
        "base_rate": base_rate,
        "least_withheld": least_withheld(base_rate, alpha),
        "shown": {
            "pass": _shown(missed.lower, missed.upper, alpha),
            "flag": _shown(blocked.lower, blocked.upper, beta),
        },
    }


def _shown(lower: float, upper: float, allowed: float) -> str:
    """Return whether the test part shows that this very threshold stays within what is allowed."""
    if upper <= allowed:
        return "within"
    return "exceeded" if lower > allowed else "open"
