"""Are files in the shapes of public data sets read without a flag, or with the one that they need?

The rows imitate layouts alone; no text or label is taken from a data set.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from calibrail.data import read, read_all

DOC = "The dam was opened in 1936. It is 221 metres high."
GOOD, BAD = "The dam opened in 1936.", "The dam opened in 1937."

#: Name, rows, what must be said, and what comes of them: contexts, response, label, group.
SHAPES: list[tuple[str, list[dict[str, Any]], dict[str, Any], list[tuple[Any, ...]]]] = [
    (
        "summedits: 1 is consistent, so it must be said",
        [
            {"doc": DOC, "summary": GOOD, "label": 1, "domain": "news", "id": "a"},
            {"doc": DOC, "summary": BAD, "label": 0, "domain": "news", "id": "b"},
        ],
        {"positive": 0, "require": ("contexts", "response")},
        [((DOC,), GOOD, 0, None), ((DOC,), BAD, 1, None)],
    ),
    (
        "factcc",
        [
            {"text": DOC, "claim": GOOD, "label": "CORRECT", "id": "a"},
            {"text": DOC, "claim": BAD, "label": "INCORRECT", "id": "b"},
        ],
        {"require": ("contexts", "response")},
        [((DOC,), GOOD, 0, None), ((DOC,), BAD, 1, None)],
    ),
    (
        "summac",
        [{"document": DOC, "claim": BAD, "label": 0, "cut": "val", "dataset": "polytope"}],
        {"positive": 0, "require": ("contexts", "response"), "keep": ("cut",)},
        [((DOC,), BAD, 1, None)],
    ),
    (
        "tofueval: yes is consistent, by the column's name in the second",
        [{"document": DOC, "topic": "dams", "summ_sent": BAD, "sent_label": "no"}],
        {"positive": "no", "require": ("contexts", "response")},
        [((DOC,), BAD, 1, None)],
    ),
    (
        "ragbench: lists of keyed sentences",
        [
            {
                "question": "When did the dam open?",
                "documents": [DOC],
                "documents_sentences": [
                    [["0a", "The dam."], ["0b", "It is high."]],
                    [["1a", "X."]],
                ],
                "response": GOOD,
                "response_sentences": [["a", GOOD], ["b", "So it is."]],
                "adherence_score": True,
            }
        ],
        {"mapping": {"contexts": "documents_sentences", "response": "response_sentences"}},
        [(("The dam. It is high.", "X."), f"{GOOD} So it is.", 0, None)],
    ),
    (
        "ragbench as it is",
        [
            {
                "question": "When did the dam open?",
                "documents": [DOC, "X."],
                "response": BAD,
                "adherence_score": False,
            }
        ],
        {},
        [((DOC, "X."), BAD, 1, None)],
    ),
    (
        "halubench and lynx",
        [
            {"id": "a", "passage": DOC, "question": "When?", "answer": GOOD, "label": "PASS"},
            {"id": "b", "passage": DOC, "question": "When?", "answer": BAD, "label": "FAIL"},
        ],
        {},
        [((DOC,), GOOD, 0, None), ((DOC,), BAD, 1, None)],
    ),
    (
        "faithbench: spans of several annotators, with finer kinds",
        [
            {
                "source": DOC,
                "summary": BAD,
                "annotations": [
                    {"annotator": "x", "label": ["Unwanted", "Unwanted.Intrinsic"]},
                    {"annotator": "y", "label": ["Benign"]},
                ],
            },
            {"source": DOC, "summary": GOOD, "annotations": []},
        ],
        {
            "label_column": "annotations.label",
            "label_map": {"Unwanted": 1, "Benign": 0, "Consistent": 0, "[]": 0},
            "annotators": "any",
            "require": ("contexts", "response"),
        },
        [((DOC,), BAD, 1, None), ((DOC,), GOOD, 0, None)],
    ),
    (
        "lettucedetect: spans",
        [
            {"prompt": DOC, "answer": BAD, "labels": [{"start": 18, "end": 22, "label": "x"}]},
            {"prompt": DOC, "answer": GOOD, "labels": []},
        ],
        {"require": ("contexts", "response")},
        [((DOC,), BAD, 1, None), ((DOC,), GOOD, 0, None)],
    ),
    (
        "nested, with contexts as objects",
        [
            {
                "question": "When?",
                "passage": {"title": "Dam", "text": DOC},
                "output": {"text": BAD},
                "metadata": {"label": "hallucinated", "doc": 7},
            }
        ],
        {
            "mapping": {"response": "output.text"},
            "label_column": "metadata.label",
            "group_column": "metadata.doc",
        },
        [((f"Dam\n{DOC}",), BAD, 1, "7")],
    ),
    (
        "expertqa: claims of an answer, each with evidence and a label of its own",
        [
            {
                "question": "When?",
                "answers": {
                    "m": {
                        "claims": [
                            {"claim_string": GOOD, "evidence": [DOC], "support": "Complete"},
                            {"claim_string": BAD, "evidence": [DOC, "X."], "support": "Incomplete"},
                        ]
                    }
                },
            }
        ],
        {
            "mapping": {
                "response": "answers.m.claims.claim_string",
                "contexts": "answers.m.claims.evidence",
            },
            "label_column": "answers.m.claims.support",
            "label_map": {"Complete": 0, "Incomplete": 1},
        },
        [((DOC,), GOOD, 0, "row-1"), ((DOC, "X."), BAD, 1, "row-1")],
    ),
    (
        "several answers a row",
        [
            {
                "id": "q",
                "question": "When?",
                "contexts": [{"title": "Dam", "text": DOC}, {"content": "X."}],
                "response": [GOOD, BAD],
                "label": [0.0, 1.0],
            }
        ],
        {},
        [((f"Dam\n{DOC}", "X."), GOOD, 0, "q"), ((f"Dam\n{DOC}", "X."), BAD, 1, "q")],
    ),
    (
        "a log of an endpoint: a place in a list, and votes",
        [
            {
                "input": {"messages": [{"role": "system", "content": DOC}, {"content": "When?"}]},
                "output": {"choices": [{"message": {"role": "assistant", "content": BAD}}]},
                "checks": {"fine": 1, "made up": 2},
            }
        ],
        {
            "mapping": {
                "question": "input.messages.1.content",
                "contexts": "input.messages.0.content",
                "response": "output.choices.0.message.content",
            },
            "label_column": "checks",
            "positive": "made up",
        },
        [((DOC,), BAD, 1, None)],
    ),
    (
        "bump, with the faithful text of each row repeated",
        [
            {"article": DOC, "summary": GOOD, "consistent": 1.0},
            {"article": DOC, "summary": BAD, "consistent": 0.0},
        ],
        {"require": ("contexts", "response")},
        [((DOC,), GOOD, 0, None), ((DOC,), BAD, 1, None)],
    ),
]


def _examples(path: Path, how: dict[str, Any]) -> list[tuple[Any, ...]]:
    found, _ = read_all(path, strict=True, **how)
    return [(item.contexts, item.response, item.label, item.group) for item in found]


@pytest.mark.parametrize(("name", "rows", "how", "expected"), SHAPES, ids=[s[0] for s in SHAPES])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_the_shape_is_read(
    tmp_path: Path,
    kind: str,
    name: str,
    rows: list[dict[str, Any]],
    how: dict[str, Any],
    expected: list[tuple[Any, ...]],
) -> None:
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            for row in rows:
                cells = {
                    key: json.dumps(value) if isinstance(value, list | dict) else value
                    for key, value in row.items()
                }
                writer.writerow(cells)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    first = 2 if kind == "csv" else 1
    expected = [(*rest, f"row-{first}" if group == "row-1" else group) for *rest, group in expected]
    assert _examples(path, how) == expected


def test_ids_and_columns_of_several_answers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"question": "q", "contexts": "c", "response": ["a", "b"], "label": [0, 1]}
    lines = [row | {"id": "x", "mine": [0.1, 0.9]}, row | {"group": "g", "mine": 5}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    examples = list(read(path, keep=("mine",)))
    assert [e.id for e in examples] == ["x/1", "x/2", "row-2/1", "row-2/2"]
    assert [e.group for e in examples] == ["x", "x", "g", "g"]
    assert [e.columns["mine"] for e in examples] == [0.1, 0.9, 5.0, 5.0]
