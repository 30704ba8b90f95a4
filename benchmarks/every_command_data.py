"""The data that every_command.py runs commands over: halves of public data sets, and odd answers.

Every version reads the same bytes of the same age.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

#: All files that are made here look this old: a folder of labels knows its traces by that.
MADE = 1_735_689_600


def half(group: str) -> str:
    """Return the half, ``a`` or ``b``, that a group belongs to, whatever the order of rows.

    >>> [half(f"g{number}") for number in range(6)]
    ['a', 'b', 'b', 'b', 'a', 'b']
    """
    return "ab"[hashlib.sha256(group.encode()).digest()[0] % 2]


def prepare(data: Path, facts: Path, to: Path) -> None:
    """Write halves of the data sets, answers without labels, and labels by text."""
    to.mkdir()
    (to.parent / "data").symlink_to(data.resolve(), target_is_directory=True)
    rows = [json.loads(line) for line in facts.read_text("utf-8").splitlines()]
    halves = {part: [row for row in rows if half(row["group"]) == part] for part in "ab"}
    for part, some in halves.items():
        write_rows(to / f"facts-{part}.jsonl", some)
    write_rows(to / "facts-few.jsonl", halves["a"][:90])
    unlabelled = [without(row, "label", "spans", "kind") for row in halves["b"][:60]]
    write_rows(to / "facts-answers.jsonl", [*unlabelled, *odd_answers(unlabelled[0])])
    known = ({"id": row["id"], "label": row["label"], "probability": 1.0} for row in halves["b"])
    write_rows(to / "facts-known.csv", list(known))
    truth = {known_by(row["question"], row["response"]): row["label"] for row in rows}

    quizzes = (data / "halueval" / "qa_data.json").read_text("utf-8").strip().split("\n")
    for part in "ab":
        own = [line for line in quizzes if half(json.loads(line)["question"]) == part]
        write(to / f"halueval-{part}.json", "\n".join(own) + "\n")
    for line in quizzes:
        row = json.loads(line)
        truth[known_by(row["question"], row["right_answer"])] = 0
        truth[known_by(row["question"], row["hallucinated_answer"])] = 1
    write(to / "truth.json", json.dumps(truth, ensure_ascii=False))

    frank = read_csv(data / "frank" / "metric_scores.csv")
    for number, row in enumerate(frank):
        row["split"] = "calibration" if half("split" + row["group"]) == "a" else "test"
        row["human"] = row["label"] if number % 4 == 0 else ""
        row["judge"] = str(int(float(row["qags"] or 0) < 0.6))
    scores = read_csv(data / "aggrefact" / "scores.csv")
    for number, row in enumerate(scores):
        # Neighbours may share a document.
        row["group"] = f"{row['subset']}/{number // 10}"
        row["label"] = str(1 - int(row.pop("label_supported")))
        row["day"] = f"2025-{number % 12 + 1:02}-{number % 28 + 1:02}"
    for name, table in (("frank", frank), ("aggrefact", scores)):
        for part in "ab":
            own_rows = [row for row in table if half(row["group"]) == part]
            write_rows(to / f"{name}-{part}.csv", own_rows)


def odd_answers(like: dict[str, Any]) -> list[dict[str, Any]]:
    """Return answers that a guardrail may stumble over."""
    odd: list[dict[str, Any]] = [
        {"response": ""},
        {"contexts": []},
        {"question": ""},
        {"response": "In 1234, 5,678 ∑ “Ünïcode” \u202e turned; 😀."},
        {"response": "One. Two! Three? " * 40},
        {"response": None},
        {"contexts": "one text"},
        {"domain": "unheard of"},
    ]
    return [{**like, **one, "id": f"odd-{number}"} for number, one in enumerate(odd)]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the answers of a prepared file; those of HaluEval as calibrail names them."""
    if path.suffix == ".csv":
        return read_csv(path)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if path.suffix == ".jsonl":
        return rows
    found = []
    for number, row in enumerate(rows):
        common = {"question": row["question"], "contexts": [row["knowledge"]]}
        for end, column in HALUEVAL_ANSWERS.items():
            found.append({**common, "id": f"{number}-{end}", "response": row[column]})
    return found


HALUEVAL_ANSWERS = {"right": "right_answer", "hallucinated": "hallucinated_answer"}


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as the file's name says, with the time at which all files here are made."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        os.utime(path, (MADE, MADE))
    else:
        write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    os.utime(path, (MADE, MADE))


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def known_by(question: str, response: str) -> str:
    """Return what an answer is known by; tools may trim white space, or spell formulas."""
    words = "".join(re.findall(r"\w+", f"{question} {response}"))
    return hashlib.sha256(words.encode()).hexdigest()[:16]
