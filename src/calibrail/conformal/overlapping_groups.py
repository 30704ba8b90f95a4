"""Multi-group conformal (Gibbs, Cherian, Candes).

The threshold of a vector x of group indicators is the score S at which the new answer stops lying
below the quantile regression of all n + 1 answers, itself among them (Gibbs, Cherian and Candès,
"Conformal prediction with conditional guarantees", JRSS-B 2025). Its dual variable is alpha - 1 up
to there, so it is found with that variable fixed, by one linear program in which S does not occur:

    threshold = max x b  over the b that minimise  sum_i rho_alpha(s_i - x_i b) + (1 - alpha) x b.

Which groups have enough examples is asked of all n + 1 answers, so that asking does not spoil the
promise of ``overlapping``: for each vector of groups as if the new answer were one of the
calibration part.

With F the functions that are additive over the groups, the thresholds of Gibbs, Cherian and Candès
("Conformal prediction with conditional guarantees", JRSS-B 2025) are found in
``calibrail.conformal.quantile_fit``. For a new hallucinated answer that is exchangeable with those
of the calibration part, and every group G that has its own indicator,

    E[1{in G} (1{missed} - alpha)] <= 0,   that is   P(missed | in G) <= alpha,

in finite samples, whatever the scores and however the groups overlap. Why: let eta be the dual
variables of the quantile regression of all n + 1 answers, chosen alike for all of them (the point
of least norm among the optimal ones, so that renaming answers renames the variables). They lie in
[alpha - 1, alpha], and sum over the answers in G to 0. So E[1{in G} eta_new] = 0. An answer is
missed only where its score is below the threshold, which makes eta_new = alpha - 1 in every
solution; elsewhere eta_new <= alpha. So eta_new <= alpha - 1{missed}, always, and the inequality
follows. No randomisation is needed for this side: ties and rounding only flag more.

Nothing is promised for intersections of groups.

MAPIE (``mapie.conditional_conformal_prediction``) has the method, too, and does not serve here: its
exact search for the threshold takes cvxpy and may find no basis to start from where scores are tied
(a ``ValueError``), as shares of words are; its other one stops within 0.001. Its dual program is
the oracle of a test, ``tests/conformal/test_quantile_fit.py``.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import _validation
from calibrail.conformal._validation import Bools, Floats, Ints
from calibrail.conformal.groups import joined, parted
from calibrail.conformal.threshold import (
    Calibration,
    add_tolerance,
    calibrate_threshold,
    decimal,
    minimum_n,
)
from calibrail.errors import CalibrailError, InputError
from calibrail.options.fields import spell_option
from calibrail.options.guarantee import Promise
from calibrail.serialization import Record

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


#: Beside alpha, the levels that a p-value can take.
_LEVELS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: Vectors of groups, each of which needs a threshold.
_MOST_VECTORS: Final = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class OverlappingCalibration(Record):
    """A threshold for every vector of groups, and a shared one where a group is not known.

    Attributes
    ----------
    columns : tuple of str
        The columns whose values are the groups.
    values : tuple of tuple of str
        Of each column, the groups with enough examples, sorted.
    own : tuple of tuple of bool
        Which of ``values`` have a promise of their own: all, but for those that have too few
        examples without answers that another column leaves uncovered.
    counts : tuple of tuple of int
        Hallucinated examples of each of ``values``.
    small : tuple of mapping of str to int
        Of each column, the hallucinated examples of its other groups.
    cuts : tuple of float, or None
        Above how many characters the second and the last third of the lengths begin.
    levels : tuple of float
        Miss rates for which there are thresholds, ascending, alpha among them.
    thresholds : ndarray of float64, shape (vectors, levels)
        Of each vector of groups, the last column's fastest, a column's unknown group after its
        values. ``-inf`` flags everything. They never fall from one level to the next.
    covered : ndarray of bool, shape (vectors,)
        Whether the promise holds for such answers. The others are decided by the one threshold of
        all, and nothing is promised for them.
    min_n : int
        Fewest hallucinated examples of a group with a promise of its own.
    fallback : Calibration
        One threshold for all.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    own: tuple[tuple[bool, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    small: tuple[Mapping[str, int], ...]
    cuts: tuple[float, ...] | None
    levels: tuple[float, ...]
    thresholds_: NDArray[np.float64]
    covered: NDArray[np.bool_]
    min_n: int
    fallback: Calibration

    def thresholds(self, groups: Sequence[str]) -> Floats:
        """Return each answer's threshold, shape (m,)."""
        return np.asarray(self.thresholds_[self._vectors(groups), self._level])

    def flags(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = _validation.vector(values, "values")
        nan = np.isnan(queries)
        known = add_tolerance(np.where(nan, 0.0, queries), tolerance)
        flagged = known >= self.thresholds(groups)
        flagged[nan] = self.fallback.undefined != "pass"
        return flagged

    def p_value(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Floats:
        """Return the smallest of the levels from which on an answer is passed; 1 where none is.

        In every group with a promise of its own P(p <= u) <= u for a hallucinated answer. It is at
        most alpha where the answer is passed, and nowhere else.
        """
        queries = add_tolerance(_validation.defined(values, "values"), tolerance)
        reached = self.thresholds_[self._vectors(groups)] <= queries[:, np.newaxis]
        return np.asarray(np.array([*self.levels, 1.0])[reached.sum(axis=1)])

    def is_covered(self, groups: Sequence[str]) -> Bools:
        """Return for which answers the promise holds, shape (m,)."""
        return np.asarray(self.covered[self._vectors(groups)])

    def known(self, name: str) -> str:
        """Return the name of an answer's groups without those that were not calibrated on."""
        parts = parted(name, len(self.columns))
        seen = zip(parts, self.values, self.small, strict=True)
        return joined([part if part in big or part in few else None for part, big, few in seen])

    def deciding(self) -> dict[float, str]:
        """Return every threshold with the name of groups that it decides for."""
        names = itertools.product(*((*names, None) for names in self.values))
        return dict(zip(self.thresholds_[:, self._level].tolist(), map(joined, names), strict=True))

    @property
    def flag_all(self) -> bool:
        """Whether nothing can ever pass."""
        return bool((self.thresholds_[:, self._level] == -math.inf).all())

    @property
    def described(self) -> str:
        """Say in a few words how many groups have a promise of their own."""
        return f"{sum(map(sum, self.own))} overlapping groups"

    def has_promise(self, column: int, name: str) -> bool:
        """Return whether a group of a column has a promise of its own."""
        own = dict(zip(self.values[column], self.own[column], strict=True))
        return own.get(name, False)

    @property
    def _level(self) -> int:
        return self.levels.index(self.fallback.alpha)

    def _vectors(self, groups: Sequence[str]) -> Ints:
        """Return the place of each answer's vector of groups."""
        places: dict[str, int] = {}
        codes = [{name: code for code, name in enumerate(names)} for names in self.values]
        for key in set(groups):
            place = 0
            for part, code in zip(parted(key, len(codes)), codes, strict=True):
                place = place * (len(code) + 1) + code.get(str(part), len(code))
            places[key] = place
        return np.fromiter((places[key] for key in groups), np.int64, count=len(groups))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields; a threshold that flags everything is null."""
        content = Record.to_dict(self)
        content["thresholds"] = content.pop("thresholds_")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild it, and refuse what contradicts itself."""
        try:
            given = dict(content)
            rows = given.pop("thresholds")
            made = cls(
                columns=tuple(given.pop("columns")),
                values=tuple(map(tuple, given.pop("values"))),
                own=tuple(map(tuple, given.pop("own"))),
                counts=tuple(map(tuple, given.pop("counts"))),
                small=tuple(map(dict, given.pop("small"))),
                cuts=None if (cuts := given.pop("cuts")) is None else tuple(cuts),
                levels=tuple(given.pop("levels")),
                thresholds_=np.array(
                    [[-math.inf if cell is None else cell for cell in row] for row in rows], float
                ),
                covered=np.array(given.pop("covered"), bool),
                min_n=given.pop("min_n"),
                fallback=Calibration.from_dict(given.pop("fallback")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the calibration of the groups is damaged: {error}") from error
        if given:
            raise InputError(f"the calibration of the groups has an unknown field: {min(given)}")
        return made

    def __post_init__(self) -> None:
        vectors = math.prod(len(names) + 1 for names in self.values)
        like, table = self.fallback, self.thresholds_
        sound = (
            len(self.columns) == len(self.values) == len(self.small) == len(self.counts)
            and [*map(len, self.own)] == [*map(len, self.values)]
            and all(count < self.min_n for few in self.small for count in few.values())
            and table.shape == (vectors, len(self.levels))
            and self.covered.shape == (vectors,)
            and not np.isnan(table).any()
            and bool((table[:, 1:] >= table[:, :-1]).all())
            and tuple(sorted(set(self.levels))) == self.levels
            and like.alpha in self.levels
            and like.guarantee == "marginal"
            and self.min_n >= minimum_n(like.alpha, like.guarantee)
            and all(count >= self.min_n for counts in self.counts for count in counts)
            and all(
                sum(counts) + sum(few.values()) == like.n and len(counts) == len(names)
                for names, counts, few in zip(self.values, self.counts, self.small, strict=True)
            )
        )
        if not sound:
            raise InputError("the calibration of the groups contradicts itself; calibrate again")
        table.flags.writeable = self.covered.flags.writeable = False


def calibrate_overlapping(
    scores: ArrayLike, groups: Sequence[str], promise: Promise
) -> OverlappingCalibration:
    """Find the thresholds that keep a promise in every group of several columns at once.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    groups : sequence of str, length n
        The groups of each example, as ``calibrail.conformal.groups`` joins them.
    promise : Promise
        ``marginal``, with the columns in ``by``. A group below ``min_n``, or the least that the
        promise needs, is pooled with the other small ones of its column; where these together are
        too few, their answers are not covered.

    Raises
    ------
    TooFewExamplesError
        If all examples together are too few.
    InputError
        If an argument is outside its domain, or there are too many vectors of groups.

    Examples
    --------
    >>> keys = [f'["{model}","{topic}"]' for model in "ab" for topic in "xy" for _ in range(25)]
    >>> scores = [value + 100 * (key > '["b"') for key in keys for value in [float(len(key))]]
    >>> made = calibrate_overlapping(scores, keys, Promise(alpha=0.1, by=("model", "topic")))
    >>> made.thresholds(['["a","x"]', '["b","y"]', '["c","x"]']).tolist()
    [9.0, 109.0, 9.0]
    """
    values = _validation.scores(scores)
    _validation.paired(groups, len(values), "groups")
    if not isinstance(promise.by, tuple):
        raise InputError(f"by must name several columns; got {promise.by!r}")
    columns = promise.by
    fallback = calibrate_threshold(values, replace(promise, by=None, min_n=None))
    least = max(minimum_n(promise.alpha, promise.guarantee), promise.min_n or 0)
    named = [parted(key, len(columns)) for key in groups]
    members = [[row[column] or "" for row in named] for column in range(len(columns))]
    sizes = [Counter(names) for names in members]
    names = [tuple(sorted(name for name in size if size[name] >= least)) for size in sizes]
    n_vectors = math.prod(len(item) + 1 for item in names)
    if n_vectors > _MOST_VECTORS:
        raise InputError(
            f"{', '.join(columns)} have {n_vectors:,} combinations of groups, more than "
            f"{_MOST_VECTORS:,}; name fewer columns, or ask for larger groups "
            f"({spell_option(Promise, 'min_n')})"
        )
    fits = VectorFits(values, coded(members, names), least, promise)
    vectors = np.ndindex(*(len(item) + 1 for item in names))
    owning = set().union(*map(fits.prepare, vectors))
    covered = np.array([item is not None for item in fits.of])
    levels = tuple(sorted({*_LEVELS, fallback.alpha}))
    table = np.full((n_vectors, len(levels)), -math.inf)
    for number, level in enumerate(levels):
        one = _one_threshold(values, level, promise)
        for place in range(n_vectors):
            table[place, number] = fits.threshold(place, level) if covered[place] else one
    if promise.undefined == "pass" and (table[:, levels.index(fallback.alpha)] == -math.inf).any():
        raise InputError(
            "undefined must be 'flag' or 'review' where all answers of some groups are flagged for "
            "lack of examples; got 'pass', which would let undefined scores through"
        )
    # The lower of a level's and all higher ones': a p-value then says what a threshold decides.
    table = np.minimum.accumulate(table[:, ::-1], axis=1)[:, ::-1].copy()
    return OverlappingCalibration(
        columns,
        tuple(names),
        tuple(
            tuple((column, code) in owning for code in range(len(item)))
            for column, item in enumerate(names)
        ),
        tuple(tuple(size[name] for name in item) for size, item in zip(sizes, names, strict=True)),
        tuple({name: size[name] for name in sorted(size) if size[name] < least} for size in sizes),
        None,
        levels,
        table,
        covered,
        least,
        fallback,
    )


def _one_threshold(values: Floats, level: float, promise: Promise) -> float:
    """Return the threshold that serves all answers at another level."""
    try:
        return calibrate_threshold(
            values, Promise(level, undefined=promise.undefined, allow_flag_all=True)
        ).threshold
    except InputError:
        # It would be an undefined score: at this level nothing passes.
        return -math.inf
