"""What did another program already say?"""

import math
from typing import Literal, get_args

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
            return f"column {self.column} is empty"
        try:
            # Python reads "1_000" and True as numbers, which whoever wrote them did not mean.
            spelt = isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell)
            number = float("" if spelt else cell)
        except (ValueError, TypeError, OverflowError):
            return f"column {self.column} holds {str(cell)[:40]!r}, which is no number"
        if not math.isfinite(number):
            return f"column {self.column} holds {number}, which is not finite"
        return number if self.higher == "hallucinated" else -number
