"""How far may an observed share be from the true one?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Bound(Record):
    """A share with its interval.

    Attributes
    ----------
    estimate : float or None
        ``count / n``; None when n is 0.
    lower, upper : float
        Ends of the two-sided interval, in [0, 1].
    count, n : int
        The counts behind it.
    method : str
        ``clopper-pearson`` (decides) or ``wilson`` (shown).
    confidence : float
        Two-sided level.
    """

    estimate: float | None
    lower: float
    upper: float
    count: int
    n: int
    method: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Counts:
    """What a threshold did on examples of both classes.

    Attributes
    ----------
    caught, n_hallucinated : int
        Flagged among hallucinated examples.
    false_alarms, n_faithful : int
        Flagged among faithful examples.

    Raises
    ------
    InputError
        If a count is no whole number of at least 0, or exceeds the examples of its class.
    """

    caught: int
    n_hallucinated: int
    false_alarms: int
    n_faithful: int

    def __post_init__(self) -> None:
        for part, n in (("caught", "n_hallucinated"), ("false_alarms", "n_faithful")):
            checked = validation.counts(getattr(self, part), getattr(self, n), (part, n))
            for name, value in zip((part, n), checked, strict=True):
                object.__setattr__(self, name, value)

    def bounds(self, confidence: float) -> tuple[Bound, Bound]:
        """Return the exact intervals of the coverage and of the FPR."""
        return (
            exact_bound(self.caught, self.n_hallucinated, confidence),
            exact_bound(self.false_alarms, self.n_faithful, confidence),
        )


def clopper_pearson(count: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial share (Clopper and Pearson, 1934).

    Each side errs with probability at most (1 - confidence) / 2, whatever the true share.

    Parameters
    ----------
    count, n : int
        Successes among trials; ``n = 0`` gives [0, 1].
    confidence : float
        Two-sided level, in (0, 1).

    Returns
    -------
    (float, float)
        Lower and upper end.

    Examples
    --------
    >>> [round(end, 4) for end in clopper_pearson(7, 100, 0.95)]
    [0.0286, 0.1389]
    """
    count, n = validation.counts(count, n)
    tail = (1.0 - validation.share(confidence, "confidence")) / 2.0
    lower = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, tail))
    upper = 1.0 if count == n else float(betainccinv(count + 1, n - count, tail))
    return lower, upper


def interval(count: ArrayLike, n: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return ``clopper_pearson`` of arrays that broadcast, unchecked; shares of n may be real."""
    hits, trials = np.asarray(count, np.float64), np.asarray(n, np.float64)
    misses, tail = trials - hits, (1.0 - confidence) / 2.0
    # Where a beta distribution has no such parameter, 1 stands in and the end is known.
    lower = betaincinv(np.where(hits > 0, hits, 1.0), misses + 1.0, tail)
    upper = betainccinv(hits + 1.0, np.where(misses > 0, misses, 1.0), tail)
    return np.where(hits > 0, lower, 0.0), np.where(misses > 0, upper, 1.0)


def exact_bound(count: int, n: int, confidence: float) -> Bound:
    """Return the Clopper-Pearson interval with its estimate and counts."""
    count, n = validation.counts(count, n)
    lower, upper = clopper_pearson(count, n, confidence)
    return Bound(count / n if n else None, lower, upper, count, n, "clopper-pearson", confidence)
