"""Do two thresholds flag the same faithful answers equally often?

statsmodels has McNemar's exact test; for answers that share groups it has none.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln, ndtr

from calibrail.evaluation.stats.arrays import Ints, Mask
from calibrail.record import Record

#: Up to this many discordant answers in groups the sign-flip test adds up every outcome.
_MOST_FLIPS: Final = 4000


@dataclass(frozen=True, slots=True)
class McNemar(Record):
    """Faithful answers that only one of two thresholds flags.

    Attributes
    ----------
    only_first, only_second : int
        False alarms of one and not the other.
    p_value, p_adjusted : float
        Two-sided, for these thresholds; the second is corrected for the family (Holm).
    method : str
        ``mcnemar-exact``, or ``mcnemar-groups-flipped`` where answers share groups.
    """

    only_first: int
    only_second: int
    p_value: float
    p_adjusted: float
    method: str


def mcnemar(first: Mask, second: Mask, groups: Ints) -> McNemar:
    """Test whether two thresholds flag faithful answers equally often.

    Under the null hypothesis, exchanging the two thresholds within a group changes nothing: each
    group's surplus d = (only first) - (only second) is as likely to be -d. The p-value is the
    share of all sign patterns whose sum is at least as far from zero, added up exactly (up to
    4,000 discordant answers in larger groups; beyond, their normal limit with continuity
    correction). With one answer a group this is McNemar's exact test.

    Parameters
    ----------
    first, second : ndarray of bool, shape (n,)
        Decisions about the same faithful answers.
    groups : ndarray of int64, shape (n,)
        What answers share.

    Examples
    --------
    >>> first = np.array([True] * 6 + [False])
    >>> second = np.array([False] * 6 + [True])
    >>> mcnemar(first, second, np.arange(7)).p_value, mcnemar(first, second, np.zeros(7)).p_value
    (0.125, 1.0)
    """
    from statsmodels.stats.contingency_tables import mcnemar as exact

    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    _, member = np.unique(groups, return_inverse=True)
    signs = first.astype(np.int64) - second
    surplus = np.bincount(member, weights=signs).astype(np.int64)
    if len(surplus) == len(signs):
        p = float(exact([[0, only_first], [only_second, 0]], exact=True).pvalue)
        return McNemar(only_first, only_second, p, p, "mcnemar-exact")
    p = min(1.0, _flipped(surplus[surplus != 0]))
    return McNemar(only_first, only_second, p, p, "mcnemar-groups-flipped")


def _flipped(surplus: Ints) -> float:
    """Return the share of sign patterns whose sum is at least as far from zero as the one seen."""
    observed = abs(int(surplus.sum()))
    sizes, repeats = np.unique(np.abs(surplus), return_counts=True)
    total = int(sizes @ repeats)
    if observed == 0:
        return 1.0
    if total > _MOST_FLIPS:
        # Sums lie two greatest common divisors apart; half of that is the continuity correction.
        nearer = observed - float(np.gcd.reduce(sizes))
        return 2.0 * float(ndtr(-nearer / math.sqrt(float(sizes**2 @ repeats))))
    mass = np.ones(1)
    for size, m in zip(sizes.tolist(), repeats.tolist(), strict=True):
        k = np.arange(m + 1)
        log_mass = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1) - m * math.log(2.0)
        spread = np.zeros(size * m + 1)
        spread[::size] = np.exp(log_mass)
        mass = np.convolve(mass, spread)
    sums = 2 * np.arange(total + 1) - total
    return float(mass[np.abs(sums) >= observed].sum())
