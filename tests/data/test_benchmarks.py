"""Are the public benchmarks read from their original layouts?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from calibrail.data import Example, read, read_all
from calibrail.errors import DataError, InputError
from tests.rows import Write

QA = {
    "knowledge": "K.",
    "question": "Q?",
    "right_answer": "Delhi",
    "hallucinated_answer": "The company is based in Mumbai.",
}


def test_halueval_qa(write: Write) -> None:
    examples, reading = read_all(write(QA, {**QA, "right_answer": ""}, name="qa_data.json"))
    common: dict[str, Any] = {"question": "Q?", "contexts": ("K.",)}
    assert examples[:2] == (
        Example(**common, response="Delhi", label=0, group="qa-1", id="qa-1-right"),
        Example(
            **common,
            response="The company is based in Mumbai.",
            label=1,
            group="qa-1",
            id="qa-1-hallucinated",
        ),
    )
    assert (reading.format, reading.n_rows, reading.n_examples) == ("halueval", 2, 3)
    assert reading.reasons == Counter({("response", "empty"): 1})


def test_halueval_drops_short_answers_on_request_and_counts_them(write: Write) -> None:
    reading = read(write(QA), options={"min_chars": "20"})
    assert [e.label for e in reading] == [1]
    assert (reading.n_filtered, reading.n_quarantined, reading.n_rows) == (1, 0, 1)
    assert reading.filtered == Counter({"answer shorter than 20 characters": 1})
    with pytest.raises(InputError, match="min_chars must be a whole number >= 0; got 'x'"):
        list(read(write(QA), options={"min_chars": "x"}))
    with pytest.raises(InputError, match=r"reader of halueval knows min_chars.* got 'min_char'"):
        read(write(QA), options={"min_char": 3})


def test_halueval_dialogue(write: Write) -> None:
    row = {
        "knowledge": "K.",
        "dialogue_history": "[Human]: hi",
        "right_response": "right",
        "hallucinated_response": "wrong",
    }
    examples = tuple(read(write(row)))
    assert [(e.question, e.contexts, e.response, e.label) for e in examples] == [
        ("[Human]: hi", ("K.",), "right", 0),
        ("[Human]: hi", ("K.",), "wrong", 1),
    ]
    assert {e.group for e in examples} == {"dialogue-1"}


def test_halueval_summarization_has_no_question(write: Write) -> None:
    row = {"document": "D.", "right_summary": "right", "hallucinated_summary": "wrong"}
    examples = tuple(read(write(row), require=("contexts", "response")))
    assert [(e.question, e.contexts, e.response, e.label) for e in examples] == [
        ("", ("D.",), "right", 0),
        ("", ("D.",), "wrong", 1),
    ]
    with pytest.raises(DataError, match=r"question: missing \(2\)"):
        list(read(write(row)))


def test_halueval_general_has_no_contexts(write: Write) -> None:
    row = {
        "ID": "7",
        "user_query": "Q?",
        "chatgpt_response": "A.",
        "hallucination": "yes",
        "hallucination_spans": ["A"],
    }
    rows = [row, {**row, "ID": "8", "hallucination": "no"}, {**row, "hallucination": "maybe"}]
    reading = read(write(*rows), require=("question", "response"))
    assert [(e.id, e.response, e.label) for e in reading] == [
        ("general-7", "A.", 1),
        ("general-8", "A.", 0),
    ]
    assert reading.reasons == Counter({("label", "not yes or no"): 1})


def test_a_benchmark_can_be_read_as_the_plain_table_that_it_is(write: Write) -> None:
    path = write({**QA, "label": 1})
    mapping = {"contexts": "knowledge", "response": "right_answer"}
    (example,) = read(path, mapping=mapping)
    assert (example.response, example.label) == ("Delhi", 1)


SPAN = {"start": 0, "end": 1, "text": "A", "label_type": "Evident Conflict"}


def _ragtruth(folder: Path) -> Path:
    sources: list[Any] = [
        {
            "source_id": "1",
            "task_type": "QA",
            "source": "MARCO",
            "source_info": {
                "question": "how",
                "passages": "passage 1:One.\n\npassage 2:Two, see passage 1: there.\n\n",
            },
        },
        {"source_id": "2", "task_type": "Summary", "source": "CNN", "source_info": "News."},
        {"source_id": "3", "task_type": "Data2txt", "source": "Yelp", "source_info": {"é": 1}},
    ]
    responses: list[dict[str, Any]] = [
        {"id": "10", "source_id": "1", "model": "m1", "labels": [SPAN], "split": "test"},
        {"id": "11", "source_id": "1", "model": "m2", "labels": [], "split": "test"},
        {"id": "12", "source_id": "2", "model": "m1", "labels": [], "split": "train"},
        {"id": "13", "source_id": "3", "model": "m1", "labels": [SPAN], "split": "test"},
        {"id": "14", "source_id": "9", "model": "m1", "labels": [SPAN], "split": "test"},
        {"id": "15", "source_id": "1", "model": "m3", "labels": None, "split": "test"},
    ]
    (folder / "source_info.jsonl").write_text("\n".join(json.dumps(s) for s in sources))
    full = ({**r, "response": f"answer {r['id']}", "quality": "good"} for r in responses)
    lines = [json.dumps(response) for response in full]
    (folder / "response.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("name", ["", "response.jsonl", "source_info.jsonl"])
def test_ragtruth_joins_its_two_files(tmp_path: Path, name: str) -> None:
    path = _ragtruth(tmp_path) / name
    examples, reading = read_all(path, require=("contexts", "response"), keep=("model", "task"))
    assert [(e.id, e.question, e.contexts, e.label, e.group) for e in examples] == [
        ("10", "how", ("One.", "Two, see passage 1: there."), 1, "1"),
        ("11", "how", ("One.", "Two, see passage 1: there."), 0, "1"),
        ("12", "", ("News.",), 0, "2"),
        ("13", "", ('{"é": 1}',), 1, "3"),
    ]
    assert examples[1].columns == {"model": "m2", "task": "QA"}
    assert reading.reasons == Counter({("source_id", "no such source"): 1, ("label", "missing"): 1})


def test_ragtruth_by_task_and_split(tmp_path: Path) -> None:
    path = _ragtruth(tmp_path)
    assert [e.id for e in read(path, options={"task": "QA"})] == ["10", "11"]
    reading = read(path, options={"split": "train"}, require=("response",))
    assert [e.id for e in reading] == ["12"]
    assert reading.n_filtered == 4
    (path / "source_info.jsonl").unlink()
    with pytest.raises(DataError, match=r"source_info.jsonl is missing"):
        read(path / "response.jsonl")


def test_truthfulqa(tmp_path: Path) -> None:
    path = tmp_path / "TruthfulQA.csv"
    path.write_text(
        "Type,Category,Question,Best Answer,Best Incorrect Answer,Correct Answers,"
        "Incorrect Answers,Source\n"
        "Adversarial,Myths,Why?,Because.,Magic.,Because.; So.,Magic.; Luck.,http\n"
    )
    examples = tuple(read(path, require=("question", "response"), keep=("category",)))
    assert [(e.question, e.response, e.label, e.group) for e in examples] == [
        ("Why?", "Because.", 0, "Why?"),
        ("Why?", "Magic.", 1, "Why?"),
    ]
    assert examples[0].columns == {"category": "Myths"}
    path.write_text("Question,Best Answer,Incorrect Answers\nWhy?,Because.,Magic.; Luck.\n")
    examples = tuple(read(path, require=("question", "response")))
    assert [e.response for e in examples] == ["Because.", "Magic."]


@pytest.mark.parametrize("name", ["wiki.jsonl", "dataset.json"])
def test_wikibio(tmp_path: Path, name: str) -> None:
    row = {
        "gpt3_text": "A. B.",
        "wiki_bio_text": "W.",
        "gpt3_sentences": ["A.", "B."],
        "annotation": ["accurate", "accurate"],
        "wiki_bio_test_idx": 62464,
        "gpt3_text_samples": ["s", "t"],
    }
    rows = [
        row,
        {**row, "annotation": ["accurate", "minor_inaccurate"], "wiki_bio_test_idx": 3},
        {**row, "annotation": ["major_inaccurate", "bad"], "wiki_bio_test_idx": 4},
        {**row, "annotation": [{}], "wiki_bio_test_idx": 5},
        {**row, "annotation": [], "wiki_bio_test_idx": 6},
    ]
    path = tmp_path / name
    text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows))
    path.write_text(text)
    for source in (path, tmp_path):
        reading = read(source, require=("contexts", "response"), keep=("inaccurate_share",))
        assert [(e.id, e.label, e.group, e.samples) for e in reading] == [
            ("wikibio-62464", 0, "wikibio-62464", ("s", "t")),
            ("wikibio-3", 1, "wikibio-3", ("s", "t")),
        ]
        assert reading.reasons == Counter({("label", "unknown annotation"): 3})


def test_wikibio_s_sentences_keep_their_verdicts(write: Write) -> None:
    row = {
        "gpt3_text": "He was born.  He  died.",
        "wiki_bio_text": "W.",
        "gpt3_sentences": ["He was born.", "He died."],
        "annotation": ["accurate", "minor_inaccurate"],
    }
    fewer = {**row, "annotation": ["accurate"], "wiki_bio_test_idx": 9}
    more = {**row, "gpt3_sentences": ["He was born."], "wiki_bio_test_idx": 8}
    none = {**row, "gpt3_sentences": None, "wiki_bio_test_idx": 7}
    path = write(row, fewer, more, none)
    reading = read(path, by_sentence=True, require=("response",))
    (answer,) = reading
    assert [(s.start, s.end, s.label) for s in answer.sentences or ()] == [(0, 12, 0), (14, 23, 1)]
    assert reading.reasons == Counter(
        {
            ("sentences", "without a label"): 1,
            ("sentences", "wrong type"): 1,
            ("spans", "hallucinated, and nobody marked what"): 1,
        }
    )
    # Whole answers need no sentences.
    assert [e.label for e in read(path, require=("response",))] == [1, 0, 1, 1]


def test_ragtruth_s_spans_are_marks(tmp_path: Path) -> None:
    path = _ragtruth(tmp_path)
    lines = (path / "response.jsonl").read_text().splitlines()
    # True, but in no source: unsupported all the same.
    spans = [{"start": 0, "end": 6, "text": "answer", "implicit_true": True, "due_to_null": True}]
    first = {**json.loads(lines[0]), "labels": spans}
    lines[0], lines[3] = json.dumps(first), lines[3].replace('"text": "A"', '"text": "a"')
    (path / "response.jsonl").write_text("\n".join(lines))
    examples = list(read(path, by_sentence=True, require=("response",)))
    assert [(e.id, e.spans) for e in examples] == [
        ("10", ((0, 6),)),
        ("11", ()),
        ("12", ()),
        ("13", ((0, 1),)),
    ]


def _faithbench(folder: Path, spans: str) -> Path:
    summaries = (
        "id,group,contexts,response,worst,label,nli\n"
        "1-0,s0,Rain.,It rained. It blew.,unwanted,1,0.5\n"
        '1-1,s0,Rain.,"It rained, hard.",benign,0,0.9\n'
        "1-2,s1,Sun.,The sun shone.,none,0,0.7\n"
    )
    (folder / "summaries.csv").write_text(summaries)
    (folder / "spans.csv").write_text("id,start,end,annotator,label\n" + spans)
    return folder


FAITHBENCH = (
    "1-0,11,18,ada,Unwanted|Unwanted.Intrinsic\n"
    "1-0,14,19,bob,Questionable|Benign\n"
    "1-0,0,2,bob,\n"
    "1-1,0,2,bob,Benign\n"
    "1-1,3,9,cy,Benign\n"
)


@pytest.mark.parametrize(
    ("how", "first", "second"),
    [
        ({}, ((11, 19),), ()),
        ({"annotators": "any"}, ((11, 19),), ()),
        ({"annotators": "majority"}, ((14, 18),), ()),
        ({"annotators": "all"}, (), ()),
        ({"options": {"worst": "unwanted"}}, ((11, 18),), ()),
        ({"options": {"worst": "benign"}}, ((11, 19),), ((0, 2), (3, 9))),
    ],
)
def test_faithbench_joins_its_two_files(
    tmp_path: Path, how: dict[str, Any], first: Any, second: Any
) -> None:
    path = _faithbench(tmp_path, FAITHBENCH)
    for source in (path, path / "summaries.csv"):
        format = None if source == path else "faithbench"
        reading = read(
            source, format=format, by_sentence=True, require=("response",), keep=("nli",), **how
        )
        assert [(e.id, e.spans, e.label, e.group) for e in reading] == [
            ("1-0", first, int(bool(first)), "s0"),
            ("1-1", second, int(bool(second)), "s0"),
            ("1-2", (), 0, "s1"),
        ]
        assert reading.format == "faithbench"
    # One file alone is the table that it is.
    (example, *_) = read(path / "summaries.csv", require=("response",), keep=("nli",))
    assert (example.label, example.columns) == (1, {"nli": 0.5})


def test_faithbench_that_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    spans = "1-0,11,x,ada,Unwanted\n1-1,0,2,bob,Unwanted\n1-2,9,99,cy,Unwanted\n"
    path = _faithbench(tmp_path, spans + "9-9,0,2,cy,Unwanted\n")
    reading = read(path, by_sentence=True, require=("response",), allow_none=True)
    assert list(reading) == []
    assert reading.reasons == Counter(
        {
            ("spans", "wrong type"): 1,
            ("label", "differs from the marks"): 2,
            ("spans", "no such summary"): 1,
        }
    )
    with pytest.raises(InputError, match="worst must be one of benign, questionable, unwanted"):
        list(read(path, options={"worst": "bad"}))
    with pytest.raises(InputError, match="faithbench knows worst as options; got 'task'"):
        read(path, options={"task": "QA"})
    (path / "spans.csv").unlink()
    with pytest.raises(DataError, match=r"spans.csv is missing"):
        read(path, format="faithbench")


def test_the_real_files(real_data: Path) -> None:
    expected = {
        "halueval/qa_data.json": (1000, 1000),
        "ragtruth": (373, 85),
        "truthfulqa/TruthfulQA.csv": (790, 790),
    }
    for name, counts in expected.items():
        reading = read(real_data / name, require=("question", "response"), strict=True)
        labels = Counter(e.label for e in reading)
        assert (labels[0], labels[1]) == counts, name


def test_answers_with_labels_of_their_own_are_no_benchmarks(write: Write) -> None:
    own = {"answer": "Delhi", "label": 1, "score": 0.5}
    lists = {"question": "Q?", "answers": ["Delhi"], "passage": "P.", "response": "Pune"}
    for row in (QA | own, lists | {"label": 1}):
        examples, reading = read_all(write(row), require=("response",))
        assert reading.format == "jsonl"
        assert [(it.response, it.label) for it in examples] == [
            (row.get("response") or row["answer"], 1)
        ]
