"""How much do the scores of the two classes overlap?"""

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Final

import numpy as np

from calibrail.evaluation.stats.arrays import Floats, Ints
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.settings.checks import share

#: At most this many bins, so that one outlier cannot make the grid outgrow memory.
MAX_BINS = 2048
#: A score with no more distinct values than this is compared value by value, without a grid.
MAX_ATOMS = 32

#: Values that are looked up at a time.
_AT_A_TIME: Final = 1 << 20

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
    ordered, largest = (np.sort(hallucinated), np.sort(faithful)), 0.0
    for start, values in product(range(0, max(map(len, ordered)), _AT_A_TIME), ordered):
        at = values[start : start + _AT_A_TIME]
        reached = [np.searchsorted(part, at, side="right") / len(part) for part in ordered]
        largest = max(largest, float(np.abs(reached[0] - reached[1]).max(initial=0.0)))
    return largest


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
    classes = hallucinated, faithful
    atoms = _few_values(classes)
    if atoms is not None:
        places = (np.searchsorted(atoms, values) for values in classes)
        one, other = (np.bincount(place, minlength=len(atoms)) for place in places)
        return one, other
    pooled = np.concatenate([values[np.isfinite(values)] for values in classes])
    bin_of, bins = _grid(pooled)
    del pooled
    one, other = (_counts(values, bin_of, bins) for values in classes)
    return one, other


def _few_values(classes: Iterable[Floats]) -> Floats | None:
    """Return the different values, rising, where these are few."""
    atoms = np.zeros(0)
    for values in classes:
        for start in range(0, len(values), _AT_A_TIME):
            atoms = np.unique(np.append(atoms, values[start : start + _AT_A_TIME]))
            if len(atoms) > MAX_ATOMS:
                return None
    return atoms


def _counts(values: Floats, bin_of: Callable[[Floats], Ints], bins: int) -> Ints:
    """Return the number of values per bin; infinite ones have two of their own."""
    counts = np.zeros(bins + 2, np.int64)
    for start in range(0, len(values), _AT_A_TIME):
        part = values[start : start + _AT_A_TIME]
        counts += np.bincount(bin_of(part[np.isfinite(part)]), minlength=bins + 2)
        counts[bins:] += (part == np.inf).sum(), (part == -np.inf).sum()
    return counts


def _grid(values: Floats) -> tuple[Callable[[Floats], Ints], int]:
    """Return what finds a value's bin on the Freedman-Diaconis grid of all, and their number."""
    largest = float(np.abs(values).max())
    scaled = values / largest  # so that no difference can overflow
    lowest, span = float(scaled.min()), float(np.ptp(scaled))
    quarter, three_quarters = np.quantile(scaled, [0.25, 0.75])
    width = 2.0 * float(three_quarters - quarter) / len(scaled) ** (1 / 3)
    if width <= 0.0:
        width = 3.49 * float(np.std(scaled)) / len(scaled) ** (1 / 3)
    bins = max(1, math.ceil(min(span / width, MAX_BINS))) if width > 0.0 else 1

    def bin_of(some: Floats) -> Ints:
        if span <= 0.0:
            return np.zeros(len(some), dtype=np.int64)
        position = np.floor((some / largest - lowest) / span * bins).astype(np.int64)
        return np.minimum(position, bins - 1)

    return bin_of, bins


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
