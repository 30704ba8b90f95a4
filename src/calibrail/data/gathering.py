"""How do rows that are sentences become the answers that they belong to?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from calibrail.data.given_sentences import Given
from calibrail.data.marks import GATHERED
from calibrail.data.paths import value_at
from calibrail.data.rows import FieldError, ParsedItem, Row

#: Fields of an answer, which all of its sentences share.
_SHARED: Final = ("question", "contexts", "group", "samples")

_NAME: Final = "give every row the name of its answer"
_TEXT: Final = "give every row the text of its sentence"
_ONCE: Final = "leave out the rows that stand twice, or name another id column"
_ONE: Final = "give all sentences of an answer the same {field}, or name another answer_id column"


class Gatherer:
    """Gathers sentences, a row each, to answers: in their order, wherever they stand in the file.

    All rows are held until the last one is read: an answer's sentences may be anywhere. A further
    column of an answer is what all of its sentences hold; where they differ, it lists theirs.

    Parameters
    ----------
    by_field : mapping of str to str
        The column of each field; that of ``answer_id`` among them.
    label_columns : sequence of str
        Where the labels of sentences are.

    Attributes
    ----------
    n_rows : int
        Rows of sentences so far, and others that came between them.
    """

    def __init__(self, by_field: Mapping[str, str], label_columns: Sequence[str]) -> None:
        self._by_field, self._label_columns = by_field, tuple(label_columns)
        self.n_rows = 0

    def __call__(self, items: Iterator[ParsedItem]) -> Iterator[ParsedItem]:
        """Yield a row for every answer, in the order of their first sentences."""
        answers: dict[tuple[str, object], list[Row]] = {}
        for item in items:
            self.n_rows += 1
            if not isinstance(item, Row):
                yield item
                continue
            name = value_at(item.values, self._by_field["answer_id"])
            if isinstance(name, str | int | float) and str(name).strip() and name == name:
                answers.setdefault((item.file, name), []).append(item)
            else:
                reason = "missing" if name is None or name == "" else "wrong type"
                yield FieldError("answer_id", reason, name, _NAME).problem(item.number, item.file)
        for (file, name), rows in answers.items():
            try:
                yield self._answer(name, rows)
            except FieldError as bad:
                yield bad.problem(rows[0].number, file)

    def _answer(self, name: object, rows: Sequence[Row]) -> Row:
        self._require_rows_once(rows)
        shared = {field: self._shared(field, rows) for field in _SHARED}
        names = dict.fromkeys(name for row in rows for name in row.values)
        values: dict[str, object] = {}
        for column in names:
            cells = [row.values.get(column) for row in rows]
            values[column] = cells[0] if all(cell == cells[0] for cell in cells) else cells
        own = {self._by_field[field]: value for field, value in shared.items() if value is not None}
        emptied = dict.fromkeys((*self._label_columns, self._by_field["response"]))
        values |= emptied | own | {self._by_field["id"]: name, GATHERED: self._sentences(rows)}
        return replace(rows[0], values=values)

    def _require_rows_once(self, rows: Sequence[Row]) -> None:
        """Refuse an answer in which a row stands twice, where rows have names of their own."""
        names = [value_at(row.values, self._by_field["id"]) for row in rows]
        if all(name == names[0] for name in names):
            return
        seen: set[str] = set()
        for name, row in zip(names, rows, strict=True):
            if name is not None and str(name) in seen:
                raise FieldError("id", "duplicate", name, _ONCE, row.number)
            seen.add(str(name))

    def _sentences(self, rows: Sequence[Row]) -> list[Given]:
        sentences = []
        for row in rows:
            text = value_at(row.values, self._by_field["response"])
            if not isinstance(text, str) or not text.strip():
                reason = "missing" if text is None else "empty" if text == "" else "wrong type"
                raise FieldError("response", reason, text, _TEXT, row.number)
            labels = [value_at(row.values, column) for column in self._label_columns]
            label = labels[0] if len(labels) == 1 else labels
            sentences.append(Given(text, label, columns=row.values, row=row.number))
        return sentences

    def _shared(self, field: str, rows: Sequence[Row]) -> object:
        cells = [value_at(row.values, self._by_field[field]) for row in rows]
        held = [cell for cell in cells if cell is not None]
        for cell, row in zip(cells, rows, strict=True):
            if cell is not None and cell != held[0]:
                remedy = _ONE.format(field=field)
                raise FieldError(field, "differs within an answer", cell, remedy, row.number)
        return held[0] if held else None
