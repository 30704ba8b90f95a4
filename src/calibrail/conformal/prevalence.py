"""Share of hallucinated answers from other shares.

If a test is positive with probability h where something is there and l where it is not, the share
of positives is seen = p h + (1 - p) l, so p = (seen - l) / (h - l) (Rogan and Gladen, 1978). p is
monotone in each of the three while the other two stand still, whatever these are: over a box of
three intervals its ends lie in corners. Where the three intervals hold together with 1 - delta, so
does what follows. The same of a mixture of two shares, and of what is hallucinated among flagged
and passed answers, from which coverage and FPR follow by Bayes' rule.
"""

from collections.abc import Iterable
from itertools import product
from typing import Final, Literal, NamedTuple

import numpy as np

from calibrail.conformal._validation import Floats
from calibrail.conformal.sequential.betting import FRACTIONS, lowest_limit, mixture

#: Halvings of [0, 1]: ends are as exact as anybody reads them.
_HALVINGS: Final = 30
#: Between scales of the rows that a draw may stand for; and what rounding makes of their logarithm.
_STEP, _ROUNDING = 1.25, 1e-9

#: Why nothing follows: the test is positive as often where nothing is there, as far as is known; or
#: no share of the two classes gives as many positives as there are.
Unbounded = Literal["not_told_apart", "contradiction"]


class Interval(NamedTuple):
    """Ends of an interval within [0, 1]."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How far its ends are apart."""
        return self.upper - self.lower


#: What is known of a share of which nothing is known.
ANYTHING: Final = Interval(0.0, 1.0)


def share_behind(
    seen: Interval, where_there: Interval, where_not: Interval
) -> tuple[Interval, Unbounded | None]:
    """Return the interval of p = (seen - l) / (h - l), and why it is [0, 1] where nothing follows.

    Parameters
    ----------
    seen : Interval
        Of the share of positives.
    where_there, where_not : Interval
        Of h and of l.

    Examples
    --------
    >>> share, _ = share_behind(Interval(0.3, 0.34), Interval(0.85, 0.95), Interval(0.05, 0.15))
    >>> [round(end, 4) for end in share]
    [0.1875, 0.3625]
    >>> share_behind(Interval(0.3, 0.34), Interval(0.2, 0.95), Interval(0.05, 0.2))
    (Interval(lower=0.0, upper=1.0), 'not_told_apart')
    """
    if where_there.lower <= where_not.upper:
        return ANYTHING, "not_told_apart"
    corners = [
        (rate - low) / (high - low) for rate, high, low in product(seen, where_there, where_not)
    ]
    lower, upper = min(corners), max(corners)
    if lower > 1.0 or upper < 0.0:
        return ANYTHING, "contradiction"
    return Interval(max(0.0, lower), min(1.0, upper)), None


def mixed_share(flagged: Interval, in_flagged: Interval, in_passed: Interval) -> Interval:
    """Return the interval of a share among all, from those among flagged and passed answers.

    >>> mixed_share(Interval(0.25, 0.5), Interval(0.5, 0.75), Interval(0.0, 0.25))
    Interval(lower=0.125, upper=0.5)
    """
    return _over_corners(
        f * share + (1.0 - f) * other for f, share, other in product(flagged, in_flagged, in_passed)
    )


def rates_behind(
    flagged: Interval, in_flagged: Interval, in_passed: Interval
) -> tuple[Interval, Interval]:
    """Return the intervals of coverage and FPR, from the shares of hallucinated answers.

    >>> coverage, fpr = rates_behind(Interval(0.5, 0.5), Interval(0.75, 0.75), Interval(0.0, 0.25))
    >>> coverage, fpr
    (Interval(lower=0.75, upper=1.0), Interval(lower=0.2, upper=0.25))
    """
    coverage = _over_corners(
        _part(f * share, (1.0 - f) * other)
        for f, share, other in product(flagged, in_flagged, in_passed)
    )
    fpr = _over_corners(
        _part(f * (1.0 - share), (1.0 - f) * (1.0 - other))
        for f, share, other in product(flagged, in_flagged, in_passed)
    )
    return coverage, fpr


def drawn_share(
    estimated: Floats,
    rows: Floats,
    confidence: float,
    *,
    floor: float | None = None,
    times: float = 1.0,
) -> Interval:
    """Return the interval, at all times, of a share of all rows, from draws that stand for some.

    A draw that stands for v rows counts with w = v / scale <= 1: its bet is a factor f^w. As
    E[f^w] <= (E f)^w and the logarithm is concave, bets with fixed stakes are about the mean of
    all rows so far, whatever drifts. The scale is the first v times a power of 1.25, the lowest
    that no v so far exceeds; the k-th such power has 1 / (k (k + 1)) of the capital.

    Parameters
    ----------
    estimated : ndarray of float64, shape (n,)
        Of each draw its label, or W (see ``betting``) where ``floor`` is given.
    rows : ndarray of float64, shape (n,)
        How many rows each draw stands for, known before its label; only their ratios matter.
    confidence : float
        Two-sided level.
    floor : float, optional
        Least probability of a label.
    times : float
        As if each draw had been made so often.

    Examples
    --------
    >>> labels = np.array([1.0] * 20 + [0.0] * 80)
    >>> [round(end, 3) for end in drawn_share(labels, np.ones(100), 0.95)]
    [0.083, 0.353]
    """
    if not len(estimated):
        return ANYTHING
    powers = np.ceil(np.log(np.max(rows) / rows[0]) / np.log(_STEP) - _ROUNDING)
    k = 1.0 + max(0.0, float(powers))
    weight = np.minimum(1.0, rows / (rows[0] * _STEP ** (k - 1.0))) * times
    goal = float(np.log(2.0 * k * (k + 1.0) / (1.0 - confidence)))
    if floor is None:
        hits = float(np.sum(weight * estimated))
        misses = float(np.sum(weight)) - hits
        lower, upper = lowest_limit(hits, misses, goal), 1.0 - lowest_limit(misses, hits, goal)
        return Interval(float(lower), float(upper))
    return Interval(
        _least(estimated, weight, floor, goal), 1.0 - _least(1.0 - estimated, weight, floor, goal)
    )


def _least(estimated: Floats, weight: Floats, floor: float, goal: float) -> float:
    """Return the lowest c against which a bet on a mean of W above it has not won ``goal``.

    A factor is 1 + f (W - c) / (c + m), f a fraction and m = 1 / floor - 1: it is positive, and the
    higher the lower c is, so that bisection finds the end.
    """
    most = 1.0 / floor - 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        gains = (estimated - middle) / (middle + most)
        won = float(mixture(weight @ np.log1p(gains[:, None] * FRACTIONS)))
        low, high = (middle, high) if won >= goal else (low, middle)
    return low


def _part(of: float, other: float) -> float | None:
    """Return a share; None of nothing, beside which other corners have the ends."""
    return of / (of + other) if of + other > 0.0 else None


def _over_corners(values: Iterable[float | None]) -> Interval:
    found = [value for value in values if value is not None]
    return Interval(max(0.0, min(found)), min(1.0, max(found))) if found else ANYTHING
