"""Small exports, in the shape in which each tool writes them; every text is made up."""

from __future__ import annotations

import json
from typing import Any, Final

ONE, TWO = "The dam was opened in 1936.", "It is 221 metres high."
CONTEXTS, QUESTION = (ONE, TWO), "When did the dam open?"
GOOD, BAD = "It opened in 1936.", "It opened in 1937."


def sdk_spans(trace: str, answer: str, **root: Any) -> list[dict[str, Any]]:
    """Spans of one trace as the SDK of OpenTelemetry prints them, in OpenInference's words."""

    def span(id: str, parent: str | None, start: int, attributes: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": id,
            "context": {"trace_id": trace, "span_id": f"{trace}-{id}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": parent and f"{trace}-{parent}",
            "start_time": f"2026-11-22T22:50:30.{start:06}Z",
            "status": {"status_code": "UNSET"},
            "attributes": attributes,
            "events": [],
        }

    prompt = f"Answer from these: {ONE} {TWO}\n{QUESTION}"
    return [
        span(
            "find",
            "chain",
            2,
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": QUESTION,
                "retrieval.documents.0.document.content": ONE,
                "retrieval.documents.0.document.score": 0.5,
                "retrieval.documents.1.document.content": TWO,
            },
        ),
        span(
            "model",
            "chain",
            3,
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "system",
                "llm.input_messages.0.message.content": "Be brief.",
                "llm.input_messages.1.message.role": "user",
                "llm.input_messages.1.message.content": prompt,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": answer,
            },
        ),
        span(
            "judge",
            "chain",
            4,
            {"openinference.span.kind": "EVALUATOR", "output.value": "not an answer"},
        ),
        span(
            "chain",
            "http",
            1,
            {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "session.id": "s"} | root,
        ),
        span("http", None, 0, {"http.method": "POST"}),
    ]


def _otlp(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_otlp(item) for item in value]}}
    kind = "intValue" if isinstance(value, int) else "doubleValue"
    return {"stringValue": value} if isinstance(value, str) else {kind: value}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _otlp(value)} for key, value in values.items()]


def gen_ai_otlp(trace: str, answer: str) -> dict[str, Any]:
    """One trace as a collector writes OTLP in JSON, in the words of the GenAI conventions."""
    user = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    said = {"role": "assistant", "parts": [{"type": "text", "content": answer}]}
    documents = [{"id": "1", "content": ONE}, {"id": "2", "content": TWO}]
    evaluation = {
        "gen_ai.evaluation.name": "Groundedness",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "low",
    }
    ids = {"traceId": trace}
    spans = [
        ids
        | {
            "spanId": "a",
            "parentSpanId": "",
            "name": "invoke_agent",
            "startTimeUnixNano": "1",
            "attributes": _attributes({"gen_ai.operation.name": "invoke_agent"}),
        },
        ids
        | {
            "spanId": "b",
            "parentSpanId": "a",
            "name": "retrieval",
            "startTimeUnixNano": "2",
            "attributes": _attributes(
                {
                    "gen_ai.operation.name": "retrieval",
                    "gen_ai.retrieval.query.text": QUESTION,
                    "gen_ai.retrieval.documents": json.dumps(documents),
                }
            ),
        },
        ids
        | {
            "spanId": "c",
            "parentSpanId": "a",
            "name": "chat m",
            "startTimeUnixNano": "3",
            "attributes": _attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.conversation.id": "s",
                    "gen_ai.input.messages": json.dumps([user]),
                    "gen_ai.output.messages": json.dumps([said | {"finish_reason": "stop"}]),
                    "gen_ai.system_instructions": json.dumps(
                        [{"type": "text", "content": "Be brief."}]
                    ),
                }
            ),
            "events": [{"name": "gen_ai.evaluation.result", "attributes": _attributes(evaluation)}],
        },
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": spans}]}]}


def phoenix_frame(trace: str, answer: str) -> list[dict[str, Any]]:
    """Rows of Phoenix's frame of spans."""
    about = {"context.trace_id": trace, "attributes.output.value": None, "parent_id": None}
    return [
        about
        | {
            "context.span_id": f"{trace}1",
            "span_kind": "CHAIN",
            "attributes.input.value": QUESTION,
            "attributes.output.value": answer,
            "attributes.retrieval.documents": None,
            "eval.Hallucination.label": "hallucinated",
            "eval.Hallucination.score": 1.0,
            "eval.Hallucination.explanation": "so it seems",
        },
        about
        | {
            "context.span_id": f"{trace}2",
            "parent_id": f"{trace}1",
            "span_kind": "RETRIEVER",
            "attributes.input.value": QUESTION,
            "attributes.retrieval.documents": [
                {"document.content": ONE, "document.score": 0.9},
                {"document.content": TWO},
            ],
        },
    ]


