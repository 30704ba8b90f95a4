"""Do several people label side by side, each answer by as many as were asked?"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import calibrail
from calibrail.errors import InputError
from calibrail.labelling import folder as desk
from calibrail.labelling.session import Session
from tests.labelling.rows import frozen, label_some, lines, traces, truth, write


def label_all(session: Session, *annotators: str, flips: frozenset[str] = frozenset()) -> None:
    """Let annotators take turns until nobody has anything to do; the first one errs on flips."""
    left = set(annotators)
    while left:
        for name in annotators:
            if (task := session.next(name)) is None:
                left.discard(name)
                continue
            wrong = name == annotators[0] and task.id in flips
            session.put(name, task.order, truth(task.id) ^ wrong)


def test_a_share_of_answers_is_labelled_by_two_and_no_answer_twice_by_one(tmp_path: Path) -> None:
    with calibrail.label(traces(100), tmp_path, shared=0.3) as session:
        label_all(session, "ada", "bob", "eva")
        assert session.counts("ada").labelled == 100
    labels = lines(tmp_path / "labels.jsonl")
    by_answer: dict[int, list[str]] = {}
    for line in labels:
        by_answer.setdefault(line["order"], []).append(line["annotator"])
    assert all(len(set(names)) == len(names) <= 2 for names in by_answer.values())
    assert 18 <= sum(len(names) == 2 for names in by_answer.values()) <= 44


def test_what_somebody_leaves_open_goes_to_another_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = calibrail.label(traces(20), tmp_path)
    left = session.next("ada")
    assert left is not None
    label_some(session, "bob", 3)
    assert session.counts("bob").counted == 0 and session.counts("bob").holding == 3
    monkeypatch.setattr(desk, "HELD_FOR", timedelta(0))
    assert session.next("bob") == left
    session.put("bob", left.order, 1)
    assert session.counts("bob").counted == 4
    # Who comes back later may still say otherwise; that is a disagreement, not a lost label.
    session.put("ada", left.order, 0)
    assert session.counts("bob").disagreements == 1 and session.counts("bob").counted == 0


def test_a_clock_that_was_ahead_keeps_no_answer_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = calibrail.label(traces(20), tmp_path)
    with monkeypatch.context() as ahead:
        ahead.setattr(desk, "now", lambda: datetime.now(UTC) + timedelta(days=365))
        left = session.next("ada")
    assert session.next("bob") == left


def test_disagreements_hold_the_verdict_up_until_they_are_settled(tmp_path: Path) -> None:
    asked = dict(guardrail=frozen(), max_fpr=0.7, shared=1.0)
    flips = frozenset({"t5", "t17", "t40"})
    with calibrail.label(traces(60), tmp_path, **asked) as session:
        label_all(session, "ada", "bob", flips=flips)
        counts = session.counts("eva")
        assert (counts.disagreements, counts.labelled) == (3, 57)
        assert counts.counted < 57
        assert session.next("eva") is None
    with calibrail.label(None, tmp_path, settle=True) as session:
        settled = set()
        while (task := session.next("eva")) is not None:
            assert task.settles
            session.put("eva", task.order, truth(task.id))
            settled.add(task.id)
        with pytest.raises(InputError, match="nobody disagrees"):
            session.put("eva", 1, 0)
        assert settled == flips
        counts = session.counts("eva")
        assert (counts.disagreements, counts.counted, counts.labelled) == (0, 60, 60)
        last = session.undo("eva")
        assert last is not None and last.settles and session.counts("eva").disagreements == 1
        session.put("eva", last.order, truth(last.id))
    with calibrail.label(None, tmp_path) as session:
        assert session.undo("ada") is not None
        assert session.counts("ada").waiting == 0 or session.counts("ada").labelled >= 59
    kept = [line for line in lines(tmp_path / "labels.jsonl") if line.get("settles")]
    assert {line["id"] for line in kept} == flips


def test_two_processes_in_one_folder_lose_nothing_and_label_nothing_twice(tmp_path: Path) -> None:
    source, folder = write(tmp_path / "t.jsonl", traces(60)), tmp_path / "labels"
    program = textwrap.dedent(
        f"""
        import sys, calibrail
        from tests.labelling.rows import truth
        with calibrail.label({str(source)!r}, {str(folder)!r}) as session:
            while (task := session.next(sys.argv[1])) is not None:
                session.put(sys.argv[1], task.order, truth(task.id))
                if task.order % 7 == 0:
                    assert session.undo(sys.argv[1]) == task
                    session.put(sys.argv[1], task.order, truth(task.id))
        """
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, name], cwd=Path(__file__).parents[2])
        for name in ("ada", "bob")
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    labels = lines(folder / "labels.jsonl")
    assert sorted(line["order"] for line in labels) == list(range(1, 61))
    assert {line["id"]: line["label"] for line in labels} == {
        f"t{i}": truth(f"t{i}") for i in range(60)
    }
    orders = [line["order"] for line in lines(folder / "draws.jsonl")]
    assert orders == list(range(1, 61))


def test_threads_may_share_a_session(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with (
        calibrail.label(traces(60), tmp_path) as session,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda name: label_all(session, name), ("ada", "bob", "eva", "kim")))
    assert sorted(line["order"] for line in lines(tmp_path / "labels.jsonl")) == list(range(1, 61))
