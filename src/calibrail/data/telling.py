"""Which rows of scores show the same number to the last digit, and does chance explain it?"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]

#: Decimals, and significant digits, up to which a number is one that several answers may have.
_DIGITS: Final = 4
#: Largest denominator of a fraction that several answers may have, and how near it must be. Of
#: numbers that are rounded, to decimals or to single precision, the denominator is at most this
#: factor over the square root of the last digit's step: beyond, any number is near a fraction.
_DENOMINATOR: Final = 10_000
_NEAR: Final = 1e-12
_ROUNDED: Final = 0.2
#: Neighbours on either side that say how dense a column's values are there.
_NEIGHBOURS: Final = 16
#: Chance that an answer shares its value with another one up to which chance does not explain it;
#: up to the second where ten times as many answers share theirs.
_CHANCE: Final = (1e-3, 0.02)
#: More rows of both classes at one value are no copies.
_DOZEN: Final = 12
#: Share of the values with answers of both classes from which they are no copies of one answer
#: each, unless such a share of the values is shared by equally many rows.
_MIXED: Final = 0.1
_EVEN: Final = 0.8


def score_copies(columns: Sequence[_Floats], labels: NDArray[np.int8]) -> NDArray[np.int64]:
    """Find the groups of rows that are copies of one another by their scores alone.

    Rows are copies where they have the same number in every column, and at least one of these
    numbers is telling: chance does not explain that two answers share it. Telling is no number of
    at most four decimals or four significant digits, no simple fraction, no end at which a column
    is saturated, none whose neighbours stand so dense on the grid of its digits (of its precision)
    that answers meet there, and none that more than a dozen answers of both classes share. Where
    answers of both classes share a tenth of the values, in groups of different sizes, the column
    is a count in disguise, as entropies of a few samples are, and none of its values is telling.

    Parameters
    ----------
    columns : sequence of ndarray of float64, shape (n,)
        Scores; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not labelled.

    Returns
    -------
    ndarray of int64, shape (n,)
        0, 1, ... for the groups; -1 for a row without a copy.

    Examples
    --------
    >>> scores = np.array([0.123456789, 0.5, 0.123456789, 0.5, 0.1])
    >>> score_copies([scores], np.array([1, 0, 1, 0, 0], np.int8)).tolist()
    [0, -1, 0, -1, -1]
    """
    n = len(labels)
    found = np.full(n, -1, np.int64)
    if n < 2 or not columns:
        return found
    together, telling = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for column in columns:
        values, member = np.unique(column, return_inverse=True)
        if len(values) < n:
            telling |= _telling(values, member, labels)[member]
        _, together = np.unique(together * len(values) + member, return_inverse=True)
    telling &= np.bincount(together)[together] > 1
    found[telling] = np.unique(together[telling], return_inverse=True)[1]
    return found


def _telling(
    values: _Floats, member: NDArray[np.intp], labels: NDArray[np.int8]
) -> NDArray[np.bool_]:
    """Return which of a column's values, rising, chance does not explain where rows share them."""
    counts = np.bincount(member, minlength=len(values))
    telling = (counts > 1) & ~np.isnan(values)
    rows = np.flatnonzero(telling)
    telling[rows] = ~(_short(values[rows]) | _simple(values[rows]))
    ends = np.array([0, int(np.count_nonzero(~np.isnan(values))) - 1])
    at_end, telling[ends] = telling[ends], False
    # An end is saturated where more rows are at it than at any other of these values.
    telling[ends] = at_end & (counts[ends] <= counts[telling].max(initial=0))
    rows = np.flatnonzero(telling)
    low, high = _CHANCE
    limit = max(low, min(high, counts[rows].sum() / len(labels) / 10.0))
    telling[rows] = _met_by_chance(values[: ends[1] + 1], rows) <= limit
    n_of = [np.bincount(member[labels == label], minlength=len(values)) for label in (0, 1)]
    mixed = telling & (np.minimum(*n_of) > 0)
    if np.count_nonzero(mixed) > _MIXED * np.count_nonzero(telling):
        # Answers that several people have labelled stand there equally often.
        sizes = np.bincount(counts[telling])
        telling &= bool(sizes.max() >= _EVEN * sizes.sum())
    result: _Bools = telling & ~(mixed & (counts > _DOZEN))
    return result


def _short(values: _Floats) -> _Bools:
    """Return which numbers have few decimals or few significant digits."""
    size = np.where(values == 0.0, 1.0, np.abs(values))
    exponent = np.floor(np.log10(size))
    with np.errstate(all="ignore"):
        scaled = values / 10.0**exponent
    significant = np.abs(scaled - np.round(scaled, _DIGITS - 1)) <= 1e-15 * np.abs(scaled)
    few: _Bools = (np.round(values, _DIGITS) == values) | significant
    return few


def _simple(values: _Floats) -> _Bools:
    """Return which numbers are fractions of small whole numbers, by their continued fractions."""
    x, step = np.abs(values), _grid(values)
    largest = np.minimum(_DENOMINATOR, _ROUNDED / np.sqrt(step))
    near = np.maximum(_NEAR * x, step)
    before, above = np.ones_like(x), np.floor(x)
    below_before, below = np.zeros_like(x), np.ones_like(x)
    rest, found = x - above, np.zeros(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        while True:
            found |= (below <= largest) & (np.abs(x - above / below) <= 1.001 * near)
            if not ((below <= largest) & (rest > 0.0) & ~found).any():
                return found
            inverse = np.where(rest > 0.0, 1.0 / rest, np.inf)
            whole = np.floor(inverse)
            before, above = above, whole * above + before
            below_before, below = below, whole * below + below_before
            rest = np.where(np.isfinite(inverse), inverse - whole, 0.0)


def _met_by_chance(values: _Floats, rows: NDArray[np.intp]) -> _Floats:
    """Return the chance that another answer has the same value, where values are alike in density.

    ``values`` are a column's, rising and different; ``rows`` those that are asked about.
    """
    low = np.maximum(rows - _NEIGHBOURS, 0)
    high = np.minimum(rows + _NEIGHBOURS, len(values) - 1)
    with np.errstate(all="ignore"):
        places = (values[high] - values[low]) / _grid(values[rows])
        return np.where(places > 0.0, (high - low) / places, np.inf)


def _grid(values: _Floats) -> _Floats:
    """Return the distance of each value from the next one that its column could have held."""
    step = np.abs(np.spacing(values))
    # The most decimals first, so that the fewest that do stay.
    for digits in range(15, _DIGITS, -1):
        step[np.round(values, digits) == values] = 10.0**-digits
    for kind in (np.float32, np.float16):
        of_kind = _is(values, kind)
        step[of_kind] = np.abs(np.spacing(values[of_kind].astype(kind))).astype(np.float64)
    return step


def _is(values: _Floats, kind: Any) -> _Bools:
    """Return which numbers are those of a smaller floating-point type."""
    with np.errstate(all="ignore"):
        same: _Bools = values.astype(kind).astype(np.float64) == values
    return same
