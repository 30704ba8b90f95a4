"""Verification of a decision log, and its export as one table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from calibrail.atomic_files import whole_file
from calibrail.errors import DataError
from calibrail.guardrail.decision_log.lines import (
    CLOSED,
    OPENED,
    START,
    LogFinding,
    LogLine,
    chains,
    file_lines,
    first_line,
    last_line,
    recorded_by,
)
from calibrail.serialization import Record

if TYPE_CHECKING:
    import pyarrow as pa


Verdict = Literal["whole", "beginning missing", "broken"]


@dataclass(frozen=True, slots=True)
class Chain(Record):
    """What one process has written.

    Attributes
    ----------
    name : str
        How its files' names begin.
    n_files, n_lines, n_decisions : int
        What is there of it.
    first_seq, last_seq : int or None
        Numbers of its first and last line that is there.
    hash : str or None
        Hash of the last line: noted elsewhere, it shows later whether the end was cut off.
    begins, ends : str or None
        When its first and its last line were written.
    closed : bool
        Whether the process ended it; else it runs, was killed, or the end is missing.
    """

    name: str
    n_files: int
    n_lines: int = 0
    n_decisions: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    hash: str | None = None
    begins: str | None = None
    ends: str | None = None
    closed: bool = False


@dataclass(frozen=True, slots=True)
class LogCheck(Record):
    """What was found in a log.

    Attributes
    ----------
    verdict : {"whole", "beginning missing", "broken"}
        With its beginning missing, nothing that is there was changed, and what is missing ended
        before every file that is there did, as where the oldest were archived.
    n_decisions, n_lines, n_files : int
        What there is.
    n_problems, n_notes : int
        All of them; the first 50 of each are listed.
    problems, notes, missing : tuple of Finding
        What is broken, what is to be known, and which oldest files are not there.
    chains : tuple of Chain
        One a process.
    """

    schema = "calibrail.log_check/1"

    verdict: Verdict
    n_decisions: int
    n_lines: int
    n_files: int
    n_problems: int
    n_notes: int
    problems: tuple[LogFinding, ...]
    notes: tuple[LogFinding, ...]
    missing: tuple[LogFinding, ...]
    chains: tuple[Chain, ...]


class _End(NamedTuple):
    """Where a chain was when another one recorded it."""

    seq: int
    hash: str
    time: str
    closed: bool
    by: str


#: Problems and notes that are listed; all are counted.
_LISTED: Final = 50


class _Findings(list[LogFinding]):
    def add(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        self.append(LogFinding(code, file, line, values))


def verify(folders: Sequence[Path], noted: Collection[str] = ()) -> LogCheck:
    """Read a log once, in memory that does not grow with it, and say whether it is whole.

    Parameters
    ----------
    folders : sequence of Path
        Those that together hold it: the one of the service, and its archive.
    noted : collection of str
        Hashes of lines that must be there.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    # A chain that is recorded is there before its record: it is in a list that is made after it.
    recorded = _recorded(chains(folders))
    files = chains(folders)
    names = {
        path: path.name if len(folders) == 1 else str(path)
        for numbered in files.values()
        for path in numbered.values()
    }
    problems, notes, missing = _Findings(), _Findings(), _Findings()
    noted = set(noted)
    checked = [
        _ChainCheck(chain, numbered, names, recorded.get(chain, []), noted, problems, notes).read()
        for chain, numbered in files.items()
    ]
    _absent(files, names, recorded, missing, problems)
    # A chain that just ends, though another one was opened or closed after that.
    latest = max(checked, key=_last_event)
    for item in checked:
        over = item.ends is not None and item.ends < _last_event(latest)
        if over and not item.closed and item is not latest:
            name = names[list(files[item.name].values())[-1]]
            notes.add("unclosed", name, until=item.ends, by=latest.name)
    for wanted in sorted(noted):
        problems.add("noted", "", hash=wanted)
    return LogCheck(
        "broken" if problems else "beginning missing" if missing else "whole",
        sum(item.n_decisions for item in checked),
        sum(item.n_lines for item in checked),
        sum(item.n_files for item in checked),
        len(problems),
        len(notes),
        tuple(problems[:_LISTED]),
        tuple(notes[:_LISTED]),
        tuple(missing[:_LISTED]),
        tuple(checked),
    )