def langfuse_trace(trace: str, answer: str, verdict: str) -> dict[str, Any]:
    """A trace with all its details, as Langfuse's API returns it."""
    return {
        "id": trace,
        "timestamp": "2026-11-22T22:50:30Z",
        "name": "rag",
        "input": {"question": QUESTION},
        "output": None,
        "sessionId": "s",
        "userId": None,
        "metadata": {},
        "observations": [
            {
                "id": f"{trace}-m",
                "traceId": trace,
                "type": "GENERATION",
                "name": "model",
                "startTime": "3",
                "parentObservationId": f"{trace}-r",
                "input": [{"role": "user", "content": f"{ONE} {TWO} {QUESTION}"}],
                "output": {"role": "assistant", "content": answer},
            },
            {
                "id": f"{trace}-f",
                "traceId": trace,
                "type": "RETRIEVER",
                "name": "find",
                "startTime": "2",
                "parentObservationId": None,
                "input": QUESTION,
                "output": [{"page_content": ONE, "metadata": {}}, {"page_content": TWO}],
            },
        ],
        "scores": [
            {
                "id": "1",
                "traceId": trace,
                "name": "verdict",
                "source": "ANNOTATION",
                "dataType": "CATEGORICAL",
                "value": 0,
                "stringValue": verdict,
            },
            {
                "id": "2",
                "traceId": trace,
                "name": "hallucination",
                "source": "EVAL",
                "dataType": "NUMERIC",
                "value": 0.7,
            },
        ],
    }


def langfuse_files(trace: str, answer: str, verdict: str) -> dict[str, list[dict[str, Any]]]:
    """The same as the three files of an export to a bucket."""
    whole = langfuse_trace(trace, answer, verdict)

    def snake(row: dict[str, Any]) -> dict[str, Any]:
        named = {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in k): v for k, v in row.items()
        }
        texts = ("input", "output")
        return {k: json.dumps(v) if k in texts and v is not None else v for k, v in named.items()}

    scores = [snake(row) | {"observation_id": None} for row in whole.pop("scores")]
    observations = [snake(row) for row in whole.pop("observations")]
    return {"observations": observations, "scores": scores, "traces": [snake(whole)]}


def langsmith_runs(trace: str, answer: str) -> list[dict[str, Any]]:
    """Runs in the shape of ``Client.list_runs``."""

    def run(id: str, kind: str, parent: str | None, inputs: Any, outputs: Any) -> dict[str, Any]:
        order = {"root": "1", "find": "2", "model": "3"}[id]
        return {
            "id": trace if id == "root" else f"{trace}-{id}",
            "name": id,
            "run_type": kind,
            "trace_id": trace,
            "parent_run_id": parent,
            "dotted_order": order,
            "inputs": inputs,
            "outputs": outputs,
            "extra": {"metadata": {"thread_id": "s"}},
            "feedback_stats": None,
        }

    lc = {"lc": 1, "type": "constructor"}
    human = lc | {
        "id": ["langchain", "schema", "HumanMessage"],
        "kwargs": {"content": f"{ONE} {QUESTION}", "type": "human"},
    }
    ai = lc | {
        "id": ["langchain", "schema", "AIMessage"],
        "kwargs": {"content": answer, "type": "ai"},
    }
    documents = [{"page_content": text, "type": "Document", "metadata": {}} for text in CONTEXTS]
    root = run("root", "chain", None, {"question": QUESTION}, {"output": answer})
    root["feedback_stats"] = {
        "correctness": {"n": 2, "avg": 0.5, "values": {}},
        "kind": {"n": 3, "avg": None, "values": {"good": 2, "bad": 1}},
    }
    return [
        run("model", "llm", trace, {"messages": [[human]]}, {"generations": [[{"message": ai}]]}),
        run("find", "retriever", trace, {"query": QUESTION}, {"documents": documents}),
        root,
    ]


