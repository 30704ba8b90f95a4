"""What can be found in a log?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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
    problems: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    missing: tuple[Finding, ...]
    chains: tuple[Chain, ...]


class Findings:
    """Findings as they come: the first ones, and how many."""

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.n = 0

    def add(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        """Count a finding, and list it where there is room."""
        self.n += 1
        if len(self.listed) < _LISTED:
            self.listed.append(Finding(code, file, line, values))
