"""How likely does a counting process stay below a staircase?"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from calibrail.conformal.validation import Floats, Ints

#: States with less than this probability are dropped; what is dropped counts as a crossing.
_NEGLIGIBLE: Final = 1e-14


def stays_below(
    limits: Sequence[int],
    increments: Iterable[tuple[int, Floats]],
    last: Callable[[Ints], Floats],
) -> float:
    """Return P(N_1 <= limits[0], ..., N_r <= limits[r - 1], N_{r + 1} = final count).

    N starts at 0 and grows by independent increments. The recursion over the steps is Noe's (1972),
    in the form of Moscovich and Nadler (2017): one convolution a step. It is exact up to rounding;
    states that are too unlikely to matter are dropped, which errs towards a crossing.

    Parameters
    ----------
    limits : sequence of int, length r
        Highest count allowed after each step, ascending.
    increments : iterable of (int, ndarray of float64), length r
        For each step the smallest growth that matters, and the probabilities of growing by it, by
        one more, and so on.
    last : callable
        The probabilities of reaching the final count from each of some counts N_r. Few of those
        that are allowed matter: they are asked for alone.

    Examples
    --------
    Two fair coins, at most one head in all:

    >>> coin = np.array([0.5, 0.5])
    >>> stays_below([1, 1], [(0, coin), (0, coin)], np.ones_like)
    0.75
    """
    lowest, state = 0, np.ones(1)
    for limit, (least, grow) in zip(limits, increments, strict=True):
        lowest += least
        large = min(len(state), len(grow)) > 128
        state = _fast_convolve(state, grow) if large else np.convolve(state, grow)
        state = np.maximum(state[: max(0, limit + 1 - lowest)], 0.0)
        keep = int(np.searchsorted(np.cumsum(state), _NEGLIGIBLE))
        state, lowest = state[keep:], lowest + keep
        if not len(state):
            return 0.0
    return float(state @ last(np.arange(lowest, lowest + len(state))))


def _fast_convolve(a: Floats, b: Floats) -> Floats:
    """Return the convolution as ``scipy.signal.fftconvolve`` does, whose import takes a second."""
    length = len(a) + len(b) - 1
    size = next_fast_len(length, real=True)
    product: Floats = irfft(rfft(a, size) * rfft(b, size), size)
    return product[:length]
