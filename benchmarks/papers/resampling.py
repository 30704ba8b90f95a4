"""How far would a figure move with other questions, and with another split?

Answers to one question stay together, in every resample and on every side of a split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from cells import Measured
from numpy.typing import NDArray

from calibrail.data.splits import group_numbers
from calibrail.evaluation.stats.intervals import wilson

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

REPLICATES: Final = 500
TAILS: Final = (2.5, 97.5)


def members(groups: Sequence[str | None], rows: Rows | None = None) -> list[Rows]:
    """Return the rows of each group, of all rows or of those named."""
    chosen = np.arange(len(groups)) if rows is None else rows
    numbers = group_numbers([groups[i] for i in chosen.tolist()], len(chosen))
    order = np.argsort(numbers, kind="stable")
    return np.split(chosen[order], np.cumsum(np.bincount(numbers))[:-1])


def bootstrap(
    statistics: Callable[[Rows], Sequence[float]],
    groups: Sequence[Rows],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    stand_in: str = "",
) -> list[Measured]:
    """Return statistics of all rows, each with the percentile interval of resampled groups.

    A resample in which a statistic does not exist (a class is missing) is left out for it. An
    interval that misses the estimate, as that of a biased statistic can, is stretched to hold it.
    """
    every = np.concatenate(groups)
    estimates = np.asarray(statistics(np.sort(every)), dtype=np.float64)
    rng = np.random.default_rng(seed)
    drawn = np.empty((replicates, len(estimates)))
    for i in range(replicates):
        picked = rng.integers(0, len(groups), len(groups)).tolist()
        drawn[i] = statistics(np.concatenate([groups[j] for j in picked]))
    return [
        _stretched(float(estimate), column, len(every), stand_in)
        for estimate, column in zip(estimates, drawn.T, strict=True)
    ]


def splits(
    statistics: Callable[[Rows, Rows], Sequence[float]],
    groups: Sequence[Rows],
    *,
    share: float,
    replicates: int = 300,
    seed: int = 0,
) -> tuple[Floats, Floats, Floats]:
    """Return statistics of a random split: their mean, and the ends of their 95 % interval.

    ``statistics(calibration, test)`` is averaged over splits of the groups as they are. For the
    interval the groups are resampled first and all copies of one kept on one side, so that the
    data, the threshold and the test all vary.
    """
    rng = np.random.default_rng(seed)
    plain, moved = [], []
    for _ in range(replicates):
        for found, order in (
            (plain, rng.permutation(len(groups))),
            (moved, rng.integers(0, len(groups), len(groups))),
        ):
            distinct = rng.permutation(np.unique(order))
            calibrating = np.zeros(len(groups), dtype=bool)
            calibrating[distinct[: round(share * len(distinct))]] = True
            sides = [
                np.concatenate([groups[j] for j in order[calibrating[order] == side].tolist()])
                for side in (True, False)
            ]
            found.append(statistics(sides[0], sides[1]))
    mean = np.nanmean(np.array(plain, dtype=np.float64), axis=0)
    lower, upper = np.nanpercentile(np.array(moved, dtype=np.float64), TAILS, axis=0)
    return mean, np.minimum(lower, mean), np.maximum(upper, mean)


def share(estimate: float, lower: float, upper: float, n: int, stand_in: str = "") -> Measured:
    """Return a share whose interval is never narrower than Wilson's for ``n`` trials.

    Resampling finds no variation in a share of 0 or 1.
    """
    bound = wilson(round(estimate * n), n)
    return Measured(
        estimate,
        min(lower, bound.lower, estimate),
        max(upper, bound.upper, estimate),
        n,
        stand_in,
    )


def _stretched(estimate: float, drawn: Floats, n: int, stand_in: str) -> Measured:
    known = drawn[np.isfinite(drawn)]
    if not np.isfinite(estimate) or len(known) < 0.9 * len(drawn):
        raise ValueError("the statistic does not exist in one resample out of ten or more")
    lower, upper = np.percentile(known, TAILS)
    return Measured(estimate, min(float(lower), estimate), max(float(upper), estimate), n, stand_in)
