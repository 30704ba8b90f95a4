"""Multi-group conformal (Gibbs, Cherian, Candes).

The threshold of a vector x of group indicators is the score S at which the new answer stops lying
below the quantile regression of all n + 1 answers, itself among them (Gibbs, Cherian and Candès,
"Conformal prediction with conditional guarantees", JRSS-B 2025). Its dual variable is alpha - 1 up
to there, so it is found with that variable fixed, by one linear program in which S does not occur:

    threshold = max x b  over the b that minimise  sum_i rho_alpha(s_i - x_i b) + (1 - alpha) x b.

scipy's HiGHS solves its dual; the scores whose dual variables lie between their bounds are those
through which the fit goes. Rounding only lowers a threshold.

Which groups have enough examples is asked of all n + 1 answers, so that asking does not spoil the
promise of ``overlapping``: for each vector of groups as if the new answer were one of the
calibration part. A column's small groups together are one group. Where even that has too few, no
score settles what its answers' threshold should be: those that also belong to a group with a
promise are flagged, since otherwise that group would miss more than alpha.

For a new hallucinated answer that is exchangeable with those of the calibration part, and every
group G that has its own indicator,

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

from calibrail.conformal import argument_checks, threshold
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.group_thresholds import joined, parted, spelt_as
from calibrail.conformal.threshold import Calibration, calibrate_threshold
from calibrail.errors import CalibrailError, InputError, errors_as
from calibrail.options.fields import spell_option
from calibrail.options.guarantee import Promise
from calibrail.serialization import Record

#: A threshold that is no score is lowered by this share of the scores' range: rounding never
#: passes an answer.
_SLACK: Final = 1e-9
#: By so much the new answer's dual variable lies above its lowest value: less than any difference
#: between sums of dual variables, which are multiples of alpha's last digit.
_ABOVE: Final = 1e-6
#: Presolving takes most of the time with a few equations and many variables.
_OPTIONS: Final[Any] = {
    "presolve": False,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-10,
}
#: What HiGHS says where the equations of the groups cannot be met.
_INFEASIBLE: Final = 2


class QuantileFit:
    """Fits of one set of scores by scipy's HiGHS.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Infinite ones lie above or below every fit.
    design : ndarray of int64, shape (n, d)
        0 or 1: which groups each score is in. A first column of ones is the group of all.
    """

    def __init__(self, scores: Floats, design: Ints) -> None:
        finite = np.isfinite(scores)
        self._scores, self._design = scores[finite], design[finite].astype(np.float64)
        self._above = design[scores == math.inf].sum(axis=0)
        self._below = design[scores == -math.inf].sum(axis=0)
        self._low = float(self._scores.min(initial=math.inf))
        self._range = float(self._scores.max(initial=-math.inf)) - self._low
        # Halves first: the range of finite scores may be no finite number.
        half = np.ptp(self._scores / 2.0) if finite.any() else 0.0
        self._cost = (self._low / 2.0 - self._scores / 2.0) / (half if half > 0.0 else 1.0)

    def threshold(self, member: Ints, alpha: Fraction) -> float:
        """Return the threshold of a new answer; ``-inf`` where its groups do not settle one.

        Parameters
        ----------
        member : ndarray of int64, shape (d,)
            0 or 1: which groups the new answer is in.
        alpha : Fraction
            Tolerated miss rate.
        """
        # Importing it takes longer than all else that a guardrail needs of scipy.
        from scipy.optimize import linprog
        from scipy.sparse import csc_array

        if not len(self._scores):
            return -math.inf
        share = float(alpha)
        # Of fits that are equally good, the highest one: the new answer's variable is a little
        # above its lowest value. Where alpha has too many digits to tell them apart, the lowest.
        above = min(_ABOVE, 1.0 / (64.0 * alpha.denominator))
        new = 1.0 - share - (above if above > _ABOVE / 100.0 else -_ABOVE)
        total = new * member - share * self._above + (1.0 - share) * self._below
        # A group's own variables add up to no more than that, whatever those of the others are.
        if np.any(total > share * self._design.sum(axis=0) + _ABOVE):
            return -math.inf
        # The types of scipy know dense equations only.
        sparse: Any = csc_array(self._design.T)
        solved: Any = linprog(
            self._cost,
            A_eq=sparse,
            b_eq=total,
            bounds=(share - 1.0, share),
            method="highs-ds",
            options=_OPTIONS,
        )
        if solved.status == _INFEASIBLE:
            return -math.inf
        if solved.status != 0:
            raise CalibrailError.on("groups_not_solved", solved=solved)
        between = (solved.x > share - 1.0 + _ABOVE / 2e3) & (solved.x < share - _ABOVE / 2e3)
        return self._lowered(between, member)

    def _lowered(self, between: Bools, member: Ints) -> float:
        """Return the value of the fit through scores, or the lowest that it cannot be told from."""
        weights = np.linalg.lstsq(self._design[between].T, member.astype(np.float64))[0]
        if not np.allclose(weights @ self._design[between], member, rtol=0.0, atol=1e-6):
            return -math.inf
        whole = np.rint(weights)
        weights = whole if np.allclose(weights, whole, rtol=0.0, atol=1e-6) else weights
        value = math.fsum((weights * self._scores[between]).tolist())
        lowest = value - _SLACK * self._range
        near = self._scores[(self._scores >= lowest) & (self._scores <= value)]
        return float(near.min()) + 0.0 if len(near) else lowest


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
        The regression and the indicators of each vector, in their order.
    """

    def __init__(self, values: Floats, codes: Ints, least: int, promise: Promise) -> None:
        missing = -math.inf if promise.undefined == "pass" else math.inf
        self._scores = np.where(np.isnan(values), missing, values)
        self._codes, self._least = codes, least
        self._fits: dict[bytes, QuantileFit] = {}
        self.of: list[tuple[QuantileFit, Ints]] = []

    def prepare(self, vector: tuple[int, ...]) -> set[tuple[int, int]]:
        """Add a vector, by number; return the columns and groups that have indicators of theirs.

        A group that is not known has the number after those that are, which no example has.
        """
        design, own = self._design(np.vstack([self._codes, vector]))
        key = design[:-1].tobytes()
        if key not in self._fits:
            self._fits[key] = QuantileFit(self._scores, design[:-1])
        self.of.append((self._fits[key], design[-1]))
        return own

    def threshold(self, place: int, level: float) -> float:
        """Return the threshold of a vector."""
        fit, member = self.of[place]
        return fit.threshold(member, Fraction(threshold.decimal(level)))

    def _design(self, whole: Ints) -> tuple[Ints, set[tuple[int, int]]]:
        """Return the indicators of all n + 1 answers, which are treated alike, and whose they are.

        The small groups of a column together are one.
        """
        columns = [np.ones(len(whole), dtype=np.int64)]
        own = set()
        for column, codes in enumerate(whole.T):
            seen, code, n = np.unique(codes, return_inverse=True, return_counts=True)
            large = n > self._least
            columns += [(code == item).astype(np.int64) for item in np.flatnonzero(large)]
            own |= {(column, number) for number in seen[large].tolist()}
            others = ~large[code]
            if others.any():
                columns.append(others.astype(np.int64))
        return np.column_stack(columns), own


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
        Which of ``values`` have a promise of their own: all of them, but in guardrails of before.
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
        Whether they have a group with a promise, or enough small ones together. The others are
        decided by the one threshold of all, and nothing is promised for them.
    min_n : int
        Fewest hallucinated examples of a group with a promise of its own.
    fallback : Calibration
        One threshold for all.
    named : bool
        As of `GroupedCalibration`.
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
    named: bool = False

    later = ("named",)

    def thresholds(self, groups: Sequence[str]) -> Floats:
        """Return each answer's threshold, shape (m,)."""
        return np.asarray(self.thresholds_[self._vectors(groups), self._level])

    def flags(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = argument_checks.vector(values, "values")
        nan = np.isnan(queries)
        known = threshold.add_tolerance(np.where(nan, 0.0, queries), tolerance)
        flagged = known >= self.thresholds(groups)
        # Where every score is flagged, a missing one is, too.
        everything = self.thresholds(groups)[nan] == -math.inf
        flagged[nan] = everything | (self.fallback.undefined != "pass")
        return flagged

    def p_value(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Floats:
        """Return the smallest of the levels from which on an answer is passed; 1 where none is.

        In every group with a promise of its own P(p <= u) <= u for a hallucinated answer. It is at
        most alpha where the answer is passed, and nowhere else.
        """
        queries = threshold.add_tolerance(argument_checks.defined(values, "values"), tolerance)
        reached = self.thresholds_[self._vectors(groups)] <= queries[:, np.newaxis]
        return np.asarray(np.array([*self.levels, 1.0])[reached.sum(axis=1)])

    def is_covered(self, groups: Sequence[str]) -> Bools:
        """Return for which answers the promise holds, shape (m,)."""
        return np.asarray(self.covered[self._vectors(groups)])

    def known(self, name: str) -> str:
        """Return the name of an answer's groups without those that were not calibrated on."""
        seen = zip(parted(name, len(self.columns)), self.values, self.small, strict=True)
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
        return dict(zip(self.values[column], self.own[column], strict=True)).get(name, False)

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
                place = place * (len(code) + 1) + code.get(spelt_as(str(part), code), len(code))
            places[key] = place
        return np.fromiter((places[key] for key in groups), np.int64, count=len(groups))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields; a threshold that flags everything is null."""
        content = Record.to_dict(self)
        content["thresholds"] = content.pop("thresholds_")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild it."""
        given = dict(content)
        with errors_as(InputError, (KeyError, TypeError, ValueError), "groups_damaged"):
            table, given["covered"] = given.pop("thresholds"), np.array(given["covered"], bool)
            rows = [[-math.inf if cell is None else cell for cell in row] for row in table]
            given["thresholds_"] = np.array(rows, float)
            return super(OverlappingCalibration, cls).from_dict(given)


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
        The groups of each example, as ``calibrail.conformal.group_thresholds`` joins them.
    promise : Promise
        ``marginal``, with the columns in ``by``. A group below ``min_n``, or the least that the
        promise needs, is pooled with the other small ones of its column; where these together are
        too few, their answers are flagged if they have a group with a promise.

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
    [9.0, 109.0, -inf]
    """
    values = argument_checks.scores(scores)
    argument_checks.paired(groups, len(values), "groups")
    if not isinstance(promise.by, tuple):
        raise InputError(f"by must name several columns; got {promise.by!r}")
    columns, promise = promise.by, promise.settled()
    fallback = calibrate_threshold(values, replace(promise, by=None, min_n=None))
    least = max(threshold.minimum_n(promise.alpha, promise.guarantee), promise.min_n or 0)
    named = [parted(key, len(columns)) for key in groups]
    members = [[row[column] or "" for row in named] for column in range(len(columns))]
    sizes = [Counter(names) for names in members]
    names = [tuple(sorted(name for name in size if size[name] >= least)) for size in sizes]
    n_vectors = math.prod(len(item) + 1 for item in names)
    if n_vectors > _MOST_VECTORS:
        of, option = ", ".join(columns), spell_option(Promise, "min_n")
        raise InputError.on("vectors_many", of=of, n=n_vectors, most=_MOST_VECTORS, option=option)
    fits = VectorFits(values, coded(members, names), least, promise)
    vectors = list(np.ndindex(*(len(item) + 1 for item in names)))
    owned = [fits.prepare(vector) for vector in vectors]
    owning = set().union(*owned)
    levels = tuple(sorted({*_LEVELS, fallback.alpha}))
    table = np.array([[fits.threshold(at, level) for level in levels] for at in range(n_vectors)])
    in_promised = [not own.isdisjoint(enumerate(v)) for own, v in zip(owned, vectors, strict=True)]
    # Among small groups alone, which have too few together, no group's promise is at stake.
    covered = in_promised | (table[:, levels.index(fallback.alpha)] > -math.inf)
    if not covered.all():
        table[~covered] = [_one_threshold(values, level, promise) for level in levels]
    # Make thresholds monotone in alpha, so that p <= alpha exactly where an answer passes.
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
        named=True,
    )


def _one_threshold(values: Floats, level: float, promise: Promise) -> float:
    """Return the threshold that serves all answers at another level."""
    try:
        other = Promise(level, undefined=promise.undefined, allow_flag_all=True)
        return calibrate_threshold(values, other).threshold
    except InputError:
        # It would be an undefined score: at this level nothing passes.
        return -math.inf
