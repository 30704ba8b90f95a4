"""How many labels may be wrong before a certificate falls?"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import validation
from calibrail.conformal.bound import interval
from calibrail.conformal.rank import rank
from calibrail.conformal.threshold import Calibration
from calibrail.errors import InputError
from calibrail.record import Record


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
        hits, misses = _worst(caught, missed, passed, flips, required)
        lower, _ = interval(hits, hits + misses, level)
        return len(hits) > 0 and bool(lower.min() >= required)

    return _weaker(
        coverage_holds,
        _fpr_holds(alarms, passed, caught, limit, level),
        n_hallucinated + n_faithful,
    )


def joint_flip_tolerance(
    calibration: Calibration, false_alarms: int, n_faithful: int, max_fpr: float, confidence: float
) -> FlipTolerance | None:
    """Return ``flip_tolerance`` for ``joint_certificate``: coverage rests on calibration labels.

    A ``pac`` threshold is the highest that its promise allows, so usually a single passed answer
    that was hallucinated after all would have lowered it, and no flip is tolerated.

    Parameters
    ----------
    calibration : Calibration
        With ``guarantee="pac"``.
    false_alarms, n_faithful, max_fpr, confidence
        As for ``joint_certificate``.

    Returns
    -------
    FlipTolerance or None
        None if the counts are not certified as they are.
    """
    alarms, n_faithful = validation.counts(false_alarms, n_faithful, ("false_alarms", "n_faithful"))
    limit = validation.rate(max_fpr, "max_fpr")
    level = validation.share(confidence, "confidence")
    if calibration.guarantee != "pac" or calibration.delta is None:
        raise InputError(f"calibration must hold a pac threshold; got {calibration.guarantee}")
    alpha, delta, n = calibration.alpha, calibration.delta, calibration.n
    below = int(np.searchsorted(calibration.scores, calibration.threshold))
    below += calibration.n_undefined if calibration.undefined == "pass" else 0
    caught, passed = n - below, n_faithful - alarms

    def coverage_holds(flips: int) -> bool:
        worst = (
            below + added < rank(n + 2 * added - flips, alpha, "pac", delta)
            for added in range(max(0, flips - caught), min(flips, passed) + 1)
        )
        return all(worst)

    return _weaker(coverage_holds, _fpr_holds(alarms, passed, caught, limit, level), n + n_faithful)


def _fpr_holds(
    alarms: int, passed: int, caught: int, limit: float, level: float
) -> Callable[[int], bool]:
    def holds(flips: int) -> bool:
        hits, misses = _worst(passed, alarms, caught, flips, 1.0 - limit)
        _, upper = interval(misses, hits + misses, level)
        return len(hits) > 0 and bool(upper.max() <= limit)

    return holds


def _worst(
    hits: int, misses: int, spare: int, flips: int, required: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    coverage_holds: Callable[[int], bool], fpr_holds: Callable[[int], bool], total: int
) -> FlipTolerance | None:
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
