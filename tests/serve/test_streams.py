"""Answers that come in pieces: what is said while they come, over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrail import Client
from calibrail.client import AsyncClient
from calibrail.errors import InputError, ServiceError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.decision import Unfinished
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.sentences import StreamCheck
from calibrail.serve import schemas
from calibrail.serve.app import Pieces
from calibrail.serve.service import Service
from tests.guardrail.sentences import of_sentences
from tests.guardrail.test_streaming import of_worst
from tests.serve.process import Service as Process
from tests.serve.process import until

pytest.importorskip("httpx2")

ROUTE = "/v1/check/stream"
Visiting = Callable[..., None]
Events = list[tuple[str, Any]]

ASKED = {
    "question": "What is tungsten?",
    "contexts": ["Tungsten is a metal with the symbol W and atomic number 74."],
    "id": "first",
}
GOOD = "Tungsten is a metal. It has the symbol W and is heavy. "
BAD = "Vienna banned expensive cheese yesterday. "


def events(text: str) -> Events:
    """Return names and data of server-sent events."""
    found: Events = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(": ")[0] for line in lines] == ["event", "data"]
            found.append((lines[0][7:], json.loads(lines[1][6:])))
    return found


@pytest.fixture(scope="session")
def worst(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail on the worst sentence of an answer."""
    from calibrail import calibrate

    path = tmp_path_factory.mktemp("serve") / "worst.json"
    run = calibrate("example:facts", "worst_sentence:detector=novelty", alpha=0.3)
    run.freeze().save(path)
    return path


@pytest.fixture
def guardrail(worst: Path) -> Guardrail:
    return Guardrail.load(worst)


def test_a_whole_answer_is_told_sentence_by_sentence(
    visit: Visiting, worst: Path, guardrail: Guardrail, tmp_path: Path
) -> None:
    log = DecisionLog(tmp_path / "log", texts=True)

    async def go(client: Any, service: Service) -> None:
        n_sentences = 0
        for response in (GOOD, GOOD + BAD + GOOD, "", "---\n"):
            said = await client.post(ROUTE, json={**ASKED, "response": response})
            assert said.status_code == 200
            assert said.headers["content-type"].startswith("text/event-stream")
            assert said.headers["cache-control"] == "no-store"
            check = guardrail.stream_check(**ASKED)
            shown = "".join(check.show(response))
            *told, (last, decision) = events(said.text)
            assert last == "decision"
            assert check.decision is not None
            assert decision == check.decision.to_dict()
            assert "".join(data["show"] for _, data in told) == shown
            assert [name for name, _ in told].count("stop") == (check.stopped is not None)
            n_sentences += check.n_sentences
        counted = service.metrics.text().decode()
        assert 'calibrail_streams_total{end="stopped",guardrail="worst"} 1.0' in counted
        for name in ("stream_sentences_total", "stream_sentence_seconds_count"):
            assert f'calibrail_{name}{{guardrail="worst"}} {n_sentences}.0' in counted
        assert service.batcher.depth == 0

    visit(go, worst, log=log)
    lines = [json.loads(line) for file in (tmp_path / "log").iterdir() for line in file.open()]
    kinds = [line["kind"] for line in lines if line.get("kind") not in ("opened", "closed")]
    assert kinds == ["stream"] * 4
    assert GOOD + BAD.strip() in [line.get("response") for line in lines]


