"""What did another program already say?"""

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.by_sentence import listed
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.detector import Detector, one_of

Higher = Literal["hallucinated", "faithful"]


class Column(Detector):
    """A score that the data holds, turned so that higher means more likely hallucinated.

    calibrail cannot see what computed the column, so its fingerprint is empty.

    Parameters
    ----------
    column : str
        Name of the column.
    higher : {"hallucinated", "faithful"}
        What a higher value of the column means; ``faithful`` negates it.
    """

    column: str
    higher: Higher

    name = "column"
    requires = ()

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"column must name a column; got {self.column!r}")
        one_of(self.higher, "higher", get_args(Higher))
        self.columns = (self.column,)

    @property
    def key(self) -> str:
        """A short name that tells scores of one run apart."""
        return self.column

    def value(self, example: Example) -> float | str:
        """Return the column's value; undefined where the cell is no finite number."""
        cell = example.columns.get(self.column)
        if cell is None:
            return self._empty
        try:
            # Python reads "1_000" and True as numbers, which whoever wrote them did not mean.
            spelt = isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell)
            number = float("" if spelt else cell)
        except (ValueError, TypeError, OverflowError):
            if listed(cell) is not None:
                return f"column {self.column} holds lists, which --unit sentence reads"
            return f"column {self.column} holds {str(cell)[:40]!r}, which is no number"
        if not math.isfinite(number):
            return self._infinite(number)
        return number if self.higher == "hallucinated" else -number

    def values_of(
        self, cells: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.int64]]]:
        """Return the values of many cells at once, and by reason which of them have none.

        Parameters
        ----------
        cells : ndarray of float64, shape (n,)
            As the column holds them; NaN where it is empty.
        """
        values = cells if self.higher == "hallucinated" else -cells
        finite = np.isfinite(cells)
        if finite.all():
            return values, {}
        kinds = {self._empty: np.isnan(cells)}
        kinds |= {self._infinite(number): cells == number for number in (math.inf, -math.inf)}
        undefined = {why: np.flatnonzero(where) for why, where in kinds.items()}
        return np.where(finite, values, np.nan), {k: v for k, v in undefined.items() if len(v)}

    def cells(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values as the column holds them, shape (n,)."""
        return values if self.higher == "hallucinated" else -values

    @property
    def _empty(self) -> str:
        return f"column {self.column} is empty"

    def _infinite(self, number: float) -> str:
        return f"column {self.column} holds {number}, which is not finite"
