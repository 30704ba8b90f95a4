"""Does every way of writing a label come out as the class that was meant, or as a refusal?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from calibrail.data import read
from calibrail.data.labels import LabelReader, TieError, parse_label
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions
from tests.rows import Write, good


def labels(write: Write, values: list[Any], column: str = "label", **how: Any) -> list[Any]:
    rows = [good(id=i, **{"label": ..., column: value}) for i, value in enumerate(values)]
    return [example.label for example in read(write(*rows), label_column=column, **how)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["label", "hallucinated"])
def test_the_zero_below_zero_of_floating_point_numbers_is_zero(
    tmp_path: Path, kind: str, name: str
) -> None:
    rows = [good(id=i, **{"label": ..., name: value}) for i, value in enumerate([1.0, -0.0, 0.0])]
    frame, path = pandas.DataFrame(rows), tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert '": -0.0' in path.read_text()
    elif kind == "csv":
        frame.assign(contexts='["c"]').to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    assert [example.label for example in read(path, label_column=name)] == [1, 0, 0]
    # Without texts, where scores are read as columns, it is the same.
    frame.assign(s=[0.1, 0.2, 0.3])[[name, "s"]].to_parquet(tmp_path / "scores.parquet")
    alone = read(tmp_path / "scores.parquet", require=(), label_column=name)
    assert [example.label for example in alone] == [1, 0, 0]


@pytest.mark.parametrize(
    ("faithful", "hallucinated"),
    [
        ("faithful", "hallucinated"),
        ("PASS", "FAIL"),
        ("CORRECT", "INCORRECT"),
        ("supported", "unsupported"),
        ("Supported", "Not Supported"),
        ("consistent", "inconsistent"),
        ("entailment", "contradiction"),
        ("factual", "non-factual"),
        ("grounded", "not_grounded"),
        ("no hallucination", "hallucination"),
        ("accurate", "major_inaccurate"),
        ("attributable", "Not attributable"),
    ],
)
def test_words_of_one_meaning(faithful: str, hallucinated: str) -> None:
    assert (parse_label(faithful), parse_label(f" {hallucinated} ")) == (0, 1)


@pytest.mark.parametrize(
    "value", ["yes", "no", "positive", "neutral", "Benign", "unknown", "-1", -1, 0.5, 2, "01", ""]
)
def test_words_of_no_one_meaning(value: object) -> None:
    assert parse_label(value) is None


@pytest.mark.parametrize(
    "column", ["hallucinated", "is_hallucination", "isUnfaithful", "m.unsupported"]
)
@pytest.mark.parametrize("values", [[1, 0], ["yes", "no"], [True, False], ["Y", "n"], [1.0, "0.0"]])
def test_a_column_that_is_named_after_hallucination(
    write: Write, column: str, values: list[Any]
) -> None:
    assert labels(write, values, column) == [1, 0]


@pytest.mark.parametrize(
    "column", ["is_faithful", "adherence_score", "label_consistent", "supported", "Factual"]
)
@pytest.mark.parametrize("values", [[1, 0], ["yes", "no"], [True, False], ["1.0", 0.0]])
def test_a_column_that_is_named_after_faithfulness_is_read_the_other_way(
    write: Write, column: str, values: list[Any]
) -> None:
    assert labels(write, values, column) == [0, 1]
    assert labels(write, values, column, positive=values[0]) == [1, 0]


@pytest.mark.parametrize(
    "column", ["factual_errors", "n_consistent", "unsure", "faithful_to_style"]
)
def test_a_name_that_only_resembles_one_says_nothing(write: Write, column: str) -> None:
    assert labels(write, [1, 0], column) == [1, 0]


def test_a_map_says_what_values_mean_and_the_others_are_set_aside(write: Write) -> None:
    values = ["Unwanted", "unwanted.intrinsic", "Consistent", "Questionable", "Benign", 1]
    how = {"Unwanted": 1, "Consistent": "faithful", "Questionable": "skip", "1.0": "hallucinated"}
    reading_rows = [good(id=i, label=value) for i, value in enumerate(values)]
    reading = read(write(*reading_rows), label_map=how)
    assert [example.label for example in reading] == [1, 1, 0, 1]
    assert reading.reasons == {("label", "not 0 or 1"): 1}
    assert dict(reading.filtered) == {"label left out on request (skip)": 1}
    assert reading.columns.labels.seen["Unwanted", 1] == 1


def test_the_positive_value_turns_labels_around(write: Write) -> None:
    assert labels(write, [1, 0, "1.0", "0.0"], positive="0") == [0, 1, 0, 1]
    assert labels(write, ["Yes", "no"], positive="no") == [0, 1]


def test_what_cannot_be_asked_of_labels() -> None:
    from calibrail.options import ReadOptions

    with pytest.raises(InputError, match=r"label_map must give each value 1 .* got PASS=maybe"):
        ReadOptions(label_map={"PASS": "maybe"})
    with pytest.raises(InputError, match="label_map or positive, not both"):
        ReadOptions(label_map={"PASS": 0}, positive="FAIL")
    with pytest.raises(InputError, match="annotators must be one of majority, any, all"):
        ReadOptions(annotators="most")  # type: ignore[arg-type]


VOTES = [[1, 1, 0], [0, 0, 1], [1, 1], [0, None], [1, 0]]


@pytest.mark.parametrize(
    ("annotators", "expected"),
    [("majority", [1, 0, 1, 0]), ("any", [1, 1, 1, 0, 1]), ("all", [0, 0, 1, 0, 0])],
)
def test_annotators_in_a_list_or_in_columns(
    write: Write, annotators: Any, expected: list[int]
) -> None:
    listed = read(write(*(good(id=i, label=v) for i, v in enumerate(VOTES))), annotators=annotators)
    assert [example.label for example in listed] == expected
    assert (listed.columns.labels.n_several, listed.columns.labels.n_divided) == (4, 3)
    rows = []
    for i, votes in enumerate(VOTES):
        a, b, c = (*votes, None)[:3]
        rows.append(good(id=i, label=..., ann_a=a, ann_b=b, ann_c=c))
    for names in ("ann_a,ann_b, ann_c", ("ann_a", "ann_b", "ann_c")):
        beside = read(write(*rows), label_column=names, annotators=annotators)
        assert [example.label for example in beside] == expected
        tied = annotators == "majority"
        assert beside.reasons == ({("label", "annotators tie"): 1} if tied else {})


def test_a_column_of_an_annotator_that_is_not_there(write: Write) -> None:
    with pytest.raises(DataError, match="no label column 'b'; columns seen"):
        read(write(good()), label_column="label,b")


def test_votes_are_counted() -> None:
    reader = LabelReader(ReadOptions(positive="yes"), "votes")
    assert [reader({"yes": 2, "no": 1}), reader('{"yes": 1, "no": 2.0}')] == [1, 0]
    assert reader({"yes": 1, "no": None}) == 1
    assert reader.seen == {("yes", 1): 4, ("no", 0): 3}
    assert (reader.n_several, reader.n_divided) == (2, 2)
    with pytest.raises(TieError, match="5 of 10 say"):
        reader({"yes": 5, "no": 5})
    words = LabelReader(ReadOptions(annotators="all"), "votes")
    assert words({"hallucinated": 9, "faithful": 1}) == 0
    assert words({"hallucinated": 10**12, "faithful": 0}) == 1
    assert [words({"hallucinated": 0.5}), words({"hallucinated": -1}), words({})] == [None] * 3
    assert words({"hallucinated": float("nan")}) is None
