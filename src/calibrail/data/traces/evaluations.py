"""Results of promptfoo, DeepEval and TruLens; annotations of Label Studio and Argilla.

Each is a list of answers with what the tool's own metrics said of them, which are scores. Of
promptfoo's, a rating that a person gave in its viewer is a label.

Their fields have names of the user's own, which are found as those of any table. What annotators
chose are labels, one of each annotator; what a model suggested is a score.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from calibrail.data.aliases import aliases_of
from calibrail.data.rows import ParsedItem, RowProblem, SourceRow, TableItem
from calibrail.data.traces._export import (
    ANNOTATION,
    SCORE,
    Export,
    ExportNotes,
    Verdict,
    row_by_row,
    signatures,
    verdict_columns,
)
from calibrail.data.traces._spans import documents_in, parsed, question_in, response_in


def _promptfoo(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    response = response_in(row.get("response"))
    if response is None:
        return
    case, prompt = parsed(row.get("testCase")), parsed(row.get("prompt"))
    given = parsed(row.get("vars"))
    fields = given if isinstance(given, dict) else _mapping(case, "vars")
    questions, contexts = aliases_of("question", fields), aliases_of("contexts", fields)
    question = question_in(fields[questions[0]] if questions else _mapping(prompt).get("raw"))
    documents = documents_in(fields[contexts[0]]) if contexts else None
    # The answers of several prompts and providers to one test are no separate cases; the number of
    # a test says which one it is in one file only.
    asked = json.dumps([question if questions else row.get("testIdx"), documents])
    values = {
        **fields,
        "id": row.get("id"),
        "group": f"test-{sha256(asked.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}",
        "question": question,
        "contexts": documents,
        "response": response,
    }
    yield values | verdict_columns(_graded(row))


def _mapping(value: object, *names: str) -> Mapping[str, object]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _graded(row: Mapping[str, object]) -> Iterator[Verdict]:
    yield f"{SCORE}score", row.get("score")
    for name, score in _mapping(parsed(row.get("namedScores"))).items():
        yield f"{SCORE}{name}", score
    parts = _mapping(parsed(row.get("gradingResult"))).get("componentResults")
    for part in parts if isinstance(parts, list) else ():
        kind = _mapping(part, "assertion").get("type")
        if kind == "human":
            yield f"{ANNOTATION}human", "pass" if part.get("pass") else "fail"
        elif kind:
            yield f"{SCORE}{kind}", part.get("score")


PROMPTFOO: Final = Export(
    "promptfoo",
    "results",
    signatures("gradingResult vars response", "namedScores vars response", "testIdx vars response"),
    row_by_row(_promptfoo),
)


def _deepeval(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    def of(*names: str) -> object:
        return next((row[name] for name in names if row.get(name) is not None), None)

    response = response_in(of("actualOutput", "actual_output"))
    if response is None:
        return
    contexts = of("retrievalContext", "retrieval_context")
    metrics = parsed(of("metricsData", "metrics_data"))
    verdicts = (
        (f"{SCORE}{metric['name']}", metric.get("score"))
        for metric in (metrics if isinstance(metrics, list) else ())
        if isinstance(metric, dict) and metric.get("name")
    )
    yield {
        **_mapping(parsed(of("metadata", "additional_metadata", "additionalMetadata"))),
        "id": of("id"),
        "name": of("name"),
        "question": question_in(row.get("input")),
        # What a case holds as ideal context is no more than a stand-in for what was retrieved.
        "contexts": documents_in(contexts if contexts is not None else row.get("context")),
        "response": response,
        **verdict_columns(verdicts),
    }


DEEPEVAL: Final = Export(
    "deepeval",
    "test cases",
    signatures("input actualOutput metricsData", "input actual_output metrics_data"),
    row_by_row(_deepeval),
)

_CALLS: Final = "_calls"
#: What the arguments of a metric's call are named that hold what was retrieved.
_SOURCES: Final = ("context", "contexts", "source", "context_chunks", "statement_source")


def _trulens(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    record = _mapping(parsed(row.get("record_json")))

    def of(*names: str) -> object:
        return next((v for name in names if (v := row.get(name, record.get(name)))), None)

    response = response_in(of("output", "main_output"))
    if response is None:
        return
    metrics = [name.removesuffix(_CALLS) for name in row if name.endswith(_CALLS)]
    feedback = of("feedback_results")
    verdicts = [(f"{SCORE}{name}", row.get(name)) for name in metrics]
    verdicts += [
        (f"{SCORE}{item['name']}", item.get("result"))
        for item in (feedback if isinstance(feedback, list) else ())
        if isinstance(item, dict) and item.get("name")
    ]
    calls = (parsed(row[f"{name}{_CALLS}"]) for name in metrics)
    yield {
        "id": of("record_id"),
        "group": of("conversation_id"),
        "question": question_in(of("input", "main_input")),
        "contexts": _retrieved(record) or _judged_by(calls),
        "response": response,
        **verdict_columns(verdicts),
    }


def _retrieved(record: Mapping[str, object]) -> list[str] | None:
    """Return what a call whose method is named after retrieval gave back."""
    calls, found = record.get("calls"), []
    for call in calls if isinstance(calls, list) else ():
        stack = call.get("stack") if isinstance(call, dict) else None
        method = _mapping(stack[-1], "method") if isinstance(stack, list) and stack else {}
        name = str(method.get("name")).lower()
        if any(word in name for word in ("retriev", "relevant_documents", "search")):
            found += documents_in(call.get("rets")) or []
    return list(dict.fromkeys(found)) or None


def _judged_by(columns: Iterator[object]) -> list[str] | None:
    """Return what the tool's own metrics were given as contexts."""
    texts: list[str] = []
    for calls in columns:
        for call in calls if isinstance(calls, list) else ():
            arguments = _mapping(call, "args")
            for name in _SOURCES:
                if arguments.get(name):
                    texts += documents_in(arguments[name]) or []
    return list(dict.fromkeys(texts)) or None


TRULENS: Final = Export(
    "trulens",
    "records",
    signatures("record_id input output record_json", "record_id main_input main_output"),
    row_by_row(_trulens),
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
    rows: list[SourceRow] = []
    for item in items:
        if isinstance(item, RowProblem):
            yield item
            continue
        notes.n_parts += 1
        if rows and (item.values.get("id"), item.file) != (rows[0].values.get("id"), rows[0].file):
            yield notes.made(_together(rows))
            rows = []
        rows.append(item)
    if rows:
        yield notes.made(_together(rows))


def _together(rows: list[SourceRow]) -> SourceRow:
    """Return the rows of one task as one: what differs is each annotator's own."""
    first = rows[0]
    values = dict(first.values)
    for name in values:
        held = [row.values.get(name) for row in rows]
        if name not in _ABOUT and any(value != held[0] for value in held):
            values[name] = [value for value in held if value is not None]
    return SourceRow(first.number, values, first.file)


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
