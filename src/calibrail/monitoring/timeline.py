"""What was there when: counts, means and languages, day after day?

Periods are days (UTC), or 1,000 rows each while no time is known. A row belongs to the latest time
so far: a clock that goes back opens no period that is over. Above 512 periods every two neighbours
are merged.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import numpy as np

from calibrail.conformal.validation import Floats
from calibrail.monitoring.features import (
    FEATURES,
    LANGUAGE,
    MOST_LANGUAGES,
    NUMBERS,
    OTHER,
    UNDEFINED,
)
from calibrail.monitoring.moments import moment
from calibrail.monitoring.part import Part

#: Periods that are kept apart at most.
MOST_PERIODS: Final = 512
#: Seconds of a period, and rows where no time is known.
_DAY, _ROWS = 86_400.0, 1_000
#: A clock that goes back by less is none: answers are logged side by side.
_JITTER: Final = 1.0
#: Languages that a period names; the others are counted together.
_MOST_NAMED: Final = 16

_NUMBERS: Final = [FEATURES.index(name) for name in NUMBERS]


@dataclass(slots=True)
class Period:
    """What happened between two moments.

    Attributes
    ----------
    row : int
        Number of the first row.
    begin, end : float or None
        Times of the first and the last row; None where they are not known.
    n, flagged, undefined, failed : int
        Rows, and those of each kind.
    highest : float
        The highest detector of any feature within it.
    known : list of int
        Rows with a value of each of `NUMBERS`.
    totals : list of float
        Sums of these.
    languages : dict of str to int
        Rows in each, the most frequent 16; further ones together.
    """

    row: int
    begin: float | None
    end: float | None
    n: int = 0
    flagged: int = 0
    undefined: int = 0
    failed: int = 0
    highest: float = 0.0
    known: list[int] = field(default_factory=lambda: [0] * len(NUMBERS))
    totals: list[float] = field(default_factory=lambda: [0.0] * len(NUMBERS))
    languages: dict[str, int] = field(default_factory=dict)

    def add(self, later: "Period") -> None:
        """Take in what happened right after."""
        self.end = later.end if self.end is None else (later.end or self.end)
        self.begin = later.begin if self.begin is None else self.begin
        for name in ("n", "flagged", "undefined", "failed"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.highest = max(self.highest, later.highest)
        self.known = [a + b for a, b in zip(self.known, later.known, strict=True)]
        self.totals = [a + b for a, b in zip(self.totals, later.totals, strict=True)]
        for name, n in later.languages.items():
            self.languages[name] = self.languages.get(name, 0) + n

    def close(self) -> None:
        """Keep the most frequent languages by name."""
        order = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        if len(order) > _MOST_NAMED:
            rest = sum(n for _, n in order[_MOST_NAMED - 1 :])
            kept = dict(order[: _MOST_NAMED - 1])
            self.languages = {**kept, OTHER: kept.get(OTHER, 0) + rest}

    def summary(self) -> dict[str, Any]:
        """Return what the status of a watch says of it."""
        means = zip(NUMBERS, self.totals, self.known, strict=True)
        order = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        return {
            "from": moment(self.begin),
            "to": moment(self.end),
            "row": self.row,
            "n": self.n,
            "flagged": self.flagged,
            "undefined": self.undefined,
            "failed": self.failed,
            "log_e": math.log(max(1.0, self.highest)),
            "means": {name: total / n for name, total, n in means if n},
            "languages": dict(order),
        }


@dataclass(slots=True)
class Timeline:
    """Periods in their order.

    Attributes
    ----------
    periods : list of Period
        The last one is still open.
    clock : float or None
        The latest time so far.
    key : int or None
        Of the open period: its day, or its thousand of rows.
    clock_back : int
        Rows whose time lies more than a second before the latest one.
    """

    periods: list[Period] = field(default_factory=list)
    clock: float | None = None
    key: int | None = None
    clock_back: int = 0

    def copy(self) -> Self:
        """Return a copy that goes its own way."""
        return copy.deepcopy(self)

    def follow(self, part: Part, highest: Floats, languages: Sequence[str]) -> None:
        """Count rows that lie in one block, with the highest detector after each."""
        rows = part.row + np.arange(len(part.time))
        before = math.nan if self.clock is None else self.clock
        clock = np.fmax.accumulate(np.concatenate([[before], part.time]))[1:]
        self.clock_back += int(np.sum(part.time < clock - _JITTER))
        keys = np.where(np.isnan(clock), -1 - rows // _ROWS, np.floor(clock / _DAY))
        starts = np.flatnonzero(np.diff(keys, prepend=math.nan))
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            which = slice(int(start), int(stop))
            period = _period(part, which, clock, highest, languages)
            if self.periods and self.key == int(keys[start]):
                self.periods[-1].add(period)
            else:
                self._open(period)
            self.key = int(keys[start])
        if not math.isnan(clock[-1]):
            self.clock = float(clock[-1])

    def _open(self, period: Period) -> None:
        if self.periods:
            self.periods[-1].close()
        if len(self.periods) >= MOST_PERIODS:
            for first, second in zip(self.periods[::2], self.periods[1::2], strict=True):
                first.add(second)
                first.close()
            self.periods = self.periods[::2]
        self.periods.append(period)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` reads."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild it."""
        periods = [Period(**period) for period in content["periods"]]
        return cls(**{**content, "periods": periods})


def _period(
    part: Part, which: slice, clock: Floats, highest: Floats, languages: Sequence[str]
) -> Period:
    values, times = part.values[:, which], clock[which]
    begin, end = (None if math.isnan(time) else float(time) for time in (times[0], times[-1]))
    undefined, numbers = values[UNDEFINED], values[_NUMBERS]
    known = ~np.isnan(numbers)
    codes = values[LANGUAGE][~np.isnan(values[LANGUAGE])].astype(np.int64)
    counts = np.bincount(codes, minlength=MOST_LANGUAGES + 1)
    return Period(
        part.row + which.start,
        begin,
        end,
        n=len(times),
        flagged=int(np.sum(part.flagged[which])),
        undefined=int(np.sum(undefined == 1.0)),
        failed=int(np.sum(np.isnan(undefined))),
        highest=float(highest[which].max()),
        known=[int(n) for n in known.sum(axis=1)],
        totals=[float(total) for total in np.where(known, numbers, 0.0).sum(axis=1)],
        languages={
            languages[code] if code < len(languages) else OTHER: int(counts[code])
            for code in np.flatnonzero(counts).tolist()
        },
    )
