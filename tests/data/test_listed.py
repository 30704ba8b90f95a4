"""Several answers a row are read as such, whatever their list is called."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from calibrail import calibrate, diagnose, read
from calibrail.errors import DataError

ROWS = [
    {"context": f"The sea {i} is blue.", "lists": [f"It is blue {i}.", f"It is red {i}."]}
    for i in range(30)
]


def rows(name: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"context": row["context"], name: row["lists"], "labels": [0, 1], **more} for row in ROWS
    ]


@pytest.mark.parametrize("name", ["answers", "responses", "outputs", "candidates", "response"])
def test_a_list_of_answers_beside_as_many_labels_is_several_examples(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(name)))
    pd.DataFrame(rows(name)).to_csv(tmp_path / "answers.csv", index=False)
    for source in (rows(name), path, tmp_path / "answers.csv"):
        reading = read(source, require=("contexts", "response"))
        kept = list(reading)
        assert [(kept[i].response, kept[i].label) for i in (0, 1, 59)] == [
            ("It is blue 0.", 0),
            ("It is red 0.", 1),
            ("It is red 29.", 1),
        ]
        assert len({example.group for example in kept}) == 30
        assert reading.columns.labels.n_several == 0
        facts = diagnose(source)
        assert (facts.usable, facts.n_hallucinated, facts.groups.mixed) == (60, 30, 30)


def test_right_answers_beside_the_answer_are_left_alone() -> None:
    kept = list(read(rows("answers", response="It is."), require=(), allow_none=True))
    assert not kept
    single = [{**row, "label": 1} for row in rows("answers", labels=None)]
    with pytest.raises(DataError, match="cannot tell which column holds response"):
        read(single, require=("response",))


@pytest.mark.parametrize(
    ("row", "n"),
    [
        # Whose labels they are is not what they are about.
        ({"response": "text", "labels": [1, 1, 0], "annotators": ["x", "y", "z"]}, 1),
        ({"response": "text", "labels": [1, 1, 0], "context": ["a", "b", "c"]}, 1),
        ({"response": "text", "labels": [1, 1, 0], "notes": ["a"]}, 1),
        ({"response": "text", "labels": [1, 1, 0], "sentences": ["a", "b", "c"]}, 0),
        ({"labels": [1, 1, 0], "replies": ["a", "b", "c"]}, 0),
        ({"labels": [1, 1, 0], "scores": [0.1, 0.2, 0.3]}, 0),
    ],
)
def test_labels_of_a_list_are_no_annotators(row: dict[str, Any], n: int) -> None:
    reading = read([row] * 3, require=(), allow_none=True)
    assert len(list(reading)) == n * 3
    assert reading.columns.labels.n_several == n * 3


def test_the_error_says_how_a_list_of_another_name_is_read() -> None:
    with pytest.raises(DataError, match=r"mapping=\{'response': 'replies'\} reads each with its"):
        calibrate(rows("replies", score=0.5), "column:column=score,higher=faithful", alpha=0.1)
    facts = diagnose(rows("replies"))
    assert facts.usable == 0 and facts.suggested == ("--map", "response=replies")
    kept = list(read(rows("replies"), mapping={"response": "replies"}, require=("response",)))
    assert len(kept) == 60
