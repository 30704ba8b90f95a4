"""How are the tasks of Label Studio and the records of Argilla read?

Their fields have names of the user's own, which are found as those of any table. What annotators
chose are labels, one of each annotator; what a model suggested is a score.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from calibrail.data.rows import ParsedItem, Problem, Row, TableItem
from calibrail.data.traces.content import parsed
from calibrail.data.traces.export import (
    ANNOTATION,
    SCORE,
    Export,
    ExportNotes,
    Verdict,
    row_by_row,
    signatures,
    verdict_columns,
)

#: Where a result of Label Studio holds what was chosen; marked spans and drawings are no verdict.
_CHOSEN: Final = ("choices", "rating", "number", "taxonomy", "selected")


def _task(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    data = parsed(row.get("data"))
    if not isinstance(data, dict):
        return
    given = [item for item in _list(row.get("annotations")) if not item.get("was_cancelled")]
    # A reviewer's word stands for those of all others.
    given = [item for item in given if item.get("ground_truth")] or given
    verdicts = [
        *(verdict for item in given for verdict in _results(item, ANNOTATION)),
        *(verdict for item in _list(row.get("predictions")) for verdict in _results(item, SCORE)),
    ]
    yield {"id": row.get("id"), **data, **verdict_columns(verdicts)}


def _list(value: object) -> list[Mapping[str, Any]]:
    value = parsed(value)
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def _results(annotation: Mapping[str, Any], prefix: str) -> Iterator[Verdict]:
    """Yield what one person or program says: of several regions all that is said, as one list."""
    said: dict[str, list[object]] = {}
    for result in _list(annotation.get("result")):
        value = result.get("value")
        chosen = next(
            (value[key] for key in _CHOSEN if isinstance(value, dict) and key in value), None
        )
        # A choice among several at once stays a list; of a taxonomy its paths do.
        if isinstance(chosen, list) and len(chosen) == 1:
            chosen = chosen[0]
        if chosen is not None:
            said.setdefault(f"{prefix}{result.get('from_name')}", []).append(chosen)
    for name, values in said.items():
        every = [
            item for value in values for item in (value if isinstance(value, list) else [value])
        ]
        yield name, every if len(every) > 1 else every[0]


LABEL_STUDIO: Final = Export(
    "label_studio",
    "tasks",
    signatures("id data annotations", "data annotations predictions"),
    row_by_row(_task),
)

#: Columns of Label Studio's flat exports that are about the annotation itself.
_ABOUT: Final = frozenset(
    {"annotator", "annotation_id", "created_at", "updated_at", "lead_time", "id"}
)


def _flat(items: Iterable[TableItem], notes: ExportNotes) -> Iterator[ParsedItem]:
    """Yield the tasks of a flat export: annotations of one task stand one after the other."""
    rows: list[Row] = []
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        notes.n_parts += 1
        if rows and (item.values.get("id"), item.file) != (rows[0].values.get("id"), rows[0].file):
            yield notes.made(_together(rows))
            rows = []
        rows.append(item)
    if rows:
        yield notes.made(_together(rows))


def _together(rows: list[Row]) -> Row:
    """Return the rows of one task as one: what differs is each annotator's own."""
    first = rows[0]
    values = dict(first.values)
    for name in values:
        held = [row.values.get(name) for row in rows]
        if name not in _ABOUT and any(value != held[0] for value in held):
            values[name] = [value for value in held if value is not None]
    return Row(first.number, values, first.file)


LABEL_STUDIO_FLAT: Final = Export(
    "label_studio_flat", "annotations", signatures("annotation_id annotator lead_time"), _flat
)

_RESPONSES, _SUGGESTION = ".responses", ".suggestion"


def _record(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    fields, metadata = parsed(row.get("fields")), parsed(row.get("metadata"))
    if isinstance(fields, dict):
        about = metadata if isinstance(metadata, dict) else {}
        verdicts = [*_responses(row), *_suggestions(row)]
        yield {**about, "id": row.get("id"), **fields, **verdict_columns(verdicts)}
        return
    values, verdicts = {}, []
    for name, value in row.items():
        question, _, part = name.rpartition(_RESPONSES)
        if question and not part:
            states = parsed(row.get(f"{name}.status"))
            verdicts += _submitted(question, parsed(value), states)
        elif name.endswith(_SUGGESTION):
            verdicts.append((f"{SCORE}{name.removesuffix(_SUGGESTION)}", value))
        elif _RESPONSES not in name and _SUGGESTION not in name:
            values[name] = value
    yield {**values, **verdict_columns(verdicts)}


def _responses(row: Mapping[str, object]) -> Iterator[Verdict]:
    responses = parsed(row.get("responses"))
    for question, items in responses.items() if isinstance(responses, dict) else ():
        given = _list(items)
        states = [item.get("status") for item in given]
        yield from _submitted(str(question), [item.get("value") for item in given], states)


def _submitted(question: str, values: object, states: object) -> list[Verdict]:
    """Return what annotators sent in; drafts and what they discarded is no verdict."""
    known = states if isinstance(states, list) else []
    return [
        (f"{ANNOTATION}{question}", value)
        for i, value in enumerate(values if isinstance(values, list) else [])
        if (known[i] if i < len(known) else None) not in ("draft", "discarded")
    ]


def _suggestions(row: Mapping[str, object]) -> Iterator[Verdict]:
    suggestions = parsed(row.get("suggestions"))
    for question, item in suggestions.items() if isinstance(suggestions, dict) else ():
        if isinstance(item, dict):
            yield f"{SCORE}{question}", item.get("value")


ARGILLA: Final = Export(
    "argilla",
    "records",
    signatures("id fields responses", "id fields suggestions", "id status _server_id"),
    row_by_row(_record),
)
