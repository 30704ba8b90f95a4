"""Is every line of the log there, as it was written?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from calibrail.guardrail.decision_log.folder import chains, first_line, last_line, recorded_by
from calibrail.guardrail.decision_log.lines import (
    CLOSED,
    OPENED,
    START,
    Line,
    LineError,
    raw_lines,
    unsealed,
)
from calibrail.record import Record

#: Findings that are listed; all are counted.
_LISTED: Final = 50

Verdict = Literal["whole", "beginning missing", "broken"]


@dataclass(frozen=True, slots=True)
class Finding(Record):
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
        With its beginning missing, nothing that is there was changed, and what is missing is older
        than everything that is there, as where old files were archived.
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
    problems: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    missing: tuple[Finding, ...]
    chains: tuple[Chain, ...]


class _Findings:
    """Findings as they come: the first ones, and how many."""

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.n = 0

    def add(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        self.n += 1
        if len(self.listed) < _LISTED:
            self.listed.append(Finding(code, file, line, values))


@dataclass(frozen=True, slots=True)
class _End:
    """Where a chain was when another one recorded it."""

    seq: int
    hash: str
    time: str
    by: str


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
    files = chains(folders)
    names = {
        path: path.name if len(folders) == 1 else str(path)
        for numbered in files.values()
        for path in numbered.values()
    }
    problems, notes, missing = _Findings(), _Findings(), _Findings()
    recorded = _recorded(files, names)
    noted = set(noted)
    found = [
        _Reader(chain, numbered, names, recorded.get(chain, []), noted, problems, notes).read()
        for chain, numbered in files.items()
    ]
    _absent(files, names, recorded, missing, problems)
    for wanted in sorted(noted):
        problems.add("noted", "", None, hash=wanted)
    broken, cut = problems.n > 0, missing.n > 0
    return LogCheck(
        "broken" if broken else "beginning missing" if cut else "whole",
        sum(item.n_decisions for item in found),
        sum(item.n_lines for item in found),
        sum(item.n_files for item in found),
        problems.n,
        notes.n,
        tuple(problems.listed),
        tuple(notes.listed),
        tuple(missing.listed),
        tuple(found),
    )


def _recorded(
    files: Mapping[str, Mapping[int, Path]], names: Mapping[Path, str]
) -> dict[str, list[_End]]:
    """Return what the files say of the ends of each chain, by its name."""
    recorded: dict[str, list[_End]] = {}
    for numbered in files.values():
        for path in numbered.values():
            for chain, end in recorded_by(first_line(path)).items():
                recorded.setdefault(chain, []).append(_End(*end, names[path]))
    return recorded


def _absent(
    files: Mapping[str, Mapping[int, Path]],
    names: Mapping[Path, str],
    recorded: Mapping[str, Sequence[_End]],
    missing: _Findings,
    problems: _Findings,
) -> None:
    """Report chains, and first files of chains, that are not there.

    What may have ended before every file that is there did is missing at the beginning, as after
    an archive took the oldest files; anything else was taken out of the middle.
    """
    every = (last_line(path) for numbered in files.values() for path in numbered.values())
    oldest = min((line.time for line in every if line is not None), default="")
    for chain, numbered in files.items():
        if numbered and (first := min(numbered)) > 1:
            opening = first_line(numbered[first])
            started = _started(chain)
            where = missing if started <= oldest else problems
            where.add(
                "first_files",
                names[numbered[first]],
                None,
                n=first - 1,
                before=None if opening is None else opening.time,
            )
    for chain, ends in recorded.items():
        if chain not in files:
            last = max(ends, key=lambda end: end.seq)
            where = missing if last.time <= oldest else problems
            where.add("chain", chain, None, n=last.seq + 1, until=last.time, by=last.by)


def _started(chain: str) -> str:
    """Return the time in a chain's name as the lines write it."""
    day, time = chain[:8], chain[9:15]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"


class _Reader:
    """Reads the files of one chain in their order."""

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
                self._problems.add("file", self._names[path], None, number=number - 1)
                self._seq = self._previous = None
            self._read_file(number, path, last=number == numbers[-1])
        if self._back is not None:
            self._notes.add("clock", *self._back, n=self._n_back)
        self._report_ends()
        return replace(self._state, n_lines=self._n_lines, n_decisions=self._n_decisions)

    def _read_file(self, number: int, path: Path, *, last: bool) -> None:
        name, n = self._names[path], 0
        with path.open("rb") as file:
            for n, raw, whole in raw_lines(file):
                if not whole:
                    where = self._notes if last else self._problems
                    where.add("torn", name, n)
                    break
                try:
                    line = unsealed(raw)
                except LineError:
                    self._problems.add("changed", name, n)
                    self._n_lines += 1
                    self._seq = None if self._seq is None else self._seq + 1
                    self._previous = None
                    continue
                self._take(line, name, n)
                opening = line.kind == OPENED and line.content.get("chain") == self._state.name
                if (n == 1) != (opening and line.content.get("file") == number):
                    self._problems.add("opening", name, n)
        if n == 0:
            (self._notes if last else self._problems).add("empty", name)

    def _take(self, line: Line, name: str, number: int) -> None:
        self._n_lines += 1
        self._n_decisions += line.decides
        self._noted.discard(line.hash)
        self._awaited.pop((line.seq, line.hash), None)
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

    def _report_ends(self) -> None:
        """Compare with what other chains recorded of this one."""
        state = self._state
        for end in self._awaited.values():
            last = state.last_seq
            if last is None or end.seq > last:
                name = self._names[list(self._files.values())[-1]]
                self._problems.add("cut", name, None, last=last, recorded=end.seq, by=end.by)
            elif state.first_seq is not None and end.seq >= state.first_seq:
                name = self._names[next(iter(self._files.values()))]
                self._problems.add("rewritten", name, None, seq=end.seq, by=end.by)
