"""What does one line of a log say, after those that were read before it?"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from calibrail.guardrail.decision_log.cursor import Cursor, Place, Tally
from calibrail.guardrail.decision_log.lines import (
    CLOSED,
    OPENED,
    Line,
    ending,
    is_chained,
    readable,
)
from calibrail.guardrail.decision_log.streams import StreamLine

#: How far a clock may go back between two lines, and lie ahead of this one, in seconds.
_BACK: Final = 1.0
_AHEAD: Final = timedelta(hours=1)


class Logged(NamedTuple):
    """One decision of a log.

    Attributes
    ----------
    content : mapping
        The fields of its line.
    chain : str
        Which process wrote it; the name of the file's stream where decisions are not chained.
    seq : int
        Its number there.
    time : str or None
        When it was logged, in UTC.
    moment : float
        The same in seconds since 1970; NaN where it is not known, or lies in the future.
    file : str
        Where it stands.
    number : int
        Which line of the file, from 1.
    """

    content: Mapping[str, Any]
    chain: str
    seq: int
    time: str | None
    moment: float
    file: str
    number: int


class Raw(NamedTuple):
    """One line of a chain's file, as it was found there."""

    latest: str
    chain: str
    file: int
    name: str
    offset: int
    number: int
    line: Line | None
    code: str


def ahead() -> str:
    """Return the time from which on a line's own lies in the future."""
    return (datetime.now(UTC) + _AHEAD).strftime("%Y-%m-%dT%H:%M:%S")


class Reader:
    """Takes lines one by one, and moves the cursor past each."""

    def __init__(self, cursor: Cursor, tally: Tally) -> None:
        self._cursor, self._tally, self._ahead = cursor, tally, ahead()
        # Lines of several chains in one file are told apart by the hash of the line before.
        self._ends: dict[str, str] = {item.hash: name for name, item in cursor.chains.items()}

    def chained(self, raw: Raw) -> Logged | None:
        """Take a line of a chain's own file."""
        if raw.code == "cut":
            self._tally.find_once("cut", raw.name, read=raw.offset)
            return None
        place = self._cursor.chains.get(raw.chain)
        if place is None:
            place = self._cursor.chains[raw.chain] = Place.before(raw.file)
        place.file, place.offset, place.line = raw.file, raw.offset, raw.number
        if raw.code:
            self._tally.find(raw.code, raw.name, raw.number)
        if raw.line is None:
            self._tally.lines += 1
            self._tally.skip(raw.code)
            if raw.code == "changed":
                place.lost += 1
            return None
        opening = raw.number == 1 or raw.line.content.get("kind") == OPENED
        if opening and (raw.number != 1 or _opening(raw.line) != (raw.chain, raw.file)):
            self._tally.find("opening", raw.name, raw.number)
        return self._take(raw.line, raw.chain, place, raw.name, raw.number)

    def streamed(self, item: StreamLine) -> Logged | None:
        """Take a line of any other file."""
        stream, raw = self._cursor.streams[item.stream], item.raw
        if not is_chained(raw):
            return self._unchained(item)
        line, torn = (readable(raw), False) if item.whole else ending(raw)
        if line is None:
            self._tally.lines += 1
            self._tally.refuse("torn" if torn else "changed", item.file, item.number)
            if stream.chain and not torn:
                self._cursor.chains[stream.chain].lost += 1
            return None
        chain = stream.chain = self._chain_of(line, stream.chain)
        place = self._cursor.chains[chain]
        self._ends.pop(place.hash, None)
        logged = self._take(line, chain, place, item.file, item.number)
        self._ends[place.hash] = chain
        return logged

    def _chain_of(self, line: Line, current: str) -> str:
        """Return the chain of a line: by its own words, the line before it, or its neighbours."""
        chains = self._cursor.chains
        if (opening := _opening(line)) is not None:
            chains.setdefault(opening[0], replace(Place.before(opening[1]), first=0))
            return opening[0]
        if (known := self._ends.get(line.previous)) is not None:
            return known
        if current and (len(chains) == 1 or chains[current].lost or not chains[current].hash):
            return current
        name = f"chain-{line.previous[:16]}"
        chains.setdefault(name, Place())
        return name

    def _unchained(self, item: StreamLine) -> Logged | None:
        """Take a line that is in no chain: what ``calibrail check`` wrote."""
        self._tally.lines += 1
        try:
            content = json.loads(item.raw)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            self._tally.refuse("malformed", item.file, item.number)
            return None
        self._tally.find_once("no_chain", item.file)
        seq = item.number - 1
        return Logged(content, item.stream, seq, None, math.nan, item.file, item.number)

    def _take(self, line: Line, chain: str, place: Place, name: str, number: int) -> Logged | None:
        tally = self._tally
        tally.lines += 1
        if place.begin is None:
            # With a hash before it, it is the first line, or a state of old is gone on with.
            place.begin = 0 if place.hash else line.seq
        if place.next is not None and line.seq != place.next:
            if line.seq < place.next:
                tally.skip("duplicate")
                return None
            # Lines that nobody can read had the numbers between, or were put in: both fit.
            if (expected := place.next + place.lost) < line.seq:
                tally.missing += line.seq - expected
                tally.find("gap", name, number, seq=line.seq, expected=expected)
        elif place.hash and line.previous != place.hash:
            tally.find("previous", name, number)
        place.next, place.hash, place.lost = line.seq + 1, line.hash, 0
        try:
            moment = datetime.fromisoformat(line.time)
            seconds = moment.timestamp() if moment.tzinfo is not None else math.nan
        except (ValueError, OverflowError):
            seconds = math.nan
        if math.isnan(seconds):
            tally.refuse("time", name, number, time=line.time[:40])
            return None
        if line.time < place.time:
            back = datetime.fromisoformat(place.time).timestamp() - seconds
            if back > _BACK:
                tally.find("clock_back", name, number, seconds=round(back))
        place.time = line.time
        if line.time >= self._ahead:
            tally.find("future", name, number, time=line.time)
            seconds = math.nan
        else:
            place.latest = max(place.latest, line.time)
        if "kind" in line.content and not line.decides:
            tally.skip("no_decision")
            place.closed = line.kind == CLOSED
            return None
        return Logged(line.content, chain, line.seq, line.time, seconds, name, number)


def _opening(line: Line) -> tuple[str, int] | None:
    """Return the chain and the number of the file that a line begins; None for other lines."""
    chain, number = (line.content.get(name) for name in ("chain", "file"))
    if line.kind == OPENED and isinstance(chain, str) and isinstance(number, int):
        return chain, number
    return None
