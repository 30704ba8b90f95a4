"""Rank e-detector, change point, Shiryaev-Roberts.

A bet turns a rank into a factor whose mean is 1 while ranks are uniform and independent. The
Shiryaev-Roberts e-detector R_t = (1 + R_{t-1}) L_t of a bet is what it has won from all starts so
far, as a stake of 1 is added at each; a weighted mean over bets is a detector, too. R_t - t is a
martingale while nothing changes, so that with a threshold A

- P(R reaches A within t values) <= t / A, at every t, and
- the mean number of values until it does is at least A

(Shin, Ramdas and Rinaldo, 2023, "E-detectors: a nonparametric framework for sequential change
detection"; Roberts, 1966; Volkhonskiy et al., 2017, for ranks). Several detectors on one stream
share the number of false alarms by a union bound: see ``alarm_threshold``.

The stream is given as counts of its values in bins, block after block. A change at the beginning of
block j says that what came before is drawn from one distribution over the bins, and the rest from
another; the log-likelihood of that is the sum of count log(count / total) of both parts. The
estimate is the j where it is greatest, and the interval all j where it is nearly as great
(Siegmund, 1988, "Confidence sets in change-point problems"; Eo and Morley, 2015, "Quantifying the
uncertainty of changepoints" of a likelihood, section 3).

Values are counted in bins that were fixed before the first of them. With ``less`` and ``equal`` of
the n values counted so far in lower bins and in the bin of a new value, and a uniform U,
(less + U (equal + 1)) / (n + 1) is its smoothed conformal p-value. While all values, the counted
ones among them, are exchangeable, the p-values of the stream are independent and uniform on [0, 1]:
exactly, for ties and discrete values, too (Vovk, Gammerman and Shafer, 2005, "Algorithmic learning
in a random world", theorem 8.2; Vovk, 2021, "Testing randomness online"). Ranks among a reference
that does not grow are uniform each, but not independent of one another; and bins that are chosen
from the very values that are counted would tell them apart from those that come later.
"""

from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.errors import InputError
from calibrail.options.fields import number, whole

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
    slope, of_bets = 2.0 * p - 1.0, list[Floats]()
    bow = 1.5 * slope * slope - 0.5
    for size, form in (*product(_SHIFTS, [slope]), *product(_SPREADS, [bow])):
        of_bets += [1.0 + size * form, 1.0 - size * form]
    for end, stake in _ENDS:
        won, lost = 1.0 - stake + stake / end, 1.0 - stake
        of_bets += [np.where(p >= 1.0 - end, won, lost), np.where(p < end, won, lost)]
    factors = np.stack(of_bets, axis=1)
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


#: Bins are joined into groups between these shares of the reference: many bins have many empty
#: cells after a change, whose noise moves the maximum; a change in the ends is seen there.
_CUTS: Final = (0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99)
#: The interval holds the blocks whose likelihood ratio statistic, twice the difference to the
#: greatest, is at most this. 7.35 is the 95 % point where both distributions are known
#: (-2 ln(1 - sqrt 0.95)); that they are estimated, and that the alarm chose when to look, takes the
#: rest. Simulated at the alarm, after 500 to 4,500 values before the change, the interval held the
#: change in 94 to 100 % (shifts of 0.25 to 1 standard deviations, spreads of 0.7 and 1.3, 3 and
#: 10 % of outliers, shares from 0.5, 2 and 30 % to 3, 6 and 40 %).
_NEARLY: Final = 9.0


class ChangePoint(NamedTuple):
    """The first block after a change: the likeliest, and the ends of the interval.

    A change within block j looks like one at the beginning of block j or j + 1: in rows, the
    interval reaches from the beginning of block ``lower - 1`` to the end of block ``upper``.
    """

    estimate: int
    lower: int
    upper: int


def change_point(counts: ArrayLike) -> ChangePoint:
    """Return where the distribution over bins changed, if it did so once.

    Parameters
    ----------
    counts : array-like of int, shape (blocks, bins)
        Values in each bin; block 0 is the reference, before any change.

    Examples
    --------
    >>> change_point([[50, 50], [5, 5], [1, 9], [0, 10], [1, 9]])
    ChangePoint(estimate=2, lower=1, upper=3)
    """
    blocks = np.asarray(counts, np.float64)
    reference = blocks[0]
    middle = (np.cumsum(reference) - reference / 2.0) / max(1.0, reference.sum())
    group = np.searchsorted(_CUTS, middle)
    joined = blocks @ (group[:, None] == np.arange(len(_CUTS) + 1)).astype(np.float64)
    before = np.cumsum(joined, axis=0)[:-1]
    likelihood = _likelihood(before) + _likelihood(joined.sum(axis=0) - before)
    estimate = int(likelihood.argmax())
    nearly = np.flatnonzero(2.0 * (likelihood[estimate] - likelihood) <= _NEARLY)
    return ChangePoint(estimate + 1, int(nearly[0]) + 1, int(nearly[-1]) + 1)


