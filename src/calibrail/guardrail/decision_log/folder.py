"""Which chains are in a folder, of which files, and where do they end?"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from calibrail.errors import DataError
from calibrail.guardrail.decision_log.lines import CLOSED, Line, LineError, unsealed

_NAME: Final = re.compile(r"(?P<chain>\d{8}T\d{6}-\d+-[0-9a-f]{8})\.(?P<number>\d{4,})\.jsonl")

#: Bytes that are read at a time from the end of a file.
_BLOCK: Final = 1 << 14


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


def first_line(path: Path) -> Line | None:
    """Return the first line of a file; None where it is not whole."""
    with suppress(OSError, LineError), path.open("rb") as file:
        raw = file.readline()
        return unsealed(raw[:-1]) if raw.endswith(b"\n") else None
    return None


def last_line(path: Path) -> Line | None:
    """Return the last whole line of a file; None where there is none."""
    with suppress(OSError, LineError), path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        tail = b""
        while tail.count(b"\n") < 2 and position:
            size = min(position, max(_BLOCK, len(tail)))
            position = file.seek(position - size)
            tail = file.read(size) + tail
        whole = tail.rpartition(b"\n")[0].rpartition(b"\n")[2]
        return unsealed(whole) if whole else None
    return None


def heads(files: Mapping[str, Mapping[int, Path]], *, but: str) -> dict[str, dict[str, Any]]:
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
    ends = {chain: _end(list(numbered.values())) for chain, numbered in files.items()}
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


def recorded_by(line: Line | None) -> dict[str, tuple[int, str, str, bool]]:
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


def _end(paths: Sequence[Path]) -> Line | None:
    for path in reversed(paths):
        if (last := last_line(path)) is not None:
            return last
    return None
