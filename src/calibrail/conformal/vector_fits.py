"""Which regression serves each vector of groups, and which vectors are covered at all?

Which groups have enough examples is asked of all n + 1 answers, so that asking does not spoil the
promise of ``overlapping``: for each vector of groups as if the new answer were one of the
calibration part.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from calibrail.conformal.quantile_fit import QuantileFit
from calibrail.conformal.rank import decimal
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.settings.promise import Promise


def coded(members: Sequence[Sequence[str]], names: Sequence[Sequence[str]]) -> Ints:
    """Return the group of each example in each column by number, small ones after the others."""
    columns = []
    for column, item in zip(members, names, strict=True):
        rest = sorted({*column} - {*item})
        codes = {name: code for code, name in enumerate([*item, None, *rest])}
        columns.append([codes[name] for name in column])
    return np.array(columns, dtype=np.int64).T


class VectorFits:
    """The regressions of all vectors of groups; those with the same groups share one.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores of hallucinated calibration examples; NaN where undefined.
    codes : ndarray of int64, shape (n, columns)
        Their groups by number, as ``coded`` gives them.
    least : int
        Fewest examples of a group with an indicator of its own.
    promise : Promise
        What is done with undefined scores.

    Attributes
    ----------
    of : list
        The regression and the indicators of each vector, in their order; None where it is not
        covered.
    """

    def __init__(self, values: Floats, codes: Ints, least: int, promise: Promise) -> None:
        missing = -math.inf if promise.undefined == "pass" else math.inf
        self._scores = np.where(np.isnan(values), missing, values)
        self._codes, self._least = codes, least
        self._fits: dict[bytes, QuantileFit] = {}
        self.of: list[tuple[QuantileFit, Ints] | None] = []

    def prepare(self, vector: tuple[int, ...]) -> set[tuple[int, int]]:
        """Add a vector, by number; return the columns and groups that have indicators of theirs.

        A group that is not known has the number after those that are, which no example has.
        """
        whole = np.vstack([self._codes, vector])
        covered = np.ones(len(whole), dtype=np.bool_)
        while True:
            design, inside, own = self._design(whole, covered)
            if inside.all() or not inside[-1]:
                break
            covered[np.flatnonzero(covered)[~inside]] = False
        if not inside[-1]:
            self.of.append(None)
            return set()
        rows = covered[:-1]
        key = design[:-1].tobytes() + rows.tobytes()
        if key not in self._fits:
            self._fits[key] = QuantileFit(self._scores[rows], design[:-1])
        self.of.append((self._fits[key], design[-1]))
        return own

    def threshold(self, place: int, level: float) -> float:
        """Return the threshold of a covered vector."""
        item = self.of[place]
        assert item is not None
        return item[0].threshold(item[1], Fraction(decimal(level)))

    def _design(self, whole: Ints, covered: Bools) -> tuple[Ints, Bools, set[tuple[int, int]]]:
        """Return the indicators of covered answers, which of these have one everywhere, and whose.

        The new answer is one of them, so that all n + 1 are treated alike.
        """
        rows = whole[covered]
        columns, inside = [np.ones(len(rows), dtype=np.int64)], np.ones(len(rows), np.bool_)
        own = set()
        for column, codes in enumerate(rows.T):
            seen, code, n = np.unique(codes, return_inverse=True, return_counts=True)
            large = n > self._least
            columns += [(code == item).astype(np.int64) for item in np.flatnonzero(large)]
            own |= {(column, number) for number in seen[large].tolist()}
            others = ~large[code]
            if 0 < others.sum() <= self._least:
                inside &= ~others
            elif others.any():
                # The small groups together are one.
                columns.append(others.astype(np.int64))
        return np.column_stack(columns), inside, own