def test_what_is_wrong_is_refused_before_anything_is_decided(
    visit: Visiting, worst: Path, surface: Path
) -> None:
    lines = {"content-type": "application/x-ndjson"}
    head = json.dumps(ASKED).encode()

    async def go(client: Any, service: Service) -> None:
        for body, status, kind, says in (
            (b"", 400, "not-json", "the body holds no line: the first line is"),
            (b"no json\n", 400, "not-json", "the body is not JSON"),
            (b'{"question": "a"}\n', 422, "invalid-request", "/contexts is missing"),
            (
                json.dumps({**ASKED, "response": "Yes."}).encode(),
                422,
                "invalid-request",
                "/response comes in the lines after this one",
            ),
        ):
            url = f"{ROUTE}?guardrail=worst"
            said = await client.post(url, content=body, headers=lines)
            assert (said.status_code, said.text.count(f"problem:{kind}")) == (status, 1), said.text
            assert says in said.json()["detail"]
        said = await client.post(f"{ROUTE}?guardrail=surface", content=head, headers=lines)
        assert (said.status_code, said.json()["type"]) == (
            422,
            "urn:calibrail:problem:cannot-stream",
        )
        assert "--unit sentence" in said.json()["detail"]
        said = await client.post(f"{ROUTE}?guardrail=worst", content=head, headers={})
        assert said.status_code == 415
        assert "application/x-ndjson" in said.json()["detail"]
        said = await client.post("/v1/check", content=head, headers=lines)
        assert said.status_code == 415

    visit(go, worst, surface)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"not a text", "line 3 is no JSON text"),
        (b'{"token": "a"}', "line 3 is no JSON text"),
        (b"7", "line 3 is no JSON text"),
        (b'"a" "b"', "line 3 is no JSON text"),
        (b"[" * 9_000, "line 3 is no JSON text"),
        (b'"\\udc00"', "line 3 must be a text of whole characters"),
        (b'"\\ud83d"', "line 4 must be a text of whole characters"),
    ],
)
def test_a_line_that_is_no_piece_ends_the_answer(
    visit: Visiting, worst: Path, line: bytes, says: str
) -> None:
    async def go(client: Any, service: Service) -> None:
        body = b"\n".join([json.dumps(ASKED).encode(), json.dumps(GOOD).encode(), line])
        headers = {"content-type": "application/x-ndjson"}
        said = await client.post(ROUTE, content=body, headers=headers)
        *told, (name, problem), (last, decision) = events(said.text)
        assert [(name, data["show"]) for name, data in told] == [
            ("sentence", "Tungsten is a metal.")
        ]
        assert (name, problem["type"]) == ("error", "urn:calibrail:problem:invalid-request")
        assert says in problem["detail"]
        assert (last, decision["outcome"], decision["id"]) == ("decision", "error", "first")
        assert decision["reason"].startswith(f"the answer did not end: {says}")
        metrics = service.metrics.text().decode()
        assert 'failures_total{guardrail="worst",kind="unfinished"} 1.0' in metrics
        assert 'failures_total{guardrail="worst",kind="detector"} 0.0' in metrics

    visit(go, worst)


def test_halves_of_a_character_that_were_cut_in_utf_16_are_one(
    visit: Visiting, worst: Path, guardrail: Guardrail
) -> None:
    async def go(client: Any, service: Service) -> None:
        lines = [json.dumps(ASKED), '"Tungsten \\ud83d"', '"\\ude00 is a metal."', "", '""']
        headers = {"content-type": "application/x-ndjson"}
        said = await client.post(ROUTE, content="\r\n".join(lines).encode(), headers=headers)
        decision = guardrail.check(**ASKED, response="Tungsten \U0001f600 is a metal.")
        assert events(said.text)[-1] == ("decision", decision.to_dict())

    visit(go, worst)


