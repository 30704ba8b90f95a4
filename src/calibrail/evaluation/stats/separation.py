"""How far apart are the two classes' mean scores?"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from calibrail.evaluation.stats.arrays import Floats
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Moments(Record):
    """Mean and standard deviation of one class's defined scores.

    Parameters
    ----------
    n : int
        Number of defined scores.
    mean : float or None
        None where there is no score.
    sd : float or None
        Sample standard deviation (divisor n - 1); None with fewer than two scores, or where it
        is too large to hold.
    """

    n: int
    mean: float | None
    sd: float | None


@dataclass(frozen=True, slots=True)
class Welch(Record):
    """Welch's t-test of "both classes have the same mean score", two-sided.

    Parameters
    ----------
    statistic, df, p_value : float or None
        t (positive where hallucinated answers score higher), the Welch-Satterthwaite degrees of
        freedom, and the p-value; all three None where the test cannot be computed.
    reason : str or None
        Why it cannot.
    """

    statistic: float | None
    df: float | None
    p_value: float | None
    reason: str | None = None


def moments(values: Floats) -> Moments:
    """Return n, mean and standard deviation of the defined scores in ``values``.

    Examples
    --------
    >>> moments(np.array([1.0, 2.0, 3.0, np.nan]))
    Moments(n=3, mean=2.0, sd=1.0)
    """
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return Moments(0, None, None)
    scale, mean, variance = _scaled_moments(defined)
    sd = scale * math.sqrt(variance)
    known = len(defined) > 1 and math.isfinite(sd)
    return Moments(len(defined), scale * mean, sd if known else None)


def cohens_d(hallucinated: Floats, faithful: Floats) -> Measure:
    """Return (mean S_h - mean S_f) / pooled SD over the defined scores (Cohen, 1988).

    Positive where hallucinated answers score higher. The pooled variance weighs each class's
    sample variance with n - 1.

    Examples
    --------
    >>> cohens_d(np.array([1.0, 3.0]), np.array([0.0, 2.0])).estimate
    0.7071067811865475
    """
    method = "pooled-sd"
    scaled = _scaled_pair(hallucinated, faithful)
    if isinstance(scaled, str):
        return missing(method, scaled)
    (n_h, mean_h, var_h), (n_f, mean_f, var_f) = scaled
    pooled = ((n_h - 1) * var_h + (n_f - 1) * var_f) / (n_h + n_f - 2)
    if pooled <= 0.0:
        return missing(method, "constant_within_classes")
    value = (mean_h - mean_f) / math.sqrt(pooled)
    if not math.isfinite(value):
        return missing(method, "value_too_large")
    return Measure(float(value), None, None, method)


def welch(hallucinated: Floats, faithful: Floats) -> Welch:
    """Return Welch's t-test between the classes' defined scores (Welch, 1947)."""
    scaled = _scaled_pair(hallucinated, faithful)
    if isinstance(scaled, str):
        return Welch(None, None, None, scaled)
    (n_h, mean_h, var_h), (n_f, mean_f, var_f) = scaled
    part_h, part_f = var_h / n_h, var_f / n_f
    total = part_h + part_f
    if total <= 0.0:
        return Welch(None, None, None, "constant_within_classes")
    share_h, share_f = part_h / total, part_f / total
    df = 1.0 / (share_h**2 / (n_h - 1) + share_f**2 / (n_f - 1))
    statistic = (mean_h - mean_f) / math.sqrt(total)
    if not math.isfinite(statistic):
        return Welch(None, None, None, "statistic_too_large")
    p_value = min(1.0, 2.0 * float(stdtr(df, -abs(statistic))))
    return Welch(statistic, df, p_value)


_Triple = tuple[int, float, float]


def _scaled_pair(hallucinated: Floats, faithful: Floats) -> tuple[_Triple, _Triple] | str:
    """Return (n, mean, variance) per class on one common scale, or why they are missing."""
    defined = [values[~np.isnan(values)] for values in (hallucinated, faithful)]
    for name, values in zip(("hallucinated", "faithful"), defined, strict=True):
        if len(values) < 2:
            return f"few_defined_{name}"
    common = max(float(np.abs(values).max()) for values in defined) or 1.0
    triples = []
    for values in defined:
        scale, mean, variance = _scaled_moments(values)
        ratio = scale / common
        triples.append((len(values), ratio * mean, ratio * ratio * variance))
    return triples[0], triples[1]


def _scaled_moments(values: Floats) -> tuple[float, float, float]:
    """Return scale, mean/scale and variance/scale², exact where all values are equal."""
    scale, low = float(np.abs(values).max()) or 1.0, float(values.min())
    if low == float(values.max()):
        return scale, low / scale, 0.0
    scaled = values / scale
    return scale, float(np.mean(scaled)), float(np.var(scaled, ddof=1))
