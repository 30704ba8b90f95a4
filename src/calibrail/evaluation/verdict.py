"""Does the data show that the requirements on coverage and false alarms are met?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, Certificate, certify_counts, joint_certificate
from calibrail.conformal.rank import decimal
from calibrail.conformal.rule import Rule
from calibrail.evaluation.report import Tested
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.phrases import count, percent
from calibrail.settings import Requirement


@dataclass(frozen=True, slots=True)
class Alarms:
    """Which faithful examples may serve the FPR bound of a ``pac`` threshold, and how many flag.

    Parameters
    ----------
    test, n_test : int
        False alarms and faithful examples of the test part.
    all, n_all : int
        The same over calibration and test part together.
    pooled : bool
        Whether the calibration part may be used too: the threshold never saw its faithful
        examples, and none shares a group with a hallucinated calibration example (which the
        threshold did see).
    """

    test: int
    n_test: int
    all: int
    n_all: int
    pooled: bool

    @classmethod
    def count(
        cls,
        flagged: NDArray[np.bool_],
        sample: Sample,
    ) -> Alarms:
        """Count false alarms per part; a negative group code stands for "no group"."""
        alarms, n_test = sample.count(flagged, TEST, 0)
        more, n_more = sample.count(flagged, CALIBRATION, 0)
        mixed = False
        if (groups := sample.groups) is not None:
            seen = groups[sample.rows(CALIBRATION, 1) & (groups >= 0)]
            mixed = bool(np.isin(groups[sample.rows(CALIBRATION, 0) & (groups >= 0)], seen).any())
        return cls(alarms, n_test, alarms + more, n_test + n_more, pooled=not mixed)


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, why, and the exact bounds behind it as a JSON-able mapping."""

    verdict: str
    reason: str
    certificate: Mapping[str, Any]


def decide(
    rule: Rule,
    tested: Tested,
    alarms: Alarms,
    requirement: Requirement,
    once: tuple[int, int, int, int] | None = None,
) -> Decision:
    """Return the verdict about ``coverage >= min_coverage`` and ``FPR <= max_fpr``.

    A ``pac`` threshold brings its coverage along by construction (unless more than its target is
    required), so that its FPR bound may use every faithful example that it never saw. For the
    other guarantees, both rates are bounded on the test part. Where a ``pac`` threshold is
    certified although the test part caught fewer than chance explains, the certificate is
    withheld: the samples it combines do not look like one source.

    Parameters
    ----------
    rule : Rule
        What decides. Where one threshold does not decide about every answer (groups have their
        own), nothing is certified by its construction.
    tested : Tested
        Counts on the test part.
    alarms : Alarms
        False alarms, with and without the calibration part.
    requirement : Requirement
        With a ``min_coverage``; without a ``max_fpr`` nothing can be certified. ``confidence`` is
        the two-sided level of both bounds. The certificate states the joint confidence that
        follows: the same for counts on the test part, ``1 - delta - (1 - confidence) / 2`` for
        ``pac``.
    once : tuple of int, optional
        Caught, hallucinated, false alarms and faithful among independent test examples (one a
        group), where the counts of ``tested`` are not independent.
    """
    calibration, min_coverage = rule.calibration, requirement.min_coverage
    assert min_coverage is not None
    limits = requirement.max_fpr, requirement.confidence
    coverage, fpr = tested.coverage, tested.fpr
    counts = (coverage.count, coverage.n, fpr.count, fpr.n) if once is None else once
    proven = float(1 - decimal(calibration.alpha))
    construction = (
        rule.groups is None
        and rule.chosen is None
        and calibration.guarantee == "pac"
        and not calibration.flag_all
        and min_coverage <= 1.0 - calibration.alpha + 1e-12
    )
    if construction:
        false_alarms, n = counts[2:]
        if alarms.pooled and once is None:
            false_alarms, n = alarms.all, alarms.n_all
        certificate = joint_certificate(
            calibration, *counts[:2], false_alarms, n, *limits, min(min_coverage, proven)
        )
    else:
        certificate = certify_counts(*counts, min_coverage, *limits)
    verdict, reason = certificate.verdict, certificate.reason
    band = tested.coverage_band
    if construction and verdict == "certified" and band is not None:
        if tested.coverage.count < band.lowest:
            verdict = "inconclusive"
            reason = (
                f"The bounds would certify it, but the test part caught only "
                f"{tested.coverage.count:,} of {tested.coverage.n:,} hallucinations, fewer than "
                f"the {band.lowest:,} that chance explains."
            )
    elif verdict == "inconclusive" and not construction and requirement.max_fpr is not None:
        reason = _with_coverage_hint(reason, calibration, certificate)
    if rule.upper is not None:
        reason = reason.replace("flags", "withholds")
    content = {**certificate.to_dict(), "verdict": verdict, "reason": reason}
    if verdict != "certified":
        content["flips"] = None
    return Decision(verdict, reason, content)


def _with_coverage_hint(reason: str, calibration: Calibration, certificate: Certificate) -> str:
    """Add why a marginal threshold rarely certifies the coverage that it aims at."""
    unsettled = certificate.coverage.lower < certificate.min_coverage
    aims_at = certificate.min_coverage >= 1.0 - calibration.alpha - 1e-12
    if not (unsettled and aims_at and calibration.guarantee != "pac"):
        return reason
    needed = certificate.needed.get("hallucinated")
    more = (
        "no number of further examples would settle it at the rate seen"
        if needed is None
        else f"{count(needed, 'more hallucinated example')} would settle it at the rate seen"
    )
    return (
        f"{reason} A {calibration.guarantee} threshold aims at {percent(1 - calibration.alpha)}, "
        f"so about half of all draws lie below, and {more}: use --guarantee pac, or require less "
        "with --min-coverage."
    )
