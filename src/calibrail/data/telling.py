"""Which rows of scores show the same number to the last digit, and does chance explain it?"""

from collections.abc import Sequence
from dataclasses import dataclass
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

#: Rows that are looked up at a time, and rows from which group numbers need 64 bits.
_AT_A_TIME: Final = 1 << 20
_INT32: Final = 1 << 31


def score_copies(
    columns: Sequence[_Floats], labels: NDArray[np.int8]
) -> NDArray[np.signedinteger[Any]]:
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
    ndarray of int32 or int64, shape (n,)
        0, 1, ... for the groups; -1 for a row without a copy.

    Examples
    --------
    >>> scores = np.array([0.123456789, 0.5, 0.123456789, 0.5, 0.1])
    >>> score_copies([scores], np.array([1, 0, 1, 0, 0], np.int8)).tolist()
    [0, -1, 0, -1, -1]
    """
    n = len(labels)
    kind: type[np.signedinteger[Any]] = np.int32 if n < _INT32 else np.int64
    found: NDArray[np.signedinteger[Any]] = np.full(n, -1, kind)
    if n < 2 or not columns:
        return found
    ties = [_ties(column, labels) for column in columns]
    # Rows that are alike share the value of every column, and one that is telling.
    if not (all(len(tie.values) for tie in ties) and any(tie.telling.any() for tie in ties)):
        return found
    for start in range(0, n, _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        places = [tie.places(column[part]) for tie, column in zip(ties, columns, strict=True)]
        shared = np.all([place >= 0 for place in places], axis=0)
        found[part][shared] = 0
    rows = np.flatnonzero(found == 0)
    found[rows] = -1
    together, telling = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for tie, column in zip(ties, columns, strict=True):
        place = tie.places(column[rows])
        telling |= tie.telling[place]
        _, together = np.unique(together * len(tie.values) + place, return_inverse=True)
    telling &= np.bincount(together, minlength=1)[together] > 1
    found[rows[telling]] = np.unique(together[telling], return_inverse=True)[1]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Ties:
    """The values that several rows share, rising (NaN last), and which of them are telling."""

    values: _Floats
    telling: _Bools

    def places(self, column: _Floats) -> NDArray[np.intp]:
        """Return each row's place among the values; -1 for one whose value is its own."""
        places = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        held = self.values[places]
        return np.where((held == column) | (np.isnan(held) & np.isnan(column)), places, -1)


def _ties(column: _Floats, labels: NDArray[np.int8]) -> _Ties:
    """Return which values of a column chance does not explain where rows share them."""
    ordered = np.sort(column)
    n_defined = len(ordered) - int(np.count_nonzero(np.isnan(column)))
    # Nothing is equal to NaN; all of them are one value.
    again = np.zeros(len(ordered) + 1, np.int8)
    np.equal(ordered[1:], ordered[:-1], out=again[1:-1].view(np.bool_))
    again[n_defined + 1 : -1] = 1
    edges = np.flatnonzero(np.diff(again))
    begins, counts = edges[::2], edges[1::2] - edges[::2] + 1
    ties = _Ties(ordered[begins], np.zeros(len(begins), np.bool_))
    counted = begins < n_defined
    if counted.any():
        # The place of each among different values, which lie in between.
        rows = begins - np.append(0, np.cumsum(counts - 1))[:-1]
        values = ordered[:n_defined][again[:n_defined] == 0]
        del ordered, again
        ties.telling[counted] = _telling(values, rows[counted], counts[counted], column, labels)
    return ties


def _telling(
    values: _Floats,
    rows: NDArray[np.intp],
    counts: NDArray[np.intp],
    column: _Floats,
    labels: NDArray[np.int8],
) -> _Bools:
    """Return which of the values in some rows, shared by so many each, are telling.

    ``values`` are all that a column has, rising and different, without NaN.
    """
    telling = ~(_short(values[rows]) | _simple(values[rows]))
    at_end = (rows == 0) | (rows == len(values) - 1)
    # An end is saturated where more rows are at it than at any other of these values.
    telling &= ~at_end | (counts <= counts[telling & ~at_end].max(initial=0))
    low, high = _CHANCE
    limit = max(low, min(high, counts[telling].sum() / len(labels) / 10.0))
    telling[telling] = _met_by_chance(values, rows[telling]) <= limit
    if not telling.any():
        return telling
    ties, n_of = _Ties(values[rows], telling), np.zeros((2, len(rows)), np.int64)
    for start in range(0, len(column), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        place, classes = ties.places(column[part]), labels[part]
        for label in (0, 1):
            members = place[(place >= 0) & (classes == label)]
            n_of[label] += np.bincount(members, minlength=len(rows))
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
