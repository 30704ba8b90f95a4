"""Do the files alone say what was labelled, and is every changed line noticed?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.conformal import SequentialTest
from calibrail.errors import DataError
from calibrail.labelling.replay import replay
from calibrail.labelling.session import Session
from tests.labelling.rows import frozen, label_some, lines, traces, truth


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def begun(folder: Path, guardrail: Guardrail, **more: Any) -> Session:
    return calibrail.label(
        traces(120), folder, guardrail=guardrail, max_fpr=0.6, min_coverage=0.5, **more
    )


def rewrite(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_the_files_say_what_the_session_said(tmp_path: Path, guardrail: Guardrail) -> None:
    session = begun(tmp_path, guardrail)
    label_some(session, "ada", 60)
    for name in ("pool.jsonl", "guardrail.json"):
        (tmp_path / name).unlink()
    found, counts = replay(tmp_path), session.counts("ada")
    assert found.labels() == {"hallucinated": counts.hallucinated, "faithful": counts.faithful} | {
        "unsure": 0
    }
    drawn = lines(tmp_path / "draws.jsonl")
    flagged = [row["flagged"] for row in drawn]
    expected = SequentialTest(found.plan.requirement, found.plan.drawing).update(
        flagged, [truth(row["id"]) for row in drawn]
    )
    assert found.test.certificate() == expected.certificate()
    assert found.test.verdict == (counts.verdict or "inconclusive")
    assert [point.labelled for point in found.points] == list(range(2, 61, 2))
    assert found.points[-1].coverage == expected.certificate().coverage
    if expected.decided is not None:
        assert len(found.decided_by) == expected.decided.drawn


def test_only_what_stands_before_the_first_open_answer_counts(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    session = begun(tmp_path, guardrail)
    label_some(session, "ada", 3)
    task = session.next("ada")
    session.skip("ada", task.order)
    label_some(session, "ada", 5)
    found = replay(tmp_path)
    assert (found.counted, found.skipped) == (3, 1)
    assert found.held_up() == {"final": 5, "open": 1, "disagreements": 0}
    assert found.test.certificate().labelled == 3
    assert found.labels()["faithful"] + found.labels()["hallucinated"] == 8


def test_two_annotators_disagreements_and_what_settles_them(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    session = begun(tmp_path, guardrail, shared=1.0)
    label_some(session, "bob", 10)
    for place in range(10):
        task = session.next("ada")
        # Ada sees three of them otherwise, and cannot tell one.
        label = None if place == 9 else truth(task.id) if place > 2 else 1 - truth(task.id)
        session.put("ada", task.order, label)
    table, unsure = replay(tmp_path).double_labels()
    assert (table.sum(), table.trace(), unsure) == (9, 6, 1)
    assert replay(tmp_path).counted == 0
    settling = begun(tmp_path, guardrail, settle=True)
    while (task := settling.next("eve")) is not None:
        settling.put("eve", task.order, truth(task.id))
    found = replay(tmp_path)
    assert found.counted == 10 and found.labels()["unsure"] == 0
    assert found.double_labels()[0].sum() == 9


def _field(name: str, value: Callable[[Any], Any]) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[4][name] = value(rows[4][name])

    return change


def _swap(rows: list[dict[str, Any]]) -> None:
    """Exchange two answers that are drawn and have no labels."""
    rows[8], rows[9] = {**rows[9], "order": 9}, {**rows[8], "order": 10}


def _add(rows: list[dict[str, Any]]) -> None:
    rows.append({**rows[4], "order": len(rows) + 1, "unit": len(rows) + 1})


BROKEN = [
    ("draws.jsonl", _field("probability", lambda _: 0.5), r"1\.0 for .* 0\.5 in .* line 5"),
    ("draws.jsonl", lambda rows: rows[8].update(probability=0.5), "line 9.*at least 1"),
    ("draws.jsonl", _field("digest", lambda _: "0" * 16), "the seed does not draw"),
    ("draws.jsonl", _field("flagged", lambda _: None), "line 5: it says not whether"),
    ("draws.jsonl", _swap, "the seed does not draw"),
    ("draws.jsonl", _add, "the seed does not draw"),
    ("draws.jsonl", lambda rows: rows.pop(4), "line 5.*order must be 5"),
    ("labels.jsonl", _field("id", lambda _: "nobody"), "line 5: no answer with id 'nobody'"),
    ("draws.jsonl", _field("plan", lambda _: ""), "line 5, was drawn .* of no plan"),
    (
        "labels.jsonl",
        _field("probability", lambda _: 0.5),
        r"line 5: probability is 0\.5",
    ),
    ("labels.jsonl", _field("label", lambda _: 2), "line 5: label must be 1, 0 or null"),
    ("labels.jsonl", lambda rows: rows.append(dict(rows[4])), "two labels of 'ada'"),
    ("labels.jsonl", _field("annotator", lambda _: ""), "line 5: annotator must name who labelled"),
    ("labels.jsonl", _field("order", str), "line 5: order must be a whole number; got '5'"),
    ("labels.jsonl", _field("order", lambda _: 99), "no answer with id .* was drawn as number 99"),
    ("labels.jsonl", lambda rows: rows[4].update(spans=[[1]]), "line 5: spans must be "),
    ("labels.jsonl", lambda rows: rows[4].pop("label"), "line 5 has no label"),
]


@pytest.mark.parametrize(("name", "change", "said"), BROKEN)
def test_a_changed_line_is_named(
    tmp_path: Path, guardrail: Guardrail, name: str, change: Any, said: str
) -> None:
    session = begun(tmp_path, guardrail)
    label_some(session, "ada", 10)
    # The last two are taken back: they are drawn, and open.
    session.undo("ada"), session.undo("ada")
    rows = lines(tmp_path / name)
    change(rows)
    rewrite(tmp_path / name, rows)
    with pytest.raises(DataError, match=said) as error:
        replay(tmp_path)
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("now", "then"),
    [('"min_coverage": 0.1', '"min_coverage": 0.5'), ('"seed": 5', '"seed": 0')],
)
def test_what_was_agreed_on_cannot_be_changed_after_the_labels(
    tmp_path: Path, guardrail: Guardrail, now: str, then: str
) -> None:
    label_some(begun(tmp_path, guardrail), "ada", 8)
    path = tmp_path / "session.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(then) == 1
    path.write_text(text.replace(then, now), encoding="utf-8")
    for again in (replay, lambda folder: calibrail.label(None, folder)):
        with pytest.raises(DataError, match=r"session\.json was changed.*draws\.jsonl, line 1,"):
            again(tmp_path)


def test_an_answer_that_the_lot_handed_out_cannot_be_left_out(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    label_some(begun(tmp_path, guardrail), "ada", 8)
    for name, change in (
        ("draws.jsonl", _field("handed_out", lambda _: False)),
        ("labels.jsonl", lambda rows: rows.pop(4)),
    ):
        rows = lines(tmp_path / name)
        change(rows)
        rewrite(tmp_path / name, rows)
    with pytest.raises(DataError, match=r"draws\.jsonl, line 5.*was to be labelled"):
        replay(tmp_path)


def test_a_line_that_is_no_json_and_a_torn_one(tmp_path: Path, guardrail: Guardrail) -> None:
    session = begun(tmp_path, guardrail)
    label_some(session, "ada", 8)
    path = tmp_path / "labels.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"id"', b'"id"', 1))
    with pytest.raises(DataError, match=r"labels\.jsonl, line 1 is not JSON"):
        replay(tmp_path)
    path.write_bytes(whole[:-20])
    found = replay(tmp_path)
    assert (found.torn, found.counted) == (("labels.jsonl",), 7)
