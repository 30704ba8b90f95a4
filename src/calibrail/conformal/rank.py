"""Which calibration score is the threshold?

The threshold is the k-th smallest of n hallucinated calibration scores. Each guarantee has its own
k:

- ``marginal``: k = floor(alpha (n + 1)), split conformal prediction (Vovk et al., 2005).
- ``pac``: the largest k with BinomCDF(k - 1; n, alpha) <= delta, the Neyman-Pearson umbrella
  (Tong, Feng and Li, 2018, Science Advances 4(2)).
- ``paper``: k = ceil((n + 1) alpha), the rank of "The Semantic Illusion" (arXiv 2512.15068). It
  under-covers and serves to reproduce its tables.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from scipy.special import bdtr
from scipy.stats import binom

from calibrail.conformal import validation
from calibrail.errors import InputError

Guarantee = Literal["marginal", "pac", "paper"]
GUARANTEES: tuple[Guarantee, ...] = ("marginal", "pac", "paper")


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

    Examples
    --------
    In floating point 0.29 * 100 is 28.999999999999996; the rank is computed exactly.

    >>> rank(99, 0.29)
    29
    >>> rank(100, 0.05), rank(100, 0.05, "pac"), rank(100, 0.05, "paper")
    (5, 2, 6)
    """
    n = validation.whole(n, "n")
    exact = _decimal(validation.share(alpha, "alpha"))
    if guarantee == "marginal":
        return math.floor(exact * (n + 1))
    if guarantee == "paper":
        return min(math.ceil(exact * (n + 1)), n)
    if guarantee == "pac":
        return _pac_rank(n, float(alpha), validation.share(delta, "delta"))
    raise InputError(f"guarantee must be one of {', '.join(GUARANTEES)}; got {guarantee!r}")


def minimum_n(alpha: float, guarantee: Guarantee = "marginal", delta: float = 0.1) -> int:
    """Return the smallest n for which ``rank`` is at least 1.

    Examples
    --------
    >>> minimum_n(0.05), minimum_n(0.05, "pac", delta=0.1)
    (19, 45)
    """
    exact = _decimal(validation.share(alpha, "alpha"))
    if guarantee == "marginal":
        return max(1, math.ceil(1 / exact) - 1)
    if guarantee == "paper":
        return 1
    if guarantee != "pac":
        raise InputError(f"guarantee must be one of {', '.join(GUARANTEES)}; got {guarantee!r}")
    delta = validation.share(delta, "delta")
    # k = 1 needs (1 - alpha)^n <= delta.
    n = max(1, math.ceil(math.log(delta) / math.log1p(-float(alpha))))
    while _pac_rank(n, float(alpha), delta) < 1:
        n += 1
    while n > 1 and _pac_rank(n - 1, float(alpha), delta) >= 1:
        n -= 1
    return n


def _pac_rank(n: int, alpha: float, delta: float) -> int:
    if n == 0:
        return 0
    # The quantile is the smallest j with CDF(j) >= delta: k - 1 is j itself where equality holds,
    # else j - 1. The loops undo a rounding error of the quantile.
    k = int(binom.ppf(delta, n, alpha))
    while k < n and bdtr(k, n, alpha) <= delta:
        k += 1
    while k > 0 and bdtr(k - 1, n, alpha) > delta:
        k -= 1
    return k


def _decimal(alpha: float) -> Fraction:
    """Return the decimal number that prints as ``alpha``: 0.29 is 29/100."""
    return Fraction(repr(float(alpha)))
