"""When is a row an example, and what is wrong with it when it is not?"""

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from calibrail.data.columns import Needs
from calibrail.data.example import Example
from calibrail.data.labels import label_remedy, parse_label
from calibrail.data.rows import Problem, Row, shorten

_T = TypeVar("_T")
_BLANK: Final = "write a text, or leave the row out"


class _FieldError(Exception):
    """A field of the row at hand cannot be used; never leaves this module."""

    def __init__(self, field: str, reason: str, value: object, remedy: str) -> None:
        super().__init__(reason)
        self.field, self.reason, self.value, self.remedy = field, reason, value, remedy


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Turns rows into examples, or into the problem that stands in the way.

    Parameters
    ----------
    columns : mapping of str to str
        Column of every field; a column that a row lacks is a missing field.
    needs : Needs
        What a row must have, and which columns are kept.
    cells : bool
        Whether texts come from CSV, where a list is a cell that holds a JSON list (or one that
        Python printed, as pandas writes them).
    """

    columns: Mapping[str, str]
    needs: Needs
    cells: bool

    def __call__(self, row: Row) -> Example | Problem:
        """Return the example in ``row``, or the first thing that is wrong with it."""
        values, columns = row.values, self.columns
        try:
            return Example(
                question=self._text("question", values.get(columns["question"])),
                contexts=self._chunks(values.get(columns["contexts"])),
                response=self._text("response", values.get(columns["response"])),
                label=self._label(values.get(columns["label"])),
                group=_name("group", values.get(columns["group"])),
                id=_name("id", values.get(columns["id"])) or f"row-{row.number}",
                samples=self._samples(values.get(columns["samples"])),
                columns={name: column_value(values.get(name)) for name in self.needs.keep},
            )
        except _FieldError as bad:
            value = "" if bad.reason == "missing" else shorten(bad.value)
            return Problem(row.number, bad.field, bad.reason, value, "", bad.remedy)

    def _text(self, field: str, value: object) -> str:
        if value is None:
            return self._absent(field, "")
        if not isinstance(value, str):
            raise _FieldError(field, "wrong type", value, f"{field} must be a text")
        if field in self.needs.require and not value.strip():
            raise _FieldError(field, "empty", value, _BLANK)
        return value

    def _chunks(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            listed = _parse_list(value) if self.cells else None
            value = [value] if listed is None else listed
        if value is None:
            return self._absent("contexts", ())
        chunks = tuple(chunk for chunk in _texts("contexts", value) if chunk.strip())
        if not chunks and "contexts" in self.needs.require:
            raise _FieldError("contexts", "empty", value, _BLANK)
        return chunks

    def _samples(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) and self.cells:
            value = _parse_list(value)
        return () if value is None else _texts("samples", value)

    def _absent(self, field: str, stand_in: _T) -> _T:
        if field in self.needs.require:
            column = self.columns[field]
            raise _FieldError(field, "missing", None, f"give every row a {column!r}")
        return stand_in

    def _label(self, value: object) -> int | None:
        label = parse_label(value)
        if label is None and self.needs.labelled:
            reason, remedy = "not 0 or 1", label_remedy(value)
            if value is None:
                reason, remedy = "missing", f"give every row a {self.columns['label']!r} of 0 or 1"
            raise _FieldError("label", reason, value, remedy)
        return label


def column_value(value: object) -> float | str | None:
    """Return a further column's value: a number where it is or spells one, else a text, or None.

    Empty cells, null and NaN are None; true and false are 1.0 and 0.0; lists and objects become
    JSON text.

    >>> column_value("0.5"), column_value("1_0"), column_value(""), column_value("fit")
    (0.5, '1_0', None, 'fit')
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, (str, int, float)) or (isinstance(value, str) and "_" in value):
        return str(value)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return str(value)
    return None if math.isnan(number) else number


def _texts(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _FieldError(field, "wrong type", value, f"{field} must be a list of texts")


def _name(field: str, value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return str(value)
        except ValueError:  # a whole number of more digits than Python will print
            return hex(int(value))
    raise _FieldError(field, "wrong type", value, f"{field} must be a text or a number")


def _parse_list(cell: str) -> list[str] | None:
    """Return the list of texts that a CSV cell holds, or None where it holds a plain text."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            listed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        texts = isinstance(listed, list) and all(isinstance(item, str) for item in listed)
        return listed if texts else None
    return None
