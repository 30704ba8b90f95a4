"""Which shares may lie behind all thresholds at once?

A single Clopper-Pearson interval holds for a threshold chosen before looking. A simultaneous band
holds for every threshold together, so one may look at the whole curve first and choose afterwards.

- ``dkw``: the same margin sqrt(log(2 / delta) / 2n) everywhere (Dvoretzky, Kiefer and Wolfowitz,
  1956, with the constant of Massart, 1990).
- ``berk-jones``: Clopper-Pearson intervals at a stricter local level, the same for each rank,
  chosen so that all hold together (Berk and Jones, 1979; exact form: Moscovich, Nadler and
  Spiegelman, 2016). Narrow where shares are near 0 or 1, where thresholds of interest lie.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaln, xlogy

from calibrail.conformal import validation
from calibrail.conformal.crossing import stays_below
from calibrail.conformal.validation import Floats, Ints
from calibrail.record import Record
from calibrail.settings.checks import one_of

Method = Literal["berk-jones", "dkw"]
METHODS: tuple[Method, ...] = get_args(Method)


#: All ranks are controlled up to this n; beyond it, this many at most, evenly spread on the scale
#: on which shares have the same error everywhere, and the bound of the next rank serves in between.
_ALL: Final = 1000
_MOST: Final = 1000
#: Ranks next to either end that are always controlled.
_EDGE: Final = 64
#: The local level is found to within this share of the error that it may use up.
_PRECISION: Final = 0.005


@dataclass(frozen=True, slots=True)
class SimultaneousBand(Record):
    """Bounds on P(score >= t) for every threshold t at once.

    Attributes
    ----------
    thresholds : ndarray of float64, shape (d,)
        Distinct scores, ascending.
    share : ndarray of float64, shape (d,)
        Observed share at or above each threshold.
    lower, upper : ndarray of float64, shape (d,)
        Simultaneous bounds. Each side alone errs anywhere with at most (1 - confidence) / 2.
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
        """Return share, lower and upper bound at any thresholds, also between the scores.

        Parameters
        ----------
        thresholds : array-like of float, shape (m,)
            No NaN; above every score the share is 0, and the band there is that of no score.
        """
        edges = validation.defined(thresholds, "thresholds")
        place = np.searchsorted(self.thresholds, edges, side="left")
        none = simultaneous_bounds(np.zeros(1, np.int64), self.n, self.confidence, self.method)
        share = np.append(self.share, 0.0)
        lower, upper = np.append(self.lower, none[0]), np.append(self.upper, none[1])
        return share[place], lower[place], upper[place]


def simultaneous_band(
    scores: ArrayLike, confidence: float = 0.95, method: Method = "berk-jones"
) -> SimultaneousBand:
    """Return bounds on the share of scores at or above each threshold, for all thresholds at once.

    On hallucinated examples this is a band around coverage, on faithful ones around the FPR. Ties
    and discrete scores keep it valid.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Independent scores of one class, n >= 1, finite.
    confidence : float
        In (0, 1).
    method : {"berk-jones", "dkw"}
        See the module.

    Returns
    -------
    SimultaneousBand

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> band = simultaneous_band(np.arange(100.0), 0.95)
    >>> [round(float(x[5]), 3) for x in (band.lower, band.share, band.upper)]
    [0.846, 0.95, 0.992]
    >>> band = simultaneous_band(np.arange(100.0), 0.95, "dkw")
    >>> [round(float(x[5]), 3) for x in (band.lower, band.share, band.upper)]
    [0.814, 0.95, 1.0]
    """
    level = validation.share(confidence, "confidence")
    one_of(method, METHODS, "method")
    thresholds, share = attainable_coverages(scores)
    n = np.size(scores)
    lower, upper = simultaneous_bounds(np.rint(share * n).astype(np.int64), n, level, method)
    return SimultaneousBand(thresholds, share, lower, upper, n, level, method)


def attainable_coverages(scores: ArrayLike) -> tuple[Floats, Floats]:
    """Return every distinct score as a threshold, with the share of scores that it catches.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated examples, n >= 1, finite.

    Returns
    -------
    (ndarray, ndarray) of float64, shape (d,)
        Thresholds ascending, and their empirical coverages descending from 1.

    Examples
    --------
    A yes/no judge that misses a third:

    >>> thresholds, coverages = attainable_coverages([0.0, 1.0, 1.0])
    >>> thresholds.tolist(), coverages.round(3).tolist()
    ([0.0, 1.0], [1.0, 0.667])
    """
    values = validation.finite(scores)
    thresholds, repeats = np.unique(values, return_counts=True)
    below = np.cumsum(repeats) - repeats
    return thresholds, (len(values) - below) / len(values)


