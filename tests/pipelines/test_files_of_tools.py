"""A file as a tool or a person left it, and a command that knows no more than a threshold."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.data.columns import likely_labels
from calibrail.errors import CalibrailError
from tests.command_line import calibrail as command

N = 90
Answer = dict[str, Any]


def answers() -> list[Answer]:
    """Answers with a score of faithfulness; every third is hallucinated, and scores low."""
    draw = random.Random(3)
    made = []
    for i in range(N):
        bad = i % 3 == 0
        trust = round(draw.uniform(0.05, 0.6) if bad else draw.uniform(0.5, 0.99), 4)
        made.append(
            {
                "question": f"When was bridge number {i} of Köln built?",
                "contexts": [f"Bridge {i} of Köln was built in {1700 + i}.", f"It is {i} m long."],
                "response": f"Bridge {i} of Köln was built in {1700 + i + 7 * bad}.",
                "bad": bad,
                "trust": trust,
            }
        )
    return made


def word(a: Answer) -> str:
    return "hallucinated" if a["bad"] else "faithful"


def table(names: str, rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([names.split(delimiter), *rows])
    return text.getvalue()


def promptfoo(made: list[Answer]) -> str:
    results = [
        {
            "id": f"r{i}",
            "testIdx": i,
            "latencyMs": 900 + i,
            "vars": {"question": a["question"], "context": "\n".join(a["contexts"])}
            | {"human_label": word(a)},
            "response": {"output": a["response"]},
            "score": (a["trust"] + 1) / 2,
            "success": a["trust"] > 0.8,
            "namedScores": {"faithfulness": a["trust"]},
            "gradingResult": {
                "componentResults": [
                    {"score": a["trust"], "assertion": {"type": "context-faithfulness"}},
                    {"score": 1, "pass": True, "assertion": {"type": "latency"}},
                ]
            },
        }
        for i, a in enumerate(made)
    ]
    return json.dumps({"evalId": "e", "results": {"version": 3, "results": results}, "config": {}})


def deepeval(made: list[Answer]) -> str:
    cases = [
        {
            "name": f"test_case_{i}",
            "input": a["question"],
            "actualOutput": a["response"],
            "retrievalContext": a["contexts"],
            "metricsData": [
                {"name": "Faithfulness", "score": a["trust"], "success": True},
                {"name": "Answer Relevancy", "score": 1 - i / 1000, "success": True},
            ],
            "additionalMetadata": {"human_verdict": "fail" if a["bad"] else "pass"},
        }
        for i, a in enumerate(made)
    ]
    return json.dumps({"testCases": cases, "metricsScores": [{"metric": "Faithfulness"}]})


def ragas(made: list[Answer]) -> str:
    rows = [
        [a["question"], a["contexts"], a["response"], a["trust"], 1 - i / 1000, i / 100, word(a)]
        for i, a in enumerate(made)
    ]
    names = "user_input,retrieved_contexts,response,faithfulness,answer_relevancy,context_recall"
    return table(f"{names},human_label", rows)


def inspect(made: list[Answer]) -> str:
    samples = [
        {
            "id": i,
            "epoch": 1,
            "input": a["question"],
            "output": {"completion": a["response"], "choices": []},
            "scores": {
                "faithfulness": {"value": a["trust"]},
                "model_graded_fact": {"value": "IPC"[(a["trust"] > 0.3) + (a["trust"] > 0.5)]},
            },
            "metadata": {"contexts": a["contexts"], "human_label": int(a["bad"])},
            "total_time": 1.0 + i,
        }
        for i, a in enumerate(made)
    ]
    content = {"version": 2, "status": "success", "eval": {"task": "rag"}, "samples": samples}
    return json.dumps(content, indent=2)


def mlflow(made: list[Answer]) -> str:
    names = "inputs context outputs token_count faithfulness/v1/score answer_similarity/v1/score"
    rows = [
        [a["question"], a["contexts"][0], a["response"], 20 + i, a["trust"], i / 90, int(a["bad"])]
        for i, a in enumerate(made)
    ]
    return json.dumps({"columns": [*names.split(), "human_label"], "data": rows})


def langfuse(made: list[Answer]) -> str:
    names = "id,timestamp,name,userId,sessionId,tags,input,output,latency,faithfulness,label_human"
    rows = [
        [
            *(f"t{i}", f"2026-11-01T10:00:{i:02d}Z", "rag", "", "", '["a"]'),
            *(json.dumps({"question": a["question"]}), json.dumps({"answer": a["response"]}), 1.2),
            *(json.dumps([a["trust"]]), json.dumps([word(a)])),
        ]
        for i, a in enumerate(made)
    ]
    return table(names, rows)


def excel(made: list[Answer]) -> str:
    names = "Nr;Frage;Antwort;Prüfer;Halluzination (ja/nein);Faithfulness in %"
    rows: list[Sequence[object]] = []
    for i, a in enumerate(made):
        percent = f"{100 * a['trust']:.2f} %".replace(".", ",")
        rows.append(
            (i, a["question"], a["response"], "Jürgen", "ja" if a["bad"] else "nein", percent)
        )
        rows += [("", "", "", "", "", "")] * (i % 20 == 7)
    return f"\ufeff{table(names, rows, ';')}"


TOOLS: dict[str, tuple[str, Callable[[list[Answer]], str]]] = {
    "promptfoo": ("results.json", promptfoo),
    "deepeval": ("test_run.json", deepeval),
    "ragas": ("results.csv", ragas),
    "inspect": ("rag.json", inspect),
    "mlflow": ("eval_results_table.json", mlflow),
    "langfuse": ("traces.csv", langfuse),
    "excel": ("Auswertung März.csv", excel),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_one_command_and_a_threshold_are_enough(tool: str, tmp_path: Path) -> None:
    name, write = TOOLS[tool]
    made = answers()
    (tmp_path / name).write_text(write(made), encoding="utf-8")
    here = command(cwd=tmp_path).stdout
    assert "; labels: " in here and "; scores: " in here and "Next: calibrail test" in here
    done = command("test", name, "--threshold", 0.55, "--json", cwd=tmp_path)
    assert done.returncode == 0 and "unusable" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    counts = [sum(a["trust"] <= 0.55 for a in made if a["bad"] == bad) for bad in (True, False)]
    rates = report["test"]["coverage"], report["test"]["fpr"]
    assert [(rate["count"], rate["n"]) for rate in rates] == [(counts[0], 30), (counts[1], 60)]


def test_a_grade_of_inspect_is_a_verdict_and_its_half_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(inspect(made := answers()), encoding="utf-8")
    run = calibrail.test(str(path), score_column="score.model_graded_fact", higher="hallucinated")
    graded = sum(a["trust"] <= 0.5 for a in made if a["bad"])
    # What is partially correct has no score, and is flagged.
    assert run.report.test.coverage.count == graded and run.table is not None
    assert len(run.table.reasons["score.model_graded_fact"]) > 0


def test_a_frame_is_read_as_its_file_is(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(ragas(answers()))))
    (tmp_path / "r.csv").write_text(ragas(answers()), encoding="utf-8")
    one, other = (calibrail.test(data, threshold=0.55) for data in (rows, tmp_path / "r.csv"))
    assert one.report.test.coverage == other.report.test.coverage


@pytest.mark.parametrize(
    ("names", "cells", "says", "then"),
    [
        # Two names that say nothing are asked about at once.
        (
            "completion,score,is_correct",
            ("{response}", "{trust}", "{good}"),
            ["--label-column is_correct. And: does a higher value of score"],
            ("--label-column", "is_correct", "--higher", "faithful"),
        ),
        # Of two values one is known.
        (
            "response,faithfulness,human_label",
            ("{response}", "{trust}", "{ok}"),
            ["add --label-map hallucinated=1,ok=0"],
            ("--label-map", "hallucinated=1,ok=0"),
        ),
        # A score in percent.
        (
            "response,faithfulness,label",
            ("{response}", "{percent}", "{bad:d}"),
            ["which run from ", "no answer would be flagged", "e.g. --threshold 55"],
            ("--threshold", "55"),
        ),
    ],
)
def test_each_error_names_what_to_add(
    names: str, cells: Sequence[str], says: list[str], then: Sequence[str], tmp_path: Path
) -> None:
    rows = []
    for a in answers():
        more = {
            "good": "TRUE" if not a["bad"] else "FALSE",
            "ok": "hallucinated" if a["bad"] else "ok",
            "percent": round(100 * a["trust"], 2),
        }
        rows.append([cell.format(**a, **more) for cell in cells])
    (tmp_path / "a.csv").write_text(table(names, rows), encoding="utf-8")
    asked = command("test", "a.csv", "--threshold", 0.55, cwd=tmp_path)
    assert asked.returncode in (1, 2)
    for part in says:
        assert part in asked.stderr, asked.stderr
    done = command("test", "a.csv", "--threshold", 0.55, *then, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "30 hallucinated (" in " ".join(done.stdout.split())


def test_lines_without_labels_name_the_column_that_may_hold_them(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"response": a["response"], "is_right": not a["bad"], "n": 3} for a in answers()]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(CalibrailError, match=r"Labels may stand in 'is_right'; add .*is_right"):
        list(calibrail.read(path, require=()))
    # What a program labelled is a judge's, and says so.
    rows = [{"response": a["response"], "llm_label": int(a["bad"])} for a in answers()]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(CalibrailError, match=r"llm_label.* labelled_by='llm_label'"):
        list(calibrail.read(path, require=()))


def test_people_s_labels_are_found_and_programs_are_left_to_be_named() -> None:
    rows = [
        {"llm_label": i % 2, "quality": i % 5, "notes": f"n{i}", "meta": {"gold_label": i % 2}}
        for i in range(20)
    ]
    assert likely_labels(rows) == ["meta.gold_label", "llm_label"]
    for i, row in enumerate(rows):
        row["response"] = f"Answer {i} is one of {i * i}."
    assert [item.label for item in calibrail.read(rows, require=())] == [i % 2 for i in range(20)]
    program = [{k: v for k, v in row.items() if k != "meta"} for row in rows]
    with pytest.raises(CalibrailError, match="llm_label"):
        list(calibrail.read(program, require=()))


def test_a_file_in_another_encoding_is_refused_with_the_option_that_reads_it(
    tmp_path: Path,
) -> None:
    text = excel(answers()).removeprefix("\ufeff")
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    asked = command("test", "a.csv", "--threshold", 0.55, cwd=tmp_path)
    assert asked.returncode == 1 and "not UTF-8" in asked.stderr
    option = re.search(r"--reader-option (\S+)", asked.stderr)
    assert option is not None
    done = command("test", "a.csv", "--threshold", 0.55, "--reader-option", option[1], cwd=tmp_path)
    assert done.returncode == 0 and "Data" in done.stdout


def test_the_run_that_deepeval_left_is_found_where_it_leaves_it(tmp_path: Path) -> None:
    (tmp_path / ".deepeval").mkdir()
    (tmp_path / ".deepeval/.latest_test_run.json").write_text(deepeval(answers()))
    assert "Next: calibrail test .deepeval/.latest_test_run.json" in command(cwd=tmp_path).stdout
