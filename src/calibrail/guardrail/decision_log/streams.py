"""Which lines stand in a file that is no chain's own, or come on standard input?

Such a file may hold lines of any chains, as a shipper has collected them, or decisions that
``calibrail check`` wrote. Nothing says which file it is but its content.
"""

import os
import select
import sys
from collections.abc import Iterator
from hashlib import sha256
from io import UnsupportedOperation
from pathlib import Path
from typing import IO, Literal, NamedTuple

from calibrail.guardrail.decision_log.cursor import Cursor, Stream, Tally

#: The name of standard input among the streams.
STDIN = "-"


class StreamLine(NamedTuple):
    """One line of a file: its stream, the file's name, its number from 1, its bytes and its end."""

    stream: str
    file: str
    number: int
    raw: bytes
    whole: bool = True


def stream_lines(
    source: Path | Literal["-"], cursor: Cursor, tally: Tally, patience: float | None
) -> Iterator[StreamLine | None]:
    """Yield the lines after a cursor; None where nothing came for as long as patience lasts.

    A last line that has no end yet is left for the next time; on standard input it is given as it
    is, since there is no next time.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    if source == "-":
        place = cursor.streams.setdefault(STDIN, Stream())
        for raw in _standard_input(patience):
            if raw is None:
                yield None
                continue
            place.lines += 1
            whole = raw.endswith(b"\n")
            yield StreamLine(STDIN, STDIN, place.lines, raw.removesuffix(b"\n"), whole)
        return
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if (name := _name(source, file, cursor, tally)) is None:
            return
        place = cursor.streams[name]
        if size < place.offset:
            tally.find_once("cut", str(source), read=place.offset, bytes=size)
            return
        file.seek(place.offset)
        for raw in file:
            if not raw.endswith(b"\n") or place.offset + len(raw) > size:
                return
            place.offset += len(raw)
            place.lines += 1
            place.digest = _chained(place.digest, raw)
            yield StreamLine(name, str(source), place.lines, raw[:-1])


def _name(path: Path, file: IO[bytes], cursor: Cursor, tally: Tally) -> str | None:
    """Return which stream a file goes on with, or a new one's name; None for a copy of one."""
    key = str(path.resolve())
    if key not in cursor.opened:
        name = _known(file, cursor)
        taken = name in cursor.opened.values()
        if taken:
            file.seek(0)
            tally.skip("duplicate", sum(1 for _ in file))
        if name is None:
            name = f"file-{sum(item != STDIN for item in cursor.streams) + 1}"
            cursor.streams[name] = Stream()
        cursor.opened[key] = "" if taken else name
    return cursor.opened[key] or None


def _known(file: IO[bytes], cursor: Cursor) -> str | None:
    """Return the stream whose lines a file begins with."""
    ends = {(item.offset, item.digest): name for name, item in cursor.streams.items()}
    furthest = max((item.offset for item in cursor.streams.values()), default=0)
    position, digest, found = 0, "", None
    for raw in file:
        position += len(raw)
        if position > furthest:
            break
        digest = _chained(digest, raw)
        found = ends.get((position, digest), found)
    return found


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