def promptfoo_file(answers: list[str]) -> dict[str, Any]:
    """The file of ``promptfoo eval --output results.json``."""
    results = [
        {
            "cost": 0,
            "gradingResult": {
                "pass": i == 0,
                "score": 0.5,
                "namedScores": {"faithful": 0.25},
                "componentResults": [
                    {"pass": True, "score": 0.75, "assertion": {"type": "llm-rubric"}},
                    {"pass": i == 0, "score": i, "assertion": {"type": "human"}},
                ],
            },
            "id": f"r{i}",
            "latencyMs": 5,
            "namedScores": {"faithful": 0.25},
            "prompt": {"raw": f"{ONE} {QUESTION}", "label": "p"},
            "promptIdx": i,
            "provider": {"id": "echo", "label": ""},
            "response": {"output": answer, "cached": False},
            "score": 0.5,
            "success": i == 0,
            "testCase": {"vars": {"question": QUESTION, "context": list(CONTEXTS)}},
            "testIdx": 0,
            "vars": {"question": QUESTION, "context": list(CONTEXTS)},
        }
        for i, answer in enumerate(answers)
    ]
    return {
        "evalId": "eval-1",
        "results": {
            "version": 3,
            "timestamp": "2026-11-22T22:50:30Z",
            "prompts": [{"raw": "p", "label": "p", "metrics": {"score": 1}}],
            "results": results,
            "stats": {"successes": 1},
        },
        "config": {"prompts": ["p"], "tests": [{"vars": {"question": "no row"}}]},
        "shareableUrl": None,
    }


def deepeval_file(answers: list[str]) -> dict[str, Any]:
    """The file that deepeval keeps of a test run."""
    cases = [
        {
            "name": f"case {i}",
            "input": QUESTION,
            "actualOutput": answer,
            "expectedOutput": GOOD,
            "retrievalContext": list(CONTEXTS),
            "success": True,
            "metricsData": [
                {"name": "Faithfulness", "threshold": 0.5, "success": True, "score": 0.5}
            ],
            "order": i,
            "metadata": {"verdict": ["faithful", "hallucinated"][i]},
        }
        for i, answer in enumerate(answers)
    ]
    return {
        "testFile": "t.py",
        "testCases": cases,
        "conversationalTestCases": [],
        "metricsScores": [{"metric": "Faithfulness", "scores": [0.5], "passes": 2}],
        "testPassed": 2,
    }


def trulens_rows(answers: list[str]) -> list[dict[str, Any]]:
    """Rows of ``get_records_and_feedback``."""
    call = {
        "stack": [{"path": "app", "method": {"name": "retrieve"}}],
        "args": {"query": QUESTION},
        "rets": list(CONTEXTS),
    }
    return [
        {
            "app_name": "rag",
            "app_id": "a",
            "record_id": f"r{i}",
            "input": json.dumps(QUESTION),
            "output": json.dumps(answer),
            "tags": "-",
            "record_json": json.dumps({"record_id": f"r{i}", "calls": [call]}),
            "Groundedness": 0.5,
            "Groundedness_calls": [{"args": {"source": [ONE]}, "ret": 0.5}],
            "latency": 1.0,
        }
        for i, answer in enumerate(answers)
    ]


def mlflow_row(trace: str, answer: str, *people: bool) -> dict[str, Any]:
    """A row of ``mlflow.search_traces``."""

    def span(id: str, parent: str | None, start: int, kind: str, **values: Any) -> dict[str, Any]:
        attributes = {"mlflow.spanType": kind} | {f"mlflow.span{k}": v for k, v in values.items()}
        return {
            "trace_id": "i5ZBYPtSuE7k8XcT7jdySQ==",
            "span_id": id,
            "parent_span_id": parent,
            "name": id,
            "start_time_unix_nano": 1795388330730097111 + start,
            "attributes": {key: json.dumps(value) for key, value in attributes.items()},
        }

    def assessment(name: str, value: Any, source: str, kind: str = "feedback") -> dict[str, Any]:
        by = {"source_type": source, "source_id": "x"}
        return {"assessment_name": name, "source": by, kind: {"value": value}, "valid": True}

    documents = [{"page_content": text, "metadata": {}, "id": None} for text in CONTEXTS]
    return {
        "trace_id": trace,
        "state": "OK",
        "request": {"question": QUESTION},
        "response": answer,
        "trace_metadata": {"mlflow.trace.session": "s"},
        "spans": [
            span("a", None, 0, "UNKNOWN", Inputs={"question": QUESTION}, Outputs=answer),
            span("b", "a", 1, "RETRIEVER", Inputs={"q": QUESTION}, Outputs=documents),
            span("c", "a", 2, "CHAT_MODEL", Inputs={}, Outputs={"choices": []}),
        ],
        "assessments": [
            *(assessment("faithful", value, "HUMAN") for value in people),
            assessment("groundedness", "yes", "LLM_JUDGE"),
            assessment("expected_response", GOOD, "HUMAN", "expectation"),
        ],
    }


