"""Which columns does a reading use, and are the ones that a user named really there?"""

from collections.abc import Mapping
from dataclasses import dataclass

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.formats import Opened
from calibrail.data.presets import MAPPABLE, resolve_columns
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there for a row, and a source, to be of use.

    Parameters
    ----------
    keep : tuple of str
        Further columns to copy to ``Example.columns``.
    require : tuple of str
        The text fields that must be there and not blank.
    labelled : bool
        Whether a row needs a label. Without, a label that cannot be read is passed over.
    allow_none : bool
        Whether a source without a usable row is fine.

    Raises
    ------
    InputError
        ``require`` names something other than a text field.
    """

    keep: tuple[str, ...] = ()
    require: tuple[str, ...] = TEXT_FIELDS
    labelled: bool = True
    allow_none: bool = False

    def __post_init__(self) -> None:
        if unknown := [field for field in self.require if field not in TEXT_FIELDS]:
            raise InputError(f"require can name {', '.join(TEXT_FIELDS)}; got {unknown[0]!r}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field is stored.

    Parameters
    ----------
    by_field : mapping of str to str
        Field to column, for every field of an example.
    present : frozenset of str
        The fields whose column was seen in the first rows.
    """

    by_field: Mapping[str, str]
    present: frozenset[str]


def choose_columns(
    fields: Mapping[str, None], opened: Opened, reading: ReadOptions, needs: Needs, source: str
) -> Columns:
    """Return the column of every field.

    Parameters
    ----------
    fields : mapping of str to None
        Column names of the first rows, in order.
    opened : Opened
        The source; only a table has column names of the user's own.
    reading : ReadOptions
        What the user named.
    needs : Needs
        Which text fields, and whether a label, every row needs.
    source : str
        How messages call the data.

    Raises
    ------
    DataError
        A column that the user named is not there, or the text columns cannot be guessed.
    """
    by_field = {field: field for field in MAPPABLE}
    mapping = reading.mapping or {}
    if opened.table:
        # With nothing parsed there are no names to judge by: the rows tell what is wrong.
        required = needs.require if fields and reading.preset is None else ()
        by_field |= resolve_columns(
            tuple(fields), preset=reading.preset, mapping=mapping, require=required, source=source
        )
        by_field |= mapping
    named = {
        field: column
        for field in ("label", "group", "id")
        if (column := getattr(reading, f"{field}_column")) is not None
    }
    by_field |= named
    if fields:
        roles = [(f"{field} column", column) for field, column in named.items()]
        for role, column in (*roles, *(("column to keep", name) for name in needs.keep)):
            if column not in fields:
                raise DataError(_absent(source, role, column, fields))
        # Of JSON lines a later row can have a column that the first rows lack.
        definite = opened.table and opened.format != "jsonl"
        if needs.labelled and definite and by_field["label"] not in fields:
            raise DataError(
                _absent(source, "label column", by_field["label"], fields)
                + "; name the column of 0 (faithful) and 1 (hallucinated) with --label-column"
            )
    return Columns(by_field, frozenset(field for field in MAPPABLE if by_field[field] in fields))


def _absent(source: str, role: str, column: str, fields: Mapping[str, None]) -> str:
    return f"{source} has no {role} {column!r}; columns seen: {', '.join(list(fields)[:30])}"
