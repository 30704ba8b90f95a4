"""Is a fixed threshold proven good enough, proven not to be, or neither?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from calibrail.conformal import validation
from calibrail.conformal.bound import Bound, Counts, further, interval, proof_level
from calibrail.conformal.label_noise import FlipTolerance, flip_tolerance, joint_flip_tolerance
from calibrail.conformal.rank import decimal
from calibrail.conformal.threshold import Calibration, Threshold
from calibrail.errors import InputError
from calibrail.phrases import percent
from calibrail.record import Record
from calibrail.settings.requirement import Requirement

Verdict = Literal["certified", "rejected", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Certificate(Record):
    """A verdict with the bounds that it rests on.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        What the data shows about both requirements.
    reason : str
        Why, in plain words.
    coverage, fpr : Bound
        Exact intervals on independent samples; both together hold with ``confidence``.
    coverage_at_least, fpr_at_most : float
        The ends that ``certified`` rests on. Each errs with at most 1 - ``confidence`` by itself,
        which is enough for a claim that is made only where both requirements are shown.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR; without one nothing can be certified.
    confidence : float
        A wrong "certified" has at most probability 1 - confidence. A wrong "rejected" has at most
        twice the one-sided error of an interval.
    needed : mapping
        For ``hallucinated`` and ``faithful``: how many more would settle that side at the rate
        seen. 0 = settled; None = no number would, or none can be told: nothing was seen of that
        class, or no limit on false alarms was set.
    flips : FlipTolerance or None
        How many wrong labels a ``certified`` survives; None for other verdicts.
    """

    verdict: Verdict
    reason: str
    coverage: Bound
    fpr: Bound
    coverage_at_least: float
    fpr_at_most: float
    min_coverage: float
    max_fpr: float | None
    confidence: float
    needed: Mapping[str, int | None]
    flips: FlipTolerance | None = None


def certify_counts(counts: Counts, requirement: Requirement) -> Certificate:
    """Decide from counts on two independent samples, at a threshold fixed before both.

    ``rejected`` rests on two-sided Clopper-Pearson intervals at ``confidence`` = 1 - delta: each
    end errs with probability delta / 2, and either of two can reject. ``certified`` needs both of
    its ends, so each may err with delta (``proof_level``).

    Parameters
    ----------
    counts : Counts
        On examples that the threshold never saw.
    requirement : Requirement
        With a ``min_coverage``; without a ``max_fpr`` nothing is certified.

    Returns
    -------
    Certificate
        ``certified`` if coverage is bounded from below by ``min_coverage`` and the FPR from above
        by ``max_fpr``; ``rejected`` if either is bounded away from its requirement.

    Examples
    --------
    >>> required = Requirement(min_coverage=0.9, max_fpr=0.1)
    >>> certify_counts(Counts(290, 300, 20, 400), required).verdict
    'certified'
    >>> certify_counts(Counts(290, 300, 200, 400), required).verdict
    'rejected'
    >>> open_one = certify_counts(Counts(28, 30, 2, 40), required)
    >>> open_one.verdict, dict(open_one.needed)
    ('inconclusive', {'hallucinated': 209, 'faithful': 76})
    """
    level = checked_limits(requirement)[2]
    certificate = _decide(counts, requirement, level, proof_level(level))
    if certificate.verdict != "certified":
        return certificate
    return replace(certificate, flips=flip_tolerance(counts, requirement))


def joint_certificate(
    calibration: Calibration | Threshold, counts: Counts, requirement: Requirement
) -> Certificate:
    """Decide about a threshold whose coverage of 1 - alpha is proven: a ``pac`` or ``anytime`` one.

    Only the FPR needs a bound; any faithful examples may serve that the threshold never saw. The
    joint confidence is 1 - delta - (1 - confidence) / 2: the error of the construction and that of
    the FPR bound. The coverage shown is the one observed; it can still reject.

    Parameters
    ----------
    calibration : Calibration or Threshold
        With ``guarantee="pac"`` or ``"anytime"``.
    counts : Counts
        On hallucinated test examples, and on faithful examples that had no part in the threshold.
    requirement : Requirement
        ``confidence`` is the two-sided level of both intervals. ``min_coverage`` is at most the
        1 - alpha that is proven; that when left out.

    Raises
    ------
    InputError
        If the guarantee is neither, the threshold flags everything for lack of examples, or
        delta and 1 - confidence leave no joint confidence.
    """
    if calibration.delta is None or calibration.flag_all:
        raise InputError(
            "calibration must hold a pac or anytime threshold; got "
            f"{'one that flags everything' if calibration.flag_all else calibration.guarantee}"
        )
    proven = float(1 - decimal(calibration.alpha))
    if requirement.min_coverage is None:
        requirement = replace(requirement, min_coverage=proven)
    required, _, level = checked_limits(requirement)
    if required > proven + 1e-12:
        raise InputError(
            f"min_coverage must be at most the {proven:g} that the threshold is proven to catch; "
            f"got {requirement.min_coverage!r}"
        )
    joint = joint_confidence(calibration.delta, level)
    certificate = _decide(counts, requirement, joint, level, promised=proven)
    # Flips among the answers of one group count once; no tolerance is worked out for that.
    if certificate.verdict != "certified" or hasattr(calibration, "clusters"):
        return certificate
    return replace(certificate, flips=joint_flip_tolerance(calibration, counts, requirement))


def smallest_limit(
    counts: Counts, min_coverage: float, confidence: float, delta: float | None = None
) -> tuple[float | None, float]:
    """Return the lowest limit on the FPR that would be certified, and with which confidence.

    The same bounds as in ``certify_counts`` and, for a ``pac`` threshold, ``joint_certificate``.
    The limit is read off after the fact: a bound holds with its confidence wherever it comes to
    lie.

    Parameters
    ----------
    counts : Counts
        On examples that the threshold never saw.
    min_coverage : float
        What has to be caught, in (0, 1); what the construction proves, where ``delta`` is given.
    confidence : float
        As in a ``Requirement``.
    delta : float, optional
        The error of a ``pac`` threshold, whose coverage is proven by construction.

    Returns
    -------
    (float or None, float)
        None where no limit would be certified: the coverage is not shown, or is shown to be missed,
        every faithful example may be flagged, or the errors leave no confidence.

    Examples
    --------
    >>> limit, level = smallest_limit(Counts(290, 300, 20, 400), 0.9, 0.95)
    >>> round(limit, 4), level
    (0.0718, 0.95)
    >>> smallest_limit(Counts(270, 300, 20, 400), 0.9, 0.95)
    (None, 0.95)
    >>> limit, level = smallest_limit(Counts(270, 300, 20, 400), 0.9, 0.95, delta=0.05)
    >>> round(limit, 4), round(level, 3)
    (0.0762, 0.925)
    >>> smallest_limit(Counts(240, 300, 20, 400), 0.9, 0.95, delta=0.05)[0] is None
    True
    """
    required = validation.rate(min_coverage, "min_coverage")
    level = validation.share(confidence, "confidence")
    refuted = float(interval(counts.caught, counts.n_hallucinated, level)[1]) < required
    proof = proof_level(level)
    if delta is not None:
        proof, level = level, joint_confidence(validation.share(delta, "delta"), level)
    elif float(interval(counts.caught, counts.n_hallucinated, proof)[0]) < required:
        return None, level
    limit = float(interval(counts.false_alarms, counts.n_faithful, proof)[1])
    return (limit if limit < 1.0 and not refuted else None), level


def joint_confidence(delta: float, confidence: float) -> float:
    """Return the confidence in a ``pac`` construction and one side of an interval together.

    Raises
    ------
    InputError
        If their two errors leave none.
    """
    joint = float(1 - decimal(delta) - (1 - decimal(confidence)) / 2)
    if joint <= 0.0:
        raise InputError(
            f"confidence must leave room for delta = {delta:g}: 1 - delta - "
            f"(1 - confidence) / 2 must be above 0; got {confidence!r}"
        )
    return joint


def checked_limits(requirement: Requirement) -> tuple[float, float | None, float]:
    """Return the required coverage, the limit on the FPR and the confidence, each in its domain."""
    limit = None if requirement.max_fpr is None else validation.rate(requirement.max_fpr, "max_fpr")
    required = validation.rate(requirement.min_coverage, "min_coverage")
    return required, limit, validation.share(requirement.confidence, "confidence")


def _decide(
    counts: Counts,
    requirement: Requirement,
    confidence: float,
    proof: float,
    promised: float | None = None,
) -> Certificate:
    """Decide by the bounds of counts, and by the coverage that is ``promised`` by a construction.

    ``proof`` is the two-sided level of the interval whose ends may certify.
    """
    required, limit, level = checked_limits(requirement)
    coverage, fpr = counts.bounds(level)
    at_least = float(interval(counts.caught, counts.n_hallucinated, proof)[0])
    at_most = float(interval(counts.false_alarms, counts.n_faithful, proof)[1])
    if promised is not None:
        # What a construction proves counts; the observed bound would cost an error of its own.
        at_least = promised
    proven = at_least >= required
    needed: dict[str, int | None] = {"hallucinated": 0, "faithful": 0}
    verdict: Verdict
    reasons = []
    if coverage.upper < required:
        reasons.append(
            f"it catches at most {percent(coverage.upper)} of hallucinations, and "
            f"{percent(required)} is required"
        )
    if limit is not None and fpr.lower > limit:
        reasons.append(
            f"it flags at least {percent(fpr.lower)} of faithful answers, and at most "
            f"{percent(limit)} is allowed"
        )
    if reasons:
        verdict, reason = "rejected", " and ".join(reasons)
    elif limit is not None and proven and at_most <= limit:
        verdict, reason = "certified", _claim(confidence, required, limit, at_least, at_most)
    else:
        if not proven:
            needed["hallucinated"] = further(coverage, required, proof, good_above=True)
            reasons.append(
                f"coverage lies between {percent(coverage.lower)} and "
                f"{percent(coverage.upper)}, and {percent(required)} is required"
            )
        if limit is None:
            needed["faithful"] = None
            reasons = [
                "no limit on false alarms was set, so nothing can be certified; give one with "
                "--max-fpr"
            ]
        elif at_most > limit:
            needed["faithful"] = further(fpr, limit, proof, good_above=False)
            reasons.append(
                f"the FPR lies between {percent(fpr.lower)} and {percent(fpr.upper)}, and at most "
                f"{percent(limit)} is allowed"
            )
        verdict, reason = "inconclusive", "; ".join(reasons)
    sentence = f"{reason[0].upper()}{reason[1:]}."
    return Certificate(
        verdict,
        sentence,
        coverage,
        fpr,
        at_least,
        at_most,
        required,
        limit,
        confidence,
        needed,
    )


def _claim(
    confidence: float, required: float, limit: float, at_least: float, at_most: float
) -> str:
    """Say what is certified: the two requirements, and by how much each is met."""
    return (
        f"with {percent(confidence)} confidence it catches at least {percent(required)} of "
        f"hallucinations and flags at most {percent(limit)} of faithful answers (shown: at least "
        f"{percent(at_least)}, at most {percent(at_most)})"
    )
