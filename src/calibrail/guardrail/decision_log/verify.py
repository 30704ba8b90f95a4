"""Verification of a decision log, and its export as one table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from calibrail.atomic_files import read_regular, whole_file
from calibrail.data.outputs import Output, refuse_foreign, refuse_read
from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision_log import writer as line_format
from calibrail.options import fields
from calibrail.serialization import Record

if TYPE_CHECKING:
    import pyarrow as pa


Verdict = Literal["whole", "beginning missing", "broken"]
Folders = str | PathLike[str] | Sequence[str | PathLike[str]]


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
    problems: tuple[line_format.LogFinding, ...]
    notes: tuple[line_format.LogFinding, ...]
    missing: tuple[line_format.LogFinding, ...]
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


class _Findings:
    """Findings as they come: all are counted, and the first ones are listed."""

    def __init__(self) -> None:
        self.listed: list[line_format.LogFinding] = []
        self.n = 0

    def add(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        self.n += 1
        if len(self.listed) < _LISTED:
            self.listed.append(line_format.LogFinding(code, file, line, values))


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
    DataError
        A file cannot be read.
    """
    log = _Verification(folders, noted)
    checked = list(map(log.check_chain, log.files))
    log.find_absent()
    # A chain that just ends, though another one was opened or closed after that.
    latest = max(checked, key=_last_event)
    for item in checked:
        over = item.ends is not None and item.ends < _last_event(latest)
        if over and not item.closed and item is not latest:
            name = log.names[list(log.files[item.name].values())[-1]]
            log.notes.add("unclosed", name, until=item.ends, by=latest.name)
    for wanted in sorted(log.noted):
        log.problems.add("noted", "", hash=wanted)
    return LogCheck(
        "broken" if log.problems.n else "beginning missing" if log.missing.n else "whole",
        sum(item.n_decisions for item in checked),
        sum(item.n_lines for item in checked),
        sum(item.n_files for item in checked),
        log.problems.n,
        log.notes.n,
        tuple(log.problems.listed),
        tuple(log.notes.listed),
        tuple(log.missing.listed),
        tuple(checked),
    )


def _last_event(chain: Chain) -> str:
    """Return when a chain was closed, or else opened."""
    return (chain.ends if chain.closed else chain.begins) or ""


class _Verification:
    """Files of a log, what they say of each other's ends, and what is found in them."""

    def __init__(self, folders: Sequence[Path], noted: Collection[str]) -> None:
        self.noted = set(noted)
        self.problems, self.notes, self.missing = _Findings(), _Findings(), _Findings()
        # A chain that is recorded is there before its record: it is in a list made after it.
        self.recorded: dict[str, list[_End]] = {}
        for numbered in line_format.chains(folders).values():
            for path in numbered.values():
                for line in (line_format.first_line(path), line_format.last_line(path)):
                    for chain, end in line_format.recorded_by(line).items():
                        self.recorded.setdefault(chain, []).append(_End(*end, path.name))
        self.files = line_format.chains(folders)
        self.names = {
            path: path.name if len(folders) == 1 else str(path)
            for numbered in self.files.values()
            for path in numbered.values()
        }

    def find_absent(self) -> None:
        """Report chains, and first files of chains, that are not there.

        What is known to have ended before every file that is there did is missing at the beginning,
        as after an archive took the oldest files; anything else was taken out of the middle. Files
        end before the line that the next one follows; a whole chain, where it was recorded as
        closed.
        """
        every = (line_format.last_line(path) for path in self.names)
        oldest = min((line.time for line in every if line is not None), default="")
        for numbered in self.files.values():
            if (first := min(numbered)) > 1:
                opening = line_format.first_line(numbered[first])
                # When the line was written that this one follows.
                until = opening and opening.content.get("previous_time", opening.time)
                values: dict[str, Any] = {"n": first - 1, "until": until}
                if isinstance(until, str) and until <= oldest:
                    self.missing.add("first_files", self.names[numbered[first]], **values)
                else:
                    values["oldest"] = oldest
                    self.problems.add("taken_files", self.names[numbered[first]], **values)
        for chain, ends in self.recorded.items():
            if chain not in self.files:
                last = max(ends, key=lambda end: end.seq)
                where = self.missing if last.closed and last.time <= oldest else self.problems
                code = "chain" if last.closed else "open_chain"
                where.add(code, chain, n=last.seq + 1, until=last.time, by=last.by)

    def check_chain(self, chain: str) -> Chain:
        """Read the files of one chain in their order; return what there is of it."""
        files, state, n_lines, n_decisions = self.files[chain], dict[str, Any](), 0, 0
        back, n_back = None, 0
        # What other chains recorded of this one, until its line is met.
        awaited = {(end.seq, end.hash): end for end in self.recorded.get(chain, ())}
        # What the next line must be; None where that cannot be known.
        seq, previous = (0, line_format.START) if 1 in files else (None, None)
        for number, path in files.items():
            name, n, problems = self.names[path], 0, self.problems
            if number - 1 not in files and number != min(files):
                problems.add("file", name, number=number - 1)
                seq = previous = None
            for n, _, _, line, code, _ in line_format.file_lines(path):
                torn = code == "torn" and number == max(files) and n > 1
                if code:
                    where = self.notes if torn and not state.get("closed") else problems
                    where.add(code, name, n)
                if line is None:
                    if code == "changed":
                        n_lines, previous = n_lines + 1, None
                        seq = None if seq is None else seq + 1
                    continue
                n_lines, n_decisions = n_lines + 1, n_decisions + line.decides
                self.noted.discard(line.hash)
                awaited.pop((line.seq, line.hash), None)
                if state.get("closed"):
                    problems.add("after", name, n)
                if seq is not None and line.seq < seq:
                    problems.add("again", name, n, seq=line.seq, expected=seq)
                else:
                    if seq is not None and line.seq > seq:
                        problems.add("gap", name, n, seq=line.seq, expected=seq)
                    elif previous is not None and line.previous != previous:
                        problems.add("previous", name, n)
                    seq, previous = line.seq + 1, line.hash
                    if line.time < state.get("ends", ""):
                        back, n_back = back or (name, n), n_back + 1
                    first = {"first_seq": line.seq, "begins": line.time, **state}
                    last = {"last_seq": line.seq, "hash": line.hash, "ends": line.time}
                    state = {**first, **last, "closed": line.kind == line_format.CLOSED}
                opening = line.kind == line_format.OPENED and line.content.get("chain") == chain
                if (n == 1) != (opening and line.content.get("file") == number):
                    problems.add("opening", name, n)
            if n == 0:
                problems.add("empty", name)
        if back:
            self.notes.add("clock", *back, n=n_back)
        ends = state.get("first_seq", 0), state.get("last_seq")
        for end in awaited.values():
            if ends[1] is None or end.seq > ends[1]:
                name = self.names[files[max(files)]]
                self.problems.add("cut", name, last=ends[1], recorded=end.seq, by=end.by)
            elif end.seq >= ends[0]:
                name = self.names[files[min(files)]]
                self.problems.add("rewritten", name, seq=end.seq, by=end.by)
        return Chain(chain, len(files), n_lines, n_decisions, **state)


