"""Which threshold keeps the promise when several answers belong to one question?

Answers to one question are not independent, so calibrating on all of them as if they were is
heuristic ("naive" below): its error depends on how alike they are. Questions are independent.
Taking one answer per question makes the scores exchangeable again, but wastes the others and
depends on the draw; so all draws are combined:

- ``marginal``: the mean of the p-values over all draws, computed without drawing: each answer
    weighs 1 / (answers of its question). The mean of dependent p-values is in general valid only
    after doubling (Vovk and Wang, 2020). This one needs no doubling, since the new answer's place
    within its own question is exchangeable, too (Lee, Barber and Willett, 2023, "Distribution-free
    inference with
  hierarchical data").
- ``pac``: a bet against "the threshold misses more than alpha". A question of which the share X is
  missed multiplies the wealth by 1 + lambda (alpha - X). Where the true miss rate is alpha, this
  has a mean of 1, however alike the answers of one question are; so the wealth reaches 1 / delta
  with probability at most delta (Markov's inequality; Waudby-Smith and Ramdas, 2024, "Estimating
  means of bounded random variables by betting"). lambda is fixed by the number of
  questions. The wealth falls with every answer that is missed: so at the first threshold that
  misses too much it is at least that at any higher one, and the highest threshold at which it still
  stands at 1 / delta is the one sought.

What is promised counts each question once: the miss rate is that of a hallucinated answer drawn
from a new question.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.pvalues import add_tolerance, count_at_most
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, at_rank, calibrate_threshold
from calibrail.conformal.validation import Floats, Ints
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.option import option_of
from calibrail.settings.promise import Promise, Undefined

#: Variance of a question's share of missed answers, relative to that of a single answer, for which
#: the bet is best. A wrong guess costs sharpness, never the promise; taken from the data it would.
_SPREAD: Final = 0.6
#: Share of the largest bet that leaves something whatever happens: more would end at the first
#: question that is missed as a whole.
_LARGEST: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClusteredCalibration(Calibration):
    """A threshold from clustered examples, each cluster counting once.

    ``n`` and ``rank`` count examples, as in ``Calibration``.

    Attributes
    ----------
    clusters : ndarray of int64, shape (n,)
        Cluster of each example, 0 to K - 1: of the defined scores in ascending order, then of the
        undefined ones.
    """

    clusters: Ints = field(kw_only=True)

    counted: ClassVar[str] = "groups"

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
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        ladder = _LADDERS.get(self)
        if ladder is None:
            ladder = _ladder(self.clusters, len(self.scores), self.undefined)
            _LADDERS[self] = ladder
        return np.asarray(ladder[count_at_most(self.scores, queries)])

    def least_alpha(self, below: int) -> float:
        """Return the smallest alpha at which so many examples may lie below the threshold."""
        sizes = np.bincount(self.clusters)
        missed = _missed_in_turn(self.clusters, len(self.scores), self.undefined)[:below]
        if self.guarantee == "marginal":
            return float((1.0 + np.sum(1.0 / sizes[missed])) / (len(sizes) + 1.0))
        assert self.delta is not None
        low, high = 0.0, 1.0
        for _ in range(40):
            alpha = (low + high) / 2.0
            enough = _log_wealth(sizes, missed, alpha, self.delta)[-1] >= -math.log(self.delta)
            low, high = (low, alpha) if enough else (alpha, high)
        return high

    def naive(self) -> Calibration:
        """Return the calibration that takes all examples as independent, for comparison."""
        scores = np.append(self.scores, np.full(self.n_undefined, np.nan))
        return calibrate_threshold(scores, replace(self.promise, allow_flag_all=True))

    def one_per_cluster(self) -> Floats:
        """Return the score of one example of each cluster, drawn by a fixed lot: shape (K,).

        NaN where it is undefined. These are exchangeable with the scores of examples drawn one each
        from new clusters, however alike those of one cluster are: what a selection rests on, where
        p-values that are valid one by one do not suffice. The lot picks a place in an order that
        scatters a cluster's scores: their own would tie the draw to ranks among all clusters.
        """
        scores = np.append(self.scores, np.full(self.n_undefined, np.nan))
        # Minus zero is zero.
        lots = _scattered((scores + 0.0).view(np.uint64), self.clusters)
        order = np.lexsort((lots, self.clusters))
        sizes = np.bincount(self.clusters)
        first = np.cumsum(sizes) - sizes
        # A lot of the whole cluster: the lowest alone would not favour a score that is there twice.
        whole = _scattered(np.add.reduceat(lots[order], first), np.arange(len(sizes)))
        place = (whole % sizes.astype(np.uint64)).astype(np.int64)
        drawn: Floats = scores[order[first + place]]
        return drawn

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        return cast(Self, calibrate_clusters(scores, content["clusters"], promise))


#: The p-values of each calibration in use: as many as it has scores, so they are computed once, not
#: for each answer.
_LADDERS: Final[WeakKeyDictionary[ClusteredCalibration, Floats]] = WeakKeyDictionary()


def calibrate_clusters(
    scores: ArrayLike, clusters: ArrayLike, promise: Promise
) -> ClusteredCalibration:
    """Find the highest threshold that keeps the promise for an answer from a new cluster.

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

    >>> scores = [0.0] * 50 + [1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> clusters = [0] * 50 + [1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> calibrate_clusters(scores, clusters, Promise(alpha=0.2)).threshold
    1.0
    >>> calibrate_threshold(scores, Promise(alpha=0.2)).threshold
    0.0
    """
    values, codes = validation.scores(scores), _codes(clusters)
    validation.paired(codes, len(values), "clusters")
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
    least = minimum_n(alpha, guarantee, delta)
    if total < least and not promise.allow_flag_all:
        raise TooFewExamplesError(
            f"{len(values)} hallucinated calibration examples come from {total} groups, "
            f"too few for the {guarantee} guarantee at alpha = {alpha:g}: at least {least} "
            f"groups are needed. Label answers of {least - total} more groups, raise alpha, or "
            f"allow flagging everything ({option_of(Promise, 'allow_flag_all', True)})",
            least,
        )
    if total < least:
        threshold, position = -math.inf, 0
    elif guarantee == "marginal":
        ladder = _ladder(numbers, len(defined), undefined)
        position = int(np.searchsorted(ladder, alpha, side="right")) + below
        threshold = at_rank(defined, position, n_undefined, undefined)
    else:
        missed = _missed_in_turn(numbers, len(defined), undefined)
        log_wealth = _log_wealth(np.bincount(numbers), missed, alpha, delta)
        # The wealth falls: the last of its steps that still suffices.
        position = int(np.sum(log_wealth >= math.log(1.0 / delta) - 1e-12))
        threshold = at_rank(defined, position, n_undefined, undefined)
    numbers.flags.writeable = False
    return ClusteredCalibration.build(
        defined, n_undefined, promise, position, threshold, clusters=numbers
    )


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
    try:
        codes = np.asarray(clusters)
    except ValueError as error:
        raise InputError(f"clusters must hold whole numbers; {error}") from error
    if codes.ndim != 1 or (len(codes) and codes.dtype.kind not in "iu"):
        raise InputError("clusters must hold whole numbers and have shape (n,)")
    return codes.astype(np.int64)
