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

from calibrail.data.traces import _spans
from calibrail.data.traces._spans import (
    ANNOTATION,
    SCORE,
    Convert,
    Mark,
    Span,
    Verdict,
    kind_of,
    mapping,
    objects,
    row_by_row,
    text_under,
    verdict_columns,
)


def _parts(row: Mapping[str, object]) -> Iterator[Span | Mark]:
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
    response = _spans.response_in(came_out or row.get("outputs"))
    if response is None:
        return
    yield {
        "id": row.get("id"),
        "group": row.get("example_id"),
        "question": _spans.question_in(went_in or row.get("inputs")),
        "contexts": _spans.contexts_in(came_out, went_in),
        "response": response,
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
        for item in objects(row.get("observations")):
            yield _observation(item, trace)
        for item in objects(row.get("scores")):
            if item.get("name"):
                yield _mark(item, trace)
        # In a table of traces each score has a column, and its cells list what was said.
        for name, value in row.items():
            said = _spans.parsed(value)
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
    "langfuse": _spans.by_trace(_langfuse_parts),
    "langsmith": _spans.by_trace(_parts),
    "langsmith_experiment": row_by_row(_experiment),
}
