"""Row -> Example or problem."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, TypeVar

from calibrail.data.columns import CHARACTERS, ColumnMapping, Needs
from calibrail.data.example import Example, FieldError, Filtered, ParsedItem, RowProblem, SourceRow
from calibrail.data.labels import read_label
from calibrail.data.sentences import GATHERED, SentenceCell, joined
from calibrail.data.values import (
    chunks_of,
    column_value,
    name_of,
    parse_cell,
    printed_list,
    same_cell,
    spelling,
    spelt_out,
    spoken_text,
    text_of,
    value_at,
    with_decimals,
)
from calibrail.errors import error_text
from calibrail.options import ReadOptions
from calibrail.options.data import PAIR, SKIP
from calibrail.options.fields import spell_option

_T = TypeVar("_T")
_BLANK: Final = "write a text, or leave the row out"


@dataclass(frozen=True, slots=True)
class RowParser:
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

    columns: ColumnMapping
    needs: Needs
    cells: bool
    whole: bool = True

    def __call__(self, row: SourceRow) -> Example | RowProblem | Filtered:
        """Return the example in ``row``, or the first thing that is wrong with it."""
        values = with_decimals(row.values, self.columns.decimals)
        by_field = self.columns.by_field
        try:
            name = _name("id", value_at(values, by_field["id"]))
            question = self._text("question", value_at(values, by_field["question"]))
            contexts = self._chunks(value_at(values, by_field["contexts"]))
            said, marks = value_at(values, by_field["response"]), self.columns.marks
            given = None if marks is None else marks.given(values)
            response = self._text("response", joined(given) if given and said is None else said)
            of_answer = marks is None or not marks.gives_labels
            stored = self.columns.label_of(values) if of_answer else None
            labels, needed = self.columns.labels, self.needs.labelled and of_answer
            label = read_label(labels, stored, by_field["label"], needed=needed)
            sentences = None if marks is None else marks.sentences(given, response)
            if isinstance(label, int):
                self.columns.require_agreement(label, row)
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
                columns={
                    key: len(response) if key == CHARACTERS else column_value(value_at(values, key))
                    for key in self.needs.keep
                },
                content=None if name else self._content(response, values),
                spans=None if marks is None else marks.spans(values, response),
                sentences=None if isinstance(sentences, str) else sentences,
            )
            return example if marks is None else marks.checked(example)
        except FieldError as bad:
            return bad.problem(row.number, row.file)

    def _content(self, response: str, values: Mapping[str, object]) -> str:
        """Return what the row holds beside its label; a digest of it where its answer is known."""
        content = self.content(values) if self.whole else ""
        if not (content and response):
            return content
        return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def content(self, values: Mapping[str, object]) -> str:
        """Return all that a row holds beside its label."""
        passed_over = self.columns.numbering.union(self.columns.label_columns)
        read = with_decimals(values, self.columns.decimals)
        held = [cell for name, cell in read.items() if name not in passed_over]
        # Sorted and without names: columns in another order, or renamed, are the same row.
        return "\x1f".join(sorted(filter(None, map(spelling, held))))

    def _text(self, field: str, value: object) -> str:
        if value is None:
            return self._absent(field, "")
        value = self._as_shown(value)
        text = text_of(value)
        if isinstance(value, str) and self.cells:
            text = spoken_text(value)
            if text == value and value.lstrip().startswith("["):
                _refuse_printed(field, value)
        if text is None:
            raise FieldError(field, "wrong type", value, f"{field} must be a text")
        if field in self.needs.require and not text.strip():
            raise FieldError(field, "empty", value, _BLANK)
        return text

    def _as_shown(self, value: object) -> object:
        """Return a text for what a sheet made a number or a truth value of."""
        return str(value).upper() if self.cells and isinstance(value, int | float) else value

    def _chunks(self, value: object) -> tuple[str, ...]:
        if value is None:
            return self._absent("contexts", ())
        texts = self._texts("contexts", self._as_shown(value))
        chunks = tuple(chunk for chunk in texts if chunk.strip())
        if not chunks and "contexts" in self.needs.require:
            raise FieldError("contexts", "empty", value, _BLANK)
        return chunks

    def _samples(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str) and not self.cells and parse_cell(value) is None:
            raise FieldError("samples", "wrong type", value, "samples must be a list of texts")
        return () if value is None else self._texts("samples", value)

    def _texts(self, field: str, value: object) -> tuple[str, ...]:
        texts = chunks_of(value)
        if texts is not None and len(texts) == 1:
            _refuse_printed(field, texts[0])
        if texts is None:
            raise FieldError(field, "wrong type", value, f"{field} must be a list of texts")
        return texts

    def _absent(self, field: str, stand_in: _T) -> _T:
        if field in self.needs.require:
            column = self.columns.by_field[field]
            raise FieldError(field, "missing", None, f"give every row a {column!r}")
        return stand_in


def _refuse_printed(field: str, value: str) -> None:
    """Refuse a list that a program printed, so that nobody can tell where its items end."""
    if (how := printed_list(value)) is not None:
        raise FieldError(field, f"a list {how}", value, _PRINTED)


_PRINTED: Final = "write it as a JSON list (json.dumps), or write Parquet from the original table"


def _name(field: str, value: object) -> str | None:
    try:
        return name_of(value)
    except ValueError as error:
        remedy = f"{field} must be a text or a number"
        raise FieldError(field, "wrong type", value, remedy) from error


def answers_of(row: ParsedItem, columns: ColumnMapping) -> Iterator[ParsedItem]:
    """Yield a row for every answer: itself, unless it lists answers with a label each.

    A list of answers without as many labels is one answer, sentence by sentence. The answers of a
    row share its question and contexts; where it names no group, the row is their group. Contexts
    beside the answers in one list of objects, and further columns that list a value an answer,
    are each answer's own.

    Parameters
    ----------
    row : ParsedItem
        As it was read; a problem stays one.
    columns : Columns
        Where each field is.
    """
    if not isinstance(row, SourceRow):
        yield row
        return
    values, by_field = row.values, columns.by_field
    labels = columns.label_of(values) if len(columns.label_columns) == 1 else None
    if isinstance(labels, str) and isinstance(spelt := parse_cell(labels), list):
        labels = spelt
        row = replace(row, values={**values, columns.label_columns[0]: spelt})
    of_sentences = columns.marked.sentence_labels in columns.label_columns
    if not isinstance(labels, list) or columns.labels.spans or of_sentences:
        yield row
        return
    responses = spelt_out(value_at(values, by_field["response"]))
    if not isinstance(responses, list):
        if columns.beside and len(labels) > 1:
            items = columns.beside[0]
            named = spell_option(ReadOptions, "mapping", {"response": items})
            remedy = error_text("labels_beside_answers", items=items, named=named)
            seen = f"{len(labels)} labels beside as many {', '.join(columns.beside)}"
            yield RowProblem(row.number, "label", _LISTED, seen, "", remedy, row.file)
            return
        # The labels are several annotators'.
        yield row
        return
    n = len(responses)
    if n != len(labels) or not n:
        seen = f"{len(labels)} labels for {n} answers"
        reason = "not one label for each answer"
        yield RowProblem(row.number, "label", reason, seen, "", _REMEDY, row.file)
        return
    base = value_at(values, by_field["id"])
    stem = row.name if base is None else base
    alone = base if isinstance(base, list) else [base]
    ids = alone if n == 1 or alone is base else [f"{stem}/{i + 1}" for i in range(n)]
    group = value_at(values, by_field["group"])
    if group is None and n > 1:
        group = row.name if base is None or isinstance(base, list) else base
    used = set(by_field.values()) - set(columns.marked.names)
    lists = {
        name: value
        for name, value in values.items()
        if isinstance(value, list) and len(value) == n and name not in used
    }
    own = _beside(values, by_field, n)
    for i in range(n):
        yield replace(
            row,
            values={
                **values,
                **{name: value[i] for name, value in lists.items()},
                **({by_field["contexts"]: own[i]} if own else {}),
                by_field["response"]: responses[i],
                by_field["label"]: labels[i],
                by_field["group"]: group,
                by_field["id"]: ids[i] if i < len(ids) else None,
            },
        )


_LISTED = "one for each item of a list"
_REMEDY = "give every row a list of answers and a list of as many labels"


def _beside(
    values: Mapping[str, object], by_field: Mapping[str, str], n: int
) -> list[object] | None:
    """Return each answer's own contexts where both stand in one list of objects."""
    answer, _, _ = by_field["response"].rpartition(".")
    if not answer or by_field["contexts"].rpartition(".")[0] != answer:
        return None
    contexts = value_at(values, by_field["contexts"])
    return contexts if isinstance(contexts, list) and len(contexts) == n else None


