"""Is one rate on the right side of its limit, however often and whenever one looks?

A bet against "the rate is at most the limit" multiplies a wealth of 1 by p / limit for each success
and by (1 - p) / (1 - limit) for each failure. While the claim is true the wealth is a
supermartingale for every p above the limit, and so is its mean over a uniform p above the limit,
which has a closed form. By Ville's inequality (1939) it ever reaches 1 / delta with probability at
most delta: whoever looks after every answer, and stops when it suits them, errs no more often than
whoever looks once. Mixtures of likelihood ratios: Robbins (1970); their inversion:
Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting".
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats
from calibrail.errors import InputError
from calibrail.settings.checks import yes_or_no

#: Below this the tail of a beta distribution comes from its continued fraction.
_TINY: Final = 1e-250
#: Steps of the continued fraction; where the tail is as small as that, some dozens are enough.
_MOST_STEPS: Final = 10_000
#: Halvings of [0, 1] that leave nothing to a float.
_HALVINGS: Final = 60


def log_wealth(count: ArrayLike, n: ArrayLike, limit: float, *, above: bool = True) -> Floats:
    """Return the logarithm of the wealth won by betting that a rate is beyond its limit.

    Exact for independent answers, and for any others whose chance of success, given what came
    before, never is beyond the limit while the claim that is bet against is true.

    Parameters
    ----------
    count, n : array-like of int, broadcastable
        Successes among trials so far.
    limit : float
        In (0, 1).
    above : bool
        True to bet on a rate above the limit, False on one below it.

    Returns
    -------
    ndarray of float64
        At least log(1 / delta) ever with probability at most delta while the rate is not beyond
        the limit. 0 without trials; always finite.

    Raises
    ------
    InputError
        If a count is no whole number from 0 to its n, or the limit lies outside (0, 1).

    Examples
    --------
    40 of 40 caught show more than 0.9 at delta = 0.1, a wealth of 10; 39 of 40 do not:

    >>> np.round(np.exp(log_wealth([40, 39], 40, 0.9)), 1).tolist()
    [16.3, 3.4]
    >>> float(log_wealth(0, 0, 0.9))
    0.0
    """
    hits, trials = _counts(count, n)
    yes_or_no(above, "above")
    return wealth_of_counts(hits, trials - hits, validation.share(limit, "limit"), above=above)


def confidence_sequence(
    count: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the limits that the bets on either side have not refuted so far.

    The inverted test: below the lower end are the limits against which betting on a rate above
    them has won 2 / (1 - confidence), above the upper end those with the other side turned. The
    intervals of all times hold together with this confidence, and so does their intersection up to
    any time.

    Parameters
    ----------
    count, n : array-like of int, broadcastable
        Successes among trials so far.
    confidence : float
        Two-sided level, in (0, 1).

    Returns
    -------
    (ndarray of float64, ndarray of float64)
        Lower and upper ends; [0, 1] without trials.

    Raises
    ------
    InputError
        If a count is no whole number from 0 to its n, or the confidence lies outside (0, 1).

    Examples
    --------
    >>> [round(float(end), 3) for end in confidence_sequence(95, 100, 0.95)]
    [0.855, 0.994]
    """
    hits, trials = _counts(count, n)
    error = 1.0 - validation.share(confidence, "confidence")
    misses, goal = trials - hits, np.log(2.0 / error)
    return lowest_limit(hits, misses, goal), 1.0 - lowest_limit(misses, hits, goal)


def _counts(count: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Return counts and trials as floats, or raise naming the argument."""
    checked = []
    for name, given in (("count", count), ("n", n)):
        values = np.asarray(given)
        if values.dtype.kind not in "iu":
            raise InputError(f"{name} must hold whole numbers; got {given!r:.60}")
        if values.size and not 0 <= int(values.min()) <= int(values.max()) <= 10**12:
            raise InputError(f"{name} must hold whole numbers from 0 to 10^12; got {given!r:.60}")
        checked.append(values.astype(np.float64))
    try:
        hits, trials = np.broadcast_arrays(*checked)
    except ValueError as error:
        raise InputError(f"count and n must have shapes that broadcast: {error}") from error
    if np.any(hits > trials):
        raise InputError("count must be at most n")
    return hits, trials


def wealth_of_counts(hits: Floats, misses: Floats, limit: ArrayLike, *, above: bool) -> Floats:
    """Return ``log_wealth`` of hits and misses that broadcast with ``limit``, unchecked.

    The mean over p in (limit, 1) of p^hits (1 - p)^misses / (limit^hits (1 - limit)^misses).
    """
    edge = np.asarray(limit, np.float64)
    a, b = hits + 1.0, misses + 1.0
    tail = betaincc(a, b, edge) if above else betainc(a, b, edge)
    with np.errstate(divide="ignore"):
        log_tail = np.log(tail)
    width = np.log1p(-edge) if above else np.log(edge)
    wealth = betaln(a, b) + log_tail - width - xlogy(hits, edge) - xlog1py(misses, -edge)
    wealth = np.asarray(np.where(hits + misses == 0.0, 0.0, wealth))
    far = tail < _TINY
    if np.any(far):
        a, b, edge = (item[far] for item in np.broadcast_arrays(a, b, edge))
        # I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * fraction: all that is tiny cancels.
        far_wealth = (
            np.log(edge / b * _fraction(b, a, 1.0 - edge))
            if above
            else np.log((1.0 - edge) / a * _fraction(a, b, edge))
        )
        wealth[far] = far_wealth
    return wealth


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return a B(a, b) I_x(a, b) / (x^a (1 - x)^b) for x far below a / (a + b).

    The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8) by
    Lentz's method.
    """
    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    c, value = np.ones_like(d), d
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d, c = 1.0 / (1.0 + even * d), 1.0 + even / c
        value = value * c * d
        d, c = 1.0 / (1.0 + odd * d), 1.0 + odd / c
        value = value * c * d
        if np.all(np.abs(c * d - 1.0) < 1e-15):
            break
    return np.asarray(value)


def lowest_limit(hits: ArrayLike, misses: ArrayLike, goal: float) -> Floats:
    """Return the lowest limit against which a bet on a rate above it has not won ``goal``.

    Of floats that broadcast, unchecked; ``goal`` is a logarithm. The end of an interval that alone
    holds at all times with an error of exp(-goal).
    """
    hits, misses = np.asarray(hits, np.float64), np.asarray(misses, np.float64)
    trials = hits + misses
    with np.errstate(invalid="ignore"):
        high = np.where(trials > 0, hits / trials, 0.0)
    low = np.zeros_like(high)
    # At the rate seen no bet has won anything; the lower the limit, the more has been won.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        inside = (middle > 0.0) & (middle < 1.0)
        won = wealth_of_counts(hits, misses, np.where(inside, middle, 0.5), above=True) >= goal
        low, high = np.where(won & inside, middle, low), np.where(won & inside, high, middle)
    return low
