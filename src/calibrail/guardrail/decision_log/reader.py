"""Resumable reading of a decision log, of its folder and of other files and streams.

Such a file may hold lines of any chains, as a shipper has collected them, or decisions that
``calibrail check`` wrote. Nothing says which file it is but its content.
"""

import json
import math
import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from heapq import merge
from io import UnsupportedOperation
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, Self, TypeAlias

from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.guardrail.decision_log import writer as line_format
from calibrail.options import fields
from calibrail.serialization import Record

#: What a caller names a log by: see `log_sources`.
Logs: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

#: Findings that are listed; all are counted.
_LISTED: Final = 20

#: Chains and files that are remembered; the oldest that were closed go first.
_REMEMBERED: Final = 2000

#: What is to be known of a log that nobody changed: clocks are not the log's, and a crash tears.
_NOTES: Final = {"clock_back", "future", "late", "no_chain"}


@dataclass(slots=True)
class ChainPosition:
    """How far one chain has been read.

    Attributes
    ----------
    file, offset, line : int
        The file's number, the bytes that were read of it, and its lines.
    next : int or None
        Number (``seq``) of the line that must follow; None where that cannot be known.
    hash : str
        Hash of the last line; empty where it cannot be known.
    time, latest : str
        When the last line was written, and the latest time so far, none in the future.
    first : int
        The first of the chain's files that was read.
    closed : bool
        Whether its process ended it.
    begin : int or None
        Number (``seq``) of the first line that was read; None before one was.
    lost : int
        Lines since the last one that nobody can read: each may have stood in the chain, with a
        number of its own, or may have been put in.
    """

    file: int = 0
    offset: int = 0
    line: int = 0
    next: int | None = None
    hash: str = ""
    time: str = ""
    latest: str = ""
    first: int = 0
    closed: bool = False
    begin: int | None = None
    lost: int = 0

    @classmethod
    def before(cls, number: int) -> Self:
        """Return the place before the first line of a file: that of the first one is known."""
        if number == 1:
            return cls(next=0, hash=line_format.START, first=1)
        return cls(first=number)


@dataclass(slots=True)
class Stream:
    """How far a file has been read that is no chain's own.

    Attributes
    ----------
    offset, lines : int
        Bytes and lines.
    digest : str
        That of all these lines: the file is known again by its content, wherever it lies.
    chain : str
        The chain of its last line; empty for decisions that are not chained.
    """

    offset: int = 0
    lines: int = 0
    digest: str = ""
    chain: str = ""