def lower_bounds(counts: Ints, n: int, error: float) -> Floats:
    """Return simultaneous lower bounds of the true shares behind counts out of n.

    With probability at least 1 - ``error``, for every c at once: the true share at the threshold
    that c of n scores reach is at least the bound.
    """
    ranks = controlled_ranks(n)
    place = np.searchsorted(ranks, counts, side="right") - 1
    bounds = betaincinv(ranks, n + 1 - ranks, local_level(n, error))
    return np.where(place >= 0, bounds[np.maximum(place, 0)], 0.0)


@lru_cache(maxsize=256)
def local_level(n: int, error: float) -> float:
    """Return the level of each rank's own bound such that all hold but for ``error``.

    The largest gamma, up to 0.5 %, with P(some controlled U_(c) < Beta(c, n + 1 - c) quantile at
    gamma) <= error, for n independent uniform U. The probability is computed, not simulated.
    """
    ranks = controlled_ranks(n)

    def crossed(gamma: float) -> float:
        edges = np.asarray(betaincinv(ranks, n + 1 - ranks, gamma), dtype=np.float64)
        return 1.0 - _below(ranks, edges, n)

    size = math.log(n)
    return largest_level(crossed, error, start=error / (1.0 + 2.5 * size + 0.5 * size**2))


def largest_level(crossed: Callable[[float], float], error: float, start: float) -> float:
    """Return the largest gamma, up to 0.5 %, whose crossing probability is at most ``error``.

    ``crossed`` grows with gamma, about in proportion; gamma never exceeds ``error`` itself.
    """
    safe, unsafe, gamma = 0.0, error, min(start, error)
    for _ in range(60):
        probability = crossed(gamma)
        if probability <= error:
            safe = gamma
            if probability >= error * (1.0 - _PRECISION) or gamma >= error:
                break
        else:
            unsafe = gamma
        # Aim a little below the error, in proportion; fall back on halving the bracket.
        gamma *= error * (1.0 - _PRECISION / 2.0) / max(probability, 1e-300)
        if not safe < gamma < unsafe:
            gamma = (safe + unsafe) / 2.0
        if unsafe - safe <= 1e-9 * unsafe:
            break
    return safe


@lru_cache(maxsize=64)
def controlled_ranks(n: int) -> Ints:
    """Return the ranks, ascending from 1, at which a band of n scores is controlled."""
    if n <= _ALL:
        return np.arange(1, n + 1)
    steps = min(_MOST, math.ceil(4.0 * math.pi * math.sqrt(n)))
    angles = np.linspace(0.0, math.pi / 2.0, steps + 1)
    spread = np.rint(n * np.sin(angles) ** 2).astype(np.int64)
    edges = np.arange(1, _EDGE + 1)
    ranks = np.unique(np.concatenate([edges, np.clip(spread, 1, n), n + 1 - edges]))
    ranks.flags.writeable = False
    return ranks


def simultaneous_bounds(
    counts: Ints, n: int, confidence: float, method: Method = "berk-jones"
) -> tuple[Floats, Floats]:
    """Return the band at thresholds that ``counts`` of n scores reach, unchecked."""
    error = (1.0 - confidence) / 2.0
    if method == "dkw":
        margin = math.sqrt(-math.log(error) / (2.0 * n))
        share = counts / n
        return np.maximum(share - margin, 0.0), np.minimum(share + margin, 1.0)
    return lower_bounds(counts, n, error), 1.0 - lower_bounds(n - counts, n, error)


def _below(ranks: Ints, edges: Floats, n: int) -> float:
    """Return P(U_(c) >= edge_c for every controlled c).

    That is: fewer than c of the n points lie below edge_c. Counts of n uniform points are those of
    a Poisson process of rate n, given that it ends at n.
    """
    means = n * np.diff(edges, prepend=0.0)
    joint = stays_below(
        (ranks - 1).tolist(),
        map(_growth, means.tolist()),
        lambda counts: _poisson(n - counts, n * (1.0 - edges[-1])),
    )
    return min(1.0, joint / float(_poisson(np.array(n), n)))


def _poisson(count: Ints, mean: float) -> Floats:
    """Return the Poisson probabilities of counts; ``scipy.stats`` takes a second to import."""
    return np.asarray(np.exp(xlogy(count, mean) - gammaln(count + 1.0) - mean))


def _growth(mean: float) -> tuple[int, Floats]:
    reach = 9.0 * math.sqrt(mean)
    growth = np.arange(max(0, int(mean - reach)), int(mean + reach + 25.0))
    return int(growth[0]), np.exp(growth * math.log(mean) - mean - gammaln(growth + 1.0))
