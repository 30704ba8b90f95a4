"""Small exports, in the shape in which each tool writes them; every text is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ONE, TWO = "The dam was opened in 1936.", "It is 221 metres high."
CONTEXTS, QUESTION = (ONE, TWO), "When did the dam open?"
GOOD, BAD = "It opened in 1936.", "It opened in 1937."


_SHAPES: Final = json.loads((Path(__file__).parent / "shapes.json").read_text("utf-8"))


def _filled(shape: str, **texts: str) -> Any:
    """Return a shape of ``shapes.json`` with these texts in their places."""
    text = json.dumps(_SHAPES[shape])
    for name, value in texts.items():
        text = text.replace(f"${name.upper()}", json.dumps(value)[1:-1])
    return json.loads(text)


def sdk_spans(trace: str, answer: str, **root: Any) -> list[dict[str, Any]]:
    """Spans of one trace as the SDK of OpenTelemetry prints them, in OpenInference's words."""
    spans: list[dict[str, Any]] = _filled("sdk_spans", trace=trace, answer=answer)
    for span in spans:
        span["attributes"] |= root if span["name"] == "chain" else {}
    return spans


def gen_ai_otlp(trace: str, answer: str) -> dict[str, Any]:
    """One trace as a collector writes OTLP in JSON, in the words of the GenAI conventions."""
    made: dict[str, Any] = _filled("gen_ai_otlp", trace=trace, answer=answer)
    return made


def phoenix_frame(trace: str, answer: str) -> list[dict[str, Any]]:
    """Rows of a frame of spans as Phoenix gives it, with an evaluation of its own."""
    rows: list[dict[str, Any]] = _filled("phoenix_frame", trace=trace, answer=answer)
    return rows


def langfuse_trace(trace: str, answer: str, verdict: str) -> dict[str, Any]:
    """One trace as Langfuse's page gives it for download."""
    made: dict[str, Any] = _filled("langfuse_trace", trace=trace, answer=answer, verdict=verdict)
    return made


def langfuse_files(trace: str, answer: str, verdict: str) -> dict[str, list[dict[str, Any]]]:
    """The same trace as Langfuse writes it to files, one of each kind of row."""
    files: dict[str, list[dict[str, Any]]] = _filled(
        "langfuse_files", trace=trace, answer=answer, verdict=verdict
    )
    return files


def langsmith_runs(trace: str, answer: str) -> list[dict[str, Any]]:
    """Runs of one trace as LangSmith lists them."""
    runs: list[dict[str, Any]] = _filled("langsmith_runs", trace=trace, answer=answer)
    return runs


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
