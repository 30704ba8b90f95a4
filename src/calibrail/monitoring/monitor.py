"""How does a watch take in what a guardrail decided, and what does it say of the traffic?"""

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self, Unpack

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.guardrail import Decision, FrozenConfig, Guardrail
from calibrail.guardrail.file import read_file
from calibrail.monitoring import state
from calibrail.monitoring.part import BLOCK, Part
from calibrail.monitoring.rows import Rows
from calibrail.monitoring.timeline import Timeline
from calibrail.monitoring.traffic import Traffic
from calibrail.settings.short import WatchShort, collect_watch
from calibrail.settings.watch import WatchOptions


class Monitor:
    """Watches what a frozen guardrail decides, answer after answer, in constant memory.

    It says whether the traffic differs from a reference: the scores, the share of undefined
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
        Or its fields as keywords.
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

    def __init__(
        self,
        guardrail: Guardrail | FrozenConfig | str | PathLike[str],
        options: WatchOptions | None = None,
        reference: Rows | int | None = None,
        **short: Unpack[WatchShort],
    ) -> None:
        rest: dict[str, Any] = dict(short)
        if isinstance(reference, int):
            rest["reference"], reference = reference, None
        self._options = collect_watch(options, rest, Monitor)
        self._guardrail = _digest(guardrail)
        self._codes: dict[str, int] = {}
        self._traffic, self._timeline = Traffic(self._options), Timeline()
        self._open = Part.none()
        self._seen: tuple[int, Traffic, Timeline] | None = None
        if reference is not None:
            if not isinstance(reference, Rows) or len(reference) < 2:
                raise InputError(
                    "reference must be Rows, at least two of them, or a number of rows of the "
                    f"stream; got {reference!r:.80}"
                )
            self._traffic.refer_to(Part.of(0, reference, self._codes), [*self._codes])

    @property
    def options(self) -> WatchOptions:
        """What is compared with what."""
        return self._options

    @property
    def guardrail(self) -> str:
        """The digest of the guardrail."""
        return self._guardrail

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
        added = Part.of(self.n, rows, self._codes)
        filled = min(BLOCK - len(self._open), len(added))
        open_ = self._open.then(added.cut(0, filled))
        while len(open_) == BLOCK:
            _follow(self._traffic, self._timeline, open_, [*self._codes])
            # What is kept is a copy: it outlives the rows of the caller.
            open_ = Part.none(open_.row + BLOCK).then(added.cut(filled, filled + BLOCK))
            filled += BLOCK
        self._open = open_
        return self

    def _now(self) -> tuple[Traffic, Timeline]:
        """Return where the stream stands with the rows of the block that is not complete."""
        if not len(self._open):
            return self._traffic, self._timeline
        if self._seen is None or self._seen[0] != self.n:
            traffic, timeline = self._traffic.copy(), self._timeline.copy()
            _follow(traffic, timeline, self._open, [*self._codes])
            self._seen = self.n, traffic, timeline
        return self._seen[1:]

    def traffic(self) -> dict[str, Any]:
        """Return whether the traffic changed: the ``traffic`` of ``status.json``."""
        return self._now()[0].summary()

    def timeline(self) -> list[dict[str, Any]]:
        """Return what was there when: the ``timeline`` of ``status.json``."""
        return [period.summary() for period in self._now()[1].periods]

    @property
    def clock_back(self) -> int:
        """Rows whose time lies more than a second before the latest one before them."""
        return self._now()[1].clock_back

    def __repr__(self) -> str:
        """Return what it watches, and what it has seen."""
        said = self.traffic()
        seen = f"traffic changed: {said['feature']}" if said["alarm"] else "no alarm"
        return f"Monitor({self.n:,} answers of {self._guardrail[:19]}, {seen})"

    def to_state(self) -> bytes:
        """Return everything that is needed to go on later, as canonical JSON below 1 MiB."""
        return state.to_bytes(
            {
                "guardrail": self._guardrail,
                "options": self._options.to_dict(),
                "languages": [*self._codes],
                "traffic": self._traffic.to_dict(),
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
        content = state.from_bytes(raw)
        kept = WatchOptions.from_dict(content["options"])
        monitor = cls(guardrail, kept)
        if content["guardrail"] != monitor._guardrail:
            raise InputError(
                f"the state is that of a watch of the guardrail {content['guardrail']}, and not of "
                f"{monitor._guardrail}; {state.REMEDY}"
            )
        if options is not None and options != kept:
            name = next(
                key for key, value in kept.to_dict().items() if options.to_dict()[key] != value
            )
            raise InputError(
                f"the watch was begun with {name}={getattr(kept, name)!r}; got "
                f"{getattr(options, name)!r}; go on with what it was begun with, or begin a new "
                "watch in another folder"
            )
        monitor._codes = {name: code for code, name in enumerate(content["languages"])}
        monitor._traffic = Traffic.from_dict(content["traffic"], kept)
        monitor._timeline = Timeline.from_dict(content["timeline"])
        monitor._open = Part.from_dict(content["open"])
        return monitor


def _follow(traffic: Traffic, timeline: Timeline, part: Part, languages: list[str]) -> None:
    timeline.follow(part, traffic.follow(part, languages), languages)


def _digest(guardrail: Guardrail | FrozenConfig | str | PathLike[str]) -> str:
    """Return the digest of a guardrail; that of a file is read, and its detector not built."""
    if isinstance(guardrail, str | PathLike):
        return read_file(guardrail).config.digest
    config = guardrail if isinstance(guardrail, FrozenConfig) else Guardrail.of(guardrail).config
    digest: str = json.loads(config.to_bytes())["digest"]
    return digest