class Talk:
    """A request whose body is sent piece by piece, and the events that have come back."""

    def __init__(self, port: int, asked: Any = ASKED) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        head = (
            f"POST {ROUTE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        self.connection.sendall(head.encode())
        self.got, self.ended = b"", False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.line(asked)

    def _read(self) -> None:
        try:
            while more := self.connection.recv(65536):
                self.got += more
        except OSError:
            pass
        self.ended = True

    def line(self, content: Any) -> None:
        self.raw(json.dumps(content).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.connection.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end(self) -> None:
        self.connection.sendall(b"0\r\n\r\n")

    @property
    def events(self) -> Events:
        _, _, body = self.got.partition(b"\r\n\r\n")
        text = b""
        while b"\r\n" in body:
            size, _, body = body.partition(b"\r\n")
            text, body = text + body[: int(size, 16)], body[int(size, 16) + 2 :]
        return events(text.decode())

    def until(self, n: int) -> Events:
        """Wait for so many events."""
        until(lambda: len(self.events) >= n or self.ended, "events", lambda: str(self.got))
        return self.events

    def close(self) -> None:
        self.connection.close()


@pytest.fixture(scope="module")
def process(worst: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("streams")
    limits = ("--read-timeout", 1, "--deadline", 2, "--max-body", 20_000, "--log", folder / "log")
    with Process(worst, *limits) as running:
        yield running


def test_events_come_back_while_the_body_is_still_sent(
    process: Process, guardrail: Guardrail
) -> None:
    talk = Talk(process.port)
    until(lambda: b"200 OK" in talk.got and b": begun" in talk.got, "begun")
    for piece in ("Tung", "sten is a me", "tal. It"):
        talk.line(piece)
    assert talk.events == []
    talk.line(" has")
    ((name, first),) = talk.until(1)
    assert (name, first["text"], first["show"]) == ("sentence", *["Tungsten is a metal."] * 2)
    talk.line(" the symbol W and is heavy. " + BAD)
    assert [name for name, _ in talk.until(2)] == ["sentence", "sentence"]
    # Longer than a whole body may take.
    time.sleep(1.5)
    talk.line("It is")
    talk.line(" so. ")
    told = talk.until(4)
    assert [name for name, _ in told] == ["sentence", "sentence", "stop", "decision"]
    text = GOOD + BAD.strip()
    assert told[-1][1] == guardrail.check(**ASKED, response=text).to_dict()
    assert told[2][1]["show"] == ""
    # Whoever goes on writing is not cut off before it has read what was said.
    for _ in range(50):
        talk.line("More and more of it. ")
    talk.end()
    until(lambda: talk.got.endswith(b"\r\n0\r\n\r\n"), "the end", lambda: str(talk.got[-300:]))
    assert [name for name, _ in talk.events] == ["sentence", "sentence", "stop", "decision"]
    assert not talk.ended
    talk.close()


def test_an_answer_that_ends_is_decided_as_check_does(
    process: Process, guardrail: Guardrail
) -> None:
    talk = Talk(process.port)
    # Cut within a line, and within a character.
    line = json.dumps(GOOD + "Caf\u00e9 \u2014 tungsten.\n", ensure_ascii=False).encode()
    for start in range(0, len(line), 7):
        talk.raw(line[start : start + 7])
    talk.end()
    told = talk.until(5)
    decision = guardrail.check(**ASKED, response=GOOD + "Caf\u00e9 \u2014 tungsten.\n").to_dict()
    assert told[-1] == ("decision", decision)
    talk.close()


def test_one_that_stands_still_or_leaves_is_decided_by_the_failure_policy(
    process: Process,
) -> None:
    before = process.metric('calibrail_streams_total{end="failed",guardrail="worst"}')
    unfinished = 'calibrail_failures_total{guardrail="worst",kind="unfinished"}'
    counted = process.metric(unfinished)
    slow = Talk(process.port)
    slow.line(GOOD)
    gone = Talk(process.port)
    gone.line(GOOD)
    gone.until(1)
    gone.close()
    told = slow.until(2)
    assert told[0][0] == "sentence"
    name, decision = told[-1]
    assert (name, decision["outcome"]) == ("decision", "error")
    assert decision["reason"].startswith(
        "the answer did not end: no piece of the answer within 2 s (timeout); policy: "
    )
    until(
        lambda: (
            process.metric('calibrail_streams_total{end="failed",guardrail="worst"}') == before + 2
        ),
        "both counted",
        lambda: process.stderr,
    )
    assert process.metric("calibrail_queue_depth") == 0
    assert process.metric(unfinished) == counted + 2
    for kind in ("detector", "timeout"):
        assert process.metric(f'calibrail_failures_total{{guardrail="worst",kind="{kind}"}}') == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"\n", "no piece of the answer within 0.1 s"),
        (b'""\n', "no piece of the answer within 0.1 s"),
        (b" ", "no piece of the answer within 0.1 s"),
        (b'" "\n', "its pieces took 2 s to come"),
    ],
)
def test_one_that_says_nothing_does_not_go_on_for_ever(line: bytes, says: str) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b"{}\n"
        while True:
            await asyncio.sleep(0.02)
            yield line

    async def go() -> None:
        pieces = Pieces(lines(), 0.1, asyncio.Event())
        assert await pieces.first() == b"{}"
        with pytest.raises(Unfinished, match=says):
            async with asyncio.timeout(30):
                async for _ in pieces:
                    pass

    asyncio.run(go())


def test_half_of_the_queue_is_for_answers_that_are_there(visit: Visiting, worst: Path) -> None:
    async def go(client: Any, service: Service) -> None:
        whole = {**ASKED, "response": GOOD}
        with service.batcher.place(), service.batcher.place():
            said = await client.post(ROUTE, json=whole)
            assert (said.status_code, said.headers["retry-after"]) == (429, "1")
            assert "2 answers are being written" in said.json()["detail"]
            assert (await client.post("/v1/check", json=whole)).status_code == 200
        assert (await client.post(ROUTE, json=whole)).status_code == 200

    visit(go, worst, queue=4)


def test_one_that_grows_too_large_is_ended(process: Process) -> None:
    talk = Talk(process.port)
    until(lambda: b": begun" in talk.got, "begun", lambda: str(talk.got))
    for _ in range(30):
        talk.line("Tungsten is a metal. " * 50)
    until(lambda: talk.ended or (talk.events[-1:] and talk.events[-1][0] == "decision"), "ended")
    (problem,) = [data for name, data in talk.events if name == "error"]
    assert problem["type"] == "urn:calibrail:problem:too-large"
    assert talk.events[-1][1]["outcome"] == "error"


