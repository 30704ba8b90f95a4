"""How are traces, observations and scores of Langfuse read?

They come from its API, its tables (JSON, JSON lines or CSV), a single trace's download, or the
files of its export to a bucket, in camelCase or snake_case. Scores whose source is ``ANNOTATION``
are people's.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from calibrail.data.traces.content import (
    documents_in,
    parsed,
    question_in,
    response_in,
    system_in,
)
from calibrail.data.traces.export import ANNOTATION, SCORE, Export, Verdict, signatures
from calibrail.data.traces.spans import Kind, Mark, Span, by_trace

_KINDS: Final[Mapping[str, Kind]] = {
    "RETRIEVER": "retriever",
    "GENERATION": "llm",
    "TOOL": "aside",
    "EMBEDDING": "aside",
    "EVALUATOR": "aside",
    "GUARDRAIL": "aside",
    "EVENT": "aside",
}


def _parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
    whole = parsed(row.get("trace"))
    if isinstance(whole, dict):
        row = {**row, **whole}
    trace = _text(row, "traceId", "trace_id")
    name = _text(row, "name")
    if trace and name and "source" in row and ("value" in row or "stringValue" in row):
        span = _text(row, "observationId", "observation_id")
        yield Mark(trace, span, _verdict(row), _author(row))
    elif trace:
        yield _observation(row, trace)
    else:
        trace = _text(row, "id") or ""
        yield _span(row, trace, trace, None, "other")
        observations = parsed(row.get("observations"))
        for item in observations if isinstance(observations, list) else ():
            if isinstance(item, dict):
                yield _observation(item, trace)
        scores = parsed(row.get("scores"))
        for item in scores if isinstance(scores, list) else ():
            if isinstance(item, dict) and item.get("name"):
                span = _text(item, "observationId", "observation_id")
                yield Mark(trace, span, _verdict(item), _author(item))


def _observation(row: Mapping[str, object], trace: str) -> Span:
    kind = _KINDS.get(str(row.get("type")).upper(), "other")
    # Before there were observations of retrievers they were spans of such a name.
    if kind == "other" and "retriev" in str(row.get("name")).lower():
        kind = "retriever"
    around = _text(row, "parentObservationId", "parent_observation_id") or trace
    return _span(row, trace, _text(row, "id") or "", around, kind)


def _span(row: Mapping[str, Any], trace: str, id: str, parent: str | None, kind: Kind) -> Span:
    went_in, came_out = row.get("input"), row.get("output")
    return Span(
        trace=trace,
        id=id,
        parent=parent,
        kind=kind,
        start=_text(row, "startTime", "start_time", "timestamp") or "",
        question=question_in(went_in),
        response=None if kind == "retriever" else response_in(came_out),
        documents=documents_in(came_out) if kind == "retriever" else None,
        system=system_in(went_in),
        session=_text(row, "sessionId", "session_id"),
        name=_text(row, "name") or "",
    )


def _verdict(row: Mapping[str, object]) -> Verdict:
    prefix = ANNOTATION if str(row.get("source")).upper() == "ANNOTATION" else SCORE
    said = row.get("stringValue", row.get("string_value"))
    kind = row.get("dataType", row.get("data_type"))
    value = row.get("value")
    if said is not None and (kind in ("CATEGORICAL", "TEXT") or value is None):
        value = said
    return f"{prefix}{row['name']}", value


def _author(row: Mapping[str, object]) -> str:
    return _text(row, "authorUserId", "author_user_id", "id") or ""


def _text(row: Mapping[str, object], *names: str) -> str | None:
    return next((str(row[name]) for name in names if row.get(name)), None)


LANGFUSE: Final = Export(
    "langfuse",
    "observations",
    signatures(
        "id traceId type input output",
        "id trace_id parent_observation_id type",
        "id timestamp sessionId input output",
        "id timestamp session_id input output",
        "id timestamp userId input output",
        "traceId name source value",
        "trace_id observation_id name source value",
        "trace observations",
        "id observations scores",
    ),
    by_trace(_parts),
)
