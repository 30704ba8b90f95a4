"""History of a watch: counts by block and by day.

Recent rows are counted in blocks of 16; of older ones every two neighbours are merged, again and
again, so that a block is never longer than an eighth of the rows since it began (an exponential
histogram: Datar, Gionis, Indyk and Motwani, 2002), and their number grows as the logarithm of the
rows.

Periods are days (UTC), or 1,000 rows each while no time is known. A row belongs to the latest time
so far: a clock that goes back opens no period that is over. Above 512 periods every two neighbours
are merged.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import numpy as np

from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.monitoring import rows as features

#: Rows of the shortest blocks, which begin where the row's number is a multiple of it.
BASE: Final = 16
#: Blocks that stay as they are on each level, and those that are awaited before any are merged.
_BLOCKS_A_LEVEL: Final = 16
_MERGE_AFTER: Final = 8


class Blocks(NamedTuple):
    """Blocks of rows in their order.

    Attributes
    ----------
    row : ndarray of int64, shape (blocks,)
        Number of the first row.
    time : ndarray of float64, shape (blocks,)
        Its time; NaN where it is not known.
    counts : ndarray of int64, shape (blocks, features, bins)
        Values in each bin.
    totals : ndarray of float64, shape (blocks, features)
        Sums of the values.
    """

    row: Ints
    time: Floats
    counts: Ints
    totals: Floats

    def part(self, which: slice) -> "Blocks":
        """Return some of them."""
        return Blocks(self.row[which], self.time[which], self.counts[which], self.totals[which])

    def merge_pairs(self) -> "Blocks":
        """Return every two neighbours as one."""
        counts, totals = self.counts, self.totals
        return Blocks(
            self.row[::2], self.time[::2], counts[::2] + counts[1::2], totals[::2] + totals[1::2]
        )

    @classmethod
    def concatenate(cls, parts: "list[Blocks]") -> "Blocks":
        """Return several as one."""
        return cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))


class History:
    """Counts of all rows of a reference and of what was compared with it.

    Parameters
    ----------
    reference : Blocks
        One block: what was counted before.
    """

    def __init__(self, reference: Blocks) -> None:
        self.reference = reference
        #: From the shortest blocks, which are the latest, to the longest.
        self._levels = [reference.part(slice(0, 0))]

    def add(self, blocks: Blocks) -> None:
        """Add blocks that come after all others."""
        for level, before in enumerate(self._levels):
            held = Blocks.concatenate([before, blocks])
            if len(held.row) < _BLOCKS_A_LEVEL + _MERGE_AFTER:
                self._levels[level] = held
                return
            # An even number: a merged block begins where one of them did.
            many = (len(held.row) - _BLOCKS_A_LEVEL) // 2 * 2
            self._levels[level] = held.part(slice(many, None))
            blocks = held.part(slice(0, many)).merge_pairs()
        self._levels.append(blocks)

    def blocks(self) -> Blocks:
        """Return all blocks, the reference first."""
        return Blocks.concatenate([self.reference, *reversed(self._levels)])

    def to_dict(self, sizes: list[int]) -> dict[str, Any]:
        """Return what ``from_dict`` reads; feature i has ``sizes[i]`` bins."""
        return {
            "reference": _written(self.reference, sizes),
            "levels": [_written(level, sizes) for level in self._levels],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], bins: int, sizes: list[int]) -> Self:
        """Rebuild it; every feature has room for ``bins`` bins."""
        history = cls(_read(content["reference"], bins, sizes))
        history._levels = [_read(level, bins, sizes) for level in content["levels"]]
        return history


def _written(blocks: Blocks, sizes: list[int]) -> dict[str, Any]:
    return {
        "row": blocks.row.tolist(),
        "time": without_nan(blocks.time),
        "counts": [
            [int(k) for feature, n in zip(block, sizes, strict=True) for k in feature[:n]]
            for block in blocks.counts
        ],
        "totals": blocks.totals.tolist(),
    }


def _read(content: Mapping[str, Any], bins: int, sizes: list[int]) -> Blocks:
    n = len(content["row"])
    counts = np.zeros((n, len(sizes), bins), np.int64)
    held = np.array(content["counts"], np.int64).reshape(n, sum(sizes))
    for at, (size, end) in enumerate(zip(sizes, np.cumsum(sizes), strict=True)):
        counts[:, at, :size] = held[:, end - size : end]
    return Blocks(
        np.array(content["row"], np.int64),
        np.array(content["time"], np.float64),
        counts,
        np.array(content["totals"], np.float64).reshape(n, len(sizes)),
    )


#: Rows that are followed in one go, from a multiple of it.
BLOCK: Final = 512
#: Characters of an id that are kept: its chain and number find the rest.
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows that follow each other.

    Attributes
    ----------
    row : int
        Number of the first one in the stream.
    values : ndarray of float64, shape (features, n)
        As `features.table` makes it.
    time : ndarray of float64, shape (n,)
        Seconds since 1970; NaN where it is not known.
    flagged : ndarray of bool, shape (n,)
        Whether the outcome was not a pass.
    refs : tuple of (chain, seq, id), or None
        Where they stand in their logs.
    """

    row: int
    values: Floats
    time: Floats
    flagged: Bools
    refs: tuple[features.Ref | None, ...]

    @classmethod
    def from_rows(cls, row: int, rows: features.Rows, codes: dict[str, int]) -> Self:
        """Return rows as numbers; ``codes`` numbers the languages so far, and is added to."""
        refs: tuple[features.Ref | None, ...] = (None,) * len(rows)
        if rows.ref is not None:
            refs = tuple(ref if len(ref[2]) <= _LONGEST else _short(ref) for ref in rows.ref)
        return cls(row, features.table(rows, codes), rows.time, rows.flagged, refs)

    @classmethod
    def empty(cls, row: int = 0) -> Self:
        """Return no rows."""
        return cls(row, np.zeros((len(features.FEATURES), 0)), np.zeros(0), np.zeros(0, bool), ())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time)

    def cut(self, start: int, stop: int) -> Self:
        """Return the rows from ``start`` to before ``stop``; arrays are views."""
        which = slice(start, stop)
        arrays = self.values[:, which], self.time[which], self.flagged[which]
        return type(self)(self.row + start, *arrays, self.refs[which])

    def extend(self, later: Self) -> Self:
        """Return these rows and those that follow, as arrays of their own."""
        return type(self)(
            self.row,
            np.concatenate([self.values, later.values], axis=1),
            np.concatenate([self.time, later.time]),
            np.concatenate([self.flagged, later.flagged]),
            self.refs + later.refs,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` reads."""
        return {
            "row": self.row,
            "values": [without_nan(row) for row in self.values],
            "time": without_nan(self.time),
            "flagged": self.flagged.tolist(),
            "refs": [None if ref is None else [*ref] for ref in self.refs],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild them."""
        n = len(content["time"])
        return cls(
            content["row"],
            np.array(content["values"], np.float64).reshape(len(features.FEATURES), n),
            np.array(content["time"], np.float64).reshape(n),
            np.array(content["flagged"], bool).reshape(n),
            read_refs(content["refs"]),
        )


def _short(ref: features.Ref) -> features.Ref:
    chain, seq, name = ref
    return chain, seq, name[: _LONGEST - 1] + "…"


def without_nan(values: Floats) -> list[float | None]:
    """Return numbers as strict JSON can hold them, None for NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def read_refs(content: Sequence[Sequence[Any] | None]) -> tuple[features.Ref | None, ...]:
    """Return the places in logs that a state holds."""
    return tuple(None if ref is None else (ref[0], ref[1], ref[2]) for ref in content)


#: Periods that are kept apart at most.
MOST_PERIODS: Final = 512
#: Seconds of a period, and rows where no time is known.
_DAY, _ROWS = 86_400.0, 1_000
#: A clock that goes back by less is none: answers are logged side by side.
_JITTER: Final = 1.0
#: Languages that a period names; the others are counted together.
_MOST_NAMED: Final = 16

_NUMBERS: Final = [features.FEATURES.index(name) for name in features.NUMBERS]


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
    known: list[int] = field(default_factory=lambda: [0] * len(features.NUMBERS))
    totals: list[float] = field(default_factory=lambda: [0.0] * len(features.NUMBERS))
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
        self.languages = dict(Counter(self.languages) + Counter(later.languages))

    def close(self) -> None:
        """Keep the most frequent languages by name."""
        order = self.in_order()
        if len(order) > _MOST_NAMED:
            rest = sum(n for _, n in order[_MOST_NAMED - 1 :])
            frequent = dict(order[: _MOST_NAMED - 1])
            self.languages = {**frequent, features.OTHER: frequent.get(features.OTHER, 0) + rest}

    def in_order(self) -> list[tuple[str, int]]:
        """Return the languages, the most frequent one first."""
        return sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))

    def summary(self) -> dict[str, Any]:
        """Return what the status of a watch says of it."""
        means = zip(features.NUMBERS, self.totals, self.known, strict=True)
        return {
            "from": features.moment(self.begin),
            "to": features.moment(self.end),
            "row": self.row,
            "n": self.n,
            "flagged": self.flagged,
            "undefined": self.undefined,
            "failed": self.failed,
            "log_e": math.log(max(1.0, self.highest)),
            "means": {name: total / n for name, total, n in means if n},
            "languages": dict(self.in_order()),
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

    def follow(self, part: RowRun, highest: Floats, languages: Sequence[str]) -> None:
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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild it from its fields."""
        periods = [Period(**period) for period in content["periods"]]
        return cls(**{**content, "periods": periods})


def _period(
    part: RowRun, which: slice, clock: Floats, highest: Floats, languages: Sequence[str]
) -> Period:
    values, times = part.values[:, which], clock[which]
    begin, end = (None if math.isnan(time) else float(time) for time in (times[0], times[-1]))
    undefined, numbers = values[features.UNDEFINED], values[_NUMBERS]
    known = ~np.isnan(numbers)
    codes = values[features.LANGUAGE][~np.isnan(values[features.LANGUAGE])].astype(np.int64)
    counts = np.bincount(codes, minlength=features.MOST_LANGUAGES + 1)
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
            languages[code] if code < len(languages) else features.OTHER: int(counts[code])
            for code in np.flatnonzero(counts).tolist()
        },
    )