def _recorded(files: Mapping[str, Mapping[int, Path]]) -> dict[str, list[_End]]:
    """Return what the files say of the ends of each chain, by its name."""
    recorded: dict[str, list[_End]] = {}
    for numbered in files.values():
        for path in numbered.values():
            for line in (first_line(path), last_line(path)):
                for chain, end in recorded_by(line).items():
                    recorded.setdefault(chain, []).append(_End(*end, path.name))
    return recorded


def _absent(
    files: Mapping[str, Mapping[int, Path]],
    names: Mapping[Path, str],
    recorded: Mapping[str, Sequence[_End]],
    missing: _Findings,
    problems: _Findings,
) -> None:
    """Report chains, and first files of chains, that are not there.

    What is known to have ended before every file that is there did is missing at the beginning, as
    after an archive took the oldest files; anything else was taken out of the middle. Files end
    before the line that the next one follows; a whole chain, where it was recorded as closed.
    """
    every = (last_line(path) for numbered in files.values() for path in numbered.values())
    oldest = min((line.time for line in every if line is not None), default="")
    for numbered in files.values():
        if (first := min(numbered)) > 1:
            opening = first_line(numbered[first])
            # When the line was written that this one follows.
            until = opening and opening.content.get("previous_time", opening.time)
            name = names[numbered[first]]
            values: dict[str, Any] = {"n": first - 1, "until": until}
            if isinstance(until, str) and until <= oldest:
                missing.add("first_files", name, **values)
            else:
                problems.add("taken_files", name, **values, oldest=oldest)
    for chain, ends in recorded.items():
        if chain not in files:
            last = max(ends, key=lambda end: end.seq)
            where = missing if last.closed and last.time <= oldest else problems
            code = "chain" if last.closed else "open_chain"
            where.add(code, chain, n=last.seq + 1, until=last.time, by=last.by)


def _last_event(chain: Chain) -> str:
    """Return when a chain was closed, or else opened."""
    return (chain.ends if chain.closed else chain.begins) or ""


class _ChainCheck:
    """Checks the files of one chain in their order."""

    def __init__(
        self,
        chain: str,
        files: Mapping[int, Path],
        names: Mapping[Path, str],
        recorded: Sequence[_End],
        noted: set[str],
        problems: _Findings,
        notes: _Findings,
    ) -> None:
        self._files, self._names, self._noted = files, names, noted
        self._problems, self._notes = problems, notes
        self._state = Chain(chain, len(files))
        # What other chains recorded of this one, until its line is met.
        self._awaited = {(end.seq, end.hash): end for end in recorded}
        # What the next line must be; None where that cannot be known.
        self._seq: int | None = None
        self._previous: str | None = None
        self._n_lines = self._n_decisions = self._n_back = 0
        self._back: tuple[str, int] | None = None

    def read(self) -> Chain:
        """Return what there is of the chain."""
        numbers = list(self._files)
        if 1 in self._files:
            self._seq, self._previous = 0, START
        for number, path in self._files.items():
            if number - 1 not in self._files and number != numbers[0]:
                self._problems.add("file", self._names[path], number=number - 1)
                self._seq = self._previous = None
            self._read_file(number, path, last=number == numbers[-1])
        if self._back is not None:
            self._notes.add("clock", *self._back, n=self._n_back)
        state, names = self._state, [self._names[path] for path in self._files.values()]
        for end in self._awaited.values():
            if state.last_seq is None or end.seq > state.last_seq:
                values: dict[str, Any] = {"last": state.last_seq, "recorded": end.seq, "by": end.by}
                self._problems.add("cut", names[-1], **values)
            elif state.first_seq is not None and end.seq >= state.first_seq:
                self._problems.add("rewritten", names[0], seq=end.seq, by=end.by)
        return replace(state, n_lines=self._n_lines, n_decisions=self._n_decisions)

    def _read_file(self, number: int, path: Path, *, last: bool) -> None:
        name, n = self._names[path], 0
        for n, _, _, line, code, _ in file_lines(path):
            if code == "torn" and last and n > 1 and not self._state.closed:
                self._notes.add(code, name, n)
            elif code:
                self._problems.add(code, name, n)
            if line is not None:
                self._take(line, name, n)
                opening = line.kind == OPENED and line.content.get("chain") == self._state.name
                if (n == 1) != (opening and line.content.get("file") == number):
                    self._problems.add("opening", name, n)
            elif code == "changed":
                self._n_lines += 1
                self._seq = None if self._seq is None else self._seq + 1
                self._previous = None
        if n == 0:
            self._problems.add("empty", name)

    def _take(self, line: LogLine, name: str, number: int) -> None:
        self._n_lines += 1
        self._n_decisions += line.decides
        self._noted.discard(line.hash)
        self._awaited.pop((line.seq, line.hash), None)
        if self._state.closed:
            self._problems.add("after", name, number)
        if self._seq is not None and line.seq < self._seq:
            self._problems.add("again", name, number, seq=line.seq, expected=self._seq)
            return
        if self._seq is not None and line.seq > self._seq:
            self._problems.add("gap", name, number, seq=line.seq, expected=self._seq)
        elif self._previous is not None and line.previous != self._previous:
            self._problems.add("previous", name, number)
        self._seq, self._previous = line.seq + 1, line.hash
        state = self._state
        if state.ends is not None and line.time < state.ends:
            self._n_back += 1
            self._back = self._back or (name, number)
        self._state = replace(
            state,
            first_seq=line.seq if state.first_seq is None else state.first_seq,
            begins=line.time if state.begins is None else state.begins,
            last_seq=line.seq,
            hash=line.hash,
            ends=line.time,
            closed=line.kind == CLOSED,
        )


