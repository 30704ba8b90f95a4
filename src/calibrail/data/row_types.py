"""Rows and problems as readers yield them; quarantine."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from calibrail.data.example import FIELDS, Example
from calibrail.errors import file_errors

#: The field that a problem names when the row as a whole cannot be read.
WHOLE_ROW: Final = "row"

_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a source that could be parsed, not yet judged.

    Parameters
    ----------
    number : int
        Where the row starts: 1-based line of a text file, 1-based row of a table.
    values : mapping of str to object
        The row's fields under their names in the source. A benchmark's reader yields calibrail's
        own names (``question``, ``contexts``, ``response``, ``label``, ``group``, ``id``,
        ``samples``); further keys can be kept as columns.
    file : str
        Which of several files it comes from; empty where there is one.
    """

    number: int
    values: Mapping[str, object]
    file: str = ""

    @property
    def name(self) -> str:
        """How a row without an id is called."""
        return f"{self.file}:row-{self.number}" if self.file else f"row-{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Some rows of a table, one after the other, as Arrow has them.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The rows.
    start : int
        Number of the first one.
    file : str
        As a `Row` has it.
    """

    rows: Any
    start: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Why a row cannot be used.

    Parameters
    ----------
    row : int
        Number of the row, as in `Row`.
    field : str
        The field at fault in calibrail's names, or ``"row"`` for the whole row.
    reason : str
        The kind of problem; problems are counted by field and reason.
    value : str
        What was seen, shortened (see `shorten`).
    detail : str
        What a parser said, if anything.
    remedy : str
        What to do about it.
    file : str
        Which of several files it comes from; empty where there is one.
    code : str
        Stable name of the kind of problem, where something depends on it.
    """

    row: int
    field: str
    reason: str
    value: str = ""
    detail: str = ""
    remedy: str = ""
    file: str = ""
    code: str = ""

    @property
    def name(self) -> str:
        """How the row is called, whatever id it has."""
        return f"{self.file}:row-{self.row}" if self.file else f"row-{self.row}"

    @property
    def why(self) -> str:
        """What is wrong with it, and what to do about it."""
        return f"{self.field}: {self.entry()['reason']}" + f"; {self.remedy}" * bool(self.remedy)

    def entry(self) -> dict[str, object]:
        """Return the JSON object that a quarantine file holds for this problem."""
        reason = f"{self.reason}: {self.detail}" if self.detail else self.reason
        more = {"remedy": self.remedy, "file": self.file}
        entry = {"row": self.row, "field": self.field, "reason": reason, "value": self.value}
        return entry | {name: text for name, text in more.items() if text}


@dataclass(frozen=True, slots=True)
class Filtered:
    """A row, or one answer of a row, that an option of the reader leaves out on request."""

    row: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class LabelOrigin:
    """How the labels of a source came about, where it says so itself.

    Parameters
    ----------
    purpose : str
        ``calibrate``; ``certify``, where labelling stops when a verdict falls; or ``watch``, where
        answers are drawn from a decision log as it grows.
    design : str
        How answers were drawn.
    seed : int
        Of the order of drawing.
    guardrail : str or None
        Digest of the guardrail whose verdict they were drawn for.
    """

    purpose: str
    design: str
    seed: int
    guardrail: str | None = None


class FieldError(Exception):
    """A field of the row at hand cannot be used; never leaves the reading.

    Parameters
    ----------
    field, reason, value, remedy, code
        As a `RowProblem` has them; the value is not shortened yet.
    row : int or None
        Which row it is, where an answer is made of several.
    """

    def __init__(
        self,
        field: str,
        reason: str,
        value: object,
        remedy: str,
        row: int | None = None,
        code: str = "",
    ) -> None:
        super().__init__(reason)
        self.field, self.reason, self.value, self.remedy = field, reason, value, remedy
        self.row, self.code = row, code

    def problem(self, row: int, file: str = "") -> RowProblem:
        """Return what is wrong with the row."""
        value = "" if self.reason == "missing" else shorten(self.value)
        at = row if self.row is None else self.row
        return RowProblem(at, self.field, self.reason, value, "", self.remedy, file, self.code)


#: What the reader of a table yields.
TableItem: TypeAlias = SourceRow | RowProblem

#: What every format comes to.
ParsedItem: TypeAlias = SourceRow | RowProblem | Filtered

#: What the reader of a format may yield. Plain mappings and finished examples are for third-party
#: readers; they are numbered by their position.
Item: TypeAlias = ParsedItem | Mapping[str, object] | Example

#: Opens a table from its start; may be called more than once.
OpenTable: TypeAlias = Callable[[], Iterator[TableItem]]

#: A format: path and options to items. The protocol of the entry-point group ``calibrail.readers``.
Reader: TypeAlias = Callable[[Path, Mapping[str, object]], Iterable[Item]]


def own_values(example: Example) -> dict[str, object]:
    """Return what an example holds, under calibrail's own names, columns beside them."""
    values = {name: getattr(example, name) for name in (*FIELDS, "spans", "sentences")}
    return dict.fromkeys(FIELDS) | dict(example.columns) | values


def shorten(value: object) -> str:
    """Return a one-line representation of at most about 120 characters.

    >>> shorten("x" * 500)[-12:]
    'xxx... (500)'
    """
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}"[:_SHOWN] + f"... ({len(value)})"
    if isinstance(value, (list, tuple)) and len(value) > _SHOWN:
        value = list(value[:_SHOWN])
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class Quarantine:
    """Appends one JSON line a problem to a file that only exists once there is a problem.

    A file that an earlier run left at the same path is removed first, so that the file never
    speaks of other data than the run's.

    Parameters
    ----------
    path : Path or None
        None counts nothing and writes nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._stream: IO[str] | None = None
        if path is not None:
            with file_errors(f"cannot replace {path}"):
                path.unlink(missing_ok=True)

    def add(self, problem: RowProblem) -> None:
        """Write ``problem`` as `Problem.entry` has it."""
        if self.path is None:
            return
        if self._stream is None:
            with file_errors(f"cannot write {self.path}"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._stream = self.path.open("w", encoding="utf-8", newline="\n")
        self._stream.write(json.dumps(problem.entry()) + "\n")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._stream is not None:
            self._stream.close()
