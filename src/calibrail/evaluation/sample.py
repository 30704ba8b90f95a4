"""Which answers is something measured on: their scores, labels, parts and groups?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import validation
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.errors import InputError
from calibrail.record import Record

__all__ = ["CALIBRATION", "FIT", "TEST", "Codes", "Floats", "Mask", "Sample"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample(Record):
    """The scores of one detector beside what is known of the answers.

    Attributes
    ----------
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    split : ndarray of int8, shape (n,)
        Part of each answer: 0 = fit, 1 = calibration, 2 = test.
    groups : ndarray of int64, shape (n,), or None
        What answers share (a source, a question); negative = stands alone.
    tolerance : float
        Numerical tolerance of the score: flagged when ``value + tolerance >= threshold``.

    Raises
    ------
    InputError
        If the arrays differ in length, or hold something other than the values named above.
    """

    values: Floats
    labels: Codes
    split: Codes
    groups: NDArray[np.int64] | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        n = len(self.values)
        if not n == len(self.labels) == len(self.split):
            raise InputError(
                "values, labels and codes must have one entry per example; got "
                f"{n}, {len(self.labels)} and {len(self.split)}"
            )
        if self.groups is not None and len(self.groups) != n:
            raise InputError(f"groups must have one entry per example; got {len(self.groups)}")
        if np.isinf(self.values).any():
            raise InputError("values must be finite, or NaN where undefined; got an infinite value")
        if not np.isin(self.labels, (0, 1)).all():
            raise InputError("labels must be 0 (faithful) or 1 (hallucinated)")
        if not np.isin(self.split, (FIT, CALIBRATION, TEST)).all():
            raise InputError("codes must be 0 (fit), 1 (calibration) or 2 (test)")
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        object.__setattr__(self, "tolerance", validation.tolerance(self.tolerance))

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, part: int, label: int | None = None) -> Mask:
        """Return which answers belong to a part of the split, and to a class where one is named."""
        rows: Mask = self.split == part
        return rows if label is None else rows & (self.labels == label)

    def scores(self, part: int, label: int) -> Floats:
        """Return the scores of one class in one part, undefined ones included."""
        return self.values[self.rows(part, label)]

    def count(
        self, flagged: Mask, part: int, label: int, among: Mask | None = None
    ) -> tuple[int, int]:
        """Return how many of one class in one part are flagged, and how many there are.

        Parameters
        ----------
        flagged : ndarray of bool, shape (n,)
            Decisions.
        part, label : int
            Part of the split, and class.
        among : ndarray of bool, shape (n,), optional
            Counts only these.
        """
        rows = self.rows(part, label)
        if among is not None:
            rows = rows & among
        return int(np.sum(flagged & rows)), int(np.sum(rows))

    def with_scores(self, values: Floats, tolerance: float = 0.0) -> Sample:
        """Return the same answers with the scores of another detector."""
        return replace(self, values=values, tolerance=tolerance)
