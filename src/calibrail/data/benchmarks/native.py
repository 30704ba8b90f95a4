"""What is a benchmark whose original file is one table?"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from calibrail.data.rows import Filtered, OpenTable, Problem, Row
from calibrail.errors import InputError

NativeItem: TypeAlias = Row | Problem | Filtered
Convert: TypeAlias = Callable[[Row], Iterable[NativeItem]]


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
        ``converter(open_table, options)`` returns a function from a row of the file to rows under
        calibrail's field names; it may read the table beforehand.
    """

    name: str
    signatures: tuple[frozenset[str], ...]
    options: tuple[str, ...]
    converter: Callable[[OpenTable, Mapping[str, object]], Convert]

    def recognises(self, fields: Collection[str]) -> bool:
        """Say whether a table with these column names is this benchmark."""
        return any(signature <= set(fields) for signature in self.signatures)

    def rows(self, open_table: OpenTable, options: Mapping[str, object]) -> Iterator[NativeItem]:
        """Yield rows under calibrail's field names; what cannot be parsed stays a problem."""
        convert = self.converter(open_table, options)
        for item in open_table():
            yield from (item,) if isinstance(item, Problem) else convert(item)


def missing_field(row: Row, field: str, column: str) -> Problem:
    """Return the problem of a row that lacks an original column."""
    return Problem(
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
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise InputError(f"reader option {name} must be a whole number >= 0; got {value!r}")
    return number
