"""Hash-chained lines of a decision log, and the files of its folder."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from calibrail.errors import DataError
from calibrail.serialization import Record

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


def parse_unended(raw: bytes) -> tuple[LogLine | None, bool]:
    """Return what stands after a file's last line end: a line, and whether a tear may leave it.

    A write that was torn leaves the beginning of a line, or all of it but its end. A line that is
    all there, with anything but its end after it, was changed.
    """
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
    OSError
        The file cannot be read.
    """
    with path.open("rb") as file:
        file.seek(offset)
        for raw in file:
            number, offset = number + 1, offset + len(raw)
            ended = raw.endswith(b"\n")
            line, torn = (parse_line_if_sound(raw[:-1]), False) if ended else parse_unended(raw)
            sound = ended and line is not None
            code: Literal["", "changed", "torn"] = "torn" if torn else "" if sound else "changed"
            yield FileLine(number, offset, len(raw), line, code, ended)


_NAME: Final = re.compile(r"(?P<chain>\d{8}T\d{6}-\d+-[0-9a-f]{8})\.(?P<number>\d{4,})\.jsonl")


def file_name(chain: str, number: int) -> str:
    """Return the name of a chain's file; they are numbered from 1."""
    return f"{chain}.{number:04d}.jsonl"


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
                raise DataError(
                    f"{path.name} is in {numbered[number].parent} and in {folder}; leave it "
                    "in one of the two"
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
        size, tail, block = file.seek(0, os.SEEK_END), b"", 1 << 14
        while tail.count(b"\n") < 2 and len(tail) < size:
            file.seek(max(0, size - block))
            tail, block = file.read(), 2 * block
        return parse_line_if_sound(tail.rpartition(b"\n")[0].rpartition(b"\n")[2])
    return None


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
        chain: {
            "seq": last.seq,
            "hash": last.hash,
            "time": last.time,
            "closed": last.kind == CLOSED,
        }
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
    kinds = {"seq": int, "hash": str, "time": str}
    return {
        chain: (end["seq"], end["hash"], end["time"], end.get("closed") is True)
        for chain, end in (others.items() if isinstance(others, dict) else ())
        if isinstance(end, dict) and all(isinstance(end.get(name), kinds[name]) for name in kinds)
    }
