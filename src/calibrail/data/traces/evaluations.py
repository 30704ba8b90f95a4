"""Results of promptfoo, DeepEval, Inspect and TruLens; annotations of Label Studio and Argilla.

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
from calibrail.data.example import ParsedItem, RowProblem, SourceRow, TableItem
from calibrail.data.traces._spans import (
    ANNOTATION,
    SCORE,
    Convert,
    ExportNotes,
    Verdict,
    documents_in,
    first_of,
    mapping,
    objects,
    parsed,
    question_in,
    response_in,
    row_by_row,
    verdict_columns,
)


def _promptfoo(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    response = response_in(row.get("response"))
    if response is None:
        return
    given = parsed(row.get("vars"))
    fields = given if isinstance(given, dict) else mapping(row.get("testCase"), "vars")
    # What a test says beside its variables, a label among it, is no part of the prompt.
    fields = {**mapping(row.get("testCase"), "metadata"), **fields}
    questions, contexts = aliases_of("question", fields), aliases_of("contexts", fields)
    prompt = fields[questions[0]] if questions else mapping(row.get("prompt")).get("raw")
    question = question_in(prompt)
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


def _graded(row: Mapping[str, object]) -> Iterator[Verdict]:
    parts = objects(mapping(row.get("gradingResult")).get("componentResults"))
    # What a person says of an answer is its whole score, which then is no program's.
    if all(mapping(part, "assertion").get("type") != "human" for part in parts):
        yield f"{SCORE}score", row.get("score")
    for name, score in mapping(row.get("namedScores")).items():
        yield f"{SCORE}{name}", score
    for part in parts:
        kind = mapping(part, "assertion").get("type")
        if kind == "human":
            yield f"{ANNOTATION}human", "pass" if part.get("pass") else "fail"
        elif kind:
            yield f"{SCORE}{kind}", part.get("score")


def _deepeval(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    response = response_in(first_of(row, "actualOutput", "actual_output"))
    if response is None:
        return
    verdicts = _named(first_of(row, "metricsData", "metrics_data"), "score")
    yield {
        **mapping(first_of(row, "metadata", "additional_metadata", "additionalMetadata")),
        "id": row.get("id"),
        "name": row.get("name"),
        "question": question_in(row.get("input")),
        # What a case holds as ideal context is no more than a stand-in for what was retrieved.
        "contexts": documents_in(first_of(row, "retrievalContext", "retrieval_context", "context")),
        "response": response,
        **verdict_columns(verdicts),
    }


def _named(items: object, key: str) -> Iterator[Verdict]:
    """Yield what a list of metrics says under a key, each by its name."""
    for item in objects(items):
        if item.get("name"):
            yield f"{SCORE}{item['name']}", item.get(key)


#: What Inspect writes of a grade.
_GRADES: Final = {"C": "correct", "I": "incorrect", "P": "partially correct", "N": None}


def _inspect(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    response = response_in(mapping(row.get("output")).get("completion"))
    response = response or response_in(row.get("output")) or response_in(row.get("messages"))
    if response is None:
        return
    about, scores = mapping(row.get("metadata")), mapping(row.get("scores"))
    held = aliases_of("contexts", about)
    verdicts = ((f"{SCORE}{name}", mapping(item).get("value")) for name, item in scores.items())
    # Epochs ask the same again.
    yield {
        **about,
        "id": f"{row.get('id')}/{row.get('epoch')}",
        "group": f"sample-{row.get('id')}",
        "question": question_in(row.get("input")),
        "contexts": documents_in(about[held[0]]) if held else None,
        "response": response,
        **verdict_columns((k, _GRADES.get(v, v) if isinstance(v, str) else v) for k, v in verdicts),
    }


_CALLS: Final = "_calls"
#: What the arguments of a metric's call are named that hold what was retrieved.
_SOURCES: Final = ("context", "contexts", "source", "context_chunks", "statement_source")


def _trulens(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    record = mapping(row.get("record_json"))

    def of(*names: str) -> object:
        return next((v for name in names if (v := row.get(name, record.get(name)))), None)

    response = response_in(of("output", "main_output"))
    if response is None:
        return
    metrics = [name.removesuffix(_CALLS) for name in row if name.endswith(_CALLS)]
    verdicts = [(f"{SCORE}{name}", row.get(name)) for name in metrics]
    verdicts += _named(of("feedback_results"), "result")
    calls = (call for name in metrics for call in objects(row[f"{name}{_CALLS}"]))
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
    texts: list[str] = []
    for call in objects(record.get("calls")):
        stack = call.get("stack")
        method = mapping(stack[-1], "method") if isinstance(stack, list) and stack else {}
        name = str(method.get("name")).lower()
        if any(word in name for word in ("retriev", "relevant_documents", "search")):
            texts += documents_in(call.get("rets")) or []
    return list(dict.fromkeys(texts)) or None


def _judged_by(calls: Iterable[Mapping[str, object]]) -> list[str] | None:
    """Return what the tool's own metrics were given as contexts."""
    arguments = (mapping(call, "args") for call in calls)
    given = (held[name] for held in arguments for name in _SOURCES if held.get(name))
    return list(dict.fromkeys(text for x in given for text in documents_in(x) or ())) or None


