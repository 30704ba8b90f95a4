"""Which threshold catches the stated share of hallucinations?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.lookup import count_at_most
from calibrail.conformal.pvalues import add_tolerance, from_counts
from calibrail.conformal.rank import minimum_n, rank
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.record import Record
from calibrail.settings.promise import Guarantee, Promise, Undefined


@dataclass(frozen=True, slots=True, eq=False)
class Calibration(Record):
    """A threshold with its promise and the scores that it came from.

    Attributes
    ----------
    threshold : float
        A response is flagged when ``score + tolerance >= threshold``. ``-inf`` flags everything.
    rank : int
        1-based rank of the threshold among the calibration scores; 0 with ``flag_all``.
    n : int
        Hallucinated calibration examples, those with an undefined score included.
    alpha : float
        Tolerated miss rate.
    guarantee : {"marginal", "pac", "paper"}
        What is promised; see ``calibrail.conformal.rank``.
    delta : float or None
        Error probability of ``pac``.
    n_undefined : int
        Calibration examples without a score.
    undefined : {"flag", "review", "pass"}
        How they count: as caught (above every score) or, under ``pass``, as missed (below).
    flag_all : bool
        There were too few examples, and flagging everything was accepted; in JSON the threshold is
        null then.
    scores : ndarray of float64, shape (n - n_undefined,)
        Defined calibration scores, sorted ascending, read-only.
    """

    threshold: float
    rank: int
    n: int
    alpha: float
    guarantee: Guarantee
    delta: float | None
    n_undefined: int
    undefined: Undefined
    flag_all: bool
    scores: NDArray[np.float64]

    def flags(self, values: ArrayLike, tolerance: float = 0.0) -> NDArray[np.bool_]:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = validation.vector(values, "values")
        nan = np.isnan(queries)
        flagged = flags(queries[~nan], self.threshold, tolerance)
        result = np.full(queries.shape, self.undefined != "pass")
        result[~nan] = flagged
        return result

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> NDArray[np.float64]:
        """Return the conformal p-values of defined scores; no NaN is accepted.

        Under ``marginal``, ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        below = self.n_undefined if self.undefined == "pass" else 0
        return from_counts(count_at_most(self.scores, queries), below, self.n)

    @property
    def promise(self) -> Promise:
        """What the threshold was calibrated for; another ``delta`` than 0.1 under ``pac`` alone."""
        delta = 0.1 if self.delta is None else self.delta
        return Promise(self.alpha, self.guarantee, delta, self.undefined, self.flag_all)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild a calibration from its scores, and refuse one that contradicts itself.

        Raises
        ------
        InputError
            If a field is missing, or the threshold is not the score that the rank names.
        """
        try:
            defined = validation.vector(content["scores"], "scores")
            n_undefined = validation.whole(content["n_undefined"], "n_undefined")
            promise = Promise(
                content["alpha"],
                content["guarantee"],
                content["delta"] if content["guarantee"] == "pac" else 0.1,
                content["undefined"],
                content["flag_all"] is True,
            )
            again = cls._again(
                np.concatenate([defined, np.full(n_undefined, np.nan)]), promise, content
            )
            expected = again.to_dict()
            different = [key for key in expected if content[key] != expected[key]]
        except KeyError as error:
            raise InputError(f"the calibration lacks the field {error}") from error
        except TypeError as error:
            raise InputError(f"the calibration is damaged: {error}") from error
        if "scores" in different:
            raise InputError("scores must be sorted ascending and hold no NaN; calibrate again")
        for key in different:
            raise InputError(
                f"the calibration contradicts itself: its scores give {key} = {expected[key]}, "
                f"it says {content[key]}; calibrate again"
            )
        return again

    @classmethod
    def _again(
        cls, scores: NDArray[np.float64], promise: Promise, content: Mapping[str, Any]
    ) -> Self:
        """Calibrate on the scores that a saved calibration holds."""
        return cast(Self, calibrate_threshold(scores, promise))


def calibrate_threshold(scores: ArrayLike, promise: Promise) -> Calibration:
    """Find the highest threshold that keeps the promise, from hallucinated examples alone.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    promise : Promise
        Tolerated miss rate, guarantee (see ``calibrail.conformal.rank``) and policy for undefined
        scores. With ``allow_flag_all`` the threshold is ``-inf`` where no other keeps the promise.

    Raises
    ------
    TooFewExamplesError
        If there are too few examples for any threshold; names the minimum.
    InputError
        If the scores are not numbers, or so many are undefined that the threshold would be one of
        them.

    Examples
    --------
    >>> calibration = calibrate_threshold([0.2, 0.9, 0.4, 0.7], Promise(alpha=0.4))
    >>> calibration.rank, calibration.threshold
    (2, 0.4)
    >>> calibration.flags([0.3, 0.4]).tolist()
    [False, True]
    """
    # NaN sorts to the end, so the checks need no further pass over the array.
    ordered = np.sort(validation.vector(scores, "scores"))
    n, alpha = len(ordered), validation.share(promise.alpha, "alpha")
    defined = ordered[: int(np.searchsorted(ordered, np.nan))]
    if len(defined) and (math.isinf(defined[0]) or math.isinf(defined[-1])):
        raise InputError("scores must be finite, NaN where undefined; got an infinite score")
    n_undefined = n - len(defined)
    k = rank(n, alpha, promise.guarantee, promise.delta)
    if k == 0 and not promise.allow_flag_all:
        raise _too_few(n, promise)
    if k == 0 and promise.undefined == "pass":
        raise InputError(
            "undefined must be 'flag' or 'review' where everything is flagged for lack of "
            "examples; got 'pass', which would let undefined scores through"
        )
    defined.flags.writeable = False
    return Calibration(
        threshold=-math.inf if k == 0 else at_rank(defined, k, n_undefined, promise.undefined),
        rank=k,
        n=n,
        alpha=alpha,
        guarantee=promise.guarantee,
        delta=float(promise.delta) if promise.guarantee == "pac" else None,
        n_undefined=n_undefined,
        undefined=promise.undefined,
        flag_all=k == 0,
        scores=defined,
    )


def flags(values: ArrayLike, threshold: float, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Return ``values + tolerance >= threshold``.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        Scores, higher = more likely hallucinated; no NaN.
    threshold : float
        Flagged at or above it; ``-inf`` flags everything.
    tolerance : float
        Near-ties this far below the threshold are flagged too.
    """
    queries = validation.defined(values, "values")
    edge = validation.number(threshold, "threshold")
    if math.isnan(edge):
        raise InputError("threshold must be a number; got nan")
    result: NDArray[np.bool_] = add_tolerance(queries, tolerance) >= edge
    return result


def at_rank(defined: NDArray[np.float64], k: int, n_undefined: int, undefined: Undefined) -> float:
    """Return the k-th smallest score, undefined ones included at the end where they count."""
    position = k - 1 - (n_undefined if undefined == "pass" else 0)
    if 0 <= position < len(defined):
        return float(defined[position])
    total = len(defined) + n_undefined
    if undefined == "pass":
        raise InputError(
            f"scores: {n_undefined} of {total} are undefined and would be passed, more than alpha "
            "allows to miss; use undefined='flag', or a score that is defined more often"
        )
    raise InputError(
        f"scores: {n_undefined} of {total} are undefined, so the threshold would be one of them; "
        "use a score that is defined more often"
    )


def _too_few(n: int, promise: Promise) -> TooFewExamplesError:
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    at = f"alpha = {promise.alpha:g}"
    at += f", delta = {promise.delta:g}" if promise.guarantee == "pac" else ""
    return TooFewExamplesError(
        f"{n} hallucinated calibration examples are too few for the {promise.guarantee} guarantee "
        f"at {at}: at least {least} are needed. Label {least - n} more, raise alpha, give "
        "calibration a larger share, or allow flagging everything (--allow-flag-all)",
        least,
    )
