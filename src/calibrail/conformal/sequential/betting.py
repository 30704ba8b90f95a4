"""E-processes, betting confidence sequences.

An answer is labelled with a known probability q. With H = 1 where it is hallucinated and a guess g
of that made before the label is seen, W = g + (L / q) (H - g) has the mean of H, whether it is
labelled (L = 1) or not (L = 0), however bad the guess. With F = 1 where it is flagged, the means
of hits = W F and of mass = W have the coverage as their ratio, and those of (1 - W) F and 1 - W
the FPR. "The share is at most c" says that Z = hits - c mass has a mean of at most 0; betting
lambda on it multiplies the wealth by 1 + lambda Z, which is positive as long as lambda is below
1 / max(-Z). The wealth, and the mean of the wealths of several bets fixed beforehand, are
supermartingales (Waudby-Smith and Ramdas, 2024, "Estimating means of bounded random variables by
betting"; Xu, Karampatziakis and Mineiro, 2024, "Active, anytime-valid risk controlling prediction
sets"). The bets are fixed, so the wealth does not depend on the order of the answers.

A bet against "the rate is at most the limit" multiplies a wealth of 1 by p / limit for each success
and by (1 - p) / (1 - limit) for each failure. While the claim is true the wealth is a
supermartingale for every p above the limit, and so is its mean over a uniform p above the limit,
which has a closed form. By Ville's inequality (1939) it ever reaches 1 / delta with probability at
most delta: whoever looks after every answer, and stops when it suits them, errs no more often than
whoever looks once. Mixtures of likelihood ratios: Robbins (1970); their inversion:
Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting".

A bet that a rate is on the wrong side of its limit multiplies a wealth of 1, draw by draw, by a
factor whose mean is at most 1 as long as the promise is kept at that draw, given all draws before:
P(flagged | hallucinated, past) at least the required coverage, or P(flagged | faithful, past) at
most the limit. The factors are those above (each answer counts one, or weighted answers), with the
sign that speaks against the promise.

A bet from the first draw on pays for all the time in which all was well. So one half of the capital
is laid on it, and of the other half w_j = 1 / (j (j + 1)) is laid on a bet that starts anew with
the j-th batch; what no batch has called for yet is kept. The starts are fixed beforehand and the
shares add up to 1: what all of it is worth is a supermartingale that starts at 1, and by Ville's
inequality it ever reaches 1 / delta with probability at most delta.

Laying 1 on a new bet at each draw, without end, gives the Shiryaev-Roberts e-detector (Shin, Ramdas
and Rinaldo, 2023, "E-detectors: a nonparametric framework for sequential change detection"):
R_t = (R_{t-1} + a_t) L_t. R less the sum of the a so far is a supermartingale. It finds a late
break sooner, and there is a false alarm now and then: with the sum A of both rates at an alarm,
A <= E[R_T] <= E[sum of a until T], the mean number of starts to a false alarm.

Bets are fixed shares of a mixture, each a product of factors; with P the product so far,
S_t = sum over starts s of a_s P_t / P_{s-1} needs one pass, whatever the number of starts.
"""

import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betaln, roots_legendre, xlog1py, xlogy

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.errors import InputError, errors_as
from calibrail.options.fields import yes_or_no

#: Bets as shares of the largest one that leaves a factor of 0, and how the first stake is split.
#: Simulated in both designs (see ``benchmarks/sequential.py``): drawing by a guess pays best near
#: the largest bet, labelling everything at a half to a tenth of it.
FRACTIONS: Final = np.array([0.9, 0.45, 0.225, 0.1125])
SPLIT: Final = np.array([0.5, 0.25, 0.125, 0.125])
_LOG_SPLIT: Final = np.log(SPLIT)
#: Rounding may take a mean over a group out of the range of its answers by this much.
_ROUNDING: Final = 1e-9


