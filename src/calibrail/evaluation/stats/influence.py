"""How sure is a statistic of answers that hang together in groups?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrail.evaluation.stats.arrays import Floats, Ints

#: Where an interval is symmetric: on the value itself, or on its inverse hyperbolic tangent (a
#: correlation).
Scale = Literal["plain", "fisher"]


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
    influence: Floats

    def variance(self, clusters: Ints) -> tuple[float, int]:
        """Return the variance and the number of clusters with any influence.

        Contributions are summed within a cluster, and the squares of these sums over clusters,
        times G/(G - 1): the jackknife's variance to first order, which for an AUROC is that of
        Obuchowski (1997), and of DeLong et al. (1988) where every example stands alone.
        """
        total = cluster_sums(self.influence[:, None], clusters)[:, 0]
        n = len(total)
        return (float(total @ total) * n / (n - 1) if n > 1 else 0.0), n


def cluster_sums(influence: Floats, clusters: Ints) -> Floats:
    """Return the sums of rows of an array (n, k) per cluster, without rows of nothing but zeros."""
    there = influence.any(axis=1)
    _, member = np.unique(clusters[there], return_inverse=True)
    columns = [np.bincount(member, weights=column) for column in influence[there].T]
    return np.stack(columns, axis=1) if columns else np.zeros((0, 0))


def chained(value: float, parts: Sequence[tuple[Estimated, float]]) -> Estimated:
    """Return a function of statistics, given its derivative in each (the delta method)."""
    return Estimated(value, np.sum([slope * part.influence for part, slope in parts], axis=0))


def difference_from_half(first: Estimated, second: Estimated) -> Estimated:
    """Return how much farther from 1/2 the first of two AUROCs lies, in either direction."""
    signs = [1.0 if item.value >= 0.5 else -1.0 for item in (first, second)]
    value = abs(first.value - 0.5) - abs(second.value - 0.5)
    return chained(value, ((first, signs[0]), (second, -signs[1])))


def interval(value: float, half: float, scale: Scale) -> tuple[float, float]:
    """Return an interval that is symmetric on a scale, ``half`` wide to first order.

    Examples
    --------
    >>> [round(end, 3) for end in interval(0.9, 0.1, "fisher")]
    [0.738, 0.964]
    """
    if scale == "plain":
        return value - half, value + half
    centre, reach = math.atanh(value), half / (1.0 - value**2)
    return math.tanh(centre - reach), math.tanh(centre + reach)
