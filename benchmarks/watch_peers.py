"""What other monitors do with the same streams, vectorised; imported by ``watch_power.py``.

Two statistics between a fixed reference and a window of a stream, as Evidently (0.7.23) and NannyML
compute them from two columns, and the boundary of MAPIE's ``RiskMonitoring``. A stream raises its
first alarm at the end of the first window whose statistic is above a threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: What Evidently puts in the place of an empty bin's share.
EMPTY = 1e-4
#: With more values than this in its reference a column is binned by Evidently.
FEW_VALUES = 20


class Statistic(Protocol):
    """From references (streams, rows) and windows (streams, windows, rows) to statistics."""

    def __call__(self, reference: Floats, windows: Floats, /) -> Floats:
        """Return one statistic a window, shape (streams, windows)."""


def in_windows(stream: Floats, size: int) -> Floats:
    """Return the whole windows of streams of shape (streams, rows)."""
    n = stream.shape[1] // size
    return stream[:, : n * size].reshape(len(stream), n, size)


def kolmogorov_smirnov(reference: Floats, windows: Floats, /) -> Floats:
    """Return the largest distance between the two distribution functions, shape (streams, windows).

    The statistic of ``scipy.stats.ks_2samp``: its p-value only depends on it and the two sizes.
    """
    base = np.sort(reference, axis=1)
    most = np.empty(windows.shape[:2])
    for stream, sorted_base in enumerate(base):
        rows = np.sort(windows[stream], axis=1)
        size = rows.shape[1]
        # At each value of the window: shares at or below it, and below it, in both.
        at = np.searchsorted(sorted_base, rows, side="right") / len(sorted_base)
        below = np.searchsorted(sorted_base, rows, side="left") / len(sorted_base)
        step = np.arange(1, size + 1) / size
        # Of equal values the last one has the window's share at or below it, the first one that
        # below it; in between both differences are no larger than at these.
        last = np.append(rows[:, 1:] != rows[:, :-1], np.ones((len(rows), 1), bool), axis=1)
        first = np.append(np.ones((len(rows), 1), bool), last[:, :-1], axis=1)
        up = np.where(last, np.abs(step - at), 0.0)
        down = np.where(first, np.abs(step - 1.0 / size - below), 0.0)
        most[stream] = np.maximum(up, down).max(axis=1)
    return most


def population_stability(reference: Floats, windows: Floats, /) -> Floats:
    """Return the population stability index, shape (streams, windows), as Evidently bins it.

    Bins of equal width by Sturges' rule over reference and window together; one bin a value where
    the reference has at most 20.
    """
    found = np.empty(windows.shape[:2])
    for stream, base in enumerate(reference):
        rows = windows[stream]
        values = np.unique(base)
        if len(values) > FEW_VALUES:
            found[stream] = _by_width(base, rows)
        else:
            found[stream] = _by_value(base, rows)
    return found


def _by_width(base: Floats, rows: Floats) -> Floats:
    low = np.minimum(base.min(), rows.min(axis=1))[:, None]
    high = np.maximum(base.max(), rows.max(axis=1))[:, None]
    bins = int(np.ceil(np.log2(len(base) + rows.shape[1]) + 1.0))
    shares = []
    for values in (np.broadcast_to(base, (len(rows), len(base))), rows):
        place = np.minimum(((values - low) / (high - low) * bins).astype(np.int64), bins - 1)
        shares.append(_shares(place, bins))
    return _index(*shares)


def _by_value(base: Floats, rows: Floats) -> Floats:
    values = np.unique(np.append(base, rows))
    shares = [_shares(np.searchsorted(values, part), len(values)) for part in (base[None], rows)]
    here = (shares[0] > 0.0) | (shares[1] > 0.0)
    return _index(np.broadcast_to(shares[0], here.shape), shares[1], here)


def _shares(place: NDArray[np.int64], bins: int) -> Floats:
    offset = np.arange(len(place))[:, None] * bins
    counts = np.bincount((place + offset).ravel(), minlength=len(place) * bins)
    shares: Floats = counts.reshape(len(place), bins) / place.shape[1]
    return shares


def _index(base: Floats, rows: Floats, here: NDArray[np.bool_] | None = None) -> Floats:
    base, rows = (np.where(part > 0.0, part, EMPTY) for part in (base, rows))
    terms = (base - rows) * np.log(base / rows)
    total: Floats = np.where(True if here is None else here, terms, 0.0).sum(axis=1)
    return total


def first_above(statistic: Floats, threshold: float, size: int) -> Floats:
    """Return the row with which each stream's first window above the threshold ends, or inf."""
    above = statistic > threshold
    return np.where(above.any(axis=1), (above.argmax(axis=1) + 1.0) * size, np.inf)


def rows_per_alarm(first: Floats, rows: int) -> float:
    """Return the rows that were watched up to a first alarm or the end, for each first alarm."""
    alarms = int(np.isfinite(first).sum())
    return float(np.minimum(first, rows).sum()) / alarms if alarms else np.inf


def threshold_for(statistic: Floats, size: int, wanted: float) -> float:
    """Return the threshold at which the rows per first alarm come closest to the wanted ones.

    Statistics with few values cannot have any number of rows: it may be more, or fewer.
    """
    values, rows = np.unique(statistic.max(axis=1)), statistic.shape[1] * size

    def length(at: int) -> float:
        return rows_per_alarm(first_above(statistic, float(values[at]), size), rows)

    # The last value is above none of the statistics: no alarm at all.
    low, high = 0, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if length(middle) >= wanted else (middle, high)
    short, long = length(low), length(high)
    return float(values[low if wanted / short < long / wanted else high])


class RiskBoundary:
    """The lower bound of MAPIE's ``RiskMonitoring`` for many streams at once.

    The same boundary, interpolated between values of its variance process that lie close together;
    the class itself searches it again for every row of every stream.
    """

    def __init__(self, level: float, rows: int, boundary: Callable[[float], float]) -> None:
        #: Half of ``test_level`` is meant for the reference.
        self.level = level
        self._at = np.concatenate([np.linspace(0.0, 20.0, 401), np.geomspace(20.05, rows, 400)])
        self._value = np.array([boundary(float(v)) for v in self._at])

    @classmethod
    def of_mapie(cls, level: float, rows: int) -> RiskBoundary:
        """Return the boundary at a ``test_level``."""
        from mapie.exchangeability_testing.bounds import GammaExponentialMixtureBound

        # A half for the bound on the reference, and a half of the rest for the upper side.
        alpha = level / 4.0
        made = GammaExponentialMixtureBound(v_opt=1.0, c=1.0, alpha_opt=alpha)
        return cls(level, rows, lambda v: float(made(v=v, alpha=alpha)))

    def lower(self, risk: Floats) -> Floats:
        """Return the bound after each row of streams of shape (streams, rows)."""
        t = np.arange(1, risk.shape[1] + 1)
        mean = np.cumsum(risk, axis=1) / t
        before = np.append(np.full((len(risk), 1), 0.5), mean[:, :-1], axis=1)
        spread = np.cumsum((risk - before) ** 2, axis=1)
        bound = np.maximum(mean - np.interp(spread, self._at, self._value) / t, 0.0)
        return np.maximum.accumulate(bound, axis=1)
