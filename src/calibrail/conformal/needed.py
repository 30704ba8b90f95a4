"""How many more examples would settle one class?"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import numpy as np

from calibrail.conformal.bound import Bound, interval
from calibrail.conformal.validation import Bools, Floats

#: More further examples than this are as good as never.
_NEVER: Final = 10**9
#: How many sample sizes are tried in one go, at first and at most.
_FIRST, _MOST_AT_ONCE = 64, 4096

_Ends = tuple[Floats, Floats]


def further(bound: Bound, requirement: float, *, good_above: bool) -> int | None:
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
    good_above : bool
        True for coverage (lower end at least the requirement), False for the FPR (upper end at
        most the requirement).

    Returns
    -------
    int or None
        None where the rate equals the requirement, nothing was seen yet, or more than 10^9 are
        needed.
    """
    if not bound.n or bound.estimate is None or bound.estimate == requirement:
        return None
    above = bound.estimate > requirement
    away = bound.count if above else bound.n - bound.count

    def settled(ends: _Ends) -> Bools:
        lower, upper = ends
        if above:
            return lower >= requirement if good_above else lower > requirement
        return upper < requirement if good_above else upper <= requirement

    def unrounded(extra: int) -> bool:
        n = bound.n + extra
        return bool(settled(interval(bound.count / bound.n * n, n, bound.confidence)))

    # Rounding makes the answer saw-toothed in n. Without it the answer turns once, and never later
    # than with it: search there by bisection, then walk on to the first n that settles rounded.
    start = _turning_point(unrounded)
    chunk = _FIRST
    while start is not None and start <= _NEVER:
        whole, rest = divmod(away * (bound.n + start), bound.n)
        steps = np.arange(chunk)
        sizes = bound.n + start + steps
        counts = whole + (rest + away * steps) // bound.n
        hits = np.flatnonzero(
            settled(interval(counts if above else sizes - counts, sizes, bound.confidence))
        )
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
