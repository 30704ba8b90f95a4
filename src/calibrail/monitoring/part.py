"""What do rows look like that follow each other, once they are numbers?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from calibrail.conformal.validation import Bools, Floats
from calibrail.monitoring.features import FEATURES, table
from calibrail.monitoring.rows import Ref, Rows

#: Rows that are followed in one go, from a multiple of it.
BLOCK: Final = 512
#: Characters of an id that are kept: its chain and number find the rest.
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that follow each other.

    Attributes
    ----------
    row : int
        Number of the first one in the stream.
    values : ndarray of float64, shape (features, n)
        As `features.table` makes it.
    time : ndarray of float64, shape (n,)
        Seconds since 1970; NaN where it is not known.
    flagged : ndarray of bool, shape (n,)
        Whether the outcome was not a pass.
    refs : tuple of (chain, seq, id), or None
        Where they stand in their logs.
    """

    row: int
    values: Floats
    time: Floats
    flagged: Bools
    refs: tuple[Ref | None, ...]

    @classmethod
    def of(cls, row: int, rows: Rows, codes: dict[str, int]) -> Self:
        """Return rows as numbers; ``codes`` numbers the languages so far, and is added to."""
        refs: tuple[Ref | None, ...] = (None,) * len(rows)
        if rows.ref is not None:
            refs = tuple(ref if len(ref[2]) <= _LONGEST else _short(ref) for ref in rows.ref)
        return cls(row, table(rows, codes), rows.time, rows.flagged, refs)

    @classmethod
    def none(cls, row: int = 0) -> Self:
        """Return no rows."""
        return cls(row, np.zeros((len(FEATURES), 0)), np.zeros(0), np.zeros(0, bool), ())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time)

    def cut(self, start: int, stop: int) -> Self:
        """Return the rows from ``start`` to before ``stop``; arrays are views."""
        which = slice(start, stop)
        arrays = self.values[:, which], self.time[which], self.flagged[which]
        return type(self)(self.row + start, *arrays, self.refs[which])

    def then(self, later: Self) -> Self:
        """Return these rows and those that follow, as arrays of their own."""
        return type(self)(
            self.row,
            np.concatenate([self.values, later.values], axis=1),
            np.concatenate([self.time, later.time]),
            np.concatenate([self.flagged, later.flagged]),
            self.refs + later.refs,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` reads."""
        return {
            "row": self.row,
            "values": [written(row) for row in self.values],
            "time": written(self.time),
            "flagged": self.flagged.tolist(),
            "refs": [None if ref is None else [*ref] for ref in self.refs],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild them."""
        n = len(content["time"])
        return cls(
            content["row"],
            np.array(content["values"], np.float64).reshape(len(FEATURES), n),
            np.array(content["time"], np.float64).reshape(n),
            np.array(content["flagged"], bool).reshape(n),
            read_refs(content["refs"]),
        )


def _short(ref: Ref) -> Ref:
    chain, seq, name = ref
    return chain, seq, name[: _LONGEST - 1] + "…"


def written(values: Floats) -> list[float | None]:
    """Return numbers as strict JSON can hold them, None for NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def read_refs(content: Sequence[Sequence[Any] | None]) -> tuple[Ref | None, ...]:
    """Return the places in logs that a state holds."""
    return tuple(None if ref is None else (ref[0], ref[1], ref[2]) for ref in content)
