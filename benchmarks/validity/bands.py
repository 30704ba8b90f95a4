"""The band of a report's slider at every score of a sample, and between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import attainable_coverages
from calibrail.conformal.bounds import Method, simultaneous_bounds

Floats = NDArray[np.float64]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class SimultaneousBand:
    """Bounds on P(score >= t) for every threshold t at once.

    Attributes
    ----------
    thresholds : ndarray of float64, shape (d,)
        Distinct scores, ascending.
    share, lower, upper : ndarray of float64, shape (d,)
        Observed share at or above each threshold, and its simultaneous bounds. Each side alone errs
        anywhere with at most (1 - confidence) / 2.
    n : int
        Scores.
    confidence : float
        That both sides hold at all thresholds.
    method : {"berk-jones", "dkw"}
        How the bounds were made.
    """

    thresholds: Floats
    share: Floats
    lower: Floats
    upper: Floats
    n: int
    confidence: float
    method: Method

    def at(self, thresholds: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return share, lower and upper bound at any thresholds, also between the scores."""
        place = np.searchsorted(self.thresholds, np.asarray(thresholds), side="left")
        none = simultaneous_bounds(np.zeros(1, np.int64), self.n, self.confidence, self.method)
        share = np.append(self.share, 0.0)
        lower, upper = np.append(self.lower, none[0]), np.append(self.upper, none[1])
        return share[place], lower[place], upper[place]


def simultaneous_band(
    scores: ArrayLike, confidence: float = 0.95, method: Method = "berk-jones"
) -> SimultaneousBand:
    """Return the band of independent scores of one class, ties and all."""
    thresholds, share = attainable_coverages(scores)
    n = int(np.size(scores))
    counts = np.rint(share * n).astype(np.int64)
    lower, upper = simultaneous_bounds(counts, n, confidence, method)
    return SimultaneousBand(thresholds, share, lower, upper, n, confidence, method)
