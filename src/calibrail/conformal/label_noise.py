"""How many labels may be wrong before a certificate falls?"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.bound import Counts, interval, proof_level
from calibrail.conformal.rank import rank
from calibrail.conformal.threshold import Calibration, Threshold
from calibrail.conformal.validation import Ints
from calibrail.record import Record
from calibrail.settings.requirement import Requirement


@dataclass(frozen=True, slots=True)
class FlipTolerance(Record):
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


def flip_tolerance(counts: Counts, requirement: Requirement) -> FlipTolerance | None:
    """Return the most labels that an adversary may flip without a ``certified`` becoming wrong.

    Worst case, not average: the flips are those that hurt most. For coverage these are passed
    answers labelled faithful that were hallucinated, and caught ones labelled hallucinated that
    were not; for the FPR the mirror images. Every way to divide the flips between the two kinds is
    tried.

    Parameters
    ----------
    counts : Counts
        By the labels given, as for ``certify_counts``.
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr``.

    Returns
    -------
    FlipTolerance or None
        None if the counts are not certified as they are.

    Examples
    --------
    >>> flip_tolerance(Counts(290, 300, 20, 400), Requirement(min_coverage=0.9, max_fpr=0.1))
    FlipTolerance(flips=10, n=700, share=0.014285714285714285, weakest='fpr')
    """
    required = validation.rate(requirement.min_coverage, "min_coverage")
    level = proof_level(requirement.confidence)
    missed, passed = counts.n_hallucinated - counts.caught, counts.n_faithful - counts.false_alarms

    def coverage_holds(flips: int) -> bool:
        # Misses come from passed "faithful" answers; the other flips take caught ones away.
        hits, misses = _worst(counts.caught, missed, passed, flips, required)
        lower, _ = interval(hits, hits + misses, level)
        return len(hits) > 0 and bool(lower.min() >= required)

    return _weaker(coverage_holds, counts, requirement, level)


def joint_flip_tolerance(
    calibration: Calibration | Threshold, counts: Counts, requirement: Requirement
) -> FlipTolerance | None:
    """Return ``flip_tolerance`` for ``joint_certificate``: coverage rests on calibration labels.

    Such a threshold is the highest that its promise allows, so usually a single passed answer
    that was hallucinated after all would have lowered it, and no flip is tolerated.
    """
    promise, n = calibration.promise, calibration.n
    kept = promise.alpha, promise.guarantee, promise.delta
    below = calibration.missed
    caught, passed = n - below, counts.n_faithful - counts.false_alarms

    def coverage_holds(flips: int) -> bool:
        return all(
            below + added < rank(n + 2 * added - flips, *kept)
            for added in range(max(0, flips - caught), min(flips, passed) + 1)
        )

    labelled = Counts(caught, n, counts.false_alarms, counts.n_faithful)
    return _weaker(coverage_holds, labelled, requirement, requirement.confidence)


def _worst(hits: int, misses: int, spare: int, flips: int, required: float) -> tuple[Ints, Ints]:
    """Return the hits and misses after every division of the flips that may be the worst.

    A flip adds one of ``spare`` misses or takes one hit away. While the bound and the share of hits
    both lie above one half, adding is worse: with one more of each the binomial tail beyond the
    hits grows if the bound exceeds (misses + 1) / (n + 1), and the bound falls. So where less than
    one half would not do anyway, only the most additions need a look.
    """
    least, most = max(0, flips - hits), min(flips, spare)
    if required >= 0.5 and 2 * misses + 1 < hits + misses - flips:
        least = max(least, most)
    added = np.arange(least, most + 1)
    return hits - (flips - added), misses + added


def _weaker(
    coverage_holds: Callable[[int], bool], counts: Counts, requirement: Requirement, level: float
) -> FlipTolerance | None:
    limit, alarms = validation.rate(requirement.max_fpr, "max_fpr"), counts.false_alarms
    total = counts.n_hallucinated + counts.n_faithful

    def fpr_holds(flips: int) -> bool:
        passed = counts.n_faithful - alarms
        hits, misses = _worst(passed, alarms, counts.caught, flips, 1.0 - limit)
        _, upper = interval(misses, hits + misses, level)
        return len(hits) > 0 and bool(upper.max() <= limit)

    if not (coverage_holds(0) and fpr_holds(0)):
        return None
    by_coverage, by_fpr = _last(coverage_holds, total), _last(fpr_holds, total)
    flips = min(by_coverage, by_fpr)
    weakest = "coverage" if by_coverage <= by_fpr else "fpr"
    return FlipTolerance(flips, total, flips / total, weakest)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Return the last number of flips that ``holds``; true at 0, and never again once false."""
    good, bad = 0, 1
    while bad <= most and holds(bad):
        good, bad = bad, 2 * bad
    undecided = range(good + 1, min(bad, most + 1))
    return good + bisect_left(undecided, True, key=lambda flips: not holds(flips))