@dataclass(slots=True)
class Cursor:
    """How far a log has been read; written to a state file, read on from there.

    Attributes
    ----------
    chains : dict of str to Place
        Each chain by its name.
    streams : dict of str to Stream
        Other files, in the order in which they were met.
    forgotten : str
        The newest chain that is not remembered any more; chains that began before it are not read.
    opened : dict of str to str
        Which file is which stream, in this process; an empty name is a copy.
    """

    chains: dict[str, ChainPosition] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    forgotten: str = ""
    opened: dict[str, str] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "chains": {name: list(astuple(item)) for name, item in self.chains.items()},
            "streams": {name: list(astuple(item)) for name, item in self.streams.items()},
            "forgotten": self.forgotten,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what ``to_dict`` gave.

        Raises
        ------
        InputError
            It is no such content.
        """
        with errors_as(InputError, (KeyError, TypeError, AttributeError), "log_position_unknown"):
            return cls(
                {name: ChainPosition(*item) for name, item in content["chains"].items()},
                {name: Stream(*item) for name, item in content["streams"].items()},
                content["forgotten"],
            )

    def has_read(self, chain: str, seq: int) -> bool:
        """Return whether a line lies in what was read; yes for chains not remembered any more."""
        if (place := self.chains.get(chain)) is not None:
            # After a line that nobody can read the number of the next one may not be known.
            end = None if place.next is None else place.next + place.lost
            return (place.begin or 0) <= seq and (end is None or seq < end)
        if (stream := self.streams.get(chain)) is not None:
            return seq < stream.lines
        return chain <= self.forgotten

    def trim(self) -> None:
        """Forget the oldest chains where there are too many: the state stays small.

        A chain's name begins with the second in which it began, so one that is not remembered is
        told from one that is new.
        """
        for name in sorted(self.chains, key=lambda item: (not self.chains[item].closed, item)):
            if len(self.chains) <= _REMEMBERED:
                break
            del self.chains[name]
            self.forgotten = max(self.forgotten, name)
        while len(self.streams) > _REMEMBERED:
            del self.streams[next(iter(self.streams))]


@dataclass(slots=True)
class LogCounts(Record):
    """What was met in a log, counted; the first findings are named.

    Attributes
    ----------
    lines : int
        Lines that were read.
    missing : int
        Lines that the numbers of others show to be missing.
    used : int
        Lines that were used.
    skipped : dict of str to int
        Lines that are not used, by reason.
    found : dict of str to int
        Findings by code.
    findings : tuple of LogFinding
        The first ones.
    others : dict of str to int
        Decisions of other guardrails, by digest.
    """

    lines: int = 0
    missing: int = 0
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    findings: tuple[line_format.LogFinding, ...] = ()
    others: dict[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing shows that a line was changed or is missing."""
        return not set(self.found) - _NOTES

    def skip(self, reason: str, n: int = 1) -> None:
        """Count lines that are not used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + n

    def find(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        """Count a finding, and name it where there is room."""
        self.found[code] = self.found.get(code, 0) + 1
        if len(self.findings) < _LISTED:
            self.findings += (line_format.LogFinding(code, file, line, values),)

    def refuse(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        """Count a line that is not used, and name it."""
        self.skip(code)
        self.find(code, file, line, **values)

    def find_once(self, code: str, file: str, **values: Any) -> None:
        """Count what is found of a file each time that it is looked at, as one finding."""
        if not any((item.code, item.file) == (code, file) for item in self.findings):
            self.find(code, file, None, **values)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, dict) else value
            for name, value in Record.to_dict(self).items()
        }


#: The name of standard input among the streams.
STDIN = "-"


#: A folder or a file of a log; or standard input.
LogSource = Path | Literal["-"]


def _stream_name(file: IO[bytes], cursor: Cursor, tally: LogCounts) -> str:
    """Return the stream whose lines a file begins with, or a new one; empty for a copy of one."""
    ends = {(item.offset, item.digest): name for name, item in cursor.streams.items()}
    furthest = max((item.offset for item in cursor.streams.values()), default=0)
    position, digest, name = 0, "", None
    for raw in file:
        position += len(raw)
        if position > furthest:
            break
        digest = _chained(digest, raw)
        name = ends.get((position, digest), name)
    if name is not None and name in cursor.opened.values():
        file.seek(0)
        tally.skip("duplicate", sum(1 for _ in file))
        return ""
    if name is None:
        name = f"file-{sum(item != STDIN for item in cursor.streams) + 1}"
        cursor.streams[name] = Stream()
    return name


def _chained(digest: str, raw: bytes) -> str:
    return sha256(digest.encode() + raw).hexdigest()


def _standard_input(patience: float | None) -> Iterator[bytes | None]:
    stream = sys.stdin.buffer
    try:
        handle = stream.fileno()
    except UnsupportedOperation:
        patience = None
    if patience is None or os.name == "nt":
        yield from stream
        return
    rest = b""
    while True:
        if not select.select([handle], [], [], patience)[0]:
            yield None
            continue
        if not (chunk := os.read(handle, 1 << 16)):
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


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


class ChainLine(NamedTuple):
    """One line of a chain's file, as it was found there."""

    latest: str
    chain: str
    file: int
    name: str
    offset: int
    number: int
    line: line_format.LogLine | None
    code: str


def _future_limit() -> str:
    """Return the time from which on a line's own lies in the future."""
    return (datetime.now(UTC) + _AHEAD).strftime("%Y-%m-%dT%H:%M:%S")


