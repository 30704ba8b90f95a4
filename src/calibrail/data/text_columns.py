"""Which column holds each text of an answer, by the names of all columns?"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from calibrail.data.aliases import MARK_FIELDS, PRESETS, aliases_of
from calibrail.data.example import FIELDS, TEXT_FIELDS
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions
from calibrail.settings.option import either, option_of


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
        if field not in (*FIELDS, *MARK_FIELDS):
            names = ", ".join((*FIELDS, *MARK_FIELDS))
            raise InputError(f"mapping can name {names}; got {field!r}")
        if fields and column not in fields:
            raise DataError(
                f"{source} has no column {column!r} to map to {field}; it has {listing(fields)}"
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
            f"{source}: the columns {listing(fields)} fit several presets ({', '.join(complete)}); "
            f"choose one with {option_of(ReadOptions, 'preset')}, or map single columns with "
            f"{option_of(ReadOptions, 'mapping')}"
        )
    if complete:
        return options[next(iter(complete))]
    # What holds marks, or names answers, is no text, whatever it is called.
    free = [name for name in fields if name not in {mapping.get(field) for field in MARK_FIELDS}]
    chosen = {}
    for field in TEXT_FIELDS:
        found = [named[field]] if field in named else aliases_of(field, free, nested)
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
            f"{listing(fields)}. Name single columns with {option_of(ReadOptions, 'mapping')}, "
            "e.g. "
            f"{option_of(ReadOptions, 'mapping', {missing[0]: 'my_column'})}; "
            f"{either('`calibrail doctor`', 'calibrail.diagnose(...)')} shows what is in each. "
            f"{option_of(ReadOptions, 'preset')} takes the names of {', '.join(list(PRESETS)[1:])}"
        )
    return chosen


def listing(fields: Collection[str]) -> str:
    """Return column names as messages list them."""
    rest = f" and {len(fields) - 30} more" if len(fields) > 30 else ""
    names = (name if len(name) <= 80 else f"{name[:80]}..." for name in list(fields)[:30])
    return (", ".join(names) or "none") + rest