_ONE_OF_A_PAIR: Final = "write both texts of the pair, or leave the row out"


def pairs_listed(items: Iterator[ParsedItem], pair: Mapping[str, str]) -> Iterator[ParsedItem]:
    """Yield rows that hold a faithful and a hallucinated answer as rows that list both.

    Parameters
    ----------
    items : iterator
        The rows as they are read.
    pair : mapping of str to str
        See ``ReadOptions.pair``.
    """
    columns = [pair[name] for name in PAIR]
    for item in items:
        if not isinstance(item, SourceRow):
            yield item
            continue
        texts = [value_at(item.values, column) for column in columns]
        there = [label for label, text in enumerate(texts) if str(text or "").strip()]
        for label in {*range(len(PAIR))}.difference(there):
            bad = FieldError(columns[label], "missing", None, _ONE_OF_A_PAIR)
            yield bad.problem(item.number, item.file)
        if len(there) == len(PAIR) and len(set(map(same_cell, map(str, texts)))) == 1:
            bad = FieldError(columns[1], f"the same text as {columns[0]}", texts[1], _ONE_OF_A_PAIR)
            yield bad.problem(item.number, item.file)
        elif there:
            held = {name: cell for name, cell in item.values.items() if name not in columns}
            answers = {"response": [texts[label] for label in there], "label": there}
            yield replace(item, values=held | answers)


