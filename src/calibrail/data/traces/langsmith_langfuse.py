"""LangSmith runs, Langfuse traces.

A run may hold the runs within it (``child_runs``) or stand beside them in any order. Feedback that
was given in its application (``feedback_source.type`` is ``app``) is people's; ``feedback_stats``
do not say whose they are.

They come from its API, its tables (JSON, JSON lines or CSV), a single trace's download, or the
files of its export to a bucket, in camelCase or snake_case. Scores whose source is ``ANNOTATION``
are people's.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from calibrail.data.traces._export import (
    ANNOTATION,
    SCORE,
    Export,
    Verdict,
    row_by_row,
    signatures,
    verdict_columns,
)
from calibrail.data.traces._spans import (
    Kind,
    Mark,
    Span,
    by_trace,
    documents_in,
    parsed,
    question_in,
    response_in,
    system_in,
)

_KINDS: Final[Mapping[str, Kind]] = {
    "retriever": "retriever",
    "llm": "llm",
    "tool": "aside",
    "embedding": "aside",
    "prompt": "aside",
    "parser": "aside",
}


def _parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
    if "run_type" not in row:
        yield _feedback(row)
        return
    trace = str(row.get("trace_id") or row.get("id") or "")
    runs: list[tuple[Mapping[str, object], str | None]] = [(row, None)]
    while runs:
        run, around = runs.pop()
        parent = run.get("parent_run_id") or around
        yield _span(run, trace, str(parent) if parent else None)
        inner = parsed(run.get("child_runs"))
        known = str(run.get("id") or "")
        for item in inner if isinstance(inner, list) else ():
            if isinstance(item, dict):
                runs.append((item, known))


def _span(run: Mapping[str, Any], trace: str, parent: str | None) -> Span:
    kind = _KINDS.get(str(run.get("run_type")), "other")
    went_in, came_out = parsed(run.get("inputs")), parsed(run.get("outputs"))
    return Span(
        trace=trace,
        id=str(run.get("id") or ""),
        parent=parent,
        kind=kind,
        start=str(run.get("dotted_order") or run.get("start_time") or ""),
        question=question_in(went_in),
        response=None if kind == "retriever" else response_in(came_out),
        documents=documents_in(came_out) if kind == "retriever" else None,
        system=system_in(went_in),
        session=_thread(run),
        name=str(run.get("name") or ""),
        verdicts=list(_stats(parsed(run.get("feedback_stats")))),
    )


def _thread(run: Mapping[str, object]) -> str | None:
    extra = parsed(run.get("extra"))
    metadata = extra.get("metadata") if isinstance(extra, dict) else None
    for name in ("thread_id", "session_id", "conversation_id"):
        if isinstance(metadata, dict) and metadata.get(name):
            return str(metadata[name])
    return None


def _stats(stats: object) -> Iterator[Verdict]:
    """Yield the mean of each kind of feedback; of one in words, how often each was said."""
    for name, item in stats.items() if isinstance(stats, dict) else ():
        if not isinstance(item, dict) or not item.get("n", 1):
            continue
        yield f"{SCORE}{name}", item.get("avg")
        if isinstance(values := item.get("values"), dict) and values:
            yield f"{SCORE}{name}.votes", dict(values)


def _feedback(row: Mapping[str, object]) -> Mark:
    source = parsed(row.get("feedback_source"))
    people = isinstance(source, dict) and source.get("type") == "app"
    trace = row.get("trace_id")
    value = row.get("value") if row.get("score") is None else row.get("score")
    column = f"{ANNOTATION if people else SCORE}{row.get('key')}"
    run = str(row.get("run_id") or "")
    who = source.get("user_id") if isinstance(source, dict) else None
    by = str(who or row.get("id") or "")
    return Mark(str(trace) if trace else None, run, (column, value), by)


LANGSMITH: Final = Export(
    "langsmith",
    "runs",
    signatures("run_type inputs", "run_id key feedback_source"),
    by_trace(_parts),
)

_INPUTS, _OUTPUTS, _FEEDBACK = "inputs.", "outputs.", "feedback."


def _experiment(row: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    went_in = {k.removeprefix(_INPUTS): v for k, v in row.items() if k.startswith(_INPUTS)}
    came_out = {k.removeprefix(_OUTPUTS): v for k, v in row.items() if k.startswith(_OUTPUTS)}
    response = response_in(came_out or row.get("outputs"))
    if response is None:
        return
    verdicts = ((f"{SCORE}{k[9:]}", v) for k, v in row.items() if k.startswith(_FEEDBACK))
    yield {
        "id": row.get("id"),
        "group": row.get("example_id"),
        "question": question_in(went_in or row.get("inputs")),
        "contexts": _contexts(came_out) or _contexts(went_in),
        "response": response,
        **verdict_columns(verdicts),
    }


def _contexts(fields: Mapping[str, object]) -> list[str] | None:
    for name in ("contexts", "context", "documents", "retrieved_contexts", "source_documents"):
        if (value := parsed(fields.get(name))) is not None:
            return documents_in(value)
    return None


EXPERIMENT: Final = Export(
    "langsmith_experiment",
    "rows",
    signatures("example_id execution_time"),
    row_by_row(_experiment),
)


_LANGFUSE_KINDS: Final[Mapping[str, Kind]] = {
    "RETRIEVER": "retriever",
    "GENERATION": "llm",
    "TOOL": "aside",
    "EMBEDDING": "aside",
    "EVALUATOR": "aside",
    "GUARDRAIL": "aside",
    "EVENT": "aside",
}


def _langfuse_parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
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
        yield _langfuse_span(row, trace, trace, None, "other")
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
    kind = _LANGFUSE_KINDS.get(str(row.get("type")).upper(), "other")
    # Before there were observations of retrievers they were spans of such a name.
    if kind == "other" and "retriev" in str(row.get("name")).lower():
        kind = "retriever"
    around = _text(row, "parentObservationId", "parent_observation_id") or trace
    return _langfuse_span(row, trace, _text(row, "id") or "", around, kind)


def _langfuse_span(
    row: Mapping[str, Any], trace: str, id: str, parent: str | None, kind: Kind
) -> Span:
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
    by_trace(_langfuse_parts),
)
