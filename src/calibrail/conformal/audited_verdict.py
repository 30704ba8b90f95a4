"""What do audited answers say of a threshold that they, or earlier ones, have set?

A new threshold comes with its coverage: see ``calibrail.conformal.audited``. Its FPR is bet on at
the limit that is required. Where answers count alike the wealth of a bet on "at most the limit is
flagged" only grows with the threshold. So any threshold that flags more has won at most what the
highest such one has, and that ever wins 1 / error with probability at most the error: the verdict
holds at every look, whichever threshold is looked at. Where they are weighted, thresholds are tried
in a fixed order, from the highest, until one is not shown.

The intervals beside it hold at all times for one threshold each, as long as that stays.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from calibrail.conformal.audited import AuditedScores, fpr_shown
from calibrail.conformal.bound import Bound
from calibrail.conformal.certificate import Verdict, joint_confidence
from calibrail.conformal.eprocess import confidence_sequence, lowest_limit, wealth_of_counts
from calibrail.conformal.joint_bets import bet, not_refuted, nothing_won
from calibrail.conformal.rank import decimal
from calibrail.conformal.threshold import Calibration
from calibrail.conformal.validation import Bools, Floats
from calibrail.record import Record
from calibrail.settings.requirement import Requirement

#: More further answers than this are as good as never.
_NEVER: Final = 10**9

#: What is shown of the FPR, or that more is required than the threshold is made to catch.
VerdictReason = Literal["fpr_shown", "fpr_refuted", "fpr_open", "no_limit", "coverage_not_promised"]


@dataclass(frozen=True, slots=True)
class AuditedVerdict(Record):
    """A verdict about a new threshold that holds whenever one looks and however often.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        ``certified``: the threshold catches ``min_coverage`` by the way it is made, and the FPR is
        shown to be at most ``max_fpr``. ``rejected``: it is shown to be more.
    reason : str
        A code.
    coverage, fpr : Bound
        Of this threshold, with ``requirement.confidence`` each, at all times. Open answers are
        taken as what makes the interval widest. The coverage was seen on what set the threshold.
    fpr_at_most : float or None
        What ``certified`` rests on: the highest FPR that is not shown to be too high. None where
        answers were labelled with different probabilities.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR.
    confidence : float
        Of ``certified``: 1 - delta - (1 - level) / 2.
    needed : int or None
        How many more faithful answers would show the FPR at the rate seen; 0 where it is settled,
        None where none would or that cannot be told.
    """

    verdict: Verdict
    reason: VerdictReason
    coverage: Bound
    fpr: Bound
    fpr_at_most: float | None
    min_coverage: float
    max_fpr: float | None
    confidence: float
    needed: int | None


def audited_verdict(
    answers: AuditedScores, calibration: Calibration, requirement: Requirement, grid: Floats
) -> AuditedVerdict:
    """Decide about a threshold that ``calibrate_audited`` made of these answers.

    Parameters
    ----------
    answers : AuditedScores
        Everything drawn so far.
    calibration : Calibration
        With the guarantee ``anytime``.
    requirement : Requirement
        ``confidence`` is the two-sided level of intervals; each side of the FPR errs with half the
        rest. Without a ``max_fpr`` nothing is certified.
    grid : ndarray of float64
        The thresholds that were tried, where answers are weighted.
    """
    level, limit = float(requirement.confidence), requirement.max_fpr
    coverage, fpr = threshold_rates(answers, calibration.threshold, level)
    # What a log rounds may have been flagged, or not.
    most, least = (answers.flags(calibration.threshold, most=most) for most in (True, False))
    promised = float(1 - decimal(calibration.alpha))
    required = promised if requirement.min_coverage is None else float(requirement.min_coverage)
    goal = math.log(2.0 / (1.0 - level))
    at_most, needed = None, None
    if not answers.weighted:
        alarms, passed = _faithful(answers, most, worst=True)
        at_most = 1.0 - float(lowest_limit(passed, alarms, goal))
    if limit is None or not 0.0 < limit < 1.0:
        kept, broken = limit is not None and limit >= 1.0, limit == 0.0 and fpr.lower > 0.0
    elif answers.weighted:
        kept, broken = _shown_in_order(answers, calibration.threshold, grid, limit, goal)
    else:
        kept = _won(*_faithful(answers, most, worst=True), limit, goal, above=False)
        broken = _won(*_faithful(answers, least, worst=False), limit, goal, above=True)
        needed = 0 if kept or broken else _further(fpr, limit, goal)
    reason: VerdictReason = "fpr_shown" if kept else "fpr_refuted" if broken else "fpr_open"
    verdict: Verdict = "certified" if kept else "rejected" if broken else "inconclusive"
    if limit is None:
        reason = "no_limit"
    elif kept and required > promised + 1e-12:
        verdict, reason = "inconclusive", "coverage_not_promised"
    return AuditedVerdict(
        verdict=verdict,
        reason=reason,
        coverage=coverage,
        fpr=fpr,
        fpr_at_most=at_most,
        min_coverage=required,
        max_fpr=limit,
        confidence=joint_confidence(calibration.delta or 0.0, level),
        needed=needed,
    )


def threshold_rates(answers: AuditedScores, threshold: float, level: float) -> tuple[Bound, Bound]:
    """Return the confidence sequences of a threshold's coverage and FPR.

    Where a log rounds a score so that its decision is open, it counts as not caught, and as a false
    alarm.
    """
    floors = answers.floors(threshold)
    coverage, fpr = audited_rates(answers, answers.flags(threshold), level, floors)
    if answers.spread:
        fpr = audited_rates(answers, answers.flags(threshold, most=True), level, floors)[1]
    return coverage, fpr


def audited_rates(
    answers: AuditedScores, flags: Bools, level: float, floors: tuple[float, float]
) -> tuple[Bound, Bound]:
    """Return the confidence sequences of the shares of either class that are flagged.

    ``floors`` are the least probabilities of a label of what is flagged, and what is not, known
    beforehand. The intervals hold whatever the answers without a label are. Where answers are
    weighted the ends are rounded outwards to whole percents.
    """
    classes = [answers.label == label for label in (1, 0)]
    counts = [(int(np.sum(flags & rows)), int(np.sum(rows))) for rows in classes]
    if answers.weighted:
        goal = math.log(2.0 / (1.0 - level))
        ends = [
            _weighted(_units(answers, flags, flags == as_flagged), floors, goal)
            for as_flagged in (False, True)
        ]
        estimates = _weighted_estimates(answers, flags)
        coverage, fpr = (
            Bound(
                estimates[rate],
                min(end[rate][0] for end in ends),
                max(end[rate][1] for end in ends),
                *counts[rate],
                "betting",
                level,
            )
            for rate in (0, 1)
        )
        return coverage, fpr
    stopped = int(np.count_nonzero(answers.open & flags))
    passed = int(np.count_nonzero(answers.open & ~flags))
    bounds = []
    for count, n in counts:
        # All open ones of this class, where they are passed, or where they are flagged.
        lower = float(confidence_sequence(count, n + passed, level)[0])
        upper = float(confidence_sequence(count + stopped, n + stopped, level)[1])
        seen = count / n if n else None
        bounds.append(Bound(seen, lower, upper, count, n, "beta-mixture", level))
    return bounds[0], bounds[1]


def _faithful(answers: AuditedScores, flags: Bools, *, worst: bool) -> tuple[float, float]:
    """Return flagged and passed faithful answers; open ones as many flagged, or passed."""
    faithful = answers.label == 0.0
    alarms = faithful | answers.open if worst else faithful
    kept = faithful if worst else faithful | answers.open
    return float(np.count_nonzero(alarms & flags)), float(np.count_nonzero(kept & ~flags))


def _won(alarms: float, passed: float, limit: float, goal: float, *, above: bool) -> bool:
    hits, misses = np.array([[alarms], [passed]])
    return bool(wealth_of_counts(hits, misses, limit, above=above)[0] >= goal)


def _shown_in_order(
    answers: AuditedScores, threshold: float, grid: Floats, limit: float, goal: float
) -> tuple[bool, bool]:
    """Return whether the FPR is shown to be kept, from the highest threshold down, or broken."""
    from_above = grid[grid >= threshold][::-1]
    kept = all(fpr_shown(answers, from_above, limit, goal, above=False))
    from_below = grid[grid <= threshold]
    return kept, all(fpr_shown(answers, from_below, limit, goal, above=True))


def _units(answers: AuditedScores, flags: Bools, open_as: Bools) -> Floats:
    """Return masses and hits of both classes, shape (n, 4)."""
    w = answers.estimated(open_as)
    return np.stack([w, 1.0 - w, w * flags, (1.0 - w) * flags], axis=1)


def _weighted(units: Floats, floors: tuple[float, float], goal: float) -> list[tuple[float, float]]:
    """Return the limits of both shares that are not refuted."""
    edges, state = (0.5, 0.5), nothing_won()
    for latest, _ in bet(state, units, edges, floors):
        state = latest
    return not_refuted(state, edges, goal)


def _weighted_estimates(answers: AuditedScores, flags: Bools) -> list[float | None]:
    """Return coverage and FPR, open answers left out."""
    known = ~answers.open
    mass, other, hits, alarms = _units(answers, flags, flags)[known].sum(axis=0).tolist()
    return [
        min(1.0, max(0.0, hit / total)) if total > 0.0 else None
        for hit, total in ((hits, mass), (alarms, other))
    ]


def _further(fpr: Bound, limit: float, goal: float) -> int | None:
    """Return how many more faithful answers would show the FPR if it is the one seen."""
    if fpr.estimate is None or fpr.estimate >= limit:
        return None
    low, high = fpr.n, max(1, fpr.n)
    while not _won(*_parts(fpr.estimate, high), limit, goal, above=False):
        low, high = high, 2 * high
        if high > _NEVER:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = _won(*_parts(fpr.estimate, middle), limit, goal, above=False)
        low, high = (low, middle) if won else (middle, high)
    return high - fpr.n


def _parts(rate: float, n: int) -> tuple[float, float]:
    return rate * n, (1.0 - rate) * n
