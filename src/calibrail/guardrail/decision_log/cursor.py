"""How far has a log been read, and what was met on the way?"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Final, Self

from calibrail.errors import InputError
from calibrail.guardrail.decision_log.findings import Finding
from calibrail.guardrail.decision_log.lines import START

#: Findings that are listed; all are counted.
_LISTED: Final = 20

#: Chains and files that are remembered; the oldest that were closed go first.
_REMEMBERED: Final = 2000

#: What is to be known of a log that nobody changed: clocks are not the log's, and a crash tears.
_NOTES: Final = {"clock_back", "future", "late", "no_chain"}


@dataclass(slots=True)
class Place:
    """How far one chain has been read.

    Attributes
    ----------
    file, offset, line : int
        The file's number, the bytes that were read of it, and its lines.
    next : int or None
        Number (``seq``) of the line that must follow; None where that cannot be known.
    hash : str
        Hash of the last line; empty where it cannot be known.
    time, latest : str
        When the last line was written, and the latest time so far, none in the future.
    first : int
        The first of the chain's files that was read.
    closed : bool
        Whether its process ended it.
    begin : int or None
        Number (``seq``) of the first line that was read; None before one was.
    lost : int
        Lines since the last one that nobody can read: each may have stood in the chain, with a
        number of its own, or may have been put in.
    """

    file: int = 0
    offset: int = 0
    line: int = 0
    next: int | None = None
    hash: str = ""
    time: str = ""
    latest: str = ""
    first: int = 0
    closed: bool = False
    begin: int | None = None
    lost: int = 0

    @classmethod
    def before(cls, number: int) -> Self:
        """Return the place before the first line of a file: that of the first one is known."""
        if number == 1:
            return cls(next=0, hash=START, first=1)
        return cls(first=number)


@dataclass(slots=True)
class Stream:
    """How far a file has been read that is no chain's own.

    Attributes
    ----------
    offset, lines : int
        Bytes and lines.
    digest : str
        That of all these lines: the file is known again by its content, wherever it lies.
    chain : str
        The chain of its last line; empty for decisions that are not chained.
    """

    offset: int = 0
    lines: int = 0
    digest: str = ""
    chain: str = ""


@dataclass(slots=True)
class Cursor:
    """How far a log has been read; written to a state file, read on from there.

    Attributes
    ----------
    chains : dict of str to Place
        Each chain by its name.
    streams : dict of str to Stream
        Other files, in the order in which they were met.
    forgotten : str
        The newest chain that is not remembered any more; chains that began before it are not read.
    opened : dict of str to str
        Which file is which stream, in this process; an empty name is a copy.
    """

    chains: dict[str, Place] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    forgotten: str = ""
    opened: dict[str, str] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "chains": {name: list(astuple(item)) for name, item in self.chains.items()},
            "streams": {name: list(astuple(item)) for name, item in self.streams.items()},
            "forgotten": self.forgotten,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what ``to_dict`` gave.

        Raises
        ------
        InputError
            It is no such content.
        """
        try:
            return cls(
                {name: Place(*item) for name, item in content["chains"].items()},
                {name: Stream(*item) for name, item in content["streams"].items()},
                content["forgotten"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"it does not say how far the log was read: {error!r}") from error

    def has_read(self, chain: str, seq: int) -> bool:
        """Return whether a line lies in what was read; yes for chains not remembered any more."""
        if (place := self.chains.get(chain)) is not None:
            # After a line that nobody can read the number of the next one may not be known.
            end = None if place.next is None else place.next + place.lost
            return (place.begin or 0) <= seq and (end is None or seq < end)
        if (stream := self.streams.get(chain)) is not None:
            return seq < stream.lines
        return chain <= self.forgotten

    def trim(self) -> None:
        """Forget the oldest chains where there are too many: the state stays small.

        A chain's name begins with the second in which it began, so one that is not remembered is
        told from one that is new.
        """
        for name in sorted(self.chains, key=lambda item: (not self.chains[item].closed, item)):
            if len(self.chains) <= _REMEMBERED:
                break
            del self.chains[name]
            self.forgotten = max(self.forgotten, name)
        while len(self.streams) > _REMEMBERED:
            del self.streams[next(iter(self.streams))]


@dataclass(slots=True)
class Tally:
    """What was met in a log, counted; the first findings are named.

    Attributes
    ----------
    lines : int
        Lines that were read.
    missing : int
        Lines that the numbers of others show to be missing.
    used : int
        Lines that were used.
    skipped : dict of str to int
        Lines that are not used, by reason.
    found : dict of str to int
        Findings by code.
    findings : list of Finding
        The first ones.
    others : dict of str to int
        Decisions of other guardrails, by digest.
    """

    lines: int = 0
    missing: int = 0
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing shows that a line was changed or is missing."""
        return not set(self.found) - _NOTES

    def skip(self, reason: str, n: int = 1) -> None:
        """Count lines that are not used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + n

    def find(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        """Count a finding, and name it where there is room."""
        self.found[code] = self.found.get(code, 0) + 1
        if len(self.findings) < _LISTED:
            self.findings.append(Finding(code, file, line, values))

    def refuse(self, code: str, file: str, line: int | None = None, **values: Any) -> None:
        """Count a line that is not used, and name it."""
        self.skip(code)
        self.find(code, file, line, **values)

    def find_once(self, code: str, file: str, **values: Any) -> None:
        """Count what is found of a file each time that it is looked at, as one finding."""
        if not any((item.code, item.file) == (code, file) for item in self.findings):
            self.find(code, file, None, **values)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "lines": self.lines,
            "missing": self.missing,
            "used": self.used,
            "skipped": dict(sorted(self.skipped.items())),
            "found": dict(sorted(self.found.items())),
            "findings": [item.to_dict() for item in self.findings],
            "others": dict(sorted(self.others.items())),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what ``to_dict`` gave.

        Raises
        ------
        InputError
            It is no such content.
        """
        try:
            names = ("lines", "missing", "used", "skipped", "found", "others")
            findings = [Finding.from_dict(item) for item in content["findings"]]
            return cls(**{name: content[name] for name in names}, findings=findings)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"it does not say what was met in the log: {error!r}") from error
