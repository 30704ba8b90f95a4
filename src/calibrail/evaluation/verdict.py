"""Does the data show that the requirements on coverage and false alarms are met?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, Certificate, certify_counts, joint_certificate
from calibrail.conformal.rank import decimal
from calibrail.evaluation.report import Tested
from calibrail.evaluation.sample import CALIBRATION, TEST
from calibrail.evaluation.stats.phrases import count, percent


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
        examples, the score was not fitted, and none shares a group with a hallucinated
        calibration example (which the threshold did see).
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
        labels: NDArray[np.int8],
        codes: NDArray[np.int8],
        groups: NDArray[np.int64] | None,
        fitted: bool,
    ) -> Alarms:
        """Count false alarms per part; a negative group code stands for "no group"."""
        faithful = labels == 0
        test = faithful & (codes == TEST)
        source = faithful & (codes == CALIBRATION)
        mixed = False
        if groups is not None:
            seen = groups[(codes == CALIBRATION) & (labels == 1) & (groups >= 0)]
            mixed = bool(np.isin(groups[source & (groups >= 0)], seen).any())
        alarms, n_test = int(np.sum(flagged & test)), int(np.sum(test))
        return cls(
            test=alarms,
            n_test=n_test,
            all=alarms + int(np.sum(flagged & source)),
            n_all=n_test + int(np.sum(source)),
            pooled=not fitted and not mixed,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, why, and the exact bounds behind it as a JSON-able mapping."""

    verdict: str
    reason: str
    certificate: Mapping[str, Any]


def decide(
    calibration: Calibration,
    tested: Tested,
    alarms: Alarms,
    min_coverage: float,
    max_fpr: float | None,
    confidence: float,
    *,
    one_threshold: bool = True,
    once: tuple[int, int, int, int] | None = None,
    verb: str = "flags",
) -> Decision:
    """Return the verdict about ``coverage >= min_coverage`` and ``FPR <= max_fpr``.

    A ``pac`` threshold brings its coverage along by construction (unless more than its target is
    required), so that its FPR bound may use every faithful example that it never saw. For the
    other guarantees, both rates are bounded on the test part. Where a ``pac`` threshold is
    certified although the test part caught fewer than chance explains, the certificate is
    withheld: the samples it combines do not look like one source.

    Parameters
    ----------
    calibration : Calibration
        The threshold.
    tested : Tested
        Counts on the test part.
    alarms : Alarms
        False alarms, with and without the calibration part.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR; without it nothing can be certified.
    confidence : float
        Two-sided level of both bounds. The certificate states the joint confidence that follows:
        the same for counts on the test part, ``1 - delta - (1 - confidence) / 2`` for ``pac``.
    one_threshold : bool
        Whether the threshold of ``calibration`` decided about every answer; if not (groups have
        their own), nothing is certified by its construction.
    once : tuple of int, optional
        Caught, hallucinated, false alarms and faithful among independent test examples (one a
        group), where the counts of ``tested`` are not independent.
    verb : str
        What happens to answers that do not pass, for the reason in words.
    """
    coverage, fpr = tested.coverage, tested.fpr
    counts = (coverage.count, coverage.n, fpr.count, fpr.n) if once is None else once
    proven = float(1 - decimal(calibration.alpha))
    construction = (
        one_threshold
        and calibration.guarantee == "pac"
        and not calibration.flag_all
        and min_coverage <= 1.0 - calibration.alpha + 1e-12
    )
    if construction:
        false_alarms, n = counts[2:]
        if alarms.pooled and once is None:
            false_alarms, n = alarms.all, alarms.n_all
        certificate = joint_certificate(
            calibration,
            *counts[:2],
            false_alarms,
            n,
            max_fpr,
            confidence,
            min(min_coverage, proven),
        )
    else:
        certificate = certify_counts(*counts, min_coverage, max_fpr, confidence)
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
    elif verdict == "inconclusive" and not construction and max_fpr is not None:
        reason = _with_coverage_hint(reason, calibration, certificate)
    reason = reason.replace("flags", verb)
    found = {**certificate.to_dict(), "verdict": verdict, "reason": reason}
    if verdict != "certified":
        found["flips"] = None
    return Decision(verdict, reason, found)


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
