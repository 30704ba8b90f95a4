"""Lines of the decision log, and the writer that appends them."""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

import calibrail
from calibrail.atomic_files import write_whole
from calibrail.errors import DataError, InputError, LogError, errors_as, file_errors
from calibrail.guardrail.decision import Decision
from calibrail.models.hardware import renewed
from calibrail.options import fields as checks
from calibrail.serialization import Record
from calibrail.text.words import languages_known, measure_texts

#: What stands as the hash before the first line of a chain.
START: Final = "0" * 64

#: Kinds of the lines that hold no decision: the one that begins each file, and the one that ends
#: a chain whose process was not killed.
OPENED: Final = "opened"
CLOSED: Final = "closed"

_SEAL: Final = b', "hash": "%s"}'
_SEAL_LENGTH: Final = len(_SEAL % START.encode())
#: A seal as it stands in a line; within a text its quotation marks would be escaped.
_SEALED: Final = re.compile(rb', "hash": "[0-9a-f]{64}"}')
_BEGINNING: Final = b'{"time": "'


@dataclass(frozen=True, slots=True)
class LogFinding(Record):
    """One thing that is wrong with a log, or that is to be known of it.

    Attributes
    ----------
    code : str
        What it is.
    file : str
        Where: the file's name, or the chain's where the file is missing.
    line : int or None
        Which line of the file, from 1.
    values : mapping
        What the sentence about it needs.
    """

    code: str
    file: str
    line: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One whole line, as it stands in a file.

    Attributes
    ----------
    content : mapping
        Its fields.
    seq : int
        Its number in the chain, from 0.
    previous, hash : str
        The hash of the line before it, and its own.
    time : str
        When it was written, in UTC.
    """

    content: Mapping[str, Any]
    seq: int
    previous: str
    hash: str
    time: str

    @property
    def kind(self) -> str:
        """What it holds: ``opened`` and ``closed`` are no decisions."""
        return str(self.content.get("kind", "check"))

    @property
    def decides(self) -> bool:
        """Whether it holds a decision."""
        return self.kind not in (OPENED, CLOSED)


def now() -> str:
    """Return the time as RFC 3339 in UTC, with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def to_utf8(fields: str) -> bytes:
    """Return JSON text as UTF-8; half of a surrogate pair, which UTF-8 lacks, as its escape."""
    return fields.encode("utf-8", "backslashreplace")


def json_fields(content: Mapping[str, Any]) -> str:
    """Return a JSON object's fields without its braces.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    return json.dumps(content, ensure_ascii=False, allow_nan=False)[1:-1]


def seal_line(fields: bytes, seq: int, previous: str, moment: str) -> tuple[bytes, str]:
    """Return a line with its end, and its hash; its time stands before its fields.

    The hash is the SHA-256 of the line's bytes as they would stand without ``hash``: the place in
    the chain and the line before are part of it.
    """
    chained = b'{"time": "%s", %s, "seq": %d, "previous": "%s"}'
    body = chained % (moment.encode(), fields, seq, previous.encode())
    digest = sha256(body).hexdigest()
    return body[:-1] + _SEAL % digest.encode() + b"\n", digest


def parse_line_if_sound(raw: bytes) -> LogLine | None:
    """Return a line, without its end; None where its hash is not that of its content."""
    body, seal = raw[:-_SEAL_LENGTH], raw[-_SEAL_LENGTH:]
    digest = sha256(body + b"}").hexdigest()
    if seal != _SEAL % digest.encode():
        return None
    try:
        # As json.loads takes bytes, without guessing their encoding.
        content = json.loads(raw.decode("utf-8", "surrogatepass"))
        seq, previous, time = (content[name] for name in ("seq", "previous", "time"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(seq, int) and isinstance(previous, str) and isinstance(time, str)):
        return None
    return LogLine(content, seq, previous, digest, time)


def parse_raw_line(raw: bytes) -> tuple[LogLine | None, bool]:
    """Return what one line of a file holds, and whether a tear may leave it as it is.

    A write that was torn leaves the beginning of a line, or all of it but its end. A line that is
    all there, with anything but its end after it, was changed.
    """
    if raw.endswith(b"\n"):
        return parse_line_if_sound(raw[:-1]), False
    if (seal := _SEALED.search(raw)) is not None:
        line = parse_line_if_sound(raw[: seal.end()])
        return line, line is not None and seal.end() == len(raw)
    return None, raw.startswith(_BEGINNING) or _BEGINNING.startswith(raw)


def is_chained(raw: bytes) -> bool:
    """Return whether a line, changed or not, is one of a log: its time stands first."""
    return raw.startswith(_BEGINNING) or _SEALED.search(raw) is not None


class FileLine(NamedTuple):
    """One line of a file, as it stands there.

    Attributes
    ----------
    number, end, size : int
        Which line of the file, from 1; the bytes up to its end, and its own.
    line : LogLine or None
        What it holds; None where that cannot be told.
    code : {"", "changed", "torn"}
        What is wrong with it: it was changed, or a write was torn in it.
    ended : bool
        Whether it has its line end.
    """

    number: int
    end: int
    size: int
    line: LogLine | None
    code: Literal["", "changed", "torn"]
    ended: bool


def file_lines(path: Path, offset: int = 0, number: int = 0) -> Iterator[FileLine]:
    """Yield the lines of a file that stand after an offset, up to which there are ``number``.

    This is the one reader of a log's own files: verification, export, monitoring and sampling all
    judge lines by it.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    with file_errors(f"cannot read {path}"), path.open("rb") as file:
        file.seek(offset)
        for raw in file:
            number, offset = number + 1, offset + len(raw)
            ended = raw.endswith(b"\n")
            line, torn = parse_raw_line(raw)
            sound = ended and line is not None
            code: Literal["", "changed", "torn"] = "torn" if torn else "" if sound else "changed"
            yield FileLine(number, offset, len(raw), line, code, ended)


