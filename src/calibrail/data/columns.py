"""Which columns does a reading use, and are the ones that a user named really there?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from calibrail.data.example import FIELDS, TEXT_FIELDS
from calibrail.data.formats import Opened
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions

#: Preset name to the columns of (question, contexts, response), as the tool of that name writes
#: them. Phoenix and TruLens share theirs.
PRESETS: Final[Mapping[str, tuple[str, str, str]]] = {
    "calibrail": ("question", "contexts", "response"),
    "ragas": ("user_input", "retrieved_contexts", "response"),
    "deepeval": ("input", "retrieval_context", "actual_output"),
    "llamaindex": ("query", "contexts", "response"),
    "trulens": ("input", "context", "output"),
    "phoenix": ("input", "context", "output"),
}


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
    by_field = {field: field for field in FIELDS}
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
    return Columns(by_field, frozenset(field for field in FIELDS if by_field[field] in fields))


def _absent(source: str, role: str, column: str, fields: Mapping[str, None]) -> str:
    return f"{source} has no {role} {column!r}; columns seen: {', '.join(list(fields)[:30])}"


def resolve_columns(
    fields: Collection[str],
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    require: Collection[str] = TEXT_FIELDS,
    source: str = "the data",
) -> dict[str, str]:
    """Return the column of each text field, e.g. ``{"question": "user_input", ...}``.

    Parameters
    ----------
    fields : collection of str
        The column names seen.
    preset : str or None
        One of `PRESETS`; None guesses it from the names.
    mapping : mapping of str to str
        Field to column, for single fields; wins over the preset.
    require : collection of str
        The text fields that must have a column.
    source : str
        How messages call the data.

    Raises
    ------
    InputError
        An unknown preset or an unknown field in ``mapping``.
    DataError
        A required field has no column, a mapped column is not there, or several presets fit.

    Examples
    --------
    >>> resolve_columns(["query", "contexts", "response", "label"])["question"]
    'query'
    """
    mapping = mapping or {}
    for field, column in mapping.items():
        if field not in FIELDS:
            raise InputError(f"mapping can name {', '.join(FIELDS)}; got {field!r}")
        if fields and column not in fields:
            raise DataError(
                f"{source} has no column {column!r} to map to {field}; it has {_list(fields)}"
            )
    if preset is not None and preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}")
    named = {field: mapping[field] for field in TEXT_FIELDS if field in mapping}
    options = {
        name: dict(zip(TEXT_FIELDS, columns, strict=True)) | named
        for name, columns in PRESETS.items()
    }
    if preset is not None:
        return options[preset]
    if set(options["calibrail"].values()) <= set(fields):
        return options["calibrail"]
    # The columns that are there, of every preset that has all that is required.
    seen = {
        name: tuple(column for column in columns.values() if column in fields)
        for name, columns in options.items()
        if all(columns[field] in fields for field in require)
    }
    if not seen:
        presets = "; ".join(f"{name} ({', '.join(columns)})" for name, columns in PRESETS.items())
        raise DataError(
            f"{source}: cannot tell which columns hold {', '.join(require)}. Columns seen: "
            f"{_list(fields)}. Presets: {presets}. Name one with --preset, or single columns "
            "with --map, e.g. --map question=my_column"
        )
    most = max(map(len, seen.values()))
    best = {name: columns for name, columns in seen.items() if len(columns) == most}
    if len(set(best.values())) > 1:
        raise DataError(
            f"{source}: the columns {_list(fields)} fit several presets ({', '.join(best)}); "
            "choose one with --preset, or map single columns with --map"
        )
    return options[next(iter(best))]


def _list(fields: Collection[str]) -> str:
    rest = f" and {len(fields) - 30} more" if len(fields) > 30 else ""
    return (", ".join(list(fields)[:30]) or "none") + rest