#: Rows and bytes of a row group: whichever is reached first.
_ROWS: Final = 1 << 14
_BYTES: Final = 1 << 24

_TEXTS: Final = (
    *("guardrail", "name", "kind", "id", "outcome", "reason", "column"),
    *("group", "language", "question", "response", "text", "previous", "hash"),
)
#: Columns of what a line holds of its texts, by the names of its fields.
_TRAFFIC: Final = {
    "question_length": "question",
    "response_length": "response",
    "chunks": "chunks",
    "language": "language",
}
_NUMBERS: Final = ("score", "threshold", "p_value", "column_value", "column_threshold")


def export(folders: Sequence[Path], output: Path) -> tuple[int, int]:
    """Write every decision of a log as a row of a Parquet file, whole or not at all.

    Columns are the fields of a line, those of its ``traffic`` under names of their own, the number
    of removed sentences, ``chain`` and ``file``; rows stand chain by chain in the order of ``seq``.

    Returns
    -------
    rows, unreadable : int
        Decisions written, and lines left out since they are not what was written.

    Raises
    ------
    OSError
        A file cannot be read or written.
    DataError
        A line holds what no decision does.
    """
    import pyarrow.parquet as pq

    schema, skipped, n = _schema(), 0, 0
    block: list[dict[str, Any]] = []
    size = 0
    with whole_file(output) as made, pq.ParquetWriter(made, schema) as writer:
        for chain, files in chains(folders).items():
            for path in files.values():
                for _, _, length, line, code, _ in file_lines(path):
                    # What a crash has torn was never given.
                    skipped += line is None and code == "changed"
                    if line is None or not line.decides:
                        continue
                    block.append(_row(line, chain, path.name))
                    n, size = n + 1, size + length
                    if len(block) >= _ROWS or size >= _BYTES:
                        writer.write_table(_table(block, schema))
                        block, size = [], 0
        writer.write_table(_table(block, schema))
    return n, skipped


def _row(line: LogLine, chain: str, file: str) -> dict[str, Any]:
    row = {"kind": line.kind, **line.content, "chain": chain, "file": file}
    if isinstance(traffic := row.get("traffic"), dict):
        row |= {name: traffic.get(key) for name, key in _TRAFFIC.items()}
    if isinstance(removed := row.get("removed"), list):
        row["n_removed"] = len(removed)
    return row


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in _TEXTS),
            *((name, pa.float64()) for name in _NUMBERS),
            *((name, pa.int64()) for name in _TRAFFIC if name not in _TEXTS),
            ("n_removed", pa.int64()),
            ("released", pa.bool_()),
            ("contexts", pa.list_(pa.string())),
            ("seq", pa.int64()),
            ("chain", pa.string()),
            ("file", pa.string()),
        ]
    )


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = {name: [_valid(row.get(name)) for row in rows] for name in schema.names}
    try:
        columns["time"] = [datetime.fromisoformat(row["time"]) for row in rows]
        return pa.table(columns, schema=schema)
    except (ValueError, TypeError) as error:
        # Its hash fits, so whoever wrote it was no log.
        names = sorted({row["file"] for row in rows})
        raise DataError(
            f"a line of {', '.join(names[:3])} holds what no decision does: {error}; move the file "
            "away"
        ) from error


def _valid(value: Any) -> Any:
    """Return a value with the halves of surrogate pairs as escapes: Arrow's texts are UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return [_valid(item) for item in value] if isinstance(value, list) else value