_NAME: Final = re.compile(r"(?P<chain>\d{8}T\d{6}-\d+-[0-9a-f]{8})\.(?P<number>\d{4,})\.jsonl")


def place_of(name: str) -> tuple[str, int] | None:
    """Return the chain and the number that a file's name says; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match["chain"], int(match["number"]))


def files_of(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """Yield chain, number and path of each file of a log in a folder.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    for entry in os.scandir(folder):
        # What is no file, a pipe say, would hold up whoever reads it.
        if (place := place_of(entry.name)) is not None and entry.is_file():
            yield *place, Path(entry.path)


def chains(folders: Iterable[Path]) -> dict[str, dict[int, Path]]:
    """Return the files of each chain by their numbers, in order, from one folder or several.

    Raises
    ------
    OSError
        A folder cannot be read.
    DataError
        A file is in two of them.
    """
    found: dict[str, dict[int, Path]] = {}
    for folder in folders:
        for chain, number, path in files_of(folder):
            numbered = found.setdefault(chain, {})
            if number in numbered:
                raise DataError.on(
                    "log_file_twice", path=path, other=numbered[number], folder=folder
                )
            numbered[number] = path
    return {chain: dict(sorted(files.items())) for chain, files in sorted(found.items())}


def first_line(path: Path) -> LogLine | None:
    """Return the first line of a file; None where it is not whole."""
    with suppress(OSError), path.open("rb") as file:
        raw = file.readline()
        return parse_line_if_sound(raw[:-1]) if raw.endswith(b"\n") else None
    return None


def last_line(path: Path) -> LogLine | None:
    """Return the last whole line of a file; None where there is none."""
    with suppress(OSError), path.open("rb") as file:
        position, tail = file.seek(0, os.SEEK_END), b""
        while tail.count(b"\n") < 2 and position:
            size = min(position, max(1 << 14, len(tail)))
            position = file.seek(position - size)
            tail = file.read(size) + tail
        return parse_line_if_sound(tail.rpartition(b"\n")[0].rpartition(b"\n")[2])
    return None


#: What is recorded of the last line of a chain, beside whether it was closed.
_HEAD: Final = {"seq": int, "hash": str, "time": str}


def heads(files: Mapping[str, dict[int, Path]], *, but: str) -> dict[str, dict[str, Any]]:
    """Return where each chain ends that no file records there: what is to be recorded.

    A chain that another one has recorded at its end is left out: who removes it, breaks the record,
    and who removes the record too, breaks what is recorded of that one. So what has to be recorded
    grows with the chains that were added, not with all there ever were.

    Parameters
    ----------
    files : mapping of str to mapping of int to Path
        What `chains` gives.
    but : str
        The chain that records.
    """
    ends = {
        chain: next(filter(None, map(last_line, reversed(numbered.values()))), None)
        for chain, numbered in files.items()
    }
    recorded: dict[str, int] = {}
    for chain, numbered in files.items():
        for line in (*map(first_line, numbered.values()), ends[chain]):
            for other, end in recorded_by(line).items():
                recorded[other] = max(recorded.get(other, -1), end[0])
    return {
        chain: {**{name: getattr(last, name) for name in _HEAD}, "closed": last.kind == CLOSED}
        for chain, last in ends.items()
        if chain != but and last is not None and last.seq > recorded.get(chain, -1)
    }


