"""How much do the scores of the two classes overlap?"""

import math
from typing import Final

import numpy as np

from calibrail.evaluation.stats.arrays import Floats, Ints
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.settings.checks import share

#: At most this many bins, so that one outlier cannot make the grid outgrow memory.
MAX_BINS = 2048
#: A score with no more distinct values than this is compared value by value, without a grid.
MAX_ATOMS = 32

_METHOD: Final = "upper bound, DKW"


def overlap(
    hallucinated: Floats,
    faithful: Floats,
    *,
    confidence: float = 0.95,
) -> Measure:
    """Return the overlapping coefficient, the shared area of the two densities, 0 to 1.

    Both samples are counted on one Freedman-Diaconis grid of the pooled scores (Scott's width
    where the middle half of them is tied; at most ``MAX_BINS`` bins) and the smaller of the two
    shares is summed over the bins. A score of at most ``MAX_ATOMS`` distinct values needs no
    grid: each value is a bin. Undefined scores, as infinite values, have a bin of their own.

    The interval is one-sided. No event differs more in probability between the classes than the
    area that they do not share, so the overlap is at most 1 - sup|F_h - F_f|; the largest distance
    of the two empirical distribution functions is off by more than the bands of both (Dvoretzky,
    Kiefer and Wolfowitz, with Massart's constant, 1990; each at half the error) with probability
    at most 1 - confidence, whatever the distributions. Nothing bounds the overlap from below: two
    samples may come from distributions that share no value at all. The estimate itself lies too
    low where the classes are alike, since on a grid two samples of one distribution differ.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores per class without NaN (see ``ranked_values``).
    confidence : float
        Level of the upper bound.

    Returns
    -------
    Measure
        With ``lower`` None, and the reason.

    Examples
    --------
    >>> overlap(np.array([1.0, 2.0]), np.array([2.0, 3.0])).estimate
    0.5
    """
    m, n = len(hallucinated), len(faithful)
    if m == 0 or n == 0:
        return missing(_METHOD, "one_class", confidence)
    counts_h, counts_f = _common_counts(hallucinated, faithful)
    estimate = _clip(float(np.minimum(counts_h / m, counts_f / n).sum()))
    # Each band errs with half of what is allowed, on either side of its distribution function.
    log_error = math.log(4.0 / (1.0 - share(confidence, "confidence")))
    bands = math.sqrt(log_error / (2.0 * m)) + math.sqrt(log_error / (2.0 * n))
    upper = _clip(1.0 - _largest_distance(hallucinated, faithful) + bands)
    return Measure(
        estimate, None, max(estimate, upper), _METHOD, confidence, "densities_unbounded_below"
    )


def _largest_distance(hallucinated: Floats, faithful: Floats) -> float:
    """Return the largest distance of the two empirical distribution functions."""
    pooled = np.concatenate([hallucinated, faithful])
    reached = [
        np.searchsorted(np.sort(values), pooled, side="right") / len(values)
        for values in (hallucinated, faithful)
    ]
    return float(np.abs(reached[0] - reached[1]).max())


def median_overlap(hallucinated: Floats, faithful: Floats) -> Measure:
    """Return min(P(S_f > median S_h), P(S_h < median S_f)), as the paper's public code does.

    It is 0.5 for equal continuous distributions and 0 for separated ones, and not an area; kept
    so that published figures can be compared.

    Examples
    --------
    >>> median_overlap(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.5, 1.0])).estimate
    0.0
    """
    method = "median-crossing"
    if len(hallucinated) == 0 or len(faithful) == 0:
        return missing(method, "one_class")
    crossed_f = float(np.mean(faithful > _median(hallucinated)))
    crossed_h = float(np.mean(hallucinated < _median(faithful)))
    return Measure(min(crossed_f, crossed_h), None, None, method)


def _median(values: Floats) -> float:
    """Return the median; between two infinite or huge middle values, without overflow."""
    ordered = np.sort(values)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    if math.isinf(low) or math.isinf(high):
        return low if low == high or math.isinf(low) else high
    return low / 2.0 + high / 2.0


def _common_counts(hallucinated: Floats, faithful: Floats) -> tuple[Ints, Ints]:
    """Return the two classes' counts per bin of a common grid."""
    pooled = np.concatenate([hallucinated, faithful])
    distinct, position = np.unique(pooled, return_inverse=True)
    size = len(distinct)
    if size > MAX_ATOMS:
        finite = np.isfinite(pooled)
        position[finite], bins = _grid_positions(pooled[finite])
        position[pooled == np.inf], position[pooled == -np.inf] = bins, bins + 1
        size = bins + 2
    m = len(hallucinated)
    return np.bincount(position[:m], minlength=size), np.bincount(position[m:], minlength=size)


def _grid_positions(values: Floats) -> tuple[Ints, int]:
    """Return each finite value's bin on their Freedman-Diaconis grid and the number of bins."""
    scaled = values / float(np.abs(values).max())  # so that no difference can overflow
    lowest, span = float(scaled.min()), float(np.ptp(scaled))
    quarter, three_quarters = np.quantile(scaled, [0.25, 0.75])
    width = 2.0 * float(three_quarters - quarter) / len(scaled) ** (1 / 3)
    if width <= 0.0:
        width = 3.49 * float(np.std(scaled)) / len(scaled) ** (1 / 3)
    bins = max(1, math.ceil(min(span / width, MAX_BINS))) if width > 0.0 else 1
    if span <= 0.0:
        return np.zeros(len(scaled), dtype=np.int64), 1
    position = np.floor((scaled - lowest) / span * bins).astype(np.int64)
    return np.minimum(position, bins - 1), bins


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
