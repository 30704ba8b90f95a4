"""Is a threshold proven to free answers of what is unsupported, and to keep enough of the rest?

A policy that removes everything frees every answer. So "certified" needs three things shown: that
enough answers are freed, that enough of what is supported is kept, and, where it was asked, that
few answers without a fault are touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.bound import Counts, further, interval, proof_level
from calibrail.conformal.certificate import (
    Certificate,
    Verdict,
    checked_limits,
    joint_confidence,
)
from calibrail.conformal.group_certificates import GroupVerdict, undercovered
from calibrail.conformal.mean_bound import MeanBound, further_values, mean_at_least, mean_bound
from calibrail.conformal.rank import decimal
from calibrail.conformal.threshold import Calibration
from calibrail.conformal.validation import Floats
from calibrail.phrases import listed, percent
from calibrail.settings.requirement import Requirement

#: Why nothing is certified without a limit.
_NO_LIMIT: Final = (
    "no share of supported sentences was set that must be kept, so nothing can be certified; give "
    "one with --min-kept"
)
_NOTHING_SEEN: Final = MeanBound(None, 0.0, 1.0, 0.0, 0, "betting", 0.95)


@dataclass(frozen=True, slots=True)
class TrimCertificate(Certificate):
    """A verdict about removing sentences.

    ``coverage`` is the share of hallucinated answers that are freed of all unsupported sentences,
    ``fpr`` that of faithful answers of which a sentence is removed.

    Attributes
    ----------
    kept : MeanBound
        Over answers that hold a supported sentence: the share of these that is released.
    kept_at_least : float
        The end that ``certified`` rests on; it errs with at most 1 - ``confidence`` by itself.
    min_kept : float or None
        What it has to reach; without one nothing can be certified.
    needed : mapping
        As of a certificate; under ``answers``, about how many more that hold a supported sentence
        would settle what is kept, if they are like those seen.
    """

    kept: MeanBound = _NOTHING_SEEN
    kept_at_least: float = 0.0
    min_kept: float | None = None


def certify_trimming(
    counts: Counts,
    kept: ArrayLike,
    requirement: Requirement,
    calibration: Calibration | None = None,
) -> TrimCertificate:
    """Decide from independent answers that the threshold never saw.

    Every end that may reject errs with an equal part of what two ends of a two-sided interval may
    together; every end that certifies may take the whole error, since all have to hold
    (intersection-union test, Berger 1982).

    Parameters
    ----------
    counts : Counts
        Hallucinated answers and how many are freed (``caught``), faithful ones and how many are
        touched (``false_alarms``).
    kept : array-like of float, shape (m,)
        The share of supported sentences released, of each independent answer that holds one, in an
        order that has nothing to do with it.
    requirement : Requirement
        With a ``min_coverage``: of the answers freed. Without a ``min_kept`` nothing is certified;
        ``max_fpr`` is decided about only where it is given.
    calibration : Calibration, optional
        A ``pac`` or ``anytime`` threshold, whose coverage of 1 - alpha is proven by construction:
        at least what is required. The joint confidence is then 1 - delta - (1 - confidence) / 2, as
        of a joint certificate.

    Examples
    --------
    >>> required = Requirement(min_coverage=0.8, min_kept=0.5)
    >>> certify_trimming(Counts(95, 100, 60, 100), [1.0, 0.5, 0.75, 1.0] * 50, required).verdict
    'certified'
    >>> certify_trimming(Counts(100, 100, 100, 100), [0.0] * 200, required).verdict
    'rejected'
    >>> open_one = certify_trimming(Counts(17, 20, 3, 20), [1.0, 0.5] * 10, required)
    >>> open_one.verdict, dict(open_one.needed)
    ('inconclusive', {'hallucinated': 173, 'faithful': 0, 'answers': 0})
    """
    required, limit, level = checked_limits(requirement)
    least = None if requirement.min_kept is None else validation.rate(requirement.min_kept, "kept")
    confidence, sure = level, level
    if calibration is not None and calibration.delta is not None:
        confidence, sure = joint_confidence(calibration.delta, level), 1.0 - (1.0 - level) / 2.0
    proof = proof_level(sure)
    shares: Floats = validation.vector(kept, "kept")
    coverage, fpr = counts.bounds(level)
    measured = mean_bound(shares, level)
    at_least = float(interval(counts.caught, counts.n_hallucinated, proof)[0])
    at_most = float(interval(counts.false_alarms, counts.n_faithful, proof)[1])
    kept_at_least = mean_at_least(shares, sure)
    if calibration is not None:
        at_least = float(1 - decimal(calibration.alpha))
    result = TrimCertificate(
        verdict="inconclusive",
        reason="",
        coverage=coverage,
        fpr=fpr,
        coverage_at_least=at_least,
        fpr_at_most=at_most,
        min_coverage=required,
        max_fpr=limit,
        confidence=confidence,
        needed={},
        kept=measured,
        kept_at_least=kept_at_least,
        min_kept=least,
    )
    if refuted := _refuted(result, counts, shares, level):
        return _worded(result, "rejected", "; ".join(refuted))
    freed = at_least >= required
    keeps = least is not None and kept_at_least >= least
    spares = limit is None or at_most <= limit
    if freed and keeps and spares:
        return _worded(result, "certified", _claim(result))
    needed: dict[str, int | None] = {"hallucinated": 0, "faithful": 0, "answers": 0}
    if not freed:
        needed["hallucinated"] = further(coverage, required, proof, good_above=True)
    if limit is not None and not spares:
        needed["faithful"] = further(fpr, limit, proof, good_above=False)
    if least is None:
        needed["answers"] = None
    elif not keeps:
        refuting = (1.0 - _refuting(level, limit)) / 2.0
        needed["answers"] = further_values(shares, least, 1.0 - sure, refuting)
    open_ones = _open(result, freed=freed, keeps=keeps, spares=spares)
    return replace(_worded(result, "inconclusive", open_ones), needed=needed)


def certify_group_trimming(
    groups: Mapping[str, tuple[Counts, Floats]], requirement: Requirement
) -> dict[str, GroupVerdict]:
    """Decide about every group as `certify_groups` does, with the counts and shares of each."""
    each = replace(requirement, confidence=1.0 - (1.0 - requirement.confidence) / len(groups))
    p = undercovered([counts for counts, _ in groups.values()], requirement)
    return {
        name: GroupVerdict(certify_trimming(counts, kept, each), p_value)
        for (name, (counts, kept)), p_value in zip(groups.items(), p, strict=True)
    }


def _refuted(
    certificate: TrimCertificate, counts: Counts, shares: Floats, level: float
) -> list[str]:
    """Return what is shown to be missed, in words."""
    limit, least = certificate.max_fpr, certificate.min_kept
    level = _refuting(level, limit)
    freed = float(interval(counts.caught, counts.n_hallucinated, level)[1])
    touched = float(interval(counts.false_alarms, counts.n_faithful, level)[0])
    upper = mean_bound(shares, level).upper
    reasons = []
    if freed < certificate.min_coverage:
        reasons.append(
            f"it frees at most {percent(freed)} of hallucinated answers of all that is "
            f"unsupported, and {percent(certificate.min_coverage)} is required"
        )
    if least is not None and upper < least:
        reasons.append(
            f"it keeps at most {percent(upper)} of supported sentences, and {percent(least)} is "
            "required"
        )
    if limit is not None and touched > limit:
        reasons.append(
            f"it touches at least {percent(touched)} of faithful answers, and at most "
            f"{percent(limit)} is allowed"
        )
    return reasons


def _refuting(level: float, limit: float | None) -> float:
    """Return the two-sided level of the ends that may reject.

    With three requirements each of them may err with a third of the error, not with a half.
    """
    return level if limit is None else 1.0 - 2.0 * (1.0 - level) / 3.0


def _open(certificate: TrimCertificate, *, freed: bool, keeps: bool, spares: bool) -> str:
    """Say what is neither shown to be met nor to be missed."""
    coverage, kept, fpr = certificate.coverage, certificate.kept, certificate.fpr
    if certificate.min_kept is None:
        return _NO_LIMIT
    reasons = []
    if not freed:
        reasons.append(
            f"the share of answers freed lies between {percent(coverage.lower)} and "
            f"{percent(coverage.upper)}, and {percent(certificate.min_coverage)} is required"
        )
    if not keeps:
        reasons.append(
            f"the share of supported sentences kept lies between {percent(kept.lower)} and "
            f"{percent(kept.upper)}, and {percent(certificate.min_kept)} is required"
        )
    if not spares:
        reasons.append(
            f"the share of faithful answers touched lies between {percent(fpr.lower)} and "
            f"{percent(fpr.upper)}, and at most {percent(certificate.max_fpr or 0.0)} is allowed"
        )
    return "; ".join(reasons)


def _claim(certificate: TrimCertificate) -> str:
    """Say what is certified: every requirement, and by how much it is met."""
    claims = [
        f"frees at least {percent(certificate.min_coverage)} of hallucinated answers of all that "
        "is unsupported",
        f"keeps at least {percent(certificate.min_kept or 0.0)} of supported sentences",
    ]
    shown = [
        f"at least {percent(certificate.coverage_at_least)}",
        f"at least {percent(certificate.kept_at_least)}",
    ]
    if certificate.max_fpr is not None:
        claims.append(f"touches at most {percent(certificate.max_fpr)} of faithful answers")
        shown.append(f"at most {percent(certificate.fpr_at_most)}")
    return (
        f"with {percent(certificate.confidence)} confidence it {listed(claims)} (shown: "
        f"{', '.join(shown)})"
    )


def _worded(certificate: TrimCertificate, verdict: Verdict, reason: str) -> TrimCertificate:
    settled: dict[str, int | None] = {"hallucinated": 0, "faithful": 0, "answers": 0}
    sentence = f"{reason[0].upper()}{reason[1:]}."
    return replace(certificate, verdict=verdict, reason=sentence, needed=settled)
