"""How are the results of promptfoo, deepeval and TruLens read?

Each is a list of answers with what the tool's own metrics said of them, which are scores. Of
promptfoo's, a rating that a person gave in its viewer is a label.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

from calibrail.data.aliases import aliases_of
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
