"""When is a row an example, and what is wrong with it when it is not?"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from calibrail.data.columns import Columns, Needs
from calibrail.data.example import Example
from calibrail.data.labels import TieError, label_remedy
from calibrail.data.paths import value_at
from calibrail.data.rows import Filtered, Problem, Row, shorten
from calibrail.data.texts import chunks_of, parse_cell, text_of
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

_T = TypeVar("_T")
#: Names of columns that only number the rows, as pandas writes them.
NUMBERING: Final = ("", "index", "Unnamed: 0", "__index_level_0__")
_BLANK: Final = "write a text, or leave the row out"
#: Tables may have thousands of numbers a row: a number's four bytes take a tenth of the time of its
#: shortest digits.
_FLOAT32: Final = struct.Struct(">f")


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
    columns : Columns
        Column of every field; a column that a row lacks is a missing field.
    needs : Needs
        What a row must have, and which columns are kept.
    cells : bool
        Whether texts come from CSV, where a list is a cell that holds a JSON list (or one that
        Python printed, as pandas writes them).
    whole : bool
        Whether rows come with all their columns, so that what they hold identifies them.
    """

    columns: Columns
    needs: Needs
    cells: bool
    whole: bool = True

    def __call__(self, row: Row) -> Example | Problem | Filtered:
        """Return the example in ``row``, or the first thing that is wrong with it."""
        values, by_field = row.values, self.columns.by_field
        try:
            name = _name("id", value_at(values, by_field["id"]))
            question = self._text("question", value_at(values, by_field["question"]))
            contexts = self._chunks(value_at(values, by_field["contexts"]))
            response = self._text("response", value_at(values, by_field["response"]))
            label = self._label(self.columns.label_of(values))
            if isinstance(label, str):
                return Filtered(row.number, f"label left out on request ({label})", row.file)
            return Example(
                question,
                contexts,
                response,
                label,
                group=_name("group", value_at(values, by_field["group"])),
                id=name or row.name,
                samples=self._samples(value_at(values, by_field["samples"])),
                columns={key: column_value(value_at(values, key)) for key in self.needs.keep},
                content=None if name else self._content(response, values),
            )
        except _FieldError as bad:
            value = "" if bad.reason == "missing" else shorten(bad.value)
            return Problem(row.number, bad.field, bad.reason, value, "", bad.remedy, row.file)

    def _content(self, response: str, values: Mapping[str, object]) -> str:
        """Return what the row holds beside its label; nothing where its answer is known."""
        if response or not self.whole:
            return ""
        passed_over = {*self.columns.label_columns, *NUMBERING}
        held = (value for name, value in values.items() if name not in passed_over)
        # Sorted and without names: columns in another order, or renamed, are the same row.
        return "\x1f".join(sorted(text for value in held if (text := spelling(value))))

    def _text(self, field: str, value: object) -> str:
        if value is None:
            return self._absent(field, "")
        text = value if isinstance(value, str) else text_of(value)
        if self.cells and isinstance(value, str) and (spelt := parse_cell(value)) is not None:
            text = text_of(spelt) or value
        if text is None:
            raise _FieldError(field, "wrong type", value, f"{field} must be a text")
        if field in self.needs.require and not text.strip():
            raise _FieldError(field, "empty", value, _BLANK)
        return text

    def _chunks(self, value: object) -> tuple[str, ...]:
        if value is None:
            return self._absent("contexts", ())
        chunks = tuple(chunk for chunk in self._texts("contexts", value) if chunk.strip())
        if not chunks and "contexts" in self.needs.require:
            raise _FieldError("contexts", "empty", value, _BLANK)
        return chunks

    def _samples(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) and not self.cells:
            raise _FieldError("samples", "wrong type", value, "samples must be a list of texts")
        return () if value is None else self._texts("samples", value)

    def _texts(self, field: str, value: object) -> tuple[str, ...]:
        texts = chunks_of(value, self.cells)
        if texts is None:
            raise _FieldError(field, "wrong type", value, f"{field} must be a list of texts")
        return texts

    def _absent(self, field: str, stand_in: _T) -> _T:
        if field in self.needs.require:
            column = self.columns.by_field[field]
            raise _FieldError(field, "missing", None, f"give every row a {column!r}")
        return stand_in

    def _label(self, value: object) -> int | str | None:
        labels, column = self.columns.labels, self.columns.by_field["label"]
        try:
            label = labels(value)
        except TieError as tie:
            if not self.needs.labelled:
                return None
            remedy = (
                f"decide ties with {option_of(ReadOptions, 'annotators', 'any')} or all ({tie})"
            )
            raise _FieldError("label", "annotators tie", value, remedy) from tie
        if label is None and self.needs.labelled:
            reason, remedy = "not 0 or 1", label_remedy(value, labels)
            if labels.is_missing(value):
                reason, remedy = "missing", f"give every row a {column!r} of 0 or 1"
            else:
                labels.set_aside(value)
            raise _FieldError("label", reason, value, remedy)
        return label


def spelling(value: object) -> str:
    """Return a value as it is compared across files: 0.5, 0.50 and a float32 of it are the same.

    >>> spelling(" 0.50 ") == spelling(0.5), spelling(0.10000000149011612) == spelling(0.1)
    (True, True)
    >>> spelling(7.0), spelling(" a "), spelling(None)
    ('7', 'a', '')
    """
    known = column_value(value)
    if known is None:
        return ""
    if isinstance(known, str):
        return known.strip()
    if known.is_integer():
        return str(int(known))
    # What a float32 is too small for is a whole number.
    return _FLOAT32.pack(known).hex()


def column_value(value: object) -> float | str | None:
    """Return a further column's value: a number where it is or spells one, else a text, or None.

    Empty cells, null and NaN are None; true and false are 1.0 and 0.0; lists and objects become
    JSON text.

    >>> column_value("0.5"), column_value("1_0"), column_value(""), column_value("fit")
    (0.5, '1_0', None, 'fit')
    """
    if type(value) is float:
        return None if math.isnan(value) else value
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
