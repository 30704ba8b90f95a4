"""Monitor of a guardrail: takes rows, tells drift, gives a status, carries its state on.

Each feature of each row is ranked among the counted part of the reference and all rows since
(``conformal.change_point``), in bins that the first quarter of the reference fixed; its ranks feed
an e-detector (the same module). Given that quarter, everything that is counted is
exchangeable while nothing changes, and so are the rows of a feature that have a value, among them:
those without one are skipped. After an alarm a new reference is taken from the rows that follow.
Nothing depends on how the rows are cut into batches: they are followed in blocks that begin at
multiples of their length, and what is known after a row never depends on later ones.
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, Final, Self

import numpy as np
from scipy.special import bdtr, bdtrc

from calibrail.conformal import change_point
from calibrail.conformal.argument_checks import Floats, Ints
from calibrail.data.example import Example
from calibrail.errors import InputError, errors_as
from calibrail.guardrail import Decision, FrozenConfig, Guardrail
from calibrail.guardrail.file import TrafficSketch, read_file
from calibrail.monitoring import history
from calibrail.monitoring.history import BLOCK, RowRun, Rows, Timeline
from calibrail.options.fields import optional
from calibrail.options.keywords import options_from_keywords
from calibrail.options.runtime import WatchedBy, WatchOptions
from calibrail.serialization import Record, canonical, plain

#: Latest rows whose bins are known one by one.
N_RECENT: Final = 256
#: Answers that are named with an alarm.
MOST_EXAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Recent(Record):
    """The latest rows one by one.

    Attributes
    ----------
    row : int
        Number of the first of them.
    bins : ndarray of int64, shape (features, n)
        Where they fell; -1 where a feature has no value.
    refs : tuple of (chain, seq, id), or None
        Where they stand in their logs.
    """

    row: int
    bins: Ints
    refs: tuple[history.Ref | None, ...]

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls(0, np.zeros((0, 0), np.int64), ())

    def extend(self, row: int, bins: Ints, refs: Sequence[history.Ref | None]) -> Self:
        """Return these and the rows that follow, the latest only."""
        before = self.bins if self.refs else bins[:, :0]
        every = np.concatenate([before, bins], axis=1)[:, -N_RECENT:]
        last = row + bins.shape[1]
        return type(self)(last - every.shape[1], every, (*self.refs, *refs)[-N_RECENT:])


def alarm(
    watched: Sequence[history.Bins],
    at: int,
    blocks: history.Blocks,
    recent: Recent,
    last: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what is said of an alarm of feature ``at``, raised by the row and time ``last``.

    ``since`` is the first row after the change, to the length of a block, with the ends of its
    interval: a change within a block looks like one at either of its ends, so that the interval
    reaches from the block before the first likely one to the end of the last. ``before`` is the
    counted part of the reference and the rows up to the estimate, and ``after`` the rest;
    ``examples`` are the latest answers after the change in the bins that gained most.
    """
    bins, first = watched[at], sum(item.n for item in watched[:at])
    counts = blocks.counts[:, first : first + bins.n]
    change = change_point.change_point(counts)
    before, after = counts[: change.estimate].sum(axis=0), counts[change.estimate :].sum(axis=0)
    totals = blocks.totals[:, at]
    gained = after / max(1, after.sum()) - before / max(1, before.sum())
    further = change.upper + 1 < len(counts)
    ends = {
        "lower": _place(blocks, max(1, change.lower - 1)),
        "upper": _place(blocks, change.upper + 1) if further else dict(last),
    }
    since = _place(blocks, change.estimate)
    return {
        "since": since | ends,
        "before": bins.summary(before, float(totals[: change.estimate].sum())),
        "after": bins.summary(after, float(totals[change.estimate :].sum())),
        "histogram": {
            "edges": [float(f"{edge:.6g}") for edge in bins.edges],
            "names": [*bins.languages, *(["rarer", "other"] if bins.feature == "language" else [])],
            "before": before.tolist(),
            "after": after.tolist(),
        },
        "examples": _examples(recent, at, since["row"], gained),
    }


def _place(blocks: history.Blocks, block: int) -> dict[str, Any]:
    """Return the row at which a block begins, with its time."""
    return {"row": int(blocks.row[block]), "time": history.moment(float(blocks.time[block]))}


