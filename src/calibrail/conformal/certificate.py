"""Is a fixed threshold proven good enough, proven not to be, or neither?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from calibrail.conformal import validation
from calibrail.conformal.bound import Bound, exact_bound
from calibrail.conformal.label_noise import FlipTolerance, flip_tolerance, joint_flip_tolerance
from calibrail.conformal.needed import further
from calibrail.conformal.rank import decimal
from calibrail.conformal.threshold import Calibration
from calibrail.errors import InputError
from calibrail.record import Record

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
        Exact intervals on independent samples.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR; without one nothing can be certified.
    confidence : float
        Joint: a wrong "certified" has at most probability 1 - confidence. A wrong "rejected" has
        at most twice the one-sided error of an interval.
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
    min_coverage: float
    max_fpr: float | None
    confidence: float
    needed: Mapping[str, int | None]
    flips: FlipTolerance | None = None


def certify_counts(
    caught: int,
    n_hallucinated: int,
    false_alarms: int,
    n_faithful: int,
    min_coverage: float,
    max_fpr: float | None,
    confidence: float,
) -> Certificate:
    """Decide from counts on two independent samples, at a threshold fixed before both.

    Each class gets its two-sided Clopper-Pearson interval at ``confidence`` = 1 - delta. The side
    that decides errs with probability delta / 2, so both together err with at most delta.

    Parameters
    ----------
    caught, n_hallucinated : int
        Flagged among hallucinated examples.
    false_alarms, n_faithful : int
        Flagged among faithful examples.
    min_coverage : float
        Required coverage, in [0, 1].
    max_fpr : float or None
        Highest acceptable FPR, in [0, 1].
    confidence : float
        In (0, 1).

    Returns
    -------
    Certificate
        ``certified`` if coverage is bounded from below by ``min_coverage`` and the FPR from above
        by ``max_fpr``; ``rejected`` if either is bounded away from its requirement.

    Examples
    --------
    >>> certify_counts(290, 300, 20, 400, 0.9, 0.1, 0.95).verdict
    'certified'
    >>> certify_counts(290, 300, 200, 400, 0.9, 0.1, 0.95).verdict
    'rejected'
    >>> open_one = certify_counts(28, 30, 2, 40, 0.9, 0.1, 0.95)
    >>> open_one.verdict, dict(open_one.needed)
    ('inconclusive', {'hallucinated': 298, 'faithful': 114})
    """
    level = validation.share(confidence, "confidence")
    required, limit = _requirements(min_coverage, max_fpr)
    caught, n_hallucinated = validation.counts(caught, n_hallucinated, ("caught", "n_hallucinated"))
    coverage = exact_bound(caught, n_hallucinated, level)
    fpr = _fpr_bound(false_alarms, n_faithful, level)
    certificate = _decide(coverage, fpr, required, limit, level, proven=coverage.lower >= required)
    if certificate.verdict != "certified" or limit is None:
        return certificate
    flips = flip_tolerance(caught, n_hallucinated, false_alarms, n_faithful, required, limit, level)
    return replace(certificate, flips=flips)


def joint_certificate(
    calibration: Calibration,
    caught: int,
    n_hallucinated: int,
    false_alarms: int,
    n_faithful: int,
    max_fpr: float | None,
    confidence: float,
    min_coverage: float | None = None,
) -> Certificate:
    """Decide about a ``pac`` threshold, whose coverage of 1 - alpha is proven by construction.

    Only the FPR needs a bound; any faithful examples may serve that the threshold never saw. The
    joint confidence is 1 - delta - (1 - confidence) / 2: the error of the construction and that of
    the FPR bound. The coverage shown is the one observed; it can still reject.

    Parameters
    ----------
    calibration : Calibration
        With ``guarantee="pac"``.
    caught, n_hallucinated : int
        Flagged among hallucinated test examples.
    false_alarms, n_faithful : int
        Flagged among faithful examples that had no part in the threshold.
    max_fpr : float or None
        Highest acceptable FPR.
    confidence : float
        Two-sided level of both intervals.
    min_coverage : float, optional
        Required coverage, at most the 1 - alpha that is proven; that when left out.

    Raises
    ------
    InputError
        If the guarantee is not ``pac``, the threshold flags everything for lack of examples, or
        delta and 1 - confidence leave no joint confidence.
    """
    if calibration.guarantee != "pac" or calibration.delta is None or calibration.flag_all:
        raise InputError(
            "calibration must hold a pac threshold; got "
            f"{'one that flags everything' if calibration.flag_all else calibration.guarantee}"
        )
    level = validation.share(confidence, "confidence")
    proven = float(1 - decimal(calibration.alpha))
    required, limit = _requirements(proven if min_coverage is None else min_coverage, max_fpr)
    if required > proven + 1e-12:
        raise InputError(
            f"min_coverage must be at most the {proven:g} that the threshold is proven to catch; "
            f"got {min_coverage!r}"
        )
    caught, n_hallucinated = validation.counts(caught, n_hallucinated, ("caught", "n_hallucinated"))
    coverage = exact_bound(caught, n_hallucinated, level)
    fpr = _fpr_bound(false_alarms, n_faithful, level)
    joint = joint_confidence(calibration.delta, level)
    certificate = _decide(coverage, fpr, required, limit, joint, proven=True, promised=proven)
    # Flips among the answers of one group count once; no tolerance is worked out for that.
    counts_answers = not hasattr(calibration, "clusters")
    if certificate.verdict != "certified" or limit is None or not counts_answers:
        return certificate
    flips = joint_flip_tolerance(calibration, false_alarms, n_faithful, limit, level)
    return replace(certificate, flips=flips)


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


def _requirements(min_coverage: float, max_fpr: float | None) -> tuple[float, float | None]:
    limit = None if max_fpr is None else validation.rate(max_fpr, "max_fpr")
    return validation.rate(min_coverage, "min_coverage"), limit


def _fpr_bound(false_alarms: int, n_faithful: int, level: float) -> Bound:
    false_alarms, n_faithful = validation.counts(
        false_alarms, n_faithful, ("false_alarms", "n_faithful")
    )
    return exact_bound(false_alarms, n_faithful, level)


def _decide(
    coverage: Bound,
    fpr: Bound,
    required: float,
    limit: float | None,
    confidence: float,
    *,
    proven: bool,
    promised: float | None = None,
) -> Certificate:
    misses_too_many = coverage.upper < required
    alarms_too_often = limit is not None and fpr.lower > limit
    verdict: Verdict
    needed: dict[str, int | None] = {"hallucinated": 0, "faithful": 0}
    if misses_too_many or alarms_too_often:
        verdict = "rejected"
        reasons = []
        if misses_too_many:
            reasons.append(
                f"it catches at most {coverage.upper:.1%} of hallucinations, and {required:.1%} is "
                "required"
            )
        if alarms_too_often:
            reasons.append(
                f"it flags at least {fpr.lower:.1%} of faithful answers, and at most {limit:.1%} "
                "is allowed"
            )
        reason = _sentence(" and ".join(reasons))
    elif limit is None:
        verdict = "inconclusive"
        needed["hallucinated"] = 0 if proven else further(coverage, required, good_above=True)
        needed["faithful"] = None
        reason = (
            "No limit on false alarms was set, so nothing can be certified; give one with "
            "--max-fpr."
        )
    elif proven and fpr.upper <= limit:
        verdict = "certified"
        # What a construction proves counts; the observed bound would cost an error of its own.
        at_least = coverage.lower if promised is None else promised
        reason = _sentence(
            f"with {confidence:.1%} joint confidence it catches at least "
            f"{at_least:.1%} of hallucinations and flags "
            f"at most {fpr.upper:.1%} of faithful answers"
        )
    else:
        verdict = "inconclusive"
        parts = []
        if not proven:
            needed["hallucinated"] = further(coverage, required, good_above=True)
            parts.append(
                f"coverage lies between {coverage.lower:.1%} and {coverage.upper:.1%}, and "
                f"{required:.1%} is required"
            )
        if fpr.upper > limit:
            needed["faithful"] = further(fpr, limit, good_above=False)
            parts.append(
                f"the FPR lies between {fpr.lower:.1%} and {fpr.upper:.1%}, and at most "
                f"{limit:.1%} is allowed"
            )
        reason = _sentence("; ".join(parts))
    return Certificate(verdict, reason, coverage, fpr, required, limit, confidence, needed)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
