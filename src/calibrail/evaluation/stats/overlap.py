"""How much do the scores of the two classes overlap?"""

import math

import numpy as np

from calibrail.evaluation.stats.arrays import Floats, Ints
from calibrail.evaluation.stats.measure import Measure, missing

#: At most this many bins, so that one outlier cannot make the grid outgrow memory.
MAX_BINS = 2048
#: A score with no more distinct values than this is compared value by value, without a grid.
MAX_ATOMS = 32


def overlap(
    hallucinated: Floats,
    faithful: Floats,
    *,
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Measure:
    """Return the overlapping coefficient, the shared area of the two densities, 0 to 1.

    Both samples are counted on one Freedman-Diaconis grid of the pooled scores (Scott's width
    where the middle half of them is tied; at most ``MAX_BINS`` bins) and the smaller of the two
    shares is summed over the bins. A score of at most ``MAX_ATOMS`` distinct values needs no
    grid: each value is a bin. Undefined scores, as infinite values, have a bin of their own.

    The interval is the basic bootstrap, 2 x estimate - quantiles, because the plug-in estimate
    and its replicates are biased the same way (downwards); it is extended to hold the estimate,
    and, where no replicate differs, by Clopper-Pearson's bound for min(m, n) equal outcomes.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores per class without NaN (see ``ranked_values``).
    confidence : float
        Level of the two-sided interval.
    replicates : int
        Bootstrap samples; each class is resampled by itself.
    seed : int
        Seed of the resampling: the same input gives the same interval.

    Examples
    --------
    >>> overlap(np.array([1.0, 2.0]), np.array([2.0, 3.0])).estimate
    0.5
    """
    m, n = len(hallucinated), len(faithful)
    if m == 0 or n == 0:
        return missing("bootstrap-basic", "one_class", confidence)
    counts_h, counts_f = _common_counts(hallucinated, faithful)
    share_h, share_f = counts_h / m, counts_f / n
    estimate = _clip(float(np.minimum(share_h, share_f).sum()))
    rng = np.random.default_rng(seed)
    drawn_h = rng.multinomial(m, share_h, size=replicates) / m
    drawn = np.minimum(drawn_h, rng.multinomial(n, share_f, size=replicates) / n).sum(axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    lower = _clip(min(2.0 * estimate - float(high), estimate))
    upper = _clip(max(2.0 * estimate - float(low), estimate))
    if float(np.ptp(drawn)) < 1e-12:
        slack = 1.0 - tail ** (1.0 / min(m, n))
        lower, upper = _clip(estimate - slack), _clip(estimate + slack)
    return Measure(estimate, lower, upper, "bootstrap-basic", confidence)


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