def _examples(recent: Recent, at: int, since: int, gained: Any) -> list[dict[str, Any]]:
    """Return the latest rows since a row, those of the bin that gained most first."""
    rows = recent.row + np.arange(len(recent.refs))
    examples = []
    for gaining in np.argsort(-gained, kind="stable"):
        if gained[gaining] <= 0.0:
            break
        for place in np.flatnonzero((recent.bins[at] == gaining) & (rows >= since))[::-1]:
            named = zip(("chain", "seq", "id"), recent.refs[place] or (), strict=False)
            examples.append({"row": int(rows[place]), **dict(named)})
            if len(examples) == MOST_EXAMPLES:
                return examples
    return examples


#: Alarms that are kept; all are counted.
MOST_ALARMS: Final = 100


@dataclass(slots=True)
class Reference:
    """What rows are compared with: its first quarter fixes bins, the rest is counted.

    Attributes
    ----------
    size : int
        Rows that it has once it is complete.
    given : bool
        Whether it came with the watch, instead of from the stream.
    n : int
        Rows so far.
    row : int
        Number of its first row; 0 where it was given.
    begin, end : float or None
        First and latest time; None where it is not known.
    """

    size: int
    given: bool = False
    n: int = 0
    row: int = 0
    begin: float | None = None
    end: float | None = None

    def take(self, part: history.RowRun) -> None:
        """Count further rows."""
        if not self.n:
            self.row = part.row
        self.n += len(part)
        known = part.time[~np.isnan(part.time)]
        if len(known):
            self.begin = float(known[0]) if self.begin is None else self.begin
            self.end = float(known[-1])