def estimated_labels(hallucinated: ArrayLike, probability: ArrayLike, guess: ArrayLike) -> Floats:
    """Return W = g + (L / q) (H - g): what each answer adds to the number of hallucinated ones.

    Parameters
    ----------
    hallucinated : array-like, shape (n,)
        Truth values or 0 and 1; None or NaN where the answer was drawn and not labelled.
    probability : array-like of float, shape (n,)
        With which each was labelled, in (0, 1], known before its label.
    guess : array-like of float, shape (n,)
        P(hallucinated) as guessed before the label, in [0, 1]. A wrong guess costs labels only.

    Returns
    -------
    ndarray of float64, shape (n,)
        In [1 - 1 / q, 1 / q].

    Raises
    ------
    InputError
        If a value is outside its domain, or shapes differ.

    Examples
    --------
    >>> estimated_labels([True, False, None], [0.5, 1.0, 0.2], [0.25, 0.5, 0.125]).tolist()
    [1.75, 0.0, 0.125]
    """
    labels = argument_checks.vector(hallucinated, "hallucinated")
    q, g = argument_checks.vector(probability, "probability"), argument_checks.rates(guess, "guess")
    for name, values in (("probability", q), ("guess", g)):
        argument_checks.paired(values, len(labels), name, "answer")
    known = ~np.isnan(labels)
    if not np.isin(labels[known], (0.0, 1.0)).all():
        raise InputError("hallucinated must hold true, false, or None where there is no label")
    if not np.all((q > 0.0) & (q <= 1.0)):
        raise InputError("probability must lie in (0, 1] for every answer")
    return np.asarray(np.where(known, g + (np.where(known, labels, 0.0) - g) / q, g))


def largest_bets(limit: Floats, floors: tuple[float, float]) -> Floats:
    """Return the bets that a worst answer would turn to 0: shape (2, ...) for above and below.

    W and 1 - W lie in [1 - 1/q, 1/q]; Z is (1 - limit) times that for a flagged and -limit times
    that for a passed answer.
    """
    flagged, passed = 1.0 / floors[0], 1.0 / floors[1]
    lost = np.maximum((1.0 - limit) * (flagged - 1.0), limit * passed)
    won = np.maximum((1.0 - limit) * flagged, limit * (passed - 1.0))
    return 1.0 / np.stack([lost, won])


def mixture(log_wealth: Floats) -> Floats:
    """Return the logarithm of the mean of the wealths of all bets: shape (..., bets) to (...)."""
    parts = log_wealth + _LOG_SPLIT
    highest = parts.max(axis=-1)
    scaled = np.exp(parts - highest[..., None])
    # Added one by one, so that a batch and a single answer give the same last bit.
    total = scaled[..., 0]
    for index in range(1, scaled.shape[-1]):
        total = total + scaled[..., index]
    return np.asarray(highest + np.log(total))


def reaches(log_wealth: Floats, goal: Floats) -> Bools:
    """Return ``mixture(log_wealth) >= goal``, which the best bet mostly decides alone."""
    parts = log_wealth + _LOG_SPLIT
    highest = functools.reduce(np.maximum, np.moveaxis(parts, -1, 0))
    reached = np.asarray(highest >= goal)
    near = ~reached & (highest > goal - 1.0 - np.log(len(SPLIT)))
    reached[near] = mixture(log_wealth[near]) >= np.broadcast_to(goal, near.shape)[near]
    return reached


#: Below this the tail of a beta distribution comes from its continued fraction.
_TINY: Final = 1e-250
#: Steps of the continued fraction; where the tail is as small as that, some dozens are enough.
_MOST_STEPS: Final = 10_000
#: Halvings of [0, 1] that leave nothing to a float.
_HALVINGS: Final = 60


def log_wealth(count: ArrayLike, n: ArrayLike, limit: float, *, above: bool = True) -> Floats:
    """Return the logarithm of the wealth won by betting that a rate is beyond its limit.

    Exact for independent answers, and for any others whose chance of success, given what came
    before, never is beyond the limit while the claim that is bet against is true.

    Parameters
    ----------
    count, n : array-like of int, broadcastable
        Successes among trials so far.
    limit : float
        In (0, 1).
    above : bool
        True to bet on a rate above the limit, False on one below it.

    Returns
    -------
    ndarray of float64
        At least log(1 / delta) ever with probability at most delta while the rate is not beyond
        the limit. 0 without trials; always finite.

    Raises
    ------
    InputError
        If a count is no whole number from 0 to its n, or the limit lies outside (0, 1).

    Examples
    --------
    40 of 40 caught show more than 0.9 at delta = 0.1, a wealth of 10; 39 of 40 do not:

    >>> np.round(np.exp(log_wealth([40, 39], 40, 0.9)), 1).tolist()
    [16.3, 3.4]
    >>> float(log_wealth(0, 0, 0.9))
    0.0
    """
    hits, trials = _counts(count, n)
    yes_or_no(above, "above")
    return wealth_of_counts(hits, trials - hits, argument_checks.share(limit, "limit"), above=above)


