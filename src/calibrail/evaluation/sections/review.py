"""What does a three-way decision promise on each side, and how much must people look at?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrail.conformal import DECISIONS, exact_bound, least_withheld
from calibrail.conformal.rule import Rule
from calibrail.evaluation.sample import CLASSES, Sample
from calibrail.evaluation.sections.measured_risks import shown
from calibrail.evaluation.stats.rates import wilson


def three_way_review(
    rule: Rule, groups: Sequence[str] | None, sample: Sample, confidence: float
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
    counts = {
        name: {decision: int(np.sum(part == code)) for code, decision in enumerate(DECISIONS)}
        for name, part in zip(CLASSES, sample.by_class(decided), strict=True)
    }
    hallucinated, faithful = counts.values()
    n_h, n_f = sum(hallucinated.values()), sum(faithful.values())
    n, passed = n_h + n_f, hallucinated["pass"] + faithful["pass"]
    base_rate = n_h / n if n else 0.0
    alpha, beta = rule.calibration.alpha, rule.upper.alpha
    missed = exact_bound(hallucinated["pass"], n_h, confidence)
    blocked = exact_bound(faithful["flag"], n_f, confidence)
    threshold = rule.calibration.threshold
    shares = {
        "review": (hallucinated["review"] + faithful["review"], n),
        "released_hallucinated": (hallucinated["pass"], passed),
        "withheld": (n - passed, n),
    }
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
        **{name: wilson(*share, confidence).to_dict() for name, share in shares.items()},
        "base_rate": base_rate,
        "least_withheld": least_withheld(base_rate, alpha),
        "shown": {"pass": shown(missed, "<=", alpha), "flag": shown(blocked, "<=", beta)},
    }
