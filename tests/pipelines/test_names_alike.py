"""Is a name one segment, system and group everywhere, and is told what letter case parts?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import calibrail
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
    assert facts.groups.n == 2
    assert [item.message for item in facts.warnings if NOTE in item.message]
