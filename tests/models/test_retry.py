from __future__ import annotations

import base64
import contextlib
import email.utils
import gzip
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import pytest

from calibrail.errors import CalibrailError, ModelError
from calibrail.models.llm import transport as module
from calibrail.models.llm.chat import ChatAnswer, ChatRequest, read_answer
from calibrail.models.llm.providers import OpenAITransport
from tests.chat_server import ChatServer, Line, LocalServer, always, says, script, verdicts

SECRET = "the PROMPT of this test"
KEY = "sk-test-key"


pytestmark = pytest.mark.usefixtures("quick_retries")


def request(text: str = SECRET, **fields: Any) -> dict[str, Any]:
    return {"model": "m", **ChatRequest((("user", text),), **fields).parameters()}


def ask(
    caller: module.Caller,
    body: dict[str, Any] | None = None,
    spent: module.Account | None = None,
    **limits: Any,
) -> ChatAnswer:
    spent = spent or module.Account(module.CallLimits(**{"timeout": 20.0, **limits}))
    answer: ChatAnswer = caller.call(stoppable(threading.Event(), body, spent))
    return answer


def stoppable(
    stop: threading.Event, body: dict[str, Any] | None = None, spent: module.Account | None = None
) -> module.ModelRequest:
    return module.ModelRequest(
        "chat", body or request(), spent or module.Account(module.CallLimits()), stop, read_answer
    )


class Patient(threading.Event):
    """Notes what it was to wait for, and returns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return False


class Scripted:
    """A transport that does what a list says, one item a call."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.bodies: list[Mapping[str, Any]] = []

    def send(self, kind: str, body: Mapping[str, Any], seconds: float) -> Any:
        self.bodies.append(body)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return step


GOOD = {"choices": [{"message": {"content": "faithful"}, "finish_reason": "stop"}]}

#: Faults after which the same is asked again, and what the reason says when it never ends.
AGAIN = {
    "429": "HTTP 429 (rate_limit_exceeded), asked 3 times",
    "500": "HTTP 500 (server_error), asked 3 times",
    "503": "HTTP 503 (server_error), asked 3 times",
    "slow": "no complete answer within 0.3 s, asked 3 times",
    "drip": "no complete answer within 0.3 s, asked 3 times",
    "cut": "the connection failed (RemoteProtocolError), asked 3 times",
    "refused_line": "the connection failed (RemoteProtocolError), asked 3 times",
    "invalid_json": "the endpoint answered with broken JSON, asked 3 times",
    "html": "the endpoint answered with broken JSON, asked 3 times",
    "swapped": "the endpoint sent the answer to another request, asked 3 times",
    "empty_choices": "the endpoint answered without a choice, asked 3 times",
    "no_message": "the endpoint answered without a text, asked 3 times",
}


@pytest.mark.parametrize("fault", AGAIN)
def test_what_may_pass_is_asked_again(fault: str) -> None:
    seconds = 0.3 if fault in ("slow", "drip") else 20.0
    with ChatServer(faults=script(fault, fault), retry_after=0.001) as server:
        caller = module.Caller(server.url)
        spent = module.Account(module.CallLimits(timeout=seconds))
        assert ask(caller, spent=spent).text == "faithful"
        assert [seen.fault for seen in server.seen] == [fault, fault, None]
        assert spent.n_sent == caller.n_sent == 3


@pytest.mark.parametrize("fault", AGAIN)
def test_what_does_not_pass_is_given_up(fault: str) -> None:
    seconds = 0.3 if fault in ("slow", "drip") else 20.0
    with ChatServer(faults=always(fault), retry_after=0.001) as server:
        caller = module.Caller(server.url)
        with pytest.raises(module.RefusedError) as caught:
            ask(caller, attempts=3, timeout=seconds)
        assert str(caught.value) == AGAIN[fault]
        assert len(server.seen) == 3
        assert caller.n_sent == 3


def test_nobody_listens() -> None:
    with ChatServer() as server:
        url = server.url
    with pytest.raises(module.RefusedError, match=r"the connection failed \(\w+\), asked 2 times"):
        ask(module.Caller(url), attempts=2)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("401", r"HTTP 401 \(invalid_api_key\)"),
        ("404", r"HTTP 404 \(model_not_found\)"),
        ("429_quota", r"HTTP 429 \(insufficient_quota\): the account is used up"),
    ],
)
def test_what_no_request_can_pass_ends_the_run(fault: str, says: str) -> None:
    with ChatServer(faults=always(fault)) as server:
        with pytest.raises(ModelError, match=says):
            ask(module.Caller(server.url))
        assert len(server.seen) == 1


