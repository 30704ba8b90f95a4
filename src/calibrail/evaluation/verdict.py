"""Does the data show that the requirements on coverage and false alarms are met?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from calibrail.conformal import Counts, certify_counts, joint_certificate
from calibrail.conformal.rank import decimal
from calibrail.conformal.rule import Rule
from calibrail.conformal.trim_certificate import certify_trimming
from calibrail.evaluation.sample import CALIBRATION, Mask, Sample
from calibrail.evaluation.tested import Tested
from calibrail.evaluation.trimmed import Trimmed
from calibrail.settings import Requirement

#: What a verdict rests on: the bounds of the certificate; the same, where the coverage that they
#: leave open is the very one that the threshold aims at; a test part that caught fewer than chance
#: explains; the bounds of several risks; an earlier look at the same data.
Reason = Literal[
    "bounds", "aims_at_the_requirement", "caught_too_few", "risks", "looked_before", "rows_alike"
]


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, why, and the exact bounds behind it as a JSON-able mapping."""

    verdict: str
    reason: Reason
    certificate: Mapping[str, Any]


def decide(
    rule: Rule, tested: Tested, flagged: Mask, sample: Sample, requirement: Requirement
) -> Decision:
    """Return the verdict about ``coverage >= min_coverage`` and ``FPR <= max_fpr``.

    A ``pac`` or ``anytime`` threshold brings its coverage along by construction (unless more than
    its target is required), so that its FPR bound may use every faithful example that it never
    saw. For the other guarantees, both rates are bounded on the test part. One answer of each group
    and class counts, unless the sample takes all as independent. Where such a threshold is
    certified although the test part caught fewer than chance explains, the certificate is withheld:
    the samples it combines do not look like one source.

    Parameters
    ----------
    rule : Rule
        What decides. Where one threshold does not decide about every answer (groups have their
        own), nothing is certified by its construction.
    tested : Tested
        Counts on the test part.
    flagged, sample : ndarray of bool, shape (n,), and Sample
        Decisions about all examples.
    requirement : Requirement
        With a ``min_coverage``; without a ``max_fpr`` nothing can be certified. ``confidence`` is
        the two-sided level of both bounds. The certificate states the joint confidence that
        follows: the same for counts on the test part, ``1 - delta - (1 - confidence) / 2`` for
        those two.
    """
    calibration, min_coverage = rule.calibration, requirement.min_coverage
    assert min_coverage is not None
    counts = sample.one_per_group(flagged)
    band = tested.coverage_band
    proven, construction = (
        calibration.promise.of_this_threshold,
        _by_construction(rule, min_coverage),
    )
    if construction:
        least = min(min_coverage, float(1 - decimal(calibration.alpha)))
        joint = _with_unseen(counts, flagged, sample)
        limits = replace(requirement, min_coverage=least)
        certificate = joint_certificate(calibration, joint, limits)
    else:
        certificate = certify_counts(counts, requirement)
    verdict: str = certificate.verdict
    reason: Reason = "bounds"
    if construction and verdict == "certified" and band and counts.caught < band.lowest:
        verdict, reason = "inconclusive", "caught_too_few"
    elif verdict == "inconclusive" and requirement.max_fpr is not None and not proven:
        unsettled = certificate.coverage.lower < certificate.min_coverage
        if unsettled and min_coverage >= 1.0 - calibration.alpha - 1e-12:
            reason = "aims_at_the_requirement"
    content = {**certificate.to_dict(), "verdict": verdict}
    # A flip may also change which answer of a group counts, for both classes.
    if verdict != "certified" or sample.n_set_aside or counts != sample.counts(flagged):
        content["flips"] = None
    return Decision(verdict, reason, content)


def decide_trimming(
    rule: Rule, tested: Tested, trimmed: Trimmed, requirement: Requirement
) -> Decision:
    """Return the verdict about what is freed, kept and touched where sentences are removed.

    As ``decide`` does, a ``pac`` or ``anytime`` threshold brings along that enough answers are
    freed, so that what it touches is counted on every faithful answer that it never saw; what it
    keeps is measured on the test part, on answers of both classes in the proportion they have
    there.

    Parameters
    ----------
    rule, tested, requirement
        As for ``decide``; without a ``min_kept`` nothing can be certified.
    trimmed : Trimmed
        What the rule leaves of the answers.
    """
    calibration, min_coverage = rule.calibration, requirement.min_coverage
    assert min_coverage is not None
    sample, counts, band = trimmed.sample, trimmed.counts, tested.coverage_band
    proven = _by_construction(rule, min_coverage)
    if proven:
        counts = _with_unseen(counts, trimmed.stopped, sample)
    kept = trimmed.outcomes.shares(trimmed.everyone)
    certificate = certify_trimming(counts, kept, requirement, calibration if proven else None)
    verdict: str = certificate.verdict
    reason: Reason = "bounds"
    if proven and verdict == "certified" and band and tested.coverage.count < band.lowest:
        verdict, reason = "inconclusive", "caught_too_few"
    elif verdict == "inconclusive" and requirement.min_kept is not None:
        unsettled = certificate.coverage_at_least < min_coverage
        aims = min_coverage >= 1.0 - calibration.alpha - 1e-12
        if unsettled and aims and not calibration.promise.of_this_threshold:
            reason = "aims_at_the_requirement"
    return Decision(verdict, reason, {**certificate.to_dict(), "verdict": verdict})


def _by_construction(rule: Rule, min_coverage: float) -> bool:
    """Return whether a threshold decides alone whose coverage is proven, and is enough."""
    calibration = rule.calibration
    promised = min_coverage <= 1.0 - calibration.alpha + 1e-12
    alone = rule.groups is None and rule.chosen is None
    proven = calibration.promise.of_this_threshold
    return alone and proven and promised and not calibration.flag_all


def _with_unseen(counts: Counts, flagged: Mask, sample: Sample) -> Counts:
    """Add the faithful calibration examples, which the threshold never saw.

    None is added where one shares a group with a hallucinated example of the calibration part.
    """
    if sample.groups is not None:
        grouped = sample.groups >= 0
        faithful, seen = (sample.groups[sample.rows(CALIBRATION, k) & grouped] for k in (0, 1))
        if np.isin(faithful, seen).any():
            return counts
    alarms, n = sample.count(flagged, CALIBRATION, 0)
    alarms, n = counts.false_alarms + alarms, counts.n_faithful + n
    return replace(counts, false_alarms=alarms, n_faithful=n)
