"""A benchmark that is one table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from calibrail.data.rows import Filtered, OpenTable, ParsedItem, RowProblem, SourceRow
from calibrail.errors import InputError

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
