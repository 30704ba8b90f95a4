"""How closely do two quantities go together, and do they still when a third is held fixed?

scipy has the coefficients (the tests hold ours against them), but no influence of the examples,
which intervals for answers in groups rest on, and no partial correlation.
"""

import math
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from calibrail.evaluation.stats.arrays import Floats
from calibrail.evaluation.stats.influence import Estimated, chained
from calibrail.evaluation.stats.measure import Measure, missing

#: Why two columns have no correlation.
CONSTANT: Final = "one_is_constant"


def spearman(x: Floats, y: Floats) -> Estimated | None:
    """Return Spearman's rank correlation (midranks) with each example's influence.

    The influence counts that an example also moves the ranks of all others. None where one of the
    two does not vary.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 30.0, 20.0, 40.0])).value
    0.8
    """
    if len(x) < 3:
        return None
    u, v = (_centred_ranks(column) / len(x) for column in (x, y))
    both, var_x, var_y = _covariance(u, v), _covariance(u, u), _covariance(v, v)
    if var_x.value <= 0.0 or var_y.value <= 0.0:
        return None
    root = math.sqrt(var_x.value * var_y.value)
    value = _clip(both.value / root)
    slopes = 1.0 / root, -value / (2.0 * var_x.value), -value / (2.0 * var_y.value)
    return chained(value, tuple(zip((both, var_x, var_y), slopes, strict=True)))


def pearson(x: Floats, y: Floats) -> Estimated | None:
    """Return Pearson's correlation with each example's influence; None without variation.

    Values are scaled first, so that large ones do not overflow.
    """
    if len(x) < 3:
        return None
    scaled = []
    for column in (x, y):
        small = column / (float(np.abs(column).max()) or 1.0)
        centred = small - small.mean()
        spread = math.sqrt(float(np.mean(centred**2)))
        if spread <= 1e-15:
            return None
        scaled.append(centred / spread)
    u, v = scaled
    value = _clip(float(np.mean(u * v)))
    return Estimated(value, (u * v - value * (u**2 + v**2) / 2.0) / len(x))


def partial(xy: Estimated | None, xz: Estimated | None, yz: Estimated | None) -> Estimated | None:
    """Return the correlation of x and y given z, from the three pairwise ones.

    r = (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2)(1 - r_yz^2)). None if z is x or y, or where one of
    the three does not vary.
    """
    if xy is None or xz is None or yz is None:
        return None
    left, right = 1.0 - xz.value**2, 1.0 - yz.value**2
    if min(left, right) < 1e-12:
        return None
    root = math.sqrt(left * right)
    value = _clip((xy.value - xz.value * yz.value) / root)
    xz_slope = -yz.value / root + value * xz.value / left
    yz_slope = -xz.value / root + value * yz.value / right
    return chained(value, ((xy, 1.0 / root), (xz, xz_slope), (yz, yz_slope)))


def rank_correlation(x: Floats, y: Floats, confidence: float = 0.95) -> Measure:
    """Return Spearman's rank correlation of answers that stand alone, with its interval.

    On Fisher's scale with variance (1 + r^2/2)/(n - 3): Bonett and Wright, "Sample size
    requirements for estimating Pearson, Kendall and Spearman correlations", 2000.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])).estimate
    0.8
    """
    method, n = "spearman, bonett-wright", len(x)
    if n < 3:
        return missing(method, "few_have_both", confidence)
    u, v = _centred_ranks(x), _centred_ranks(y)
    scale = math.sqrt(float(u @ u) * float(v @ v))
    if scale == 0.0:
        return missing(method, CONSTANT, confidence)
    value = _clip(float(u @ v) / scale)
    if n < 4 or abs(value) > 1.0 - 1e-12:
        return Measure(value, None, None, method, confidence)
    half = float(ndtri((1.0 + confidence) / 2.0)) * math.sqrt((1.0 + value**2 / 2.0) / (n - 3))
    lower, upper = (math.tanh(math.atanh(value) + side * half) for side in (-1.0, 1.0))
    return Measure(value, lower, upper, method, confidence)


def _clip(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _centred_ranks(column: Floats) -> Floats:
    ranks: Floats = rankdata(column) - (len(column) + 1) / 2.0
    return ranks


def _covariance(u: Floats, v: Floats) -> Estimated:
    """Return the covariance of two columns of centred ranks, and what each example does to it."""
    n = len(u)
    value = float(u @ v) / n
    above = _above(u, v) + _above(v, u)
    return Estimated(value, (u * v + above - 3.0 * value) / n)


def _above(ranks: Floats, weights: Floats) -> Floats:
    """Return, per example, the mean weight of those ranked above it (ties count half)."""
    order = np.argsort(ranks, kind="stable")
    running = np.append(0.0, np.cumsum(weights[order]))
    low, upto = (running[np.searchsorted(ranks[order], ranks, end)] for end in ("left", "right"))
    result: Floats = (running[-1] - (low + upto) / 2.0) / len(ranks)
    return result
