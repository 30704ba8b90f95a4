"""Which low quantile, additive over overlapping groups, keeps its level with the new answer in it?

The threshold of a vector x of group indicators is the score S at which the new answer stops lying
below the quantile regression of all n + 1 answers, itself among them (Gibbs, Cherian and Candès,
"Conformal prediction with conditional guarantees", JRSS-B 2025). Its dual variable is alpha - 1 up
to there, so it is found with that variable fixed, by one linear program in which S does not occur:

    threshold = max x b  over the b that minimise  sum_i rho_alpha(s_i - x_i b) + (1 - alpha) x b.
"""

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import CalibrailError

#: Scores are compared by integers of so many steps; what is closer is taken for a tie. Sums of a
#: thousand of them are floats without rounding.
_STEPS: Final = 1 << 40
#: A threshold that is no score is lowered by this share of the scores' range: rounding never
#: passes an answer.
_SLACK: Final = 1e-9
#: Far more steps than any problem has taken.
_MOST_STEPS: Final = 20_000


class QuantileFit:
    """Fits of one set of scores; each starts where the last one ended.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Infinite ones lie above or below every fit.
    design : ndarray of int64, shape (n, d)
        0 or 1: which groups each score is in. A first column of ones is the group of all.
    """

    def __init__(self, scores: Floats, design: Ints) -> None:
        finite = np.isfinite(scores)
        self._above, self._below = scores == math.inf, scores == -math.inf
        self._scores = scores
        known = scores[finite]
        self._low = float(known.min()) if len(known) else 0.0
        self._range = float(known.max()) - self._low if len(known) else 0.0
        steps = np.zeros(len(scores))
        if self._range > 0.0:
            steps[finite] = np.floor((known / self._range - self._low / self._range) * _STEPS)
        # Ties are broken as if each score had a random infinitesimal part, so that no more scores
        # lie on a fit than it has terms. The threshold depends on no such part: it is continuous
        # in the scores.
        parts = np.random.default_rng(0).integers(_STEPS, size=len(scores))
        self._q = np.column_stack([steps.astype(np.int64), parts])
        self._finite = finite
        cells, self._cell = np.unique(design, axis=0, return_inverse=True)
        known_cells, first = np.unique(self._cell[finite], return_index=True)
        self._kept = _pivots(cells[known_cells])
        self._cells = cells[:, self._kept]
        self._basis = np.flatnonzero(finite)[first[_pivots(self._cells[known_cells].T)]]
        self._total = design[:, self._kept].sum(axis=0)
        # What the other columns are made of, on the scores: a new answer may differ there.
        floats = self._cells.astype(np.float64)
        self._made = np.linalg.lstsq(floats, cells.astype(np.float64))[0] if cells.size else floats
        self._spread = _same(floats @ self._made, cells)

    def threshold(self, member: Ints, alpha: Fraction) -> float:
        """Return the threshold of a new answer; ``-inf`` where its groups do not settle one.

        Parameters
        ----------
        member : ndarray of int64, shape (d,)
            0 or 1: which groups the new answer is in.
        alpha : Fraction
            Tolerated miss rate.
        """
        new = member[self._kept]
        if not self._spread or not len(new) or not _same(new @ self._made, member):
            return -math.inf
        for _ in range(_MOST_STEPS):
            square = self._cells[self._cell[self._basis]]
            adjugate, det = _inverse(square)
            fits = self._cells @ (adjugate @ self._q[self._basis])
            residuals = det * self._q - fits[self._cell]
            lower = (residuals[:, 0] < 0) | ((residuals[:, 0] == 0) & (residuals[:, 1] < 0))
            below = lower & self._finite | self._below
            below[self._basis] = False
            others = self._total - square.sum(axis=0) + new
            lows = np.bincount(self._cell[below], minlength=len(self._cells)) @ self._cells + new
            best = self._descent(adjugate, det, others, lows, new, alpha)
            if best is None:
                return self._lowered(new @ adjugate, det)
            leaving, sign, slope, rising = best
            step = sign * (self._cells @ adjugate[:, leaving])[self._cell]
            entering = self._entering(residuals, step, below, slope, rising, alpha.denominator)
            if entering is None:
                return -math.inf
            self._basis[leaving] = entering
        raise CalibrailError("the quantile regression of the groups found no end; report this")

    def _descent(
        self, adjugate: Ints, det: int, others: Ints, lower: Ints, new: Ints, alpha: Fraction
    ) -> tuple[int, int, int, bool] | None:
        """Return the steepest edge downwards: its column, sign, slope and whether x b rises.

        Slopes are whole numbers, those of the objective times ``det`` and alpha's denominator.
        """
        counts, lows = (others @ adjugate).tolist(), (lower @ adjugate).tolist()
        gains, (missed, whole) = (new @ adjugate).tolist(), alpha.as_integer_ratio()
        best: tuple[int, int, int, bool] | None = None
        for column, (count, low, gain) in enumerate(zip(counts, lows, gains, strict=True)):
            along = whole * low - missed * count
            for sign, slope in ((1, along + (whole - missed) * det), (-1, missed * det - along)):
                rising = sign * gain > 0
                # Of fits that are equally good, the one with the highest x b.
                falls = slope < 0 or (slope == 0 and rising)
                if falls and (best is None or slope < best[2]):
                    best = column, sign, slope, rising
        return best

    def _entering(
        self, residuals: Ints, step: Ints, below: Bools, slope: int, rising: bool, whole: int
    ) -> int | None:
        """Return the score at which the objective stops falling along an edge."""
        met = np.where(below, step < 0, step > 0) & self._finite
        met[self._basis] = False
        rows = np.flatnonzero(met)
        first, second = (residuals[rows] / step[rows, np.newaxis]).T
        sort = np.argsort(first, kind="stable")
        if (np.diff(first[sort]) == 0.0).any():
            sort = np.lexsort((second, first))
        order = rows[sort]
        passed = np.cumsum(np.abs(step[order]))
        # Where the slope is 0 after a score, it goes on as long as x b rises.
        ceiling = -(slope // whole) + (rising and slope % whole == 0)
        place = int(np.searchsorted(passed, ceiling))
        return int(order[place]) if place < len(order) else None

    def _lowered(self, weights: Ints, det: int) -> float:
        """Return the value of the fit, or the lowest score that it cannot be told from."""
        terms = zip(weights.tolist(), self._scores[self._basis].tolist(), strict=True)
        value = math.fsum(weight * score for weight, score in terms) / det
        lowest = value - _SLACK * self._range
        near = self._scores[(self._scores >= lowest) & (self._scores <= value)]
        return float(near.min()) + 0.0 if len(near) else lowest


def _inverse(square: Ints) -> tuple[Ints, int]:
    """Return the adjugate and the determinant of a matrix of integers, the latter positive."""
    det = round(float(np.linalg.det(square.astype(np.float64))))
    adjugate: Ints = np.rint(np.linalg.inv(square.astype(np.float64)) * det).astype(np.int64)
    # Sums of so many scores, counted in steps, are still exact.
    wide = np.abs(adjugate).sum(axis=1).max() > 1 << 10
    if det == 0 or wide or (square @ adjugate != det * np.eye(len(square), dtype=np.int64)).any():
        raise CalibrailError("the groups overlap in too many ways to compute with; name fewer")
    return (adjugate, det) if det > 0 else (-adjugate, -det)


def _same(values: Floats, whole: Ints) -> bool:
    """Return whether numbers are those integers, but for rounding."""
    return bool(np.allclose(values, whole, rtol=0.0, atol=1e-6))


def _pivots(matrix: NDArray[np.int64]) -> Ints:
    """Return the first columns of a matrix of integers that span all of them."""
    rest = [[Fraction(value) for value in row] for row in matrix.tolist()]
    pivots: list[int] = []
    for column in range(matrix.shape[1]):
        top = len(pivots)
        found = next((at for at in range(top, len(rest)) if rest[at][column]), None)
        if found is None:
            continue
        rest[top], rest[found] = rest[found], rest[top]
        pivot = rest[top]
        for at in range(top + 1, len(rest)):
            if share := rest[at][column] / pivot[column]:
                rest[at] = [a - share * b for a, b in zip(rest[at], pivot, strict=True)]
        pivots.append(column)
    return np.array(pivots, dtype=np.int64)
