"""Do the flags that `calibrail doctor` prints for an odd file really read it?"""

from __future__ import annotations

import csv
import gzip
import json
import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from tests.command_line import calibrail

N: Final = 12

#: The rows of each shape by i and what i holds, and the classes to put in place of each "?".
SHAPES: Final[dict[str, Any]] = {
    "names of its own": lambda q, c, r, bad: {"prompt": q, "used": [c], "reply": r, "ok": not bad},
    "log of a chat endpoint": lambda q, c, r, bad: {
        "request": {"messages": [{"role": "user", "content": q}]},
        "retrieved": [{"snippet": c, "rank": 1}],
        "output": {"choices": [{"message": {"role": "assistant", "content": r}}]},
        "meta": {"verdict": "bad" if bad else "good"},
    },
    "another language": lambda q, c, r, bad: {
        "Frage": q,
        "Kontext": c,
        "Antwort": r,
        "Urteil": "falsch" if bad else "richtig",
    },
    "votes": lambda q, c, r, bad: {
        "question": q,
        "context": c,
        "answer": r,
        "votes": {"yes": 3 * bad, "no": 3 - 3 * bad},
    },
    "an annotator a column": lambda q, c, r, bad: {
        "question": q,
        "context": c,
        "answer": r,
        # Two of three are right; nobody but the third is always.
        "ann_a": ["fine", "not fine"][bad or q.endswith("??")],
        "ann_b": "fine",
        "ann_c": ["fine", "not fine"][bad],
    },
    "JSON in a cell": lambda q, c, r, bad: {
        "created": "2026-01-01",
        "payload": json.dumps({"query": q, "passages": [{"text": c}], "completion": r, "bad": bad}),
    },
    "a label in a list": lambda q, c, r, bad: {
        "question": q,
        "docs": [{"body": c}],
        "answer": r,
        "reviews": [{"grade": ["sound", "unsound"][bad]}],
    },
    "numbered contexts": lambda q, c, r, bad: {
        "query": q,
        "context": {"doc_1": c, "doc_2": "It is high."},
        "answer": r,
        "grade": ["A", "F"][bad],
    },
    "letters for names": lambda q, c, r, bad: {"a": c, "b": r, "c": ["N", "Y"][bad]},
    "a rating": lambda q, c, r, bad: {
        "question": q,
        "context": c,
        "answer": r,
        "rating": [5, 1][bad] if len(q) % 2 else [4, 2][bad],
    },
    "two answers, of which one is right by design": lambda q, c, r, bad: {
        "question": q,
        "context": c,
        "answer": r,
        "output": "what ought to have been said",
        "hallucinated": ["no", "yes"][bad],
    },
    "points in names": lambda q, c, r, bad: {
        "attributes": {"rag.question": q, "rag.context": c, "rag.answer": r},
        "human.verdict": ["faithful", "hallucinated"][bad],
    },
    "a chat": lambda q, c, r, bad: {
        "messages": [
            {"role": "system", "content": c},
            {"role": "user", "content": q},
            {"role": "assistant", "content": r},
        ],
        "quality": ["good", "bad"][bad],
    },
    "an answer a sentence": lambda q, c, r, bad: {
        "doc": {"title": "Dam", "sentences": [c, "It is high."]},
        "generated": [r, "So it is said."],
        "judgement": ["sound", "made up"][bad],
    },
}
CLASSES: Final = {"5": 0, "4": 0, "1": 1, "2": 1}


def rows(shape: str) -> list[dict[str, Any]]:
    make = SHAPES[shape]
    return [
        make(
            f"When did dam {i} open to the public?" + "?" * (i // 2 % 2),
            f"Dam {i} was opened in 1936 after five years of work; it holds back a lake.",
            f"It opened in {1936 + i % 2}, as text {i} says.",
            i % 2,
        )
        for i in range(N)
    ]


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(content[0]))
            writer.writeheader()
            for row in content:
                spelt = {
                    k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()
                }
                writer.writerow(spelt)
        return path
    text = json.dumps({"status": "ok", "payload": content}, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["rows.csv", "rows.json.gz"])
def test_the_printed_command_reads_the_file(tmp_path: Path, shape: str, name: str) -> None:
    path = write(tmp_path / name, rows(shape))
    # It fails where no row is usable without a flag, and says all the same which flags help.
    first = calibrail("doctor", path)
    assert not first.stderr
    step = first.stdout.rpartition("Next:")[2]
    words = shlex.split(step[step.index("calibrail doctor") :])
    assert words[:2] == ["calibrail", "doctor"] and len(words) > 3, first.stdout
    # A person says what the values of a rating mean, as the printed remark asks for.
    filled = [
        ",".join(f"{k}={CLASSES[k]}" for k in (pair.partition("=")[0] for pair in word.split(",")))
        if "=?" in word
        else word
        for word in words[2:]
    ]
    second = calibrail("doctor", *filled, "--json")
    assert second.returncode == 0, second.stderr
    read = json.loads(second.stdout)
    assert (read["n_faithful"], read["n_hallucinated"], read["usable"]) == (N // 2, N // 2, N)
    assert {"response", "contexts", "label"} <= read["columns"].keys()
    assert not read["suggested"]
    lengths = {item["field"]: item["n"] for item in read["lengths"]}
    assert lengths["response"] == lengths["contexts"] == N
    medians = {item["field"]: item["median_chars"] for item in read["lengths"]}
    assert medians["contexts"] > medians["response"]
