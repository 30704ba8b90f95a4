"""Which columns does a reading use, and are the ones that a user named really there?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.presets import MAPPABLE, resolve_columns
from calibrail.errors import DataError


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field is found.

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
    fields: Mapping[str, None],
    *,
    table: bool,
    definite: bool,
    preset: str | None,
    mapping: Mapping[str, str],
    named: Mapping[str, str | None],
    keep: tuple[str, ...],
    require: tuple[str, ...],
    labelled: bool,
    source: str,
) -> Columns:
    """Return the column of every field.

    Parameters
    ----------
    fields : mapping of str to None
        Column names of the first rows, in order.
    table : bool
        Whether the names are the user's own (else calibrail's, from a benchmark's reader).
    definite : bool
        Whether no later row can have a column that the first rows lack.
    preset, mapping
        As in `resolve_columns`.
    named : mapping of str to str or None
        ``label``, ``group`` and ``id``: the column that the user named.
    keep : tuple of str
        Further columns that the user named.
    require, labelled
        Which text fields, and whether a label, every row needs.
    source : str
        How messages call the data.

    Raises
    ------
    DataError
        A column that the user named is not there, or the text columns cannot be guessed.
    """
    by_field = {field: field for field in MAPPABLE}
    if table:
        # With nothing parsed there are no names to judge by: the rows tell what is wrong.
        needed = require if fields and preset is None else ()
        by_field.update(
            resolve_columns(
                tuple(fields), preset=preset, mapping=mapping, require=needed, source=source
            )
        )
        by_field.update({field: column for field, column in mapping.items()})
    by_field.update({field: column for field, column in named.items() if column is not None})
    if fields:
        asked = {f"{field} column": column for field, column in named.items() if column is not None}
        asked.update({f"column to keep ({name})": name for name in keep})
        for role, column in asked.items():
            if column not in fields:
                raise DataError(_absent(source, role, column, fields))
        if labelled and definite and by_field["label"] not in fields:
            raise DataError(
                _absent(source, "label column", by_field["label"], fields)
                + "; name the column of 0 (faithful) and 1 (hallucinated) with --label-column"
            )
    texts_and_more = (*TEXT_FIELDS, "label", "group", "id", "samples")
    present = frozenset(field for field in texts_and_more if by_field[field] in fields)
    return Columns(by_field, present)


def _absent(source: str, role: str, column: str, fields: Mapping[str, None]) -> str:
    shown = ", ".join(list(fields)[:30])
    return f"{source} has no {role.split(' (')[0]} {column!r}; columns seen: {shown}"
