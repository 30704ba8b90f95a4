"""Rows that hold a faithful and a hallucinated answer are read as two answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from calibrail import ReadOptions, calibrate, certify, diagnose, read
from calibrail.errors import CalibrailError, DataError, InputError
from tests.command_line import calibrail

PAIR = {"faithful": "reference", "hallucinated": "edited"}


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "key": f"k{number}",
        "question": f"How deep is lake {number}?",
        "contexts": [f"Lake {number} is {number} m deep.", "It is cold."],
        "reference": f"Lake {number} is {number} m deep.",
        "edited": f"Lake {number} is {number + 700} m deep and salty.",
        "label": "number",
        **more,
    }


def sources(rows: list[dict[str, Any]], folder: Path) -> list[Any]:
    lines, table = folder / "pairs.jsonl", folder / "pairs.csv"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = [{**row, "contexts": json.dumps(row["contexts"])} for row in rows]
    pd.DataFrame(cells).to_csv(table, index=False)
    return [rows, lines, table, pd.DataFrame(rows)]


def test_both_answers_share_what_the_row_holds_and_have_ids_of_their_own(tmp_path: Path) -> None:
    for source in sources([row(n) for n in range(1, 9)], tmp_path):
        held = list(read(source, pair=PAIR, id_column="key"))
        assert [(e.id, e.group, e.label) for e in held[:3]] == [
            ("k1/1", "k1", 0),
            ("k1/2", "k1", 1),
            ("k2/1", "k2", 0),
        ]
        assert held[0].response == "Lake 1 is 1 m deep." and "salty" in held[1].response
        assert held[0].contexts == held[1].contexts and held[0].question == held[1].question


def test_the_answers_of_a_row_keep_the_group_that_it_names() -> None:
    rows = [row(n, source=f"s{n % 3}") for n in range(6)]
    held = list(read(rows, pair=PAIR, group_column="source"))
    assert [e.group for e in held[:4]] == ["s0", "s0", "s1", "s1"]
    assert len({e.id for e in held}) == 12


@pytest.mark.parametrize(
    ("more", "labels", "said"),
    [
        ({"edited": None}, [0], ("edited", "missing")),
        ({"reference": "  "}, [1], ("reference", "missing")),
        ({"edited": "Lake 1 is  1 m deep. "}, [], ("edited", "the same text as reference")),
    ],
)
def test_what_is_no_whole_pair_is_named_and_the_rest_is_read(
    more: dict[str, Any], labels: list[int], said: tuple[str, str]
) -> None:
    opened = read([row(1, **more), row(2)], pair=PAIR)
    assert [e.label for e in opened] == [*labels, 0, 1]
    assert dict(opened.reasons) == {said: 1}
    assert opened.n_rows == 2
    with pytest.raises(DataError, match=f"row 1, field {said[0]}: {said[1]}"):
        list(read([row(1, **more)], pair=PAIR, strict=True))


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    wrong = {"faithful": "reference", "hallucinated": "edit"}
    with pytest.raises(DataError, match=r"no column 'edit' of hallucinated.*reference, edited"):
        read([row(1)], pair=wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pair": {"faithful": "a"}}, "two columns"),
        ({"pair": {"faithful": "a", "hallucinated": "a"}}, "two columns"),
        ({"pair": "a=b"}, "must be a dict"),
        ({"pair": PAIR, "label_column": "label"}, "leave out label_column="),
        ({"pair": PAIR, "positive": 1}, "leave out positive="),
        ({"pair": PAIR, "mapping": {"response": "edited"}}, "leave out mapping={'response'"),
    ],
)
def test_a_pair_says_what_labels_are_and_nothing_else_may(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        ReadOptions(**options)


def test_texts_within_objects_and_scores_of_both_answers_are_read() -> None:
    rows = [
        {"q": {"text": "Which?"}, "a": {"good": f"One {n}.", "bad": f"Two {n}."}, "s": [0.1, 0.9]}
        for n in range(3)
    ]
    pair = {"faithful": "a.good", "hallucinated": "a.bad"}
    held = list(read(rows, pair=pair, require=("response",), keep=("s",)))
    assert [(e.response, e.columns["s"]) for e in held[:2]] == [("One 0.", 0.1), ("Two 0.", 0.9)]


def test_a_benchmark_that_lists_pairs_is_read_as_the_table_that_it_is_where_a_pair_is_named() -> (
    None
):
    rows = [
        {
            "knowledge": f"Fact {n}.",
            "question": f"Which {n}?",
            "right_answer": f"Fact number {n}.",
            "hallucinated_answer": f"No fact {n}.",
        }
        for n in range(3)
    ]
    pair = {"faithful": "right_answer", "hallucinated": "hallucinated_answer"}
    held = list(read(rows, pair=pair))
    assert [(e.label, e.contexts) for e in held[:2]] == [(0, ("Fact 0.",)), (1, ("Fact 0.",))]


def test_the_command_line_reads_pairs_and_so_does_a_certificate_of_the_guardrail(
    tmp_path: Path,
) -> None:
    rows = [row(n) for n in range(1, 61)]
    path = sources(rows, tmp_path)[1]
    words = ["--pair", "faithful=reference,hallucinated=edited", "--id-column", "key"]
    done = calibrail("doctor", str(path), *words)
    assert "60 hallucinated" in done.stdout and "60 faithful" in done.stdout, done.stderr
    run = calibrate(path, "novelty", alpha=0.2, pair=PAIR, id_column="key")
    guardrail = run.freeze()
    fresh = [row(n) for n in range(100, 140)]
    certificate = certify(guardrail, fresh, max_fpr=0.9)
    assert certificate.reading["settings"]["pair"] == PAIR
    plain = [
        {**held, "response": held[name], "verdict": label, "reference": None, "edited": None}
        for held in fresh
        for label, name in enumerate(("reference", "edited"))
    ]
    plainly = certify(guardrail, plain, max_fpr=0.9, label_column="verdict")
    assert "pair" not in plainly.reading["settings"]
    assert plainly.certificate == certificate.certificate
    assert diagnose(rows, pair=PAIR).n_hallucinated == 60


def test_who_reads_the_edited_answer_alone_is_told_of_pairs() -> None:
    rows = [
        {"question": "q", "contexts": ["c"], "response": f"r {n}", "edited_response": f"e {n}"}
        for n in range(4)
    ]
    with pytest.raises(CalibrailError, match=r"pair=\{'faithful': 'response'"):
        list(read([{**row, "label": 1} for row in rows]))


def test_doctor_proposes_a_pair_where_columns_are_named_so() -> None:
    texts = {"reference": "original_text", "edited": "hallucinated_text"}
    rows = [{texts.get(k, k): v for k, v in row(n).items() if k != "label"} for n in range(30)]
    seen = diagnose(rows)
    proposed = "faithful=original_text,hallucinated=hallucinated_text"
    assert seen.suggested == ("--pair", proposed) and seen.answers == ()
    pair = {"faithful": "original_text", "hallucinated": "hallucinated_text"}
    assert (diagnose(rows, pair=pair).n_hallucinated, diagnose(rows, pair=pair).suggested) == (
        30,
        (),
    )


def test_answers_of_a_pair_are_told_by_their_columns_and_no_label_turns_them(
    tmp_path: Path,
) -> None:
    _, _, table, _ = sources([row(n) for n in range(1, 31)], tmp_path)
    pair = ("--pair", "faithful=reference,hallucinated=edited")
    done = calibrail("test", table, *pair, "--score", "length", "--threshold", 27)
    said = " ".join(done.stdout.split())
    assert "30 hallucinated (those in edited)" in said and "label =" not in said
    assert read(table, pair=PAIR).how()["turned"] == []
