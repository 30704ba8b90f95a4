"""How far may an observed share be from the true one, and how many more examples would tell?"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from calibrail.conformal import validation
from calibrail.conformal.validation import Bools, Floats
from calibrail.record import Record

#: More further examples than this are as good as never.
_NEVER: Final = 10**9
#: How many sample sizes are tried in one go, at first and at most.
_FIRST, _MOST_AT_ONCE = 64, 4096


@dataclass(frozen=True, slots=True)
class Bound(Record):
    """A share with its interval.

    Attributes
    ----------
    estimate : float or None
        ``count / n``, or weighted where answers were labelled with different probabilities; None
        when n is 0.
    lower, upper : float
        Ends of the two-sided interval, in [0, 1].
    count, n : int
        The counts behind it.
    method : str
        ``clopper-pearson`` (decides) or ``wilson`` (shown); ``beta-mixture`` or ``betting`` for an
        interval that holds at any time.
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


def proof_level(confidence: float) -> float:
    """Return the two-sided level of intervals whose ends each err with 1 - confidence.

    A claim of several requirements is wrong where one of them is broken; it is made only where
    every end shows its own to be kept. So each may take the whole error (intersection-union test,
    Berger 1982). At or below 0 for a confidence up to one half; ``interval`` takes that.
    """
    return 2.0 * confidence - 1.0


def exact_bound(count: int, n: int, confidence: float) -> Bound:
    """Return the Clopper-Pearson interval with its estimate and counts."""
    count, n = validation.counts(count, n)
    lower, upper = clopper_pearson(count, n, confidence)
    return Bound(count / n if n else None, lower, upper, count, n, "clopper-pearson", confidence)


def further(bound: Bound, requirement: float, proof: float, *, good_above: bool) -> int | None:
    """Return the smallest further number of examples that settles one class at the rate seen.

    Settled is what the certificate calls settled: a rate on the good side of its requirement is
    proven good, a rate on the other side is proven bad. The count expected at the rate is rounded
    towards the requirement, so that the number suffices whatever the rounding does.

    Parameters
    ----------
    bound : Bound
        The class's exact interval, not settled yet.
    requirement : float
        What the rate has to reach or keep below.
    proof : float
        Two-sided level of the interval that proves a rate good; that of ``bound`` proves it bad.
    good_above : bool
        True for coverage (lower end at least the requirement), False for the FPR (upper end at
        most the requirement).

    Returns
    -------
    int or None
        None where the rate equals the requirement, nothing was seen yet, or more than 10^9 are
        needed.
    """
    if bound.estimate is None or bound.estimate == requirement:
        return None
    above = bound.estimate > requirement
    away = bound.count if above else bound.n - bound.count
    level = proof if above == good_above else bound.confidence

    def settled(ends: tuple[Floats, Floats]) -> Bools:
        lower, upper = ends
        if above:
            return lower >= requirement if good_above else lower > requirement
        return upper < requirement if good_above else upper <= requirement

    def unrounded(extra: int) -> bool:
        n = bound.n + extra
        return bool(settled(interval(bound.count / bound.n * n, n, level)))

    # Rounding makes the answer saw-toothed in n. Without it the answer turns once, and never later
    # than with it: search there by bisection, then walk on to the first n that settles rounded.
    start = _turning_point(unrounded)
    chunk = _FIRST
    while start is not None and start <= _NEVER:
        whole, rest = divmod(away * (bound.n + start), bound.n)
        steps = np.arange(chunk)
        sizes = bound.n + start + steps
        counts = whole + (rest + away * steps) // bound.n
        hits = np.flatnonzero(settled(interval(counts if above else sizes - counts, sizes, level)))
        if len(hits):
            return start + int(hits[0])
        start += chunk
        chunk = min(2 * chunk, _MOST_AT_ONCE)
    return None


def _turning_point(settled: Callable[[int], bool]) -> int | None:
    """Return where ``settled`` turns true, by doubling and then by bisection."""
    high = 1
    while not settled(high):
        high *= 2
        if high > 2 * _NEVER:
            return None
    low = high // 2
    first = low + 1 + bisect_left(range(low + 1, high), True, key=settled)
    # One step back makes up for the rounding of the rate itself.
    return max(1, first - 1)
