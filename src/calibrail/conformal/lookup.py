"""How many sorted scores are at most as large as each of many values, fast?"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

#: With fewer values or fewer scores than this, putting the values in order does not pay.
_MANY: Final = 4096
#: Values put in order at a time: what a processor's cache about holds.
_CHUNK: Final = 2**20
_NOT_SIGN: Final = np.int64(2**63 - 1)


def count_at_most(scores: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each value how many of the scores are at most as large.

    Binary searches for values in random order wait for memory at every step; in ascending order
    neighbours share the way. The order serves speed alone, the count is exact in any order.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Sorted ascending, no NaN.
    values : ndarray of float64, shape (m,)
        No NaN.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    if min(len(values), len(scores)) < _MANY:
        return scores.searchsorted(values, side="right").astype(np.int64, copy=False)
    counted = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _CHUNK):
        part = np.ascontiguousarray(values[start : start + _CHUNK])
        order = _nearly_ascending(part)
        counted[start : start + _CHUNK][order] = scores.searchsorted(part[order], side="right")
    return counted


def _nearly_ascending(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return positions that put values in ascending order but for their last digits.

    A float's bits, with all but the sign flipped where it is negative, are an integer of the same
    order. Its lowest bits make room for the position, and one plain integer sort, several times
    faster than ``argsort``, orders both.
    """
    room = (len(values) - 1).bit_length()
    bits = values.view(np.int64)
    keys = bits >> 63
    keys &= _NOT_SIGN
    keys ^= bits
    keys >>= room
    keys <<= room
    keys |= np.arange(len(values))
    keys.sort()
    keys &= (1 << room) - 1
    return keys
