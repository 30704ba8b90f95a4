"""What tools traced in steps: OpenInference and GenAI spans, MLflow, LangSmith, Langfuse.

OpenInference (Phoenix and its instrumentations) writes ``input.value``, ``output.value``,
``llm.input_messages`` and ``retrieval.documents``; the GenAI conventions write
``gen_ai.input.messages``, ``gen_ai.output.messages`` and ``gen_ai.retrieval.documents``. Spans come
as the SDK prints them, as OTLP in JSON, or as a frame whose columns are named after them.

A row of ``mlflow.search_traces`` holds a whole trace, its spans and what people and judges said of
it (``assessments``); so does what ``mlflow.genai.evaluate`` returns. A table of ``mlflow.evaluate``
holds an answer a row, with scores such as ``faithfulness/v1/score``.

A run of LangSmith may hold the runs within it (``child_runs``) or stand beside them in any order.
Feedback that was given in its application (``feedback_source.type`` is ``app``) is people's;
``feedback_stats`` do not say whose they are.

Traces of Langfuse come from its API, its tables (JSON, JSON lines or CSV), a single trace's
download, or the files of its export to a bucket, in camelCase or snake_case. Scores whose source is
``ANNOTATION`` are people's.
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
        values = (ids.get(k) or row.get(k) or row.get(f"context.{k}") for k in names)
        return next((str(value) for value in values if value), None)

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
    kinds: list[Kind] = [kind for word in words if (kind := kind_of("spans", word)) != "other"]
    if kinds:
        return kinds[0]
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
    if not isinstance(parsed(row.get("assessments")), list):
        yield from ((f"{SCORE}{name}", v) for name, v in row.items() if name.endswith(_METRIC))


def _langsmith_parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
    if "run_type" not in row:
        yield _feedback(row)
        return
    trace = text_under(row, "trace_id", "id") or ""
    runs: list[tuple[Mapping[str, object], str | None]] = [(row, None)]
    while runs:
        run, around = runs.pop()
        known = text_under(run, "id") or ""
        metadata = mapping(run.get("extra"), "metadata")
        yield _spans.step(
            kind_of("langsmith", run.get("run_type")),
            run.get("inputs"),
            run.get("outputs"),
            trace=trace,
            id=known,
            parent=text_under(run, "parent_run_id") or around or None,
            start=text_under(run, "dotted_order", "start_time") or "",
            session=text_under(metadata, "thread_id", "session_id", "conversation_id"),
            name=text_under(run, "name") or "",
            verdicts=list(_stats(mapping(run.get("feedback_stats")))),
        )
        runs += [(inner, known) for inner in objects(run.get("child_runs"))]


def _stats(stats: Mapping[str, object]) -> Iterator[Verdict]:
    """Yield the mean of each kind of feedback; of one in words, how often each was said."""
    for name, item in stats.items():
        if not isinstance(item, dict) or not item.get("n", 1):
            continue
        yield f"{SCORE}{name}", item.get("avg")
        if isinstance(values := item.get("values"), dict) and values:
            yield f"{SCORE}{name}.votes", dict(values)


def _feedback(row: Mapping[str, object]) -> Mark:
    source = mapping(row.get("feedback_source"))
    column = f"{ANNOTATION if source.get('type') == 'app' else SCORE}{row.get('key')}"
    value = row.get("value") if row.get("score") is None else row.get("score")
    by = text_under(source, "user_id") or text_under(row, "id") or ""
    return Mark(text_under(row, "trace_id"), text_under(row, "run_id") or "", (column, value), by)


_INPUTS, _OUTPUTS, _FEEDBACK = "inputs.", "outputs.", "feedback."


def _experiment(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    went_in, came_out, feedback = (
        {name.removeprefix(prefix): v for name, v in row.items() if name.startswith(prefix)}
        for prefix in (_INPUTS, _OUTPUTS, _FEEDBACK)
    )
    response = response_in(came_out or row.get("outputs"))
    if response is None:
        return
    yield {
        "id": row.get("id"),
        "group": row.get("example_id"),
        "question": question_in(went_in or row.get("inputs")),
        "contexts": _spans.contexts_in(came_out, went_in),
        "response": response,
        **verdict_columns(_spans.added(row)),
        **verdict_columns((f"{SCORE}{name}", value) for name, value in feedback.items()),
    }


def _langfuse_parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
    row = {**row, **mapping(row.get("trace"))}
    trace = text_under(row, "traceId", "trace_id")
    if trace and row.get("name") and "source" in row and ("value" in row or "stringValue" in row):
        yield _mark(row, trace)
    elif trace:
        yield _observation(row, trace)
    else:
        trace = text_under(row, "id") or ""
        yield _langfuse_step(row, kind="other", trace=trace, id=trace, parent=None)
        yield from (_observation(item, trace) for item in objects(row.get("observations")))
        yield from (_mark(it, trace) for it in objects(row.get("scores")) if it.get("name"))
        # In a table of traces each score has a column, and its cells list what was said.
        for name, value in row.items():
            said = parsed(value)
            if isinstance(said, list) and name not in ("tags", "observations", "scores"):
                plain = (item for item in said if not isinstance(item, dict | list))
                yield from (Mark(trace, None, (f"{SCORE}{name}", item)) for item in plain)


def _observation(row: Mapping[str, object], trace: str) -> Span:
    kind = kind_of("langfuse", row.get("type"))
    # Before there were observations of retrievers they were spans of such a name.
    if kind == "other" and "retriev" in str(row.get("name")).lower():
        kind = "retriever"
    around = text_under(row, "parentObservationId", "parent_observation_id") or trace
    id = text_under(row, "id") or ""
    return _langfuse_step(row, kind=kind, trace=trace, id=id, parent=around)


def _langfuse_step(row: Mapping[str, Any], **known: Any) -> Span:
    return _spans.step(
        known.pop("kind"),
        row.get("input"),
        row.get("output"),
        start=text_under(row, "startTime", "start_time", "timestamp") or "",
        session=text_under(row, "sessionId", "session_id"),
        name=text_under(row, "name") or "",
        **known,
    )


def _mark(row: Mapping[str, object], trace: str) -> Mark:
    prefix = ANNOTATION if str(row.get("source")).upper() == "ANNOTATION" else SCORE
    said = row.get("stringValue", row.get("string_value"))
    kind, value = row.get("dataType", row.get("data_type")), row.get("value")
    if said is not None and (kind in ("CATEGORICAL", "TEXT") or value is None):
        value = said
    span = text_under(row, "observationId", "observation_id")
    by = text_under(row, "authorUserId", "author_user_id", "id") or ""
    return Mark(trace, span, (f"{prefix}{row['name']}", value), by)


CONVERTERS: Final[Mapping[str, Convert]] = {
    "spans": _spans.by_trace(_parts),
    "mlflow": row_by_row(_answers),
    "langfuse": _spans.by_trace(_langfuse_parts),
    "langsmith": _spans.by_trace(_langsmith_parts),
    "langsmith_experiment": row_by_row(_experiment),
}
