"""Does every way of writing a label come out as the class that was meant, or as a refusal?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from calibrail.data import labels as labels_module
from calibrail.data import read
from calibrail.data.labels import LabelReader, TieError, label_key, parse_label
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions
from calibrail.options.fields import pairs
from tests.rows import Write, good


def labels(write: Write, values: list[Any], column: str = "label", **how: Any) -> list[Any]:
    rows = [good(id=i, **{"label": ..., column: value}) for i, value in enumerate(values)]
    return [example.label for example in read(write(*rows), label_column=column, **how)]


def test_a_label_that_comes_again_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, values = LabelReader(ReadOptions(), "label"), [1, True, 1.0, "1", "1.0", 0.0, -0.0]
    first = [reader(value) for value in values]
    monkeypatch.setattr(labels_module, "label_key", None)
    assert [reader(value) for value in values] == first == [1, 1, 1, 1, 1, 0, 0]
    spelt = {"1": 4, "True": 2, "1.0": 4, "0.0": 2, "-0.0": 2}
    assert {value: n for (value, _), n in reader.seen.items()} == spelt


def test_words_of_a_judge_are_looked_up_once_unless_options_leave_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for reading in (ReadOptions(), ReadOptions(positive="bad")):
        reader = LabelReader(reading, "judge", beside=[0, 1])
        words = ["hallucinated", "faithful", 1.0] * 3
        first = [reader(word) for word in words]
        assert (first, reader.n_own) == ([1, 0, 1] * 3, 9 * reader.is_explicit)
        with monkeypatch.context() as patched:
            patched.setattr(LabelReader, "_one", lambda *_: None)
            assert reader(words[0]) == (None if reader.is_explicit else 1)


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
        ("fiel", "alucinada"),
        ("fidèle", "hallucinée"),
        ("sans hallucination", "hallucination"),
        ("corretta", "allucinata"),
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
        ("Not hallucinated.", "Contains hallucination"),
        ("The answer is faithful", "isn't faithful"),
        ("hallucination-free", "factual error"),
        ("fully supported", "not fully supported"),
        ("no factual inconsistencies", "fabricated"),
        ("nicht halluziniert", "halluziniert"),
        ("keine Halluzination", "nicht belegt"),
    ],
)
def test_words_of_one_meaning(faithful: str, hallucinated: str) -> None:
    assert (parse_label(faithful), parse_label(f" {hallucinated} ")) == (0, 1)


@pytest.mark.parametrize(
    "value",
    [
        *["yes", "no", "positive", "neutral", "Benign", "unknown", "-1", -1, 0.5, 2, "01", ""],
        *["partially supported", "mostly correct", "faithful or not", "hallucinated? no", "error"],
        *[
            "not enough info",
            "faithful to style",
            "not completely fabricated",
            "hallucinated: 0",
            "No, faithful",
            "passed hallucination check",
            "no - correct",
            "faithful?",
            "to be supported",
            "failed to answer",
            "nicht vollständig belegt?",
        ],
    ],
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


EITHER = """
n_consistent unsure faithful_to_style thumbs_up partially_supported faithful_or_not helpful
is_resolved was_escalated needs_review isUrgent any_supported quality resolved is_human is_gold
is_flagged escalated reviewed score meta.test outcome closed evidence_found found
passed_hallucination_check valid_hallucination hallucination_false_positive hallucination_fixed
"""


@pytest.mark.parametrize("column", EITHER.split())
def test_a_name_that_may_mean_either_is_asked_about(write: Write, column: str) -> None:
    for values in ([1, 0], [True, False], ["yes", "no"]):
        with pytest.raises(DataError, match="can mean either class: positive="):
            labels(write, values, column)
        assert labels(write, values, column, positive=values[1]) == [0, 1]
        named = label_key(values[0])
        assert labels(write, values, column, label_map={named: 1, label_key(values[1]): 0}) == [
            1,
            0,
        ]
    assert labels(write, ["faithful", "hallucinated"], column) == [0, 1]


def test_true_under_a_name_of_nothing_is_asked_about_and_1_is_the_convention(write: Write) -> None:
    assert labels(write, [1, 0], "reply_7") == [1, 0]
    with pytest.raises(DataError, match="True in a column 'reply_7' can mean either class"):
        labels(write, [True, False], "reply_7")
    for column in ("label", "y_true", "human_2", "gold", "annotator1.label", "flagged"):
        assert labels(write, [True, False, 1], column) == [1, 0, 1]
    for column in ("halluc", "y", "target", "claude_label", "relabelled", "ground_truth", "rater"):
        assert labels(write, [1, 0], column) == [1, 0]
    # Several annotators have names of their own.
    rows = [good(id=i, label=..., alice=i % 2, bob=i % 2) for i in range(4)]
    assert [e.label for e in read(rows, label_column="alice,bob")] == [0, 1, 0, 1]


FAITHFUL = """
no_hallucination not_hallucinated hallucination_free fully_supported passed is_valid truthful
correct grounded verified error_free NoHallucination isFaithful nothallucinated without_errors
is_true all_claims_supported faithfulness_check_passed contains_no_hallucination not_unfaithful
is_ok approved factually_correct supported_by_the_context faithful.value eval.passed.score
free_of_hallucinations no_factual_errors
"""
HALLUCINATED = """
is_not_faithful unfaithful error incorrect isUnfaithful not_supported contains_errors factual_error
not_grounded is_not_true has_hallucinations not_fully_supported hallucination_gpt4 nonfactual
failed_faithfulness_check un_supported ungrounded_claims faithfulness_violation invalid fabricated
hallucination.score failed_hallucination_check
"""


@pytest.mark.parametrize("kind", ["rows", "csv"])
def test_the_name_of_a_column_says_what_true_means(write: Write, tmp_path: Path, kind: str) -> None:
    names = {**dict.fromkeys(FAITHFUL.split(), 0), **dict.fromkeys(HALLUCINATED.split(), 1)}
    for name, meaning in names.items():
        for yes, no in ((1, 0), (True, False), ("yes", "no"), ("1.0", "0")):
            reader = LabelReader(ReadOptions(), name)
            assert (name, reader(yes), reader(no)) == (name, meaning, 1 - meaning)
            assert reader([yes, yes, no]) == meaning and reader({str(no): 2}) == 1 - meaning
            # What values say by themselves needs no name.
            assert (reader("PASS"), reader("not grounded")) == (0, 1)
    # Doctor, the frames of Python and the columns of scores read as `read` does.
    rows = [good(id=i, label=..., no_hallucination=i % 2 == 0) for i in range(4)]
    source: Any = rows if kind == "rows" else tmp_path / "rows.csv"
    if kind == "csv":
        pandas.DataFrame(rows).to_csv(source, index=False)
    read_as = [e.label for e in read(source, label_column="no_hallucination", require=())]
    assert read_as == [0, 1, 0, 1]


def test_a_map_says_what_values_mean_and_the_others_are_set_aside(write: Write) -> None:
    values = ["Unwanted", "unwanted.intrinsic", "Consistent", "Questionable", "Benign", 1]
    how = {"Unwanted": 1, "Consistent": "faithful", "Questionable": "skip", "1.0": "hallucinated"}
    reading_rows = [good(id=i, label=value) for i, value in enumerate(values)]
    reading = read(write(*reading_rows), label_map=how)
    assert [example.label for example in reading] == [1, 1, 0, 1]
    assert reading.reasons == {("label", "not 0 or 1"): 1}
    assert dict(reading.filtered) == {"label left out on request (skip)": 1}
    assert reading.columns.labels.seen["Unwanted", 1] == 1


@pytest.mark.parametrize("spelt", ["Mu\u0308ll", "m\u00fcll\u00a0", "M\u00dcLL\u200b"])
def test_a_label_is_compared_in_canonical_form(write: Write, spelt: str) -> None:
    assert labels(write, [spelt, "gut"], positive="m\u00fcll") == [1, 0]
    assert labels(write, [spelt, "gut"], label_map={"m\u00fcll": 1, "GUT": 0}) == [1, 0]


def test_labels_may_have_a_comma_for_decimals(write: Write) -> None:
    assert labels(write, ["0,0", "1,0"]) == [0, 1]


def test_two_classes_of_one_value_are_refused(write: Write) -> None:
    with pytest.raises(InputError, match="'Bad' two classes"):
        labels(write, ["bad"], label_map={"Bad": 1, "bad": 0})
    with pytest.raises(InputError, match="--label-map gives yes twice, as 1 and as 0"):
        pairs(["yes=1,no=0,yes=0"], "--label-map")
    assert pairs(["yes=1", "yes=1"], "--label-map") == {"yes": "1"}


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


MISSING = ["nan", "NaN", "null", "N/A", "n.a.", "-", "?", " ", "<NA>", None, float("nan")]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_spellings_of_missing_are_no_class_for_anybody(tmp_path: Path, kind: str) -> None:
    values = ["hallucinated", "faithful", *MISSING, "none", "unsure"]
    rows = pandas.DataFrame([good(id=i, label=value) for i, value in enumerate(values)])
    path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        rows.to_csv(path, index=False, na_rep="nan")
    else:
        rows.to_json(path, orient="records", lines=True)
    for how in (
        {},
        {"positive": "hallucinated"},
        {"label_map": {"hallucinated": 1, "faithful": 0}},
    ):
        reading = read(path, **how)  # type: ignore[arg-type]
        assert [example.label for example in reading] == [1, 0]
        assert reading.reasons == {("label", "missing"): 11, ("label", "not 0 or 1"): 2}
    # Who says that one is a class is believed.
    assert LabelReader(ReadOptions(label_map={"-": 1, "+": 0}), "label")("-") == 1
    with pytest.raises(InputError, match=r"'-' stands for no label.*label_map=\{'-': 1"):
        LabelReader(ReadOptions(positive="-"), "label")


@pytest.mark.parametrize(
    ("positive", "faithful", "unread"),
    [
        ("hallucinated", ["faithful", "PASS", "clean"], ["FAIL", "not supported", "wrong"]),
        ("FAIL", ["PASS", "skipped"], ["hallucinated", "unknown", "none"]),
        ("pass", ["FAIL", "fail"], ["correct", "faithful"]),
        ("intrinsic", ["extrinsic", "faithful"], ["hallucinated"]),
        ("0", ["1", True, 1.0, "yes"], ["no"]),
        (True, [0, "0", False, "no"], ["yes"]),
    ],
)
def test_what_means_the_same_as_the_positive_value_is_not_its_opposite(
    positive: Any, faithful: list[Any], unread: list[Any]
) -> None:
    reader = LabelReader(ReadOptions(positive=positive), "label")
    assert reader(positive) == 1
    assert [reader(value) for value in faithful] == [0] * len(faithful)
    assert [reader(value) for value in unread] == [None] * len(unread)


def test_a_positive_value_beside_its_like_is_refused_with_a_map(write: Write) -> None:
    rows = [good(id=i, label=["hallucinated", "faithful", "FAIL"][i % 3]) for i in range(30)]
    with pytest.raises(DataError, match=r"holds fail \(10\), beside .*label_map=.*'fail': '\?'"):
        list(read(write(*rows), positive="hallucinated"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"label": 1, "Label": 0},
            r"label may be in any of the columns label, Label.*label_column=",
        ),
        ({"LABEL": 1, "Label": 1}, "label may be in any of the columns (LABEL|Label)"),
        ({"label": 1, "hallucinated": "no"}, "'label' says hallucinated, and 'hallucinated' holds"),
        ({"label": "FAIL", "is_faithful": True}, "'label' and 'is_faithful' contradict each other"),
        ({"label": 0, "labels": 1}, "'label' and 'labels' contradict"),
        ({"label": 0, "label_name": "hallucinated"}, "'label' and 'label_name' contradict"),
        ({"label": 1, "no_hallucination": True}, "'label' and 'no_hallucination' contradict"),
        ({"label": 1, "meta": {"unfaithful": 0}}, "'label' and 'meta.unfaithful' contradict"),
        ({"hallucinated": 1, "not_faithful": 0}, "'hallucinated' and 'not_faithful' contradict"),
    ],
)
def test_two_columns_that_say_what_the_label_is(columns: dict[str, Any], message: str) -> None:
    first, second = columns
    for names in ((first, second), (second, first)):
        # Wherever they begin to contradict each other, and in whatever order they stand.
        rows = [
            good(id=i, **{"label": ..., **{name: columns[name] for name in names}})
            for i in range(160)
        ]
        for row in rows[:150]:
            row[second] = {"unfaithful": None} if second == "meta" else None
        with pytest.raises(DataError, match=message):
            list(read(rows))
        chosen = [e.label for e in read(rows, label_column=first)]
        assert len(set(chosen)) == 1 and len(chosen) == 160


@pytest.mark.parametrize(
    ("label", "twin", "values"),
    [
        ("hallucinated", "is_correct", (True, False)),
        ("label", "passed", (1, 0)),
        ("label", "gold", (0, 1)),
        ("is_faithful", "has_error", ("yes", "no")),
        ("label", "result", ("PASS", "FAIL")),
        ("label", "judge_passed", (True, False)),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "csv", "table"])
def test_a_column_that_says_the_other_class_of_nearly_all_rows_is_refused(
    tmp_path: Path, kind: str, label: str, twin: str, values: tuple[Any, Any]
) -> None:
    rows = [good(id=i, **{"label": ..., label: 1 - i % 2, twin: values[i % 2]}) for i in range(20)]

    def source() -> Any:
        if kind == "csv":
            pandas.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
        return {"rows": rows, "csv": tmp_path / "rows.csv"}.get(
            kind, pyarrow.Table.from_pylist(rows)
        )

    with pytest.raises(DataError, match=f"'{label}' and '{twin}' contradict each other in 20 of"):
        list(read(source(), require=()))
    expected = [(1 - i % 2) ^ (label == "is_faithful") for i in range(20)]
    assert [e.label for e in read(source(), require=(), label_column=label)] == expected
    # What is the same for all, or has nothing to do with the label, is no mirror.
    for several in ((0, 0), (0, 0, 1, 1)):
        for i, row in enumerate(rows):
            row[twin] = values[several[i % len(several)]]
        assert [e.label for e in read(source(), require=())] == expected


def test_columns_that_agree_or_are_about_something_else_are_left_alone(write: Write) -> None:
    more = {"hallucinated": "yes", "is_faithful": None, "judge_hallucinated": 0, "passed": True}
    rows = [
        good(id=0, label=1, **more),
        good(id=1, label=0, hallucinated="no", adherence_score=0.31, labels=[1, 1], faithfulness=0),
    ]
    assert [example.label for example in read(write(*rows))] == [1, 0]
    # What is asked for as a score is none, whatever it is called.
    scored = [{**row, "hallucinated": 0} for row in rows]
    assert [example.label for example in read(scored, keep=("hallucinated",))] == [1, 0]


def test_an_object_that_says_two_things_under_one_name_is_set_aside(tmp_path: Path) -> None:
    row = json.dumps(good(id=1, label=1))
    lines = [
        row[:-1] + ', "label": 0}',
        row[:-1] + ', "label": 1}',
        json.dumps(good(id=2, label=0)),
    ]
    (path := tmp_path / "rows.jsonl").write_text("\n".join(lines))
    reading = read(path)
    assert [example.label for example in reading] == [1, 0]
    assert reading.reasons == {("row", "an object that names 'label' twice, with two values"): 1}


@pytest.mark.parametrize("kind", ["parquet", "saved", "table", "votes", "struct"])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["hallucinated", "faithful"], [1, 0]),
        (["faithful", "hallucinated"], [0, 1]),
        (["FAIL", "PASS"], [1, 0]),
        (["contradiction", "entailment"], [1, 0]),
        (["not_supported", "supported"], [1, 0]),
        (["yes", "no"], None),
        (["A", "B"], None),
    ],
)
def test_classes_that_a_file_numbers_are_read_by_their_names(
    tmp_path: Path, kind: str, names: list[str], expected: list[int] | None
) -> None:
    feature: Any = {"names": names, "_type": "ClassLabel"}
    numbers: list[Any] = [0, 1, -1, None]
    how: dict[str, Any] = {}
    if kind == "votes":
        feature = {"feature": feature, "_type": "Sequence"}
        numbers = [[n, n, -1] for n in (0, 1)] + [[-1], None]
    if kind == "struct":
        feature, numbers = {"kind": feature}, [{"kind": n} for n in numbers]
        how["label_column"] = "label.kind"
    said = json.dumps({"info": {"features": {"label": feature}}})
    rows = [good(id=i, label=number) for i, number in enumerate(numbers)]
    table = pyarrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": said})
    source: Any = tmp_path / "rows.parquet"
    if kind in ("parquet", "votes", "struct"):
        pyarrow.parquet.write_table(table, source)
    elif kind == "table":
        source = table
    else:
        (source := tmp_path / "saved").mkdir()
        (source / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
        with pyarrow.ipc.new_stream(source / "data.arrow", table.schema) as stream:
            stream.write_table(table)
    if expected is None:
        got = "not 0 or 1" if kind == "votes" else rf"got '{names[0]}'.*(positive|label_map)="
        with pytest.raises(DataError, match=got):
            list(read(source, **how))
        expected, how["positive"] = [1, 0], names[0]
    reading = read(source, **how)
    assert [example.label for example in reading] == expected
    assert {value for value, _ in reading.columns.labels.seen} == set(names)
    # Who knows the numbers may say what these mean.
    how = {name: value for name, value in how.items() if name == "label_column"}
    assert [example.label for example in read(source, positive=1, **how)] == [0, 1]