class _LineReader:
    """Takes lines one by one, and moves the cursor past each."""

    def __init__(self, cursor: Cursor, tally: LogCounts) -> None:
        self._cursor, self._tally, self._ahead = cursor, tally, _future_limit()
        # Lines of several chains in one file are told apart by the hash of the line before.
        self._ends: dict[str, str] = {item.hash: name for name, item in cursor.chains.items()}

    def chained(self, raw: ChainLine) -> Logged | None:
        """Take a line of a chain's own file."""
        if raw.code == "cut":
            self._tally.find_once("cut", raw.name, read=raw.offset)
            return None
        place = self._cursor.chains.get(raw.chain)
        if place is None:
            place = self._cursor.chains[raw.chain] = ChainPosition.before(raw.file)
        place.file, place.offset, place.line = raw.file, raw.offset, raw.number
        if raw.code:
            self._tally.find(raw.code, raw.name, raw.number)
        if raw.line is None:
            self._tally.lines += 1
            self._tally.skip(raw.code)
            if raw.code == "changed":
                place.lost += 1
            return None
        opening = raw.number == 1 or raw.line.content.get("kind") == line_format.OPENED
        if opening and (raw.number != 1 or _opening(raw.line) != (raw.chain, raw.file)):
            self._tally.find("opening", raw.name, raw.number)
        return self._take(raw.line, raw.chain, place, raw.name, raw.number)

    def streamed(
        self, source: LogSource, patience: float | None
    ) -> Iterator[Logged | Literal["quiet"] | None]:
        """Take the lines of standard input, or of a file that is no chain's own.

        A last line that has no end yet is left for the next time; on standard input it is taken as
        it is, since there is no next time.
        """
        cursor = self._cursor
        if source == "-":
            stream = cursor.streams.setdefault(STDIN, Stream())
            for raw in _standard_input(patience):
                if raw is None:
                    yield "quiet"
                    continue
                stream.lines += 1
                yield self._streamed_line(raw, STDIN, STDIN)
            return
        with source.open("rb") as file:
            size, key = os.fstat(file.fileno()).st_size, str(source.resolve())
            if key not in cursor.opened:
                cursor.opened[key] = _stream_name(file, cursor, self._tally)
            if not (name := cursor.opened[key]):
                return
            stream = cursor.streams[name]
            if size < stream.offset:
                self._tally.find_once("cut", str(source), read=stream.offset, bytes=size)
                return
            file.seek(stream.offset)
            for raw in file:
                if not raw.endswith(b"\n") or stream.offset + len(raw) > size:
                    return
                stream.offset += len(raw)
                stream.lines += 1
                stream.digest = _chained(stream.digest, raw)
                yield self._streamed_line(raw, name, str(source))

    def _streamed_line(self, raw: bytes, name: str, file: str) -> Logged | None:
        stream, tally, text = self._cursor.streams[name], self._tally, raw.removesuffix(b"\n")
        number, chains = stream.lines, self._cursor.chains
        if not line_format.is_chained(text):
            # What `calibrail check` wrote is in no chain.
            tally.lines += 1
            content = None
            with suppress(ValueError, RecursionError):
                content = json.loads(text)
            if not isinstance(content, dict):
                tally.refuse("malformed", file, number)
                return None
            tally.find_once("no_chain", file)
            return Logged(content, name, number - 1, None, math.nan, file, number)
        line, torn = line_format.parse_raw_line(raw)
        if line is None:
            tally.lines += 1
            tally.refuse("torn" if torn else "changed", file, number)
            if stream.chain and not torn:
                chains[stream.chain].lost += 1
            return None
        chain = stream.chain = self._chain_of(line, stream.chain)
        self._ends.pop(chains[chain].hash, None)
        logged = self._take(line, chain, chains[chain], file, number)
        self._ends[chains[chain].hash] = chain
        return logged

    def _chain_of(self, line: line_format.LogLine, current: str) -> str:
        """Return the chain of a line: by its own words, the line before it, or its neighbours."""
        chains = self._cursor.chains
        if (opening := _opening(line)) is not None:
            chains.setdefault(opening[0], replace(ChainPosition.before(opening[1]), first=0))
            return opening[0]
        if (known := self._ends.get(line.previous)) is not None:
            return known
        if current and (len(chains) == 1 or chains[current].lost or not chains[current].hash):
            return current
        name = f"chain-{line.previous[:16]}"
        chains.setdefault(name, ChainPosition())
        return name

    def _take(
        self, line: line_format.LogLine, chain: str, place: ChainPosition, name: str, number: int
    ) -> Logged | None:
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
            place.closed = line.kind == line_format.CLOSED
            return None
        return Logged(line.content, chain, line.seq, line.time, seconds, name, number)


def _opening(line: line_format.LogLine) -> tuple[str, int] | None:
    """Return the chain and the number of the file that a line begins; None for other lines."""
    chain, number = (line.content.get(name) for name in ("chain", "file"))
    if line.kind == line_format.OPENED and isinstance(chain, str) and isinstance(number, int):
        return chain, number
    return None


#: Lines that are handed on at a time.
BLOCK: Final = 4096


def log_sources(given: object, *, growing: bool = False) -> tuple[LogSource, ...]:
    """Return paths of a log, or ``-`` for standard input, each of them looked at.

    Parameters
    ----------
    given : path, "-", or sequence of them
        Folders of ``calibrail serve --log``, files of such a folder, and what ``calibrail check``
        wrote.
    growing : bool
        Whether a folder may be empty yet.

    Raises
    ------
    InputError
        It is no such list.
    DataError
        There is none, or it cannot be read.
    """
    listed = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(listed, Sequence) or not listed:
        raise InputError(f"logs must be paths of decision logs, or '-'; got {given!r:.80}")
    sources: list[LogSource] = []
    for item in listed:
        if item == "-":
            if "-" in sources:
                raise InputError("- is standard input; name it once")
            sources.append("-")
            continue
        path = fields.path(item, "logs")
        with file_errors(f"cannot read the decision log {path}", "; name what --log names"):
            if path.is_dir():
                if not growing and next(line_format.files_of(path), None) is None:
                    raise DataError.on("no_decision_log", paths=path)
            else:
                path.open("rb").close()
        sources.append(path)
    return tuple(sources)


