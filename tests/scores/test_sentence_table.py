from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data.splits import CALIBRATION, TEST
from calibrail.data.tables import string_array
from calibrail.evaluation.measures import Outcomes
from calibrail.options.guarantee import Undefined
from calibrail.scores.table import ScoreTable, SentenceTable
from calibrail.text.structure import Joins

NAN = float("nan")
POLICIES: tuple[Undefined, ...] = ("flag", "review", "pass")

#: Few values, so that scores tie, and now and then none.
SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.75, NAN])
#: Answers as lists of sentences: label and score.
ANSWERS = st.lists(st.lists(st.tuples(st.integers(0, 1), SCORES), max_size=6), max_size=8)
Answers = list[list[tuple[int, float]]]


def table_of(answers: Answers) -> SentenceTable:
    labels = np.array([label for answer in answers for label, _ in answer], np.int8)
    scores = np.array([score for answer in answers for _, score in answer], np.float64)
    return SentenceTable.of(list(map(len, answers)), labels, rad=scores)


def removed(score: float, threshold: float, undefined: str) -> bool:
    """Say whether a sentence goes, by the definition."""
    return undefined != "pass" if np.isnan(score) else score >= threshold


@given(ANSWERS, st.sampled_from(POLICIES), st.sampled_from([-1.0, 0.0, 0.25, 0.3, 0.75, 9.0]))
def test_a_value_reaches_the_threshold_exactly_where_the_answer_is_freed_or_touched(
    answers: Answers, undefined: Undefined, threshold: float
) -> None:
    table = table_of(answers)
    values = table.values("rad", undefined)
    for answer, value in zip(answers, values.tolist(), strict=True):
        reaches = undefined != "pass" if np.isnan(value) else value >= threshold
        unsupported = [score for label, score in answer if label == 1]
        if unsupported:
            assert reaches == all(removed(score, threshold, undefined) for score in unsupported)
        elif answer:
            assert reaches == any(removed(score, threshold, undefined) for _, score in answer)
        else:
            assert np.isnan(value)


@given(ANSWERS, st.sampled_from(POLICIES), st.sampled_from([-1.0, 0.0, 0.25, 0.3, 0.75, 9.0]))
def test_what_is_left_is_counted_sentence_by_sentence(
    answers: Answers, undefined: Undefined, threshold: float
) -> None:
    table = table_of(answers)
    trimming = table.trim("rad", np.full(len(answers), threshold), undefined, 0.0)
    outcomes = Outcomes.of(table, trimming)
    flat = [removed(score, threshold, undefined) for answer in answers for _, score in answer]
    assert trimming.removed.tolist() == trimming.reached.tolist() == flat
    for row, answer in enumerate(answers):
        gone = [removed(score, threshold, undefined) for _, score in answer]
        reviewed = undefined == "review" and any(np.isnan(score) for _, score in answer)
        shown = [label for (label, _), is_gone in zip(answer, gone, strict=True) if not is_gone]
        shown = [] if reviewed else shown
        n_supported = sum(label == 0 for label, _ in answer)
        assert outcomes.reviewed[row] == reviewed
        assert outcomes.freed[row] == (1 not in shown)
        assert outcomes.untouched[row] == (not any(gone) and not reviewed)
        assert outcomes.emptied[row] == (bool(answer) and all(gone) and not reviewed)
        share = outcomes.kept[row]
        if n_supported:
            assert share == shown.count(0) / n_supported
        else:
            assert np.isnan(share)


def test_a_near_tie_is_removed() -> None:
    table = SentenceTable.of([2], np.array([1, 0], np.int8), rad=np.array([0.4999, 0.1]))
    at = np.array([0.5])
    assert table.trim("rad", at, "flag", 0.0).removed.tolist() == [False, False]
    assert table.trim("rad", at, "flag", 1e-3).removed.tolist() == [True, False]


def test_every_answer_may_have_a_threshold_of_its_own() -> None:
    table = SentenceTable.of([1, 1, 1], np.zeros(3, np.int8), rad=np.array([0.3, 0.3, 0.3]))
    at = np.array([0.2, 0.4, -np.inf])
    assert table.trim("rad", at, "flag", 0.0).removed.tolist() == [True, False, True]


