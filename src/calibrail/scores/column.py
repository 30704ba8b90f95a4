"""What did another program already say?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Scores, each

Higher = Literal["hallucinated", "faithful"]


class Column:
    """A score that the data holds, turned so that higher means more likely hallucinated.

    Parameters
    ----------
    column : str
        Name of the column.
    higher : {"hallucinated", "faithful"}
        What a higher value of the column means; ``faithful`` negates it.
    """

    name = "column"
    requires: tuple[str, ...] = ()
    tolerance = 0.0

    def __init__(self, *, column: str, higher: Higher) -> None:
        if not isinstance(column, str) or not column:
            raise InputError(f"column must name a column; got {column!r}")
        if higher not in get_args(Higher):
            raise InputError(f"higher must be hallucinated or faithful; got {higher!r}")
        self.column = column
        self.higher = higher
        self.columns = (column,)

    @property
    def params(self) -> Mapping[str, JSON]:
        """The column and its direction."""
        return {"column": self.column, "higher": self.higher}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return nothing: calibrail cannot see what computed the column."""
        return {}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the column's values; undefined where a cell is no finite number."""
        return each(examples, (), self._value)

    def _value(self, example: Example) -> float | str:
        cell = example.columns.get(self.column)
        if cell is None:
            return f"column {self.column} is empty"
        try:
            number = float(cell)
        except (ValueError, TypeError, OverflowError):
            return f"column {self.column} holds {str(cell)[:40]!r}, which is no number"
        if not math.isfinite(number):
            return f"column {self.column} holds {number}, which is not finite"
        return number if self.higher == "hallucinated" else -number