class Traffic:
    """Follows the features of a stream; see `Traffic.summary` for what it says of them.

    Parameters
    ----------
    options : WatchOptions
        ``reference``, ``arl`` and ``seed`` count here.
    n_watches : int
        How many follow the stream: what is promised of false alarms holds for all together.
    """

    def __init__(self, options: WatchOptions, n_watches: int = 1) -> None:
        self.options, self.n_watches = options, n_watches
        self.alarms: list[dict[str, Any]] = []
        self.n_alarms = 0
        self._restart(Reference(options.reference))

    def _restart(self, reference: Reference) -> None:
        self.reference = reference
        self.sample: list[Floats] = []
        self.bins: list[history.Bins] | None = None
        self.counts: Ints = np.zeros((0, history.MOST_BINS), np.int64)
        self.won: Floats = np.zeros((0, change_point.N_BETS))
        self.now: Floats = np.zeros(0)
        self.history: history.History | None = None
        self.recent = Recent.empty()

    @property
    def threshold(self) -> float:
        """Where a detector raises an alarm."""
        n_features = max(1, len(self.bins or history.FEATURES))
        return change_point.alarm_threshold(self.options.arl, n_features * self.n_watches)

    def refer_to(self, part: history.RowRun, languages: Sequence[str]) -> None:
        """Take rows that came with the watch as its first reference, in place of its stream's."""
        self._restart(Reference(len(part), given=True))
        self._learn(part, languages)

    def follow(self, part: history.RowRun, languages: Sequence[str]) -> Floats:
        """Follow rows that lie in one block; return the highest detector after each."""
        highest, start = np.zeros(len(part)), 0
        while start < len(part):
            rest = part.cut(start, len(part))
            if self.history is None or self.reference.n < self.reference.size:
                start += self._learn(rest, languages)
                continue
            detector, n = self._watch(rest, languages)
            highest[start : start + n] = detector.max(axis=0, initial=0.0)
            start += n
        return highest

    def _learn(self, part: history.RowRun, languages: Sequence[str]) -> int:
        """Take rows into the reference until it is complete; return how many."""
        reference, taken = self.reference, 0
        n_for_bins = history.rows_for_bins(reference.size)
        for end in (n_for_bins, reference.size):
            n = min(len(part) - taken, end - reference.n)
            if n <= 0:
                continue
            piece = part.cut(taken, taken + n)
            reference.take(piece)
            taken += n
            if end == n_for_bins:
                self.sample.append(piece.values.copy())
            else:
                self._count(piece, languages)
            if reference.n == n_for_bins:
                self._fix_bins(languages, part.row + taken)
        return taken

    def _fix_bins(self, languages: Sequence[str], row: int) -> None:
        self.bins = history.learn_bins(np.concatenate(self.sample, axis=1), languages)
        self.sample, n = [], len(self.bins)
        self.counts = np.zeros((n, history.MOST_BINS), np.int64)
        self.won, self.now = np.zeros((n, change_point.N_BETS)), np.zeros(n)
        nothing = np.zeros((1, sum(item.n for item in self.bins)), np.int64)
        self.history = history.History(
            history.Blocks(np.array([row]), np.array([math.nan]), nothing, np.zeros((1, n)))
        )

    def _count(self, part: history.RowRun, languages: Sequence[str]) -> None:
        assert self.history is not None
        bins, values = self._binned(part, languages)
        counts, totals = _counted(bins, values, np.zeros(len(part), np.int64))
        self.counts = self.counts + counts[0]
        held = self.history.reference
        self.history.reference = replace(
            held, counts=held.counts + self._used(counts), totals=held.totals + totals
        )

    def _used(self, counts: Ints) -> Ints:
        """Return the counts of bins that a feature has, those of all features in a row."""
        sizes = np.array([item.n for item in self.bins or []])
        return counts[:, np.arange(history.MOST_BINS) < sizes[:, None]]

    def _binned(self, part: history.RowRun, languages: Sequence[str]) -> tuple[Ints, Floats]:
        """Return bins and values of the features that are watched."""
        bins, binned = self.bins or [], np.zeros((len(self.bins or []), len(part)), np.int64)
        values = part.values[[history.FEATURES.index(item.feature) for item in bins]]
        for place, item in enumerate(bins):
            binned[place] = item.assign(values[place], languages)
        return binned, values

    def _watch(self, part: history.RowRun, languages: Sequence[str]) -> tuple[Floats, int]:
        """Bet on rows until one raises an alarm; return the detectors, and how many rows it took.

        Each detector counts the rows of its own feature: what the ranks of one feature tell of
        the next rank of another is not known, and the union bound does not need it.
        """
        assert self.bins is not None and self.history is not None
        bins, values = self._binned(part, languages)
        uniforms = _uniforms(self.options.seed, part.row, len(part))
        which = [history.FEATURES.index(item.feature) for item in self.bins]
        ranks, counts = change_point.stream_ranks(bins, uniforms[which], self.counts)
        detector, won = change_point.shiryaev_roberts(ranks, self.won)
        over = np.flatnonzero((detector >= self.threshold).any(axis=0))
        n = int(over[0]) + 1 if len(over) else len(part)
        seen = part.cut(0, n)
        self._remember(seen, bins[:, :n], values[:, :n])
        if len(over):
            self._raise(seen, detector[:, n - 1])
        else:
            self.counts, self.won, self.now = counts, won, detector[:, -1]
        return detector[:, :n], n

    def _remember(self, part: history.RowRun, bins: Ints, values: Floats) -> None:
        assert self.history is not None
        block = (part.row + np.arange(len(part))) // history.BASE
        block -= block[0]
        first = np.flatnonzero(np.diff(block, prepend=-1))
        counts, totals = _counted(bins, values, block)
        rows = part.row + first, part.time[first]
        self.history.add(history.Blocks(*rows, self._used(counts), totals))
        self.recent = self.recent.extend(part.row, bins, part.refs)

    def _raise(self, part: history.RowRun, detector: Floats) -> None:
        """Keep an alarm at the last of the rows, and begin anew after it."""
        assert self.bins is not None and self.history is not None
        at = int(detector.argmax())
        head = {"row": part.row + len(part) - 1, "time": history.moment(float(part.time[-1]))}
        event = alarm(self.bins, at, self.history.blocks(), self.recent, head)
        feature = {"feature": self.bins[at].feature, "e_value": float(detector[at])}
        self.alarms = [*self.alarms, head | feature | event][-MOST_ALARMS:]
        self.n_alarms += 1
        self._restart(Reference(self.options.reference))

    def summary(self) -> dict[str, Any]:
        """Return what the status of a watch says of traffic, as strict JSON can hold it.

        ``alarm`` is true from the first alarm on; ``since``, ``feature`` and ``e_value`` are those
        of the latest one (None, None and the highest detector now where there is none). A feature
        raises an alarm where its detector reaches ``threshold``; ``now`` holds the logarithms of
        the detectors, and is empty while a reference is taken. ``alarms`` holds the last 100 of
        ``n_alarms``, each with the ``row``, the ``time``, and what `alarm` says of it.
        """
        latest = self.alarms[-1] if self.alarms else None
        names = [item.feature for item in self.bins or []]
        reference = self.reference
        complete = reference.n == reference.size
        now = zip(names, self.now.tolist(), strict=True) if complete else ()
        return {
            "alarm": bool(latest),
            "since": latest and latest["since"]["time"],
            "feature": latest and latest["feature"],
            "e_value": latest["e_value"] if latest else float(self.now.max(initial=0.0)),
            "arl": self.options.arl,
            "threshold": self.threshold,
            "reference": {
                **{name: getattr(reference, name) for name in ("n", "size", "given")},
                "complete": complete,
                "row": None if reference.given else reference.row,
                "from": history.moment(reference.begin),
                "to": history.moment(reference.end),
            },
            "watched": names,
            "unwatched": [n for n in history.FEATURES if self.bins is not None and n not in names],
            "n_alarms": self.n_alarms,
            "alarms": copy.deepcopy(self.alarms),
            "now": {name: math.log(value) if value > 0.0 else 0.0 for name, value in now},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is needed to go on, as strict JSON can hold it."""
        bins = self.bins
        sizes = [item.n for item in bins or []]
        return {
            "alarms": self.alarms,
            "n_alarms": self.n_alarms,
            "reference": asdict(self.reference),
            "sample": plain(np.concatenate(self.sample, axis=1)) if self.sample else None,
            "bins": None if bins is None else [item.to_dict() for item in bins],
            "won": self.won.tolist(),
            "now": self.now.tolist(),
            "counts": [row[:n].tolist() for row, n in zip(self.counts, sizes, strict=True)],
            "history": None if self.history is None else self.history.to_dict(),
            "recent": self.recent.to_dict(),
        }

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Any], options: WatchOptions, n_watches: int = 1
    ) -> Self:
        """Go on from what ``to_dict`` gave."""
        traffic = cls(options, n_watches)
        traffic.alarms, traffic.n_alarms = list(content["alarms"]), content["n_alarms"]
        traffic.reference = Reference(**content["reference"])
        if content["sample"] is not None:
            traffic.sample = [np.array(content["sample"], np.float64)]
        if content["bins"] is not None:
            traffic.bins = [history.Bins.from_dict(item) for item in content["bins"]]
            traffic.counts = np.zeros((len(traffic.bins), history.MOST_BINS), np.int64)
            for row, counts in zip(traffic.counts, content["counts"], strict=True):
                row[: len(counts)] = counts
            traffic.won = np.array(content["won"], np.float64).reshape(-1, change_point.N_BETS)
            traffic.now = np.array(content["now"], np.float64)
            traffic.history = history.History.from_dict(content["history"])
            traffic.recent = Recent.from_dict(content["recent"])
        return traffic


def _uniforms(seed: int, row: int, n: int) -> Floats:
    """Return the draws of rows that lie in one block, shape (features, n).

    Those of a block come from its number and the seed alone (Salmon et al., 2011, "Parallel random
    numbers: as easy as 1, 2, 3"); 53 bits each.
    """
    drawn = np.random.Philox(key=seed, counter=[0, row // history.BLOCK, 0, 0]).random_raw(
        history.BLOCK * len(history.FEATURES)
    )
    start = row % history.BLOCK
    uniform = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform.reshape(history.BLOCK, len(history.FEATURES))[start : start + n].T


def _counted(bins: Ints, values: Floats, block: Ints) -> tuple[Ints, Floats]:
    """Return how many values of each block fell into each bin, and their sums."""
    n, features, size = int(block[-1]) + 1, len(bins), history.MOST_BINS + 1
    place = block * features + np.arange(features)[:, None]
    cells = np.where(bins < 0, history.MOST_BINS, bins) + place * size
    counts = np.bincount(cells.ravel(), minlength=n * features * size)
    # One value after the other: the order of the sum is that of the rows.
    totals = np.bincount(place.T.ravel(), np.nan_to_num(values, nan=0.0).T.ravel(), n * features)
    shaped = counts.reshape(n, features, size)[:, :, : history.MOST_BINS]
    return np.asarray(shaped, np.int64), np.asarray(totals.reshape(n, features), np.float64)


#: Name of the content of a state.
SCHEMA: Final = "calibrail.watch-state/1"


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a state: equal content, equal bytes; with a digest of it."""
    held = {"schema": SCHEMA, **content}
    return canonical({**held, "digest": _digest_state(held)}, escaped=True).encode()


def from_bytes(raw: bytes | str) -> dict[str, Any]:
    """Return the content of a state.

    Raises
    ------
    InputError
        If it is none, of another version, or was changed.
    """
    broken = (ValueError, TypeError, RecursionError)
    with errors_as(InputError, broken, "state_unreadable", remedy=REMEDY):
        content: dict[str, Any] = dict(json.loads(raw))
        digest, schema = content.pop("digest", None), content.get("schema")
    if schema != SCHEMA or digest != _digest_state(content):
        why = f"its schema is {schema!r}" if schema != SCHEMA else "it was changed since"
        raise InputError(f'the state of a watch is not as "{SCHEMA}" writes it: {why}; {REMEDY}')
    return content


#: What can be done about a state that is of no use.
REMEDY: Final = "restore the file, or begin a new watch in another folder"


def _digest_state(content: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(canonical(content, escaped=True).encode()).hexdigest()


class Monitor:
    """Watches what a frozen guardrail decides, answer after answer, in constant memory.

    It says whether the traffic differs from the labelled answers, of which the guardrail holds what
    is no text, and from a reference of the stream: the scores, the share of undefined
    answers, the lengths of questions and responses, the number of chunks, the languages. While
    nothing changes, the mean number of answers to a false alarm is at least ``arl``, and at most
    t / (2 arl) of all watches raise one within t answers, whenever one looks. That traffic differs
    does not say that the promise is broken; whether it is, labels show (``calibrail.monitor``).
    It takes every answer to be independent of the others while nothing changes: days that differ
    from nights, and bursts of like questions, are changes.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig, or path
        What decided. Its detector is not needed, and not loaded from a path.
    options : WatchOptions, optional
        Or its fields as keywords: ``arl``, ``delta``, ``seed``, ``by``, and ``reference`` as a
        number.
    reference : Rows, optional
        At least two rows to compare with: another period, another log. Left out, the first
        ``options.reference`` rows of the stream.

    Examples
    --------
    >>> import calibrail, numpy as np
    >>> run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
    >>> rng = np.random.default_rng(0)
    >>> score = np.concatenate([rng.normal(0, 1, 3_000), rng.normal(1, 1, 500)])
    >>> monitor = Monitor(run.freeze(), reference=1_000)
    >>> monitor.update(Rows.of(score, score > 2)).traffic()["feature"]
    'score'
    """

    @options_from_keywords(options=WatchOptions, only={"reference": int})
    def __init__(
        self,
        guardrail: Guardrail | FrozenConfig | str | PathLike[str],
        options: WatchOptions | None = None,
        reference: Rows | int | None = None,
        *,
        arl: int = 100_000,
        delta: float = 0.05,
        seed: int = 0,
        by: WatchedBy | None = None,
        base_rate: float | None = None,
    ) -> None:
        #: What is compared with what.
        self.options = optional(options, WatchOptions, "options")
        #: The digest of the guardrail.
        self.guardrail, sketch = _known_of(guardrail)
        self._codes: dict[str, int] = {}
        #: What traffic is compared with from its first row on: the labelled answers.
        self._labelled = labelled_rows(sketch, self.options) if sketch else None
        self._base_rate = self.options.base_rate or (sketch and sketch.base_rate)
        n_watches = 1 if self._labelled is None else 2
        self._traffic, self._timeline = Traffic(self.options, n_watches), Timeline()
        self._calibrated: Traffic | None = None
        self._open = RowRun.empty()
        self._seen: tuple[int, Traffic | None, Traffic, Timeline] | None = None
        if self._labelled is not None:
            self._calibrated = Traffic(self.options, n_watches)
            part = RowRun.from_rows(0, self._labelled, self._codes)
            self._calibrated.refer_to(part, [*self._codes])
        if reference is not None:
            if not isinstance(reference, Rows) or len(reference) < 2:
                raise InputError.on("monitor_reference", reference=reference)
            self._traffic.refer_to(RowRun.from_rows(0, reference, self._codes), [*self._codes])

    @property
    def n(self) -> int:
        """Rows so far."""
        return self._open.row + len(self._open)

    def update(
        self, rows: Rows | Sequence[Decision], examples: Sequence[Example] | None = None
    ) -> Self:
        """Take in what was decided, in its order; however it is cut, the result is the same.

        Parameters
        ----------
        rows : Rows or sequence of Decision
            What was decided.
        examples : sequence of Example, optional
            With decisions, what they are about: lengths, chunks and languages are taken from it.
        """
        if not isinstance(rows, Rows):
            rows = Rows.decided(rows, examples)
        elif examples is not None:
            raise InputError("examples go with decisions; rows hold their own lengths")
        # What is kept is a copy: it outlives the rows of the caller.
        waiting = self._open.extend(RowRun.from_rows(self.n, rows, self._codes))
        done = len(waiting) // BLOCK * BLOCK
        for start in range(0, done, BLOCK):
            self._follow(
                self._calibrated, self._traffic, self._timeline, waiting.cut(start, start + BLOCK)
            )
        self._open = RowRun.empty(waiting.row + done).extend(waiting.cut(done, len(waiting)))
        return self

    def _follow(
        self, calibrated: Traffic | None, traffic: Traffic, timeline: Timeline, part: RowRun
    ) -> None:
        languages = [*self._codes]
        # What differs from the labelled answers goes on doing so: it is said once.
        if calibrated is not None and not calibrated.alarms:
            calibrated.follow(part, languages)
        timeline.follow(part, traffic.follow(part, languages), languages)

    def _now(self) -> tuple[Traffic | None, Traffic, Timeline]:
        """Return where the stream stands with the rows of the block that is not complete."""
        if not len(self._open):
            return self._calibrated, self._traffic, self._timeline
        if self._seen is None or self._seen[0] != self.n:
            parts = copy.deepcopy((self._calibrated, self._traffic, self._timeline))
            self._follow(*parts, self._open)
            self._seen = self.n, *parts
        return self._seen[1:]

    def traffic(self) -> dict[str, Any]:
        """Return whether the traffic changed: the ``traffic`` of ``status.json``.

        Alarms are those of both comparisons; ``against`` says of each whether the traffic differs
        from the ``calibration`` data or from its own ``stream`` before. ``calibration`` holds how
        many labelled answers the first one compares with, which base rate they stand for (None:
        their own), its ``alarm``, and ``now`` as beside it.
        """
        calibrated, stream, _ = self._now()
        found, alarms = stream.summary(), list[dict[str, Any]]()
        if calibrated is None or self._labelled is None:
            return {**found, "calibration": None}
        first = calibrated.summary()
        for against, part in (("calibration", first["alarms"][:1]), ("stream", found["alarms"])):
            alarms += [{**alarm, "against": against} for alarm in part]
        alarms.sort(key=lambda alarm: int(alarm["row"]))
        latest = alarms[-1] if alarms else None
        if latest is not None:
            found |= {name: latest[name] for name in ("feature", "e_value")}
            found |= {"alarm": True, "since": latest["since"]["time"]}
        differs = first["alarms"][0] if first["alarms"] else None
        return {
            **found,
            "alarms": alarms,
            "n_alarms": found["n_alarms"] + (differs is not None),
            "calibration": {
                "n": len(self._labelled),
                "base_rate": self._base_rate,
                "now": {} if differs else first["now"],
                "alarm": differs and {name: differs[name] for name in ("row", "feature", "since")},
            },
        }

    def timeline(self) -> list[dict[str, Any]]:
        """Return what was there when: the ``timeline`` of ``status.json``."""
        return [period.summary() for period in self._now()[2].periods]

    @property
    def clock_back(self) -> int:
        """Rows whose time lies more than a second before the latest one before them."""
        return self._now()[2].clock_back

    def __repr__(self) -> str:
        """Return what it watches, and what it has seen."""
        traffic = self.traffic()
        seen = f"traffic changed: {traffic['feature']}" if traffic["alarm"] else "no alarm"
        return f"Monitor({self.n:,} answers of {self.guardrail[:19]}, {seen})"

    def to_state(self) -> bytes:
        """Return everything that is needed to go on later, as canonical JSON below 1 MiB."""
        return to_bytes(
            {
                "guardrail": self.guardrail,
                "options": self.options.to_dict(),
                "languages": [*self._codes],
                "traffic": self._traffic.to_dict(),
                "calibrated": self._calibrated and self._calibrated.to_dict(),
                "timeline": self._timeline.to_dict(),
                "open": self._open.to_dict(),
            }
        )

    @classmethod
    def restore(
        cls,
        raw: bytes | str,
        guardrail: Guardrail | FrozenConfig | str | PathLike[str],
        options: WatchOptions | None = None,
    ) -> Self:
        """Go on from what ``to_state`` gave.

        Raises
        ------
        InputError
            If it was changed, or is that of another guardrail, or of other options where some are
            given.
        """
        content = from_bytes(raw)
        stored = WatchOptions.from_dict(content["options"])
        monitor = cls(guardrail, stored)
        if (was := content["guardrail"]) != monitor.guardrail:
            raise InputError.on("state_of_another", was=was, own=monitor, remedy=REMEDY)
        for name, value in stored.to_dict().items():
            if options is not None and (given := options.to_dict()[name]) != value:
                raise InputError.on("watch_options", name=name, value=value, given=given)
        monitor._codes = {name: code for code, name in enumerate(content["languages"])}
        # A watch that was begun before files held a sketch goes on without.
        if (calibrated := content.get("calibrated")) is None:
            monitor._calibrated = monitor._labelled = None
        else:
            monitor._calibrated = Traffic.from_dict(calibrated, stored, 2)
        n_watches = 1 if calibrated is None else 2
        monitor._traffic = Traffic.from_dict(content["traffic"], stored, n_watches)
        monitor._timeline = Timeline.from_dict(content["timeline"])
        monitor._open = RowRun.from_dict(content["open"])
        return monitor


def _known_of(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
) -> tuple[str, TrafficSketch | None]:
    """Return the digest of a guardrail, and what its labelled answers look like.

    That of a file is read, and its detector not built.
    """
    if isinstance(guardrail, str | PathLike):
        config = read_file(guardrail)[0]
        return config.digest, config.traffic
    if not isinstance(guardrail, FrozenConfig):
        guardrail = Guardrail.coerce(guardrail).config
    return str(json.loads(guardrail.to_bytes())["digest"]), guardrail.traffic


def labelled_rows(sketch: TrafficSketch, options: WatchOptions) -> Rows | None:
    """Return the labelled answers as traffic would hold them; None where they are too few.

    Where a base rate is given, their number m is the largest that both classes suffice for but
    with probability 0.0002; how many of them are hallucinated is drawn (binomial), and which is
    their place. So they are exchangeable with a stream of that base rate in which each class is as
    here, as the others are with one that they were drawn from at random.
    """
    labels = np.array(sketch.hallucinated, np.int64)
    chosen, rate = np.arange(len(labels)), options.base_rate or sketch.base_rate
    if rate is not None:
        n, n_bad = np.arange(1, len(labels) + 1), int(labels.sum())
        n_spare = np.maximum(0, n - (len(labels) - n_bad))
        # More hallucinated ones drawn than there are, or too few for the faithful ones.
        wrong = bdtrc(np.minimum(n_bad, n), n, rate)
        wrong += np.where(n_spare, bdtr(n_spare - 1, n, rate), 0.0)
        most = int(n[wrong <= _INFEASIBLE].max(initial=0))
        rng = np.random.default_rng(options.seed)
        drawn = int(rng.binomial(most, rate))
        parts = chosen[labels == 1][:drawn], chosen[labels == 0][: most - drawn]
        chosen = rng.permutation(np.concatenate(parts))
    if len(chosen) < _FEWEST:
        return None
    columns = {"question_length": sketch.question, "response_length": sketch.response}
    columns |= {"chunks": sketch.chunks}
    numbers = {name: np.array(values, np.float64)[chosen] for name, values in columns.items()}
    score = np.array(sketch.score, np.float64)[chosen]
    language = [sketch.language[row] for row in chosen.tolist()]
    return Rows.of(score, np.zeros(len(chosen), bool), **numbers, language=language)


#: Labelled answers below which traffic is compared with its own beginning alone.
_FEWEST: Final = 40
#: How probable it may be that a class has too few answers for the number drawn.
_INFEASIBLE: Final = 2e-4