def test_a_text_that_is_too_long_is_asked_once() -> None:
    with ChatServer(context=10) as server:
        with pytest.raises(module.RefusedError) as caught:
            ask(module.Caller(server.url))
        assert caught.value.too_long
        assert "longer than the model reads" in str(caught.value)
        assert len(server.seen) == 1


def test_retry_after_is_waited_for() -> None:
    patient = Patient()
    busy = module.AgainError("HTTP 429", 5.0)
    transport = Scripted(busy, busy, GOOD)
    caller = module.Caller("e", transport)
    caller.call(stoppable(patient))
    assert len(transport.bodies) == 3
    # No time passes here, so that each attempt finds that all are still to wait.
    first, held, second, held_again = patient.waits
    for wait in (first, second):
        assert 5.0 <= wait <= 7.51
    for wait in (held, held_again):
        assert 0.0 < wait <= 5.0
    another = Patient()
    caller.call(stoppable(another))
    (everyone,) = another.waits
    assert 0.0 < everyone <= 5.0


def test_an_endpoint_that_asks_for_too_long_is_given_up() -> None:
    with ChatServer(faults=always("429"), retry_after=3600) as server:
        with pytest.raises(
            module.RefusedError, match=r"asked once; the endpoint asks to wait 3600 s"
        ):
            ask(module.Caller(server.url), patience=60)
        assert len(server.seen) == 1


