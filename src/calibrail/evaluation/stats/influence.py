"""How sure is a statistic of answers that hang together in groups?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, stdtrit

from calibrail.evaluation.stats.measure import Measure, checked_confidence

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """A statistic with what every example contributes to its error.

    Parameters
    ----------
    value : float
        The statistic.
    influence : ndarray of float64, shape (n,)
        The first-order error is the sum of these; their mean is 0. An example that takes no part
        has 0.
    """

    value: float
    influence: _Floats

    def variance(self, clusters: NDArray[np.int64]) -> tuple[float, int]:
        """Return the variance and the number of clusters with any influence.

        Contributions are summed within a cluster, and the squares of these sums over clusters,
        times G/(G - 1): the jackknife's variance to first order, which for an AUROC is that of
        Obuchowski (1997), and of DeLong et al. (1988) where every example stands alone.
        """
        total = sums(self.influence[:, None], clusters)[:, 0]
        n = len(total)
        return (float(total @ total) * n / (n - 1) if n > 1 else 0.0), n


def sums(influence: _Floats, clusters: NDArray[np.int64]) -> _Floats:
    """Return the sums of rows of an array (n, k) per cluster, without rows of nothing but zeros."""
    there = influence.any(axis=1)
    _, member = np.unique(clusters[there], return_inverse=True)
    columns = [np.bincount(member, weights=column) for column in influence[there].T]
    return np.stack(columns, axis=1) if columns else np.zeros((0, 0))


def chained(value: float, parts: Sequence[tuple[Estimated, float]]) -> Estimated:
    """Return a function of statistics, given its derivative in each (the delta method)."""
    return Estimated(value, np.sum([slope * part.influence for part, slope in parts], axis=0))


def measured(
    found: Estimated,
    clusters: NDArray[np.int64],
    method: str,
    confidence: float = 0.95,
    scale: Literal["plain", "logit", "fisher"] = "plain",
) -> Measure:
    """Return a statistic with its interval, from the t distribution with G - 1 degrees of freedom.

    Parameters
    ----------
    found : Estimated
        The statistic.
    clusters : ndarray of int64, shape (n,)
        What examples hang together; G of them have any influence.
    method : str
        Named in the result.
    confidence : float
        Level of the two-sided interval.
    scale : {"plain", "logit", "fisher"}
        Where the interval is symmetric: the value itself, its logit (a share), or its inverse
        hyperbolic tangent (a correlation).

    Returns
    -------
    Measure
        Without an interval where the variance is zero or the value at the end of its range.
    """
    level = checked_confidence(confidence)
    variance, n = found.variance(clusters)
    value = found.value
    ends = {"plain": (-math.inf, math.inf), "logit": (0.0, 1.0), "fisher": (-1.0, 1.0)}[scale]
    inside = ends[0] + 1e-12 < value < ends[1] - 1e-12
    if variance <= 0.0 or not inside:
        return Measure(value, None, None, method, level)
    half = float(stdtrit(n - 1, (1.0 + level) / 2.0)) * math.sqrt(variance)
    if scale == "plain":
        return Measure(value, value - half, value + half, method, level)
    if scale == "logit":
        centre, reach = float(logit(value)), half / (value * (1.0 - value))
        return Measure(
            value, float(expit(centre - reach)), float(expit(centre + reach)), method, level
        )
    centre, reach = math.atanh(value), half / (1.0 - value**2)
    return Measure(value, math.tanh(centre - reach), math.tanh(centre + reach), method, level)
