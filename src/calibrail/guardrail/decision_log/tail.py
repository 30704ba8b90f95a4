"""Which decisions were logged since the log was last read?"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal

from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision_log.cursor import Cursor, Place, Tally
from calibrail.guardrail.decision_log.folder import files_of, place_of
from calibrail.guardrail.decision_log.lines import ending, readable
from calibrail.guardrail.decision_log.streams import stream_lines
from calibrail.guardrail.decision_log.taking import Logged as Logged
from calibrail.guardrail.decision_log.taking import Raw, Reader, ahead
from calibrail.settings import checks

#: A folder or a file of a log; or standard input.
LogSource = Path | Literal["-"]

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
        path = checks.path(item, "logs")
        with file_errors(f"cannot read the decision log {path}", "; name what --log names"):
            if path.is_dir():
                if not growing and next(files_of(path), None) is None:
                    raise DataError(
                        f"there is no decision log in {path}: no file there is named like one; "
                        "name the folder that the service writes"
                    )
            else:
                path.open("rb").close()
        sources.append(path)
    return tuple(sources)


def read_on(
    sources: Sequence[LogSource], cursor: Cursor, tally: Tally, *, patience: float | None = None
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
    reader = Reader(cursor, tally)
    with file_errors("cannot read the decision log"):
        chains, others = _files(sources, cursor, tally)
        read = [_chain_lines(name, *item) for name, item in chains.items()]
        lines = read[0] if len(read) == 1 else merge(*read, key=attrgetter("latest"))
        yield from _blocks(map(reader.chained, lines))
        for source in others:
            streamed = stream_lines(source, cursor, tally, patience)
            yield from _blocks("quiet" if raw is None else reader.streamed(raw) for raw in streamed)
    cursor.trim()


def _blocks(lines: Iterable[Logged | Literal["quiet"] | None]) -> Iterator[list[Logged]]:
    """Yield decisions in blocks: full ones, and what there is when it is quiet, or over."""
    block: list[Logged] = []
    for item in lines:
        if item is None:
            continue
        if item != "quiet":
            block.append(item)
        if item == "quiet" or len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


#: A file of a chain: its number, where it is, and its size when the folder was looked at.
_File = tuple[int, Path, int]


def _files(
    sources: Sequence[LogSource], cursor: Cursor, tally: Tally
) -> tuple[dict[str, tuple[list[_File], Place | None]], list[LogSource]]:
    """Return what is to be read of each chain, and other sources; copies are counted."""
    named: dict[tuple[str, int], list[Path]] = {}
    others: list[LogSource] = []
    for source in sources:
        if source != "-" and source.is_dir():
            for chain, number, path in files_of(source):
                named.setdefault((chain, number), []).append(path)
        elif source != "-" and (named_so := place_of(source.name)) is not None:
            named.setdefault(named_so, []).append(source)
        else:
            others.append(source)
    # A process begins a file when it has ended the one before: sizes are taken after the list.
    chains: dict[str, tuple[list[_File], Place | None]] = {}
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


def _chain_lines(chain: str, files: Sequence[_File], place: Place | None) -> Iterator[Raw]:
    """Yield what stands in the files of a chain after a place; the place is not changed."""
    latest = "" if place is None else place.latest
    future = ahead()
    for file_number, path, size in files:
        offset = number = 0
        if place is not None and place.file == file_number:
            offset, number = place.offset, place.line
        name, last = path.name, file_number == files[-1][0]
        try:
            file = path.open("rb")
        except FileNotFoundError:
            # It was moved to an archive just now. What follows waits for it to be found there.
            return
        with file:
            if size < offset:
                yield Raw(latest, chain, file_number, name, offset, number, None, "cut")
                return
            file.seek(offset)
            for raw in file:
                number, offset = number + 1, offset + len(raw)
                if raw.endswith(b"\n"):
                    line = readable(raw[:-1])
                    code = "changed" if line is None else ""
                elif last:
                    break
                else:
                    line, torn = ending(raw)
                    code = "torn" if torn else "changed"
                if offset > size:
                    break
                if line is not None and line.time < future:
                    latest = max(latest, line.time)
                yield Raw(latest, chain, file_number, name, offset, number, line, code)