def test_many_come_at_once(process: Process, guardrail: Guardrail) -> None:
    talks = [Talk(process.port, {**ASKED, "id": str(row)}) for row in range(20)]
    for piece in (GOOD + BAD).split(" "):
        for talk in talks:
            talk.line(f"{piece} ")
    for talk in talks:
        talk.end()
    for row, talk in enumerate(talks):
        told = talk.until(4)
        asked = {**ASKED, "id": str(row), "response": GOOD + BAD.strip()}
        assert told[-1][1] == guardrail.check(**asked).to_dict()  # type: ignore[arg-type]
        talk.close()


def test_a_piece_of_any_length_is_cut_in_parts_between_which_others_are_answered(
    visit: Visiting, worst: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, threads = list[int](), list[bool]()
    split, end = StreamCheck.split, StreamCheck.end

    def noting(check: StreamCheck, token: str) -> Any:
        order.append(len(token))
        return split(check, token)

    def ending(check: StreamCheck) -> Any:
        threads.append(threading.current_thread() is not threading.main_thread())
        return end(check)

    monkeypatch.setattr(StreamCheck, "split", noting)
    monkeypatch.setattr(StreamCheck, "end", ending)
    text = "tungsten " * 2_000 + "caf\u00e9 \U0001f600 metal"

    async def go(client: Any, service: Service) -> None:
        async def look() -> None:
            for _ in range(10):
                assert (await client.get("/healthz")).status_code == 200
                order.append(0)

        body = "\n".join(map(json.dumps, (ASKED, text))).encode()
        headers = {"content-type": "application/x-ndjson"}
        told, _ = await asyncio.gather(client.post(ROUTE, content=body, headers=headers), look())
        assert events(told.text)[-1][1] == guardrail.check(**ASKED, response=text).to_dict()

    visit(go, worst)
    assert max(order) <= 200 and sum(order) == len(text)
    # Others had their turn before the last part.
    assert order.index(0) < len(order) - 50
    # What is left at the end may be long, too.
    assert threads[0]


def test_others_are_answered_while_a_long_piece_is_cut(worst: Path) -> None:
    n_answered = 0
    with Process(worst) as process:
        talk = Talk(process.port)
        talk.line("? " * 50_000)
        talk.end()
        until(lambda: b": begun" in talk.got, "begun", lambda: str(talk.got))
        while not talk.events:
            n_answered += process.ask("GET", "/healthz").status == 200
    assert n_answered >= 5
    assert [name for name, _ in talk.events] == ["decision"]


def test_a_long_first_line_is_read_beside_the_loop(
    visit: Visiting, worst: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, parse = list[bool](), schemas.parse

    def noting(*given: Any) -> Any:
        beside.append(threading.current_thread() is not threading.main_thread())
        return parse(*given)

    monkeypatch.setattr(schemas, "parse", noting)

    async def go(client: Any, service: Service) -> None:
        for spaces in (0, 1 << 17):
            body = (json.dumps(ASKED)[:-1] + " " * spaces + "}\n" + json.dumps(GOOD)).encode()
            headers = {"content-type": "application/x-ndjson"}
            said = await client.post(ROUTE, content=body, headers=headers)
            assert events(said.text)[-1][1]["outcome"] == "pass"

    visit(go, worst)
    assert beside == [False, True]


def test_an_answer_of_a_mass_of_sentences_ends_where_it_cannot_be_judged(
    visit: Visiting, worst: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.guardrail.sentences.MOST_BEFORE", 1_000)
    monkeypatch.setattr("calibrail.scores.base.MOST_PIECES", 3)

    async def go(client: Any, service: Service) -> None:
        body = "\n".join(map(json.dumps, (ASKED, "Tungsten is a metal. " * 1_000))).encode()
        headers = {"content-type": "application/x-ndjson"}
        said = await client.post(ROUTE, content=body, headers=headers)
        *told, (name, stop), (last, decision) = events(said.text)
        assert {name for name, _ in told} == {"sentence"} and len(told) == 10
        assert (name, stop["outcome"], stop["show"]) == ("stop", "error", "")
        assert "too long to judge by sentence: it has 11 sentences" in stop["reason"]
        assert (last, decision["outcome"]) == ("decision", "flag")
        assert "too long to be judged piece by piece" in decision["reason"]

    visit(go, worst)


@pytest.mark.parametrize("make", [of_sentences, of_worst])
def test_a_detector_that_fails_in_the_middle_shows_nothing_more(
    make: Any, visit: Visiting, tmp_path: Path
) -> None:
    made = make(failure="review")
    member = getattr(made.score, "members", {}).get("detector", made.score)
    member.raises_on = "13"
    path = tmp_path / "failing.json"
    made.save(path)

    async def go(client: Any, service: Service) -> None:
        answer = {"response": "It is 7. It is 13. It is 8.", "id": "x"}
        said = await client.post(ROUTE, json=answer)
        (first, one), (second, two), (last, decision) = events(said.text)
        assert (first, one["show"], second, two["show"]) == ("sentence", "It is 7.", "stop", "")
        assert (two["outcome"], decision["outcome"]) == ("review", "review")
        assert "cannot read 13" in decision["reason"]
        assert last == "decision"
        assert 'streams_total{end="failed",guardrail="failing"} 1.0' in (
            service.metrics.text().decode()
        )

    visit(go, path, load=lambda _: made)


def test_a_client_shows_what_passes_and_stops_the_model(
    process: Process, guardrail: Guardrail
) -> None:
    taken: list[str] = []

    def tokens(text: str, pause: float = 0.0) -> Iterator[str]:
        for word in text.split(" "):
            taken.append(word)
            time.sleep(pause)
            yield f"{word} "

    with Client(process.url, timeout=20) as client:
        written = client.stream_check(**ASKED)
        assert "".join(written.show(tokens(GOOD))) == GOOD + " "
        assert written.decision is not None
        assert written.decision.line() == guardrail.check(**ASKED, response=GOOD + " ").line()
        taken.clear()
        written = client.stream_check(**ASKED)
        more = "It goes on. " * 40
        assert "".join(written.show(tokens(GOOD + BAD + more, 0.03))) == GOOD.strip()
        assert len(taken) < 80
        assert written.stopped is not None and written.stopped["text"] == BAD.strip()
        expected = guardrail.check(**ASKED, response=GOOD + BAD.strip())
        assert written.decision is not None and written.decision.line() == expected.line()

    async def go(text: str) -> tuple[str, Any]:
        async def words() -> AsyncIterator[str]:
            for word in tokens(text):
                await asyncio.sleep(0.01)
                yield word

        async with AsyncClient(process.url, timeout=20) as client:
            written = client.stream_check(**ASKED)
            return "".join([piece async for piece in written.ashow(words())]), written.decision

    said, decision = asyncio.run(go(GOOD + BAD + more))
    assert (said, decision) == (GOOD.strip(), written.decision)
    assert asyncio.run(go(GOOD))[0] == GOOD + " "


def test_a_client_joins_the_halves_of_a_character(process: Process, guardrail: Guardrail) -> None:
    pieces = ["Tungsten \ud83d", "", "\ude00 is a metal. It", " is\ud83d", "\ude00."]
    whole = "Tungsten \U0001f600 is a metal. It is\U0001f600."
    with Client(process.url, timeout=20) as client:
        written = client.stream_check(**ASKED)
        assert "".join(written.show(pieces)) == whole
        assert written.decision is not None
    assert written.decision.line() == guardrail.check(**ASKED, response=whole).line()

    async def words() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    async def go() -> str:
        async with AsyncClient(process.url, timeout=20) as client:
            return "".join([piece async for piece in client.stream_check(**ASKED).ashow(words())])

    assert asyncio.run(go()) == whole


def test_a_client_says_why_there_is_no_decision(process: Process) -> None:
    for client in (Client(process.url, guardrail="other"), Client("http://127.0.0.1:1", timeout=1)):
        with client, pytest.raises(ServiceError, match=r"no-such-guardrail|refused"):
            list(client.stream_check(**ASKED).show(GOOD))
    with Client(process.url) as client, pytest.raises(InputError, match="a token must be a text"):
        list(client.stream_check(**ASKED).show([7]))  # type: ignore[list-item]


@pytest.mark.parametrize("line", [b"\n", b" \r\n", b'""\n'])
def test_a_mebibyte_of_empty_lines_is_read_once_and_lets_others_in_between(line: bytes) -> None:
    # Copied again with each line, it would be half a terabyte: hours.
    body = b'{"question": "a"}\n' + line * (2**20 // len(line)) + b'"the end"'
    others = 0

    async def lines() -> AsyncIterator[bytes]:
        yield body

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def read() -> list[str]:
        counting = asyncio.create_task(count())
        pieces = Pieces(lines(), 60.0, asyncio.Event())
        assert await pieces.first() == b'{"question": "a"}'
        found = [piece async for piece in pieces]
        counting.cancel()
        return found

    assert asyncio.run(read()) == ["the end"]
    assert others > 500
