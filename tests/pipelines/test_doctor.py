"""Does the diagnosis say what is in a file and what is wrong with it?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import diagnose
from calibrail.data.profile import Diagnosis
from calibrail.errors import DataError
from calibrail.options.fields import cli_spelling
from calibrail.report import render_page
from calibrail.report.documents.doctor import document
from calibrail.scores import DEFAULT_SCORE
from tests.rows import Write, good

#: A page without a price says what tells it.
FIND = (
    "Find what the detector catches, and its price (of 100 good answers, how many are flagged by "
    "mistake): "
)


def _codes(diagnosis: Diagnosis) -> set[str]:
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    return {finding.code for finding in diagnosis.warnings}


def _rows(n: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        good(
            id=i,
            label=i % 2,
            question=f"question {i}",
            contexts=[f"chunk {i}", "more words here"],
            response=f"answer number {i:05d}",
            group=f"g{i // 2}",
            **changes,
        )
        for i in range(n)
    ]


def test_a_sound_file(write: Write) -> None:
    diagnosis = diagnose(write(*_rows(600)))
    assert _codes(diagnosis) == set()
    assert (diagnosis.rows, diagnosis.usable, diagnosis.quarantined) == (600, 600, 0)
    assert (diagnosis.n_faithful, diagnosis.n_hallucinated, diagnosis.n_unlabelled) == (300, 300, 0)
    groups = diagnosis.groups
    assert (groups.n, groups.ungrouped, groups.largest, groups.mixed) == (300, 0, 2, 300)
    question, contexts, response = diagnosis.lengths
    assert (contexts.n, response.median_chars) == (600, 19)
    assert (question.n, question.empty) == (600, 0)
    assert diagnosis.length_auroc == 0.5
    assert {s.name: s.n for s in diagnosis.scores}["sgi"] == 600
    assert len(diagnosis.sha256) == 64


@pytest.mark.parametrize(("n", "alpha"), [(600, "0.05"), (60, "0.1"), (4, None)])
def test_the_next_step_is_one_that_the_file_allows(write: Write, n: int, alpha: str | None) -> None:
    path = write(*_rows(n))
    found = diagnose(path).to_dict()
    step = document(found).next_step
    with cli_spelling():
        typed = document(found).next_step
    if alpha is None:
        assert step.startswith("Label 5 more hallucinated answers")
        assert typed == step
    else:
        command = f"calibrail calibrate {path} --score {DEFAULT_SCORE} --alpha {alpha} -o run"
        call = f"calibrail.calibrate({str(path)!r}, {DEFAULT_SCORE!r}, alpha={alpha})"
        assert [typed, step] == [f"{FIND}{one}" for one in (command, call)]


@pytest.mark.parametrize("mixed", [False, True])
def test_labels_do_not_choose_among_columns_of_scores(write: Write, mixed: bool) -> None:
    rng = np.random.default_rng(0)
    names = ["a_hallucination_score", "b_faithfulness" if mixed else "b_hallucination_score"]
    rows = [
        {"id": f"r{i}", "label": i % 2, **{name: round(float(rng.normal()), 6) for name in names}}
        for i in range(400)
    ]
    path = write(*rows)
    found = diagnose(path).to_dict()
    with cli_spelling():
        typed = document(found).next_step
    higher = ["hallucinated", "faithful" if mixed else "hallucinated"]
    both = [f"--score-column {name}" for name in names] + ["--higher hallucinated"]
    specs = [
        f'column:column="{name}",higher={way}' for name, way in zip(names, higher, strict=True)
    ]
    both = [f"--score '{spec}'" for spec in specs] if mixed else both
    assert typed.startswith(f"{FIND}calibrail compare {path} {' '.join(both)} --alpha 0.")
    assert typed.endswith(" -o run")
    call = document(found).next_step
    compared = f"calibrail.compare({str(path)!r}, {specs!r}, alpha=0."
    assert call.startswith(f"{FIND}{compared}")


def test_labels_do_not_choose_among_columns_whose_names_say_nothing(write: Write) -> None:
    rng, names = np.random.default_rng(0), ["s0", "s1", "s2"]
    rows = [
        {"id": f"r{i}", "label": i % 2, "same": 1.0}
        | {name: round(float(rng.normal(i % 2)), 6) for name in names}
        for i in range(400)
    ]
    path = write(*rows)
    with cli_spelling():
        typed = document(diagnose(path).to_dict()).next_step
    named = " ".join(f"--score-column {name}" for name in names)
    assert f": calibrail compare {path} {named} --higher hallucinated --alpha 0." in typed
    assert "The names s0, s1 and s2 do not say" in typed and "AUROC" not in typed


def test_what_the_calibration_half_supports(write: Write) -> None:
    diagnosis = diagnose(write(*_rows(80)))
    marginal = {s.alpha: s for s in diagnosis.supports if s.guarantee == "marginal"}
    assert {alpha: s.needed for alpha, s in marginal.items()} == {
        0.01: 99,
        0.05: 19,
        0.1: 9,
        0.2: 4,
    }
    # One that needs no test is made of all of them.
    available = {(s.guarantee, s.available) for s in diagnosis.supports}
    assert available == {("marginal", 20), ("pac", 40)}
    assert [s.possible for s in marginal.values()] == [False, True, True, True]
    pac = {s.alpha: s for s in diagnosis.supports if s.guarantee == "pac"}
    # As many as a verdict takes, which is what pac is the default of.
    assert (pac[0.05].needed, pac[0.05].possible) == (72, False)
    few = diagnose(write(*_rows(20)))
    (finding,) = [f for f in few.warnings if f.code == "too_few"]
    assert "5 groups with a hallucinated answer" in finding.message
    assert "alpha 0.2 is the smallest" in finding.message


def test_a_page_says_what_is_there_and_that_half_of_it_calibrates(write: Write) -> None:
    rows = [{**row, "group": row["id"]} for row in _rows(60)]
    made = document(diagnose(write(*rows)).to_dict())
    assert made.headline.endswith(": 30 hallucinated and 30 faithful answers")
    assert "/" not in made.headline and made.summary == "Ready to find a threshold."
    page = render_page(made)
    assert "To calibrate on" in page and "(half of them calibrate)" in page
    unlabelled = [{**row, "label": None} for row in rows]
    made = document(diagnose(write(*unlabelled)).to_dict())
    assert made.headline.endswith(": no labels") and made.summary == "Not ready: no labels."
    one = document(diagnose(write(*({**row, "label": 1} for row in rows))).to_dict())
    assert one.summary == "Not ready: labels of one class alone."
    graded = ({**row, "label": n % 5 + 1} for n, row in enumerate(rows))
    asked = document(diagnose(write(*graded)).to_dict())
    assert asked.summary == "Not ready: say first what the columns mean."
    few = document(diagnose(write(*rows[:4])).to_dict())
    assert few.summary == "Not ready: too few labels."


def test_bad_rows_are_counted_by_reason(write: Write, tmp_path: Path) -> None:
    target = tmp_path / "q.jsonl"
    rows = [*_rows(40), "{", good(id="x", response=""), good(id="y", response=" ")]
    diagnosis = diagnose(write(*rows), quarantine=target)
    assert diagnosis.reasons == (("response", "empty", 2), ("row", "broken JSON", 1))
    assert "quarantined" in _codes(diagnosis)
    assert len(target.read_text().splitlines()) == 3


def test_nothing_usable_is_a_diagnosis_and_a_missing_file_an_error(
    write: Write, tmp_path: Path
) -> None:
    diagnosis = diagnose(write(good(label="yes")))
    assert _codes(diagnosis) == {"nothing_usable", "quarantined"}
    assert _codes(diagnose(write(name="none.jsonl"))) == {"empty"}
    with pytest.raises(DataError, match="no file or folder"):
        diagnose(tmp_path / "nothing.csv")


def test_unlabelled_and_one_class(write: Write) -> None:
    rows = [{k: v for k, v in row.items() if k != "label"} for row in _rows(4)]
    diagnosis = diagnose(write(*rows))
    assert "unlabelled" in _codes(diagnosis)
    assert (diagnosis.n_unlabelled, diagnosis.supports, diagnosis.cross_split) == (4, (), None)
    assert "one_class" in _codes(diagnose(write(*[{**row, "label": 0} for row in _rows(4)])))


def test_duplicates_and_contradictions(write: Write) -> None:
    rows = _rows(600)
    same = {"question": "a b c d", "contexts": ["x"], "response": "e f g h"}
    rows += [good(id=f"d{i}", group=f"d{i}", label=i % 2, **same) for i in range(40)]
    diagnosis = diagnose(write(*rows))
    assert (diagnosis.repeated, diagnosis.contradictory) == (39, 1)
    assert {"contradictory_labels", "repeated", "copies"} <= _codes(diagnosis)
    # Copies are on one side of the default split, as in a run.
    assert diagnosis.copies == {"n": 40, "n_groups": 1, "largest": 40}
    assert diagnosis.cross_split is not None and diagnosis.cross_split.count == 0
    other = [row | {"contexts": [f"another one, {i}"]} for i, row in enumerate(rows[-40:])]
    diagnosis = diagnose(write(*rows[:600], *other))
    assert "cross_split_duplicates" in _codes(diagnosis) and not diagnosis.copies["n"]
    assert diagnosis.cross_split is not None
    assert diagnosis.cross_split.exact == diagnosis.cross_split.count == 40


def test_length_that_tells_the_classes_apart(write: Write) -> None:
    rows = [{**row, "response": "word " * (3 + 5 * row["label"])} for row in _rows(100)]
    diagnosis = diagnose(write(*rows))
    assert diagnosis.length_auroc == 1.0
    (finding,) = [f for f in diagnosis.warnings if f.code == "length_separates"]
    assert "AUROC 1.000" in finding.message
    assert "longer" in finding.message


def test_length_that_may_differ_by_chance_separates_nothing(write: Write) -> None:
    lengths = {0: range(20, 84), 1: range(20, 116, 4)}
    rows = [row for label, of in lengths.items() for row in _of_lengths(label, of)]
    few, many = diagnose(write(*rows)), diagnose(write(*rows * 8))
    assert few.length_auroc == many.length_auroc > 0.6
    assert "length_separates" not in _codes(few) and "length_separates" in _codes(many)


def _of_lengths(label: int, lengths: Iterable[int]) -> list[dict[str, Any]]:
    return [
        {"question": "q", "response": "x" * n, "contexts": ["c"], "label": label} for n in lengths
    ]


def test_texts_that_are_missing(write: Write) -> None:
    rows = [{**row, "contexts": []} for row in _rows(50)]
    diagnosis = diagnose(write(*rows))
    assert "empty_contexts" in _codes(diagnosis)
    said = next(item.message for item in diagnosis.warnings if item.code == "empty_contexts")
    assert said.endswith("cannot be computed there; a score in a column needs none.")
    assert {s.name: s.n for s in diagnosis.scores}["rad"] == 0
    assert {s.name: s.n for s in diagnosis.scores}["length"] == 50
    assert "large_group" in _codes(diagnose(write(*[{**r, "group": "g"} for r in _rows(50)])))


def test_columns_of_scores(tmp_path: Path) -> None:
    lines = ["id,label,good,half,none,words,twin"]
    lines += [
        f"{i},{i % 2},{i % 2 + i / 50},{i if i < 30 else ''},,w{i},{i % 2}" for i in range(60)
    ]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines))
    diagnosis = diagnose(path)
    columns = {column.name: column for column in diagnosis.numeric_columns}
    assert set(columns) == {"good", "half", "twin"}
    assert (columns["half"].n, columns["half"].missing, columns["half"].distinct) == (30, 30, 30)
    assert columns["good"].auroc is not None
    assert 0.5 < columns["good"].auroc < 1
    assert diagnosis.empty_columns == ("none",)
    assert {"no_texts", "empty_columns", "column_tells_label"} <= _codes(diagnosis)
    assert [name for name, column in columns.items() if column.tells_label] == ["twin"]


def test_the_auroc_of_a_column_leaves_out_rows_without_a_value(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 6, 80).astype(float)
    values[:5] = np.nan
    labels = rng.integers(0, 2, 80)
    path = tmp_path / "scores.csv"
    cells = ["" if np.isnan(value) else value for value in values]
    rows = (f"{label},{cell}" for label, cell in zip(labels, cells, strict=True))
    path.write_text("label,score\n" + "\n".join(rows))
    high, low = (values[~np.isnan(values) & (labels == side)] for side in (1, 0))
    wins = (high[:, None] > low).mean() + 0.5 * (high[:, None] == low).mean()
    (column,) = diagnose(path).numeric_columns
    assert column.auroc == pytest.approx(wins, abs=1e-12)
    path.write_text("label,score\n0,1\n0,2\n")
    assert diagnose(path).numeric_columns[0].auroc is None


def test_the_real_files(real_data: Path) -> None:
    qa = diagnose(real_data / "halueval" / "qa_data.json")
    faithbench = diagnose(real_data / "faithbench" / "summaries.csv")
    assert not {"labels_look_inverted", "context_is_answer"} & (_codes(qa) | _codes(faithbench))
    turned = diagnose(real_data / "faithbench" / "summaries.csv", positive=0)
    assert "labels_look_inverted" in _codes(turned)
    assert turned.reading["turned"] == ["--positive", "1"]
    assert qa.length_auroc == pytest.approx(0.976, abs=0.001)
    frank = diagnose(real_data / "frank" / "metric_scores.csv")
    assert frank.empty_columns == ("dae",)
    assert {c.name for c in frank.numeric_columns} >= {"factcc", "qags", "rouge_l"}
    assert all(c.auroc is not None and c.auroc < 0.5 for c in frank.numeric_columns)
    ragtruth = diagnose(real_data / "ragtruth")
    assert ragtruth.groups.n == 82
    # Its spans are marks, and no column of scores that tells the label.
    assert not ragtruth.numeric_columns or {c.name for c in ragtruth.numeric_columns} == {
        "temperature"
    }
    assert "empty_contexts" in _codes(diagnose(real_data / "truthfulqa" / "TruthfulQA.csv"))


def test_a_judge_that_says_yes_or_no_is_tested_and_not_calibrated(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{i},Answer {i},{int(i % 3 == 0)},{int(i % 4 == 0)}" for i in range(240)]
    path.write_text("\n".join(["id,response,label,judge_flag", *lines]))
    step = document(diagnose(path).to_dict()).next_step or ""
    assert "calibrail.test(" in step and "higher=hallucinated" in step
    assert "calibrate(" not in step and "alpha" not in step
    # Two other numbers may have a threshold between them.
    path.write_text(path.read_text().replace(",0\n", ",0.2\n").replace(",1\n", ",0.9\n"))
    assert "calibrail.calibrate(" in (document(diagnose(path).to_dict()).next_step or "")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        # Of a yes the name must say what it means; a word of a class says it.
        (("yes", "no"), ("hallucinated", "faithful")),
        (("FAIL", "PASS"), ("hallucinated",)),
        (("Supported", "Unsupported"), ("hallucinated",)),
    ],
)
def test_a_judge_that_says_words_is_tested(
    write: Write, words: tuple[str, str], options: tuple[str, ...]
) -> None:
    """It has no other threshold to find, and its words are as good as 1 and 0."""
    rows = _rows(300)
    for i, row in enumerate(rows):
        row["judge"] = words[(i % 2) ^ (i % 7 == 0)]
        del row["contexts"]
    rows[3]["judge"] = "n/a"
    diagnosis = diagnose(path := write(*rows))
    with cli_spelling():
        page = document(diagnosis.to_dict())
    steps = [page.next_step, *page.alternatives]
    for step, meaning in zip(steps, options, strict=True):
        asked = f"calibrail test {path} --score-column judge --higher {meaning} -o run"
        assert step.endswith(asked), step
    assert ("a yes means" in steps[0]) == (len(options) == 2)


@pytest.mark.parametrize(
    ("column", "values", "advised"),
    [
        # Words that are no judge's, whatever they say elsewhere.
        ("country", ("NO", "NO"), "calibrate {} --score length"),
        ("department", ("support", "support"), "calibrate {} --score length"),
        ("side", ("right", "wrong"), "calibrate {} --score length"),
        ("is_public", ("yes", "no"), "calibrate {} --score length"),
        # Beside a score it is the score that has a threshold.
        ("judge", ("PASS", "FAIL"), "calibrate {} --score-column score"),
    ],
)
def test_words_of_other_columns_are_no_verdict(
    write: Write, column: str, values: tuple[str, str], advised: str
) -> None:
    rows = _rows(300)
    for i, row in enumerate(rows):
        row[column] = values[(i % 2) ^ (i % 7 == 0)]
        row |= {"score": i % 19 + i % 2} if column == "judge" else {}
        del row["contexts"]
    with cli_spelling():
        page = document(diagnose(path := write(*rows)).to_dict())
    assert f"calibrail {advised.format(path)}" in page.next_step
