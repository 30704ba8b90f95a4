"""Are marks read with their answers, and set aside where they contradict the label?"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail import diagnose
from calibrail.data import Example, read, read_all
from calibrail.data.dataset import NotPlainError
from calibrail.data.example import GivenSentence
from calibrail.data.sentences import sentence_examples
from calibrail.errors import DataError, InputError
from tests.rows import Write, good

TEXT = "It rained. The sun shone. It blew."


def answer(**values: Any) -> dict[str, Any]:
    return good(response=TEXT, **values)


def marks_of(source: Any, **how: Any) -> list[Example]:
    return list(read(source, by_sentence=True, **how))


@pytest.mark.parametrize("shape", ["jsonl", "json", "csv", "parquet", "rows", "frame", "examples"])
def test_spans_are_the_same_from_every_format(shape: str, tmp_path: Path, write: Write) -> None:
    spans: list[Any] = [[[11, 24]], []]
    rows = [
        {**json.loads(json.dumps(answer(id=name, label=label))), "spans": marked}
        for name, label, marked in zip("ab", (1, 0), spans, strict=True)
    ]
    source: Any = rows
    if shape == "jsonl":
        source = write(*rows)
    elif shape == "json":
        source = tmp_path / "answers.json"
        source.write_text(json.dumps(rows), encoding="utf-8")
    elif shape == "csv":
        source = tmp_path / "answers.csv"
        with source.open("w", newline="", encoding="utf-8") as stream:
            table = csv.DictWriter(stream, rows[0])
            table.writeheader()
            table.writerows(
                {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()}
                for row in rows
            )
    elif shape == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        source = tmp_path / "answers.parquet"
        pq.write_table(pa.Table.from_pylist(rows), source)
    elif shape == "frame":
        source = pytest.importorskip("pandas").DataFrame(rows)
    elif shape == "examples":
        source = [
            Example("q", ("c",), TEXT, 1, id="a", spans=((11, 24),)),
            Example("q", ("c",), TEXT, 0, id="b", spans=()),
        ]
    first, second = marks_of(source)
    assert (first.spans, first.label, first.sentences) == (((11, 24),), 1, None)
    assert (second.spans, second.label) == ((), 0)
    assert [item.label for item in sentence_examples(first)] == [0, 1, 0]


def test_marks_are_left_alone_where_answers_are_asked_for(write: Write) -> None:
    path = write(answer(label=1, spans=[[90, 95]]))
    (example,) = read(path)
    assert (example.spans, example.label) == (None, 1)
    # Nor are they a column of their own, to be carried along.
    (example,) = read(path, keep=["*"])
    assert example.columns == {}


def test_an_answer_is_hallucinated_where_something_is_marked(write: Write) -> None:
    path = write(answer(label=..., spans=[[11, 24]]), answer(label=..., id="b", spans=[]))
    examples, reading = read_all(path)
    assert [example.label for example in examples] == [1, 0]
    values = reading.how()["labels"]["values"]  # type: ignore[index]
    assert [item["value"] for item in values] == ["some marked spans", "no marked spans"]
    assert [example.label for example in marks_of(path)] == [1, 0]


def test_a_column_is_named_and_may_be_that_of_the_labels(write: Write) -> None:
    path = write(answer(label=1, extra={"bad": [{"start": 0, "end": 9}]}))
    (example,) = marks_of(path, mapping={"spans": "extra.bad"})
    assert example.spans == ((0, 9),)
    path = write(answer(label=..., labels=[{"start": 0, "end": 9}]), name="lettuce.jsonl")
    (example,) = marks_of(path)
    assert (example.spans, example.label) == (((0, 9),), 1)
    with pytest.raises(DataError, match="no column 'nowhere' to map to spans"):
        read(path, mapping={"spans": "nowhere"})
    # What is to be checked has no marks yet.
    (example,) = marks_of(path, mapping={"spans": "nowhere"}, labelled=False)
    assert example.spans is None
    with pytest.raises(InputError, match="spans, sentences, sentence_labels, answer_id"):
        read(path, mapping={"marks": "labels"})


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        (answer(label=1), "spans", "hallucinated, and nobody marked what"),
        (answer(label=1, spans=None), "spans", "hallucinated, and nobody marked what"),
        (answer(label=1, spans=[]), "spans", "hallucinated, and nothing is marked"),
        (answer(label=1, spans=[[10, 11]]), "spans", "hallucinated, and nothing is marked"),
        (answer(label=0, spans=[[0, 2]]), "spans", "faithful, and something is marked"),
        (answer(label=1, spans=[[30, 99]]), "spans", "outside the response"),
        (good(response="***", label=0, spans=[]), "response", "holds no sentence"),
        (
            good(response="1. It rained.", label=1, spans=[[0, 2]]),
            "spans",
            "marked outside of every sentence",
        ),
        (answer(label=1, sentences=["It rained.", 7]), "sentences", "wrong type"),
        (
            answer(
                label=1,
                sentences=[{"text": "It rained.", "label": 1}, {"text": "The sun shone. It blew."}],
            ),
            "sentences",
            "without a label",
        ),
        (
            answer(label=1, sentences=[{"text": TEXT, "label": 0}]),
            "sentences",
            "hallucinated, and nothing is marked",
        ),
        (
            answer(label=0, sentences=[{"text": TEXT, "label": 1}]),
            "sentences",
            "faithful, and something is marked",
        ),
        (
            answer(label=1, sentences=["It rained.", "It blew."], spans=[[0, 18]]),
            "sentences",
            "words of the response are in none",
        ),
        (
            answer(label=1, sentences=[{"text": "It blew.", "label": "maybe"}]),
            "label",
            "not 0 or 1",
        ),
        (
            answer(
                label=1, sentences=[{"text": t, "label": 1} for t in ("It blew.", "It rained.")]
            ),
            "sentences",
            "not in the response",
        ),
        (
            answer(label=1, sentences=["It rained."], sentence_labels=[1, 0]),
            "sentences",
            "not one label for each sentence",
        ),
    ],
)
def test_what_contradicts_itself_is_set_aside(
    write: Write, tmp_path: Path, row: Any, field: str, reason: str
) -> None:
    fine = {"sentences": [{"text": TEXT, "label": 0}], "sentence_labels": [0]}
    if "sentences" not in row:
        fine = {"spans": []}
    elif "sentence_labels" not in row:
        del fine["sentence_labels"]
    path = write(answer(id="z", label=0, **fine), row)
    target = tmp_path / "quarantine.jsonl"
    reading = read(path, by_sentence=True, quarantine=target)
    assert [example.id for example in reading] == ["z"]
    assert reading.reasons == Counter({(field, reason): 1})
    (entry,) = map(json.loads, target.read_text(encoding="utf-8").splitlines())
    assert (entry["row"], entry["field"]) == (2, field)
    with pytest.raises(DataError, match=rf"row 2, field {field}: {reason}.*\. \w"):
        marks_of(path, strict=True)


def test_a_faithful_answer_that_nobody_marked_is_a_clean_one(write: Write) -> None:
    (example, _) = marks_of(write(answer(label=0), answer(id="b", label=1, spans=[[0, 2]])))
    assert example.spans == ()


def test_the_share_that_spans_must_cover_decides_on_the_label(write: Write) -> None:
    # 4 of the 12 letters and points of the second sentence.
    path = write(answer(label=1, spans=[[11, 16]]), answer(id="b", label=1, spans=[[0, 9]]))
    half = marks_of(path, span_share=0.5)
    assert [example.label for example in half] == [0, 1]
    assert [example.label for example in marks_of(path)] == [1, 1]
    assert [example.label for example in marks_of(path, span_share=1 / 3)] == [1, 1]


SENTENCES = [
    {"text": "It rained.", "supported": True, "nli": 0.1},
    {"text": "The sun shone.", "supported": False, "nli": "0.9"},
]


def test_sentences_bring_their_labels_and_scores(write: Write) -> None:
    path = write(good(label=1, response="It rained. The sun shone.", sentences=SENTENCES))
    (example,) = marks_of(path, keep=["nli"])
    assert example.sentences == (
        GivenSentence(0, 10, 0, {"nli": 0.1}),
        GivenSentence(11, 25, 1, {"nli": 0.9}),
    )
    scores = [item.columns["nli"] for item in sentence_examples(example)]
    assert scores == [0.1, 0.9]
    with pytest.raises(DataError, match="no column 'nil'"):
        read(path, by_sentence=True, keep=["nil"])


def test_sentences_are_the_answer_where_there_is_no_other(write: Write) -> None:
    path = write(good(response=..., label=..., sentences=SENTENCES))
    (example,) = marks_of(path)
    assert (example.response, example.label) == ("It rained. The sun shone.", 1)
    (example,) = read(path)
    assert (example.response, example.label) == ("It rained. The sun shone.", 1)
    assert [e.response for e in read(path, labelled=False)] == [example.response]


@pytest.mark.parametrize("column", ["labels", "sentence_labels"])
def test_labels_stand_beside_the_sentences(write: Write, column: str) -> None:
    texts = ["It rained.", "The sun shone.", "It blew."]
    path = write(
        answer(
            label=..., sentences=texts, **{column: ["accurate", "minor_inaccurate", "accurate"]}
        ),
        answer(id="b", label=..., sentences=texts, **{column: ["accurate"] * 3}),
    )
    examples = marks_of(path)
    assert [[item.label for item in e.sentences or ()] for e in examples] == [[0, 1, 0], [0, 0, 0]]
    # Three sentences are no three answers, and no three annotators of whom most are content.
    assert [(e.response, e.label) for e in read(path)] == [(TEXT, 1), (TEXT, 0)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("annotators", "labels"),
    [("majority", [0, 1, 0]), ("any", [1, 1, 0]), ("all", [0, 0, 0])],
)
def test_columns_of_several_annotators_judge_each_sentence(
    write: Write, inside: bool, annotators: Any, labels: list[int]
) -> None:
    votes: dict[str, Any] = {"ann_1": [1, 1, 0], "ann_2": [0, 1, 0], "ann_3": [0, 0, 0]}
    texts: Any = ["It rained.", "The sun shone.", "It blew."]
    named = ",".join(votes)
    row = answer(label=..., sentences=texts, **votes, ann_4=None)
    if inside:
        cells = zip(texts, zip(*votes.values(), strict=True), strict=True)
        texts = [{"text": text, **dict(zip(votes, vote, strict=True))} for text, vote in cells]
        row = answer(label=..., sentences=texts)
        named = ",".join(f"sentences.{name}" for name in votes)
    else:
        named += ",ann_4"
    filled = answer(id="b", label=..., sentences=texts, **votes, ann_4=[0, 0, 0])
    source = write(row, row | {"id": "c"}, *([] if inside else [filled]))
    examples = marks_of(source, label_column=named, annotators=annotators)
    assert [item.label for item in examples[0].sentences or ()] == labels
    advised = diagnose(source).to_dict()["suggested"]
    assert inside or named.startswith(advised[advised.index("--label-column") + 1])
    assert inside or len(advised[-1].split(",")) >= 3


def test_annotators_of_sentences_that_do_not_fit_are_named(write: Write) -> None:
    texts = ["It rained.", "The sun shone. It blew."]
    row = answer(label=..., sentences=texts, ann_1=[0, 1], ann_2=[0, 1], ann_3=1)
    with pytest.raises(DataError, match="ann_1, ann_2 list a label for each sentence, and ann_3"):
        marks_of(write(row), label_column="ann_1,ann_2,ann_3")
    short = answer(id="b", label=..., sentences=texts, ann_1=[0, 1], ann_2=[0])
    good = answer(label=..., sentences=texts, ann_1=[0, 1], ann_2=[0, 1])
    found = read(write(good, short), label_column="ann_1,ann_2", by_sentence=True)
    assert [example.label for example in found] == [1]
    assert found.reasons == {("sentences", "not one label for each sentence"): 1}


def test_keys_name_the_sentences_that_are_unsupported(write: Write) -> None:
    keyed = [["a", "It rained."], ["b", "The sun shone. It blew."]]
    path = write(
        answer(label=..., response_sentences=keyed, unsupported_response_sentence_keys=["b"]),
        answer(id="b", label=..., response_sentences=keyed, unsupported_response_sentence_keys=[]),
    )
    examples = marks_of(path)
    assert [[item.label for item in e.sentences or ()] for e in examples] == [[0, 1], [0, 0]]


def test_sentences_without_labels_take_those_of_the_spans(write: Write) -> None:
    path = write(
        answer(label=1, sentences=["It rained. The sun shone. It blew."], spans=[[11, 14]])
    )
    (example,) = marks_of(path)
    assert [item.label for item in sentence_examples(example)] == [1]


def test_a_label_of_a_sentence_may_be_left_out_on_request(write: Write) -> None:
    first, second = "It rained. The sun shone.", "It blew."
    path = write(
        *(
            answer(
                id=id,
                label=...,
                sentences=[{"text": first, "label": label}, {"text": second, "label": "bad"}],
            )
            for id, label in (("a", "unclear"), ("b", "bad"))
        )
    )
    reading = read(path, by_sentence=True, label_map={"unclear": "skip", "bad": 1})
    assert [example.id for example in reading] == ["b"]
    assert reading.n_filtered == 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.floats()
    | st.sampled_from(["", "It", TEXT]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["start", "end", "text", "label", "supported", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(JSON, JSON, JSON, JSON), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_whatever_a_row_holds_it_is_an_example_or_accounted_for(rows: Any) -> None:
    names = ("label", "spans", "sentences", "sentence_labels")
    given_rows = [
        answer(id=str(i), **dict(zip(names, row, strict=True))) for i, row in enumerate(rows)
    ]
    for how in ({}, {"mapping": {"answer_id": "spans"}}, {"labelled": False}):
        try:
            reading = read(given_rows, by_sentence=True, allow_none=True, **how)
            examples = list(reading)
        except DataError:
            continue
        assert len(examples) + reading.n_quarantined <= len(rows)
        for example in examples:
            for start, end in example.spans or ():
                assert 0 <= start < end <= len(example.response)
            labels = [item.label for item in sentence_examples(example)]
            if how != {"labelled": False}:
                assert None not in labels and example.label == max(labels)


def test_each_answer_of_a_row_has_its_own_spans(write: Write) -> None:
    row = good(response=["It rained.", "It blew."], label=[1, 0], spans=[[[0, 2]], []])
    assert [example.spans for example in marks_of(write(row))] == [((0, 2),), ()]


def test_a_source_that_nobody_marked_says_how_marks_are_given(write: Write) -> None:
    rows = [answer(id=str(i), label=i % 2) for i in range(4)]
    for path in (write(*rows), write(*rows[1::2], name="hallucinated.jsonl")):
        with pytest.raises(DataError, match=r"of no sentence .*mapping=\{'spans'.*'answer_id'"):
            marks_of(path)
    # Nothing is asked of what is to be checked.
    assert len(marks_of(path, labelled=False)) == 2


def test_whole_columns_are_read_only_where_marks_are_not(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "scores.parquet"
    rows = [
        {"id": f"a{i}", "label": i % 2, "nli": i / 9, "spans": [[0, 2]] * (i % 2)} for i in range(9)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    (block,) = read(path, require=(), keep=["nli"]).blocks(["nli"])
    assert block.labels.tolist() == [i % 2 for i in range(9)]
    with pytest.raises(NotPlainError):
        list(read(path, require=(), keep=["nli"], by_sentence=True).blocks(["nli"]))
    pq.write_table(pa.Table.from_pylist(rows).drop_columns(["label"]), path)
    reading = read(path, require=(), keep=["nli"])
    with pytest.raises(NotPlainError):
        list(reading.blocks(["nli"]))
    assert [example.label for example in read(path, require=())] == [i % 2 for i in range(9)]
