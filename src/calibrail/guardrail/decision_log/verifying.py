"""Is every line of the log there, as it was written?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calibrail.guardrail.decision_log.findings import Chain, Findings, LogCheck
from calibrail.guardrail.decision_log.folder import chains, first_line, last_line, recorded_by
from calibrail.guardrail.decision_log.lines import (
    CLOSED,
    OPENED,
    START,
    Line,
    ending,
    raw_lines,
    readable,
)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a chain was when another one recorded it."""

    seq: int
    hash: str
    time: str
    closed: bool
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
    # A chain that is recorded is there before its record: it is in a list that is made after it.
    recorded = _recorded(chains(folders))
    files = chains(folders)
    names = {
        path: path.name if len(folders) == 1 else str(path)
        for numbered in files.values()
        for path in numbered.values()
    }
    problems, notes, missing = Findings(), Findings(), Findings()
    noted = set(noted)
    found = [
        _Reader(chain, numbered, names, recorded.get(chain, []), noted, problems, notes).read()
        for chain, numbered in files.items()
    ]
    _absent(files, names, recorded, missing, problems)
    _unclosed(found, files, names, notes)
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
    missing: Findings,
    problems: Findings,
) -> None:
    """Report chains, and first files of chains, that are not there.

    What is known to have ended before every file that is there did is missing at the beginning, as
    after an archive took the oldest files; anything else was taken out of the middle. Files end
    before the line that the next one follows; a whole chain, where it was recorded as closed.
    """
    every = (last_line(path) for numbered in files.values() for path in numbered.values())
    oldest = min((line.time for line in every if line is not None), default="")
    for numbered in files.values():
        if numbered and (first := min(numbered)) > 1:
            opening = first_line(numbered[first])
            until = None if opening is None else _left_at(opening)
            old = until is not None and until <= oldest
            name, values = names[numbered[first]], {"n": first - 1, "until": until}
            if old:
                missing.add("first_files", name, None, **values)
            else:
                problems.add("taken_files", name, None, **values, oldest=oldest)
    for chain, ends in recorded.items():
        if chain not in files:
            last = max(ends, key=lambda end: end.seq)
            where = missing if last.closed and last.time <= oldest else problems
            code = "chain" if last.closed else "open_chain"
            where.add(code, chain, None, n=last.seq + 1, until=last.time, by=last.by)


def _left_at(opening: Line) -> str:
    """Return when the line was written that a file's first line follows."""
    time = opening.content.get("previous_time")
    return time if isinstance(time, str) else opening.time


def _unclosed(
    found: Sequence[Chain],
    files: Mapping[str, Mapping[int, Path]],
    names: Mapping[Path, str],
    notes: Findings,
) -> None:
    """Note each chain that just ends, though another one was opened or closed after that."""
    latest = max(found, key=_last_event)
    for item in found:
        over = item.ends is not None and item.ends < _last_event(latest)
        if over and not item.closed and item is not latest:
            name = names[list(files[item.name].values())[-1]]
            notes.add("unclosed", name, None, until=item.ends, by=latest.name)


def _last_event(chain: Chain) -> str:
    """Return when a chain was closed, or else opened."""
    return (chain.ends if chain.closed else chain.begins) or ""


class _Reader:
    """Reads the files of one chain in their order."""

    def __init__(
        self,
        chain: str,
        files: Mapping[int, Path],
        names: Mapping[Path, str],
        recorded: Sequence[_End],
        noted: set[str],
        problems: Findings,
        notes: Findings,
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
                line, torn = (readable(raw), False) if whole else ending(raw)
                if torn and last and n > 1 and not self._state.closed:
                    self._notes.add("torn", name, n)
                elif torn:
                    self._problems.add("torn", name, n)
                elif line is None or not whole:
                    self._problems.add("changed", name, n)
                if line is not None:
                    self._take(line, name, n)
                    opening = line.kind == OPENED and line.content.get("chain") == self._state.name
                    if (n == 1) != (opening and line.content.get("file") == number):
                        self._problems.add("opening", name, n)
                elif not torn:
                    self._n_lines += 1
                    self._seq = None if self._seq is None else self._seq + 1
                    self._previous = None
        if n == 0:
            self._problems.add("empty", name)

    def _take(self, line: Line, name: str, number: int) -> None:
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
