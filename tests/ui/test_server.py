"""What the page is told, and what becomes of what it says, over a session on the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from calibrail.errors import DataError
from calibrail.labelling.session import Session, Task
from calibrail.ui.server import Page, application
from tests.ui.sessions import EMOJI, HOSTILE, labels, plain, session

HALVES = Task(1, "\ud800", "q", ("\udfff",), "\ud83d It is long.")


class Desk:
    """A page of one annotator, asked without a browser."""

    def __init__(self, opened: Session, name: str = "ada") -> None:
        self.stopped: list[bool] = []
        self.told: list[int] = []
        page = Page(opened, name, lambda counts: self.told.append(counts.by_you))
        self.http = TestClient(application(page, lambda: self.stopped.append(True)))

    def state(self) -> dict[str, Any]:
        return self.said(self.http.get("/api/state"))

    def ask(self, what: str, **body: Any) -> dict[str, Any]:
        return self.said(self.http.post(f"/api/{what}", json=body))

    def said(self, answer: Any) -> dict[str, Any]:
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[Session]:
    with session(folder, plain(6)) as opened:
        yield opened


@pytest.fixture
def desk(opened: Session) -> Desk:
    return Desk(opened)


def test_an_annotator_sees_the_answer_and_nothing_else(desk: Desk) -> None:
    state = desk.state()
    shown = {"order", "question", "contexts", "response", "settles", "said", "why"}
    assert set(state["task"]) == shown and "river-" not in json.dumps(state)
    shown = {"by_you", "labelled", "skipped", "waiting", "holding", "disagreements"}
    shown |= {"needed", "found", "to_expect", "decided", "drawn", "total"}
    assert set(state["counts"]) == shown
    text = json.dumps(state)
    for word in ("score", "flagged", "guess", "probability", "verdict", "alarm"):
        assert word not in text


def test_each_label_is_on_disk_before_the_next_answer_appears(desk: Desk, folder: Path) -> None:
    task = desk.state()["task"]
    for n, label in enumerate((0, 1, None), start=1):
        state = desk.ask("label", order=task["order"], label=label)
        kept = labels(folder)
        assert (len(kept), kept[-1]["order"], kept[-1]["label"]) == (n, task["order"], label)
        assert state["task"]["order"] != task["order"]
        assert state["counts"]["by_you"] == n
        task = state["task"]
    assert desk.told[-1] == 3


def test_marked_words_are_kept_in_code_points(desk: Desk, folder: Path) -> None:
    task = desk.state()["task"]
    response = task["response"]
    words = "👩‍👩‍👧‍👦 and"
    start = response.index(words)
    units = [
        len(response[:place].encode("utf-16-le")) // 2 for place in (start, start + len(words))
    ]
    assert units[0] == start + 1
    desk.ask("label", order=task["order"], label=1, spans=[units])
    assert labels(folder)[0]["spans"] == [[start, start + len(words), words]]


@pytest.mark.parametrize("span", [[5, 5], [9, 2], [-1, 3], [0, 10_000], [0.5, 2], [0], ["0", 3]])
def test_a_place_outside_of_the_answer_is_refused(
    desk: Desk, folder: Path, span: list[Any]
) -> None:
    task = desk.state()["task"]
    answer = desk.http.post(
        "/api/label", json={"order": task["order"], "label": 1, "spans": [span]}
    )
    assert answer.status_code in (409, 422) and answer.json()["message"]
    assert desk.state()["task"] == task and desk.state()["counts"]["by_you"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"order": 1},
        {"label": 1},
        {"order": 1, "label": 2},
        {"order": 1, "label": True},
        {"order": True, "label": 1},
        {"order": "1", "label": 1},
        {"order": 1, "label": 1, "evidence": False},
        {"order": 1, "label": 1, "annotator": "eve"},
        [],
    ],
    ids=str,
)
def test_a_request_that_is_none_of_the_pages_labels_nothing(desk: Desk, body: Any) -> None:
    assert desk.http.post("/api/label", json=body).status_code == 422
    assert desk.state()["counts"]["by_you"] == 0


def test_a_second_tab_is_told_and_nothing_is_lost(opened: Session, folder: Path) -> None:
    first, second = Desk(opened), Desk(opened)
    task = first.state()["task"]
    assert second.state()["task"] == task
    onward = first.ask("label", order=task["order"], label=0)
    for what, body in (("label", {"label": 1}), ("skip", {})):
        late = second.ask(what, order=task["order"], **body)
        assert late["stale"] and late["task"] == onward["task"]
    assert second.ask("sentences", order=task["order"]) == {"sentences": [], "stale": True}
    assert [kept["label"] for kept in labels(folder)] == [0]


def test_undo_opens_the_last_answer_again(desk: Desk, folder: Path) -> None:
    assert desk.ask("undo")["nothing_to_undo"]
    task = desk.state()["task"]
    desk.ask("label", order=task["order"], label=0)
    state = desk.ask("undo")
    assert state["undone"] and state["task"] == task and labels(folder) == []
    state = desk.ask("label", order=task["order"], label=1)
    skipped = state["task"]
    desk.ask("skip", order=skipped["order"])
    assert desk.ask("undo")["task"] == skipped
    assert [kept["label"] for kept in labels(folder)] == [1]


def test_evidence_is_given_on_request_and_stands_in_the_label(desk: Desk, folder: Path) -> None:
    task = desk.state()["task"]
    assert desk.ask("nearest", order=task["order"], sentence=0) == {"quote": None}
    found = desk.ask("sentences", order=task["order"])["sentences"]
    response = task["response"].encode("utf-16-le")
    pieces = [response[2 * a : 2 * b].decode("utf-16-le") for a, b in found]
    assert pieces[0].startswith("River") and EMOJI.endswith(pieces[-1])
    quote = desk.ask("nearest", order=task["order"], sentence=0)["quote"]
    chunk = task["contexts"][quote["chunk"]]
    assert "kilometres long." in chunk[quote["start"] : quote["end"]]
    assert desk.ask("nearest", order=task["order"], sentence=99) == {"quote": None}
    state = desk.ask("label", order=task["order"], label=0)
    desk.ask("label", order=state["task"]["order"], label=0)
    first, second = labels(folder)
    assert first["evidence"] is True and not second.get("evidence")


def test_that_evidence_was_asked_for_outlives_the_program(folder: Path) -> None:
    with session(folder, plain(4)) as opened:
        desk = Desk(opened)
        order = desk.state()["task"]["order"]
        desk.ask("sentences", order=order)
        desk.ask("sentences", order=order)
    with session(folder, plain(4)) as opened:
        desk = Desk(opened)
        assert desk.state()["task"]["order"] == order
        # Taken back and given again, it stays so; of another answer nothing is said.
        desk.ask("label", order=order, label=0)
        desk.ask("undo")
        onward = desk.ask("label", order=order, label=1)
        desk.ask("label", order=onward["task"]["order"], label=0)
    assert [kept.get("evidence", False) for kept in labels(folder)] == [True, False]
    happened = (folder / "labels" / "handed.jsonl").read_text(encoding="utf-8")
    assert happened.count('"helped"') == 1


def test_hostile_texts_arrive_as_they_are(tmp_path: Path) -> None:
    with session(tmp_path, HOSTILE) as opened:
        desk, seen = Desk(opened), []
        while (task := desk.state()["task"]) is not None:
            seen.append(task)
            desk.ask("sentences", order=task["order"])
            desk.ask("nearest", order=task["order"], sentence=0)
            desk.ask("label", order=task["order"], label=1, spans=[[0, 3]])
    # Halves of pairs are replaced where a file is read.
    sent = {row["response"].replace("\ud800", "\ufffd") for row in HOSTILE}
    assert {task["response"] for task in seen} == sent
    assert all(kept["spans"][0][2] for kept in labels(tmp_path))


def test_half_a_surrogate_pair_arrives(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.state()
    monkeypatch.setattr(
        Session, "next", lambda *_: Task(1, "\ud800", "q", ("\udfff",), "\ud83d It is long.")
    )
    assert desk.state()["task"]["response"] == "\ud83d It is long."
    assert desk.ask("sentences", order=1)["sentences"]


def test_a_disagreement_is_shown_without_who_said_what(tmp_path: Path) -> None:
    with session(tmp_path, plain(1), shared=1.0) as opened:
        for name, given in (("ada", 0), ("bob", 1)):
            task = opened.next(name)
            assert task is not None
            opened.put(name, task.order, given)
    with session(tmp_path, plain(1), settle=True) as opened:
        desk = Desk(opened, "eve")
        state = desk.state()
        assert state["task"]["settles"] and "bob" not in json.dumps(state)
        assert desk.ask("label", order=state["task"]["order"], label=1)["task"] is None
    assert labels(tmp_path)[-1]["settles"] is True


def test_what_cannot_be_written_is_said_and_the_answer_stays(
    desk: Desk, opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = desk.state()["task"]

    def full(*_: object, **__: object) -> None:
        raise DataError("labels.jsonl cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "put", full)
        answer = desk.http.post("/api/label", json={"order": task["order"], "label": 1})
    assert answer.status_code == 409 and "No space left" in answer.json()["message"]
    state = desk.ask("label", order=task["order"], label=1)
    assert state["counts"]["by_you"] == 1


def test_stop_ends_the_server_and_draws_nothing(desk: Desk, opened: Session) -> None:
    state = desk.ask("stop")
    assert state["stopped"] and state["task"] is None and desk.stopped == [True]
    assert opened.counts("ada").drawn == 0


def test_the_parts_of_the_page_are_served_and_nothing_else(desk: Desk) -> None:
    for name, kind in (("", "text/html"), ("page.css", "text/css"), ("page.js", "text/javascript")):
        answer = desk.http.get(f"/{name}")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind)
    for name in ("__init__.py", "server.py", "..%2fserver.py", "%2e%2e/server.py", "docs"):
        assert desk.http.get(f"/{name}").status_code == 404
