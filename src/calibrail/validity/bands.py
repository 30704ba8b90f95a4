"""Do the bands over all thresholds hold everywhere at once?

A band fails if the true share P(score >= t) leaves it at any real t, also between two scores, where
the band of the next score serves. With continuous scores the true shares at the sorted scores are
sorted uniform numbers, so the probability that a band fails is known; it is computed here by
another recursion than the one that made the band.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from calibrail.conformal import simultaneous_band
from calibrail.conformal.simultaneous import Method
from calibrail.validity.check import Check, Setting
from calibrail.validity.distributions import Floats, below, draw, up_to

_NAMES: Final[dict[Method, str]] = {"berk-jones": "Berk-Jones", "dkw": "DKW"}
#: States with less probability than this are left out of the recursion.
_NEGLIGIBLE: Final = 1e-15


def band_everywhere(at: Setting) -> Iterator[Check]:
    """Leave a band anywhere, below or above: at most alpha = 1 - confidence, half of it a side."""
    for method, name in _NAMES.items():
        rng = at.rng(f"{method} band")
        lower, upper = _by_count(at.n, 1.0 - at.alpha, method)
        both, low, high = _probabilities(at.n, 1.0 - at.alpha, method)
        if at.kind == "continuous":
            true = np.sort(rng.random((at.runs, at.n)), axis=1)
            under, over = (true < lower).any(axis=1), (true > upper).any(axis=1)
        else:
            under, over = _tied(at, rng, method)
        sides = (
            ("both sides", under | over, at.alpha, both),
            ("lower side", under, at.alpha / 2.0, low),
            ("upper side", over, at.alpha / 2.0, high),
        )
        for design, failed, promised, exact in sides:
            yield at.check(f"{name} band", failed, promised, exact=exact, design=design)


def escape(lower: Floats, upper: Floats) -> float:
    """Return P(not lower[c - 1] <= U_(c) <= upper[c - 1] for all c) for n uniform numbers.

    Counts of the numbers up to each bound form a Markov chain with binomial steps; what stays
    between the bounds is followed from bound to bound.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (n,)
        Ascending bounds of the sorted numbers.

    Examples
    --------
    Two numbers, the smaller at least 0.5, or the larger at most 0.5:

    >>> escape(np.array([0.5, 0.5]), np.ones(2)), escape(np.zeros(2), np.array([0.5, 0.5]))
    (0.75, 0.75)
    """
    n = len(lower)
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    counts, state, time = np.zeros(1, dtype=np.int64), np.ones(1), 0.0
    for bound in np.unique(np.concatenate([lower, upper])).tolist():
        if not 0.0 < bound < 1.0:
            continue
        step = (bound - time) / (1.0 - time)
        least = max(int(np.searchsorted(upper, bound, side="right")), int(counts[0]))
        most = int(np.searchsorted(lower, bound, side="left"))
        reached = np.arange(least, most + 1)
        grown = reached[None, :] - counts[:, None]
        possible, left = grown >= 0, n - counts[:, None]
        grown = np.where(possible, grown, 0)
        ways = log_factorial[left] - log_factorial[grown] - log_factorial[n - reached[None, :]]
        log = ways + grown * np.log(step) + (left - grown) * np.log1p(-step)
        state = state @ np.where(possible, np.exp(log), 0.0)
        kept = np.flatnonzero(state > _NEGLIGIBLE)
        if not len(kept):
            return 1.0
        counts, state, time = reached[kept], state[kept], bound
    return 1.0 - float(state.sum())


@lru_cache(maxsize=256)
def _probabilities(n: int, confidence: float, method: Method) -> tuple[float, float, float]:
    """Return the probability of leaving the band on any side, below, and above."""
    lower, upper = _by_count(n, confidence, method)
    return escape(lower, upper), escape(lower, np.ones(n)), escape(np.zeros(n), upper)


def _by_count(n: int, confidence: float, method: Method) -> tuple[Floats, Floats]:
    """Return the bounds of the true shares at the scores that 1, ..., n scores reach, (n,) each.

    Above a score the band of the next higher one serves, so that one bounds the share from above.
    """
    band = simultaneous_band(np.arange(float(n)), confidence, method)
    beyond = band.at([float(n)])[2]
    return band.lower[::-1], np.concatenate([beyond, band.upper[:0:-1]])


def _tied(
    at: Setting, rng: np.random.Generator, method: Method
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    under, over = np.zeros(at.runs, dtype=bool), np.zeros(at.runs, dtype=bool)
    for run in range(at.runs):
        band = simultaneous_band(draw(rng, at.kind, at.n), 1.0 - at.alpha, method)
        beyond = band.at([band.thresholds[-1] + 1.0])[2]
        under[run] = np.any(1.0 - below(at.kind, band.thresholds) < band.lower)
        above = 1.0 - up_to(at.kind, band.thresholds)
        over[run] = np.any(above > np.concatenate([band.upper[1:], beyond]))
    return under, over
