"""What is one line of the log, and how is it tied to the one before it?"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, Any, Final

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


class LineError(ValueError):
    """What is wrong with one line, in a few words."""


@dataclass(frozen=True, slots=True)
class Line:
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


def encoded(fields: str) -> bytes:
    """Return JSON text as UTF-8; half of a surrogate pair, which UTF-8 lacks, as its escape."""
    return fields.encode("utf-8", "backslashreplace")


def fields_of(content: Mapping[str, Any]) -> str:
    """Return a JSON object's fields without its braces.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    return json.dumps(content, ensure_ascii=False, allow_nan=False)[1:-1]


def sealed(fields: bytes, seq: int, previous: str, moment: str) -> tuple[bytes, str]:
    """Return a line with its end, and its hash; its time stands before its fields.

    The hash is the SHA-256 of the line's bytes as they would stand without ``hash``: the place in
    the chain and the line before are part of it.
    """
    chained = b'{"time": "%s", %s, "seq": %d, "previous": "%s"}'
    body = chained % (moment.encode(), fields, seq, previous.encode())
    digest = sha256(body).hexdigest()
    return body[:-1] + _SEAL % digest.encode() + b"\n", digest


def unsealed(raw: bytes) -> Line:
    """Return a line, without its end, as what it holds.

    Raises
    ------
    LineError
        It is not JSON as the log writes it, or its hash is not that of its content.
    """
    body, seal = raw[:-_SEAL_LENGTH], raw[-_SEAL_LENGTH:]
    digest = sha256(body + b"}").hexdigest()
    if seal != _SEAL % digest.encode():
        raise LineError("its content is not what was written: its hash does not fit")
    try:
        # As json.loads takes bytes, without guessing their encoding.
        content = json.loads(raw.decode("utf-8", "surrogatepass"))
        seq, previous, time = (content[name] for name in ("seq", "previous", "time"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LineError("it is no line of a decision log") from error
    if not (isinstance(seq, int) and isinstance(previous, str) and isinstance(time, str)):
        raise LineError("it is no line of a decision log")
    return Line(content, seq, previous, digest, time)


def readable(raw: bytes) -> Line | None:
    """Return a line, without its end; None where it is not what was written."""
    try:
        return unsealed(raw)
    except LineError:
        return None


def ending(raw: bytes) -> tuple[Line | None, bool]:
    """Return what stands after a file's last line end: a line, and whether a tear may leave it.

    A write that was torn leaves the beginning of a line, or all of it but its end. A line that is
    all there, with anything but its end after it, was changed.
    """
    if (seal := _SEALED.search(raw)) is not None:
        line = readable(raw[: seal.end()])
        return line, line is not None and seal.end() == len(raw)
    return None, raw.startswith(_BEGINNING) or _BEGINNING.startswith(raw)


def is_chained(raw: bytes) -> bool:
    """Return whether a line, changed or not, is one of a log: its time stands first."""
    return raw.startswith(_BEGINNING) or _SEALED.search(raw) is not None


def raw_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each line's number, from 1, its bytes, and whether it has its end."""
    for number, raw in enumerate(file, start=1):
        yield number, raw.removesuffix(b"\n"), raw.endswith(b"\n")