_DUPLICATE: Final = "give every row its own id, or name another id column"


def duplicate(number: int, id: str, file: str) -> RowProblem:
    """Return what is wrong with a row whose id stood there before."""
    return RowProblem(number, "id", "duplicate", repr(id), "", _DUPLICATE, file)


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
        answers: dict[tuple[str, str], list[SourceRow]] = {}
        for item in items:
            self.n_rows += 1
            if not isinstance(item, SourceRow):
                yield item
                continue
            name, known = value_at(item.values, self._by_field["answer_id"]), None
            with suppress(ValueError):
                known = name_of(name)
            if known is not None:
                answers.setdefault((item.file, known), []).append(item)
            else:
                reason = "missing" if name is None or name == "" else "wrong type"
                yield FieldError("answer_id", reason, name, _NAME).problem(item.number, item.file)
        for (file, name), rows in answers.items():
            try:
                yield self._answer(name, rows)
            except FieldError as bad:
                yield bad.problem(rows[0].number, file)

    def _answer(self, name: str, rows: Sequence[SourceRow]) -> SourceRow:
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

    def _require_rows_once(self, rows: Sequence[SourceRow]) -> None:
        """Refuse an answer in which a row stands twice, where rows have names of their own."""
        names = [value_at(row.values, self._by_field["id"]) for row in rows]
        if all(name == names[0] for name in names):
            return
        seen: set[str] = set()
        for name, row in zip(names, rows, strict=True):
            if name is not None and str(name) in seen:
                raise FieldError("id", "duplicate", name, _ONCE, row.number)
            seen.add(str(name))

    def _sentences(self, rows: Sequence[SourceRow]) -> list[SentenceCell]:
        sentences = []
        for row in rows:
            text = value_at(row.values, self._by_field["response"])
            if not isinstance(text, str) or not text.strip():
                reason = "missing" if text is None else "empty" if text == "" else "wrong type"
                raise FieldError("response", reason, text, _TEXT, row.number)
            labels = [value_at(row.values, column) for column in self._label_columns]
            label = labels[0] if len(labels) == 1 else labels
            sentences.append(SentenceCell(text, label, columns=row.values, row=row.number))
        return sentences

    def _shared(self, field: str, rows: Sequence[SourceRow]) -> object:
        cells = [value_at(row.values, self._by_field[field]) for row in rows]
        held = [cell for cell in cells if cell is not None]
        for cell, row in zip(cells, rows, strict=True):
            if cell is not None and cell != held[0]:
                remedy = _ONE.format(field=field)
                raise FieldError(field, "differs within an answer", cell, remedy, row.number)
        return held[0] if held else None