class Answers(LocalServer):
    """Gives one status with headers and a body, whatever is asked."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.status, self.body, self.headers = status, body, headers
        self.n = 0

    def handle(self, line: Line) -> None:
        with self.lock:
            self.n += 1
        line.send(self.status, self.body, headers=self.headers)


def http_date(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"retry-after": " 0.25 "}, 0.25, 0.25),
        ({"Retry-After": "0"}, None, None),
        ({"Retry-After-Ms": "1500"}, 1.5, 1.5),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5, 1.5),
        ({"Retry-After-Ms": "x", "Retry-After": "2"}, 2, 2),
        ({"Retry-After": lambda: http_date(3600)}, 3000, 3601),
        ({"Retry-After": lambda: http_date(-99)}, None, None),
        ({}, None, None),
        ({"Retry-After": "x"}, None, None),
        ({"Retry-After": "nan"}, None, None),
        ({"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT"}, None, None),
    ],
)
def test_retry_after_is_read(
    headers: dict[str, str | Callable[[], str]], least: float | None, most: float | None
) -> None:
    given = {name: text if isinstance(text, str) else text() for name, text in headers.items()}
    with Answers(503, {"error": {}}, given) as server, pytest.raises(module.AgainError) as caught:
        OpenAITransport(server.url).send("chat", request(), 20.0)
    if least is None or most is None:
        assert caught.value.wait is None
    else:
        assert caught.value.wait is not None
        assert least <= caught.value.wait <= most


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": SECRET, "type": SECRET, "code": SECRET, "param": SECRET}},
        {"error": [SECRET]},
        {"detail": [{"input": SECRET}]},
        SECRET.encode(),
        b"\xff\xfe",
        {"error": {"message": None, "type": 5, "code": 400, "param": ["x"]}},
    ],
)
def test_an_endpoints_prose_is_not_repeated(body: Any) -> None:
    with Answers(400, body) as server:
        transport = OpenAITransport(server.url)
        for server.status in (400, 401, 403, 404, 429, 500):
            with pytest.raises((module.RefusedError, module.AgainError, ModelError)) as caught:
                transport.send("chat", request(), 20.0)
            assert "PROMPT" not in str(caught.value)
            assert f"HTTP {server.status}" in str(caught.value)
            assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 200_000, b'{"a":' * 40_000, b"\xff", b"9" * 10_000]
)
def test_a_strange_body_is_an_error_like_any(body: bytes) -> None:
    with Answers(200, body) as server, pytest.raises(module.AgainError, match="broken JSON"):
        OpenAITransport(server.url).send("chat", request(), 20.0)


def test_a_body_has_an_end() -> None:
    most = module.most_bytes("chat", request())
    assert 256 * 1024 <= most < 300_000
    # What was asked for fits: of each token the 20 likeliest, names and bytes of each.
    asked = {"max_tokens": 500, "logprobs": True, "top_logprobs": 20}
    assert module.most_bytes("chat", asked) > 500 * 21 * 120
    kept = {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}
    empty = len(json.dumps(kept))
    kept["choices"][0]["message"] = {"content": "a" * (most - empty)}
    with Answers(200, json.dumps(kept).encode()) as server:
        OpenAITransport(server.url).send("chat", request(), 20.0)
    server = Answers(200, json.dumps(kept).encode() + b" ")
    with server, pytest.raises(module.AgainError, match=f"more than {most:,} bytes"):
        OpenAITransport(server.url).send("chat", request(), 20.0)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 429, 500])
def test_the_body_of_an_error_has_an_end(status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent, ended = [0], threading.Event()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                begin = b'{"error": {"code": "model_not_found", "message": "'
                connection.sendall(b"HTTP/1.1 %d No\r\n\r\n" % status + begin)
                while sent[0] < 1 << 28:
                    sent[0] += connection.send(b"x" * (1 << 16))
            ended.set()

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises((CalibrailError, module.AgainError, module.RefusedError)) as caught:
            OpenAITransport(url).send("chat", request(), 20.0)
        assert f"HTTP {status}" in f"{caught.value}"
        assert ended.wait(20.0)
        # What the sockets of both sides hold, and no more.
        assert sent[0] < 1 << 25


def test_an_error_within_the_limit_is_read_whole() -> None:
    long = {"code": "context_length_exceeded", "message": "x" * (module.ERROR_BYTES - 200)}
    for packed in (False, True):
        raw = json.dumps({"error": long}).encode()
        headers = {"Content-Encoding": "gzip"} if packed else {}
        body = gzip.compress(raw) if packed else raw
        with Answers(400, body, headers) as server, pytest.raises(module.RefusedError) as caught:
            OpenAITransport(server.url).send("chat", request(), 20.0)
        assert caught.value.too_long


def test_headers_that_drip_in_end_by_the_time_of_the_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    connection.sendall(b"X-Wait: a\r\n")
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(module.AgainError, match="no complete answer within"):
            OpenAITransport(url).send("chat", request(), 0.3)


def test_a_key_that_an_endpoint_gives_back_stands_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key := "sk-secret-1234567890")
    said = {"model": key, "choices": [{"message": {"content": f"yes {key}"}}]}
    with Answers(200, json.dumps(said).encode()) as server:
        answer = OpenAITransport(server.url).send("chat", request(), 20.0)
    assert key not in str(answer)
    assert answer["model"] == "[key]"
    wrong = json.dumps({"error": {"code": key, "type": key, "message": key, "param": key}})
    for status in (400, 401, 404, 429, 500):
        with Answers(status, wrong.encode()) as server, pytest.raises(Exception, match="HTTP") as e:
            OpenAITransport(server.url).send("chat", request(), 20.0)
        assert key not in f"{e.value!r} {e.value}"


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
def test_a_key_in_another_spelling_is_redacted(before: str) -> None:
    key = "sk-Pr0j/+secret~1234567890"
    raw = f"{before}{key}, and more".encode()
    spellings = [
        key,
        quote(key, safe=""),
        "".join(f"%{ord(c):02X}" for c in key),
        "".join(f"\\u{ord(c):04x}" for c in key),
        "".join(f"\\x{ord(c):02x}" for c in key),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    ]
    for spelling in spellings:
        told = module._without_key({"a": [f"Bearer {spelling}."]}, key)["a"][0]
        assert "[key]" in told and spelling not in told
        assert module._without_key("nothing of it", key) == "nothing of it"


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_long_run_of_a_key_is_redacted_in_any_spelling(before: str) -> None:
    key = "sk-Pr0j-" + "".join(f"{i:03d}x" for i in range(40))
    for begin, end in ((0, 64), (0, 12), (9, 21), (len(key) - 12, len(key)), (50, 120)):
        part = key[begin:end]
        for spelt in (
            part,
            "".join(f"%{ord(c):02X}" for c in part),
            f"{part[:6]}%{ord(part[6]):x}{part[7:]}",
        ):
            told = module._without_key([f"{before} {spelt}!"], key)
            assert told == [f"{before} [key]!"]
        coded = base64.b64encode(f"{before}{part}".encode()).decode()
        told = module._without_key(f"of {coded}", key)
        assert "[key]" in told and len(told) < len("of [key]") + 8
        # What shares fewer letters with it stays.
        assert module._without_key(f"{part[:11]} {part[:11]}", key) == f"{part[:11]} {part[:11]}"


def test_a_code_that_is_the_beginning_of_a_long_key_stands_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "sk-proj-" + "Ab1_" * 39
    monkeypatch.setenv("OPENAI_API_KEY", key)
    for code in (key[:64], key[100:130], f"quota_{key[8:40]}"):
        with Answers(400, {"error": {"code": code}}) as server, pytest.raises(Exception) as e:
            OpenAITransport(server.url).send("chat", request(), 20.0)
        told = f"{e.value!r} {e.value}"
        assert "HTTP 400" in told
        assert not any(key[i : i + 12] in told for i in range(len(key) - 11))


@pytest.mark.parametrize(
    ("rejected", "fields", "sent"),
    [
        ("max_tokens", {}, {"messages", "temperature", "max_completion_tokens", "model"}),
        ("seed", {"temperature": 1.0}, {"messages", "temperature", "max_tokens", "model"}),
        ("logprobs", {"top_logprobs": 20}, {"messages", "temperature", "max_tokens", "model"}),
        ("top_logprobs", {"top_logprobs": 20}, {"messages", "temperature", "max_tokens", "model"}),
        (
            "response_format",
            {"schema": '{"type":"object"}'},
            {"messages", "temperature", "max_tokens", "model"},
        ),
    ],
)
def test_what_an_endpoint_does_not_know_is_left_out_from_then_on(
    rejected: str, fields: dict[str, Any], sent: set[str]
) -> None:
    with ChatServer(reject=(rejected,)) as server:
        caller = module.Caller(server.url)
        spent = module.Account(module.CallLimits())
        for text in ("one", "two"):
            assert ask(caller, request(text, **fields), spent).text == "faithful"
        assert {name for name, value in server.seen[-1].body.items() if value is not None} == sent
        # top_logprobs is first tried with five, then without.
        assert len(server.seen) == (4 if rejected == "top_logprobs" else 3)
        assert spent.n_sent == caller.n_sent == len(server.seen)


def test_everything_may_be_unknown_at_once() -> None:
    known = ("max_tokens", "logprobs", "top_logprobs", "seed", "response_format")
    body = request(temperature=1.0, top_logprobs=20, schema='{"type":"object"}')
    with ChatServer(reject=known) as server:
        caller = module.Caller(server.url)
        assert ask(caller, body).text == "faithful"
        n = len(server.seen)
        assert n <= 7
        assert ask(caller, request("two", **{"temperature": 1.0, "top_logprobs": 20})).text
        assert len(server.seen) == n + 1


def test_an_endpoint_that_never_answered_ends_the_run_soon() -> None:
    transport = Scripted(module.AgainError("the connection failed (ConnectError)"))
    caller = module.Caller("http://e/v1", transport)
    for _ in range(module.FIRST_FAIL - 1):
        with pytest.raises(module.RefusedError):
            ask(caller, attempts=1)
    with pytest.raises(ModelError, match=rf"none of the last {module.FIRST_FAIL} requests"):
        ask(caller, attempts=1)


def test_an_endpoint_that_answers_nothing_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_FAIL", module.ALL_FAIL)
    transport = Scripted(module.AgainError("HTTP 500"))
    caller = module.Caller("http://e/v1", transport)
    for _ in range(module.ALL_FAIL - 1):
        with pytest.raises(module.RefusedError):
            ask(caller, attempts=2)
    n = len(transport.bodies)
    assert n == 2 * (module.ALL_FAIL - 1)
    with pytest.raises(
        ModelError, match=rf"none of the last {module.ALL_FAIL} requests \(HTTP 500"
    ):
        ask(caller, attempts=2)
    n = len(transport.bodies)
    with pytest.raises(ModelError):
        ask(caller, attempts=6)
    # Then one attempt, and one question that nothing can be wrong with, tell.
    assert len(transport.bodies) - n == 2


def test_texts_that_are_too_long_never_end_the_run() -> None:
    transport = Scripted(module.RefusedError("too long", frozenset(), True))
    caller = module.Caller("http://e/v1", transport)
    for _ in range(module.ALL_FAIL + 5):
        with pytest.raises(module.RefusedError):
            ask(caller)
    assert len(transport.bodies) == module.ALL_FAIL + 5


def test_attempts_are_charged_to_the_budget() -> None:
    with ChatServer(faults=always("500")) as server:
        caller, spent = module.Caller(server.url), module.Account(module.CallLimits(max_calls=3))
        with pytest.raises(module.BudgetError):
            ask(caller, spent=spent)
        assert len(server.seen) == spent.n_sent == 3
        with pytest.raises(module.BudgetError):
            ask(caller, spent=spent)
        assert len(server.seen) == 3


def test_nothing_is_sent_once_the_run_is_stopped() -> None:
    transport = Scripted(GOOD)
    stop = threading.Event()
    stop.set()
    with pytest.raises(module.RefusedError, match="the run was stopped"):
        module.Caller("e", transport).call(stoppable(stop))
    assert transport.bodies == []


@pytest.mark.parametrize("wait", [None, 60.0])
def test_a_stop_ends_every_wait(wait: float | None) -> None:
    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return True

    transport = Scripted(module.AgainError("HTTP 503", wait))
    with pytest.raises(module.RefusedError, match="the run was stopped"):
        module.Caller("e", transport).call(stoppable(Stopping()))
    assert len(transport.bodies) == 1


def test_waits_grow_and_have_a_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 1.0)
    monkeypatch.setattr(module, "LONGEST_WAIT", 5.0)
    transport, patient = Scripted(module.AgainError("HTTP 503")), Patient()
    with pytest.raises(module.RefusedError):
        module.Caller("e", transport).call(stoppable(patient))
    assert len(transport.bodies) == 6
    for wait, least in zip(patient.waits, (1.0, 2.0, 4.0, 5.0, 5.0), strict=True):
        assert least <= wait <= least + 1.0


@pytest.mark.parametrize("fault", [None, "500", "400", "cut", "html", "no_message", "401"])
def test_logs_hold_no_key_no_prompt_and_no_answer(
    fault: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_LOG", "debug")
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2", "httpcore2", "httpx", "httpcore"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.DEBUG)
    faults = always(fault) if fault else script()
    with ChatServer(says("SAID by the judge"), faults, api_key=KEY) as server:
        try:
            assert ask(module.Caller(server.url), attempts=2).text == "SAID by the judge"
        except (module.RefusedError, ModelError) as error:
            shown = f"{error!r} {error}"
            assert KEY not in shown
            assert "PROMPT" not in shown
            assert fault is not None
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    logged = "\n".join([f"{record.getMessage()} {vars(record)}" for record in caplog.records])
    for secret in (KEY, "PROMPT", "SAID"):
        assert secret not in logged


def test_a_host_of_no_trust_learns_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from calibrail.models.llm import transport as endpoint

    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"secret-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer secret-x\nX-A: secret-y")
    with ChatServer() as server:
        OpenAITransport(server.url).send("chat", request(), 20.0)
        monkeypatch.setattr(endpoint, "is_trusted", lambda address: False)
        OpenAITransport(server.url).send("chat", request(), 20.0)
        trusted, other = (seen.headers for seen in server.seen)
    assert "secret" in str(trusted)
    assert "secret" not in str(other)
    assert other["authorization"] == "Bearer none"


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirection_takes_nothing_elsewhere(status: int) -> None:
    with ChatServer() as other:
        moved = {"Location": f"{other.url}/chat/completions"}
        with Answers(status, b"", moved) as server, pytest.raises(ModelError, match="has moved"):
            ask(module.Caller(server.url))
        assert server.n == 1
        assert other.seen == []


def test_a_wrong_key_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(api_key=KEY) as server:
        with pytest.raises(ModelError, match="it wants a key; set OPENAI_API_KEY"):
            ask(module.Caller(server.url))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not accepted") as caught:
            ask(module.Caller(server.url))
        assert "sk-wrong" not in str(caught.value)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert ask(module.Caller(server.url)).text == "faithful"


def test_what_is_sent_arrives_as_it_is() -> None:
    text = 'é "quoted" \\ </answer> {x} \u2028 \U0001f600'
    with ChatServer(verdicts(lambda said: 0.9)) as server:
        answer = ask(module.Caller(server.url), request(text, top_logprobs=20))
        (seen,) = server.seen
        assert seen.body == request(text, top_logprobs=20)
        assert answer.text == "hallucination"
        assert answer.positions is not None
        assert answer.positions[0].token == "hall"
        assert answer.served == "m"
        assert answer.tokens_in is not None


def test_every_request_has_a_name_of_its_own_which_may_come_back() -> None:
    with ChatServer(faults=script("echoed", "echoed")) as server:
        caller = module.Caller(server.url)
        assert [ask(caller).text for _ in range(2)] == ["faithful", "faithful"]
        assert len({seen.headers["x-client-request-id"] for seen in server.seen}) == 2