def test_what_is_introduced_goes_with_what_it_introduces_and_what_is_torn_is_reviewed() -> None:
    # Answer 1: "Three reasons:" and two of them. Answer 2: one sentence leans on the one before.
    joins = Joins(
        np.array([2, 0, 0, 0, 0], np.int32),
        np.array([0, 0, 0, 0, 1], np.int32),
        np.zeros(5, np.int32),
    )
    labels = np.array([0, 1, 1, 1, 0], np.int8)
    plain = SentenceTable.of([3, 2], labels, rad=np.array([0.0, 0.9, 0.8, 0.9, 0.1]))
    table = SentenceTable(
        **{name: getattr(plain, name) for name in plain.__slots__ if name != "joins"}, joins=joins
    )
    trimming = table.trim("rad", np.full(2, 0.5), "flag", 0.0)
    assert trimming.reached.tolist() == [False, True, True, True, False]
    assert trimming.removed.tolist() == [True, True, True, True, False]
    assert trimming.reviewed.tolist() == [False, True]
    outcomes = Outcomes.of(table, trimming)
    # The introduction was supported, and an answer under review shows nothing.
    assert outcomes.kept.tolist() == [0.0, 0.0]
    assert outcomes.emptied.tolist() == [True, False]
    assert outcomes.freed.all()
    part = table.of_answers(np.array([False, True]))
    assert part.joins.leans.tolist() == [0, 1]


@given(ANSWERS, st.data())
def test_some_of_the_answers_are_a_table_of_their_own(answers: Answers, data: Any) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(answers), max_size=len(answers)))
    part = table_of(answers).of_answers(np.array(chosen, np.bool_))
    alone = table_of([item for item, kept in zip(answers, chosen, strict=True) if kept])
    assert part.first.tolist() == alone.first.tolist()
    assert part.labels.tolist() == alone.labels.tolist()
    np.testing.assert_array_equal(part.columns["rad"], alone.columns["rad"])


@given(ANSWERS)
def test_the_highest_sentence_of_each_answer_is_one_with_a_score(answers: Answers) -> None:
    highest = np.split(table_of(answers).highest("rad"), np.cumsum(list(map(len, answers)))[:-1])
    for answer, found in zip(answers, highest, strict=False):
        scores = [score for _, score in answer]
        defined = [score for score in scores if not np.isnan(score)]
        expected = [False] * len(scores)
        if defined:
            expected[scores.index(max(defined))] = True
        assert found.tolist() == expected


def answers_table(n: int) -> ScoreTable:
    return ScoreTable(
        ids=string_array([f"a{row}" for row in range(n)]),
        groups=string_array([None] * n),
        labels=np.zeros(n, np.int8),
        columns={},
        reasons={},
        digests=np.arange(n, dtype=np.uint64),
    )


def test_a_file_has_a_row_for_each_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("calibrail.scores.table.WRITTEN", 2)
    plain = SentenceTable.of([2, 0, 3], np.array([0, 1, 0, 1, -1], np.int8))
    fields = {name: getattr(plain, name) for name in plain.__slots__}
    fields["columns"] = {
        "rad": np.array([0.1, NAN, 0.2, 0.3, NAN]),
        "nli": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
    }
    fields["reasons"] = {"rad": {1: "no word", 4: "no number"}, "nli": {}}
    fields["starts"] = np.array([0, 5, 0, 4, 8], np.int32)
    fields["ends"] = fields["starts"] + 4
    table = SentenceTable(**fields)
    codes = np.array([CALIBRATION, TEST, TEST], np.int8)
    table.to_parquet(tmp_path / "sentences.parquet", answers_table(3), codes)
    rows = pq.read_table(tmp_path / "sentences.parquet").to_pylist()
    assert list(rows[0]) == [
        *("id", "sentence", "start", "end", "label", "split"),
        *("rad", "rad__reason", "nli"),
    ]
    assert [row["id"] for row in rows] == ["a0", "a0", "a2", "a2", "a2"]
    assert [row["sentence"] for row in rows] == [1, 2, 1, 2, 3]
    assert [row["label"] for row in rows] == [0, 1, 0, 1, None]
    assert [row["split"] for row in rows] == ["calibration", "calibration", "test", "test", "test"]
    assert [row["rad__reason"] for row in rows] == [None, "no word", None, None, "no number"]
    assert [(row["start"], row["end"]) for row in rows][:3] == [(0, 4), (5, 9), (0, 4)]
