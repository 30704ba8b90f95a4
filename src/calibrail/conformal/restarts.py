"""Was a promise kept at every draw, and if not: since when is it broken?

A bet that a rate is on the wrong side of its limit multiplies a wealth of 1, draw by draw, by a
factor whose mean is at most 1 as long as the promise is kept at that draw, given all draws before:
P(flagged | hallucinated, past) at least the required coverage, or P(flagged | faithful, past) at
most the limit. The factors are those of ``eprocess`` (each answer counts one) and of ``betting``
(weighted answers), with the sign that speaks against the promise.

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

from typing import Final, NamedTuple

import numpy as np
from scipy.special import roots_legendre

from calibrail.conformal.betting import FRACTIONS, SPLIT, largest_bets, mixture
from calibrail.conformal.eprocess import wealth_of_counts
from calibrail.conformal.validation import Floats, Ints

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
        ``from_start`` is that of ``eprocess.log_wealth``: all rates beyond the limit, mixed.
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
    """Return bets on E[hits] / E[mass], as ``betting.weighted_log_wealth`` makes them."""
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
    laid, kept = np.zeros(n), np.ones(n)
    laid[starts] = restart_shares(len(starts))
    kept -= np.cumsum(laid)
    with np.errstate(divide="ignore"):
        held = np.log(np.maximum(kept, 0.0))
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