def confidence_sequence(
    count: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the limits that the bets on either side have not refuted so far.

    The inverted test: below the lower end are the limits against which betting on a rate above
    them has won 2 / (1 - confidence), above the upper end those with the other side turned. The
    intervals of all times hold together with this confidence, and so does their intersection up to
    any time.

    Parameters
    ----------
    count, n : array-like of int, broadcastable
        Successes among trials so far.
    confidence : float
        Two-sided level, in (0, 1).

    Returns
    -------
    (ndarray of float64, ndarray of float64)
        Lower and upper ends; [0, 1] without trials.

    Raises
    ------
    InputError
        If a count is no whole number from 0 to its n, or the confidence lies outside (0, 1).

    Examples
    --------
    >>> [round(float(end), 3) for end in confidence_sequence(95, 100, 0.95)]
    [0.855, 0.994]
    """
    hits, trials = _counts(count, n)
    error = 1.0 - argument_checks.share(confidence, "confidence")
    misses, goal = trials - hits, np.log(2.0 / error)
    return lowest_limit(hits, misses, goal), 1.0 - lowest_limit(misses, hits, goal)


def _counts(count: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Return counts and trials as floats, or raise naming the argument."""
    checked = []
    for name, given in (("count", count), ("n", n)):
        values = np.asarray(given)
        if values.dtype.kind not in "iu":
            raise InputError(f"{name} must hold whole numbers; got {given!r:.60}")
        if values.size and not 0 <= int(values.min()) <= int(values.max()) <= 10**12:
            raise InputError(f"{name} must hold whole numbers from 0 to 10^12; got {given!r:.60}")
        checked.append(values.astype(np.float64))
    with errors_as(InputError, ValueError, "counts_do_not_broadcast"):
        hits, trials = np.broadcast_arrays(*checked)
    if np.any(hits > trials):
        raise InputError("count must be at most n")
    return hits, trials


def wealth_of_counts(hits: Floats, misses: Floats, limit: ArrayLike, *, above: bool) -> Floats:
    """Return ``log_wealth`` of hits and misses that broadcast with ``limit``, unchecked.

    The mean over p in (limit, 1) of p^hits (1 - p)^misses / (limit^hits (1 - limit)^misses).
    """
    edge = np.asarray(limit, np.float64)
    a, b = hits + 1.0, misses + 1.0
    tail = betaincc(a, b, edge) if above else betainc(a, b, edge)
    with np.errstate(divide="ignore"):
        log_tail = np.log(tail)
    width = np.log1p(-edge) if above else np.log(edge)
    wealth = betaln(a, b) + log_tail - width - xlogy(hits, edge) - xlog1py(misses, -edge)
    wealth = np.asarray(np.where(hits + misses == 0.0, 0.0, wealth))
    far = tail < _TINY
    if np.any(far):
        a, b, edge = (item[far] for item in np.broadcast_arrays(a, b, edge))
        # I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * fraction: all that is tiny cancels.
        if above:
            wealth[far] = np.log(edge / b * _fraction(b, a, 1.0 - edge))
        else:
            wealth[far] = np.log((1.0 - edge) / a * _fraction(a, b, edge))
    return wealth


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return a B(a, b) I_x(a, b) / (x^a (1 - x)^b) for x far below a / (a + b).

    The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8) by
    Lentz's method.
    """
    d = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    c, value = np.ones_like(d), d
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d, c = 1.0 / (1.0 + term * d), 1.0 + term / c
            value = value * c * d
        if np.all(np.abs(c * d - 1.0) < 1e-15):
            break
    return np.asarray(value)


def lowest_limit(hits: ArrayLike, misses: ArrayLike, goal: float) -> Floats:
    """Return the lowest limit against which a bet on a rate above it has not won ``goal``.

    Of floats that broadcast, unchecked; ``goal`` is a logarithm. The end of an interval that alone
    holds at all times with an error of exp(-goal).
    """
    hits, misses = np.asarray(hits, np.float64), np.asarray(misses, np.float64)
    high: Floats = hits / np.maximum(hits + misses, _TINY)
    low = np.zeros_like(high)
    # At the rate seen no bet has won anything; the lower the limit, the more has been won.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        inside = (middle > 0.0) & (middle < 1.0)
        won = wealth_of_counts(hits, misses, np.where(inside, middle, 0.5), above=True) >= goal
        low, high = np.where(won & inside, middle, low), np.where(won & inside, high, middle)
    return low


#: Limits at which the bets are inverted: what intervals are rounded to.
LIMITS: Final = np.round(np.arange(0.01, 0.995, 0.01), 2)
#: Units that are computed in one go.
_CHUNK: Final = 256
#: Sides of the four wealths (0: above) and their rates (0: coverage), in the order of a verdict:
#: coverage kept, coverage broken, FPR kept, FPR broken.
_SIDES: Final = np.array([0, 1, 1, 0])
_RATES: Final = np.array([0, 0, 1, 1])


def zero_wealth() -> Floats:
    """Return the logarithms of all wealths before the first answer: shape (2, 2, limits, bets)."""
    return np.zeros((2, 2, len(LIMITS) + 1, len(FRACTIONS)))


def on_requirement(state: Floats) -> Floats:
    """Return the logarithms of the bets on the requirement, ordered as a verdict: (4, bets)."""
    return np.asarray(state[_SIDES, _RATES, -1])


def bet(
    state: Floats, units: Floats, edges: tuple[float, float], floors: tuple[float, float]
) -> Iterator[tuple[Floats, Floats]]:
    """Yield, part by part, the state after the units, and the four wealths after each of them.

    Parameters
    ----------
    state : ndarray of float64, shape (2, 2, limits, bets)
        By side (above, below), rate (coverage, FPR), limit and bet.
    units : ndarray of float64, shape (n, 4)
        Mass of hallucinated and of faithful answers, hits of both.
    edges, floors : (float, float)
        Required coverage and FPR; least probabilities of labelling a flagged and a passed answer.
    """
    limits = all_limits(edges)
    stakes = largest_bets(limits, floors)[..., None] * FRACTIONS
    for start in range(0, len(units), _CHUNK):
        # Units that are alike change the bets alike.
        kinds: dict[tuple[float, ...], int] = {}
        rows = map(tuple, units[start : start + _CHUNK].tolist())
        kind, part = [kinds.setdefault(row, len(kinds)) for row in rows], np.array([*kinds])
        gains = part[:, 2:, None] - limits * part[:, :2, None]
        change = np.log1p(np.stack([gains, -gains], axis=1)[..., None] * stakes)
        # Added one after the other, so that batches and single answers give the same bytes.
        steps = change[:, _SIDES, _RATES, -1][kind]
        path = np.add.accumulate(np.concatenate([on_requirement(state)[None], steps]))
        state = functools.reduce(np.add, (change[number] for number in kind), state)
        yield state, mixture(path[1:])


def required_steps(
    units: Floats, edges: tuple[float, float], floors: tuple[float, float]
) -> Floats:
    """Return what units add to the logarithms of the bets at the requirement: shape (..., 4, bets).

    The same as the last limit of ``bet``, for many streams at once: units of shape (..., 4).
    """
    limits = np.array(edges)
    stakes = largest_bets(limits, floors)[_SIDES, _RATES][:, None] * FRACTIONS
    gains = (units[..., 2:] - limits * units[..., :2])[..., _RATES] * np.where(_SIDES, -1.0, 1.0)
    return np.asarray(np.log1p(gains[..., None] * stakes))


def confidence_set(
    state: Floats, edges: tuple[float, float], goal: float
) -> list[tuple[float, float]]:
    """Return the lowest and highest limit of both rates that are not refuted, rounded outwards."""
    wealth, ends = mixture(state), []
    for rate, limits in enumerate(all_limits(edges)):
        order = np.argsort(limits, kind="stable")
        ascending = [0.0, *limits[order].tolist(), 1.0]
        above, below = (wealth[side, rate][order] >= goal for side in (0, 1))
        low = int(np.argmin(np.append(above, False)))
        high = int(np.argmin(np.append(below[::-1], False)))
        ends.append((ascending[low], ascending[-1 - high]))
    return ends


def all_limits(edges: tuple[float, float]) -> Floats:
    """Return the limits of both rates that are bet on, the required one last: (2, limits)."""
    return np.array([[*LIMITS, edge] for edge in edges])


#: Rates that a restarted bet mixes in place of all rates beyond the limit: the places and shares
#: of Gauss and Legendre, which come as close as can be to the mixture over all of them.
_NODES: Final = 32
_LOG_HALF: Final = float(np.log(0.5))


class Bets(NamedTuple):
    """What each draw adds to the logarithm of each of some bets.

    Attributes
    ----------
    changes : ndarray of float64, shape (n, bets)
    split : ndarray of float64, shape (bets,)
        Share of the capital on each bet; they add up to 1.
    from_start : ndarray of float64, shape (n,)
        Logarithm of the wealth of betting from the first draw on.
    """

    changes: Floats
    split: Floats
    from_start: Floats


def counted_bets(outcome: Floats, limit: float, *, above: bool) -> Bets:
    """Return bets on a rate of answers that count one each.

    Parameters
    ----------
    outcome : ndarray of float64, shape (n,)
        1 or 0; NaN where a draw says nothing about the rate.
    limit : float
        In (0, 1).
    above : bool
        Whether to bet on a rate above the limit, or on one below it.

    Returns
    -------
    Bets
        ``from_start`` is that of ``log_wealth``: all rates beyond the limit, mixed.
    """
    places, weights = roots_legendre(_NODES)
    share = (places + 1.0) / 2.0
    rates = limit + (1.0 - limit) * share if above else limit * share
    hit, miss = np.log(rates / limit), np.log((1.0 - rates) / (1.0 - limit))
    won, lost = outcome == 1.0, outcome == 0.0
    changes = won[:, None] * hit + lost[:, None] * miss
    hits, misses = np.cumsum(won).astype(np.float64), np.cumsum(lost).astype(np.float64)
    path = wealth_of_counts(hits, misses, limit, above=above)
    return Bets(changes, weights / weights.sum(), path)


def weighted_bets(
    hits: Floats, mass: Floats, limit: float, floors: tuple[float, float], *, above: bool
) -> Bets:
    """Return bets on E[hits] / E[mass]: ``from_start`` is the mixture of fixed bets.

    With a mass of 1 and means of groups as hits, this is the bet on the mean of any share in
    [0, 1], each group counting once.
    """
    stakes = largest_bets(np.array(limit), floors)[0 if above else 1] * FRACTIONS
    gains = (hits - limit * mass) * (1.0 if above else -1.0)
    changes = np.log1p(gains[:, None] * stakes)
    return Bets(changes, SPLIT, mixture(np.add.accumulate(changes, axis=0)))


def evidence(bets: Bets, starts: Ints) -> Floats:
    """Return the logarithm of what the start and all restarts together are worth after each draw.

    Parameters
    ----------
    bets : Bets
    starts : ndarray of int64, shape (batches,)
        Row of the first draw of each batch, ascending; known before the draw.

    Returns
    -------
    ndarray of float64, shape (n,)
        At least log(1 / delta) anywhere with probability at most delta while the promise is kept.
    """
    n = len(bets.from_start)
    if not n:
        return np.zeros(0)
    laid = np.zeros(n)
    laid[starts] = restart_shares(len(starts))
    with np.errstate(divide="ignore"):
        held = np.log(np.maximum(1.0 - np.cumsum(laid), 0.0))
    restarted = np.logaddexp(detector(bets, laid), held)
    return np.asarray(np.logaddexp(bets.from_start, restarted) + _LOG_HALF)


def detector(bets: Bets, laid: Floats) -> Floats:
    """Return log R after each draw: R_t = (R_{t-1} + laid_t) L_t, mixed over the bets.

    Parameters
    ----------
    bets : Bets
    laid : ndarray of float64, shape (n,)
        On a bet that starts with the draw, before its outcome is seen; with 1 at each draw of a
        class this is the Shiryaev-Roberts e-detector.

    Returns
    -------
    ndarray of float64, shape (n,)
        -inf before the first start.
    """
    if not len(laid):
        return np.zeros(0)
    path, before = _paths(bets)
    with np.errstate(divide="ignore"):
        parts = np.log(laid)[:, None] - before
    worth = path + np.logaddexp.accumulate(parts, axis=0) + np.log(bets.split)
    return np.asarray(np.logaddexp.reduce(worth, axis=1))


def largest_start(bets: Bets, laid: Floats, row: int) -> int:
    """Return the start whose bets are worth most after the draw of that row."""
    path, before = _paths(bets)
    with np.errstate(divide="ignore"):
        parts = np.log(laid[: row + 1])[:, None] - before[: row + 1] + path[row]
    return int(np.argmax(np.logaddexp.reduce(parts + np.log(bets.split), axis=1)))


def restart_shares(n: int) -> Floats:
    """Return which share of the restarted capital each of n batches gets: 1 / (j (j + 1)).

    >>> restart_shares(3).round(3).tolist()
    [0.5, 0.167, 0.083]
    """
    number = 1.0 + np.arange(n)
    return np.asarray(1.0 / (number * (number + 1.0)))


def _paths(bets: Bets) -> tuple[Floats, Floats]:
    """Return the logarithms of the products of all factors after each draw, and before it."""
    path = np.add.accumulate(bets.changes, axis=0)
    return path, np.vstack([np.zeros(len(bets.split)), path[:-1]])
