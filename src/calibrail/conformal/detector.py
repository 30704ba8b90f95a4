"""When did the ranks of a stream stop being uniform?

A bet turns a rank into a factor whose mean is 1 while ranks are uniform and independent. The
Shiryaev-Roberts e-detector R_t = (1 + R_{t-1}) L_t of a bet is what it has won from all starts so
far, as a stake of 1 is added at each; a weighted mean over bets is a detector, too. R_t - t is a
martingale while nothing changes, so that with a threshold A

- P(R reaches A within t values) <= t / A, at every t, and
- the mean number of values until it does is at least A

(Shin, Ramdas and Rinaldo, 2023, "E-detectors: a nonparametric framework for sequential change
detection"; Roberts, 1966; Volkhonskiy et al., 2017, for ranks). Several detectors on one stream
share the number of false alarms by a union bound: see ``alarm_threshold``.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats, Ints
from calibrail.errors import InputError
from calibrail.settings.checks import number, whole

# Chosen by simulation (150 streams a setting, a reference of 1,000 rows, 4,000 more before the
# change, threshold 1.2 million): median rows to the alarm 398, 110 and 44 for a normal score that
# shifts by 0.25, 0.5 and 1 standard deviations; 254 and 130 where its standard deviation becomes
# 1.3 and 0.7; 99 and 361 for 10 and 5 % of answers three standard deviations further out; 639, 614
# and 359 for a share that goes from 0.5 to 3 %, 2 to 6 % and 0 to 3 %. Without the bets on the ends
# the latter five take 490 rows and, most of them, more than 4,000; the others 1 to 4 % fewer.
# Stakes twice as large see 10 % of outliers 20 rows sooner, and the share of 2 % 300 rows later;
# more slopes, and other sizes of spread, changed nothing by more than a few percent.

#: Slopes of the bets that ranks have grown, or fallen.
_SHIFTS: Final = (0.25, 0.5, 0.9)
#: Sizes of the bets that ranks lie further out, or closer to the middle.
_SPREADS: Final = (0.4, 0.9)
#: Bets on an end of the range: the share of ranks there, and of the stake that is put on it.
_ENDS: Final = ((1 / 32, 0.04), (1 / 200, 0.015))

#: Number of bets.
N_BETS: Final = 2 * (len(_SHIFTS) + len(_SPREADS) + len(_ENDS))
#: Values that are followed in one go. The product of as many factors is far from the ends of the
#: range of floats: none is below 0.1.
_BLOCK: Final = 256
#: Streams that are followed in one go: what is computed of them stays in the processor's cache.
_STREAMS: Final = 16


def bets(ranks: ArrayLike) -> Floats:
    """Return the factor by which each bet multiplies its stake.

    Parameters
    ----------
    ranks : array-like of float, shape (streams, rows)
        In [0, 1].

    Returns
    -------
    ndarray of float64, shape (streams, N_BETS, rows)
        Positive; of mean 1 where a rank is uniform. 1 where the rank is NaN.
    """
    p = np.asarray(ranks, np.float64)
    factors = np.empty((p.shape[0], N_BETS, p.shape[1]))
    slope = 2.0 * p - 1.0
    bow = 1.5 * slope * slope - 0.5
    column = 0
    for size in _SHIFTS:
        factors[:, column] = 1.0 + size * slope
        factors[:, column + 1] = 1.0 - size * slope
        column += 2
    for size in _SPREADS:
        factors[:, column] = 1.0 + size * bow
        factors[:, column + 1] = 1.0 - size * bow
        column += 2
    for end, stake in _ENDS:
        won, lost = 1.0 - stake + stake / end, 1.0 - stake
        factors[:, column] = np.where(p >= 1.0 - end, won, lost)
        factors[:, column + 1] = np.where(p < end, won, lost)
        column += 2
    np.copyto(factors, 1.0, where=np.isnan(p)[:, None])
    return factors


def shiryaev_roberts(ranks: ArrayLike, start: ArrayLike) -> tuple[Floats, Floats]:
    """Follow the e-detector of each stream.

    Parameters
    ----------
    ranks : array-like of float, shape (streams, rows)
        In [0, 1], independent and uniform while nothing changes; NaN where a row has no value: the
        detector stays as it is.
    start : array-like of float, shape (streams, N_BETS)
        What each bet has won before; 0 at first.

    Returns
    -------
    detector : ndarray of float64, shape (streams, rows)
        The mean over the bets after each row. Up to a row it does not depend on what comes later.
    won : ndarray of float64, shape (streams, N_BETS)
        What each bet has won at the end, to go on with.

    Examples
    --------
    >>> detector, won = shiryaev_roberts([[0.5, 0.99, 0.98, 0.97]], np.zeros((1, N_BETS)))
    >>> detector.round(2).tolist()
    [[0.99, 2.09, 4.02, 7.32]]
    """
    p, won = np.asarray(ranks, np.float64), np.array(start, np.float64)
    if p.ndim != 2 or won.shape != (len(p), N_BETS):
        raise InputError(
            f"ranks must have shape (streams, rows), and start (streams, {N_BETS}); got {p.shape} "
            f"and {won.shape}"
        )
    detector = np.zeros(p.shape)
    for stream in range(0, len(p), _STREAMS):
        for first in range(0, p.shape[1], _BLOCK):
            part = slice(stream, stream + _STREAMS), slice(first, first + _BLOCK)
            path = _followed(p[part], won[part[0]])
            # Added one after the other: the order in which ``sum`` adds depends on the shape.
            for bet in range(N_BETS):
                detector[part] += path[:, bet]
            won[part[0]] = path[:, :, -1]
    detector /= N_BETS
    return detector, won


def _followed(ranks: Floats, start: Floats) -> Floats:
    """Return R of each bet after each row: (1 + R) L again and again, without a loop over rows.

    With P the product of the factors, R_t = P_t (R_0 + sum over s <= t of 1 / P_{s-1}): sums and
    products of positive numbers, in the order of the rows, so that nothing cancels.
    """
    # What has won beyond all bounds has raised its alarm long before.
    with np.errstate(over="ignore"):
        product = np.multiply.accumulate(bets(ranks), axis=2)
        staked = np.ones_like(product)
        np.divide(1.0, product[:, :, :-1], out=staked[:, :, 1:])
        np.copyto(staked, 0.0, where=np.isnan(ranks)[:, None])
        staked[:, :, 0] += start
        return np.asarray(product * np.add.accumulate(staked, axis=2))


def alarm_threshold(arl: float, n_detectors: int = 1) -> float:
    """Return where detectors of one stream raise an alarm: 2 ``arl`` times their number.

    Then some detector raises a false alarm within t rows with probability at most t / (2 arl), at
    every t, and so the mean number of rows to the first one is at least ``arl``: the sum of
    1 - t / (2 arl) over t. Their alarms are added up (union bound), not their detectors averaged:
    ranks of one feature are uniform given the past of that feature, and need not be given the
    past of the others, whose ties and correlations tell of the same values.

    >>> alarm_threshold(100_000, 6)
    1200000.0
    """
    if not number(arl, "arl") >= 1.0 or not np.isfinite(arl):
        raise InputError(f"arl must be a number of rows, at least 1; got {arl!r}")
    return 2.0 * float(arl) * whole(n_detectors, "n_detectors", least=1)


def first_alarms(ranks: ArrayLike, threshold: float) -> Ints:
    """Return after how many rows each stream's detector first reaches the threshold; 0 for never.

    >>> first_alarms([[0.1, 0.5, 0.9, 0.3, 0.7] * 8, [0.97] * 40], 1000.0).tolist()
    [0, 11]
    """
    p = np.asarray(ranks, np.float64)
    alarms = np.zeros(len(p), np.int64)
    won = np.zeros((len(p), N_BETS))
    going = np.arange(len(p))
    for first in range(0, p.shape[1], _BLOCK):
        detector, won = shiryaev_roberts(p[going, first : first + _BLOCK], won)
        over = detector >= validation.number(threshold, "threshold")
        raised = over.any(axis=1)
        alarms[going[raised]] = first + 1 + over.argmax(axis=1)[raised]
        going, won = going[~raised], won[~raised]
    return alarms
