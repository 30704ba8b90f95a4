"""Which columns does a reading use, and are the ones that a user named really there?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calibrail.data.aliases import ANSWER_LISTS, MARK_FIELDS, aliases_of, tools_named
from calibrail.data.example import FIELDS, TEXT_FIELDS
from calibrail.data.given_sentences import label_key_of
from calibrail.data.label_columns import Seen, is_spans, label_columns_of
from calibrail.data.labels import LabelReader
from calibrail.data.listed import beside_labels
from calibrail.data.mark_columns import holds_cell, mark_columns_of
from calibrail.data.marked_spans import MarkColumns
from calibrail.data.marks import MarkReader
from calibrail.data.nested import nested_fields
from calibrail.data.opened import PEEKED, Opened
from calibrail.data.paths import value_at
from calibrail.data.text_columns import listing, resolve_columns
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

#: Among the columns to keep: all that are neither a field nor a label.
ALL_COLUMNS: Final = "*"
#: Among the columns to keep: how many characters the answer has, which no column holds.
CHARACTERS: Final = "#characters"


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
    by_sentence : bool
        Whether marks are read; and, of labelled answers, whether every sentence needs a label.
    any_length : bool
        Whether a column that is kept may list more or fewer numbers than an answer has sentences.

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
    by_sentence: bool = False
    any_length: bool = False

    def keeping(self, names: Collection[str], columns: "Columns") -> "Needs":
        """Return the needs with every column that is neither a field nor a label by its name."""
        if ALL_COLUMNS not in self.keep:
            return self
        used = {*columns.by_field.values(), *columns.label_columns, *columns.marked.names}
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
    marked : MarkColumns
        Where marks are.
    marks : MarkReader or None
        Reads them, where they are needed.
    """

    by_field: Mapping[str, str]
    present: frozenset[str]
    label_columns: tuple[str, ...]
    labels: LabelReader
    beside: tuple[str, ...]
    marked: MarkColumns
    marks: MarkReader | None

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
    marked = mark_columns_of(seen, opened, reading, label_columns, by_sentence=needs.by_sentence)
    by_field = {field: field for field in FIELDS}
    listed: list[str] = []
    # Answers to be checked need no marks, though a guardrail's own data had some.
    mapping = {
        field: column
        for field, column in (reading.mapping or {}).items()
        if needs.labelled or field not in MARK_FIELDS or column in seen
    }
    if opened.table:
        # With nothing parsed there are no names to judge by: the rows tell what is wrong.
        required = (
            needs.expected(opened, len(rows)) if seen.names and reading.preset is None else ()
        )
        if marked.sentences in seen:
            # Sentences are the answer where the row has no other.
            required = tuple(field for field in required if field != "response")
        nested = nested_fields(rows, seen.names)
        if opened.export is None:
            listed = [
                name
                for name in beside_labels(rows, label_columns, opened.cells)
                if name not in marked.names
            ]
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
            of_sentences = role == "column" and holds_cell(seen, marked, column)
            known = column in seen or column in (ALL_COLUMNS, CHARACTERS)
            if not known and not of_sentences:
                raise DataError(
                    _absent(source, role, column, seen.names)
                    + "; name one of these, or read a file that has it"
                )
        # Of JSON lines a later row can have a column that the first rows lack.
        sparse = opened.export is not None or opened.format in ("jsonl", "json")
        definite = opened.table and not sparse
        labelled = any(column in seen for column in label_columns)
        if needs.labelled and definite and not labelled and marked.sentences is None:
            raise DataError(
                _absent(source, "label column", by_field["label"], seen.names)
                + "; name the column of 0 (faithful) and 1 (hallucinated) with "
                + option_of(ReadOptions, "label_column")
            )
    present = {field for field, column in by_field.items() if column in seen}
    present |= {"label"} if any(column in seen for column in label_columns) else set()
    spans = len(label_columns) == 1 and (
        label_columns[0] == marked.spans or any(map(is_spans, seen.values(label_columns[0])))
    )
    labels = LabelReader(reading, label_columns[0], spans)
    joins = marked.sentences is not None and "response" not in present
    marks = _marks(seen, marked, labels, label_columns, reading, needs, needed=joins)
    if marks is not None:
        by_field |= marked.by_field
        present |= {field for field, column in marked.by_field.items() if column in seen}
        labels = marks.labels if marks.gives_labels else labels
    used = {*by_field.values()}
    beside = tuple(name for name in listed if name not in used)
    return Columns(by_field, frozenset(present), label_columns, labels, beside, marked, marks)


def _marks(
    seen: Seen,
    marked: MarkColumns,
    labels: LabelReader,
    label_columns: Sequence[str],
    reading: ReadOptions,
    needs: Needs,
    *,
    needed: bool,
) -> MarkReader | None:
    """Return what reads marks, if they are needed, be it for the labels of answers alone."""
    of_rows = marked.answer_id is not None
    parallel = marked.sentence_labels
    gives_labels = of_rows or (
        marked.sentences is not None
        and (parallel in label_columns or not any(column in seen for column in label_columns))
    )
    if not (needed or needs.by_sentence or gives_labels):
        return None
    reader = labels
    if not of_rows:
        keys = map(label_key_of, seen.values(marked.sentences or ""))
        key = next((key for key in keys if key is not None), "label")
        reader = LabelReader(reading, parallel or f"{marked.sentences}.{key}")
    return MarkReader(
        marked,
        reader,
        keep=needs.keep,
        gives_labels=gives_labels,
        labelled=needs.labelled,
        by_sentence=needs.by_sentence,
        any_length=needs.any_length,
        share=reading.span_share,
    )


def _absent(source: str, role: str, column: str, fields: Collection[str]) -> str:
    return f"{source} has no {role} {column!r}; columns seen: {listing(fields)}"
