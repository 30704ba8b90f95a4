"""Which threshold catches the stated share of hallucinations?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.pvalues import add_tolerance, count_at_most
from calibrail.conformal.rank import minimum_n, rank
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.record import Record
from calibrail.settings.option import option_of
from calibrail.settings.promise import OF_THIS_THRESHOLD, Guarantee, Promise, Undefined


@dataclass(frozen=True, slots=True, eq=False)
class _Promised(Record):
    """A threshold with its promise, whatever is kept of the scores that it came from."""

    threshold: float
    rank: int
    n: int
    alpha: float
    guarantee: Guarantee
    delta: float | None
    n_undefined: int
    undefined: Undefined
    flag_all: bool

    #: What there is too little of where everything is flagged.
    counted: ClassVar[str] = "examples"

    def flags(self, values: ArrayLike, tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        return flags_under(self.undefined, values, self.threshold, tolerance)

    @classmethod
    def _of(
        cls, n: int, missing: int, promise: Promise, k: int, threshold: float, **more: Any
    ) -> Self:
        """Return the threshold of rank k among n; at rank 0 it flags everything."""
        if k == 0 and promise.undefined == "pass":
            raise InputError(
                "undefined must be 'flag' or 'review' where everything is flagged for lack of "
                f"{cls.counted}; got 'pass', which would let undefined scores through"
            )
        return cls(
            threshold,
            k,
            n,
            validation.share(promise.alpha, "alpha"),
            promise.guarantee,
            float(promise.delta) if promise.of_this_threshold else None,
            missing,
            promise.undefined,
            k == 0,
            **more,
        )

    @property
    def share_below(self) -> float:
        """Share of new hallucinated examples that lies below the threshold, on average."""
        return self.rank / (self.n + 1.0)

    @property
    def promise(self) -> Promise:
        """What the threshold was calibrated for; ``delta`` is 0.1 where it plays no part."""
        delta = 0.1 if self.delta is None else self.delta
        return Promise(self.alpha, self.guarantee, delta, self.undefined, self.flag_all)


@dataclass(frozen=True, slots=True)
class Threshold(_Promised):
    """A threshold with its promise, without the scores that it came from.

    Attributes
    ----------
    threshold, rank, n, alpha, guarantee, delta, n_undefined, undefined, flag_all
        As in ``Calibration``.
    missed : int
        Calibration examples below the threshold, undefined ones among them under ``pass``.
    """

    missed: int


@dataclass(frozen=True, slots=True, eq=False)
class Calibration(_Promised):
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
    guarantee : {"marginal", "pac", "anytime", "paper"}
        What is promised; see ``calibrail.conformal.rank``.
    delta : float or None
        Error probability of ``pac`` and ``anytime``.
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

    scores: Floats

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return the conformal p-values of defined scores; no NaN is accepted.

        Under ``marginal``, ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        return self.p_value_of_counts(count_at_most(self.scores, queries))

    def p_value_of_counts(self, counts: Ints) -> Floats:
        """Return the p-values of answers that so many defined scores do not exceed."""
        below = self.n_undefined if self.undefined == "pass" else 0
        return np.asarray((1.0 + below + counts) / (self.n + 1.0))

    @property
    def missed(self) -> int:
        """Calibration examples below the threshold, undefined ones among them under ``pass``."""
        return _missed(self.scores, self.threshold, self.n_undefined, self.undefined)

    @classmethod
    def build(
        cls, defined: Floats, missing: int, promise: Promise, k: int, threshold: float, **more: Any
    ) -> Self:
        """Return the calibration whose threshold has rank k; at rank 0 it flags everything."""
        defined.flags.writeable = False
        n = len(defined) + missing
        return cls._of(n, missing, promise, k, threshold, scores=defined, **more)

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
                content["delta"] if content["guarantee"] in OF_THIS_THRESHOLD else 0.1,
                content["undefined"],
                content["flag_all"] is True,
            )
            again = cls._again(np.append(defined, np.full(n_undefined, np.nan)), promise, content)
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
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
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

    Notes
    -----
    Under ``pass`` the promise is one over all calibrations, with those that end in a refusal
    because too many scores are undefined: they release nothing. Among the thresholds returned it
    may be broken, since few undefined scores in the sample are what lets one be returned. No rule
    that ever returns a threshold can do better: where undefined scores are more frequent among
    hallucinations than alpha, every threshold misses more than alpha. Under ``flag`` and
    ``review`` a refusal only takes away thresholds that miss more than others, and those returned
    keep the promise, too.

    Examples
    --------
    >>> calibration = calibrate_threshold([0.2, 0.9, 0.4, 0.7], Promise(alpha=0.4))
    >>> calibration.rank, calibration.threshold
    (2, 0.4)
    >>> calibration.flags([0.3, 0.4]).tolist()
    [False, True]
    """
    ordered = np.sort(validation.scores(scores))
    # NaN sorts to the end.
    defined = ordered[: int(np.searchsorted(ordered, np.nan))]
    n_undefined = len(ordered) - len(defined)
    k, threshold = _ranked(defined, len(ordered), n_undefined, promise)
    return Calibration.build(defined, n_undefined, promise, k, threshold)


