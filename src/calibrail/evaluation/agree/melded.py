"""Which values may a rate have that is put together from shares, each known by its exact bounds?

Melding (Fay, Proschan and Brittain, "Combining one-sample confidence procedures for inference in
the two-sample case", 2015; for prevalence with an imperfect test: Bayer, Fay and Graubard,
"Confidence intervals for prevalence estimates from complex surveys with imperfect assays", 2023):
each independent share is drawn from the two beta distributions whose quantiles are Clopper and
Pearson's bounds. Where the rate rises with a share, its lower end takes the share's lower draws,
where it falls, the upper ones. The interval ends at quantiles of what the draws give. It has a
width at 0 and 1, and needs no least number of labels.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.agree.judge_labels import LabelCounts

#: Draws, the same ones for the same counts.
DRAWS: Final = 4000

Draws = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Draws of a quantity from the distributions of its lower and of its upper bounds.

    Attributes
    ----------
    low, high : ndarray of float64, shape (draws,)
        Each draw for itself; those of ``low`` are the smaller in distribution.
    """

    low: Draws
    high: Draws

    def turned(self) -> "Ends":
        """Return the ends of one minus the quantity."""
        return Ends(1.0 - self.high, 1.0 - self.low)

    def interval(self, level: float) -> Interval:
        """Return the interval of the quantity, within [0, 1]."""
        tail = (1.0 - level) / 2.0
        ends = np.quantile(self.low, tail), np.quantile(self.high, 1.0 - tail)
        lower, upper = (min(1.0, max(0.0, float(end))) for end in ends)
        return lower, upper


def share(count: float, n: float, rng: np.random.Generator) -> Ends:
    """Return draws of a share from its Clopper-Pearson bounds; without a trial it may be anything.

    Examples
    --------
    >>> ends = share(10, 10, np.random.default_rng(0))
    >>> round(ends.interval(0.95)[0], 2), ends.interval(0.95)[1]
    (0.69, 1.0)
    """
    low = rng.beta(count, n - count + 1, DRAWS) if count > 0 else np.zeros(DRAWS)
    high = rng.beta(count + 1, n - count, DRAWS) if count < n else np.ones(DRAWS)
    return Ends(low, high)


def by_error_rates(counts: LabelCounts, level: float, *, flagged: bool) -> Interval:
    """Return the interval of Rogan and Gladen's estimate.

    Of the share of hallucinated answers (c - e) / (s - e), which rises with the share c that the
    judge calls hallucinated, and falls with its sensitivity s and its errors e = P(J | faithful).
    Of the flagged among the hallucinated with the share v that is flagged and c of the flagged and
    of the passed: v (c1 - e) over that plus (1 - v) (c0 - e), which rises with v and c1, falls with
    c0, and rises with e if c1 > c0. Both [0, 0] and [1, 1] say that the rate lies outside.
    """
    rng = np.random.default_rng(0)
    table, rows = counts.both.sum(axis=2), counts.both.sum(axis=0) + counts.judge_alone
    error = share(table[0, 1], table[0].sum(), rng)
    if flagged:
        n_passed, n_flagged = rows.sum(axis=0)
        v = share(n_flagged, n_flagged + n_passed, rng)
        passed, caught = (share(rows[1, k], n, rng) for k, n in ((0, n_passed), (1, n_flagged)))
        if rows[1, 1] * n_passed < rows[1, 0] * n_flagged:
            error = Ends(error.high, error.low)
        above = _above(caught.low - error.low), _above(caught.high - error.high)
        below = _above(passed.high - error.low), _above(passed.low - error.high)
        return _part(v, Ends(*above), Ends(below[1], below[0])).interval(level)
    called, hits = share(rows[1].sum(), rows.sum(), rng), share(table[1, 1], table[1].sum(), rng)
    low = _ratio(called.low - error.high, hits.high - error.high, 0.0)
    high = _ratio(called.high - error.low, hits.low - error.low, 1.0)
    return Ends(low, high).interval(level)


def by_strata(counts: LabelCounts, level: float, *, flagged: bool) -> Interval:
    """Return the interval of a rate from the human labels within each judge label (and flag).

    Where people have labelled a random sample, those among the answers that the judge calls alike
    (and that are flagged alike) are one, too, and how many such answers there are is known of all.
    """
    rng = np.random.default_rng(0)
    rows = counts.both.sum(axis=0) + counts.judge_alone
    if not flagged:
        return _mixed(counts.both.sum(axis=2), rows.sum(axis=1), rng).interval(level)
    v = share(rows[:, 1].sum(), rows.sum(), rng)
    passed, caught = (_mixed(counts.both[:, :, k], rows[:, k], rng) for k in (0, 1))
    return _part(v, caught, passed).interval(level)


def _mixed(table: NDArray[np.int64], rows: NDArray[np.int64], rng: np.random.Generator) -> Ends:
    """Return the share of label 1 among answers of two judge labels, by human and judge label."""
    called = share(rows[1], rows.sum(), rng)
    no, yes = (share(table[1, judge], table[:, judge].sum(), rng) for judge in (0, 1))
    if table[1, 1] * table[:, 0].sum() < table[1, 0] * table[:, 1].sum():
        called, no, yes = called.turned(), yes, no
    return Ends(
        called.low * yes.low + (1.0 - called.low) * no.low,
        called.high * yes.high + (1.0 - called.high) * no.high,
    )


def _part(v: Ends, flagged: Ends, passed: Ends) -> Ends:
    """Return the flagged share of a class, from its shares of the flagged and of the passed."""
    return Ends(
        _ratio(v.low * flagged.low, v.low * flagged.low + (1.0 - v.low) * passed.high, 0.0),
        _ratio(v.high * flagged.high, v.high * flagged.high + (1.0 - v.high) * passed.low, 1.0),
    )


def _above(values: Draws) -> Draws:
    """Return values, none of them below 0."""
    return np.maximum(0.0, values)


def _ratio(above: Draws, below: Draws, unknown: float) -> Draws:
    """Return a quotient, and where its denominator is not above 0 what is not ruled out."""
    result: Draws = np.full(len(above), unknown)
    np.divide(above, below, out=result, where=below > 0.0)
    return result