def recorded_by(line: LogLine | None) -> dict[str, tuple[int, str, str, bool]]:
    """Return the ends of other chains that a line records: seq, hash, time, and if it was closed.

    The first line of a file and the closing line of a chain do.
    """
    if line is None or line.decides:
        return {}
    others = line.content.get("others")
    return {
        chain: (end["seq"], end["hash"], end["time"], end.get("closed") is True)
        for chain, end in (others.items() if isinstance(others, dict) else ())
        if isinstance(end, dict) and all(isinstance(end.get(name), _HEAD[name]) for name in _HEAD)
    }


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision, as the log takes it.

    Parameters
    ----------
    decision : Decision
        What was decided.
    guardrail : str
        The digest of the guardrail that decided.
    name : str
        Under which name the service has it.
    kind : str
        What was asked: ``check``, or e.g. ``select``. ``opened`` and ``closed`` are the log's own.
    released : bool, optional
        For a selection: whether the answer was released.
    question, response : str
        The texts. Their lengths and language are written; they themselves only where the log keeps
        texts.
    contexts : sequence of str
        Likewise; their number is written.
    group : str, optional
        The answer's group, where the guardrail has thresholds by group; empty for one that the
        guardrail does not know.
    client : str
        Who asked, where the service knows its clients by name.

    Raises
    ------
    InputError
        If the kind is one of the log's own, or a text is none.
    """

    decision: Decision
    guardrail: str
    name: str = ""
    kind: str = "check"
    released: bool | None = None
    question: str = ""
    contexts: Sequence[str] = ()
    response: str = ""
    group: str | None = None
    client: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind in ("", OPENED, CLOSED):
            raise InputError.on("log_kind", opened=OPENED, closed=CLOSED, kind=self.kind)
        for name in ("question", "response"):
            if not isinstance(text := getattr(self, name), str):
                raise InputError(f"{name} must be a text; got {text!r:.80}")
        if isinstance(self.contexts, str) or not isinstance(self.contexts, Sequence):
            raise InputError(f"contexts must be a list of texts; got {self.contexts!r:.80}")

    @classmethod
    def of(
        cls,
        guardrail: calibrail.Guardrail,
        example: calibrail.Example,
        decision: Decision,
        *,
        name: str = "",
        kind: str = "check",
        released: bool | None = None,
        client: str = "",
    ) -> Self:
        """Return the entry of what a guardrail decided about an answer."""
        grouped = guardrail.rule.groups
        # A name that the guardrail does not know came with the request, and may be any text.
        group = None if grouped is None else grouped.known(guardrail.group_of(example))
        texts = example.question, example.contexts, example.response
        return cls(decision, guardrail.config.digest, name, kind, released, *texts, group, client)


#: What a line's time, its number and its two hashes take at most.
_CHAINED: Final = 280


class DecisionLog:
    """A folder of decisions: appended, never changed, each line chained to the one before it.

    A log belongs to one process, which may write from several threads. Any number of processes may
    share a folder: each writes files of its own. So does a forked child: with its first decision it
    begins a chain of its own.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    sync : bool
        Whether each write is on the disk before `write` returns, so that it survives a power cut.
        Without it a line survives the end of the process, however sudden, but not the machine's.
    texts : bool
        Whether question, contexts and response are kept, what removed sentences say, and the whole
        reason of a decision without a score, which may quote them; see `Decision.without_texts`.
    max_bytes : int
        About how large a file grows before the chain goes on in the next one.

    Raises
    ------
    LogError
        Nothing can be written there.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        sync: bool = False,
        texts: bool = False,
        max_bytes: int = 1 << 26,
    ) -> None:
        self.folder = checks.path(folder, "folder")
        checks.yes_or_no(sync, "sync")
        checks.yes_or_no(texts, "texts")
        self._sync, self.texts = sync, texts
        self._max_bytes = checks.whole(max_bytes, "max_bytes", least=1)
        self._handle, self._closed = -1, False
        self._begin_chain()
        renewed(self)
        with self._disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._start_file()
        # The model that tells languages is there before the first decision waits for its line.
        languages_known()

    def _begin_chain(self) -> None:
        self.chain = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._path = self.folder
        self._file = self._size = self._seq = 0
        self._previous, self._moment = START, ""
        self._torn = self._holds_decisions = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as folder and options: it begins a chain of its own there."""
        begin = partial(type(self), sync=self._sync, texts=self.texts, max_bytes=self._max_bytes)
        return begin, (self.folder,)

    def renew_after_fork(self) -> None:
        """Leave the chain to the parent; the child begins its own when it has something to log."""
        if self._handle >= 0 and not self._closed:
            os.close(self._handle)
        self._handle = -1
        self._begin_chain()

    @property
    def head(self) -> tuple[int, str]:
        """Return number and hash of the last line: noted elsewhere, they show a cut-off end."""
        with self._lock:
            return self._seq - 1, self._previous

    def write(self, entries: Sequence[Entry]) -> None:
        """Append decisions: all of them, or none.

        A decision may be given once this has returned, and not before.

        Raises
        ------
        LogError
            They could not be written. What there was before is as it was; a later call may succeed.
        """
        with errors_as(LogError, ValueError, "decision_no_json"):
            fields = [self._fields(entry) for entry in entries]
        with self._lock, self._disk_errors():
            self._append(fields)

    def close(self) -> None:
        """End the log with a line that says so, if there is room; what was written is on the disk.

        Raises
        ------
        LogError
            The disk does not take it.
        """
        with self._lock, self._disk_errors():
            if self._closed or self._handle < 0:
                # A forked child that logged nothing has no file.
                self._closed = True
                return
            try:
                # Where there is no room for it nothing is lost: the end is merely not sure.
                with suppress(OSError):
                    end = {"kind": CLOSED, "others": heads(chains([self.folder]), but=self.chain)}
                    self._append([to_utf8(json_fields(end))], last=True)
                os.fsync(self._handle)
            finally:
                self._closed = True
                os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fields(self, entry: Entry) -> bytes:
        head = {"guardrail": entry.guardrail, "name": entry.name}
        kind = None if entry.kind == "check" else entry.kind
        optional = {"kind": kind, "released": entry.released, "group": entry.group}
        optional["client"] = entry.client or None
        more: dict[str, object] = {k: value for k, value in optional.items() if value is not None}
        more["traffic"] = measure_texts(entry.question, entry.contexts, entry.response)
        if self.texts:
            texts = {name: getattr(entry, name) for name in ("question", "contexts", "response")}
            more |= {**texts, "contexts": list(entry.contexts)}
        decision = replace(entry.decision, guardrail=None)
        decision = decision if self.texts else decision.without_texts()
        parts = json_fields(head), decision.line()[1:-1], json_fields(more)
        return to_utf8(", ".join(filter(None, parts)))

    def _append(self, fields: Sequence[bytes], *, last: bool = False) -> None:
        if self._closed:
            raise LogError(f"the decision log in {self.folder} is closed")
        if not fields:
            return
        size = sum(len(item) + _CHAINED for item in fields)
        self._remove_torn_end()
        full = self._size + size > self._max_bytes and self._holds_decisions
        if (full and not last) or not self._is_intact():
            self._start_file()
        seq, previous, moment, lines = self._seq, self._previous, now(), []
        for item in fields:
            line, previous = seal_line(item, seq, previous, moment)
            lines.append(line)
            seq += 1
        raw = b"".join(lines)
        self._torn = True
        try:
            write_whole(self._handle, raw, durable=self._sync)
        except OSError:
            with suppress(OSError):
                self._remove_torn_end()
            raise
        self._torn, self._holds_decisions = False, True
        self._size += len(raw)
        self._seq, self._previous, self._moment = seq, previous, moment

    def _remove_torn_end(self) -> None:
        """Cut off what a write that failed has left."""
        if self._torn:
            os.ftruncate(self._handle, self._size)
            self._torn = False

    def _is_intact(self) -> bool:
        """Whether the file is where it was and as this process left it.

        Nothing is written to one that was removed, or moved to an archive.
        """
        try:
            state = os.stat(self._path)
        except FileNotFoundError:
            return False
        return state.st_size == self._size and os.path.samestat(state, os.fstat(self._handle))

    def _start_file(self) -> None:
        """Go on in the next file, whose first line records where the other chains end."""
        others, moment = heads(chains([self.folder]), but=self.chain), now()
        # What already has a file's name is left as it is, a link too.
        number = self._file + 1
        while os.path.lexists(path := self.folder / f"{self.chain}.{number:04d}.jsonl"):
            number += 1
        content: dict[str, Any] = {"kind": OPENED, "chain": self.chain, "file": number}
        if self._moment:
            content["previous_time"] = self._moment
        content |= {"calibrail": version("calibrail"), "others": others}
        raw, digest = seal_line(to_utf8(json_fields(content)), self._seq, self._previous, moment)
        handle = self._create_file(path, raw)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._path, self._file, self._size = handle, path, number, len(raw)
        self._seq, self._previous, self._moment = self._seq + 1, digest, moment
        self._holds_decisions = False

    def _create_file(self, path: Path, raw: bytes) -> int:
        """Make a file that has its first line from the moment on at which it has its name."""
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(made, flags | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            try:
                write_whole(handle, raw, durable=self._sync)
            finally:
                os.close(handle)
            os.rename(made, path)
            made = path
            if self._sync and os.name != "nt":
                # The new file's name survives a power cut, too.
                folder = os.open(self.folder, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            return os.open(path, flags)
        except BaseException:
            with suppress(OSError):
                made.unlink()
            raise

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        with errors_as(LogError, OSError, "log_not_writable", folder=self.folder):
            yield