def label_studio_task(id: int, answer: str, *chosen: str) -> dict[str, Any]:
    """A task of Label Studio's JSON, with a choice of each annotator."""

    def annotation(choice: str, **more: bool) -> dict[str, Any]:
        result = {
            "value": {"choices": [choice]},
            "id": "x",
            "from_name": "verdict",
            "to_name": "answer",
            "type": "choices",
        }
        about = {"was_cancelled": False, "ground_truth": False, "completed_by": {"id": 1}}
        return {"id": 1, "result": [result]} | about | more

    return {
        "id": id,
        "data": {"query": QUESTION, "passages": list(CONTEXTS), "answer": answer},
        "annotations": [
            *map(annotation, chosen),
            annotation("Hallucinated", was_cancelled=True),
        ],
        "predictions": [annotation("Hallucinated")],
        "project": 1,
    }


def argilla_record(id: str, answer: str, *values: str) -> dict[str, Any]:
    """A record of Argilla as ``Record.to_dict`` gives it."""
    given = [{"value": value, "user_id": f"u{i}"} for i, value in enumerate(values)]
    return {
        "id": id,
        "fields": {"question": QUESTION, "context": "\n".join(CONTEXTS), "answer": answer},
        "metadata": {"part": "a"},
        "suggestions": {"verdict": {"value": "hallucinated", "score": 0.9, "agent": "m"}},
        "responses": {
            "verdict": [*given, {"value": "faithful", "user_id": "u9", "status": "draft"}]
        },
        "vectors": {},
        "status": "completed",
        "_server_id": None,
    }


def argilla_flat(id: str, answer: str, *values: str) -> dict[str, Any]:
    """The same as a row of the Hugging Face data set that Argilla exports."""
    return {
        "id": id,
        "status": "completed",
        "_server_id": id,
        "question": QUESTION,
        "context": "\n".join(CONTEXTS),
        "answer": answer,
        "verdict.responses": list(values),
        "verdict.responses.users": [f"u{i}" for i in range(len(values))],
        "verdict.responses.status": ["submitted"] * len(values),
        "verdict.suggestion": "hallucinated",
        "verdict.suggestion.score": 0.9,
        "verdict.suggestion.agent": "m",
    }


#: A row of each shape twice, of a faithful and of a hallucinated answer.
ROWS: Final[dict[str, list[dict[str, Any]]]] = {
    "spans_sdk": sdk_spans("t1", GOOD) + sdk_spans("t2", BAD),
    "spans_otlp": [gen_ai_otlp("t1", GOOD), gen_ai_otlp("t2", BAD)],
    "spans_phoenix": phoenix_frame("t1", GOOD) + phoenix_frame("t2", BAD),
    "langfuse": [langfuse_trace("t1", GOOD, "faithful"), langfuse_trace("t2", BAD, "FAIL")],
    "langsmith": langsmith_runs("t1", GOOD) + langsmith_runs("t2", BAD),
    "promptfoo": [promptfoo_file([GOOD, BAD])],
    "deepeval": [deepeval_file([GOOD, BAD])],
    "trulens": trulens_rows([GOOD, BAD]),
    "mlflow": [mlflow_row("t1", GOOD, True), mlflow_row("t2", BAD, False, False, True)],
    "label_studio": [
        label_studio_task(1, GOOD, "Faithful"),
        label_studio_task(2, BAD, "Hallucinated", "Hallucinated", "Faithful"),
    ],
    "argilla": [
        argilla_record("t1", GOOD, "faithful"),
        argilla_record("t2", BAD, "hallucinated", "faithful", "hallucinated"),
    ],
    "argilla_flat": [
        argilla_flat("t1", GOOD, "faithful"),
        argilla_flat("t2", BAD, "hallucinated", "faithful", "hallucinated"),
    ],
}
