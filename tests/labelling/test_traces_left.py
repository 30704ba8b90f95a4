"""Does what was taken back, lost or settled by one of two leave a trace in the verdict?"""

from __future__ import annotations

from pathlib import Path

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.labelling.replay import replay
from calibrail.pipelines.certify_labels import write_verdict
from tests.labelling.rows import frozen, label_some, lines, traces, truth, write


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


LIMITS = {"max_fpr": 0.9, "min_coverage": 0.4}


def test_labels_taken_back_are_counted_and_those_behind_the_verdict_named(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    with calibrail.label(traces(300), tmp_path, guardrail=guardrail, **LIMITS) as session:
        label_some(session, "ada", 8)
        session.undo("ada"), session.undo("ada")
        assert not any(line.get("decided") for line in lines(tmp_path / "handed.jsonl"))
        while not session.counts("ada").decided:
            label_some(session, "ada", 1)
        last = session.undo("ada")
        session.put("ada", last.order, truth(last.id))
    found = replay(tmp_path)
    assert (found.undone, found.undone_decided, found.lost) == (3, 1, {})
    undone = [line for line in lines(tmp_path / "handed.jsonl") if line["event"] == "undone"]
    assert [line["order"] for line in undone] == [8, 7, last.order]
    result = calibrail.certify(guardrail, labels=tmp_path)
    assert result.sequential["n_undone"] == 3 and result.sequential["n_undone_decided"] == 1
    assert any("1 label was taken back when a verdict had" in text for text in result.warnings)
    assert "Taken back" in write_verdict(result, tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize("left", [20, 0])
def test_labels_that_are_cut_off_are_missed_with_both_numbers(
    tmp_path: Path, guardrail: Guardrail, left: int
) -> None:
    path = tmp_path / "labels.jsonl"
    with calibrail.label(traces(120), tmp_path, guardrail=guardrail, **LIMITS) as session:
        label_some(session, "bob", 3)
        label_some(session, "ada", 43)
        session.next("ada")
    whole = lines(path)
    assert not calibrail.certify(guardrail, labels=tmp_path).sequential["lost"]
    if left:
        write(path, whole[:left])
    else:
        path.unlink()
    result = calibrail.certify(guardrail, labels=tmp_path)
    assert result.sequential["lost"]["ada"] == 43 - max(0, left - 3)
    there = f"{43 - max(0, left - 3)} labels of ada ({max(0, left - 3)} are there)"
    assert any(there in text and "restore" in text for text in result.warnings)
    # Labelling on does not hide it.
    with calibrail.label(None, tmp_path) as session:
        label_some(session, "ada", 30)
        assert session.counts("ada").lost >= 25
    # What was labelled before anything else was written down is not told from it.
    assert replay(tmp_path).lost["ada"] in (42 - max(0, left - 3), 43 - max(0, left - 3))


def test_a_third_person_settles_first_and_one_of_the_two_is_told(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    asked = {"guardrail": guardrail, **LIMITS, "shared": 1.0}
    with calibrail.label(traces(60), tmp_path, **asked) as session:
        # Ada and bob disagree about the first, bob and eve about the second.
        for order, names in ((1, ("ada", "bob")), (2, ("bob", "eve"))):
            for label, name in enumerate(names):
                while session.next(name).order != order:
                    session.skip(name, session.next(name).order)
                session.put(name, order, label)
    with calibrail.label(None, tmp_path, settle=True) as session:
        assert [session.next(name).order for name in ("ada",)] == [2]
        session.put("ada", 2, 1)
        # Nobody else is left: it may be done, and is said.
        assert session.next("ada").order == 1
        session.put("ada", 1, 1)
    result = calibrail.certify(guardrail, labels=tmp_path)
    assert result.sequential["agreement"]["settled_by_one_of_them"] == 1
    assert any("1 of 2 disagreements was settled by one" in text for text in result.warnings)