def _likelihood(counts: Floats) -> Floats:
    total = counts.sum(axis=1)
    return np.asarray(xlogy(counts, counts).sum(axis=1) - xlogy(total, total))


#: Rows whose order among themselves is told by comparing each with each.
_STEP: Final = 16
#: Comparisons that are held in memory at once.
_AT_ONCE: Final = 1 << 22
#: Row i of a step comes after row j.
_BEFORE: Final = np.tril(np.ones((_STEP, _STEP), bool), -1)


def stream_ranks(bins: ArrayLike, uniforms: ArrayLike, counts: ArrayLike) -> tuple[Floats, Ints]:
    """Return the randomised rank of each value among the counted ones, and the new counts.

    Parameters
    ----------
    bins : array-like of int, shape (streams, rows)
        Bin of each value, from 0; negative where a row has none: it is skipped.
    uniforms : array-like of float, shape (streams, rows)
        Independent draws from [0, 1), one for each value.
    counts : array-like of int, shape (streams, n_bins)
        How many values each bin counted before.

    Returns
    -------
    ranks : ndarray of float64, shape (streams, rows)
        In [0, 1); higher = a higher bin than most before. NaN where a row has no value.
    counts : ndarray of int64, shape (streams, n_bins)
        With these values. A stream that is cut anywhere and goes on with them has the same ranks.

    Examples
    --------
    >>> ranks, counts = stream_ranks([[1, 0, -1, 1]], [[0.5, 0.5, 0.5, 0.5]], [[1, 0]])
    >>> ranks.tolist(), counts.tolist()
    ([[0.75, 0.3333333333333333, nan, 0.75]], [[2, 2]])
    """
    where, u = np.asarray(bins, np.int64), np.asarray(uniforms, np.float64)
    total, ranks = np.array(counts, np.int64), np.empty(u.shape)
    rows = max(1, _AT_ONCE // (_STEP * max(1, len(where)))) * _STEP
    for start in range(0, where.shape[1], rows):
        part = slice(start, start + rows)
        less, equal, n, total = _before(where[:, part], total)
        ranks[:, part] = (less + u[:, part] * (equal + 1)) / (n + 1)
    ranks[where < 0] = np.nan
    return ranks, total


def _before(bins: Ints, counts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return what was counted before each value: in lower bins, in its own, and at all."""
    streams, rows = bins.shape
    n_bins, steps = counts.shape[1], -(-rows // _STEP)
    # What has no value, and what fills up the last step, is counted in a bin of its own.
    padded = np.full((streams, steps * _STEP), n_bins)
    padded[:, :rows] = np.where(bins < 0, n_bins, bins)
    place = (np.arange(streams)[:, None] * steps + np.arange(steps * _STEP) // _STEP) * (n_bins + 1)
    cells = np.bincount((place + padded).ravel(), minlength=streams * steps * (n_bins + 1))
    # Held before each step, and after the last one.
    held = np.zeros((streams, steps + 1, n_bins + 1), np.int64)
    held[:, 0, :n_bins] = counts
    held[:, 1:] = cells.reshape(streams, steps, n_bins + 1)
    np.cumsum(held, axis=1, out=held)
    below = np.zeros((streams, steps, n_bins + 1), np.int64)
    np.cumsum(held[:, :-1, :-1], axis=2, out=below[:, :, 1:])
    own = padded.reshape(streams, steps, _STEP)
    small = np.asarray(own, np.int16)
    mine, theirs = small[..., :, None], small[..., None, :]
    less = np.take_along_axis(below, own, 2) + _count((theirs < mine) & _BEFORE)
    equal = np.take_along_axis(held[:, :-1], own, 2) + _count((theirs == mine) & _BEFORE)
    present = bins >= 0
    n = counts.sum(axis=1)[:, None] + np.cumsum(present, axis=1) - present
    less, equal = (values.reshape(streams, steps * _STEP)[:, :rows] for values in (less, equal))
    return less, equal, n, held[:, -1, :n_bins].copy()


def _count(marks: Bools) -> Ints:
    return np.asarray(np.sum(marks, axis=-1, dtype=np.int8), np.int64)
