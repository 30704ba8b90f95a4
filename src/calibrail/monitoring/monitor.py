"""Monitor of a guardrail: takes rows, gives a status, carries its state on."""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final, Self

import numpy as np
from scipy.special import bdtr, bdtrc

from calibrail.data.example import Example
from calibrail.errors import InputError, errors_as
from calibrail.guardrail import Decision, FrozenConfig, Guardrail
from calibrail.guardrail.file import TrafficSketch, read_file
from calibrail.monitoring.drift import Traffic
from calibrail.monitoring.history import BLOCK, RowRun, Rows, Timeline
from calibrail.options.fields import optional
from calibrail.options.keywords import options_from_keywords
from calibrail.options.runtime import WatchedBy, WatchOptions

#: Name of the content of a state.
SCHEMA: Final = "calibrail.watch-state/1"


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a state: equal content, equal bytes; with a digest of it."""
    held = {"schema": SCHEMA, **content}
    return _canonical({**held, "digest": _digest_state(held)})


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
    return "sha256:" + hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode()


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
        if content["guardrail"] != monitor.guardrail:
            raise InputError.on(
                "state_of_another", was=content["guardrail"], own=monitor, remedy=REMEDY
            )
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
        wrong = bdtrc(np.minimum(n_bad, n), n, rate) + np.where(
            n_spare, bdtr(n_spare - 1, n, rate), 0.0
        )
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
