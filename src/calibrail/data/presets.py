"""Which column of a source holds which field of an example?"""

from collections.abc import Collection, Mapping
from typing import Final

from calibrail.data.example import TEXT_FIELDS
from calibrail.errors import DataError, InputError

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

#: Fields that ``mapping`` may name.
MAPPABLE: Final = (*TEXT_FIELDS, "label", "group", "id", "samples")


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
        if field not in MAPPABLE:
            raise InputError(f"mapping can name {', '.join(MAPPABLE)}; got {field!r}")
        if fields and column not in fields:
            raise DataError(
                f"{source} has no column {column!r} to map to {field}; it has {_list(fields)}"
            )
    if preset is not None and preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}")
    names = [preset] if preset is not None else list(PRESETS)
    options = {name: _columns(name, mapping) for name in names}
    usable = {
        name: columns
        for name, columns in options.items()
        if preset is not None or all(columns[field] in fields for field in require)
    }
    if not usable:
        raise DataError(
            f"{source}: cannot tell which columns hold {', '.join(require)}. Columns seen: "
            f"{_list(fields)}. Presets: {_describe()}. Name one with --preset, or single columns "
            "with --map, e.g. --map question=my_column"
        )
    if "calibrail" in options and all(name in fields for name in options["calibrail"].values()):
        return options["calibrail"]
    best = max(_hits(columns, fields) for columns in usable.values())
    finalists = {n: c for n, c in usable.items() if _hits(c, fields) == best}
    seen = {n: tuple(c[f] for f in TEXT_FIELDS if c[f] in fields) for n, c in finalists.items()}
    if len(set(seen.values())) > 1:
        raise DataError(
            f"{source}: the columns {_list(fields)} fit several presets ({', '.join(seen)}); "
            "choose one with --preset, or map single columns with --map"
        )
    return next(iter(finalists.values()))


def _columns(preset: str, mapping: Mapping[str, str]) -> dict[str, str]:
    columns = dict(zip(TEXT_FIELDS, PRESETS[preset], strict=True))
    columns.update({field: mapping[field] for field in TEXT_FIELDS if field in mapping})
    return columns


def _hits(columns: Mapping[str, str], fields: Collection[str]) -> int:
    return sum(column in fields for column in columns.values())


def _describe() -> str:
    return "; ".join(f"{name} ({', '.join(columns)})" for name, columns in PRESETS.items())


def _list(fields: Collection[str]) -> str:
    rest = f" and {len(fields) - 30} more" if len(fields) > 30 else ""
    return (", ".join(list(fields)[:30]) or "none") + rest
