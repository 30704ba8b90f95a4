"""Is the next answer the right one, and is every label kept as it was given?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.errors import InputError
from tests.labelling.rows import frozen, label_some, lines, traces


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def test_answers_come_in_an_order_that_the_seed_alone_decides(tmp_path: Path) -> None:
    rows = traces(60)
    orders = []
    for name, source, seed in (("a", rows, 0), ("b", rows[::-1], 0), ("c", rows, 1)):
        with calibrail.label(source, tmp_path / name, seed=seed) as session:
            orders.append(label_some(session, "ada", 60))
            assert session.next("ada") is None
            assert session.counts("ada").exhausted
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(row["id"] for row in rows)
    drawn = [line["id"] for line in lines(tmp_path / "a" / "draws.jsonl")]
    assert drawn == orders[0]


def test_a_label_is_on_the_disk_before_the_next_answer_appears(tmp_path: Path) -> None:
    with calibrail.label(traces(20), tmp_path) as session:
        task = session.next("ada")
        assert task is not None
        begin = task.response.index("mark")
        span = (begin, begin + 4, "mark")
        session.put("ada", task.order, 1, [span], evidence=True)
        (kept,) = lines(tmp_path / "labels.jsonl")
    assert kept.pop("time").endswith("+00:00")
    assert kept == {
        "id": task.id,
        "label": 1,
        "annotator": "ada",
        "probability": 1.0,
        "order": 1,
        "spans": [list(span)],
        "evidence": True,
    }


def test_the_same_answer_stays_on_the_screen_and_a_skipped_one_comes_back(tmp_path: Path) -> None:
    session = calibrail.label(traces(80), tmp_path)
    first = session.next("ada")
    assert first is not None and session.next("ada") == first
    session.skip("ada", first.order)
    assert session.counts("ada").skipped == 1
    ids = label_some(session, "ada", 19)
    assert first.id not in ids
    assert session.counts("ada").counted == 0 and session.counts("ada").holding == 19
    label_some(session, "ada", 1)
    assert session.next("ada") == first
    session.put("ada", first.order, 0)
    assert session.counts("ada").counted == 21 and session.counts("ada").skipped == 0


def test_undo_takes_the_last_label_or_skip_back_and_shows_that_answer(tmp_path: Path) -> None:
    session = calibrail.label(traces(20), tmp_path)
    assert session.undo("ada") is None
    label_some(session, "ada", 3)
    before = (tmp_path / "labels.jsonl").read_bytes()
    last = session.next("ada")
    assert last is not None
    session.put("ada", last.order, None)
    assert session.counts("ada").unsure == 1
    assert session.undo("ada") == last == session.next("ada")
    assert (tmp_path / "labels.jsonl").read_bytes() == before
    assert session.counts("ada").unsure == 0
    session.skip("ada", last.order)
    assert session.undo("ada") == last and session.counts("ada").skipped == 0
    assert session.counts("ada").by_you == 3


def test_any_label_of_ones_own_is_taken_back_by_its_order(tmp_path: Path) -> None:
    session = calibrail.label(traces(20), tmp_path)
    label_some(session, "ada", 3)
    label_some(session, "bob", 1)
    assert [(task.order, item.label) for task, item in session.own_labels("ada")] == [
        (order, session.labels_of(order)["ada"].label) for order in (3, 2, 1)
    ]
    on_screen = session.next("ada")
    assert session.undo("ada", 4) is None
    again = session.undo("ada", 2)
    assert again is not None and again.order == 2 and session.next("ada") == again
    session.put("ada", 2, 1, note=" half of it ")
    assert session.next("ada") == on_screen
    task, item = session.own_labels("ada")[0]
    assert (task.order, item.label, item.note) == (2, 1, "half of it")
    assert '"note": "half of it"' in (tmp_path / "labels.jsonl").read_text()


def test_marks_are_kept_in_order_and_those_that_overlap_are_one(tmp_path: Path) -> None:
    with calibrail.label(traces(5), tmp_path) as session:
        text = session.next("ada").response
        places = [(7, 10), (0, 2), (0, 2), (1, 6), (3, 5)]
        session.put("ada", 1, 1, [(start, stop, text[start:stop]) for start, stop in places])
    assert lines(tmp_path / "labels.jsonl")[0]["spans"] == [[0, 6, text[:6]], [7, 10, text[7:10]]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.put("ada", 1, 2), "label must be 1, 0 or None; got 2"),
        (lambda s: s.put("ada", 1, True), "label must be 1, 0 or None; got True"),
        (lambda s: s.put("ada", 9, 1), "order must be that of an answer handed out; got 9"),
        (lambda s: s.put(" ", 1, 1), "annotator must be a name"),
        (lambda s: s.put("ada", 1, 1, [(0, 3, "abc")]), "must hold the text of the response"),
        (lambda s: s.put("ada", 1, 1, [(3, 1, "")]), "must begin before it ends"),
        (lambda s: s.put("ada", 1, 0, [(0, 2, "It")]), "a faithful answer has none"),
        (lambda s: s.put("ada", 1, 1, [4]), r"a span is \(begin, end, text\)"),
    ],
)
def test_a_wrong_argument_is_named_and_stores_nothing(tmp_path, call, said) -> None:
    session = calibrail.label(traces(5), tmp_path)
    session.next("ada")
    with pytest.raises(InputError, match=said):
        call(session)
    assert not (tmp_path / "labels.jsonl").exists()
    session.put("ada", 1, 0)
    with pytest.raises(InputError, match=r"'ada' has labelled answer No\. 1"):
        session.put("ada", 1, 1)
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.next("ada")


def test_one_answer_of_each_group_is_drawn(tmp_path: Path) -> None:
    rows = traces(40, groups=10)
    with calibrail.label(rows, tmp_path) as session:
        ids = label_some(session, "ada", 10)
        assert session.next("ada") is None
    assert {int(name[1:]) % 10 for name in ids} == set(range(10))


def test_texts_and_numbers_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    guardrail = frozen()
    rows = traces(8)
    hostile = ["a\u2028b\x00c", "\ud800 half", "x\r\ny\x85z", "</script>\u202e"]
    hostile += ["{}", "\ufeff1", "é", "𝄞"]
    for i, (row, text) in enumerate(zip(rows, hostile, strict=True)):
        row["response"], row["contexts"] = f"{i} {text}", [text, f"{i}"]
        row["suspicion"] = (float("inf"), float("-inf"), None, 0.5)[i % 4]
    seen = {}
    with calibrail.label(iter(rows), tmp_path, guardrail=guardrail, max_fpr=0.5) as session:
        while (task := session.next("ada")) is not None:
            seen[task.id] = task.response, task.contexts[0]
            session.put("ada", task.order, 1, [(0, 1, task.response[0])])
    assert seen == {row["id"]: (row["response"], row["contexts"][0]) for row in rows}
    # What is drawn is decided about as the guardrail would decide at once.
    draws = {line["id"]: line["flagged"] for line in lines(tmp_path / "draws.jsonl")}
    now = guardrail.decide(rows)
    assert draws == {item.id: item.flagged for item in now}
    with calibrail.label(None, tmp_path) as session:
        assert session.counts("ada").labelled == 8 and session.undo("ada") is not None


def test_a_label_that_is_a_float_is_read_again(tmp_path: Path) -> None:
    with calibrail.label(traces(5), tmp_path) as session:
        for label in (1.0, 0.0):
            task = session.next("ada")
            assert task is not None
            session.put("ada", task.order, label)  # type: ignore[arg-type]
    with calibrail.label(None, tmp_path) as session:
        counts = session.counts("ada")
    assert (counts.hallucinated, counts.faithful) == (1, 1)


SPANS = ([3, 6, "has"], (0, 2, "It"))


@pytest.mark.parametrize("spans", [SPANS, iter(SPANS)], ids=["lists and tuples", "iterator"])
def test_spans_may_be_any_that_can_be_gone_through_once(tmp_path: Path, spans: Any) -> None:
    session = calibrail.label(traces(5), tmp_path)
    task = session.next("ada")
    assert task is not None
    session.put("ada", task.order, 1, spans)
    (line,) = lines(tmp_path / "labels.jsonl")
    assert line["spans"] == [[0, 2, "It"], [3, 6, "has"]]