def read_on(
    sources: Sequence[LogSource], cursor: Cursor, tally: LogCounts, *, patience: float | None = None
) -> Iterator[list[Logged]]:
    """Yield the decisions that stand in a log after a cursor, in blocks; the cursor goes with them.

    What stands there at the moment of the call is read: chains together, in the order of their
    times, then files of other names and standard input. A line that a process is just writing is
    left for the next call. After each block, and at the end, cursor and tally say what was read up
    to there; both may be saved then.

    Parameters
    ----------
    sources : sequence of Path or "-"
        What `log_sources` gives.
    cursor : Cursor
        From where; an empty one reads everything.
    tally : Tally
        Counts and names what is found.
    patience : float, optional
        Seconds after which an empty block says that nothing comes on standard input. Without it
        standard input is waited for until it ends.

    Yields
    ------
    list of Logged
        At most 4,096 decisions. Lines whose hash does not fit, that were read before, or that hold
        no decision are not among them.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    reader = _LineReader(cursor, tally)
    with file_errors("cannot read the decision log"):
        chains, others = _files(sources, cursor, tally)
        read = [_chain_lines(name, *item) for name, item in chains.items()]
        lines = read[0] if len(read) == 1 else merge(*read, key=attrgetter("latest"))
        yield from _blocks(map(reader.chained, lines))
        for source in others:
            with file_errors(f"cannot read {source}"):
                yield from _blocks(reader.streamed(source, patience))
    cursor.trim()


def _blocks(lines: Iterable[Logged | Literal["quiet"] | None]) -> Iterator[list[Logged]]:
    """Yield decisions in blocks: full ones, and what there is when it is quiet, or over."""
    block: list[Logged] = []
    for item in lines:
        if item is not None and item != "quiet":
            block.append(item)
        if item == "quiet" or len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


#: A file of a chain: its number, where it is, and its size when the folder was looked at.
_File = tuple[int, Path, int]


def _files(
    sources: Sequence[LogSource], cursor: Cursor, tally: LogCounts
) -> tuple[dict[str, tuple[list[_File], ChainPosition | None]], list[LogSource]]:
    """Return what is to be read of each chain, and other sources; copies are counted."""
    named: dict[tuple[str, int], list[Path]] = {}
    others: list[LogSource] = []
    for source in sources:
        if source != "-" and source.is_dir():
            for chain, number, path in line_format.files_of(source):
                named.setdefault((chain, number), []).append(path)
        elif source != "-" and (numbered := line_format.place_of(source.name)) is not None:
            named.setdefault(numbered, []).append(source)
        else:
            others.append(source)
    # A process begins a file when it has ended the one before: sizes are taken after the list.
    chains: dict[str, tuple[list[_File], ChainPosition | None]] = {}
    for (chain, number), paths in sorted(named.items()):
        place = cursor.chains.get(chain)
        if place is None and chain <= cursor.forgotten:
            continue
        if place is not None and number < place.file:
            if number < place.first:
                tally.find_once("late", paths[0].name, first=place.first)
            continue
        start = place.offset if place is not None and place.file == number else 0
        sized = sorted(_sized(paths), key=lambda item: -item[1])
        for path, size in sized[1:]:
            tally.skip("duplicate", _n_lines(path, start, size))
        if sized:
            chains.setdefault(chain, ([], place))[0].append((number, *sized[0]))
    return chains, others


def _sized(paths: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    for path in paths:
        # What is moved to an archive just now is read from there, the next time.
        with suppress(FileNotFoundError):
            yield path, path.stat().st_size


def _n_lines(path: Path, start: int, end: int) -> int:
    """Return how many lines of a copy stand where its other copy is read."""
    with path.open("rb") as file:
        file.seek(start)
        return sum(1 for raw in file if raw.endswith(b"\n") and (start := start + len(raw)) <= end)


def _chain_lines(
    chain: str, files: Sequence[_File], place: ChainPosition | None
) -> Iterator[ChainLine]:
    """Yield what stands in the files of a chain after a place; the place is not changed."""
    latest = "" if place is None else place.latest
    future = _future_limit()
    for file_number, path, size in files:
        offset = number = 0
        if place is not None and place.file == file_number:
            offset, number = place.offset, place.line
        name, last = path.name, file_number == files[-1][0]
        if size < offset:
            yield ChainLine(latest, chain, file_number, name, offset, number, None, "cut")
            return
        try:
            for n, end, _, line, code, ended in line_format.file_lines(path, offset, number):
                # What is just being written, or came since, is left for the next time.
                if (last and not ended) or end > size:
                    break
                if line is not None and line.time < future:
                    latest = max(latest, line.time)
                yield ChainLine(latest, chain, file_number, name, end, n, line, code)
        except DataError:
            # It was moved to an archive just now. What follows waits for it to be found there.
            if not path.exists():
                return
            raise
