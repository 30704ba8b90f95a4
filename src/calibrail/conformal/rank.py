"""Which calibration score is the threshold?

The threshold is the k-th smallest of n hallucinated calibration scores. Each guarantee has its own
k:

- ``marginal``: k = floor(alpha (n + 1)), split conformal prediction (Vovk et al., 2005).
- ``pac``: the largest k with BinomCDF(k - 1; n, alpha) <= delta, the Neyman-Pearson umbrella
  (Tong, Feng and Li, 2018, Science Advances 4(2)).
- ``anytime``: the largest k for which a bet on "less than alpha is missed" has won 1 / delta at
  k - 1 misses of n (``calibrail.conformal.eprocess``). Let q be the lowest score with at least
  alpha of the hallucinations at or below it. A threshold that misses more than alpha lies above q,
  so that no more than k - 1 of the n lie at or below q, and a bet on that number has won as much.
  It ever does with probability at most delta (Ville, 1939): whoever makes a new threshold each time
  an example comes in, and looks at all of them, ever gets one that misses more with that
  probability.
- ``paper``: k = ceil((n + 1) alpha), the rank of "The Semantic Illusion" (arXiv 2512.15068). It
  under-covers and serves to reproduce its tables.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final, get_args

import numpy as np
from scipy.special import bdtrik, betaincc

from calibrail.conformal import validation
from calibrail.conformal.eprocess import wealth_of_counts
from calibrail.errors import InputError
from calibrail.settings.checks import one_of
from calibrail.settings.promise import Guarantee

GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

#: Below it no possible number of examples would do under ``pac`` or ``anytime``.
_LEAST_ALPHA: Final = 1e-9
#: More examples than any promise asks for, however small alpha.
_MOST: Final = 10**15
#: Up to this n a float that lies on delta but for rounding is decided in exact arithmetic.
_EXACT_N: Final = 1000


def rank(n: int, alpha: float, guarantee: Guarantee = "marginal", delta: float = 0.1) -> int:
    """Return the 1-based rank of the threshold, 0 where none keeps the promise.

    Parameters
    ----------
    n : int
        Number of hallucinated calibration examples.
    alpha : float
        Tolerated miss rate, in (0, 1); read as the decimal number that it was written as.
    guarantee : {"marginal", "pac", "anytime", "paper"}
        The promise.
    delta : float
        Error probability of ``pac`` and ``anytime``, in (0, 1).

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Notes
    -----
    A quotient that has no short decimal, such as 1/3, is no decimal number that anyone wrote: for
    it, ``marginal`` takes the largest k whose k / (n + 1), rounded to a float as alpha itself is,
    does not exceed alpha. So ``p <= alpha`` and "not flagged" stay one decision for every float.

    Examples
    --------
    In floating point 0.29 * 100 is 28.999999999999996; the rank is computed exactly.

    >>> rank(99, 0.29)
    29
    >>> rank(100, 0.05), rank(100, 0.05, "pac"), rank(100, 0.05, "paper")
    (5, 2, 6)
    >>> rank(100, 0.05, "anytime"), rank(1000, 0.05, "anytime"), rank(1000, 0.05, "pac")
    (1, 33, 41)
    """
    n = validation.whole(n, "n")
    alpha = validation.share(alpha, "alpha")
    if guarantee == "marginal":
        numerator, denominator = Decimal(repr(alpha)).as_integer_ratio()
        k = numerator * (n + 1) // denominator
        return k + 1 if (k + 1) / (n + 1) <= alpha else k
    if guarantee == "paper":
        return min(math.ceil(decimal(alpha) * (n + 1)), n)
    one_of(guarantee, GUARANTEES, "guarantee")
    alpha, delta = _not_tiny(alpha, guarantee), validation.share(delta, "delta")
    if n == 0:
        return 0
    # From where the CDF, made continuous, meets delta: under ``pac`` right but for a rounding
    # error, except at the far end of the tails; ``anytime`` asks for more as n grows.
    level = delta if guarantee == "pac" else delta / (1.0 + math.sqrt(n))
    guess = bdtrik(level, n, alpha)
    fails = _exceeds if guarantee == "pac" else _falls_short
    return _first(lambda misses: fails(misses, n, alpha, delta), n, int(guess))


def minimum_n(alpha: float, guarantee: Guarantee = "marginal", delta: float = 0.1) -> int:
    """Return the smallest n for which ``rank`` is at least 1.

    Examples
    --------
    >>> minimum_n(0.05), minimum_n(0.05, "pac", delta=0.1)
    (19, 45)
    """
    alpha = validation.share(alpha, "alpha")
    if guarantee == "paper":
        return 1
    if guarantee == "marginal":
        n = max(1, math.ceil(1 / decimal(alpha)) - 1)
        return n - 1 if n > 1 and 1 / n <= alpha else n
    one_of(guarantee, GUARANTEES, "guarantee")
    alpha, delta = _not_tiny(alpha, guarantee), validation.share(delta, "delta")
    # k = 1 needs (1 - alpha)^n <= delta, and ``anytime`` somewhat more.
    n = max(1, math.ceil(math.log(delta) / math.log1p(-alpha)))
    if guarantee == "anytime":
        return _first(lambda n: n > 0 and not _falls_short(0, n, alpha, delta), _MOST, n)
    # The loops undo a rounding error of the logarithms.
    while _exceeds(0, n, alpha, delta):
        n += 1
    while n > 1 and not _exceeds(0, n - 1, alpha, delta):
        n -= 1
    return n


def decimal(number: float) -> Fraction:
    """Return the decimal number that prints as ``number``: 0.29 is 29/100."""
    return Fraction(repr(float(number)))


def _first(holds: Callable[[int], bool], most: int, guess: int) -> int:
    """Return the first number below ``most`` for which ``holds``, as it does for all after it.

    ``most`` if there is none. The steps away from a guess double, until the number is enclosed.
    """
    k, step = min(max(guess, 0), most - 1), 1
    low, high = -1, most
    while high - low > 1:
        if holds(k):
            high, k = k, k - step
        else:
            low, k = k, k + step
        step *= 2
        if not low < k < high:
            k = (low + high) // 2
    return high


def _exceeds(count: int, n: int, alpha: float, delta: float) -> bool:
    """Return whether BinomCDF(count; n, alpha) > delta, for count < n."""
    cdf = float(betaincc(count + 1, n - count, alpha))
    if n > _EXACT_N or not math.isclose(cdf, delta, rel_tol=1e-9):
        return cdf > delta
    p = decimal(alpha)
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(count + 1))
    return exact > decimal(delta)


def _falls_short(misses: int, n: int, alpha: float, delta: float) -> bool:
    """Return whether a bet on a rate below alpha has won less than 1 / delta, for misses < n."""
    below, above = np.array([[misses], [n - misses]], np.float64)
    won = float(wealth_of_counts(below, above, alpha, above=False)[0])
    goal = -math.log(delta)
    if n > _EXACT_N or not math.isclose(won, goal, rel_tol=1e-9, abs_tol=1e-9):
        return won < goal
    # The mean of p^misses (1 - p)^(n - misses) over p up to alpha is a binomial tail.
    p = decimal(alpha)
    tail = 1 - sum(math.comb(n + 1, i) * p**i * (1 - p) ** (n + 1 - i) for i in range(misses + 1))
    at_alpha = (n + 1) * math.comb(n, misses) * p ** (misses + 1) * (1 - p) ** (n - misses)
    return decimal(delta) * tail < at_alpha


def _not_tiny(alpha: float, guarantee: Guarantee) -> float:
    if alpha < _LEAST_ALPHA:
        raise InputError(f"alpha must be at least {_LEAST_ALPHA:g} for {guarantee}; got {alpha!r}")
    return alpha
