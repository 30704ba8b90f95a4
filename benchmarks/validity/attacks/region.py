"""Both rates at once: do the figures of a verdict that stand side by side hold together?

The figures are read off the words that a user reads, so that it counts what is printed, with what
confidence, and how it is rounded. The limits are so wide that every verdict is *certified*.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np
from scipy.special import ndtr

from calibrail.conformal import (
    ClassCounts,
    calibrate_threshold,
    certify_counts,
    joint_certificate,
)
from calibrail.options import Promise, Requirement

from .attack import Attack, Try

#: So that an error is seen in few runs.
CONFIDENCE: Final = 0.8
WIDE: Final = Requirement(max_fpr=0.999, min_coverage=0.001, confidence=CONFIDENCE)


def printed(words: str) -> tuple[float, float]:
    """Return the ends that a verdict prints of what is caught and of false alarms."""
    at_least = re.findall(r"at least ([\d.]+)%", words)[-1]
    at_most = re.findall(r"at most ([\d.]+)%", words)[-1]
    return float(at_least) / 100.0, float(at_most) / 100.0


def of_counts(n: int, coverage: float, fpr: float) -> Try:
    """Return an attempt on new answers, n of each class."""

    def attempt(rng: np.random.Generator, _: Path) -> bool:
        counts = ClassCounts(int(rng.binomial(n, coverage)), n, int(rng.binomial(n, fpr)), n)
        lowest, highest = printed(certify_counts(counts, WIDE).reason)
        return coverage < lowest or fpr > highest

    return attempt


def of_construction(n: int, n_test: int) -> Try:
    """Return an attempt on a pac threshold and the false alarms that it raises.

    What is printed is to hold with the confidence that was asked for.
    """
    promise = Promise(alpha=0.1, guarantee="pac", delta=0.2)

    def attempt(rng: np.random.Generator, _: Path) -> bool:
        calibration = calibrate_threshold(rng.normal(2.0, 1.0, n), promise)
        coverage, fpr = ndtr(2.0 - calibration.threshold), ndtr(-calibration.threshold)
        caught = int(rng.binomial(n_test, coverage)) if n_test else 0
        counts = ClassCounts(caught, n_test, int(rng.binomial(n, fpr)), n)
        lowest, highest = printed(joint_certificate(calibration, counts, WIDE).reason)
        return bool(coverage < lowest or fpr > highest)

    return attempt


#: Answers of each class with coverage and FPR, and wrong results of as many runs before.
_COUNTS: Final = (((30, 0.9, 0.1), (1, 2)), ((1000, 0.9, 0.2), (1, 2)))
#: Test answers, and wrong results before.
_PROVEN: Final = ((0, (1, 2)), (400, (1, 2)))

ATTACKS = [
    *(
        Attack(
            f"the two figures of a certificate, {at[0]} answers of each class",
            f"coverage {at[1]:g}, FPR {at[2]:g}, read off the verdict at {CONFIDENCE:g}",
            1.0 - CONFIDENCE,
            before,
            of_counts(*at),
            1000,
        )
        for at, before in _COUNTS
    ),
    *(
        Attack(
            f"the two figures of a pac certificate, {tested or 'no'} test answers",
            f"delta 0.2, read off the verdict at the {CONFIDENCE:g} asked for",
            1.0 - CONFIDENCE,
            before,
            of_construction(400, tested),
            1000,
        )
        for tested, before in _PROVEN
    ),
]