#: Where a result of Label Studio holds what was chosen; marked spans and drawings are no verdict.
_CHOSEN: Final = ("choices", "rating", "number", "taxonomy", "selected")


def _task(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    data = parsed(row.get("data"))
    if not isinstance(data, dict):
        return
    given = [item for item in objects(row.get("annotations")) if not item.get("was_cancelled")]
    # A reviewer's word stands for those of all others.
    given = [item for item in given if item.get("ground_truth")] or given
    verdicts = [
        *(verdict for item in given for verdict in _results(item, ANNOTATION)),
        *(verdict for item in objects(row.get("predictions")) for verdict in _results(item, SCORE)),
    ]
    yield {"id": row.get("id"), **data, **verdict_columns(verdicts)}


def _results(annotation: Mapping[str, Any], prefix: str) -> Iterator[Verdict]:
    """Yield what one person or program says: of several regions all that is said, as one list."""
    said: dict[str, list[object]] = {}
    for result in objects(annotation.get("result")):
        value = result.get("value")
        held = value if isinstance(value, dict) else {}
        chosen = next((held[key] for key in _CHOSEN if key in held), None)
        # A choice among several at once stays a list; of a taxonomy its paths do.
        if isinstance(chosen, list) and len(chosen) == 1:
            chosen = chosen[0]
        if chosen is not None:
            said.setdefault(f"{prefix}{result.get('from_name')}", []).append(chosen)
    for name, values in said.items():
        every = [one for value in values for one in (value if isinstance(value, list) else [value])]
        yield name, every if len(every) > 1 else every[0]


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
        held = [_chosen_in(row.values.get(name)) for row in rows]
        # Several choices are one person's, and no labels of several.
        several = isinstance(held[0], list) and held[0] is not values[name]
        values[name] = held[:1] if several else held[0]
        if name not in _ABOUT and any(value != held[0] for value in held):
            values[name] = [value for value in held if value is not None]
    return SourceRow(first.number, values, first.file)


def _chosen_in(cell: object) -> object:
    """Return what is listed in a cell that spells several choices at once."""
    spelt = mapping(parsed(cell))
    return spelt["choices"] if spelt.keys() == {"choices"} else cell


_RESPONSES, _SUGGESTION = ".responses", ".suggestion"


def _record(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    fields = parsed(row.get("fields"))
    if isinstance(fields, dict):
        verdicts = [*_responses(row), *_suggestions(row)]
        about = mapping(row.get("metadata"))
        yield {**about, "id": row.get("id"), **fields, **verdict_columns(verdicts)}
        return
    values, verdicts = {}, []
    for name, value in row.items():
        question, _, part = name.rpartition(_RESPONSES)
        if question and not part:
            verdicts += _submitted(question, parsed(value), parsed(row.get(f"{name}.status")))
        elif name.endswith(_SUGGESTION):
            verdicts.append((f"{SCORE}{name.removesuffix(_SUGGESTION)}", value))
        elif _RESPONSES not in name and _SUGGESTION not in name:
            values[name] = value
    yield {**values, **verdict_columns(verdicts)}


def _responses(row: Mapping[str, object]) -> Iterator[Verdict]:
    for question, items in mapping(row.get("responses")).items():
        given = objects(items)
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
    for question, item in mapping(row.get("suggestions")).items():
        if isinstance(item, dict):
            yield f"{SCORE}{question}", item.get("value")


CONVERTERS: Final[Mapping[str, Convert]] = {
    "promptfoo": row_by_row(_promptfoo),
    "deepeval": row_by_row(_deepeval),
    "inspect": row_by_row(_inspect),
    "trulens": row_by_row(_trulens),
    "label_studio": row_by_row(_task),
    "label_studio_flat": _flat,
    "argilla": row_by_row(_record),
}
