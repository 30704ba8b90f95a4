"""How are values kept of which many rows share one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


class Coded(Sequence[Any]):
    """A value for each of n rows, each different value stored once.

    Parameters
    ----------
    values : sequence
        The different values.
    codes : ndarray of int32, shape (n,)
        Which of them a row has.

    Examples
    --------
    >>> cells = Coded(["fit", None], np.array([0, 1, 0], np.int32))
    >>> cells[2], list(cells)
    ('fit', ['fit', None, 'fit'])
    """

    def __init__(self, values: Sequence[Any], codes: NDArray[np.int32]) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, rows: int) -> Any: ...
    @overload
    def __getitem__(self, rows: slice) -> Coded: ...
    def __getitem__(self, rows: int | slice) -> Any:
        """Return the value of one row, or some rows."""
        if isinstance(rows, slice):
            return Coded(self.values, self.codes[rows])
        return self.values[int(self.codes[rows])]

    def __iter__(self) -> Iterator[Any]:
        """Yield the value of every row."""
        return map(self.values.__getitem__, self.codes.tolist())

    def only(self, rows: NDArray[np.bool_]) -> Coded:
        """Return some of the rows."""
        return Coded(self.values, self.codes[rows])


class Coder:
    """Numbers the values of a column in the order in which they appear, block after block."""

    def __init__(self) -> None:
        self._codes: dict[tuple[type, str], int] = {}
        self.values: list[Any] = []

    def __call__(self, values: Sequence[Any], codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of some rows' values, given the values and each row's place."""
        # By their spelling: 0.0 and -0.0 are equal.
        keys = [(type(value), repr(value)) for value in values]
        for key, value in zip(keys, values, strict=True):
            if key not in self._codes:
                self._codes[key] = len(self.values)
                self.values.append(value)
        return np.array([self._codes[key] for key in keys], np.int32)[codes]
