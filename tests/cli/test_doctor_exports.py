"""Does `calibrail doctor` say whose export a file is, and how it was read?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrail import calibrate
from tests.command_line import calibrail
from tests.data.traces.shapes import BAD, GOOD, ROWS, langfuse_trace, sdk_spans

#: What each is called, what its parts are, and a column of what programs said.
SAID = {
    "spans_sdk": ("spans", "10 spans", None),
    "spans_otlp": ("spans", "6 spans", "score.Groundedness"),
    "spans_phoenix": ("spans", "4 spans", "score.Hallucination"),
    "langfuse": ("langfuse", "6 observations", "score.hallucination"),
    "langsmith": ("langsmith", "6 runs", "score.correctness"),
    "promptfoo": ("promptfoo", "2 results", "score.faithful"),
    "deepeval": ("deepeval", "2 test cases", "score.Faithfulness"),
    "trulens": ("trulens", "2 records", "score.Groundedness"),
    "mlflow": ("mlflow", "2 rows", "score.groundedness"),
    "label_studio": ("label_studio", "2 tasks", "score.verdict"),
    "argilla": ("argilla", "2 records", "score.verdict"),
    "argilla_flat": ("argilla", "2 records", "score.verdict"),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_tool_its_parts_and_who_said_what(tmp_path: Path, name: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(ROWS[name] if len(ROWS[name]) > 1 else ROWS[name][0]))
    run = calibrail("doctor", path)
    assert not run.stderr
    said = " ".join(run.stdout.split())
    tool, parts, score = SAID[name]
    # A long path is broken between two lines.
    assert f"export.json({tool})" in "".join(run.stdout.split())
    assert f"{tool}: {parts} made 2 answers" in said
    if score is not None:
        assert f"--score-column {score}" in said and "--label-column takes one" in said
    people = "Said by people annotation." in said
    assert people == (name in ("langfuse", "promptfoo", "mlflow", "label_studio")) or (
        people and name.startswith("argilla")
    )
    if not people and name != "deepeval" and name != "spans_phoenix":
        assert f"calibrail label {path} -o labels" in said


def test_a_table_with_a_tool_s_names_says_whose_they_are(tmp_path: Path) -> None:
    path = tmp_path / "ragas.jsonl"
    row = {"user_input": "q", "retrieved_contexts": ["c"], "response": "r", "faithfulness": 0.5}
    path.write_text(json.dumps(row) + "\n")
    said = " ".join(calibrail("doctor", path).stdout.split())
    assert "Named as by ragas" in said and "Column faithfulness" in said


def test_check_says_which_traces_it_left_out(tmp_path: Path) -> None:
    guardrail = tmp_path / "guardrail.json"
    calibrate("example:facts", "novelty", alpha=0.2).freeze().save(guardrail)
    spans = sdk_spans("t1", GOOD)
    spans += [row | {"attributes": {}} for row in sdk_spans("t2", GOOD)]
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in spans))
    ran = calibrail("check", guardrail, path, "-o", tmp_path / "decisions.jsonl")
    said = " ".join(ran.stdout.split())
    assert ran.returncode == 0, ran.stderr
    assert "1 answer: 1 passed" in said
    assert "Left out, not decided about: a trace without an answer (1)." in said


def test_a_report_says_what_the_export_was_made_of() -> None:
    traces = []
    for i in range(60):
        trace = langfuse_trace(f"t{i}", [GOOD, BAD][i % 2], ["faithful", "wrong"][i % 2])
        traces.append(trace | {"sessionId": None, "input": f"Question {i} about a dam?"})
    traces.append(langfuse_trace("t60", "", "wrong") | {"sessionId": None})
    report = calibrate(traces, "novelty", alpha=0.2).report
    made: Any = report.data["reading"]["export"]
    assert (made["tool"], made["n_parts"], made["n_answers"]) == ("langfuse", 183, 60)
    assert made["left_out"] == {"a trace without an answer": 1}
    assert made["annotations"] == {"annotation.verdict": 60}
    note = (
        "Read as an export of langfuse: 183 observations made 60 answers, and 1 without an answer"
    )
    assert any(text.startswith(note) for text in report.notes)
