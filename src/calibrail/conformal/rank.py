"""Which calibration score is the threshold?

The threshold is the k-th smallest of n hallucinated calibration scores. Each guarantee has its own
k:

- ``marginal``: k = floor(alpha (n + 1)), split conformal prediction (Vovk et al., 2005).
- ``pac``: the largest k with BinomCDF(k - 1; n, alpha) <= delta, the Neyman-Pearson umbrella
  (Tong, Feng and Li, 2018, Science Advances 4(2)).
- ``paper``: k = ceil((n + 1) alpha), the rank of "The Semantic Illusion" (arXiv 2512.15068). It
  under-covers and serves to reproduce its tables.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final, get_args

from scipy.special import bdtrik, betaincc

from calibrail.conformal import validation
from calibrail.errors import InputError
from calibrail.settings.checks import one_of
from calibrail.settings.promise import Guarantee

GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

#: Below it no possible number of examples would do under ``pac``.
_LEAST_PAC_ALPHA: Final = 1e-9
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
    guarantee : {"marginal", "pac", "paper"}
        The promise.
    delta : float
        Error probability of ``pac``, in (0, 1).

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
    return _pac_rank(n, _pac_alpha(alpha), validation.share(delta, "delta"))


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
    alpha, delta = _pac_alpha(alpha), validation.share(delta, "delta")
    # k = 1 needs (1 - alpha)^n <= delta; the loops undo a rounding error of the logarithms.
    n = max(1, math.ceil(math.log(delta) / math.log1p(-alpha)))
    while _exceeds(0, n, alpha, delta):
        n += 1
    while n > 1 and not _exceeds(0, n - 1, alpha, delta):
        n -= 1
    return n


def decimal(number: float) -> Fraction:
    """Return the decimal number that prints as ``number``: 0.29 is 29/100."""
    return Fraction(repr(float(number)))


def _pac_rank(n: int, alpha: float, delta: float) -> int:
    if n == 0:
        return 0
    # From where the CDF, made continuous, meets delta: right but for a rounding error, except at
    # the far end of the tails. So the steps double, until the rank is enclosed.
    k, step = min(int(bdtrik(delta, n, alpha)), n - 1), 1
    low, high = -1, n
    while high - low > 1:
        if _exceeds(k, n, alpha, delta):
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


def _pac_alpha(alpha: float) -> float:
    if alpha < _LEAST_PAC_ALPHA:
        raise InputError(f"alpha must be at least {_LEAST_PAC_ALPHA:g} for pac; got {alpha!r}")
    return alpha
