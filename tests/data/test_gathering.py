"""Are sentences that have a row each gathered to the answers that they belong to?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from calibrail.data import Example, read
from calibrail.data.sentences import sentence_examples
from calibrail.errors import DataError
from tests.rows import Write

HOW: Any = {"mapping": {"answer_id": "passage"}, "require": ("response",)}


def row(passage: object, text: object, label: object = 0, **more: Any) -> dict[str, Any]:
    return {"passage": passage, "response": text, "label": label, **more}


ROWS = [
    row("a", "It rained.", 0, nli=0.1, source="s", context="Rain."),
    row("b", "It blew.", 1, nli=0.2, source="s"),
    row("a", "  The sun shone.", 1, nli=0.9, source="s"),
    row("b", "It froze.", 1, nli=None, source="s"),
    row(7, "It thawed.", 0, nli=0.4, source="t"),
]


def test_sentences_find_their_answers_wherever_they_stand(write: Write) -> None:
    reading = read(
        write(*ROWS), by_sentence=True, keep=["nli", "source"], group_column="source", **HOW
    )
    a, b, c = reading
    assert [(e.id, e.response, e.label, e.group) for e in (a, b, c)] == [
        ("a", "It rained. The sun shone.", 1, "s"),
        ("b", "It blew. It froze.", 1, "s"),
        ("7", "It thawed.", 0, "t"),
    ]
    assert a.contexts == ("Rain.",)
    assert (reading.n_rows, reading.n_examples, reading.n_quarantined) == (5, 3, 0)
    # What differs is each sentence's own, what does not is the answer's, too.
    assert a.columns == {"nli": "[0.1, 0.9]", "source": "s"}
    scores = [[item.columns["nli"] for item in sentence_examples(e)] for e in (a, b, c)]
    assert scores == [[0.1, 0.9], [0.2, None], [0.4]]
    assert [item.label for item in sentence_examples(a)] == [0, 1]
    assert [item.before for item in sentence_examples(a)] == ["", "It rained. "]


def test_who_names_the_answer_gets_answers_be_they_judged_whole_or_not(write: Write) -> None:
    path = write(*ROWS)
    whole = [(e.id, e.label) for e in read(path, **HOW)]
    assert whole == [("a", 1), ("b", 1), ("7", 0)]
    assert [(e.id, e.label) for e in read(path, by_sentence=True, labelled=False, **HOW)] == [
        ("a", None),
        ("b", None),
        ("7", None),
    ] or [e.id for e in read(path, by_sentence=True, labelled=False, **HOW)] == ["a", "b", "7"]


@pytest.mark.parametrize(
    ("bad", "row_number", "field", "reason"),
    [
        (row("b", ""), 3, "response", "empty"),
        (row("b", None), 3, "response", "missing"),
        (row("b", 7), 3, "response", "wrong type"),
        (row("b", "It blew.", None), 3, "label", "missing"),
        (row("b", "It blew.", "maybe"), 3, "label", "not 0 or 1"),
        (row("b", "It blew.", context="Wind."), 3, "contexts", "differs within an answer"),
    ],
)
def test_an_answer_with_a_bad_sentence_is_set_aside(
    write: Write, tmp_path: Path, bad: Any, row_number: int, field: str, reason: str
) -> None:
    path = write(row("a", "It rained."), row("b", "It froze.", context="Frost."), bad)
    target = tmp_path / "quarantine.jsonl"
    reading = read(path, by_sentence=True, quarantine=target, **HOW)
    assert [e.id for e in reading] == ["a"]
    assert reading.reasons == Counter({(field, reason): 1})
    (entry,) = map(json.loads, target.read_text(encoding="utf-8").splitlines())
    assert (entry["row"], entry["field"]) == (row_number, field)


def test_a_row_of_no_answer_is_set_aside_alone(write: Write) -> None:
    path = write(*ROWS, row(None, "It snowed."), row(["a"], "It snowed."), "{broken")
    reading = read(path, by_sentence=True, **HOW)
    assert len(list(reading)) == 3
    assert reading.reasons == Counter(
        {("answer_id", "missing"): 1, ("answer_id", "wrong type"): 1, ("row", "broken JSON"): 1}
    )
    assert reading.n_rows == 8


def test_the_first_answers_are_whole_ones(write: Write) -> None:
    reading = read(write(*ROWS), by_sentence=True, limit=1, **HOW)
    assert [len(e.sentences or ()) for e in reading] == [2]
    drawn = list(read(write(*ROWS), by_sentence=True, sample=2, **HOW))
    assert {e.id: len(e.sentences or ()) for e in drawn}.items() <= {"a": 2, "b": 2, "7": 1}.items()


def test_answers_of_two_files_stay_apart(write: Write) -> None:
    paths = [write(*ROWS, name="one.jsonl"), write(*ROWS, name="two.jsonl")]
    examples = list(read(paths, by_sentence=True, **HOW))
    assert len({e.id for e in examples}) == len(examples) == 6


def test_a_table_of_wikibio_is_known_by_its_columns(write: Write) -> None:
    rows = [
        {"id": f"p-{i}", "group": "p", "response": f"It rained {i}.", "label": i, "grade": "x"}
        for i in (0, 1)
    ]
    path = write(*rows)
    (answer,) = read(path, by_sentence=True, require=("response",))
    assert (answer.id, answer.group, answer.label) == ("p", "p", 1)
    # Where answers are asked for, every row is one, as ever.
    assert len(list(read(path, require=("response",)))) == 2
    with pytest.raises(DataError, match="no column 'nowhere' to map to answer_id"):
        read(path, by_sentence=True, mapping={"answer_id": "nowhere"})


def test_rows_and_frames_are_gathered_alike(write: Write) -> None:
    pandas = pytest.importorskip("pandas")
    fromfile: list[Example] = list(read(write(*ROWS[:2]), by_sentence=True, **HOW))
    frame = pandas.DataFrame(ROWS[:2])
    assert list(read(frame, by_sentence=True, **HOW)) == fromfile
    assert list(read(ROWS[:2], by_sentence=True, **HOW)) == fromfile
