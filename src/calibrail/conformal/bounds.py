"""Bounds of a share or mean, a band over all thresholds, shares that follow from others.

A share of each answer (how much of its supported text is released) is no count, so that a
binomial bound does not fit, and a normal one is wrong for few or skewed values. "The mean is at
most m" is bet against: the wealth is multiplied by 1 + b_t (x_t - m), where b_t comes from the
values before x_t alone and never exceeds c / m. Under the hypothesis the wealth is a nonnegative
supermartingale, so that it ever reaches 1 / tail with probability at most tail (Ville). The lower
bound is the highest m that is refuted; since every factor falls in m, so does the wealth, and
bisection finds it. The upper bound is that of 1 - x turned round (Waudby-Smith and Ramdas, 2024,
"Estimating means of bounded random variables by betting", sections 4 and 5).

A single Clopper-Pearson interval holds for a threshold chosen before looking. A simultaneous band
holds for every threshold together, so one may look at the whole curve first and choose afterwards.

- ``dkw``: the same margin sqrt(log(2 / delta) / 2n) everywhere (Dvoretzky, Kiefer and Wolfowitz,
  1956, with the constant of Massart, 1990).
- ``berk-jones``: Clopper-Pearson intervals at a stricter local level, the same for each rank,
  chosen so that all hold together (Berk and Jones, 1979; exact form: Moscovich, Nadler and
  Spiegelman, 2016). Narrow where shares are near 0 or 1, where thresholds of interest lie.

If a test is positive with probability h where something is there and l where it is not, the share
of positives is seen = p h + (1 - p) l, so p = (seen - l) / (h - l) (Rogan and Gladen, 1978). p is
monotone in each of the three while the other two stand still, whatever these are: over a box of
three intervals its ends lie in corners. Where the three intervals hold together with 1 - delta, so
does what follows. The same of a mixture of two shares, and of what is hallucinated among flagged
and passed answers, from which coverage and FPR follow by Bayes' rule.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, betainccinv, betaincinv, betaln, gammaln, xlogy

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.sequential.betting import FRACTIONS, lowest_limit, mixture
from calibrail.conformal.threshold import Calibration, first_where, turning_point
from calibrail.errors import InputError
from calibrail.serialization import Record

#: More further examples than this are as good as never.
_NEVER: Final = 10**9
#: How many sample sizes are tried in one go, at first and at most.
_FIRST, _MOST_AT_ONCE = 64, 4096


@dataclass(frozen=True, slots=True)
class MeanBound(Record):
    """A mean of shares with its interval, beside the `Bound` of a count.

    Attributes
    ----------
    estimate : float or None
        ``count / n``; None when n is 0.
    lower, upper : float
        Ends of the two-sided interval, in [0, 1].
    count : float
        Sum of the shares.
    n : int
        Values behind it.
    method : str
        ``betting``.
    confidence : float
        Two-sided level.
    """

    estimate: float | None
    lower: float
    upper: float
    count: float
    n: int
    method: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Bound(MeanBound):
    """A share with its interval.

    Attributes
    ----------
    estimate : float or None
        ``count / n``, or weighted where answers were labelled with different probabilities; None
        when n is 0.
    lower, upper : float
        Ends of the two-sided interval, in [0, 1].
    count, n : int
        The counts behind it.
    method : str
        ``clopper-pearson`` (decides) or ``wilson`` (shown); ``beta-mixture`` or ``betting`` for an
        interval that holds at any time; ``rank`` for what the rank of a threshold proves.
    confidence : float
        Two-sided level.
    """

    count: int


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """What a threshold did on examples of both classes.

    Attributes
    ----------
    caught, n_hallucinated : int
        Flagged among hallucinated examples.
    false_alarms, n_faithful : int
        Flagged among faithful examples.

    Raises
    ------
    InputError
        If a count is no whole number of at least 0, or exceeds the examples of its class.
    """

    caught: int
    n_hallucinated: int
    false_alarms: int
    n_faithful: int

    def __post_init__(self) -> None:
        for part, n in (("caught", "n_hallucinated"), ("false_alarms", "n_faithful")):
            checked = argument_checks.counts(getattr(self, part), getattr(self, n), (part, n))
            for name, value in zip((part, n), checked, strict=True):
                object.__setattr__(self, name, value)

    def bounds(self, confidence: float) -> tuple[Bound, Bound]:
        """Return the exact intervals of the coverage and of the FPR."""
        return (
            exact_bound(self.caught, self.n_hallucinated, confidence),
            exact_bound(self.false_alarms, self.n_faithful, confidence),
        )


def clopper_pearson(count: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial share (Clopper and Pearson, 1934).

    Each side errs with probability at most (1 - confidence) / 2, whatever the true share.

    Parameters
    ----------
    count, n : int
        Successes among trials; ``n = 0`` gives [0, 1].
    confidence : float
        Two-sided level, in (0, 1).

    Returns
    -------
    (float, float)
        Lower and upper end.

    Examples
    --------
    >>> [round(end, 4) for end in clopper_pearson(7, 100, 0.95)]
    [0.0286, 0.1389]
    """
    count, n = argument_checks.counts(count, n)
    tail = (1.0 - argument_checks.share(confidence, "confidence")) / 2.0
    lower = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, tail))
    upper = 1.0 if count == n else float(betainccinv(count + 1, n - count, tail))
    return lower, upper


