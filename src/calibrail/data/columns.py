"""Which columns does a reading use, and are the ones that a user named really there?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from calibrail.data.aliases import ANSWER_LISTS, PRESETS, aliases_of, tools_named
from calibrail.data.example import FIELDS, TEXT_FIELDS
from calibrail.data.formats import PEEKED, Opened
from calibrail.data.label_columns import Seen, is_spans, label_columns_of
from calibrail.data.labels import LabelReader
from calibrail.data.listed import beside_labels
from calibrail.data.nested import nested_fields
from calibrail.data.paths import value_at
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions
from calibrail.settings.option import either, option_of

#: Among the columns to keep: all that are neither a field nor a label.
ALL_COLUMNS: Final = "*"


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there for a row, and a source, to be of use.

    Parameters
    ----------
    keep : tuple of str
        Further columns to copy to ``Example.columns``; `ALL_COLUMNS` stands for all others.
    require : tuple of str
        The text fields that must be there and not blank.
    expect : tuple of str
        Text fields that single rows may lack, and the source may not.
    labelled : bool
        Whether a row needs a label. Without, a label that cannot be read is passed over.
    allow_none : bool
        Whether a source without a usable row is fine.
    repeats : bool
        Whether a row whose id stood there before is of use, too.

    Raises
    ------
    InputError
        ``require`` names something other than a text field.
    """

    keep: tuple[str, ...] = ()
    require: tuple[str, ...] = TEXT_FIELDS
    labelled: bool = True
    allow_none: bool = False
    expect: tuple[str, ...] = ()
    repeats: bool = False

    def keeping(self, names: Collection[str], columns: "Columns") -> "Needs":
        """Return the needs with every column that is neither a field nor a label by its name."""
        if ALL_COLUMNS not in self.keep:
            return self
        used = {*columns.by_field.values(), *columns.label_columns}
        others = (name for name in names if name not in used)
        named = (name for name in self.keep if name != ALL_COLUMNS)
        return replace(self, keep=tuple(dict.fromkeys((*named, *others))))

    def expected(self, opened: Opened, n_rows: int) -> tuple[str, ...]:
        """Return the text fields that need a column.

        A few rows may well lack what a score reads beside the answer, such as contexts; a header,
        or as many rows as are looked at, may not.
        """
        settled = opened.rectangular or n_rows >= PEEKED
        sure = [name for name in self.expect if settled or name == "response"]
        return tuple(dict.fromkeys((*self.require, *sure)))

    def __post_init__(self) -> None:
        if unknown := [field for field in self.require if field not in TEXT_FIELDS]:
            raise InputError(f"require can name {', '.join(TEXT_FIELDS)}; got {unknown[0]!r}")


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field is stored, and what its labels mean.

    Parameters
    ----------
    by_field : mapping of str to str
        Field to column, for every field of an example.
    present : frozenset of str
        The fields whose column was seen in the first rows.
    label_columns : tuple of str
        Where labels are; several columns are several annotators'.
    labels : LabelReader
        Reads them, and counts what it has read.
    beside : tuple of str
        Columns that are no field and list a value for every label of a row.
    """

    by_field: Mapping[str, str]
    present: frozenset[str]
    label_columns: tuple[str, ...]
    labels: LabelReader
    beside: tuple[str, ...] = ()

    def named_as(self) -> list[str]:
        """Return the tools whose own names all text fields have, if they are all there."""
        return tools_named(self.by_field) if self.present >= set(TEXT_FIELDS) else []

    def label_of(self, values: Mapping[str, object]) -> object:
        """Return a row's label as it is stored, or the list of its annotators' labels."""
        if len(self.label_columns) == 1:
            return value_at(values, self.label_columns[0])
        return [value_at(values, column) for column in self.label_columns]


def choose_columns(
    rows: Sequence[Mapping[str, object]],
    opened: Opened,
    reading: ReadOptions,
    needs: Needs,
    source: str,
) -> Columns:
    """Return the column of every field.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
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
    seen = Seen(rows)
    named = {
        field: column
        for field in ("group", "id")
        if (column := getattr(reading, f"{field}_column")) is not None
    }
    label_columns = label_columns_of(seen, opened, reading, source, needed=needs.labelled)
    by_field = {field: field for field in FIELDS}
    listed: list[str] = []
    mapping = reading.mapping or {}
    if opened.table:
        # With nothing parsed there are no names to judge by: the rows tell what is wrong.
        required = (
            needs.expected(opened, len(rows)) if seen.names and reading.preset is None else ()
        )
        nested = nested_fields(rows, seen.names)
        if opened.export is None:
            listed = beside_labels(rows, label_columns, opened.cells)
        answers = [name for name in listed if name.lower() in ANSWER_LISTS]
        if len(answers) == 1 and not aliases_of("response", seen.names, nested):
            nested[answers[0]] = "response"
        fields = (
            *(name for name in seen.names if nested.get(name, name)),
            *(path for path, name in nested.items() if name),
            *(column for column in mapping.values() if column in seen),
        )
        by_field |= resolve_columns(
            fields,
            preset=reading.preset,
            mapping=mapping,
            require=required,
            source=source,
            nested=nested,
        )
        by_field |= mapping
    by_field |= {"label": ",".join(label_columns)} | named
    if seen.names:
        roles = [("label column", column) for column in label_columns if reading.label_column]
        roles += [(f"{field} column", column) for field, column in named.items()]
        for role, column in (*roles, *(("column", name) for name in needs.keep)):
            if column not in seen and column != ALL_COLUMNS:
                raise DataError(
                    _absent(source, role, column, seen.names)
                    + "; name one of these, or read a file that has it"
                )
        # Of JSON lines a later row can have a column that the first rows lack.
        sparse = opened.export is not None or opened.format in ("jsonl", "json")
        definite = opened.table and not sparse
        if needs.labelled and definite and not any(column in seen for column in label_columns):
            raise DataError(
                _absent(source, "label column", by_field["label"], seen.names)
                + "; name the column of 0 (faithful) and 1 (hallucinated) with "
                + option_of(ReadOptions, "label_column")
            )
    present = {field for field, column in by_field.items() if column in seen}
    present |= {"label"} if any(column in seen for column in label_columns) else set()
    spans = len(label_columns) == 1 and any(map(is_spans, seen.values(label_columns[0])))
    labels = LabelReader(reading, label_columns[0], spans)
    used = {*by_field.values()}
    beside = tuple(name for name in listed if name not in used)
    return Columns(by_field, frozenset(present), label_columns, labels, beside)