def threshold_of_lowest(lowest: Floats, n: int, n_undefined: int, promise: Promise) -> Threshold:
    """Return the threshold of n scores, of which only the lowest are given.

    Parameters
    ----------
    lowest : ndarray of float64
        Sorted ascending: all defined scores, or at least as many as the rank.
    n, n_undefined : int
        Hallucinated calibration examples, and those of them without a score.
    promise : Promise
        As for ``calibrate_threshold``, which gives the same and raises the same errors.
    """
    k, threshold = _ranked(lowest, n, n_undefined, promise)
    missed = _missed(lowest, threshold, n_undefined, promise.undefined)
    return Threshold._of(n, n_undefined, promise, k, threshold, missed=missed)


def _ranked(lowest: Floats, n: int, n_undefined: int, promise: Promise) -> tuple[int, float]:
    """Return rank and threshold of n scores."""
    k = rank(n, promise.alpha, promise.guarantee, promise.delta)
    if k == 0 and not promise.allow_flag_all:
        raise _too_few(n, promise)
    return k, at_rank(lowest, k, n_undefined, promise.undefined, n) if k else -math.inf


def _missed(lowest: Floats, threshold: float, n_undefined: int, undefined: Undefined) -> int:
    below = int(np.searchsorted(lowest, threshold))
    return below + (n_undefined if undefined == "pass" else 0)


def flags(values: ArrayLike, threshold: float, tolerance: float = 0.0) -> Bools:
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
    return np.asarray(add_tolerance(queries, tolerance) >= edge)


def flags_under(
    policy: Undefined, values: ArrayLike, threshold: float, tolerance: float = 0.0
) -> Bools:
    """Return ``flags`` of scores that may be undefined (NaN): those are not passed but by policy.

    Parameters
    ----------
    policy : {"flag", "review", "pass"}
        Under ``pass`` an undefined score is passed.
    values, threshold, tolerance
        As for ``flags``, NaN where undefined.
    """
    queries = validation.vector(values, "values")
    defined = ~np.isnan(queries)
    result = np.full(queries.shape, policy != "pass")
    result[defined] = flags(queries[defined], threshold, tolerance)
    return result


def at_rank(
    defined: Floats, k: int, n_undefined: int, undefined: Undefined, n: int | None = None
) -> float:
    """Return the k-th smallest score, undefined ones included at the end where they count.

    ``defined`` may hold only the lowest of n scores.
    """
    position = k - 1 - (n_undefined if undefined == "pass" else 0)
    if 0 <= position < len(defined):
        # Of -0.0 and 0.0, which are one score, chance says which is sorted first.
        return float(defined[position]) + 0.0
    total = len(defined) + n_undefined if n is None else n
    what = (
        " and would be passed, more than alpha allows to miss; use undefined='flag', or"
        if undefined == "pass"
        else ", so the threshold would be one of them; use"
    )
    # See the notes of ``calibrate_threshold``: what fails here belongs to the promise.
    again = (
        ". The promise counts this refusal: other answers drawn until a threshold comes out miss "
        "more than alpha"
        if undefined == "pass"
        else ""
    )
    raise InputError(
        f"scores: {n_undefined} of {total} are undefined{what} a score that is defined more often"
        f"{again}"
    )


def _too_few(n: int, promise: Promise) -> TooFewExamplesError:
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    delta = f", delta = {promise.delta:g}" if promise.of_this_threshold else ""
    return TooFewExamplesError(
        f"{n} hallucinated calibration examples are too few for the {promise.guarantee} guarantee "
        f"at alpha = {promise.alpha:g}{delta}: at least {least} are needed. Label {least - n} "
        "more, raise alpha, give calibration a larger share, or allow flagging everything "
        f"({option_of(Promise, 'allow_flag_all', True)})",
        least,
    )