def interval(count: ArrayLike, n: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return ``clopper_pearson`` of arrays that broadcast, unchecked; shares of n may be real."""
    hits, trials = np.asarray(count, np.float64), np.asarray(n, np.float64)
    misses, tail = trials - hits, (1.0 - confidence) / 2.0
    # Where a beta distribution has no such parameter, 1 stands in and the end is known.
    lower = betaincinv(np.where(hits > 0, hits, 1.0), misses + 1.0, tail)
    upper = betainccinv(hits + 1.0, np.where(misses > 0, misses, 1.0), tail)
    return np.where(hits > 0, lower, 0.0), np.where(misses > 0, upper, 1.0)


def proof_level(confidence: float) -> float:
    """Return the two-sided level of intervals whose ends each err with 1 - confidence.

    A claim of several requirements is wrong where one of them is broken; it is made only where
    every end shows its own to be kept. So each may take the whole error (intersection-union test,
    Berger 1982). At or below 0 for a confidence up to one half; ``interval`` takes that.
    """
    return 2.0 * confidence - 1.0


def exact_bound(count: int, n: int, confidence: float) -> Bound:
    """Return the Clopper-Pearson interval with its estimate and counts."""
    count, n = argument_checks.counts(count, n)
    lower, upper = clopper_pearson(count, n, confidence)
    return Bound(count / n if n else None, lower, upper, count, n, "clopper-pearson", confidence)


def further(bound: Bound, requirement: float, proof: float, *, good_above: bool) -> int | None:
    """Return the smallest further number of examples that settles one class at the rate seen.

    Settled is what the certificate calls settled: a rate on the good side of its requirement is
    proven good, a rate on the other side is proven bad. The count expected at the rate is rounded
    towards the requirement, so that the number suffices whatever the rounding does.

    Parameters
    ----------
    bound : Bound
        The class's exact interval, not settled yet.
    requirement : float
        What the rate has to reach or keep below.
    proof : float
        Two-sided level of the interval that proves a rate good; that of ``bound`` proves it bad.
    good_above : bool
        True for coverage (lower end at least the requirement), False for the FPR (upper end at
        most the requirement).

    Returns
    -------
    int or None
        None where the rate equals the requirement, nothing was seen yet, or more than 10^9 are
        needed.
    """
    if bound.estimate is None or bound.estimate == requirement:
        return None
    above = bound.estimate > requirement
    away = bound.count if above else bound.n - bound.count
    level = proof if above == good_above else bound.confidence

    def settled(ends: tuple[Floats, Floats]) -> Bools:
        lower, upper = ends
        if above:
            return lower >= requirement if good_above else lower > requirement
        return upper < requirement if good_above else upper <= requirement

    def unrounded(extra: int) -> bool:
        n = bound.n + extra
        return bool(settled(interval(bound.count / bound.n * n, n, level)))

    # Rounding makes the answer saw-toothed in n. Without it the answer turns once, and never later
    # than with it: search there by bisection, then walk on to the first n that settles rounded.
    first = first_where(unrounded, 1 << 30, 1)
    # One step back makes up for the rounding of the rate itself.
    start = max(1, first - 1)
    chunk = _FIRST
    while start <= _NEVER:
        whole, rest = divmod(away * (bound.n + start), bound.n)
        steps = np.arange(chunk)
        sizes = bound.n + start + steps
        counts = whole + (rest + away * steps) // bound.n
        hits = np.flatnonzero(settled(interval(counts if above else sizes - counts, sizes, level)))
        if len(hits):
            return start + int(hits[0])
        start += chunk
        chunk = min(2 * chunk, _MOST_AT_ONCE)
    return None


#: Largest bet, as a share of that which a value of 0 would turn the wealth to nothing.
_MOST: Final = 0.75
#: Halvings of [0, 1] after which no double lies between the ends.
_STEPS: Final = 60
#: Secants before them, how far beside each, as a share of what is left, and what is left to them.
_SECANTS, _BESIDE, _ROUNDED = 12, 1 / 256, 1e-12
#: More further values than this are as good as never, and are not tried.
_MEAN_BOUND_NEVER: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Region(Record):
    """Intervals of several shares that hold together.

    Attributes
    ----------
    coverage, fpr : Bound
        Each with a level of its own, so that both hold at once.
    confidence : float
        That all of them hold.
    kept : MeanBound or None
        Where sentences are removed: of what is kept.
    """

    coverage: Bound
    fpr: Bound
    confidence: float
    kept: MeanBound | None = None


def part_level(confidence: float, parts: int = 2) -> float:
    """Return the level of each of so many intervals that hold together, however they depend.

    >>> part_level(0.95)
    0.975
    """
    return 1.0 - (1.0 - confidence) / parts


def mean_bound(values: ArrayLike, confidence: float) -> MeanBound:
    """Return the mean of independent values in [0, 1] with an interval that holds for any n.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        In an order that has nothing to do with them; another order gives another interval, as
        valid. None at all gives [0, 1].
    confidence : float
        Two-sided level, in (0, 1); each end errs with at most half of the rest.

    Raises
    ------
    InputError
        If a value lies outside [0, 1], or the level outside (0, 1).

    Examples
    --------
    >>> bound = mean_bound([1.0, 0.5, 1.0, 0.75] * 25, 0.95)
    >>> bound.estimate, round(bound.lower, 3), round(bound.upper, 3)
    (0.8125, 0.753, 0.866)
    """
    level = argument_checks.share(confidence, "confidence")
    shares = argument_checks.rates(values, "values", "value")
    n, tail, total = len(shares), (1.0 - level) / 2.0, math.fsum(shares.tolist())
    if not n:
        return MeanBound(None, 0.0, 1.0, 0.0, 0, "betting", level)
    mean = total / n
    # Bets that were won early may refute what later values show: the mean itself never is.
    least, least_left = (_lower(part.tobytes(), tail) for part in (shares, 1.0 - shares))
    ends = min(least, mean), max(1.0 - least_left, mean)
    return MeanBound(mean, *ends, total, n, "betting", level)


def mean_at_least(values: ArrayLike, confidence: float) -> float:
    """Return the lower end alone, which errs with at most 1 - ``confidence``."""
    level = argument_checks.share(confidence, "confidence")
    shares = argument_checks.rates(values, "values", "value")
    if not len(shares):
        return 0.0
    return min(_lower(shares.tobytes(), 1.0 - level), math.fsum(shares.tolist()) / len(shares))


def ratio_at_most(parts: Floats, wholes: Floats, confidence: float) -> float:
    """Return an upper bound of the mean of parts over that of what they are parts of.

    Each group brings one pair in [0, 1], the part at most the whole, and however these depend on
    each other: a ratio is refuted where the mean of ratio * whole - part is shown to be above 0.

    >>> bounds = [ratio_at_most(np.full(n, 0.1), np.full(n, 0.5), 0.95) for n in (100, 1000)]
    >>> [round(bound, 2) for bound in bounds]
    [0.28, 0.21]
    """
    tail = 1.0 - argument_checks.share(confidence, "confidence")

    def stands(ratio: float) -> bool:
        return not _refuted(np.clip((1.0 + ratio * wholes - parts) / 2.0, 0.0, 1.0), 0.5, tail)

    return turning_point(stands, _STEPS)[1]


def further_values(
    values: ArrayLike, limit: float, above_error: float, below_error: float
) -> int | None:
    """Return about how many more values like these would show on which side of a limit they lie.

    Parameters
    ----------
    values : array-like of float, shape (n,)
        As seen; they are taken to come again in their order.
    limit : float
        What the mean is to reach.
    above_error, below_error : float
        With which probability a lower end that shows it at the limit or above, and an upper end
        that shows it below, may each err.

    Returns
    -------
    int or None
        0 where it is shown already. None where nothing was seen, the mean is the limit, or more
        than 65,000 are needed.

    Examples
    --------
    >>> seen = [1.0, 0.5, 1.0, 0.75] * 10
    >>> [further_values(seen, limit, 0.05, 0.025) for limit in (0.7, 0.75, 0.8125, 0.85)]
    [0, 33, None, 166]
    """
    shares = argument_checks.rates(values, "values", "value")
    edge = argument_checks.rate(limit, "limit")
    mean = math.fsum(shares.tolist()) / max(1, len(shares))
    if not len(shares) or mean == edge:
        return None
    above = mean > edge
    name = "above_error" if above else "below_error"
    tail = argument_checks.share(above_error if above else below_error, name)

    def shown(extra: int) -> bool:
        again = np.resize(shares, len(shares) + extra)
        return _refuted(again, edge, tail) if above else _refuted(1.0 - again, 1.0 - edge, tail)

    needed = first_where(shown, _MEAN_BOUND_NEVER + 1, 0)
    return needed if needed <= _MEAN_BOUND_NEVER else None


@lru_cache(maxsize=4)
def _lower(values: bytes, tail: float) -> float:
    """Return the highest mean that is refuted, wrongly with a probability of at most ``tail``."""
    shares = np.frombuffer(values)
    bets, goal = _bets(shares, tail), -math.log(tail)
    ends, sizes = [0.0, 2.0], [math.nan, math.nan]

    def wins(mean: float) -> bool:
        if ends[0] < mean < ends[1]:
            size = _won(shares, bets, mean) - goal
            ends[size < 0.0], sizes[size < 0.0] = mean, size
        return mean <= ends[0]

    # Bisection alone gives the same; beside where a secant turns are places that spare it steps.
    for mean in (0.5**_STEPS, 1.0, float(shares.mean())):
        wins(mean)
    for beside in (-_BESIDE, _BESIDE) * _SECANTS:
        if (width := ends[1] - ends[0]) > _ROUNDED:
            wins(ends[0] + width * (sizes[0] / (sizes[0] - sizes[1]) + beside))
    return turning_point(wins, _STEPS)[0]


def _refuted(shares: Floats, limit: float, tail: float) -> bool:
    """Return whether a mean of at most ``limit`` is refuted."""
    return limit <= 0.0 or _won(shares, _bets(shares, tail), limit) >= -math.log(tail)


def _bets(shares: Floats, tail: float) -> Floats:
    """Return for each value the bet that pays best at n values of the variance seen before it."""
    n = len(shares)
    seen = np.arange(1, n + 1)
    # A half and a quarter, as of a fair coin, stand for one value seen at the start.
    means = (0.5 + np.cumsum(shares)) / (seen + 1.0)
    spread = np.append(0.25, 0.25 + np.cumsum((shares - means) ** 2)[:-1])
    return np.asarray(np.sqrt(2.0 * math.log(1.0 / tail) * seen / (n * spread)))


def _won(shares: Floats, bets: Floats, limit: float) -> float:
    """Return the highest logarithm of the wealth against a mean of at most ``limit``."""
    gains = np.minimum(bets, _MOST / limit) * (shares - limit)
    return float(np.maximum.reduce(np.log1p(gains).cumsum()))


#: In how many cells a rate is searched for the worst pair, how often the other one is halved, and
#: how many terms a probability has.
_CELLS, _TRIES, _TERMS = 256, 24, 256


def cost_at_most(
    missed: tuple[int, int],
    alarms: tuple[int, int],
    weights: tuple[float, float],
    confidence: float,
) -> float:
    """Return an upper bound of a weighted sum of two rates, from two independent samples.

    It is the largest sum at which a sum of observed rates as low as this one has a probability
    above 1 - ``confidence`` (Buehler, 1957): both rates together err with that, where two exact
    ends would share it. That probability falls in either rate. So over a cell of the first rate no
    sum is larger than its upper end gives with the second rate that its lower end leaves: the
    search for the worst pair of rates rounds upward.

    Parameters
    ----------
    missed, alarms : pair of int
        How many of a class were decided wrongly, and how many there are; of none, all may be.
    weights : pair of float
        What each rate is multiplied by, above 0.
    confidence : float
        In (0, 1); one-sided.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> round(cost_at_most((10, 100), (20, 100), (2.0, 0.9), 0.95), 3)
    0.533
    >>> ends = [clopper_pearson(count, 100, 0.95)[1] for count in (10, 20)]
    >>> round(2.0 * ends[0] + 0.9 * ends[1], 3)
    0.615
    """
    delta = 1.0 - argument_checks.share(confidence, "confidence")
    first, second = map(float, argument_checks.finite(weights, "weights"))
    if not min(first, second) > 0.0:
        raise InputError(f"weights must be above 0; got {weights!r}")
    k, n = argument_checks.counts(*missed) if missed[1] else (1, 1)
    wrong, m = argument_checks.counts(*alarms) if alarms[1] else (1, 1)
    # Sums as low as this one: with so many missed, at most so many alarms. Of several numbers of
    # missed in one term, the lowest says how many.
    most = min(n, math.floor((k / n + wrong / m * second / first) * n + 1e-9))
    steps = np.unique(np.linspace(0, most + 1, min(most + 1, _TERMS) + 1).astype(np.int64))
    room = (first * (k - steps[:-1]) / n / second + wrong / m) * m + 1e-9
    room = np.minimum(np.floor(room), m)

    def below(misses: Floats, rate: Floats) -> Floats:
        reached = np.where(steps > 0, bdtr(steps - 1, n, misses[:, None]), 0.0)
        return np.asarray((np.diff(reached) * bdtr(room, m, rate[:, None])).sum(axis=1))

    # Beyond this no second rate is low enough.
    furthest = float(interval(most, n, proof_level(confidence))[1])
    edges = np.linspace(0.0, furthest, _CELLS + 1)
    low, high = np.zeros(_CELLS), np.ones(_CELLS)
    for _ in range(_TRIES):
        middle = (low + high) / 2.0
        above = below(edges[:-1], middle) > delta
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    bound = float((first * edges[1:] + second * high).max())
    return min(bound, float(first + second))


def coverage_band(
    calibration: Calibration | tuple[int, int], m: int, confidence: float
) -> tuple[int, int]:
    """Return the lowest and highest plausible number of caught hallucinations among m.

    Over calibration and test draws of continuous scores, the number of misses at the k-th of n
    calibration scores is BetaBinomial(m, k, n + 1 - k) (Vovk, 2012). With ties coverage only grows,
    so the upper end is no longer a limit then.

    Parameters
    ----------
    calibration : Calibration or (int, int)
        The threshold, or its rank and n.
    m : int
        Hallucinated test examples.
    confidence : float
        Level of the band; each tail holds at most half of the rest.

    Returns
    -------
    (int, int)
        Lowest and highest count caught, both plausible.

    Examples
    --------
    >>> coverage_band((5, 100), 200, 0.95)
    (178, 198)
    """
    k, n = calibration if isinstance(calibration, tuple) else (calibration.rank, calibration.n)
    k, n = argument_checks.counts(k, n, ("rank", "n"))
    m = argument_checks.whole(m, "m")
    tail = (1.0 - argument_checks.share(confidence, "confidence")) / 2.0
    if k == 0:
        if isinstance(calibration, tuple):
            raise InputError("rank must be at least 1; got 0")
        return m, m
    caught = np.arange(m + 1)
    a, b = n + 1 - k, k
    log_ways = gammaln(m + 1) - gammaln(caught + 1) - gammaln(m - caught + 1)
    log_mass = log_ways + betaln(caught + a, m - caught + b) - betaln(a, b)
    below = np.cumsum(np.exp(log_mass))
    below /= below[-1]
    # The sum ends at 1 up to rounding, which must not push the upper end out of range.
    lowest = int(np.searchsorted(below, tail))
    return min(lowest, m), min(int(np.searchsorted(below, 1.0 - tail)), m)


#: States with less than this probability are dropped; what is dropped counts as a crossing.
_NEGLIGIBLE: Final = 1e-14


def stays_below(
    limits: Sequence[int], increments: Iterable[tuple[int, Floats]], last: Callable[[Ints], Floats]
) -> float:
    """Return P(N_1 <= limits[0], ..., N_r <= limits[r - 1], N_{r + 1} = final count).

    N starts at 0 and grows by independent increments. The recursion over the steps is Noe's (1972),
    in the form of Moscovich and Nadler (2017): one convolution a step. It is exact up to rounding;
    states that are too unlikely to matter are dropped, which errs towards a crossing.

    Parameters
    ----------
    limits : sequence of int, length r
        Highest count allowed after each step, ascending.
    increments : iterable of (int, ndarray of float64), length r
        For each step the smallest growth that matters, and the probabilities of growing by it, by
        one more, and so on.
    last : callable
        The probabilities of reaching the final count from each of some counts N_r. Few of those
        that are allowed matter: they are asked for alone.

    Examples
    --------
    Two fair coins, at most one head in all:

    >>> coin = np.array([0.5, 0.5])
    >>> stays_below([1, 1], [(0, coin), (0, coin)], np.ones_like)
    0.75
    """
    lowest, state = 0, np.ones(1)
    for limit, (least, grow) in zip(limits, increments, strict=True):
        lowest += least
        large = min(len(state), len(grow)) > 128
        state = _fast_convolve(state, grow) if large else np.convolve(state, grow)
        state = state[: max(0, limit + 1 - lowest)]
        keep = int(state.cumsum().searchsorted(_NEGLIGIBLE))
        state, lowest = state[keep:], lowest + keep
        if not len(state):
            return 0.0
    return float(state @ last(np.arange(lowest, lowest + len(state))))


def _fast_convolve(a: Floats, b: Floats) -> Floats:
    """Return the convolution as ``scipy.signal.fftconvolve`` does, whose import takes a second."""
    from scipy.fft import irfft, next_fast_len, rfft  # takes long to import

    size = next_fast_len(len(a) + len(b) - 1, real=True)
    product: Floats = np.maximum(irfft(rfft(a, size) * rfft(b, size), size), 0.0)
    return product[: len(a) + len(b) - 1]


Method = Literal["berk-jones", "dkw"]


#: All ranks are controlled up to this n; beyond it, this many at most, evenly spread on the scale
#: on which shares have the same error everywhere, and the bound of the next rank serves in between.
_CONTROLLED: Final = 1000
#: Ranks next to either end that are always controlled.
_EDGE: Final = 64
#: The local level is found to within this share of the error that it may use up.
_PRECISION: Final = 0.005


def attainable_coverages(scores: ArrayLike) -> tuple[Floats, Floats]:
    """Return every distinct score as a threshold, with the share of scores that it catches.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated examples, n >= 1, finite.

    Returns
    -------
    (ndarray, ndarray) of float64, shape (d,)
        Thresholds ascending, and their empirical coverages descending from 1.

    Examples
    --------
    A yes/no judge that misses a third:

    >>> thresholds, coverages = attainable_coverages([0.0, 1.0, 1.0])
    >>> thresholds.tolist(), coverages.round(3).tolist()
    ([0.0, 1.0], [1.0, 0.667])
    """
    values = argument_checks.finite(scores)
    thresholds, repeats = np.unique(values, return_counts=True)
    below = np.cumsum(repeats) - repeats
    return thresholds, (len(values) - below) / len(values)


def lower_bounds(counts: Ints, n: int, error: float) -> Floats:
    """Return simultaneous lower bounds of the true shares behind counts out of n.

    With probability at least 1 - ``error``, for every c at once: the true share at the threshold
    that c of n scores reach is at least the bound.
    """
    ranks = controlled_ranks(n)
    place = np.searchsorted(ranks, counts, side="right") - 1
    bounds = betaincinv(ranks, n + 1 - ranks, local_level(n, error))
    return np.where(place >= 0, bounds[np.maximum(place, 0)], 0.0)


@lru_cache(maxsize=256)
def local_level(n: int, error: float) -> float:
    """Return the level of each rank's own bound such that all hold but for ``error``.

    The largest gamma, up to 0.5 %, with P(some controlled U_(c) < Beta(c, n + 1 - c) quantile at
    gamma) <= error, for n independent uniform U. The probability is computed, not simulated.
    """
    ranks = controlled_ranks(n)

    def crossed(gamma: float) -> float:
        edges = np.asarray(betaincinv(ranks, n + 1 - ranks, gamma), dtype=np.float64)
        return 1.0 - _below(ranks, edges, n)

    size = math.log(n)
    return largest_level(crossed, error, start=error / (1.0 + 2.5 * size + 0.5 * size**2))


def largest_level(crossed: Callable[[float], float], error: float, start: float) -> float:
    """Return the largest gamma, up to 0.5 %, whose crossing probability is at most ``error``.

    ``crossed`` grows with gamma, about in proportion; gamma never exceeds ``error`` itself.
    """
    safe, unsafe, gamma = 0.0, error, min(start, error)
    for _ in range(60):
        probability = crossed(gamma)
        if probability <= error:
            safe = gamma
            if probability >= error * (1.0 - _PRECISION) or gamma >= error:
                break
        else:
            unsafe = gamma
        # Aim a little below the error, in proportion; fall back on halving the bracket.
        gamma *= error * (1.0 - _PRECISION / 2.0) / max(probability, 1e-300)
        if not safe < gamma < unsafe:
            gamma = (safe + unsafe) / 2.0
        if unsafe - safe <= 1e-9 * unsafe:
            break
    return safe


@lru_cache(maxsize=64)
def controlled_ranks(n: int) -> Ints:
    """Return the ranks, ascending from 1, at which a band of n scores is controlled."""
    if n <= _CONTROLLED:
        return np.arange(1, n + 1)
    steps = min(_CONTROLLED, math.ceil(4.0 * math.pi * math.sqrt(n)))
    spread = np.rint(n * np.sin(np.linspace(0.0, math.pi / 2.0, steps + 1)) ** 2).astype(np.int64)
    edges = np.arange(1, _EDGE + 1)
    ranks = np.unique(np.concatenate([edges, np.clip(spread, 1, n), n + 1 - edges]))
    ranks.flags.writeable = False
    return ranks


def simultaneous_bounds(
    counts: Ints, n: Any, confidence: float, method: Method = "berk-jones"
) -> tuple[Floats, Floats]:
    """Return the band at thresholds that ``counts`` of n scores reach, unchecked.

    With "dkw" n may be an array: a band as low as those of samples in which fewer reach it.
    """
    error = (1.0 - confidence) / 2.0
    if method == "dkw":
        n = np.maximum(n, 1)  # none of no scores: any share
        margin, share = np.sqrt(-math.log(error) / (2.0 * n)), counts / n
        return np.maximum(share - margin, 0.0), np.minimum(share + margin, 1.0)
    return lower_bounds(counts, n, error), 1.0 - lower_bounds(n - counts, n, error)


def _below(ranks: Ints, edges: Floats, n: int) -> float:
    """Return P(U_(c) >= edge_c for every controlled c).

    That is: fewer than c of the n points lie below edge_c. Counts of n uniform points are those of
    a Poisson process of rate n, given that it ends at n.
    """
    means = n * np.diff(edges, prepend=0.0)
    joint = stays_below(
        (ranks - 1).tolist(),
        map(_growth, means.tolist()),
        lambda counts: _poisson(n - counts, n * (1.0 - edges[-1])),
    )
    return min(1.0, joint / float(_poisson(np.array(n), n)))


def _poisson(count: Ints, mean: float) -> Floats:
    """Return the Poisson probabilities of counts; ``scipy.stats`` takes a second to import."""
    return np.asarray(np.exp(xlogy(count, mean) - gammaln(count + 1.0) - mean))


def _growth(mean: float) -> tuple[int, Floats]:
    reach = 9.0 * math.sqrt(mean)
    growth = np.arange(max(0, int(mean - reach)), int(mean + reach + 25.0))
    return int(growth[0]), np.exp(growth * math.log(mean) - mean - gammaln(growth + 1.0))


#: Halvings of [0, 1]: ends are as exact as anybody reads them.
_HALVINGS: Final = 30
#: Between scales of the rows that a draw may stand for; and what rounding makes of their logarithm.
_STEP, _ROUNDING = 1.25, 1e-9

#: Why nothing follows: the test is positive as often where nothing is there, as far as is known; or
#: no share of the two classes gives as many positives as there are.
Unbounded = Literal["not_told_apart", "contradiction"]


class Interval(NamedTuple):
    """Ends of an interval within [0, 1]."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How far its ends are apart."""
        return self.upper - self.lower


#: What is known of a share of which nothing is known.
ANYTHING: Final = Interval(0.0, 1.0)


def share_behind(
    seen: Interval, where_there: Interval, where_not: Interval
) -> tuple[Interval, Unbounded | None]:
    """Return the interval of p = (seen - l) / (h - l), and why it is [0, 1] where nothing follows.

    Parameters
    ----------
    seen : Interval
        Of the share of positives.
    where_there, where_not : Interval
        Of h and of l.

    Examples
    --------
    >>> share, _ = share_behind(Interval(0.3, 0.34), Interval(0.85, 0.95), Interval(0.05, 0.15))
    >>> [round(end, 4) for end in share]
    [0.1875, 0.3625]
    >>> share_behind(Interval(0.3, 0.34), Interval(0.2, 0.95), Interval(0.05, 0.2))
    (Interval(lower=0.0, upper=1.0), 'not_told_apart')
    """
    if where_there.lower <= where_not.upper:
        return ANYTHING, "not_told_apart"
    corners = [
        (rate - low) / (high - low) for rate, high, low in product(seen, where_there, where_not)
    ]
    lower, upper = min(corners), max(corners)
    if lower > 1.0 or upper < 0.0:
        return ANYTHING, "contradiction"
    return Interval(max(0.0, lower), min(1.0, upper)), None


def mixed_share(flagged: Interval, in_flagged: Interval, in_passed: Interval) -> Interval:
    """Return the interval of a share among all, from those among flagged and passed answers.

    >>> mixed_share(Interval(0.25, 0.5), Interval(0.5, 0.75), Interval(0.0, 0.25))
    Interval(lower=0.125, upper=0.5)
    """
    return _over_corners(
        f * share + (1.0 - f) * other for f, share, other in product(flagged, in_flagged, in_passed)
    )


def rates_behind(
    flagged: Interval, in_flagged: Interval, in_passed: Interval
) -> tuple[Interval, Interval]:
    """Return the intervals of coverage and FPR, from the shares of hallucinated answers.

    >>> coverage, fpr = rates_behind(Interval(0.5, 0.5), Interval(0.75, 0.75), Interval(0.0, 0.25))
    >>> coverage, fpr
    (Interval(lower=0.75, upper=1.0), Interval(lower=0.2, upper=0.25))
    """
    corners = list(product(flagged, in_flagged, in_passed))
    coverage = _over_corners(_part(f * share, (1.0 - f) * other) for f, share, other in corners)
    fpr = _over_corners(
        _part(f * (1.0 - share), (1.0 - f) * (1.0 - other)) for f, share, other in corners
    )
    return coverage, fpr


def drawn_share(labels: Floats, rows: Floats, confidence: float, *, times: float = 1.0) -> Interval:
    """Return the interval, at all times, of a share of all rows, from draws that stand for some.

    A draw that stands for v rows counts with w = v / scale <= 1: its bet is a factor f^w. As
    E[f^w] <= (E f)^w and the logarithm is concave, bets with fixed stakes are about the mean of
    all rows so far, whatever drifts. The scale is the first v times a power of 1.25, the lowest
    that no v so far exceeds; the k-th such power has 1 / (k (k + 1)) of the capital.

    Parameters
    ----------
    labels : ndarray of float64, shape (n,)
        Of each draw, 0 or 1.
    rows : ndarray of float64, shape (n,)
        How many rows each draw stands for, known before its label; only their ratios matter.
    confidence : float
        Two-sided level.
    times : float
        As if each draw had been made so often.

    Examples
    --------
    >>> labels = np.array([1.0] * 20 + [0.0] * 80)
    >>> [round(end, 3) for end in drawn_share(labels, np.ones(100), 0.95)]
    [0.083, 0.353]
    """
    if not len(labels):
        return ANYTHING
    weight, goal = _weighed(rows, confidence, times)
    hits = float(np.sum(weight * labels))
    misses = float(np.sum(weight)) - hits
    lower, upper = lowest_limit(hits, misses, goal), 1.0 - lowest_limit(misses, hits, goal)
    return Interval(float(lower), float(upper))


def drawn_at_least(
    estimated: Floats, least: Floats, rows: Floats, confidence: float, *, times: float = 1.0
) -> float:
    """Return the lower end of such an interval from draws labelled with known probabilities.

    A factor is 1 + f (W - c) / (c - least), f a fraction: it is positive, and the higher the lower
    c is, so that bisection finds the end.

    Parameters
    ----------
    estimated : ndarray of float64, shape (k, n)
        W of each draw (see ``betting``) in k ways, which share the capital evenly.
    least : ndarray of float64, shape (k,)
        What no W falls below in each way; not above 0.
    rows, confidence, times
        As for `drawn_share`.
    """
    if not len(rows):
        return 0.0
    weight, goal = _weighed(rows, confidence, times)

    def won(limit: float) -> bool:
        gains = (estimated - limit) / (limit - least)[:, None]
        wealth = mixture(weight @ np.log1p(gains[..., None] * FRACTIONS))
        return float(np.logaddexp.reduce(wealth)) >= goal + float(np.log(len(least)))

    return turning_point(won, _HALVINGS)[0]


def _weighed(rows: Floats, confidence: float, times: float) -> tuple[Floats, float]:
    """Return with which weight each draw counts, and what the log of a wealth has to reach."""
    powers = np.ceil(np.log(np.max(rows) / rows[0]) / np.log(_STEP) - _ROUNDING)
    k = 1.0 + max(0.0, float(powers))
    weight = np.minimum(1.0, rows / (rows[0] * _STEP ** (k - 1.0))) * times
    return weight, float(np.log(2.0 * k * (k + 1.0) / (1.0 - confidence)))


def _part(of: float, other: float) -> float | None:
    """Return a share; None of nothing, beside which other corners have the ends."""
    return of / (of + other) if of + other > 0.0 else None


def _over_corners(values: Iterable[float | None]) -> Interval:
    found = [value for value in values if value is not None]
    return Interval(max(0.0, min(found)), min(1.0, max(found))) if found else ANYTHING
