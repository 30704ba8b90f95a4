"""Where does each value of a stream stand among all those before it?

Values are counted in bins that were fixed before the first of them. With ``less`` and ``equal`` of
the n values counted so far in lower bins and in the bin of a new value, and a uniform U,
(less + U (equal + 1)) / (n + 1) is its smoothed conformal p-value. While all values, the counted
ones among them, are exchangeable, the p-values of the stream are independent and uniform on [0, 1]:
exactly, for ties and discrete values, too (Vovk, Gammerman and Shafer, 2005, "Algorithmic learning
in a random world", theorem 8.2; Vovk, 2021, "Testing randomness online"). Ranks among a reference
that does not grow are uniform each, but not independent of one another; and bins that are chosen
from the very values that are counted would tell them apart from those that come later.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import InputError

#: Rows whose order among themselves is told by comparing each with each.
_STEP: Final = 16
#: Comparisons that are held in memory at once.
_AT_ONCE: Final = 1 << 22
#: Bins at most: their numbers are compared as 16 bits.
_MOST_BINS: Final = 1 << 15
#: Row i of a step comes after row j.
_BEFORE: Final = np.tril(np.ones((_STEP, _STEP), bool), -1)


def stream_ranks(bins: ArrayLike, uniforms: ArrayLike, counts: ArrayLike) -> tuple[Floats, Ints]:
    """Return the randomised rank of each value among the counted ones, and the new counts.

    Parameters
    ----------
    bins : array-like of int, shape (streams, rows)
        Bin of each value, from 0; negative where a row has none: it is skipped.
    uniforms : array-like of float, shape (streams, rows)
        Independent draws from [0, 1), one for each value.
    counts : array-like of int, shape (streams, n_bins)
        How many values each bin counted before.

    Returns
    -------
    ranks : ndarray of float64, shape (streams, rows)
        In [0, 1); higher = a higher bin than most before. NaN where a row has no value.
    counts : ndarray of int64, shape (streams, n_bins)
        With these values. A stream that is cut anywhere and goes on with them has the same ranks.

    Raises
    ------
    InputError
        If shapes do not fit, or a bin is not among the counted ones.

    Examples
    --------
    >>> ranks, counts = stream_ranks([[1, 0, -1, 1]], [[0.5, 0.5, 0.5, 0.5]], [[1, 0]])
    >>> ranks.tolist(), counts.tolist()
    ([[0.75, 0.3333333333333333, nan, 0.75]], [[2, 2]])
    """
    where, u = np.asarray(bins, np.int64), np.asarray(uniforms, np.float64)
    total = np.array(counts, np.int64)
    if where.ndim != 2 or u.shape != where.shape or total.shape[:1] != where.shape[:1]:
        raise InputError(
            f"bins and uniforms must have shape (streams, rows), and counts a row per stream; got "
            f"{where.shape}, {u.shape} and {total.shape}"
        )
    if total.ndim != 2 or (where.size and where.max() >= min(total.shape[1], _MOST_BINS)):
        raise InputError(
            f"bins must be among those of counts, of shape {total.shape}, and below {_MOST_BINS}; "
            f"got bin {where.max()}"
        )
    ranks = np.empty(u.shape)
    rows = max(1, _AT_ONCE // (_STEP * max(1, len(where)))) * _STEP
    for start in range(0, where.shape[1], rows):
        part = slice(start, start + rows)
        less, equal, n, total = _before(where[:, part], total)
        ranks[:, part] = (less + u[:, part] * (equal + 1)) / (n + 1)
    ranks[where < 0] = np.nan
    return ranks, total


def _before(bins: Ints, counts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return what was counted before each value: in lower bins, in its own, and at all."""
    streams, rows = bins.shape
    n_bins, steps = counts.shape[1], -(-rows // _STEP)
    # What has no value, and what fills up the last step, is counted in a bin of its own.
    padded = np.full((streams, steps * _STEP), n_bins)
    padded[:, :rows] = np.where(bins < 0, n_bins, bins)
    place = (np.arange(streams)[:, None] * steps + np.arange(steps * _STEP) // _STEP) * (n_bins + 1)
    cells = np.bincount((place + padded).ravel(), minlength=streams * steps * (n_bins + 1))
    # Held before each step, and after the last one.
    held = np.zeros((streams, steps + 1, n_bins + 1), np.int64)
    held[:, 0, :n_bins] = counts
    held[:, 1:] = cells.reshape(streams, steps, n_bins + 1)
    np.cumsum(held, axis=1, out=held)
    below = np.zeros((streams, steps, n_bins + 1), np.int64)
    np.cumsum(held[:, :-1, :-1], axis=2, out=below[:, :, 1:])
    own = padded.reshape(streams, steps, _STEP)
    small = np.asarray(own, np.int16)
    mine, theirs = small[..., :, None], small[..., None, :]
    less = np.take_along_axis(below, own, 2) + _count((theirs < mine) & _BEFORE)
    equal = np.take_along_axis(held[:, :-1], own, 2) + _count((theirs == mine) & _BEFORE)
    present = bins >= 0
    n = counts.sum(axis=1)[:, None] + np.cumsum(present, axis=1) - present
    whole = (streams, steps * _STEP)
    less, equal = (values.reshape(whole)[:, :rows] for values in (less, equal))
    return less, equal, n, held[:, -1, :n_bins].copy()


def _count(marks: Bools) -> Ints:
    return np.asarray(np.sum(marks, axis=-1, dtype=np.int8), np.int64)
