"""What does a verdict that may be read at any time say, and when does it fall?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.bound import Bound
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.validation import Bools, Floats
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Decided(Record):
    """When the verdict fell: after how many answers drawn, of which so many labelled."""

    drawn: int
    labelled: int


@dataclass(frozen=True, slots=True)
class SequentialCertificate(Record):
    """A verdict that holds whenever one looks and however often, with what it rests on.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        The first that fell; ``inconclusive`` while labelling may go on.
    reasons : tuple of str
        One code for each requirement: ``coverage_shown``, ``coverage_refuted`` or
        ``coverage_open``, and the same of ``fpr``.
    coverage, fpr : Bound
        Confidence sequences: all intervals of all times hold together with ``confidence``, each
        rate by itself. Where answers were labelled with different probabilities the estimate is
        weighted, and the ends are rounded outwards to whole percents and the requirement.
    coverage_at_least, fpr_at_most : float
        The ends that "certified" rests on: the bets that won it, inverted. Each alone holds at all
        times with ``confidence``, and so reaches less far than its interval, which has two ends.
    min_coverage, max_fpr : float
        What is required.
    confidence : float
        Of the verdict: a wrong "certified", and a wrong "rejected", ever fall with probability at
        most 1 - confidence each.
    log_wealth : mapping of str to float
        Highest logarithm so far of the wealth won by betting on ``coverage_kept``,
        ``coverage_broken``, ``fpr_kept`` and ``fpr_broken``.
    kept_at, broken_at : float
        What ``log_wealth`` has to reach: both that are kept for ``certified``, one that is broken
        for ``rejected``.
    drawn, labelled : int
        Answers so far.
    decided : Decided or None
        When the verdict fell.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    coverage: Bound
    fpr: Bound
    coverage_at_least: float
    fpr_at_most: float
    min_coverage: float
    max_fpr: float
    confidence: float
    log_wealth: Mapping[str, float]
    kept_at: float
    broken_at: float
    drawn: int
    labelled: int
    decided: Decided | None


def verdicts(highest: Floats, confidence: float) -> tuple[Bools, Bools]:
    """Return whether highest logarithms of four wealths, shape (..., 4), certify and reject.

    ``certified`` is wrong only where one claim is broken, and the wealth of that one reaches
    1 / delta: both may take the whole error, and need not have it at the same time.
    """
    kept, broken = goals(confidence)
    certified = (highest[..., 0] >= kept) & (highest[..., 2] >= kept)
    return certified, (highest[..., 1] >= broken) | (highest[..., 3] >= broken)


def goals(confidence: float) -> tuple[float, float]:
    """Return what logarithms have to reach to show that a claim is kept, and that it is broken."""
    error = 1.0 - validation.share(confidence, "confidence")
    return float(np.log(1.0 / error)), float(np.log(2.0 / error))
