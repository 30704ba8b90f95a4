"""How are traces and evaluation tables of MLflow read?

A row of ``mlflow.search_traces`` holds a whole trace, its spans and what people and judges said of
it (``assessments``); so does what ``mlflow.genai.evaluate`` returns. A table of ``mlflow.evaluate``
holds an answer a row, with scores such as ``faithfulness/v1/score``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from calibrail.data.traces.attributes import attributes_of
from calibrail.data.traces.content import documents_in, parsed, question_in, response_in
from calibrail.data.traces.export import (
    ANNOTATION,
    SCORE,
    Export,
    Verdict,
    row_by_row,
    signatures,
    verdict_columns,
)
from calibrail.data.traces.spans import Kind, Span, answer_of

_KINDS: Final[Mapping[str, Kind]] = {
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "LLM": "llm",
    "CHAT_MODEL": "llm",
    "TOOL": "aside",
    "EMBEDDING": "aside",
    "EVALUATOR": "aside",
    "GUARDRAIL": "aside",
}
#: How the names of metrics end in a table of results.
_METRIC: Final = ("/score", "/value", "/rating", "/label")
_CONTEXTS: Final = ("retrieved_context", "retrieved_contexts", "contexts", "context", "documents")


def _answers(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    info, data = parsed(row.get("info")), parsed(row.get("data"))
    if isinstance(info, dict) and isinstance(data, dict):
        row = {**info, **data}
    spans = parsed(row.get("spans"))
    made = answer_of(map(_span, spans)) if isinstance(spans, list) else None
    table = {
        "question": question_in(_first(row, "request", "inputs", "question", "query")),
        "contexts": documents_in(_first(row, *_CONTEXTS)),
        "response": response_in(_first(row, "response", "outputs", "output", "predictions")),
    }
    # The row speaks of the trace as a whole, its spans of the steps.
    values = (made or {}) | {name: value for name, value in table.items() if value is not None}
    if "response" not in values:
        return
    metadata = parsed(row.get("trace_metadata"))
    session = metadata.get("mlflow.trace.session") if isinstance(metadata, dict) else None
    known = {
        "id": row.get("trace_id") or row.get("request_id"),
        "group": session or row.get("group"),
        "contexts": values.get("contexts"),
        "label": row.get("label"),
    }
    values |= {name: value for name, value in known.items() if value is not None}
    yield values | verdict_columns(_verdicts(row))


def _first(row: Mapping[str, object], *names: str) -> object:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _span(span: object) -> Span:
    row = span if isinstance(span, dict) else {}
    attributes = {k: parsed(v) for k, v in attributes_of(row.get("attributes")).items()}
    kind = _KINDS.get(str(attributes.get("mlflow.spanType", "")).upper(), "other")
    came_out = attributes.get("mlflow.spanOutputs")
    parent = row.get("parent_span_id") or row.get("parent_id")
    of_documents = kind in ("retriever", "reranker")
    return Span(
        trace=str(row.get("trace_id") or ""),
        id=str(row.get("span_id") or ""),
        parent=str(parent) if parent else None,
        kind=kind,
        start=str(row.get("start_time_unix_nano") or row.get("start_time_ns") or ""),
        question=question_in(attributes.get("mlflow.spanInputs")),
        response=None if of_documents else response_in(came_out),
        documents=documents_in(came_out) if of_documents else None,
        name=str(row.get("name") or ""),
    )


def _verdicts(row: Mapping[str, object]) -> Iterator[Verdict]:
    assessments = parsed(row.get("assessments"))
    for item in assessments if isinstance(assessments, list) else ():
        # An expectation says what the answer should have been, not what it is.
        feedback = item.get("feedback") if isinstance(item, dict) else None
        if not isinstance(feedback, dict) or item.get("valid") is False:
            continue
        source = item.get("source")
        of = source.get("source_type") if isinstance(source, dict) else None
        prefix = ANNOTATION if of == "HUMAN" else SCORE
        yield f"{prefix}{item.get('assessment_name') or item.get('name')}", feedback.get("value")
    if isinstance(assessments, list):
        return
    for name, value in row.items():
        if name.endswith(_METRIC):
            yield f"{SCORE}{name}", value


MLFLOW: Final = Export(
    "mlflow",
    "rows",
    signatures(
        "trace_id request response spans",
        "trace_id request response assessments",
        "request_id request response spans",
        "inputs outputs retrieved_context",
        "inputs outputs token_count",
        "request response retrieved_context",
        "info data",
    ),
    row_by_row(_answers),
)
