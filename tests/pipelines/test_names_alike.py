"""Is a name one segment, system and group everywhere, and is told what letter case parts?"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.data.splits import straddling_groups
from tests.answers import write

NOTE = "holds 'DE' and 'de': letter case and spaces within a name tell "


def answers(folder: Path, seed: int = 0) -> Path:
    """Write answers with *de*, *de* and a space, and *DE* in one column."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for i in range(900):
        label = i % 2
        about = {"human": label, "label": label, "judge": int(rng.random() < 0.1 + 0.8 * label)}
        about |= {"score": round(rng.random() + 1.5 * label, 6), "lang": ("de", "de ", "DE")[i % 3]}
        rows.append(
            {
                "id": f"{seed}-{i}",
                "question": f"Question {seed}-{i}?",
                "response": f"Answer {seed}-{i}.",
                **about,
            }
        )
    return write(folder / f"{seed}.jsonl", rows)


def test_segments(tmp_path: Path) -> None:
    run = calibrail.agree(answers(tmp_path), label_column="human", judge_column="judge", by="lang")
    assert [row["segment"] for row in run.by] == ["DE", "de"]
    assert [text for text in run.warnings if NOTE in text and "segments apart" in text]


def test_groups_with_a_threshold_of_their_own(tmp_path: Path) -> None:
    run = calibrail.calibrate(
        answers(tmp_path), "column:column=score,higher=hallucinated", alpha=0.2, by="lang"
    )
    assert [row["group"] for row in run.report.by_group["rows"]] == ["DE", "de"]
    assert [text for text in run.report.notes if NOTE in text]
    result = calibrail.certify(run.freeze(), answers(tmp_path, 1), max_fpr=0.5, by="lang")
    assert [text for text in result.warnings if NOTE in text and "groups apart" in text]


def test_groups_that_are_sampled_together(tmp_path: Path) -> None:
    facts = calibrail.diagnose(answers(tmp_path), label_column="label", group_column="lang")
    assert facts.groups.n == 1
    assert [item.message for item in facts.warnings if NOTE + "no groups" in item.message]


@pytest.mark.parametrize(
    "spellings",
    [
        ("Question {}", "question {}", "QUESTION {}"),
        ("Question {}", "Question  {}", "Question\u00a0{}", "Question \u200b{}", "Question{}"),
        ("{}", "0{}", "00{}"),
        ("e\u0301 {}", "\u00e9 {}"),
    ],
)
def test_a_group_spelt_in_several_ways_counts_once(
    tmp_path: Path, spellings: tuple[str, ...]
) -> None:
    """60 questions whose answers share their fate are 60 of each class, however called."""
    rng, rows = np.random.default_rng(1), list[dict[str, Any]]()
    for row in range(360):
        question, label = row // 6 + 1, row % 2
        group = spellings[row % 6 // 2 % len(spellings)].format(question)
        score = rng.random() / 2 + (question % 5 > 0) * label / 2
        rows.append({"id": f"r{row}", "group": group, "label": label, "score": score})
    path, detector = tmp_path / "a.csv", "column:column=score,higher=hallucinated"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    run = calibrail.test(path, detector, threshold=0.5, min_caught=0.7, max_false_alarms=0.5)
    assert run.report.certificate["coverage"]["n"] == 60
    assert calibrail.diagnose(path, label_column="label").groups.n == 60


def test_a_group_spelt_in_two_ways_is_on_one_side() -> None:
    codes = np.array([1, 2, 2], np.int8)
    assert straddling_groups(codes, ["Q1", "q 1", "q2"]) == [("Q1", ("calibration", "test"))]
