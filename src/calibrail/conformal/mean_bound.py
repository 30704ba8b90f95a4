"""Where does the mean of values in [0, 1] lie, exactly, however few there are?

A share of each answer (how much of its supported text is released) is no count, so that a
binomial bound does not fit, and a normal one is wrong for few or skewed values. "The mean is at
most m" is bet against: the wealth is multiplied by 1 + b_t (x_t - m), where b_t comes from the
values before x_t alone and never exceeds c / m. Under the hypothesis the wealth is a nonnegative
supermartingale, so that it ever reaches 1 / tail with probability at most tail (Ville). The lower
bound is the highest m that is refuted; since every factor falls in m, so does the wealth, and
bisection finds it. The upper bound is that of 1 - x turned round (Waudby-Smith and Ramdas, 2024,
"Estimating means of bounded random variables by betting", sections 4 and 5).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats
from calibrail.errors import InputError
from calibrail.record import Record

#: Largest bet, as a share of that which a value of 0 would turn the wealth to nothing.
_MOST: Final = 0.75
#: Halvings of [0, 1] after which no double lies between the ends.
_STEPS: Final = 60
#: More further values than this are as good as never, and are not tried.
_NEVER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class MeanBound(Record):
    """A mean of shares with its interval, beside the `Bound` of a count.

    Attributes
    ----------
    estimate : float or None
        ``count / n``; None when n is 0.
    lower, upper : float
        Ends of the two-sided interval, in [0, 1].
    count : float
        Sum of the shares.
    n : int
        Values behind it.
    method : str
        ``betting``.
    confidence : float
        Two-sided level.
    """

    estimate: float | None
    lower: float
    upper: float
    count: float
    n: int
    method: str
    confidence: float


def mean_bound(values: ArrayLike, confidence: float) -> MeanBound:
    """Return the mean of independent values in [0, 1] with an interval that holds for any n.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        In an order that has nothing to do with them; another order gives another interval, as
        valid. None at all gives [0, 1].
    confidence : float
        Two-sided level, in (0, 1); each end errs with at most half of the rest.

    Raises
    ------
    InputError
        If a value lies outside [0, 1], or the level outside (0, 1).

    Examples
    --------
    >>> bound = mean_bound([1.0, 0.5, 1.0, 0.75] * 25, 0.95)
    >>> bound.estimate, round(bound.lower, 3), round(bound.upper, 3)
    (0.8125, 0.753, 0.866)
    """
    level = validation.share(confidence, "confidence")
    shares = _shares(values)
    n, tail, total = len(shares), (1.0 - level) / 2.0, math.fsum(shares.tolist())
    if not n:
        return MeanBound(None, 0.0, 1.0, 0.0, 0, "betting", level)
    mean = total / n
    # Bets that were won early may refute what later values show: the mean itself never is.
    lower, upper = min(_lower(shares, tail), mean), max(1.0 - _lower(1.0 - shares, tail), mean)
    return MeanBound(mean, lower, upper, total, n, "betting", level)


def mean_at_least(values: ArrayLike, confidence: float) -> float:
    """Return the lower end alone, which errs with at most 1 - ``confidence``."""
    level = validation.share(confidence, "confidence")
    shares = _shares(values)
    if not len(shares):
        return 0.0
    return min(_lower(shares, 1.0 - level), math.fsum(shares.tolist()) / len(shares))


def further_values(
    values: ArrayLike, limit: float, above_error: float, below_error: float
) -> int | None:
    """Return about how many more values like these would show on which side of a limit they lie.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        As seen; they are taken to come again in their order.
    limit : float
        What the mean is to reach.
    above_error, below_error : float
        With which probability a lower end that shows it at the limit or above, and an upper end
        that shows it below, may each err.

    Returns
    -------
    int or None
        0 where it is shown already. None where nothing was seen, the mean is the limit, or more
        than 65,000 are needed.

    Examples
    --------
    >>> seen = [1.0, 0.5, 1.0, 0.75] * 10
    >>> [further_values(seen, limit, 0.05, 0.025) for limit in (0.7, 0.75, 0.8125, 0.85)]
    [0, 33, None, 166]
    """
    shares, edge = _shares(values), validation.rate(limit, "limit")
    mean = math.fsum(shares.tolist()) / max(1, len(shares))
    if not len(shares) or mean == edge:
        return None
    above = mean > edge
    name = "above_error" if above else "below_error"
    tail = validation.share(above_error if above else below_error, name)

    def shown(extra: int) -> bool:
        again = np.resize(shares, len(shares) + extra)
        return _refuted(again, edge, tail) if above else _refuted(1.0 - again, 1.0 - edge, tail)

    if shown(0):
        return 0
    high = 1
    while not shown(high):
        high *= 2
        if high > _NEVER:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def _shares(values: ArrayLike) -> Floats:
    shares = validation.vector(values, "values")
    if not np.all((shares >= 0.0) & (shares <= 1.0)):
        raise InputError("values must lie in [0, 1]")
    return shares


def _lower(shares: Floats, tail: float) -> float:
    """Return the highest mean that is refuted, wrongly with a probability of at most ``tail``."""
    low, high = 0.0, 1.0
    bets = _bets(shares, tail)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _wins(shares, bets, middle, tail) else (low, middle)
    return low


def _refuted(shares: Floats, limit: float, tail: float) -> bool:
    """Return whether a mean of at most ``limit`` is refuted."""
    return limit <= 0.0 or _wins(shares, _bets(shares, tail), limit, tail)


def _bets(shares: Floats, tail: float) -> Floats:
    """Return for each value the bet that pays best at n values of the variance seen before it."""
    n = len(shares)
    seen = np.arange(1, n + 1)
    # A half and a quarter, as of a fair coin, stand for one value seen at the start.
    means = (0.5 + np.cumsum(shares)) / (seen + 1.0)
    spread = np.append(0.25, 0.25 + np.cumsum((shares - means) ** 2)[:-1])
    return np.asarray(np.sqrt(2.0 * math.log(1.0 / tail) * seen / (n * spread)))


def _wins(shares: Floats, bets: Floats, limit: float, tail: float) -> bool:
    """Return whether the wealth against a mean of at most ``limit`` ever reaches 1 / tail."""
    gains = np.minimum(bets, _MOST / limit) * (shares - limit)
    return bool(np.cumsum(np.log1p(gains)).max() >= -math.log(tail))
