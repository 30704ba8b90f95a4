"""Who waits, who is refused, and who is decided by the failure policy."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example
from calibrail.guardrail import Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.scores.base import Scores
from calibrail.serve.service import Service, WorkQueue
from tests.serve.conftest import ANSWER

Visiting = Callable[..., None]


class Held:
    """A detector that scores when it may, and notes what it is given together."""

    def __init__(self, score: Any) -> None:
        self._score = score
        self.may = threading.Event()
        self.batches: list[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._score, name)

    def score(self, examples: Sequence[Example]) -> Scores:
        self.batches.append([example.id for example in examples])
        self.may.wait(30)
        scores: Scores = self._score.score(examples)
        return scores


def holding(path: Path) -> tuple[Held, Callable[[Path], Guardrail]]:
    held = Held(Guardrail.load(path).score)
    return held, lambda file: Guardrail(Guardrail.load(file).config, held)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def test_what_waits_while_another_is_scored_is_scored_together(
    visit: Visiting, column: Path
) -> None:
    held, load = holding(column)
    bodies = [{"id": str(row), "columns": {"risk": row / 10}} for row in range(12)]

    async def go(client: Any, service: Service) -> None:
        posts = [asyncio.create_task(client.post("/v1/check", json=bodies[0]))]
        await until(lambda: held.batches)
        posts += [asyncio.create_task(client.post("/v1/check", json=body)) for body in bodies[1:]]
        await until(lambda: service.batcher.depth == 12)
        held.may.set()
        said = [(await post).json()["id"] for post in posts]
        assert said == [body["id"] for body in bodies]

    visit(go, column, load=load, max_batch=8)
    assert [len(batch) for batch in held.batches] == [1, 8, 3]


def test_a_batch_takes_no_more_than_a_mebibyte_of_text_behind_what_it_has(
    visit: Visiting, surface: Path
) -> None:
    held, load = holding(surface)
    long = {**ANSWER, "contexts": ["w" * 400_000]}

    async def go(client: Any, service: Service) -> None:
        posts = [asyncio.create_task(client.post("/v1/check", json=ANSWER))]
        await until(lambda: held.batches)
        posts += [asyncio.create_task(client.post("/v1/check", json=long)) for _ in range(7)]
        await until(lambda: service.batcher.depth == 8)
        held.may.set()
        assert [(await post).status_code for post in posts] == [200] * 8

    visit(go, surface, load=load)
    assert [len(batch) for batch in held.batches] == [1, 3, 3, 1]


def test_beyond_the_queue_requests_are_refused_and_nothing_else_is_lost(
    visit: Visiting, column: Path
) -> None:
    held, load = holding(column)
    body = {"columns": {"risk": 0.1}}

    async def go(client: Any, service: Service) -> None:
        first = [asyncio.create_task(client.post("/v1/check", json=body)) for _ in range(3)]
        await until(lambda: service.batcher.depth == 3)
        refused = await client.post("/v1/check", json=body)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        large = await client.post("/v1/check/batch", json={"items": [body] * 4})
        assert large.status_code == 413
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_rejected_total{reason="queue_full"} 1.0' in metrics
        assert "calibrail_queue_depth 3.0" in metrics
        held.may.set()
        assert {(await post).status_code for post in first} == {200}
        assert (await client.post("/v1/check", json=body)).status_code == 200

    visit(go, column, load=load, queue=3)


def test_at_the_deadline_the_failure_policy_decides_and_the_queue_is_free(
    visit: Visiting, column: Path, tmp_path: Path
) -> None:
    held, load = holding(column)
    log = DecisionLog(tmp_path / "log")

    async def go(client: Any, service: Service) -> None:
        posts = []
        for row in range(3):
            body = {"id": str(row), "columns": {"risk": -9.0}}
            posts.append(asyncio.create_task(client.post("/v1/check", json=body)))
            await until(lambda: held.batches)
        for post in posts:
            decision = (await post).json()
            assert decision["outcome"] == "review"
            assert decision["score"] is decision["p_value"] is None
            assert "timeout" in decision["reason"]
        assert service.batcher.depth == 0
        # Nothing else would be decided by the detector, either.
        assert (await client.get("/readyz")).json()["title"] == "stuck"
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_failures_total{guardrail="column",kind="timeout"} 3.0' in metrics
        held.may.set()
        late = await client.post("/v1/check", json={"id": "late", "columns": {"risk": -9.0}})
        assert late.json()["outcome"] == "pass"
        assert (await client.get("/readyz")).status_code == 200

    visit(go, column, load=load, log=log, deadline=0.2)
    # What waited was never scored, and nothing is logged twice.
    assert [name for batch in held.batches for name in batch] == ["0", "late"]
    lines = [
        json.loads(line)
        for file in (tmp_path / "log").iterdir()
        for line in file.read_text().splitlines()
    ]
    logged = [(line["id"], line["outcome"]) for line in lines if "outcome" in line]
    assert logged == [("0", "review"), ("1", "review"), ("2", "review"), ("late", "pass")]


def test_what_has_no_decision_when_the_service_must_end_is_decided_by_the_failure_policy(
    visit: Visiting, column: Path
) -> None:
    held, load = holding(column)

    async def go(client: Any, service: Service) -> None:
        items = [{"columns": {"risk": -9.0}}] * 3
        post = asyncio.create_task(client.post("/v1/check/batch", json={"items": items}))
        await until(lambda: held.batches)
        service.batcher.give_up()
        said = (await post).json()["items"]
        assert [item["outcome"] for item in said] == ["review"] * 3
        assert "stopped" in said[0]["reason"]
        held.may.set()

    visit(go, column, load=load)


def test_large_bodies_are_held_in_bounded_memory(
    visit: Visiting, column: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, load = holding(column)
    monkeypatch.setattr("calibrail.serve.limits._BODIES", 1)
    body = {"columns": {"risk": -9.0}, "question": "a" * 1_200}

    async def go(client: Any, service: Service) -> None:
        post = asyncio.create_task(client.post("/v1/check", json=body))
        await until(lambda: held.batches)
        refused = await client.post("/v1/check", json=body)
        assert (refused.status_code, refused.json()["title"]) == (429, "too busy")
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_rejected_total{reason="too_busy"} 1.0' in metrics
        assert 'calibrail_rejected_total{reason="queue_full"} 0.0' in metrics
        held.may.set()
        assert (await post).status_code == 200
        assert (await client.post("/v1/check", json=body)).status_code == 200

    visit(go, column, load=load, max_body=2_000)


def test_a_detector_that_fails_decides_by_its_policy(visit: Visiting, column: Path) -> None:
    held, load = holding(column)
    held.may.set()
    held.score = lambda examples: 1 / 0  # type: ignore[method-assign]

    async def go(client: Any, _: Service) -> None:
        items = [{"columns": {"risk": -9.0}}] * 3
        said = (await client.post("/v1/check/batch", json={"items": items})).json()["items"]
        assert [item["outcome"] for item in said] == ["review"] * 3
        assert "ZeroDivisionError" in said[0]["reason"]
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_failures_total{guardrail="column",kind="detector"} 3.0' in metrics

    visit(go, column, load=load)


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_a_detector_that_would_end_its_thread_decides_by_its_policy(
    visit: Visiting, column: Path, ending: BaseException
) -> None:
    held, load = holding(column)
    held.may.set()
    score = held.score

    def ends(examples: Sequence[Example]) -> Scores:
        if any(example.id == "bad" for example in examples):
            raise ending
        return score(examples)

    held.score = ends  # type: ignore[method-assign]

    async def go(client: Any, _: Service) -> None:
        items = [{"id": name, "columns": {"risk": -9.0}} for name in ("one", "bad", "two")]
        said = (await client.post("/v1/check/batch", json={"items": items})).json()["items"]
        assert [item["outcome"] for item in said] == ["pass", "review", "pass"]
        assert type(ending).__name__ in said[1]["reason"]
        assert (await client.post("/v1/check", json=items[0])).json()["outcome"] == "pass"

    visit(go, column, load=load)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_started_anew(
    visit: Visiting, column: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"columns": {"risk": -9.0}}
    take, n = WorkQueue.take, iter(range(9))

    def broken_once(lane: WorkQueue, most: int) -> Any:
        return sys.exit() if next(n) == 0 else take(lane, most)

    monkeypatch.setattr(WorkQueue, "take", broken_once)

    async def go(client: Any, _: Service) -> None:
        first = await client.post("/v1/check", json=body)
        assert (first.json()["outcome"], "timeout" in first.json()["reason"]) == ("review", True)
        assert (await client.post("/v1/check", json=body)).json()["outcome"] == "pass"

    visit(go, column, deadline=0.3)


def test_a_process_that_is_stuck_for_long_is_not_alive(visit: Visiting, column: Path) -> None:
    held, load = holding(column)

    async def go(client: Any, service: Service) -> None:
        said = await client.post("/v1/check", json={"columns": {"risk": -9.0}})
        assert said.json()["outcome"] == "review"
        assert (await client.get("/healthz")).status_code == 200
        await until(lambda: service.batcher.stuck(5))
        assert (await client.get("/healthz")).json()["title"] == "stuck"
        held.may.set()
        await until(lambda: not service.batcher.stuck())
        assert (await client.get("/healthz")).status_code == 200

    visit(go, column, load=load, deadline=0.3)


def test_a_decision_that_cannot_be_logged_is_not_given(
    visit: Visiting, surface: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecisionLog(tmp_path / "log", texts=True)

    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def go(client: Any, _: Service) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("calibrail.guardrail.decision_log.writer.os.write", full)
            patch.setattr("calibrail.serve.service.tempfile.TemporaryFile", full)
            said = await client.post("/v1/check", json=ANSWER)
            assert said.status_code == 503
            assert said.json()["type"].endswith("log-unavailable")
            assert "retry-after" in said.headers
            assert "outcome" not in said.text
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.headers["cache-control"]) == (503, "no-store")
            assert "No space left" in ready.text
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.post("/v1/check", json=ANSWER)).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert "calibrail_log_errors_total 1.0" in metrics
        assert "calibrail_log_lines_total 1.0" in metrics
        assert 'kind="log"} 1.0' in metrics

    visit(go, surface, log=log)
    assert ANSWER["response"] in next((tmp_path / "log").iterdir()).read_text()


def test_a_slow_reply_of_an_endpoint_does_not_hold_up_everybody(
    visit: Visiting, column: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, load = holding(column)
    score = held.score

    def slow_for_one(examples: Sequence[Example]) -> Scores:
        if examples[0].id != "slow":
            held.may.set()
        return score(examples)

    held.score = slow_for_one  # type: ignore[method-assign]
    monkeypatch.setattr(Guardrail, "endpoints", ("http://judge",))

    async def go(client: Any, _: Service) -> None:
        body = {"columns": {"risk": -9.0}}
        slow = asyncio.create_task(client.post("/v1/check", json={**body, "id": "slow"}))
        await until(lambda: held.batches)
        assert (await client.post("/v1/check", json=body)).json()["outcome"] == "pass"
        assert (await slow).json()["outcome"] == "pass"

    visit(go, column, load=load, deadline=20.0)
    assert held.batches == [["slow"], [""]]


def test_the_threads_end_with_the_service(visit: Visiting, column: Path) -> None:
    def scorers() -> set[threading.Thread]:
        names = ("scorer ", "late")
        return {each for each in threading.enumerate() if each.name.startswith(names)} - before

    before = set(threading.enumerate())
    held, load = holding(column)

    async def go(client: Any, service: Service) -> None:
        body = {"columns": {"risk": 0.1}}
        late = await client.post("/v1/check", json=body)
        assert "(timeout)" in late.json()["reason"]
        held.may.set()
        assert (await client.post("/v1/check", json=body)).status_code == 200
        assert len(scorers()) == 2

    visit(go, column, load=load, deadline=0.2)
    for thread in scorers():
        thread.join(30)
    assert not scorers()
