from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.data.sources import example_path
from calibrail.evaluation.stats.auroc import auroc

KINDS = {
    "swapped_entity",
    "altered_number",
    "negation",
    "unsupported_addition",
    "confidence_inflation",
    "merged_facts",
    "off_topic",
}


@pytest.fixture(scope="module")
def facts(repository: Path) -> list[dict[str, Any]]:
    path = repository / "src/calibrail/data/examples/facts.jsonl"
    assert 100 * 1024 <= path.stat().st_size <= 400 * 1024
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["make_facts", "make_judge"])
def test_the_generator_writes_the_committed_file(repository: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(repository / f"examples/{name}.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_judge_that_is_mostly_right_misses_every_third_hallucination() -> None:
    rows = list(csv.DictReader(example_path("judge").open(encoding="utf-8", newline="")))
    flagged = [float(row["hallucination_score"]) >= 0.7 for row in rows]
    labels = [row["label"] == "hallucinated" for row in rows]
    right = sum(map(bool.__eq__, flagged, labels)) / len(rows)
    caught = sum(map(bool.__and__, flagged, labels)) / sum(labels)
    assert len(rows) == 298 and right > 0.9 and 0.6 < caught < 0.75


def test_every_question_has_one_answer_of_each_class(facts: list[dict[str, Any]]) -> None:
    groups = defaultdict(list)
    for row in facts:
        groups[row["group"]].append(row)
    assert len(groups) >= 250
    assert len({row["id"] for row in facts}) == len(facts)
    for rows in groups.values():
        assert sorted(row["label"] for row in rows) == [0, 1]
        assert rows[0]["response"] != rows[1]["response"]
        assert rows[0]["contexts"] == rows[1]["contexts"]


def test_every_kind_is_there_in_useful_numbers(facts: list[dict[str, Any]]) -> None:
    kinds = Counter(row["kind"] for row in facts if row["label"] == 1)
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 30
    assert kinds["off_topic"] <= 0.12 * kinds.total()
    forms = Counter(row["kind"] for row in facts if row["label"] == 0)
    assert min(forms["short"], forms["sentence"], forms["elaborated"]) >= 40


def test_length_does_not_give_the_label_away(facts: list[dict[str, Any]]) -> None:
    lengths = {
        label: np.array([float(len(r["response"])) for r in facts if r["label"] == label])
        for label in (0, 1)
    }
    area = auroc(lengths[1], lengths[0], confidence=0.95)
    assert 0.45 <= area.estimate <= 0.55


def test_altered_numbers_are_not_the_passages(facts: list[dict[str, Any]]) -> None:
    altered = [row for row in facts if row["kind"] == "altered_number"]
    right = {row["group"]: row["response"] for row in facts if row["label"] == 0}
    for row in altered:
        own = set(re.findall(r"\d+", row["response"]))
        assert own - set(re.findall(r"\d+", right[row["group"]])), row["id"]


def test_faithful_numbers_all_stand_in_the_passages(facts: list[dict[str, Any]]) -> None:
    for row in facts:
        if row["label"] == 0:
            known = set(re.findall(r"\d+", " ".join(row["contexts"]) + row["question"]))
            assert set(re.findall(r"\d+", row["response"])) <= known, row["id"]


def test_no_sentence_has_a_wrong_article_or_an_open_place(facts: list[dict[str, Any]]) -> None:
    for row in facts:
        for text in (row["question"], row["response"], *row["contexts"]):
            assert not re.search(r"\ba [aeio]\w+\b|[{}]|  ", text), text


def test_marks_hold_what_is_wrong_and_nothing_is_wrong_with_a_faithful_answer(
    facts: list[dict[str, Any]],
) -> None:
    right = {row["group"]: row["response"] for row in facts if row["label"] == 0}
    for row in facts:
        assert bool(row["spans"]) == bool(row["label"]), row["id"]
        text, ends = row["response"], [0, *(end for _, end in row["spans"])]
        for (start, end), before in zip(row["spans"], ends, strict=False):
            assert before <= start < end <= len(text), row["id"]
        marked = [text[start:end] for start, end in row["spans"]]
        if row["kind"] in ("unsupported_addition", "confidence_inflation", "off_topic"):
            assert marked == [re.split(r"(?<=\.) ", text, maxsplit=1)[-1]]
        if row["kind"] == "altered_number":
            assert marked[0].isdigit() and marked[0] not in right[row["group"]]
        if row["kind"] == "merged_facts":
            assert row["spans"][0][0] > text.index(". ")
        if text.endswith("That is what the text states.") and row["label"]:
            assert marked[-1] == "That is what the text states."
