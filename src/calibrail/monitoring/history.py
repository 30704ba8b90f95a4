"""Rows of decisions, and their history by periods and blocks.

Bins are fixed by the first quarter of a reference, before anything is counted in them.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.serialization import Record
from calibrail.text.words import measure_texts

#: Where an answer stands in its log: chain, number in it, and the answer's own id.
Ref = tuple[str, int, str]

#: Characters of a language's code (RFC 5646, section 4.4.1).
_LONGEST_CODE: Final = 35
#: Columns of numbers that are NaN where they are not known.
_MEASURED: Final = ("time", "question_length", "response_length", "chunks")


@dataclass(frozen=True, slots=True)
class Rows:
    """Decided answers in the order in which they came; `Rows.of` makes and checks them.

    Attributes
    ----------
    score : ndarray of float64, shape (n,)
        Higher = more likely hallucinated; NaN where it is undefined or the detector failed.
    undefined, failed, flagged : ndarray of bool, shape (n,)
        Whether there is no score; whether the detector failed; whether the outcome was not a pass.
    time : ndarray of float64, shape (n,)
        Seconds since 1970 (UTC); NaN where it is not known.
    question_length, response_length, chunks : ndarray of float64, shape (n,)
        Characters, and retrieved chunks; NaN where they are not known.
    language : ndarray of object, shape (n,)
        Its code; None where it is not known.
    ref : tuple of (chain, seq, id), or None
        Where each answer stands in its log, to name those behind an alarm.
    """

    score: Floats
    undefined: Bools
    failed: Bools
    flagged: Bools
    time: Floats
    question_length: Floats
    response_length: Floats
    chunks: Floats
    language: NDArray[np.object_]
    ref: tuple[Ref, ...] | None = None

    @classmethod
    def of(cls, score: ArrayLike, flagged: ArrayLike, **columns: Any) -> Self:
        """Return rows of what is known, the rest filled in as not known.

        Parameters
        ----------
        score : array-like of float, shape (n,)
            Finite; NaN or None where there is none.
        flagged : array-like of bool, shape (n,)
            Whether the outcome was anything but a pass.
        **columns
            Further attributes of `Rows`, each of n entries. A row without a score is undefined
            unless ``failed`` says that the detector failed.

        Raises
        ------
        InputError
            If a column is of another length or kind, or a row has a score and should have none.

        Examples
        --------
        >>> rows = Rows.of([0.2, None], [False, True], chunks=[3, 4])
        >>> len(rows), rows.undefined.tolist(), rows.language.tolist()
        (2, [False, True], [None, None])
        """
        if unknown := sorted(set(columns) - {item.name for item in fields(cls)}):
            known = ", ".join(item.name for item in fields(cls))
            raise InputError(f"unknown column {unknown[0]!r} of rows; known are {known}")
        values = argument_checks.scores(score, "score")
        n = len(values)
        failed = _flags(columns.get("failed"), "failed", n)
        nothing = np.isnan(values)
        undefined = _flags(columns.get("undefined"), "undefined", n, nothing & ~failed)
        wrong = np.flatnonzero(nothing != (undefined | failed))
        if len(wrong) or (wrong := np.flatnonzero(undefined & failed)).size:
            row = int(wrong[0])
            score, lost, fault = values[row], undefined[row], failed[row]
            raise InputError.on("score_or_reason", row=row, score=score, lost=lost, fault=fault)
        numbers = {name: _numbers(columns.get(name), name, n) for name in _MEASURED}
        language = _languages(columns.get("language"), n)
        ref = columns.get("ref")
        if ref is not None:
            argument_checks.paired(ref, n, "ref", "row")
            ref = tuple((str(chain), int(seq), str(name)) for chain, seq, name in ref)
        stopped = _flags(flagged, "flagged", n)
        return cls(values, undefined, failed, stopped, **numbers, language=language, ref=ref)

    @classmethod
    def decided(
        cls, decisions: Sequence[Decision], examples: Sequence[Example] | None = None
    ) -> Self:
        """Return the rows of decisions, with lengths and languages of what they are about.

        Raises
        ------
        InputError
            If there is not one example for each decision.
        """
        if wrong := [item for item in decisions if not isinstance(item, Decision)]:
            raise InputError(f"a watch takes in Rows or decisions; got {wrong[0]!r:.80}")
        columns: dict[str, Any] = {"failed": [item.failed for item in decisions]}
        if examples is not None:
            argument_checks.paired(examples, len(decisions), "examples", "decision")
            columns |= measured(examples)
        scores = np.array([item.score for item in decisions], np.float64)
        return cls.of(scores, [item.flagged for item in decisions], **columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.score)

    def part(self, start: int, stop: int) -> Self:
        """Return the rows from ``start`` to before ``stop``; arrays are views."""
        columns: Any = (getattr(self, item.name) for item in fields(self))
        cut: Any = (None if values is None else values[start:stop] for values in columns)
        return type(self)(*cut)


def measured(examples: Iterable[Example]) -> dict[str, list[Any]]:
    """Return lengths, numbers of chunks and languages of answers, as columns of `Rows`."""
    found = [measure_texts(item.question, item.contexts, item.response) for item in examples]
    names = {"question_length": "question", "response_length": "response"}
    names |= {"chunks": "chunks", "language": "language"}
    return {column: [item[name] for item in found] for column, name in names.items()}


def _flags(given: Any, name: str, n: int, default: Any = False) -> Bools:
    values = np.asarray(np.broadcast_to(default, n) if given is None else given)
    if values.shape != (n,) or not np.isin(values, (False, True)).all():
        raise InputError(f"{name} must hold true or false, one for each of {n} rows")
    return values.astype(bool)


def _numbers(given: Any, name: str, n: int) -> Floats:
    if given is None:
        return np.full(n, np.nan)
    values = argument_checks.vector(given, name)
    argument_checks.paired(values, n, name, "row")
    if len(wrong := np.flatnonzero(np.isinf(values) | (values < 0.0))):
        row = int(wrong[0])
        raise InputError.on("history_number", name=name, row=row, value=values[row])
    return values


def _languages(given: Sequence[str | None] | None, n: int) -> NDArray[np.object_]:
    values = np.full(n, None, object)
    if given is not None:
        argument_checks.paired(given, n, "language", "row")
        values[:] = list(given)
    for code in set(values):
        if code is not None and (not isinstance(code, str) or len(code) > _LONGEST_CODE):
            raise InputError.on("language_code", longest=_LONGEST_CODE, code=code)
    return values


def moment(seconds: float | None) -> str | None:
    """Return seconds since 1970 as RFC 3339 in UTC; None where the time is not known.

    >>> moment(86_400.5), moment(None)
    ('1970-01-02T00:00:00Z', None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(math.floor(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


#: In the order of the rows of every table of features.
FEATURES: Final = ("score", "undefined", "question_length", "response_length", "chunks", "language")
#: Features whose values are numbers, of which a mean is shown.
NUMBERS: Final = ("score", "question_length", "response_length", "chunks")
UNDEFINED: Final = FEATURES.index("undefined")
LANGUAGE: Final = FEATURES.index("language")

#: Bins of a feature at most.
MOST_BINS: Final = 32
#: Up to so many distinct values each has a bin of its own, and so has every gap between two.
_FEW: Final = 15
#: Shares of a sample between the bins of other numbers: finer at the ends, where new values are.
_LEVELS: Final = np.concatenate(
    [[0.01, 0.02, 0.04], np.linspace(0.04, 0.96, 25)[1:-1], [0.96, 0.98, 0.99]]
)
#: Languages with a bin of their own; the rarer ones of the reference share one, and those that it
#: does not hold another.
_OWN_BINS: Final = MOST_BINS - 2
#: Languages that are told apart at all: more than there are codes, so that only nonsense is not.
MOST_LANGUAGES: Final = 250
#: Larger numbers are taken as this one.
_HUGE: Final = 1e290
#: What further ones are called.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Bins(Record):
    """The bins of one feature.

    Attributes
    ----------
    feature : str
        One of `FEATURES`.
    edges : tuple of float
        Of numbers, rising: bin i holds what is above edge i - 1 and at most edge i.
    languages : tuple of str
        Those with a bin of their own, the most frequent one first.
    rare : tuple of str
        Those of the reference that share the next bin; the last bin is for all others.
    """

    feature: str
    edges: tuple[float, ...] = ()
    languages: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The number of bins."""
        if self.feature == "language":
            return len(self.languages) + 2
        return len(self.edges) + 1

    def assign(self, values: Floats, languages: Sequence[str]) -> Ints:
        """Return the bin of each value, -1 for NaN; ``languages`` names the codes."""
        known = ~np.isnan(values)
        if self.feature == "language":
            own = {name: at for at, name in enumerate(self.languages)}
            own |= dict.fromkeys(self.rare, len(own))
            table = np.full(MOST_LANGUAGES + 1, self.n - 1)
            table[: len(languages)] = [own.get(name, self.n - 1) for name in languages]
            return np.where(known, table[np.where(known, values, 0.0).astype(np.int64)], -1)
        return np.where(known, np.searchsorted(np.array(self.edges), values), -1)

    def summary(self, counts: Ints, total: float) -> dict[str, Any]:
        """Return what values look like that fell into the bins, ``total`` being their sum."""
        n = int(counts.sum())
        if self.feature == "language":
            names = [*self.languages, *(["rarer"] if self.rare else []), OTHER]
            held = counts if self.rare else np.delete(counts, -2)
            shares = {name: int(k) / n for name, k in zip(names, held, strict=True) if k}
            return {"n": n, "shares": shares}
        if self.feature == "undefined":
            return {"n": n, "share": int(counts[-1]) / n if n else None}
        return {
            "n": n,
            "mean": total / n if n else None,
            "median": self._median(counts) if n else None,
        }

    def _median(self, counts: Ints) -> float:
        """Return the median, between the edges of its bin as if values were even there."""
        below = np.cumsum(counts)
        half = below[-1] / 2.0
        at = int(np.searchsorted(below, half))
        low, high = self.edges[max(0, at - 1)], self.edges[min(at, len(self.edges) - 1)]
        share = (half - (below[at] - counts[at])) / counts[at]
        return float(f"{low + (high - low) * share:.6g}")


def rows_for_bins(size: int) -> int:
    """Return how many rows of a reference fix the bins: a quarter, at least one.

    The others are counted, and each of them is evidence: simulated with 1,000 rows, an alarm soon
    after the reference is raised more often than with half of them for the bins (a shift of 0.25
    standard deviations right after it is found in 86 % in place of 59 %), and 4,000 rows later as
    soon.

    >>> rows_for_bins(1_000), rows_for_bins(2)
    (250, 1)
    """
    return max(1, size // 4)


def learn_bins(sample: Floats, languages: Sequence[str]) -> list[Bins]:
    """Return bins for each feature of which a sample holds a value.

    Parameters
    ----------
    sample : ndarray of float64, shape (features, rows)
        In the order of `FEATURES`; NaN where a row has no value.
    languages : sequence of str
        Names of the codes of languages.
    """
    learnt = []
    for feature, row in zip(FEATURES, sample, strict=True):
        values = np.sort(row[~np.isnan(row)])
        if not len(values):
            continue
        if feature == "language":
            # What has no code of its own is new whenever it comes.
            codes = values[values < len(languages)].astype(np.int64)
            counts = np.bincount(codes, minlength=len(languages))
            order = [languages[at] for at in np.argsort(-counts, kind="stable") if counts[at]]
            own, rare = tuple(order[:_OWN_BINS]), tuple(order[_OWN_BINS:])
            learnt.append(Bins(feature, languages=own, rare=rare))
        else:
            edges = (0.5,) if feature == "undefined" else _edges(values)
            learnt.append(Bins(feature, edges))
    return learnt


def _edges(values: Floats) -> tuple[float, ...]:
    """Return the edges between bins of sorted numbers: none has a mass that is not its values'."""
    distinct = np.unique(values)
    if len(distinct) > _FEW:
        levels = np.ceil(_LEVELS * len(values)).astype(np.int64) - 1
        inner = values[np.clip(levels, 0, len(values) - 1)]
        distinct = np.array([math.nextafter(values[0], -math.inf), *inner, values[-1]])
        return tuple(np.unique(distinct).tolist())
    return tuple(edge for v in distinct.tolist() for edge in (math.nextafter(v, -math.inf), v))


def table(rows: Rows, codes: dict[str, int]) -> Floats:
    """Return the features of rows as numbers, shape (features, n); NaN where there is none.

    ``codes`` numbers the languages seen so far, and is added to.
    """
    numbers = np.empty((len(FEATURES), len(rows)))
    for at, feature in enumerate(FEATURES):
        if feature not in ("undefined", "language"):
            # Sums, and the edges beside a number, are to be finite, too.
            numbers[at] = np.clip(getattr(rows, feature), -_HUGE, _HUGE)
    numbers[UNDEFINED] = np.where(rows.failed, np.nan, rows.undefined)
    for name in dict.fromkeys(rows.language.tolist()):
        if name is not None and name not in codes and len(codes) < MOST_LANGUAGES:
            codes[name] = len(codes)
    missing: dict[str | None, float] = {None: math.nan}
    known = codes | missing
    numbers[LANGUAGE] = [known.get(name, float(MOST_LANGUAGES)) for name in rows.language.tolist()]
    return numbers


#: Rows of the shortest blocks, which begin where the row's number is a multiple of it.
BASE: Final = 16
#: Blocks that stay as they are on each level, and those that are awaited before any are merged.
_BLOCKS_A_LEVEL: Final = 16
_MERGE_AFTER: Final = 8


@dataclass(frozen=True, slots=True)
class Blocks(Record):
    """Blocks of rows in their order.

    Attributes
    ----------
    row : ndarray of int64, shape (blocks,)
        Number of the first row.
    time : ndarray of float64, shape (blocks,)
        Its time; NaN where it is not known.
    counts : ndarray of int64, shape (blocks, bins)
        Values in each bin, those of one feature behind those of another.
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
    def concatenate(cls, parts: "Sequence[Blocks]") -> "Blocks":
        """Return several as one."""
        # None in a state has no shape.
        parts = [part for part in parts if len(part.row)] or parts[:1]
        names = (item.name for item in fields(cls))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(slots=True)
class History(Record):
    """Counts of all rows of a reference and of what was compared with it.

    Attributes
    ----------
    reference : Blocks
        One block: what was counted before.
    levels : list of Blocks
        From the shortest blocks, which are the latest, to the longest.
    """

    reference: Blocks
    levels: list[Blocks] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.levels = self.levels or [self.reference.part(slice(0, 0))]

    def add(self, blocks: Blocks) -> None:
        """Add blocks that come after all others."""
        for level, before in enumerate(self.levels):
            held = Blocks.concatenate([before, blocks])
            if len(held.row) < _BLOCKS_A_LEVEL + _MERGE_AFTER:
                self.levels[level] = held
                return
            # An even number: a merged block begins where one of them did.
            many = (len(held.row) - _BLOCKS_A_LEVEL) // 2 * 2
            self.levels[level] = held.part(slice(many, None))
            blocks = held.part(slice(0, many)).merge_pairs()
        self.levels.append(blocks)

    def blocks(self) -> Blocks:
        """Return all blocks, the reference first."""
        return Blocks.concatenate([self.reference, *reversed(self.levels)])


#: Rows that are followed in one go, from a multiple of it.
BLOCK: Final = 512
#: Characters of an id that are kept: its chain and number find the rest.
_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class RowRun(Record):
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
    refs: tuple[Ref | None, ...]

    @classmethod
    def from_rows(cls, row: int, rows: Rows, codes: dict[str, int]) -> Self:
        """Return rows as numbers; ``codes`` numbers the languages so far, and is added to."""
        refs: tuple[Ref | None, ...] = (None,) * len(rows)
        if rows.ref is not None:
            refs = tuple(ref if len(ref[2]) <= _LONGEST else _short(ref) for ref in rows.ref)
        return cls(row, table(rows, codes), rows.time, rows.flagged, refs)

    @classmethod
    def empty(cls, row: int = 0) -> Self:
        """Return no rows."""
        return cls(row, np.zeros((len(FEATURES), 0)), np.zeros(0), np.zeros(0, bool), ())

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


def _short(ref: Ref) -> Ref:
    chain, seq, name = ref
    return chain, seq, name[: _LONGEST - 1] + "…"


#: Periods that are kept apart at most.
MOST_PERIODS: Final = 512
#: Seconds of a period, and rows where no time is known.
_DAY, _ROWS = 86_400.0, 1_000
#: A clock that goes back by less is none: answers are logged side by side.
_JITTER: Final = 1.0
#: Languages that a period names; the others are counted together.
_MOST_NAMED: Final = 16

_NUMBERS: Final = [FEATURES.index(name) for name in NUMBERS]
#: What is counted beside all rows of a period.
_COUNTED: Final = ("flagged", "undefined", "failed")


@dataclass(slots=True)
class Period(Record):
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
        for name in ("n", *_COUNTED):
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
            self.languages = {**frequent, OTHER: frequent.get(OTHER, 0) + rest}

    def in_order(self) -> list[tuple[str, int]]:
        """Return the languages, the most frequent one first."""
        return sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))

    def summary(self) -> dict[str, Any]:
        """Return what the status of a watch says of it."""
        means = zip(NUMBERS, self.totals, self.known, strict=True)
        return {
            "from": moment(self.begin),
            "to": moment(self.end),
            **{name: getattr(self, name) for name in ("row", "n", *_COUNTED)},
            "log_e": math.log(max(1.0, self.highest)),
            "means": {name: total / n for name, total, n in means if n},
            "languages": dict(self.in_order()),
        }


@dataclass(slots=True)
class Timeline(Record):
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
            period = _period(part, slice(int(start), int(stop)), clock, highest, languages)
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


def _period(
    part: RowRun, which: slice, clock: Floats, highest: Floats, languages: Sequence[str]
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
