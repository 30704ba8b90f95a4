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
- ``pac``: the median of the thresholds of many draws, each taken at delta / 2. It can only miss too
  much if at least half of them do, which has probability at most delta (Markov's inequality), on
  average over the draws' seed.

What is promised counts each question once: the miss rate is that of a hallucinated answer drawn
from a new question.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.pvalues import add_tolerance, count_at_most
from calibrail.conformal.rank import minimum_n, rank
from calibrail.conformal.threshold import Calibration, at_rank, calibrate_threshold
from calibrail.conformal.validation import Floats, Ints
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.promise import Promise, Undefined

#: Draws of one example per cluster that ``pac`` combines; odd, so that a median is one of them.
DRAWS: Final = 101


@dataclass(frozen=True, slots=True, eq=False)
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

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return the p-values of defined scores; no NaN is accepted.

        (1 + sum of the weights of the calibration scores <= S) / (K + 1). Under ``marginal``,
        ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        ladder = _ladder(self.clusters, len(self.scores), self.undefined)
        return np.asarray(ladder[count_at_most(self.scores, queries)])

    def naive(self) -> Calibration:
        """Return the calibration that takes all examples as independent, for comparison."""
        scores = np.append(self.scores, np.full(self.n_undefined, np.nan))
        return calibrate_threshold(scores, replace(self.promise, allow_flag_all=True))

    def one_per_cluster(self) -> Floats:
        """Return the score of one example of each cluster, drawn by a fixed lot: shape (K,).

        NaN where it is undefined. These are exchangeable with the scores of examples drawn one each
        from new clusters, however alike those of one cluster are: what a selection rests on, where
        p-values that are valid one by one do not suffice.
        """
        scores = np.append(self.scores, np.full(self.n_undefined, np.nan))
        order = np.random.default_rng(0).permutation(len(scores))
        return scores[order[np.unique(self.clusters[order], return_index=True)[1]]]

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        return cast(Self, calibrate_clusters(scores, content["clusters"], promise))


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
        As for ``calibrate_threshold``; no ``paper``.

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
    if guarantee == "paper":
        raise InputError("guarantee must be marginal or pac for clusters; got 'paper'")
    alpha, delta = float(promise.alpha), float(promise.delta)
    defined = np.sort(values[~np.isnan(values)])
    n_undefined = len(values) - len(defined)
    below = n_undefined if undefined == "pass" else 0
    order = np.lexsort((codes, values))
    numbers = np.unique(codes, return_inverse=True)[1].astype(np.int64)[order]
    total = int(numbers.max()) + 1 if len(numbers) else 0
    least = minimum_n(alpha, guarantee, delta if guarantee == "marginal" else delta / 2)
    if total < least and not promise.allow_flag_all:
        raise TooFewExamplesError(
            f"{len(values)} hallucinated calibration examples come from {total} groups, "
            f"too few for the {guarantee} guarantee at alpha = {alpha:g}: at least {least} "
            f"groups are needed. Label answers of {least - total} more groups, raise alpha, or "
            "allow flagging everything (allow_flag_all=True; as an option --allow-flag-all)",
            least,
        )
    if total < least:
        threshold, position = -math.inf, 0
    elif guarantee == "marginal":
        ladder = _ladder(numbers, len(defined), undefined)
        position = int(np.searchsorted(ladder, alpha, side="right")) + below
        threshold = at_rank(defined, position, n_undefined, undefined)
    else:
        far = -np.inf if undefined == "pass" else np.inf
        filled = np.append(defined, np.full(n_undefined, far))
        threshold = _median_threshold(filled, numbers, rank(total, alpha, "pac", delta / 2))
        if math.isinf(threshold):
            raise InputError(
                f"scores: {n_undefined} of {len(values)} are undefined, so the threshold would be "
                "one of them; use a score that is defined more often"
            )
        position = 1 + int(np.searchsorted(defined, threshold)) + below
    numbers.flags.writeable = False
    return ClusteredCalibration.build(
        defined, n_undefined, promise, position, threshold, clusters=numbers
    )


def _ladder(clusters: Ints, defined: int, undefined: Undefined) -> Floats:
    """Return the p-value by the number of defined calibration scores at or below, (d + 1,)."""
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0)
    weights = 1.0 / sizes[clusters]
    below = len(clusters) - defined if undefined == "pass" else 0
    # One running sum, undefined examples first where they count as lowest.
    running = np.cumsum(np.append(weights[defined:][:below], weights[:defined]))
    total = np.append(0.0, running)[below:]
    # A sum of fractions such as three thirds is one but for rounding: it is made whole again.
    whole = np.rint(total)
    total = np.where(np.abs(total - whole) < 1e-9, whole, total)
    return np.asarray((1.0 + total) / (len(sizes) + 1.0))


def _median_threshold(values: Floats, clusters: Ints, k: int) -> float:
    """Return the median over draws of the k-th smallest score of one example per cluster."""
    by_cluster = values[np.argsort(clusters, kind="stable")]
    sizes = np.bincount(clusters)
    starts = np.cumsum(sizes) - sizes
    rng = np.random.default_rng(0)
    thresholds = []
    for _ in range(DRAWS):
        chosen = by_cluster[starts + (rng.random(len(sizes)) * sizes).astype(np.int64)]
        thresholds.append(np.partition(chosen, k - 1)[k - 1])
    return float(np.median(thresholds))


def _codes(clusters: ArrayLike) -> Ints:
    try:
        codes = np.asarray(clusters)
    except ValueError as error:
        raise InputError(f"clusters must hold whole numbers; {error}") from error
    if codes.ndim != 1 or (len(codes) and codes.dtype.kind not in "iu"):
        raise InputError("clusters must hold whole numbers and have shape (n,)")
    return codes.astype(np.int64)
