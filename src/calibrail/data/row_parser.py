"""When is a row an example, and what is wrong with it when it is not?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from calibrail.data.cell_values import column_value, spelling
from calibrail.data.columns import CHARACTERS, Columns, Needs
from calibrail.data.example import Example
from calibrail.data.given_sentences import joined
from calibrail.data.labels import Meaning
from calibrail.data.one_label import read_label
from calibrail.data.paths import value_at
from calibrail.data.rows import FieldError, Filtered, Problem, Row
from calibrail.data.texts import chunks_of, parse_cell, text_of
from calibrail.settings.reading import SKIP

_T = TypeVar("_T")
#: Names of columns that only number the rows, as pandas writes them.
NUMBERING: Final = ("", "index", "Unnamed: 0", "__index_level_0__")
_BLANK: Final = "write a text, or leave the row out"


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
            said, marks = value_at(values, by_field["response"]), self.columns.marks
            given = None if marks is None else marks.given(values)
            response = self._text("response", joined(given) if given and said is None else said)
            label = self._label(values)
            sentences = None if marks is None else marks.sentences(given, response)
            if isinstance(label, str) or sentences == SKIP:
                return Filtered(row.number, f"label left out on request ({SKIP})", row.file)
            example = Example(
                question,
                contexts,
                response,
                label,
                group=_name("group", value_at(values, by_field["group"])),
                id=name or row.name,
                samples=self._samples(value_at(values, by_field["samples"])),
                columns=self._kept(values, response),
                content=None if name else self._content(response, values),
                spans=None if marks is None else marks.spans(values, response),
                sentences=None if isinstance(sentences, str) else sentences,
            )
            return example if marks is None else marks.checked(example)
        except FieldError as bad:
            return bad.problem(row.number, row.file)

    def _label(self, values: Mapping[str, object]) -> Meaning:
        if self.columns.marks is not None and self.columns.marks.gives_labels:
            return None
        column, needed = self.columns.by_field["label"], self.needs.labelled
        return read_label(self.columns.labels, self.columns.label_of(values), column, needed=needed)

    def _kept(self, values: Mapping[str, object], response: str) -> dict[str, float | str | None]:
        return {
            key: len(response) if key == CHARACTERS else column_value(value_at(values, key))
            for key in self.needs.keep
        }

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
            raise FieldError(field, "wrong type", value, f"{field} must be a text")
        if field in self.needs.require and not text.strip():
            raise FieldError(field, "empty", value, _BLANK)
        return text

    def _chunks(self, value: object) -> tuple[str, ...]:
        if value is None:
            return self._absent("contexts", ())
        chunks = tuple(chunk for chunk in self._texts("contexts", value) if chunk.strip())
        if not chunks and "contexts" in self.needs.require:
            raise FieldError("contexts", "empty", value, _BLANK)
        return chunks

    def _samples(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) and not self.cells:
            raise FieldError("samples", "wrong type", value, "samples must be a list of texts")
        return () if value is None else self._texts("samples", value)

    def _texts(self, field: str, value: object) -> tuple[str, ...]:
        texts = chunks_of(value, self.cells)
        if texts is None:
            raise FieldError(field, "wrong type", value, f"{field} must be a list of texts")
        return texts

    def _absent(self, field: str, stand_in: _T) -> _T:
        if field in self.needs.require:
            column = self.columns.by_field[field]
            raise FieldError(field, "missing", None, f"give every row a {column!r}")
        return stand_in


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
    raise FieldError(field, "wrong type", value, f"{field} must be a text or a number")
