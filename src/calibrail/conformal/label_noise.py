"""How many labels may be wrong before a certificate falls?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.bound import interval


@dataclass(frozen=True, slots=True)
class FlipTolerance:
    """How many wrong labels a certificate survives, wherever they are.

    Attributes
    ----------
    flips : int
        Any so many of the labels may be flipped and it still holds; one more may break it.
    n : int
        Labelled examples that the certificate rests on.
    share : float
        ``flips / n``.
    weakest : {"coverage", "fpr"}
        The requirement that one more flip would break.
    """

    flips: int
    n: int
    share: float
    weakest: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return asdict(self)


def flip_tolerance(
    caught: int,
    n_hallucinated: int,
    false_alarms: int,
    n_faithful: int,
    min_coverage: float,
    max_fpr: float,
    confidence: float,
) -> FlipTolerance | None:
    """Return the most labels that an adversary may flip without a ``certified`` becoming wrong.

    Worst case, not average: the flips are those that hurt most. For coverage these are passed
    answers labelled faithful that were hallucinated, and caught ones labelled hallucinated that
    were not; for the FPR the mirror images. Every way to divide the flips between the two kinds is
    tried.

    Parameters
    ----------
    caught, n_hallucinated, false_alarms, n_faithful : int
        Counts by the labels given, as for ``certify_counts``.
    min_coverage, max_fpr, confidence : float
        Requirements and level, as for ``certify_counts``.

    Returns
    -------
    FlipTolerance or None
        None if the counts are not certified as they are.

    Examples
    --------
    >>> flip_tolerance(290, 300, 20, 400, 0.9, 0.1, 0.95)
    FlipTolerance(flips=8, n=700, share=0.011428571428571429, weakest='fpr')
    """
    caught, n_hallucinated = validation.counts(caught, n_hallucinated, ("caught", "n_hallucinated"))
    alarms, n_faithful = validation.counts(false_alarms, n_faithful, ("false_alarms", "n_faithful"))
    required = validation.rate(min_coverage, "min_coverage")
    limit = validation.rate(max_fpr, "max_fpr")
    level = validation.share(confidence, "confidence")
    missed, passed = n_hallucinated - caught, n_faithful - alarms

    def coverage_holds(flips: int) -> bool:
        # Misses come from passed "faithful" answers; the other flips take caught ones away.
        added = np.arange(max(0, flips - caught), min(flips, passed) + 1)
        if not len(added):
            return False
        hits = caught - (flips - added)
        lower, _ = interval(hits, hits + missed + added, level)
        return bool(lower.min() >= required)

    def fpr_holds(flips: int) -> bool:
        added = np.arange(max(0, flips - passed), min(flips, caught) + 1)
        if not len(added):
            return False
        hits = alarms + added
        _, upper = interval(hits, hits + passed - (flips - added), level)
        return bool(upper.max() <= limit)

    total = n_hallucinated + n_faithful
    if not (coverage_holds(0) and fpr_holds(0)):
        return None
    by_coverage = _last(coverage_holds, total)
    by_fpr = _last(fpr_holds, total)
    flips = min(by_coverage, by_fpr)
    weakest = "coverage" if by_coverage <= by_fpr else "fpr"
    return FlipTolerance(flips, total, flips / total, weakest)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Return the last number of flips that ``holds``; true at 0, and never again once false."""
    good, bad = 0, 1
    while bad <= most and holds(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