def _absent(source: str, role: str, column: str, fields: Collection[str]) -> str:
    return f"{source} has no {role} {column!r}; columns seen: {_list(fields)}"


def resolve_columns(
    fields: Collection[str],
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    require: Collection[str] = TEXT_FIELDS,
    source: str = "the data",
    nested: Mapping[str, str] = MappingProxyType({}),
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
    nested : mapping of str to str
        From `nested_fields`.

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
    rivals: dict[str, list[str]] = {}
    complete = {
        name: tuple(columns.values())
        for name, columns in options.items()
        if set(columns.values()) <= set(fields)
    }
    if len(set(complete.values())) > 1:
        raise DataError(
            f"{source}: the columns {_list(fields)} fit several presets ({', '.join(complete)}); "
            f"choose one with {option_of(ReadOptions, 'preset')}, or map single columns with "
            f"{option_of(ReadOptions, 'mapping')}"
        )
    if complete:
        return options[next(iter(complete))]
    chosen = {}
    for field in TEXT_FIELDS:
        found = [named[field]] if field in named else aliases_of(field, fields, nested)
        chosen[field] = found[0] if len(found) == 1 else field
        if len(found) > 1:
            rivals[field] = found
    if unclear := [field for field in require if field in rivals]:
        field = unclear[0]
        raise DataError(
            f"{source}: {field} may be in any of the columns {', '.join(rivals[field])}; choose "
            f"one with {option_of(ReadOptions, 'mapping')}, e.g. "
            f"{option_of(ReadOptions, 'mapping', {field: rivals[field][0]})}"
        )
    if missing := [field for field in require if chosen[field] not in fields]:
        there = [f"{field} in {chosen[field]!r}" for field in require if field not in missing]
        found_ones = f" (found: {', '.join(there)})" if there else ""
        verb = "column holds" if len(missing) == 1 else "columns hold"
        raise DataError(
            f"{source}: cannot tell which {verb} {', '.join(missing)}{found_ones}. Columns seen: "
            f"{_list(fields)}. Name single columns with {option_of(ReadOptions, 'mapping')}, e.g. "
            f"{option_of(ReadOptions, 'mapping', {missing[0]: 'my_column'})}; "
            f"{either('`calibrail doctor`', 'calibrail.diagnose(...)')} shows what is in each. "
            f"{option_of(ReadOptions, 'preset')} takes the names of {', '.join(list(PRESETS)[1:])}"
        )
    return chosen


def _list(fields: Collection[str]) -> str:
    rest = f" and {len(fields) - 30} more" if len(fields) > 30 else ""
    names = (name if len(name) <= 80 else f"{name[:80]}..." for name in list(fields)[:30])
    return (", ".join(names) or "none") + rest
