"""OpenInference / GenAI spans, MLflow.

OpenInference (Phoenix and its instrumentations) writes ``input.value``, ``output.value``,
``llm.input_messages`` and ``retrieval.documents``; the GenAI conventions write
``gen_ai.input.messages``, ``gen_ai.output.messages`` and ``gen_ai.retrieval.documents``. Spans come
as the SDK prints them, as OTLP in JSON, or as a frame whose columns are named after them.

A row of ``mlflow.search_traces`` holds a whole trace, its spans and what people and judges said of
it (``assessments``); so does what ``mlflow.genai.evaluate`` returns. A table of ``mlflow.evaluate``
holds an answer a row, with scores such as ``faithfulness/v1/score``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from calibrail.data.traces import _spans
from calibrail.data.traces._spans import (
    ANNOTATION,
    SCORE,
    TOOLS,
    Convert,
    Kind,
    Mark,
    Span,
    Verdict,
    attributes_of,
    documents_in,
    down,
    first_of,
    kind_of,
    mapping,
    objects,
    parsed,
    question_in,
    response_in,
    row_by_row,
    text_under,
    verdict_columns,
)

_COLUMN: Final = "attributes."
#: Columns of what programs said, as Phoenix adds them to a frame of spans.
_EVAL: Final = "eval."
_EVALUATION: Final = "gen_ai.evaluation.result"


def _parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
    if "annotator_kind" in row:
        yield from _marks(row)
        return
    wrapped = {*TOOLS["spans"]["lists"]} & row.keys()
    if not wrapped:
        yield _span(row)
        return
    row = {name: parsed(row[name]) for name in wrapped}
    for scopes in ("scopeSpans", "instrumentationLibrarySpans"):
        for path in (("resourceSpans", scopes, "spans"), (scopes, "spans")):
            yield from map(_span, _spans.walked(row, *path))


def _span(row: Mapping[str, object]) -> Span:
    flat = attributes_of(parsed(row.get("attributes")))
    for name, value in row.items():
        if name.startswith(_COLUMN) and value is not None:
            flat[name.removeprefix(_COLUMN)] = parsed(value)
    tree, context = _spans.nested(flat), parsed(row.get("context"))
    ids = context if isinstance(context, dict) else row

    def named(*names: str) -> str | None:
        for name in names:
            if value := ids.get(name) or row.get(name) or row.get(f"context.{name}"):
                return str(value)
        return None

    span = named("span_id", "spanId") or ""
    kind = _kind(row, tree)
    messages = down(tree, "llm", "input_messages") or _gen_ai(row, tree, "input")
    written = down(tree, "llm", "output_messages") or _gen_ai(row, tree, "output")
    went_in, came_out = _value(tree, "input"), _value(tree, "output")
    query = down(tree, "gen_ai", "retrieval", "query", "text")
    instructed = response_in(down(tree, "gen_ai", "system_instructions"))
    session = down(tree, "session", "id") or down(tree, "gen_ai", "conversation", "id")
    return Span(
        trace=named("trace_id", "traceId") or span,
        id=span,
        parent=text_under(row, "parent_id", "parentSpanId", "parent_span_id"),
        kind=kind,
        start=text_under(row, "start_time", "startTimeUnixNano") or "",
        question=question_in(messages) or question_in(went_in) or question_in(query),
        response=None
        if kind in ("retriever", "reranker")
        else response_in(written) or response_in(came_out),
        documents=_documents(tree, kind, came_out),
        system=instructed or _spans.system_in(messages) or _spans.system_in(went_in),
        session=str(session) if session else None,
        name=text_under(row, "name") or "",
        verdicts=[*_columns(row), *_events(row)],
    )


def _kind(row: Mapping[str, object], tree: Mapping[str, Any]) -> Kind:
    words = (
        down(tree, "openinference", "span", "kind"),
        row.get("span_kind"),
        down(tree, "gen_ai", "operation", "name"),
        down(tree, "traceloop", "span", "kind"),
        row.get("kind"),
    )
    for word in words:
        kind: Kind = kind_of("spans", word)
        if kind != "other":
            return kind
    if down(tree, "retrieval", "documents") or down(tree, "gen_ai", "retrieval", "documents"):
        # A text that came out is an answer with its sources, in one row.
        came_out = parsed(_value(tree, "output"))
        return "other" if isinstance(came_out, str) and came_out.strip() else "retriever"
    return "llm" if down(tree, "gen_ai", "request", "model") else "other"


def _value(tree: Mapping[str, Any], side: str) -> object:
    """Return what went in or came out as a whole."""
    value = down(tree, side, "value")
    return down(tree, "traceloop", "entity", side) if value is None else value


def _gen_ai(row: Mapping[str, object], tree: Mapping[str, Any], side: str) -> object:
    """Return the messages of the GenAI conventions: an attribute, one of before, or events."""
    messages = down(tree, "gen_ai", side, "messages")
    if messages is None:
        messages = down(tree, "gen_ai", {"input": "prompt", "output": "completion"}[side])
    if messages is not None:
        return parsed(messages)
    for event, attributes in _events_of(row):
        if event == "gen_ai.client.inference.operation.details":
            return parsed(attributes.get(f"gen_ai.{side}.messages"))
    return None


def _documents(tree: Mapping[str, Any], kind: Kind, came_out: object) -> list[str] | None:
    if kind == "reranker":
        return documents_in(down(tree, "reranker", "output_documents")) or documents_in(came_out)
    for path in (("retrieval", "documents"), ("gen_ai", "retrieval", "documents")):
        if (documents := down(tree, *path)) is not None:
            return documents_in(documents)
    return documents_in(came_out) if kind == "retriever" and came_out is not None else None


def _columns(row: Mapping[str, object]) -> Iterator[Verdict]:
    for name, value in row.items():
        if not name.startswith(_EVAL):
            continue
        own, _, part = name.removeprefix(_EVAL).rpartition(".")
        if own and part in ("score", "label"):
            yield f"{SCORE}{own}" + (".label" if part == "label" else ""), value
    # What is called an annotation there is a person's, in words where there are some.
    said = {name.removeprefix(ANNOTATION) for name in row if name.startswith(ANNOTATION)}
    for own in sorted(name.rpartition(".")[0] for name in said if name.endswith(".label")):
        label = row[f"{ANNOTATION}{own}.label"]
        value = row.get(f"{ANNOTATION}{own}.score") if label in (None, "") else label
        yield f"{ANNOTATION}{own}", None if value == "" else value


def _events(row: Mapping[str, object]) -> Iterator[Verdict]:
    for event, attributes in _events_of(row):
        if event == _EVALUATION and (name := attributes.get("gen_ai.evaluation.name")):
            yield f"{SCORE}{name}", attributes.get("gen_ai.evaluation.score.value")
            yield f"{SCORE}{name}.label", attributes.get("gen_ai.evaluation.score.label")


def _events_of(row: Mapping[str, object]) -> Iterator[tuple[object, dict[str, object]]]:
    for event in objects(row.get("events")):
        yield event.get("name"), attributes_of(event.get("attributes"))


def _marks(row: Mapping[str, object]) -> Iterator[Mark]:
    """Yield the verdict of a row of annotations, by whoever gave it."""
    result = parsed(row.get("result"))
    said = result if isinstance(result, dict) else row

    def part(name: str) -> object:
        value = row.get(f"result.{name}")
        return said.get(name) if value is None else value

    prefix = ANNOTATION if str(row["annotator_kind"]).upper() == "HUMAN" else SCORE
    name = row.get("name") or row.get("annotation_name") or "annotation"
    trace, span = text_under(row, "trace_id"), text_under(row, "span_id")
    label, score = part("label"), part("score")
    if prefix == SCORE and label is not None and score is not None:
        yield Mark(trace, span, (f"{prefix}{name}.label", label))
        label = None
    value = score if label is None else label
    if value is not None:
        by = text_under(row, "user_id", "identifier", "id") or ""
        yield Mark(trace, span, (f"{prefix}{name}", value), by)


#: How the names of metrics end in a table of results.
_METRIC: Final = ("/score", "/value", "/rating", "/label")
_CONTEXTS: Final = ("retrieved_context", "retrieved_contexts", "contexts", "context", "documents")
_ASKED: Final = ("request", "inputs", "question", "query")
_ANSWERED: Final = ("response", "outputs", "output", "predictions")


def _answers(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    info, data = parsed(row.get("info")), parsed(row.get("data"))
    if isinstance(info, dict) and isinstance(data, dict):
        row = {**info, **data}
    spans = parsed(row.get("spans"))
    made = _spans.answer_of(map(_mlflow_span, spans)) if isinstance(spans, list) else None
    table = {
        "question": question_in(first_of(row, *_ASKED)),
        "contexts": documents_in(first_of(row, *_CONTEXTS)),
        "response": response_in(first_of(row, *_ANSWERED)),
    }
    # The row speaks of the trace as a whole, its spans of the steps.
    values = (made or {}) | {name: value for name, value in table.items() if value is not None}
    if "response" not in values:
        return
    session = mapping(row.get("trace_metadata")).get("mlflow.trace.session")
    known = {
        "id": row.get("trace_id") or row.get("request_id"),
        "group": session or row.get("group"),
        "contexts": values.get("contexts"),
        "label": row.get("label"),
    }
    values |= {name: value for name, value in known.items() if value is not None}
    if not {"spans", "assessments"} & row.keys():
        # A table of results has the columns of the data that was evaluated.
        read = {*_ASKED, *_ANSWERED, *_CONTEXTS}
        own = {name: v for name, v in row.items() if name not in read and "/" not in name}
        values = own | values
    yield values | verdict_columns(_verdicts(row))


def _mlflow_span(span: object) -> Span:
    row = mapping(span)
    attributes = {k: parsed(v) for k, v in attributes_of(row.get("attributes")).items()}
    return _spans.step(
        kind_of("mlflow", attributes.get("mlflow.spanType")),
        attributes.get("mlflow.spanInputs"),
        attributes.get("mlflow.spanOutputs"),
        trace=text_under(row, "trace_id") or "",
        id=text_under(row, "span_id") or "",
        parent=text_under(row, "parent_span_id", "parent_id"),
        start=text_under(row, "start_time_unix_nano", "start_time_ns") or "",
        system=None,
        name=text_under(row, "name") or "",
    )


def _verdicts(row: Mapping[str, object]) -> Iterator[Verdict]:
    for item in objects(row.get("assessments")):
        # An expectation says what the answer should have been, not what it is.
        feedback = item.get("feedback")
        if not isinstance(feedback, dict) or item.get("valid") is False:
            continue
        people = mapping(item.get("source")).get("source_type") == "HUMAN"
        name = item.get("assessment_name") or item.get("name")
        yield f"{ANNOTATION if people else SCORE}{name}", feedback.get("value")
    if isinstance(parsed(row.get("assessments")), list):
        return
    for name, value in row.items():
        if name.endswith(_METRIC):
            yield f"{SCORE}{name}", value


CONVERTERS: Final[Mapping[str, Convert]] = {
    "spans": _spans.by_trace(_parts),
    "mlflow": row_by_row(_answers),
}
