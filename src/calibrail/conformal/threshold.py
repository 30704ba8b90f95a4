"""Conformal thresholds: rank, smallest calibration set, p-values, weighted calibration.

The threshold is the k-th smallest of n hallucinated calibration scores. Each guarantee has its own
k:

- ``marginal``: k = floor(alpha (n + 1)), split conformal prediction (Vovk et al., 2005).
- ``pac``: the largest k with BinomCDF(k - 1; n, alpha) <= delta, the Neyman-Pearson umbrella
  (Tong, Feng and Li, 2018, Science Advances 4(2)).
- ``anytime``: the largest k for which a bet on "less than alpha is missed" has won 1 / delta at
  k - 1 misses of n (Robbins, 1970). Let q be the lowest score with at least
  alpha of the hallucinations at or below it. A threshold that misses more than alpha lies above q,
  so that no more than k - 1 of the n lie at or below q, and a bet on that number has won as much.
  It ever does with probability at most delta (Ville, 1939): whoever makes a new threshold each time
  an example comes in, and looks at all of them, ever gets one that misses more with at most
  that probability.
- ``paper``: k = ceil((n + 1) alpha), the rank of "The Semantic Illusion" (arXiv 2512.15068). It
  under-covers and serves to reproduce its tables.

Under covariate shift the answers come from other questions, but a given kind of question is
answered as before: the distribution of the features changes, that of the score given the features
does not. If w(x), the ratio of the two densities of the features, were known, weighting the
calibration examples by it would keep the ``marginal`` promise exactly (Tibshirani, Barber, Candes
and Ramdas, 2019, "Conformal prediction under covariate shift"). In practice w is estimated, so NO
exact promise is made: the result is as good as the estimate, and no better than its effective
sample size.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrik, betaincc, betaincinv

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.sequential.betting import lowest_limit, wealth_of_counts
from calibrail.errors import InputError, TooFewExamplesError, error_text, errors_as
from calibrail.options.fields import one_of, spell_option
from calibrail.options.guarantee import OF_THIS_THRESHOLD, RANKED, Guarantee, Promise, Undefined
from calibrail.serialization import Record

GUARANTEES = RANKED

#: Below it no possible number of examples would do under ``pac`` or ``anytime``.
_LEAST_ALPHA: Final = 1e-9
#: More examples than any promise asks for, however small alpha.
_MOST: Final = 10**15
#: Up to this n a float that lies on delta but for rounding is decided in exact arithmetic.
_EXACT_N: Final = 1000


def rank(n: int, alpha: float, guarantee: Guarantee = "marginal", delta: float = 0.1) -> int:
    """Return the 1-based rank of the threshold, 0 where none keeps the promise.

    Parameters
    ----------
    n : int
        Number of hallucinated calibration examples.
    alpha : float
        Tolerated miss rate, in (0, 1); read as the decimal number that it was written as.
    guarantee : {"marginal", "pac", "anytime", "paper"}
        The promise.
    delta : float
        Error probability of ``pac`` and ``anytime``, in (0, 1).

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Notes
    -----
    A quotient that has no short decimal, such as 1/3, is no decimal number that anyone wrote: for
    it, ``marginal`` takes the largest k whose k / (n + 1), rounded to a float as alpha itself is,
    does not exceed alpha. So ``p <= alpha`` and "not flagged" stay one decision for every float.

    Examples
    --------
    In floating point 0.29 * 100 is 28.999999999999996; the rank is computed exactly.

    >>> rank(99, 0.29)
    29
    >>> rank(100, 0.05), rank(100, 0.05, "pac"), rank(100, 0.05, "paper")
    (5, 2, 6)
    >>> rank(100, 0.05, "anytime"), rank(1000, 0.05, "anytime"), rank(1000, 0.05, "pac")
    (1, 33, 41)
    """
    n = argument_checks.whole(n, "n")
    alpha = argument_checks.share(alpha, "alpha")
    if guarantee == "marginal":
        numerator, denominator = Decimal(repr(alpha)).as_integer_ratio()
        k = numerator * (n + 1) // denominator
        return k + 1 if (k + 1) / (n + 1) <= alpha else k
    if guarantee == "paper":
        return min(math.ceil(decimal(alpha) * (n + 1)), n)
    one_of(guarantee, GUARANTEES, "guarantee")
    alpha, delta = _not_tiny(alpha, guarantee), argument_checks.share(delta, "delta")
    if n == 0:
        return 0
    # From where the CDF, made continuous, meets delta: under ``pac`` right but for a rounding
    # error, except at the far end of the tails; ``anytime`` asks for more as n grows.
    level = delta if guarantee == "pac" else delta / (1.0 + math.sqrt(n))
    guess = bdtrik(level, n, alpha)
    fails = _exceeds if guarantee == "pac" else _falls_short
    return first_where(lambda misses: fails(misses, n, alpha, delta), n, int(guess))


def minimum_n(alpha: float, guarantee: Guarantee = "marginal", delta: float = 0.1) -> int:
    """Return the smallest n for which ``rank`` is at least 1.

    Examples
    --------
    >>> minimum_n(0.05), minimum_n(0.05, "pac", delta=0.1)
    (19, 45)
    """
    alpha = argument_checks.share(alpha, "alpha")
    if guarantee == "paper":
        return 1
    if guarantee == "marginal":
        n = max(1, math.ceil(1 / decimal(alpha)) - 1)
        return n - 1 if n > 1 and 1 / n <= alpha else n
    one_of(guarantee, GUARANTEES, "guarantee")
    alpha, delta = _not_tiny(alpha, guarantee), argument_checks.share(delta, "delta")
    fails = _exceeds if guarantee == "pac" else _falls_short
    # k = 1 needs (1 - alpha)^n <= delta, and ``anytime`` somewhat more.
    guess = math.ceil(math.log(delta) / math.log1p(-alpha))
    return first_where(lambda n: n > 0 and not fails(0, n, alpha, delta), _MOST, guess)


def decimal(number: float) -> Fraction:
    """Return the decimal number that prints as ``number``: 0.29 is 29/100."""
    return Fraction(repr(float(number)))


def first_where(holds: Callable[[int], bool], most: int, guess: int) -> int:
    """Return the first number below ``most`` for which ``holds``, as it does for all after it.

    ``most`` if there is none. The steps away from a guess double, until the number is enclosed.
    """
    k, step = min(max(guess, 0), most - 1), 1
    low, high = -1, most
    while high - low > 1:
        if holds(k):
            high, k = k, k - step
        else:
            low, k = k, k + step
        step *= 2
        if not low < k < high:
            k = (low + high) // 2
    return high


def turning_point(
    holds: Callable[[float], bool], halvings: int, low: float = 0.0, high: float = 1.0
) -> tuple[float, float]:
    """Return the ends between which ``holds`` turns from true to false, after so many halvings.

    >>> low, high = turning_point(lambda x: x * x < 0.5, 40)
    >>> low * low < 0.5 <= high * high, round(high, 6)
    (True, 0.707107)
    """
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _exceeds(count: int, n: int, alpha: float, delta: float) -> bool:
    """Return whether BinomCDF(count; n, alpha) > delta, for count < n."""
    cdf = float(betaincc(count + 1, n - count, alpha))
    if n > _EXACT_N or not math.isclose(cdf, delta, rel_tol=1e-9):
        return cdf > delta
    p = decimal(alpha)
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(count + 1))
    return exact > decimal(delta)


def _falls_short(misses: int, n: int, alpha: float, delta: float) -> bool:
    """Return whether a bet on a rate below alpha has won less than 1 / delta, for misses < n."""
    below, above = np.array([[misses], [n - misses]], np.float64)
    won = float(wealth_of_counts(below, above, alpha, above=False)[0])
    goal = -math.log(delta)
    if n > _EXACT_N or not math.isclose(won, goal, rel_tol=1e-9, abs_tol=1e-9):
        return won < goal
    # The mean of p^misses (1 - p)^(n - misses) over p up to alpha is a binomial tail.
    p = decimal(alpha)
    tail = 1 - sum(math.comb(n + 1, i) * p**i * (1 - p) ** (n + 1 - i) for i in range(misses + 1))
    at_alpha = (n + 1) * math.comb(n, misses) * p ** (misses + 1) * (1 - p) ** (n - misses)
    return decimal(delta) * tail < at_alpha


def _not_tiny(alpha: float, guarantee: Guarantee) -> float:
    if alpha < _LEAST_ALPHA:
        raise InputError(f"alpha must be at least {_LEAST_ALPHA:g} for {guarantee}; got {alpha!r}")
    return alpha


def p_values(calibration_scores: ArrayLike, values: ArrayLike) -> Floats:
    """Return conformal p-values of "this answer is hallucinated".

    p = (1 + #{i : s_i <= S}) / (n + 1). A small p-value says that few hallucinated answers look
    this harmless. For a hallucinated answer exchangeable with the calibration ones,
    P(p <= u) <= u for every u (Vovk et al., 2005).

    Parameters
    ----------
    calibration_scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, sorted ascending.
    values : array-like of float, shape (m,)
        Scores to judge, higher = more likely hallucinated; no NaN.

    Returns
    -------
    ndarray of float64, shape (m,)
        In (0, 1].

    Raises
    ------
    InputError
        If a value is NaN, or the calibration scores are not sorted.

    Examples
    --------
    >>> p_values([1.0, 2.0, 3.0], [0.0, 2.0, 9.0]).tolist()
    [0.25, 0.75, 1.0]
    """
    scores = argument_checks.defined(calibration_scores, "calibration_scores")
    if (scores[1:] < scores[:-1]).any():
        raise InputError("calibration_scores must be sorted ascending")
    counts = count_at_most(scores, argument_checks.defined(values, "values"))
    return np.asarray((1.0 + counts) / (len(scores) + 1.0))


def add_tolerance(values: Floats, tolerance: float) -> Floats:
    """Return ``values + tolerance``: what both the threshold and the p-value look at.

    One sum serves both, so that no rounding can make them disagree.
    """
    slack = argument_checks.tolerance(tolerance)
    if slack == 0.0:
        return values
    with np.errstate(over="ignore"):
        return values + slack


def count_at_most(scores: Floats, values: Floats) -> Ints:
    """Return for each value how many of the scores are at most as large.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Sorted ascending, no NaN.
    values : ndarray of float64, shape (m,)
        No NaN.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    return scores.searchsorted(values, side="right").astype(np.int64, copy=False)


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
    guarantee : {"marginal", "pac", "anytime", "paper", "fixed"}
        What is promised; see ``calibrail.conformal.threshold``.
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

    threshold: float
    rank: int
    n: int
    alpha: float
    guarantee: Guarantee
    delta: float | None
    n_undefined: int
    undefined: Undefined
    flag_all: bool
    scores: Floats

    #: What there is too little of where everything is flagged.
    counted: ClassVar[str] = "examples"

    def flags(self, values: ArrayLike, tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        return flags_under(self.undefined, values, self.threshold, tolerance)

    def as_known(self, negated: bool) -> "Calibration | NegatedCalibration":
        """Return the calibration in the numbers of a score that is kept ``negated``."""
        return NegatedCalibration(self) if negated else self

    @property
    def share_below(self) -> float:
        """Share of new hallucinated examples that lies below the threshold, on average."""
        return self.rank / (self.n + 1.0)

    @property
    def promise(self) -> Promise:
        """What the threshold was calibrated for; ``delta`` is 0.1 where it plays no part."""
        delta = 0.1 if self.delta is None else self.delta
        return Promise(self.alpha, self.guarantee, delta, self.undefined, self.flag_all)

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return the conformal p-values of defined scores; no NaN is accepted.

        Under ``marginal``, ``p <= alpha`` is exactly the same decision as ``not flags``.
        """
        queries = add_tolerance(argument_checks.defined(values, "values"), tolerance)
        below = self.n_undefined if self.undefined == "pass" else 0
        return np.asarray((1.0 + below + count_at_most(self.scores, queries)) / (self.n + 1.0))

    @property
    def missed(self) -> int:
        """Calibration examples below the threshold, undefined ones among them under ``pass``."""
        below = int(np.searchsorted(self.scores, self.threshold))
        return below + (self.n_undefined if self.undefined == "pass" else 0)

    def least_alpha(self, below: int) -> float:
        """Return the smallest alpha at which so many examples may lie below the threshold."""
        if self.delta is None:
            return (below if self.guarantee == "paper" else below + 1) / (self.n + 1)
        if self.guarantee == "anytime":
            return 1.0 - float(lowest_limit(self.n - below, below, -math.log(self.delta)))
        return float(betaincinv(below + 1, self.n - below, 1.0 - self.delta))

    @classmethod
    def build(
        cls, defined: Floats, missing: int, promise: Promise, k: int, threshold: float, **more: Any
    ) -> Self:
        """Return the calibration whose threshold has rank k; at rank 0 it flags everything."""
        if k == 0 and promise.undefined == "pass":
            raise InputError.on("undefined_would_pass", counted=cls.counted)
        defined.flags.writeable = False
        return cls(
            threshold,
            k,
            len(defined) + missing,
            float(promise.alpha),
            promise.guarantee,
            float(promise.delta) if promise.of_this_threshold else None,
            missing,
            promise.undefined,
            k == 0,
            scores=defined,
            **more,
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild a calibration from its scores, and refuse one that contradicts itself.

        Raises
        ------
        InputError
            If a field is missing, or the threshold is not the score that the rank names.
        """
        with (
            errors_as(InputError, KeyError, "calibration_lacks"),
            errors_as(InputError, TypeError, "calibration_damaged"),
        ):
            defined = argument_checks.vector(content["scores"], "scores")
            n_undefined = argument_checks.whole(content["n_undefined"], "n_undefined")
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
        if "scores" in different:
            raise InputError("scores must be sorted ascending and hold no NaN; calibrate again")
        for key in different:
            raise InputError.on(
                "contradicts_itself", key=key, give=expected[key], says=content[key]
            )
        return again

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        """Calibrate on the scores that a saved calibration holds."""
        if promise.guarantee == "fixed":
            return cast(Self, fixed_threshold(scores, content["threshold"], promise))
        return cast(Self, calibrate_threshold(scores, promise))


def calibrate_threshold(scores: ArrayLike, promise: Promise) -> Calibration:
    """Find the highest threshold that keeps the promise, from hallucinated examples alone.

    It is kept for hallucinated examples to come that are exchangeable with these; under ``pac`` and
    ``anytime`` they are independent of each other, too.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    promise : Promise
        Tolerated miss rate, guarantee (see ``calibrail.conformal.threshold``) and policy for
        undefined
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
    promise = promise.settled()
    ordered = np.sort(argument_checks.scores(scores))
    # NaN sorts to the end.
    defined = ordered[: int(np.searchsorted(ordered, np.nan))]
    n_undefined = len(ordered) - len(defined)
    k = rank(len(ordered), promise.alpha, promise.guarantee, promise.delta)
    if k == 0 and not promise.allow_flag_all:
        raise _too_few(len(ordered), promise)
    threshold = at_rank(defined, k, n_undefined, promise.undefined) if k else -math.inf
    return Calibration.build(defined, n_undefined, promise, k, threshold)


def fixed_threshold(scores: ArrayLike, threshold: float, promise: Promise) -> Calibration:
    """Return a threshold that was given, with the hallucinated scores that p-values come from.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated examples; NaN where undefined. They have no part in the threshold.
    threshold : float
        Finite. Its rank is that of the first score that it flags.
    promise : Promise
        With the guarantee ``fixed``.

    Examples
    --------
    >>> given = fixed_threshold([0.2, 0.9, 0.4], 0.3, Promise(alpha=0.2, guarantee="fixed"))
    >>> given.rank, given.missed, given.flags([0.29, 0.3]).tolist()
    (2, 1, [False, True])
    """
    ordered = np.sort(argument_checks.scores(scores))
    edge = argument_checks.number(threshold, "threshold")
    if not math.isfinite(edge):
        raise InputError(f"threshold must be finite; got {edge!r}")
    defined = ordered[: int(np.searchsorted(ordered, np.nan))]
    missing = len(ordered) - len(defined)
    below = int(np.searchsorted(defined, edge)) + missing * (promise.undefined == "pass")
    return Calibration.build(defined, missing, promise, below + 1, edge)


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
    queries = argument_checks.defined(values, "values")
    edge = argument_checks.number(threshold, "threshold")
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
    queries = argument_checks.vector(values, "values")
    defined = ~np.isnan(queries)
    result = np.full(queries.shape, policy != "pass")
    result[defined] = flags(queries[defined], threshold, tolerance)
    return result


def at_rank(defined: Floats, k: int, n_undefined: int, undefined: Undefined) -> float:
    """Return the k-th smallest score, undefined ones included at the end where they count."""
    position = k - 1 - (n_undefined if undefined == "pass" else 0)
    if 0 <= position < len(defined):
        # Of -0.0 and 0.0, which are one score, chance says which is sorted first.
        return float(defined[position]) + 0.0
    n = len(defined) + n_undefined
    if undefined != "pass":
        raise InputError.on("threshold_undefined", n_undefined=n_undefined, n=n)
    # See the notes of ``calibrate_threshold``: what fails here belongs to the promise.
    raise InputError.on("promise_not_possible_here", n_undefined=n_undefined, n=n)


def _too_few(n: int, promise: Promise) -> TooFewExamplesError:
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    delta = f", delta = {promise.delta:g}" if promise.of_this_threshold else ""
    others = other_ways(n, promise)
    why = error_text("hallucinated_few", n=n, of=promise, delta=delta, least=least, others=others)
    return TooFewExamplesError(why, least, n)


def other_ways(n: int, promise: Promise) -> str:
    """Return what to do about ``n`` examples, too few for a promise, other than to label more.

    A promise on average is named where half of them, which set its threshold, are enough.
    """
    average = f"promise an average ({spell_option(Promise, 'guarantee', 'marginal')}), "
    able = promise.guarantee == "pac" and n // 2 >= minimum_n(promise.alpha, "marginal")
    all_flagged = spell_option(Promise, "allow_flag_all", True)
    return f"raise alpha, {average if able else ''}or allow flagging everything ({all_flagged})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NegatedCalibration:
    """A calibration in the numbers of a score of which a higher value means faithful.

    Takes and gives such numbers: what is at the threshold or below it is flagged. All else is that
    of the calibration that decides, in which scores are negated.

    Attributes
    ----------
    kept : Calibration
        What decides.
    """

    kept: Calibration

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "kept"), name)

    def __repr__(self) -> str:
        about = ("rank", "n", "alpha", "guarantee", "delta", "n_undefined", "undefined", "flag_all")
        shown = ", ".join(f"{name}={getattr(self.kept, name)!r}" for name in about)
        return f"Calibration(threshold={self.threshold!r}, {shown}, higher='faithful')"

    @property
    def threshold(self) -> float:
        """A response is flagged at this score or below; ``inf`` flags everything."""
        return 0.0 - self.kept.threshold

    @property
    def scores(self) -> Floats:
        """Defined calibration scores, sorted ascending."""
        return np.asarray(0.0 - self.kept.scores[::-1])

    def flags(self, values: ArrayLike, tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed."""
        return self.kept.flags(0.0 - np.asarray(values, np.float64), tolerance)

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return the conformal p-values of defined scores."""
        return self.kept.p_value(0.0 - np.asarray(values, np.float64), tolerance)

    def to_dict(self) -> dict[str, Any]:
        """Return what the calibration's file holds, with threshold and scores in these numbers."""
        edge = None if self.kept.flag_all else self.threshold
        return self.kept.to_dict() | {"threshold": edge, "scores": self.scores.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCalibration(Record):
    """Calibration scores with their weights; each new answer brings its own weight.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,)
        Calibration scores of hallucinated examples, ascending.
    weights : ndarray of float64, shape (n,)
        Density ratio production / calibration of each, any scale.
    alpha : float
        Tolerated miss rate.
    """

    scores: Floats
    weights: Floats
    alpha: float

    @property
    def effective_n(self) -> float:
        """Effective sample size (sum w)^2 / sum w^2: so many equal weights would be as precise."""
        scaled = np.ldexp(self.weights, -self._exponent)
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    @property
    def _exponent(self) -> int:
        """The largest weight lies below 2 to this power: a scale that rounds nothing."""
        return int(np.frexp(self.weights.max())[1])

    def p_value(self, values: ArrayLike, weights: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return (w(x) + sum of w_i over s_i <= S) / (w(x) + sum of all w_i) for each answer.

        Parameters
        ----------
        values : array-like of float, shape (m,)
            Scores, no NaN.
        weights : array-like of float, shape (m,)
            Each answer's own density ratio, on the scale of the calibration weights.
        tolerance : float
            Numerical tolerance of the score.
        """
        queries = add_tolerance(argument_checks.defined(values, "values"), tolerance)
        ratio = _weights(weights, len(queries), "weights")
        ladder = np.append(0.0, np.cumsum(np.ldexp(self.weights, -self._exponent)))
        below = ladder[count_at_most(self.scores, queries)]
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.ldexp(ratio, -self._exponent)
            shares = (ratio + below) / (ratio + ladder[-1])
        # A weight beyond all others leaves no doubt that nothing like it was labelled.
        return np.where(np.isinf(ratio), 1.0, shares)

    def flags(self, values: ArrayLike, weights: ArrayLike, tolerance: float = 0.0) -> Bools:
        """Return which answers are flagged: those whose weighted p-value exceeds alpha."""
        return np.asarray(self.p_value(values, weights, tolerance) > self.alpha)

    def threshold(self, weight: float | None = None) -> float:
        """Return the threshold for an answer of the given weight; of mean weight if left out.

        ``-inf`` where an answer of this weight is always flagged: it looks like nothing that was
        labelled.
        """
        exponent = self._exponent
        mean = float(np.ldexp(np.ldexp(self.weights, -exponent).mean(), exponent))
        ratio = mean if weight is None else argument_checks.number(weight, "weight")
        ratio = float(_weights([ratio], 1, "weight")[0])
        candidates = np.append(-np.inf, self.scores)
        flagged = self.flags(candidates, np.full(len(candidates), ratio))
        return float(candidates[np.argmax(flagged)])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**Record.to_dict(self), "effective_n": self.effective_n}


def calibrate_weighted(scores: ArrayLike, weights: ArrayLike, alpha: float) -> WeightedCalibration:
    """Calibrate on hallucinated examples that are weighted towards production.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, n >= 1, finite.
    weights : array-like of float, shape (n,)
        Density ratio production / calibration at each example's features: finite, at least 0, not
        all 0. Any scale, but the scale of the weights that new answers will bring.
    alpha : float
        Tolerated miss rate, in (0, 1).

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> even = calibrate_weighted([1, 2, 3, 4], [1, 1, 1, 1], alpha=0.4)
    >>> even.threshold(), even.effective_n
    (2.0, 4.0)
    >>> uneven = calibrate_weighted([1, 2, 3, 4], [1, 1, 1, 7], alpha=0.4)
    >>> uneven.threshold(1.0), round(uneven.effective_n, 2)
    (4.0, 1.92)
    """
    values = argument_checks.finite(scores)
    given = _weights(weights, len(values), "weights")
    if not given.max() > 0.0:
        raise InputError.on("weights_all_zero")
    order = np.argsort(values, kind="stable")
    return WeightedCalibration(values[order], given[order], argument_checks.share(alpha, "alpha"))


def _weights(weights: ArrayLike, n: int, name: str) -> Floats:
    array = argument_checks.vector(weights, name)
    argument_checks.paired(array, n, name)
    if len(array) and not (np.isfinite(array).all() and array.min() >= 0.0):
        raise InputError(f"{name} must be finite and at least 0")
    return array