#: Rows and bytes of a row group: whichever is reached first.
_ROWS: Final = 1 << 14
_BYTES: Final = 1 << 24

_TEXTS: Final = (
    *("guardrail", "name", "kind", "id", "outcome", "reason", "column"),
    *("group", "client", "language", "question", "response", "text", "previous", "hash"),
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
        A file cannot be written.
    DataError
        A file cannot be read, or a line holds what no decision does.
    """
    import pyarrow.parquet as pq

    schema, skipped, n = _schema(), 0, 0
    block: list[dict[str, Any]] = []
    size = 0
    with whole_file(output) as made, pq.ParquetWriter(made, schema) as writer:
        for chain, files in line_format.chains(folders).items():
            for path in files.values():
                for _, _, length, line, code, _ in line_format.file_lines(path):
                    # What a crash has torn was never given.
                    skipped += line is None and code == "changed"
                    if line is None or not line.decides:
                        continue
                    block.append(_row(line, chain, path.name))
                    n, size = n + 1, size + length
                    if len(block) >= _ROWS or size >= _BYTES:
                        writer.write_table(_table(block, schema))
                        block, size = [], 0
        if block:
            writer.write_table(_table(block, schema))
    return n, skipped


def _row(line: line_format.LogLine, chain: str, file: str) -> dict[str, Any]:
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
        names = ", ".join(sorted({row["file"] for row in rows})[:3])
        raise DataError.on("line_of_no_decision", names=names, error=error) from error


def _valid(value: Any) -> Any:
    """Return a value with the halves of surrogate pairs as escapes: Arrow's texts are UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return [_valid(item) for item in value] if isinstance(value, list) else value


def verify_log(folders: Folders, *, noted: Iterable[str] = ()) -> LogCheck:
    """Say whether a decision log is whole: no line changed, missing, moved or twice.

    Parameters
    ----------
    folders : path, or sequence of path
        The folder that ``calibrail serve --log`` writes, with that of its archive where there is
        one.
    noted : iterable of str
        Hashes of lines that were noted elsewhere, and must be there: they show what nothing in the
        folder can show, that its end was cut off. Or files whose lines begin with one, as
        ``calibrail serve --log-heads`` writes them.

    Raises
    ------
    DataError
        There is no log, or a file cannot be read.
    """
    hashes, torn = list[str](), list[line_format.LogFinding]()
    for item in fields.texts(noted, "noted"):
        lines, before = [item], len(hashes)
        if len(item) != 64 and Path(item).is_file():
            with file_errors(f"cannot read {item}"):
                lines = read_regular(Path(item)).decode("utf-8", "replace").splitlines()
        for n, line in enumerate(lines, 1):
            digest = line.partition(" ")[0]
            if len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
                hashes.append(digest)
            else:
                torn.append(line_format.LogFinding("noted_torn", item, n))
        if len(hashes) == before:
            raise InputError.on("noted_no_hashes", item=item)
    with file_errors("cannot read the decision log"):
        check = verify(_paths(folders), hashes)
    notes = (*torn, *check.notes)[:_LISTED]
    return replace(check, n_notes=check.n_notes + len(torn), notes=notes)


def export_log(folders: Folders, output: str | PathLike[str]) -> tuple[int, int]:
    """Write the decisions of a log as one Parquet file; memory does not grow with the log.

    Returns
    -------
    rows, unreadable : int
        Decisions written, and lines left out since they are not what was written.

    Raises
    ------
    DataError
        There is no log, or a file cannot be read or written.
    """
    path = fields.path(output, "output")
    paths, target = _paths(folders), Output("", path, kind="log_export")
    refuse_read([target], paths)
    refuse_foreign([target], force=None)
    with file_errors(f"cannot write {path}"):
        return export(paths, path)


def _paths(folders: Folders) -> list[Path]:
    given = [folders] if isinstance(folders, str | PathLike) else list(folders)
    paths = [fields.path(item, "folders") for item in given]
    with file_errors("cannot read the decision log", "; name the folder that --log names"):
        if not line_format.chains(paths):
            raise DataError.on("no_decision_log", paths=", ".join(map(str, paths)))
    return paths
