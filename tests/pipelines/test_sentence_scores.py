"""Does every sentence of every answer have its row, from the command line and from Python?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.options.runtime import EngineOptions
from calibrail.scores import build, parse_spec
from calibrail.scores.custom import CustomScore
from tests import chat_server
from tests.answers import write
from tests.command_line import calibrail as command

ROWS = [
    {
        "id": "a",
        "question": "When was it built?",
        "contexts": ["The bridge was built in 1932. It spans the harbour."],
        "response": "The bridge was built in 1932. It is. Zebras admired purple lanterns.",
    },
    {
        "id": "b",
        "question": "What does it span?",
        "contexts": ["It spans the harbour."],
        "response": "It spans the harbour.",
        "group": "g",
    },
]


def n_before(example: Example) -> float:
    """Return how much of its answer a sentence follows."""
    assert example.before is not None
    return float(len(example.before))


def test_a_row_is_a_sentence_and_says_which(tmp_path: Path) -> None:
    data, path = write(tmp_path / "data.jsonl", ROWS), tmp_path / "s.parquet"
    words = ["score", data, "--unit", "sentence", "--score", "novelty", "--score", "rad"]
    done = command(*words, "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["unit"], told["examples"], told["undefined"]["novelty"]) == ("sentence", 4, 1)
    table = pq.read_table(path)
    assert table.column_names == [
        *("id", "sentence", "start", "end", "group", "label"),
        *("row", "novelty", "novelty__reason", "rad"),
    ]
    rows = table.to_pylist()
    assert [(row["id"], row["sentence"], row["group"]) for row in rows] == [
        *(("a", number, None) for number in (1, 2, 3)),
        ("b", 1, "g"),
    ]
    texts = {row["id"]: row["response"] for row in ROWS}
    assert [texts[row["id"]][row["start"] : row["end"]] for row in rows] == [
        "The bridge was built in 1932.",
        "It is.",
        "Zebras admired purple lanterns.",
        "It spans the harbour.",
    ]
    assert [row["novelty"] for row in rows] == [0.0, None, 1.0, 0.0]
    assert rows[1]["novelty__reason"] == "the response holds no content word"
    score = build(parse_spec("rad"))
    answers = [Example(r["question"], tuple(r["contexts"]), r["response"]) for r in ROWS]
    expected = score.score([item for one in answers for item in sentence_examples(one)]).values
    assert [row["rad"] for row in rows] == pytest.approx(expected.tolist(), abs=score.tolerance)
    assert calibrail.score_sentences(str(data), ["novelty", "rad"]).equals(table)


def test_what_came_before_reaches_a_score_wherever_it_is_computed(tmp_path: Path) -> None:
    score = CustomScore(n_before)
    with calibrail.use_engine(EngineOptions(shards=tmp_path / "shards", shard_rows=2)):
        apart = calibrail.score_sentences(ROWS, score)
        named = calibrail.score_sentences(ROWS, "novelty")
    column = apart.column_names[-1]
    assert apart[column].to_pylist() == [0.0, 30.0, 37.0, 0.0]
    assert apart[column].to_pylist() == apart["start"].to_pylist()
    assert named.equals(calibrail.score_sentences(ROWS, "novelty"))


def test_a_column_of_numbers_gives_each_sentence_its_own() -> None:
    rows = [{**ROWS[0], "mine": [0.1, None, 0.9]}]
    column = "column:column=mine,higher=hallucinated"
    found = calibrail.score_sentences(rows, column)
    assert found["mine"].to_pylist() == [0.1, None, 0.9]


def test_labels_are_told_where_the_data_gives_sentences() -> None:
    given = [
        {"start": 0, "end": 29, "label": 0},
        {"start": 29, "end": len(ROWS[0]["response"]), "label": 1},
    ]
    found = calibrail.score_sentences([{**ROWS[0], "sentences": given}], "length")
    assert found["label"].to_pylist() == [0, 1]
    assert found["start"].to_pylist() == [0, 29]


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({"label": 1, "spans": [[11, 24]]}, [0, 1]),
        ({"spans": [[11, 24]]}, [0, 1]),
        ({"label": 0}, [0, 0]),
        ({"label": 1}, [None, None]),
        ({}, [None, None]),
        # What contradicts itself, or cannot be read, says nothing; the sentences are scored.
        ({"label": 1, "spans": []}, [None, None]),
        ({"label": 0, "spans": [[11, 24]]}, [None, None]),
        ({"label": 1, "spans": [[11, 900]]}, [None, None]),
    ],
)
def test_labels_are_told_where_spans_are_marked(given: Any, labels: list[int | None]) -> None:
    rows = [
        {"response": "It rained. The sun shone.", **given},
        {"response": "It rained.", "label": 1, "spans": [[0, 9]]},
    ]
    found = calibrail.score_sentences(rows, "length")
    assert found["label"].to_pylist() == [*labels, 1]
    assert found["length"].null_count == 0


def test_answers_without_a_sentence_have_no_row_and_no_answer_at_all_has_the_columns() -> None:
    empty = {**ROWS[0], "id": "c", "response": "..."}
    found = calibrail.score_sentences([empty, ROWS[1]], "novelty")
    assert found["id"].to_pylist() == ["b"]
    assert found.column_names[:4] == ["id", "sentence", "start", "end"]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("fused", "fused learns from labelled answers before it can score"),
        ("column:column=start,higher=faithful", "rename the score's column in the data"),
        ("nonsense", "unknown score"),
        ("displacement_consistency", "it compares consecutive sentences of an answer; score whole"),
        (
            "hybrid:cheap=displacement_consistency,expensive=novelty,low=0,high=1",
            "hybrid says nothing of a single sentence: it compares consecutive sentences",
        ),
    ],
)
def test_what_cannot_be_told_of_sentences_is_refused(score: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrail.score_sentences(ROWS, score)


@pytest.mark.usefixtures("fresh_models", "quick_retries")
def test_a_dry_run_counts_the_sentences_that_are_judged(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", ROWS)
    with chat_server.ChatServer() as server:
        score = f"judge:model=m,mode=verdict,base_url={server.url}"
        words = ["score", data, "--score", score, "--dry-run", "-o", tmp_path / "s.parquet"]
        done = command(*words, "--unit", "sentence")
        assert "4 calls to m" in " ".join(done.stdout.split())
        assert "for 4 sentences of 2 answers" in " ".join(done.stdout.split())
        assert "for 2 of 2 answers" in " ".join(command(*words).stdout.split())
        assert not server.seen


def test_what_is_undefined_for_every_sentence_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="displacement_consistency says nothing of a single"):
        calibrail.calibrate("no-such-file", "displacement_consistency", alpha=0.1, unit="sentence")
