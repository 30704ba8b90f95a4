"""A benchmark that is one table, or two files of a folder."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from calibrail.data.example import Filtered, OpenTable, ParsedItem, RowProblem, SourceRow
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions

#: What becomes of a row: an example's values under calibrail's field names, or why there are none.
Made: TypeAlias = Mapping[str, object] | RowProblem | Filtered
Convert: TypeAlias = Callable[[SourceRow], Iterable[Made]]


@dataclass(frozen=True, slots=True)
class Native:
    """A benchmark's name, how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    signatures : tuple of frozenset of str
        A file whose rows have all the fields of one of these sets is of this format.
    options : tuple of str
        The reader options that it knows.
    converter : callable
        ``converter(open_table, options)`` returns a function from a row of the file to examples;
        it may read the table beforehand.
    """

    name: str
    signatures: tuple[frozenset[str], ...]
    options: tuple[str, ...]
    converter: Callable[[OpenTable, Mapping[str, object]], Convert]

    def rows(self, open_table: OpenTable, options: Mapping[str, object]) -> Iterator[ParsedItem]:
        """Yield rows under calibrail's field names; what cannot be parsed stays a problem."""
        convert = self.converter(open_table, options)
        for row in open_table():
            if isinstance(row, RowProblem):
                yield row
                continue
            for made in convert(row):
                yield (
                    made if isinstance(made, RowProblem | Filtered) else SourceRow(row.number, made)
                )


@dataclass(frozen=True, slots=True)
class Folder:
    """A benchmark of two files: its name, how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    holds : tuple of str
        Names of the files that belong together.
    read : callable
        From these files and how they are read to rows.
    signatures : tuple of frozenset of str
        Either file alone is of this format where its rows have all the fields of one of these.
    options : tuple of str
        The reader options that it knows.
    cells : bool
        Whether texts come from CSV cells.
    """

    name: str
    holds: tuple[str, str]
    read: Callable[[Path, Path, ReadOptions], Iterator[ParsedItem]]
    signatures: tuple[frozenset[str], ...] = ()
    options: tuple[str, ...] = ()
    cells: bool = False

    def files(self, path: Path) -> tuple[Path, Path]:
        """Return the two files, given their folder or either of them.

        Raises
        ------
        DataError
            One of the two is not there.
        """
        folder = path if path.is_dir() else path.parent
        first, second = (folder / name for name in self.holds)
        for file in (first, second):
            if not file.is_file():
                names = " and ".join(self.holds)
                raise DataError(f"{self.name} is read from {names}; {file} is missing")
        return first, second


def missing_field(row: SourceRow, field: str, column: str) -> RowProblem:
    """Return the problem of a row that lacks an original column."""
    return RowProblem(
        row.number, field, "missing", "", f"no {column!r}", "take the benchmark's original file"
    )


def whole_number(options: Mapping[str, object], name: str, default: int) -> int:
    """Return a reader option that must be a whole number of at least 0.

    Raises
    ------
    InputError
        It is something else.
    """
    value = options.get(name, default)
    with suppress(ValueError):
        if (number := int(str(value))) >= 0:
            return number
    raise InputError(f"reader option {name} must be a whole number >= 0; got {value!r}")
