"""Do `doctor` and `calibrate --unit sentence` count the same answers, columns and marks?"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import calibrail as library
from calibrail.options import Promise
from tests.cli.test_doctor_marks import N, answers, lines, looked_at, run_as_printed
from tests.command_line import calibrail

#: What is wrong with an answer as a whole, sentence by sentence.
BROKEN: dict[str, dict[str, Any]] = {
    "beyond the end": {"label": 1, "spans": [[0, 999]]},
    "reversed": {"label": 1, "spans": [[9, 4]]},
    "words": {"label": 1, "spans": ["whale"]},
    "one text": {"label": 1, "spans": "whale"},
    "fractions": {"label": 1, "spans": [[0.5, 3]]},
    "another text": {"label": 1, "spans": [{"start": 3, "end": 9, "text": "Carthage"}]},
    "nobody marked": {"label": 1, "spans": None},
    "nothing marked": {"label": 1, "spans": []},
    "marked though faithful": {"label": 0, "spans": [[3, 9]]},
    "in no sentence": {"label": 1, "spans": [[0, 2]]},
    "no sentence": {"response": "...", "label": 0, "spans": []},
    "no answer": {"response": "", "label": 0, "spans": []},
    "too long": {"response": "It is so. " * 5_000, "label": 0, "spans": []},
    "another label": {"label": "perhaps"},
    "no label": {"label": None},
}

#: What only matters where the column is the score.
UNEVEN: dict[str, Any] = {"short": [0.1], "long": [0.1, 0.2, 0.3], "empty": []}
ODD: dict[str, Any] = {
    "none": None,
    "a null": [None, 0.2],
    "not a number": [float("nan"), 0.2],
    "infinite": [0.2, float("inf")],
    "words": ["a", 0.2],
    "a text": "n/a",
    "one number": 0.4,
    "a list of lists": [[0.1], [0.2]],
}


def scored() -> list[dict[str, Any]]:
    """Return good answers with a score for each sentence, which is often right."""
    made, drawn = answers(), random.Random(7)
    for row in made:
        row["lettuce"] = [drawn.random(), drawn.random() + 0.4 * row["label"]]
    return made


def with_bad_rows() -> list[dict[str, Any]]:
    """Return good answers, and one of every bad kind."""
    rows, spare = scored(), scored()
    for number, (name, wrong) in enumerate(BROKEN.items()):
        rows.append(spare[number] | {"id": f"broken {name}"} | wrong)
    for number, (name, cell) in enumerate((UNEVEN | ODD).items()):
        rows.append(spare[number] | {"id": f"odd {name}", "lettuce": cell})
    return rows


def calibrated(path: Path, folder: Path, *score: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the report, and what was set aside by its reason."""
    words = ("--unit", "sentence", "--alpha", "0.2", "-o", folder)
    done = calibrail("calibrate", path, *score, *words)
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "report.json").read_text("utf-8"))
    aside: dict[str, int] = {}
    for line in (folder / "quarantine.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        key = f"{entry['field']}: {entry['reason']}"
        aside[key] = aside.get(key, 0) + 1
    return report, aside


def test_every_kind_of_bad_row_is_counted_as_calibrate_counts_it(tmp_path: Path) -> None:
    path = lines(tmp_path / "answers.jsonl", with_bad_rows())
    found, shown = looked_at(path)
    marks = found["marks"]
    report, aside = calibrated(path, tmp_path / "texts", "--score", "novelty")
    assert {f"{field}: {reason}": n for field, reason, n in marks["set_aside"]} == aside
    assert sum(aside.values()) == len(BROKEN) == report["data"]["n_quarantined"]
    data = report["data"]
    assert (marks["n"], marks["hallucinated"]) == (data["n_examples"], data["n_hallucinated"])
    # The column as a score costs what it is too short or too long for, and no more.
    (column,) = marks["columns"]
    report, aside = calibrated(
        path, tmp_path / "column", "--score-column", "lettuce", "--higher", "hallucinated"
    )
    uneven = aside.pop("lettuce: not one number for each sentence")
    assert uneven == column["set_aside"] == len(UNEVEN)
    assert sum(aside.values()) == len(BROKEN)
    assert marks["n"] - column["set_aside"] == report["data"]["n_examples"]
    sentences = pq.read_table(tmp_path / "column" / "sentences.parquet")
    # Of four lists one number is missing, of three cells both.
    assert column["missing"] == sentences["lettuce"].to_numpy().size - column["n"] == 4 * 1 + 3 * 2
    assert column["n"] == np.isfinite(sentences["lettuce"].to_numpy()).sum()
    assert "not for 3 answers: not one number for each sentence" in shown
    assert "column_lengths" in [item["code"] for item in found["warnings"]]


def test_a_column_of_lists_is_offered_and_its_command_runs(tmp_path: Path) -> None:
    rows = [
        {key: value for key, value in row.items() if key not in ("contexts", "question")}
        for row in scored()
    ]
    path = lines(tmp_path / "answers.jsonl", rows)
    found, shown = looked_at(path)
    (column,) = found["marks"]["columns"]
    assert (column["name"], column["n"], column["missing"]) == ("lettuce", 2 * len(rows), 0)
    assert f"Column lettuce AUROC by sentence {column['auroc']:.3f} with --higher hall" in shown
    report = run_as_printed(shown, tmp_path)
    assert report["score"]["key"] == "lettuce"
    # One turned around is offered as it is.
    for row in rows:
        row["lettuce"] = [-value for value in row["lettuce"]]
    found, shown = looked_at(lines(path, rows))
    assert "with --higher faithful" in shown
    assert "--score-column lettuce --higher faithful --unit sentence" in shown


@pytest.mark.parametrize("own_label", [True, False])
def test_sentences_with_labels_are_read_and_their_command_runs(
    tmp_path: Path, own_label: bool
) -> None:
    rows = []
    for row in scored():
        first, second = row["response"].removeprefix("1. ").split(". ")
        listed = zip((f"{first}.", second), (0, row["label"]), row.pop("lettuce"), strict=True)
        texts = [{"text": text, "label": label, "nli": n} for text, label, n in listed]
        del row["spans"]
        rows.append(row | {"sentences": texts})
        if not own_label:
            del row["label"], rows[-1]["label"]
    rows[0]["sentences"][0].pop("label")
    found, shown = looked_at(lines(tmp_path / "answers.jsonl", rows))
    # An answer's label may be that of its sentences.
    assert found["usable"] == len(rows) - (not own_label)
    assert (found["n_hallucinated"], found["n_unlabelled"]) == (30, 0)
    assert found["marks"]["n"] == len(rows) - 1
    assert [item["name"] for item in found["marks"]["columns"]] == ["nli"]
    # Among the facts and as a warning, and not again for sentences where answers are meant.
    assert shown.count("sentences: without a label") == 2
    report = run_as_printed(shown, tmp_path)
    assert report["data"]["n_examples"] == len(rows) - 1


def test_words_that_no_listed_sentence_holds_are_told(tmp_path: Path) -> None:
    rows = []
    for row in answers():
        first, second = row["response"].removeprefix("1. ").split(". ")
        listed = [{"text": f"{first}.", "label": 0}, {"text": second, "label": row["label"]}]
        rows.append({"id": row["id"], "response": row["response"], "sentences": listed})
    path = lines(tmp_path / "answers.jsonl", rows)
    # The mark of a list is no statement.
    found, _ = looked_at(path)
    assert (found["marks"]["n"], found["marks"]["set_aside"]) == (N, [])
    for row in rows[:3]:
        row["response"] += " The walls are high."
    found, shown = looked_at(lines(path, rows))
    assert found["marks"]["set_aside"] == [["sentences", "words of the response are in none", 3]]
    assert "words of the response are in none" in " ".join(shown.split())


def test_the_folder_of_labels_and_its_command(tmp_path: Path) -> None:
    rows, folder = answers(), tmp_path / "labels"
    shown_to_people = [
        {k: row[k] for k in ("id", "question", "contexts", "response")} for row in rows
    ]
    marked = {row["id"]: row for row in rows}
    with library.label(shown_to_people, folder, promise=Promise(0.2)) as session:
        while (task := session.next("ada")) is not None:
            row = marked[task.id]
            spans = [(start, end, task.response[start:end]) for start, end in row["spans"]]
            session.put("ada", task.order, row["label"], spans=spans)
    found, shown = looked_at(folder)
    assert (found["format"], found["marks"]["n"]) == ("labels", len(rows))
    assert run_as_printed(shown, tmp_path)["data"]["n_examples"] == len(rows)


@pytest.mark.parametrize("name", ["ragtruth", "faithbench"])
def test_published_marks_and_their_command(tmp_path: Path, real_data: Path, name: str) -> None:
    found, shown = looked_at(real_data / name, "--limit", 150)
    assert run_as_printed(shown, tmp_path)["data"]["n_examples"] == found["marks"]["n"]


def test_of_answers_that_share_a_group_one_counts(tmp_path: Path) -> None:
    # Ten answers to a question: 30 hallucinated ones of six questions, as calibrate counts them.
    rows = [row | {"group": f"q{i // 10}"} for i, row in enumerate(answers())]
    path = lines(tmp_path / "answers.jsonl", rows)
    found, shown = looked_at(path)
    for supports, pac in ((found["supports"], 6), (found["marks"]["supports"], 3)):
        # A promise that proves itself needs no test half; of sentences none does.
        available = {(item["guarantee"], item["available"]) for item in supports}
        assert available == {("marginal", 3), ("pac", pac)}
        assert not any(item["possible"] for item in supports)
    assert "more hallucinated answer" in shown and "calibrail calibrate DATA" not in shown
    done = calibrail(
        "calibrate", path, "--score", "novelty", "--alpha", "0.2", "-o", tmp_path / "r"
    )
    assert done.returncode == 1 and "come from 3 groups" in done.stderr


def table(path: Path, rows: list[list[Any]], names: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([names, *rows])
    return path


NAMES = ["passage", "row", "sentence", "label", "number", "nli"]


def sentences() -> list[list[Any]]:
    """Return 40 answers of three sentences, a row each."""
    return [
        [f"p{i}", f"p{i}-{j}", f"Sentence {i} of {j}.", int(i % 2 and j == 1), j, (i * j % 7) / 7]
        for i in range(40)
        for j in range(3)
    ]


def test_rows_out_of_order_are_named_by_what_numbers_them(tmp_path: Path) -> None:
    options = ("--map", "answer_id=passage,response=sentence")
    path = table(tmp_path / "sentences.csv", sentences(), NAMES)
    found, shown = looked_at(path, *options)
    kept = [{"name": "number", "n": 40, "unsorted": 0, "gaps": 0, "twice": 0}]
    assert found["marks"]["numbered"] == kept
    # What numbers sentences is no score of theirs.
    assert [item["name"] for item in found["marks"]["columns"]] == ["nli"]
    assert "sentences_out_of_order" not in [item["code"] for item in found["warnings"]]
    assert run_as_printed(shown, tmp_path)["score"]["key"] == "column:nli"
    rows = sentences()
    rows[0], rows[2] = rows[2], rows[0]
    del rows[4]
    rows.insert(9, rows[8])
    found, shown = looked_at(table(path, rows, NAMES), *options)
    assert found["marks"]["numbered"] == [
        {"name": "number", "n": 40, "unsorted": 1, "gaps": 1, "twice": 1}
    ]
    assert "of 40 answers there are 1 with rows in another order (sort the file by it)" in shown


def test_a_row_twice_is_refused_where_rows_have_names(tmp_path: Path) -> None:
    rows = sentences()
    path = table(tmp_path / "sentences.csv", [*rows, *rows[3:5]], NAMES)
    options = ("--map", "answer_id=passage,response=sentence", "--id-column", "row")
    found, _ = looked_at(path, *options)
    assert found["marks"]["set_aside"] == [["id", "duplicate", 1]]
    words = ("--unit", "sentence", "--score-column", "nli", "--higher", "hallucinated")
    done = calibrail(
        "calibrate", path, *options, *words, "--strict", "--alpha", "0.2", "-o", tmp_path
    )
    assert done.returncode == 1
    # The row of the file, and what to do about it.
    assert "row 122, field id: duplicate, got 'p1-0'" in done.stderr
    assert "Leave out the rows that stand twice" in done.stderr
