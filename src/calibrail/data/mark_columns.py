"""Which columns say what of an answer is unsupported: marked spans, or labelled sentences?"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from calibrail.data.aliases import MARK_FIELDS, SENTENCE_TABLES, aliases_of
from calibrail.data.given_sentences import given_in
from calibrail.data.label_columns import Seen, is_spans
from calibrail.data.marked_spans import MarkColumns, looks_marked
from calibrail.data.opened import Opened
from calibrail.data.paths import value_at
from calibrail.data.texts import parse_cell
from calibrail.settings import ReadOptions

#: Rows that are looked at.
_LOOKED_AT: Final = 20


def mark_columns_of(
    seen: Seen,
    opened: Opened,
    reading: ReadOptions,
    label_columns: Sequence[str],
    *,
    by_sentence: bool,
) -> MarkColumns:
    """Return the columns of marks that were named, or those that are there by name and looks.

    Parameters
    ----------
    seen, opened, reading
        See ``label_columns_of``.
    label_columns : sequence of str
        Where labels are: a list of spans, or of as many labels as there are sentences, is no
        answer's label.
    by_sentence : bool
        Whether sentences are asked for: only then rows of a table that is known to hold sentences
        are taken as such.
    """
    named = {k: v for k, v in (reading.mapping or {}).items() if k in MARK_FIELDS}
    if not opened.table:
        own = {name: name for name in ("spans", "sentences") if name in seen}
        return MarkColumns(**(own | named))
    if "answer_id" in named:
        return MarkColumns(answer_id=named["answer_id"])
    for columns, answer in SENTENCE_TABLES:
        if by_sentence and columns <= seen.names.keys() and not named:
            return MarkColumns(answer_id=answer)
    found: dict[str, str] = {}
    names = list(seen.names)
    spans = [name for name in aliases_of("spans", names) if _looks(seen, name, looks_marked)]
    if len(label_columns) == 1 and any(map(is_spans, seen.values(label_columns[0]))):
        spans = spans or [label_columns[0]]
    if spans:
        found["spans"] = spans[0]
    sentences = [
        name for name in aliases_of("sentences", names) if _looks(seen, name, _holds_sentences)
    ]
    if sentences:
        found["sentences"] = sentences[0]
    found |= named
    if "sentences" in found and "sentence_labels" not in found:
        parallel = aliases_of("sentence_labels", names) or [
            name for name in label_columns[:1] if _is_parallel(seen, name, found["sentences"])
        ]
        found |= {"sentence_labels": parallel[0]} if parallel else {}
    # Of JSON lines a later row can have a column that the first rows lack.
    if by_sentence and not found and not opened.rectangular:
        found["spans"] = "spans"
    return MarkColumns(**found)


def holds_cell(seen: Seen, marked: MarkColumns, column: str) -> bool:
    """Say whether a column is one of the cells of the sentences that rows list."""
    rows = seen.values(marked.sentences)[:_LOOKED_AT] if marked.sentences else []
    return any(column in item.columns for row in rows for item in given_in(row, None) or ())


def _looks(seen: Seen, name: str, like: Callable[[object], bool]) -> bool:
    """Say whether anything in a column looks like marks, if it holds something at all."""
    held = [value for value in seen.values(name)[:_LOOKED_AT] if value not in (None, "")]
    return not held or any(map(like, held))


def _holds_sentences(value: object) -> bool:
    return bool(given_in(value, None))


def _is_parallel(seen: Seen, name: str, sentences: str) -> bool:
    """Say whether half of the rows or more list as many labels as sentences."""
    rows = [row for row in seen.rows[:_LOOKED_AT] if value_at(row, sentences) is not None]
    fitting = 0
    for row in rows:
        labels = value_at(row, name)
        labels = parse_cell(labels) if isinstance(labels, str) else labels
        if not isinstance(labels, list) or any(isinstance(item, Mapping) for item in labels):
            continue
        fitting += given_in(value_at(row, sentences), labels) is not None
    return 2 * fitting >= max(1, len(rows))
