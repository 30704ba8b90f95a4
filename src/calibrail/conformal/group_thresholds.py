"""Group names, thresholds by group, clusters.

Answers to one question are not independent, so calibrating on all of them as if they were is
heuristic: its error depends on how alike they are. Questions are independent.
Taking one answer per question makes the scores exchangeable again, and wastes the others where they
are many; so all draws are combined, or one is made where they are few:

- ``marginal``: the mean of the p-values over all draws, computed without drawing: each answer
    weighs 1 / (answers of its question). The mean of dependent p-values is in general valid only
    after doubling (Vovk and Wang, 2020). This one needs no doubling, since the new answer's place
    within its own question is exchangeable, too (Lee, Barber and Willett, 2023, "Distribution-free
    inference with
  hierarchical data").
- ``pac``: the rank of one answer of each question, drawn by lot, where questions have few answers
  (`_FEW`), else a bet against "the threshold misses more than alpha". A question of which the share
  X is missed multiplies the wealth by 1 + lambda (alpha - X). Where the true miss rate is alpha,
  this has a mean of 1, however alike the answers of one question are; so the wealth reaches 1 /
  delta with probability at most delta (Markov's inequality; Waudby-Smith and Ramdas, 2024,
  "Estimating means of bounded random variables by betting"). lambda is fixed by the number of
  questions. The wealth falls with every answer that is missed: so at the first threshold that
  misses too much it is at least that at any higher one, and the highest threshold at which it still
  stands at 1 / delta is the one sought.
  Which of the two is made depends on the numbers of answers alone, never on their scores, so that
  neither costs an error. With mostly one answer a question the lot raises fewer false alarms, with
  many answers the bet does, unless they are much alike.

What is promised counts each question once: the miss rate is that of a hallucinated answer drawn
from a new question.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Self, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from calibrail.conformal import argument_checks, threshold
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.errors import InputError, TooFewExamplesError, error_text, errors_as
from calibrail.formatting import count, listed
from calibrail.options.guarantee import Promise, Undefined
from calibrail.serialization import Record

#: Among several columns of groups: thirds of the answers' lengths, which no column holds.
LENGTH: Final = "length"
#: Names of the thirds, from short answers to long ones.
THIRDS: Final = ("short", "middle", "long")

#: The columns of a promise: one, or several whose groups overlap.
By = str | tuple[str, ...] | None


#: How true and false may be spelt, by words or numbers, today and in guardrails of before.
_FLAGS: Final = (("True", "true", "1", "1.0"), ("False", "false", "0", "0.0"))


def spelt_as(name: str, known: Collection[str]) -> str:
    """Return a group's name as it is known; that of true and false differs between formats.

    >>> spelt_as("True", {"0", "1"}), spelt_as("1.0", {"True"}), spelt_as("new", {"True"})
    ('1', 'True', 'new')
    """
    alike = next((flags for flags in _FLAGS if name in flags), ())
    return name if name in known else next((flag for flag in alike if flag in known), name)


def columns_of_groups(by: By) -> tuple[str, ...]:
    """Return the columns of the data that name an answer's groups.

    >>> columns_of_groups("topic"), columns_of_groups(("model", "length")), columns_of_groups(None)
    (('topic',), ('model',), ())
    """
    if isinstance(by, tuple):
        return tuple(name for name in by if name != LENGTH)
    return () if by is None else (by,)


def reads_length(by: By) -> bool:
    """Return whether groups are named by the length of the answer, so that its text is read."""
    return isinstance(by, tuple) and LENGTH in by


def spelled(by: By | list[str]) -> str:
    """Return what a reader is told of the columns.

    >>> spelled("topic"), spelled(("model", "topic", "length"))
    ('topic', 'model, topic and length')
    """
    return by or "" if by is None or isinstance(by, str) else listed(list(by))


def third(characters: float, cuts: Sequence[float]) -> str:
    """Return the third of the lengths that an answer is in.

    >>> third(90, (90, 200)), third(91, (90, 200)), third(201, (90, 200))
    ('short', 'middle', 'long')
    """
    return THIRDS[sum(characters > cut for cut in cuts)]


def group_key(
    by: By, names: Mapping[str, str], characters: float, cuts: Sequence[float] | None = None
) -> str:
    """Return the text that stands for all groups of an answer.

    Parameters
    ----------
    by : str or tuple of str
        The columns of the promise.
    names : mapping of str to str
        Its group by column; in one that is missing it is the group without a name.
    characters : float
        Length of the answer.
    cuts : sequence of float, optional
        Above which lengths the second and the last third begin.

    Examples
    --------
    >>> group_key("topic", {"topic": "law"}, 10), group_key("topic", {}, 10)
    ('law', '')
    >>> group_key(("topic", "length"), {"topic": "law"}, 10, (5, 20))
    '["law","middle"]'
    """
    if not isinstance(by, tuple):
        return names.get(str(by), "")
    names = {**names, LENGTH: third(characters, cuts or ())}
    return joined([names.get(name, "") for name in by])


def joined(parts: Sequence[str | None]) -> str:
    """Return one text for the groups of an answer, one a column; None is one nobody knows."""
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))


def parted(key: str, n: int) -> list[str | None]:
    """Return the groups that a text stands for; those of a text that names none are unknown.

    >>> parted('["law",null]', 2), parted("", 2)
    (['law', None], [None, None])
    """
    if not isinstance(key, str):
        raise InputError(f"groups must hold strings, one per score; got {key!r:.80}")
    if not key:
        return [None] * n
    try:
        parts = json.loads(key)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != n:
        raise InputError(f"groups must name one group a column, {n} in all; got {key!r:.80}")
    return [part if isinstance(part, str) else None for part in parts]


Scope = Literal["small groups", "all groups"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCalibration(Record):
    """One threshold per group, and a shared one for groups too small to have their own.

    Attributes
    ----------
    groups : mapping of str to Calibration
        The groups with a threshold of their own, by name.
    fallback : Calibration
        For every other group, also one never seen (for which nothing is promised).
    scope : {"small groups", "all groups"}
        What the fallback was made from. ``small groups``: the small ones together. ``all groups``:
        there were too few of those, so it comes from all examples. Either way nothing exact is
        promised for the answers that it decides: which groups are small depends on the data, and
        their mix in production may differ.
    small : mapping of str to int
        Hallucinated examples of each group below the minimum.
    min_n : int
        Fewest hallucinated examples for a threshold of a group's own.
    named : bool
        Whether groups have names; guardrails of before name what spells a number as that number.
    """

    groups: Mapping[str, threshold.Calibration]
    fallback: threshold.Calibration
    scope: Scope
    small: Mapping[str, int]
    min_n: int
    named: bool = False

    later = ("named",)

    def of(self, group: str) -> threshold.Calibration:
        """Return the calibration that decides for a group, seen or not."""
        return self.groups.get(spelt_as(group, {*self.groups, *self.small}), self.fallback)

    def known(self, name: str) -> str:
        """Return the name of a group that was calibrated on, small ones too; empty for others."""
        name = spelt_as(name, {*self.groups, *self.small})
        return name if name in self.groups or name in self.small else ""

    def deciding(self) -> dict[float, str]:
        """Return every threshold with the name of a group that it decides for."""
        named = {item.threshold: name for name, item in self.groups.items()}
        named.setdefault(self.fallback.threshold, "")
        return named

    @property
    def described(self) -> str:
        """Say in a few words how many groups have a threshold of their own."""
        return count(len(self.groups), "group")

    @property
    def flag_all(self) -> bool:
        """Whether nothing can ever pass."""
        return self.fallback.flag_all and not self.groups

    def thresholds(self, groups: Sequence[str]) -> Floats:
        """Return each answer's threshold, shape (m,)."""
        return np.array([self.of(group).threshold for group in groups], dtype=np.float64)

    def flags(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = _paired(values, groups)
        result = np.zeros(len(queries), dtype=bool)
        for name, members in _members(groups).items():
            result[members] = self.of(name).flags(queries[members], tolerance)
        return result

    def p_value(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Floats:
        """Return Mondrian p-values: each answer among the hallucinations of its own group."""
        queries = _paired(values, groups)
        result = np.ones(len(queries))
        for name, members in _members(groups).items():
            result[members] = self.of(name).p_value(queries[members], tolerance)
        return result


def calibrate_groups(
    scores: ArrayLike, groups: Sequence[str], promise: Promise, *, together: bool = False
) -> GroupedCalibration:
    """Find one threshold per group from hallucinated examples (Mondrian; Vovk et al., 2005).

    Within each group that has its own threshold the promise then holds for examples to come that
    are exchangeable with its own, independent under ``pac``: P(miss | group) <= alpha under
    ``marginal``; under ``pac`` each group's threshold keeps it with probability 1 - delta, so all G
    of them together with at least 1 - G delta, or, where it is asked for, with 1 - delta. A shared
    threshold keeps it only on average, and may fail in one group while it is too strict in another.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    groups : sequence of str, length n
        Group of each example: a topic, a source, a model. Known for every future answer too.
    promise : Promise
        As for ``calibrate_threshold``; the fallback alone may flag everything. A ``min_n`` below
        the least that the promise needs is raised to it.
    together : bool
        Under ``pac``: each of the G groups errs with delta / G. How many there are follows from
        their sizes alone.

    Raises
    ------
    TooFewExamplesError
        If no group, nor all of them together, has enough examples.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> scores = [*range(30), *range(100, 130), 5]
    >>> grouped = calibrate_groups(scores, ["a"] * 30 + ["b"] * 30 + ["c"], Promise(alpha=0.1))
    >>> {name: item.threshold for name, item in grouped.groups.items()}
    {'a': 2.0, 'b': 102.0}
    >>> grouped.scope, dict(grouped.small), grouped.fallback.threshold
    ('all groups', {'c': 1}, 5.0)
    """
    promise = promise.settled()
    values, members = _paired(scores, groups), _members(groups)
    least, n_large = 0, 1
    for part in range(1, len(members) + 1) if together else (1,):
        least = threshold.minimum_n(promise.alpha, promise.guarantee, promise.delta / part)
        least = max(least, promise.min_n or 0)
        n_large = sum(len(rows) >= least for rows in members.values())
        if n_large <= part:
            break
    own = replace(promise, delta=promise.delta / max(1, n_large)) if together else promise
    large, small = {}, {}
    for name in sorted(members):
        rows = members[name]
        if len(rows) >= least:
            with errors_as(InputError, InputError, "of_group", name=name):
                large[name] = threshold.calibrate_threshold(values[rows], own)
        else:
            small[name] = len(rows)
    rest = np.concatenate([values[members[name]] for name in small]) if small else values[:0]
    enough = len(rest) >= least
    fallback = threshold.calibrate_threshold(rest if enough else values, promise)
    return GroupedCalibration(
        large, fallback, "small groups" if enough else "all groups", small, least, named=True
    )


def _paired(values: ArrayLike, groups: Sequence[str]) -> Floats:
    array = argument_checks.vector(values, "scores")
    if isinstance(groups, str):
        raise InputError("groups must hold strings, one per score; got one string")
    argument_checks.paired(groups, len(array), "groups")
    return array


def _members(groups: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return the positions of each group's members, ascending."""
    if not all(issubclass(kind, str) for kind in set(map(type, groups))):
        raise InputError("groups must hold strings, one per score")
    members: dict[str, list[int]] = {}
    for place, name in enumerate(groups):
        members.setdefault(name, []).append(place)
    return {name: np.array(places, np.intp) for name, places in members.items()}


#: Questions have few answers where 1 / (answers of a question) is more than this on average.
_FEW: Final = 0.25
#: Variance of a question's share of missed answers, relative to that of a single answer, for which
#: the bet is best. A wrong guess costs sharpness, never the promise; taken from the data it would.
_SPREAD: Final = 0.6
#: Share of the largest bet that leaves something whatever happens: more would end at the first
#: question that is missed as a whole.
_LARGEST: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClusteredCalibration(threshold.Calibration):
    """A threshold from clustered examples, each cluster counting once.

    ``n`` and ``rank`` count examples, as in ``Calibration``.

    Attributes
    ----------
    clusters : ndarray of int64, shape (n,)
        Cluster of each example, 0 to K - 1: of the defined scores in ascending order, then of the
        undefined ones.
    by_lot : bool
        Under ``pac``, whether the threshold is the rank of one example of each cluster.
    """

    clusters: Ints = field(kw_only=True)
    by_lot: bool = field(default=False, kw_only=True)

    counted: ClassVar[str] = "groups"
    later = ("by_lot",)

    @property
    def n_clusters(self) -> int:
        """Number K of independent clusters."""
        return int(self.clusters.max()) + 1 if len(self.clusters) else 0

    @property
    def share_below(self) -> float:
        """Share of the answers of a new cluster that lies below the threshold, on average."""
        missed = _missed_in_turn(self.clusters, len(self.scores), self.undefined)
        weights = 1.0 / np.bincount(self.clusters)[missed[: max(0, self.rank - 1)]]
        return float((min(1, self.rank) + weights.sum()) / (self.n_clusters + 1.0))

    @property
    def promise(self) -> Promise:
        """What the threshold was calibrated for."""
        return replace(super(ClusteredCalibration, self).promise, clustered=True)

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return the p-values of defined scores; no NaN is accepted.

        (1 + sum of the weights of the calibration scores <= S) / (K + 1). Under ``marginal``,
        ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = threshold.add_tolerance(argument_checks.defined(values, "values"), tolerance)
        ladder = _LADDERS.get(self)
        if ladder is None:
            ladder = _ladder(self.clusters, len(self.scores), self.undefined)
            _LADDERS[self] = ladder
        return np.asarray(ladder[threshold.count_at_most(self.scores, queries)])

    def least_alpha(self, below: int) -> float:
        """Return the smallest alpha at which so many examples may lie below the threshold."""
        sizes = np.bincount(self.clusters)
        missed = _missed_in_turn(self.clusters, len(self.scores), self.undefined)[:below]
        if self.guarantee == "marginal":
            return float((1.0 + np.sum(1.0 / sizes[missed])) / (len(sizes) + 1.0))
        assert self.delta is not None
        if self.by_lot:
            turn = _missed_in_turn(np.arange(self.n), len(self.scores), self.undefined)
            below = int(np.isin(turn[:below], self._drawn()).sum())
            return float(betaincinv(below + 1, len(sizes) - below, 1.0 - self.delta))
        delta, goal = self.delta, -math.log(self.delta)
        return threshold.turning_point(
            lambda alpha: not _log_wealth(sizes, missed, alpha, delta)[-1] >= goal, 40
        )[1]

    def one_per_cluster(self) -> Floats:
        """Return the score of one example of each cluster, drawn by a fixed lot: shape (K,).

        NaN where it is undefined. These are exchangeable with the scores of examples drawn one each
        from new clusters, however alike those of one cluster are: what a selection rests on, where
        p-values that are valid one by one do not suffice. The lot picks a place in an order that
        scatters a cluster's scores: their own would tie the draw to ranks among all clusters.
        """
        return self._all_scores[self._drawn()]

    @property
    def _all_scores(self) -> Floats:
        return np.append(self.scores, np.full(self.n_undefined, np.nan))

    def _drawn(self) -> Ints:
        """Return the place of one example of each cluster."""
        return _drawn(self._all_scores, self.clusters)

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        by_lot = content.get("by_lot", False) is True
        return cast(Self, _calibrate_clusters(scores, content["clusters"], promise, by_lot))


#: The p-values of each calibration in use: as many as it has scores, so they are computed once, not
#: for each answer.
_LADDERS: Final[WeakKeyDictionary[ClusteredCalibration, Floats]] = WeakKeyDictionary()


def calibrate_clusters(
    scores: ArrayLike, clusters: ArrayLike, promise: Promise
) -> ClusteredCalibration:
    """Find the highest threshold that keeps the promise for an answer from a new cluster.

    Clusters are independent of each other, and the new one is like these: with as many answers by
    chance, that hang together likewise.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    clusters : array-like of int, shape (n,)
        What an example shares with others (its question, its source); any whole numbers.
    promise : Promise
        As for ``calibrate_threshold``; ``marginal`` or ``pac``.

    Raises
    ------
    TooFewExamplesError
        If there are too few clusters for any threshold; names the minimum.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    Ten questions; one of them has 50 answers, all with low scores. They count as one:

    >>> from calibrail.conformal import calibrate_threshold
    >>> scores = [0.0] * 50 + [1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> clusters = [0] * 50 + [1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> calibrate_clusters(scores, clusters, Promise(alpha=0.2)).threshold
    1.0
    >>> calibrate_threshold(scores, Promise(alpha=0.2)).threshold
    0.0
    """
    return _calibrate_clusters(scores, clusters, promise.settled())


def _calibrate_clusters(
    scores: ArrayLike, clusters: ArrayLike, promise: Promise, by_lot: bool | None = None
) -> ClusteredCalibration:
    """Calibrate, under ``pac`` by the lot or by the bet; left out, the numbers of answers say."""
    values, codes = argument_checks.scores(scores), _codes(clusters)
    argument_checks.paired(codes, len(values), "clusters")
    guarantee, undefined = promise.guarantee, promise.undefined
    if guarantee not in ("marginal", "pac"):
        raise InputError(f"guarantee must be marginal or pac for clusters; got {guarantee!r}")
    alpha, delta = float(promise.alpha), float(promise.delta)
    defined = np.sort(values[~np.isnan(values)])
    n_undefined = len(values) - len(defined)
    below = n_undefined if undefined == "pass" else 0
    order = np.lexsort((codes, values))
    numbers = np.unique(codes, return_inverse=True)[1].astype(np.int64)[order]
    total = int(numbers.max()) + 1 if len(numbers) else 0
    least = threshold.minimum_n(alpha, guarantee, delta)
    if total < least and not promise.allow_flag_all:
        n, others = len(values), threshold.other_ways(total, promise)
        text = error_text("groups_few", n=n, total=total, of=promise, least=least, others=others)
        raise TooFewExamplesError(text, least, total, "groups")
    position, sizes = 0, np.bincount(numbers)
    if by_lot is None:
        by_lot = guarantee == "pac" and total >= least and float(np.mean(1.0 / sizes)) > _FEW
    if by_lot:
        every = np.append(defined, np.full(n_undefined, np.nan))
        one = threshold.calibrate_threshold(every[_drawn(every, numbers)], promise)
        position = int(np.searchsorted(defined, one.threshold)) + 1 + below
    elif total >= least and guarantee == "marginal":
        ladder = _ladder(numbers, len(defined), undefined)
        position = int(np.searchsorted(ladder, alpha, side="right")) + below
    elif total >= least:
        missed = _missed_in_turn(numbers, len(defined), undefined)
        log_wealth = _log_wealth(sizes, missed, alpha, delta)
        # The wealth falls: the last of its steps that still suffices.
        position = int(np.sum(log_wealth >= math.log(1.0 / delta) - 1e-12))
    lowest = -math.inf
    if total >= least:
        lowest = threshold.at_rank(defined, position, n_undefined, undefined)
    return ClusteredCalibration.build(
        defined, n_undefined, promise, position, lowest, clusters=numbers, by_lot=by_lot
    )


def _drawn(scores: Floats, clusters: Ints) -> Ints:
    """Return the place of one score of each cluster, drawn as `one_per_cluster` says."""
    # Minus zero is zero.
    lots = _scattered((scores + 0.0).view(np.uint64), clusters)
    order = np.lexsort((lots, clusters))
    sizes = np.bincount(clusters)
    first = np.cumsum(sizes) - sizes
    # A lot of the whole cluster: the lowest alone would not favour a score that is there twice.
    whole = _scattered(np.add.reduceat(lots[order], first), np.arange(len(sizes)))
    place = (whole % sizes.astype(np.uint64)).astype(np.int64)
    return np.asarray(order[first + place])


def _scattered(bits: NDArray[np.uint64], clusters: Ints) -> NDArray[np.uint64]:
    """Return numbers that tell bits and clusters apart, in an order that has nothing to do with it.

    The finalizer of SplitMix64 (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number
    generators").
    """
    mixed = clusters.astype(np.uint64)
    for word in (np.uint64(0), bits):
        mixed = (mixed ^ word) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _missed_in_turn(clusters: Ints, defined: int, undefined: Undefined) -> Ints:
    """Return the clusters of the examples in the order in which a rising threshold misses them."""
    if undefined != "pass":
        return clusters[:defined]
    return np.append(clusters[defined:], clusters[:defined])


def _ladder(clusters: Ints, defined: int, undefined: Undefined) -> Floats:
    """Return the p-value by the number of defined calibration scores at or below, (d + 1,)."""
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0)
    below = len(clusters) - defined if undefined == "pass" else 0
    weights = 1.0 / sizes[_missed_in_turn(clusters, defined, undefined)]
    total = np.append(0.0, np.cumsum(weights))[below:]
    # A sum of fractions such as three thirds is one but for rounding: it is made whole again.
    whole = np.rint(total)
    total = np.where(np.abs(total - whole) < 1e-9, whole, total)
    return np.asarray((1.0 + total) / (len(sizes) + 1.0))


def _log_wealth(sizes: Ints, missed: Ints, alpha: float, delta: float) -> Floats:
    """Return the logarithm of the wealth after the first 0, 1, ... examples are missed.

    Parameters
    ----------
    sizes : ndarray of int64, shape (K,)
        Examples of each cluster.
    missed : ndarray of int64, shape (m,)
        Clusters of the examples, in the order in which they are missed.
    """
    k, enough = len(sizes), math.log(1.0 / delta)
    whole = 1.0 / (1.0 - alpha)
    best = math.sqrt(2.0 * enough / (k * _SPREAD * alpha * (1.0 - alpha)))
    bets = (min(best, _LARGEST * whole), _LARGEST * whole)
    # With few clusters only the whole stake can win at all.
    bet = next((bet for bet in bets if k * math.log1p(bet * alpha) >= enough), whole)
    # How many of its cluster are missed before an example: its place among them.
    order = np.argsort(missed, kind="stable")
    counts = np.bincount(missed, minlength=k)
    place = np.empty(len(missed), np.int64)
    place[order] = np.arange(len(missed)) - np.repeat(np.cumsum(counts) - counts, counts)
    with np.errstate(divide="ignore"):
        before, after = (
            np.log(np.maximum(0.0, 1.0 + bet * (alpha - (place + step) / sizes[missed])))
            for step in (0, 1)
        )
    steps = np.where(np.isneginf(after), -np.inf, after - np.where(np.isneginf(before), 0, before))
    return np.append(0.0, np.cumsum(steps)) + k * math.log1p(bet * alpha)


def _codes(clusters: ArrayLike) -> Ints:
    codes = np.asarray(clusters)
    if codes.ndim != 1 or (len(codes) and codes.dtype.kind not in "iu"):
        raise InputError("clusters must hold whole numbers and have shape (n,)")
    return codes.astype(np.int64)
