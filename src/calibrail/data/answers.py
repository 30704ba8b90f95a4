"""Which answers does a row hold, one or several?"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from calibrail.data.columns import Columns
from calibrail.data.paths import value_at
from calibrail.data.rows import Problem, Row
from calibrail.data.texts import parse_cell
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of


def answers_of(row: Row, columns: Columns, cells: bool) -> Iterator[Row | Problem]:
    """Yield a row for every answer: itself, unless it lists answers with a label each.

    A list of answers without as many labels is one answer, sentence by sentence. The answers of a
    row share its question and contexts; where it names no group, the row is their group. Contexts
    beside the answers in one list of objects, and further columns that list a value an answer,
    are each answer's own.

    Parameters
    ----------
    row : Row
        As it was read.
    columns : Columns
        Where each field is.
    cells : bool
        Whether a list may be spelt in a text, as in CSV.
    """
    values, by_field = row.values, columns.by_field
    labels = columns.label_of(values) if len(columns.label_columns) == 1 else None
    if cells and isinstance(labels, str) and isinstance(spelt := parse_cell(labels), list):
        labels = spelt
        row = replace(row, values={**values, columns.label_columns[0]: spelt})
    of_sentences = columns.marked.sentence_labels in columns.label_columns
    if not isinstance(labels, list) or columns.labels.spans or of_sentences:
        yield row
        return
    responses = value_at(values, by_field["response"])
    if cells and isinstance(responses, str):
        responses = parse_cell(responses)
    if not isinstance(responses, list):
        if columns.beside and len(labels) > 1:
            remedy = _UNCLEAR.format(
                items=columns.beside[0],
                named=option_of(ReadOptions, "mapping", {"response": columns.beside[0]}),
            )
            seen = f"{len(labels)} labels beside as many {', '.join(columns.beside)}"
            yield Problem(row.number, "label", _LISTED, seen, "", remedy, row.file)
            return
        # The labels are several annotators'.
        yield row
        return
    n = len(responses)
    if n != len(labels) or not n:
        seen = f"{len(labels)} labels for {n} answers"
        reason = "not one label for each answer"
        yield Problem(row.number, "label", reason, seen, "", _REMEDY, row.file)
        return
    base = value_at(values, by_field["id"])
    ids = base if isinstance(base, list) else [_numbered(base, row.name, i, n) for i in range(n)]
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
_UNCLEAR = (
    "where {items} holds the answers, {named} reads each with its label; labels of annotators need "
    "a file without {items}"
)
_REMEDY = "give every row a list of answers and a list of as many labels"


def _numbered(base: object, row: str, position: int, n: int) -> object:
    name = row if base is None else base
    return f"{name}/{position + 1}" if n > 1 else base


def _beside(
    values: Mapping[str, object], by_field: Mapping[str, str], n: int
) -> list[object] | None:
    """Return each answer's own contexts where both stand in one list of objects."""
    answer, _, _ = by_field["response"].rpartition(".")
    if not answer or by_field["contexts"].rpartition(".")[0] != answer:
        return None
    contexts = value_at(values, by_field["contexts"])
    return contexts if isinstance(contexts, list) and len(contexts) == n else None
