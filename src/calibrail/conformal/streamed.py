"""Thresholds, bounds and p-values of scores that come in chunks, in constant memory.

Each class takes array after array with ``add`` and gives, in memory that does not grow with what
was added, exactly what its counterpart gives for all of them at once, whatever the chunks:

- ``ThresholdStream``: the threshold of ``calibrate_threshold``. The k-th smallest score is found
  among the k smallest, and k is known from how many scores there are at most.
- ``CountStream``: the ``Counts`` of a threshold, for ``certify_counts`` and ``joint_certificate``.
- ``BandStream``: ``simultaneous_band(...).at(thresholds)``, for thresholds known beforehand.
- ``PValueStream``: the p-values of any number of answers against one calibration.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import _validation
from calibrail.conformal._validation import Floats, Ints
from calibrail.conformal.bounds import METHODS, ClassCounts, Method, simultaneous_bounds
from calibrail.conformal.sequential.active import truth_values
from calibrail.conformal.threshold import (
    Calibration,
    RankTable,
    Threshold,
    add_tolerance,
    count_at_most,
    rank,
    threshold_of_lowest,
)
from calibrail.errors import InputError
from calibrail.options.fields import one_of
from calibrail.options.guarantee import Promise

#: Scores that are kept beyond the lowest before those that cannot matter are dropped.
_SPARE: Final = 2**16


class ThresholdStream:
    """Finds the threshold of scores that come in chunks.

    Parameters
    ----------
    promise : Promise
        As for ``calibrate_threshold``.
    at_most : int
        No more scores will be added: the rows of a file, say, hallucinated or not. Kept are up to
        twice as many scores as the rank would be for so many: with a copy in the end, about
        24 alpha ``at_most`` bytes.

    Examples
    --------
    >>> stream = ThresholdStream(Promise(alpha=0.4), at_most=10)
    >>> stream.add([0.2, 0.9])
    >>> stream.add([0.4, 0.7])
    >>> stream.threshold().threshold
    0.4
    """

    def __init__(self, promise: Promise, at_most: int) -> None:
        self._promise = promise
        self._at_most = _validation.whole(at_most, "at_most")
        self._most = rank(self._at_most, promise.alpha, promise.guarantee, promise.delta)
        # Pages of it that nothing is written to take no memory.
        self._kept: Floats = np.empty(min(2 * self._most + _SPARE, self._at_most))
        self._n_kept = self._n = self._n_undefined = 0
        self._bound = np.inf if self._most else -np.inf

    def add(self, scores: ArrayLike) -> None:
        """Take in the next scores of hallucinated calibration examples.

        Parameters
        ----------
        scores : array-like of float, shape (m,)
            Higher = more likely hallucinated; NaN where undefined.

        Raises
        ------
        InputError
            If they are not numbers, a score is infinite, or there are more than ``at_most``.
        """
        values = _validation.scores(scores)
        if self._n + len(values) > self._at_most:
            raise InputError(
                f"at_most must be at least the number of scores; got {self._at_most} for "
                f"{self._n + len(values)}"
            )
        self._n += len(values)
        self._n_undefined += int(np.count_nonzero(np.isnan(values)))
        low = values[values < self._bound]  # NaN is not below it either
        while len(low):
            free = self._kept[self._n_kept :]
            now, low = low[: len(free)], low[len(free) :]
            free[: len(now)] = now
            self._n_kept += len(now)
            if self._n_kept == len(self._kept):
                self._drop()
                low = low[low < self._bound]

    def threshold(self) -> Threshold:
        """Return what ``calibrate_threshold`` gives for all scores so far, but for the scores.

        Raises
        ------
        TooFewExamplesError, InputError
            As ``calibrate_threshold``.
        """
        self._drop()
        lowest = np.sort(self._kept[: self._n_kept])
        return threshold_of_lowest(lowest, self._n, self._n_undefined, self._promise)

    def _drop(self) -> None:
        """Keep the lowest only, as many as the rank may come to."""
        if self._n_kept > self._most > 0:
            self._kept[: self._n_kept].partition(self._most - 1)
            self._n_kept, self._bound = self._most, float(self._kept[self._most - 1])


class CountStream:
    """Counts what a threshold does on labelled answers that come in chunks.

    Parameters
    ----------
    threshold : Calibration or Threshold
        Its policy says how undefined scores count.
    tolerance : float
        Numerical tolerance of the score.

    Examples
    --------
    >>> stream = ThresholdStream(Promise(alpha=0.4), at_most=4)
    >>> stream.add([0.2, 0.9, 0.4, 0.7])
    >>> counting = CountStream(stream.threshold())
    >>> counting.add([0.3, 0.5, 0.6], hallucinated=[0, 1, 0])
    >>> counting.counts
    Counts(caught=1, n_hallucinated=1, false_alarms=1, n_faithful=2)
    """

    def __init__(self, threshold: Calibration | Threshold, tolerance: float = 0.0) -> None:
        self._threshold = threshold
        self._tolerance = _validation.tolerance(tolerance)
        self._counts = ClassCounts(0, 0, 0, 0)

    @property
    def counts(self) -> ClassCounts:
        """What the threshold did on all answers so far."""
        return self._counts

    def add(self, scores: ArrayLike, hallucinated: ArrayLike) -> None:
        """Take in the next answers.

        Parameters
        ----------
        scores : array-like of float, shape (m,)
            Higher = more likely hallucinated; NaN where undefined.
        hallucinated : array-like of bool, shape (m,)
            Their labels, as truth values or 1 and 0.
        """
        values = _validation.vector(scores, "scores")
        truth = truth_values(hallucinated, "hallucinated")
        _validation.paired(truth, len(values), "hallucinated")
        flagged = self._threshold.flags(values, self._tolerance)
        caught = int(np.count_nonzero(flagged & truth))
        positives, so_far = int(np.count_nonzero(truth)), self._counts
        self._counts = ClassCounts(
            so_far.caught + caught,
            so_far.n_hallucinated + positives,
            so_far.false_alarms + int(np.count_nonzero(flagged)) - caught,
            so_far.n_faithful + len(values) - positives,
        )


class BandStream:
    """Bounds the shares at or above thresholds, all at once, for scores that come in chunks.

    Parameters
    ----------
    thresholds : array-like of float, shape (d,)
        Where the band is asked for, in any order; no NaN.
    confidence : float
        That all bounds hold, also at thresholds that are not asked for.
    method : {"berk-jones", "dkw"}
        As for ``simultaneous_band``.

    Examples
    --------
    >>> stream = BandStream([5.0], confidence=0.95)
    >>> for chunk in np.split(np.arange(100.0), 4):
    ...     stream.add(chunk)
    >>> [round(float(x[0]), 3) for x in stream.bounds()]
    [0.95, 0.846, 0.992]
    """

    def __init__(
        self, thresholds: ArrayLike, confidence: float = 0.95, method: Method = "berk-jones"
    ) -> None:
        edges = _validation.defined(thresholds, "thresholds")
        self._edges, self._place = np.unique(edges, return_inverse=True)
        self._confidence = _validation.share(confidence, "confidence")
        self._method = one_of(method, METHODS, "method")
        #: How many scores reach exactly so many of the thresholds.
        self._reached = np.zeros(len(self._edges) + 1, dtype=np.int64)

    def add(self, scores: ArrayLike) -> None:
        """Take in the next independent scores of one class: finite, none is fine, too."""
        values = _validation.vector(scores, "scores")
        if len(values):
            reached = count_at_most(self._edges, _validation.finite(values))
            self._reached += np.bincount(reached, minlength=len(self._reached))

    def bounds(self) -> tuple[Floats, Floats, Floats]:
        """Return share, lower and upper bound at each threshold: ``SimultaneousBand.at``.

        Raises
        ------
        InputError
            If no score was added.
        """
        n = int(self._reached.sum())
        if not n:
            raise InputError("scores must hold at least one score, all finite")
        counts: Ints = (n - np.cumsum(self._reached)[:-1])[self._place]
        return counts / n, *simultaneous_bounds(counts, n, self._confidence, self._method)


class PValueStream:
    """Gives p-values of answers that come in chunks, against one calibration.

    What ``p_values`` makes of the calibration scores to look many values up is made once.

    Parameters
    ----------
    calibration : Calibration
        Of single answers: of clusters and audits, ``p_value`` itself gives them.

    Examples
    --------
    >>> from calibrail.conformal import calibrate_threshold
    >>> stream = PValueStream(calibrate_threshold([1.0, 2.0, 3.0], Promise(alpha=0.5)))
    >>> stream.p_value([0.0, 2.0]).tolist(), stream.p_value([9.0]).tolist()
    ([0.25, 0.75], [1.0])
    """

    def __init__(self, calibration: Calibration) -> None:
        if type(calibration) is not Calibration:
            raise InputError(
                "calibration must be what calibrate_threshold gives; got "
                f"{type(calibration).__name__}, whose own p_value takes chunks"
            )
        self._calibration = calibration
        self._table = RankTable(calibration.scores)

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return ``calibration.p_value(values, tolerance)``."""
        queries = add_tolerance(_validation.defined(values, "values"), tolerance)
        return self._calibration.p_value_of_counts(self._table.count(queries))
