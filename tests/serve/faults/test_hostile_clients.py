from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from calibrail.guardrail import Guardrail
from tests.serve.faults.kept import (
    decides_as_ever,
    is_refusal,
    is_true,
    lines_of,
    nothing_is_invented,
    verified,
)
from tests.serve.load import Exchange, Load
from tests.serve.process import Service, answers_in, read_all, request_bytes

Bodies = Iterator[dict[str, Any]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def service(file: Path, log: Path) -> Iterator[Service]:
    """One process takes all of this, and in the end its log is whole."""
    with Service(file, "--log", log, "--read-timeout", 1) as process:
        yield process
        assert process.terminate() == 0, process.stderr
        verified(log)


@pytest.fixture(autouse=True)
def as_ever(service: Service, guardrail: Guardrail, bodies: Bodies) -> Iterator[None]:
    """After each of these, others are served as before."""
    yield
    decides_as_ever(service, guardrail, {**next(bodies), "id": "afterwards"})


#: Bodies that are no request, and the status of their refusal.
BROKEN = {
    "nothing": (b"", 400),
    "half": (b'{"question": "a", "contexts": ["b"], "resp', 400),
    "two objects": (b'{"response": "a"} {"response": "b"}', 400),
    "quotes of Python": (b"{'response': 'a'}", 400),
    "no UTF-8": (b'{"response": "\xff\xfe"}', 400),
    "half a surrogate pair in bytes": (b'{"response": "\xed\xa0\x80"}', 400),
    "a byte of zero": (b'{"response": "a"}\x00', 400),
    "a list": (b"[]", 422),
    "a text": (b'"response"', 422),
    "null": (b"null", 422),
    "lists in lists": (b"[" * 200_000, 400),
    "objects in objects": (b'{"columns":' * 50_000, 400),
    "closed lists in lists": (b'{"response": ' + b"[" * 9_999 + b"]" * 9_999 + b"}", 400),
    "a field that is deep": (
        b'{"question": "a", "contexts": ["b"], "response": "c", "columns": {"d": '
        + b"[" * 1_000
        + b"]" * 1_000
        + b"}}",
        400,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_json_object_is_refused(service: Service, case: str) -> None:
    body, status = BROKEN[case]
    answer = service.check(body)
    is_refusal(answer)
    # Depth may be found out before or after an object is.
    assert answer.status == status or (answer.status, status) == (422, 400), answer


#: Fields that are wrong, and where a refusal says so.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"reponse": "a"}, "/reponse"),
    "a number for a text": ({"response": 1}, "/response"),
    "contexts that hold a number": ({"contexts": ["a", 2]}, "/contexts/1"),
    "contexts that are an object": ({"contexts": {"a": "b"}}, "/contexts"),
    "an id that is no text": ({"id": 5}, "/id"),
    "columns that are a list": ({"columns": [1]}, "/columns"),
    "half a surrogate pair": ({"question": "\ud800"}, "/question"),
    "half a surrogate pair in a context": ({"contexts": ["a", "\udc00 b"]}, "/contexts/1"),
    "half a surrogate pair as the id": ({"id": "\udfff"}, "/id"),
    "not a number": ({"columns": {"d": float("nan")}}, "/columns/d"),
    "an infinite number": ({"columns": {"d": float("-inf")}}, "/columns/d"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_field_is_refused_by_name(service: Service, bodies: Bodies, case: str) -> None:
    fields, pointer = WRONG[case]
    answer = service.check({**next(bodies), **fields})
    is_refusal(answer)
    # pydantic reads an escaped half of a pair as broken JSON: then the whole is at fault.
    assert answer.status in (400, 422)
    if answer.status == 422:
        assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer
    assert answer.status == 422 or "surrogate" in case, answer


def test_a_field_given_twice_is_refused_and_not_chosen_from(service: Service) -> None:
    raw = b'{"question": "a", "contexts": ["b"], "response": "c", "response": "b"}'
    answer = service.check(raw)
    is_refusal(answer)
    assert "response" in answer.json()["detail"]


def test_a_number_beyond_all_numbers_is_refused(service: Service, bodies: Bodies) -> None:
    body = {**next(bodies), "columns": {"d": 0}}
    for huge in ("1e999", "9" * 5000):
        answer = service.check(json.dumps(body).replace('{"d": 0}', f'{{"d": {huge}}}').encode())
        is_refusal(answer)


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
def test_only_json_is_taken(service: Service, bodies: Bodies, kind: str) -> None:
    answer = service.check(next(bodies), **{"Content-Type": kind})
    is_refusal(answer)
    assert answer.status == 415


def test_a_foreign_name_of_this_machine_is_refused(service: Service, bodies: Bodies) -> None:
    answer = service.check(next(bodies), Host="evil.example")
    is_refusal(answer)


def test_what_is_not_there_is_refused(service: Service, bodies: Bodies) -> None:
    body = next(bodies)
    for method, path, status in (
        ("POST", "/v1/nothing", 404),
        ("GET", "/v1/check", 405),
        ("POST", "/v1/check?guardrail=other", 404),
    ):
        answer = service.ask(method, path, body if method == "POST" else None)
        is_refusal(answer)
        assert answer.status == status, answer


#: Requests that HTTP does not know.
MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    "no version": b"POST /v1/check\r\n\r\n",
    "two lengths": b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "a length below zero": b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: -1\r\n\r\n",
    "a length and chunks": b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /v1/guardrail HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a chunk without length": b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "headers without end": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
    + b"a" * 2_000_000,
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_http_ends_the_connection(service: Service, case: str) -> None:
    with service.connect() as connection:
        try:
            connection.sendall(MALFORMED[case])
        except (BrokenPipeError, ConnectionResetError):
            # It may be cut off before all of it was sent.
            return
        raw = read_all(connection)
    assert b" 200 " not in raw.partition(b"\r\n")[0], raw
    # Nothing that was smuggled behind it is answered as a request of its own.
    assert raw.count(b"HTTP/1.1 ") <= 1, raw


@pytest.mark.parametrize("slow", ["headers", "body"])
def test_a_client_that_sends_a_byte_at_a_time_is_sent_away(
    service: Service, bodies: Bodies, slow: str
) -> None:
    raw = request_bytes(json.dumps(next(bodies)).encode())
    at_once = 0 if slow == "headers" else raw.index(b"\r\n\r\n") + 4
    with service.connect() as connection:
        connection.sendall(raw[:at_once])
        n_sent, ended = at_once, False
        while n_sent < len(raw) and not ended:
            time.sleep(0.1)
            try:
                connection.sendall(raw[n_sent : n_sent + 1])
                n_sent += 1
            except OSError:
                ended = True
        said = read_all(connection)
    assert n_sent < len(raw)
    for answer in answers_in(said):
        assert answer.status == 408
        is_refusal(answer)


@pytest.mark.parametrize("way", ["said before", "in chunks"])
def test_a_body_of_100_megabytes_is_neither_read_nor_kept(service: Service, way: str) -> None:
    before = service.memory("VmHWM")
    lines = ["POST /v1/check HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines.append(
        "Content-Length: 100000000" if way == "said before" else "Transfer-Encoding: chunked"
    )
    block = b'"' + b"a" * 999_998 + b'"'
    if way == "in chunks":
        block = b"%x\r\n%s\r\n" % (len(block), block)
    with service.connect() as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        try:
            for _ in range(100):
                connection.sendall(block)
            # Nothing of it was kept, and the connection is good for more, which none will ask.
            connection.shutdown(socket.SHUT_WR)
            said = read_all(connection)
        except OSError:
            said = b""
    for answer in answers_in(said):
        assert answer.status == 413
        is_refusal(answer)
    assert service.memory("VmHWM") - before < 20_000


def test_a_body_just_above_the_limit_is_told_so(service: Service, bodies: Bodies) -> None:
    body = {**next(bodies), "response": "a" * 2**20}
    answer = service.check(body)
    is_refusal(answer)
    assert answer.status == 413 and "1" in answer.json()["detail"]


def _filled(body: dict[str, Any], n_bytes: int) -> bytes:
    raw = json.dumps({**body, "response": ""}).encode()
    words, left = divmod(n_bytes - len(raw), 2)
    return json.dumps({**body, "response": "a " * words + "a" * left}).encode()


def test_limits_of_a_body_are_those_that_are_stated(service: Service, bodies: Bodies) -> None:
    body = next(bodies)
    for more, status in ((0, 200), (1, 413)):
        raw = _filled(body, 2**20 + more)
        assert service.ask("POST", "/v1/check", raw).status == status
        head = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        (answer,) = answers_in(service.raw(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw)))
        assert answer.status == status
        items = [{"question": "q", "contexts": ["c"], "response": "r"}] * (1_024 + more)
        for path, asked in (("/v1/check/batch", {}), ("/v1/select", {"fdr": 0.2})):
            answer = service.ask("POST", path, {"items": items, **asked})
            assert answer.status == status, answer.body[:500]
        columns = {f"c{k}": k for k in range(1_000 + more)}
        answer = service.check({**body, "columns": columns})
        assert answer.status == (422 if more else 200)
        assert not more or "1,001 columns" in answer.json()["detail"]
        # Of unknown fields each is told, of too many that they are.
        answer = service.check(dict(list({**body, **columns}.items())[: 1_000 + more]))
        assert answer.status == 422
        assert ("1,001 fields" in answer.json()["detail"]) == bool(more)
        assert len(answer.json()["errors"]) == (1 if more else 20)


@pytest.mark.parametrize(("n", "last"), [(101, 200), (102, 429)])
def test_a_request_and_a_hundred_behind_it_are_answered(
    service: Service, n: int, last: int
) -> None:
    lines = (b"GET /healthz HTTP/1.1", b"Host: 127.0.0.1", b"")
    ending = b"\r\n".join([*lines[:-1], b"Connection: close", b"", b""])
    *answers, end = answers_in(service.raw(b"\r\n".join([*lines, b""]) * (n - 1) + ending))
    assert len(answers) == n - 1 and all(answer.status == 200 for answer in answers)
    assert end.status == last


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
def test_limits_of_headers_are_those_that_are_stated(
    service: Service, more: int, status: int
) -> None:
    stated = b"Host: 127.0.0.1\r\nConnection: close\r\n"
    many = b"GET /healthz HTTP/1.1\r\n" + stated + b"a: b\r\n" * (98 + more) + b"\r\n"
    for line in (
        b"GET /healthz HTTP/1.1\r\n%sa: %s\r\n\r\n",
        b"GET /healthz?%s HTTP/1.1\r\n%s\r\n",
    ):
        is_address = b"?" in line
        pad = b"b" * (65_536 + more - len(line) + 4 - len(stated))
        given = (pad, stated) if is_address else (stated, pad)
        assert len(long := line % given) == 65_536 + more
        assert [answer.status for answer in answers_in(service.raw(long))] == [status]
    assert [answer.status for answer in answers_in(service.raw(many))] == [status]


def test_a_thousand_connections_at_a_time(
    file: Path, guardrail: Guardrail, tmp_path: Path, bodies: Bodies
) -> None:
    # Time enough to read them, on a machine that is busy with other things, too.
    with Service(file, "--log", tmp_path, "--read-timeout", 60) as service:
        exchanges = Load(service.port, islice(bodies, 3_000), connections=1_000).run()
        assert len(exchanges) == 3_000 and all(exchange.answer for exchange in exchanges)
        n_decided, n_refused = nothing_is_invented(exchanges, guardrail, tmp_path)
    assert n_decided + n_refused == 3_000 and n_decided >= 1_000
    refused = [x.answer for x in exchanges if x.answer and x.answer.status != 200]
    assert all(answer.status == 429 and answer.headers["retry-after"] for answer in refused)


@pytest.mark.parametrize("said", [["Connection: close"], []], ids=["said", "half-closed"])
def test_requests_sent_before_their_answers_are_answered_in_order(
    service: Service, guardrail: Guardrail, bodies: Bodies, said: list[str]
) -> None:
    sent = list(islice(bodies, 50))
    raw = [request_bytes(json.dumps(body).encode()) for body in sent[:-1]]
    raw.append(request_bytes(json.dumps(sent[-1]).encode(), "/v1/check", *said))
    answers = answers_in(service.raw(b"".join(raw), half_closed=not said))
    assert [answer.json()["id"] for answer in answers] == [body["id"] for body in sent]
    nothing_is_invented([Exchange(*pair) for pair in zip(sent, answers, strict=True)], guardrail)


def test_clients_that_leave_before_their_answer_disturb_nobody(
    service: Service, guardrail: Guardrail, log: Path, bodies: Bodies
) -> None:
    sent = list(islice(bodies, 200))
    for number, body in enumerate(sent):
        raw = request_bytes(json.dumps(body).encode())
        with service.connect() as connection:
            connection.sendall(raw[: len(raw) // 2] if number % 2 else raw)
    decides_as_ever(service, guardrail, {**next(bodies), "id": "between"})
    lines = verified(log)
    for body in sent:
        # What was decided for nobody is logged as it was; half a request was never one.
        for line in lines.get(body["id"], []):
            line = {name: line[name] for name in json.loads(guardrail.check(**body).line())}
            is_true(json.dumps(line, ensure_ascii=False), body, [guardrail])
    assert not any(lines.get(body["id"]) for body in sent[1::2])
    assert service.metric("calibrail_queue_depth") == 0


def test_one_bad_answer_of_a_batch_refuses_it_before_anything_is_decided(
    service: Service, log: Path, bodies: Bodies
) -> None:
    items: list[dict[str, Any]] = list(islice(bodies, 5))
    items[3]["contexts"] = [None]
    answer = service.ask("POST", "/v1/check/batch", {"items": items})
    is_refusal(answer)
    assert "/items/3/contexts/0" in [error["pointer"] for error in answer.json()["errors"]]
    assert not lines_of(log).keys() & {item["id"] for item in items}


#: Bodies of a mebibyte, all of which is wrong.
MASSES = {
    "answers that are empty": b'{"items": [' + b"{}," * 300_000 + b"{}]}",
    "numbers for answers": b'{"items": [' + b"1," * 500_000 + b"1]}",
    "answers of unknown fields": b'{"items": [' + b'{"a":1},' * 120_000 + b'{"a":1}]}',
    "as many as may be": b'{"items": [' + b'{"a":1},' * 1_000 + b'{"a":1}]}',
    "numbers for contexts": b'{"items": [{"contexts": [' + b"1," * 500_000 + b"1]}]}",
    "unknown fields": b"{" + b",".join(b'"a%d":1' % k for k in range(90_000)) + b"}",
    "lists for cells": b'{"items": [{"response": "a", "columns": {'
    + b",".join(b'"a%d":{}' % k for k in range(80_000))
    + b"}}]}",
    "one name": b'{"' + b"a" * 1_000_000 + b'": 1}',
}


@pytest.mark.parametrize("case", MASSES)
@pytest.mark.parametrize("path", ["/v1/check", "/v1/check/batch", "/v1/select"])
def test_a_mass_of_wrong_fields_gets_a_short_answer(service: Service, path: str, case: str) -> None:
    answer = service.ask("POST", path, MASSES[case])
    is_refusal(answer)
    assert answer.status in (400, 413, 422)
    assert len(answer.body) < 50_000
    assert len(answer.json().get("errors", [])) <= 20


@pytest.mark.parametrize(
    "headers",
    [
        b" HTTP/1.1\r\n" + b"a:b\r\n" * 10_000,
        b" HTTP/1.1\r\n" + b"a:b\r\n" * 100,
        b" HTTP/1.1\r\na: " + b"b" * 65_536 + b"\r\n",
        b"?" + b"a" * 70_000 + b" HTTP/1.1\r\n",
    ],
    ids=["many", "one too many", "one that is long", "a long address"],
)
def test_headers_that_come_at_once_are_counted(service: Service, headers: bytes) -> None:
    (answer,) = answers_in(service.raw(b"GET /healthz" + headers + b"Host: 127.0.0.1\r\n\r\n"))
    assert answer.status == 431
    is_refusal(answer)


#: A header that is missing, what stands in its stead within or behind a body that comes in parts,
#: and the status of the answer.
BESIDE_BODIES = {
    "behind it": ("", b"\r\n0\r\nX: a\r\nHost: elsewhere\r\n\r\n", 200),
    "behind it alone": ("Content-Type", b"\r\n0\r\nContent-Type: application/json\r\n\r\n", 415),
    "behind it without end": ("", b"\r\n0\r\nX: " + b"a" * 10_000_000, 431),
    "at a part without end": ("", b"\r\n1;x=" + b"a" * 10_000_000, 431),
    "at a part, just short enough": ("", b"\r\n1;x=" + b"a" * 65_000 + b"\r\n \r\n0\r\n\r\n", 200),
    "at a part, too long": ("", b"\r\n1;x=" + b"a" * 65_536 + b"\r\n \r\n0\r\n\r\n", 431),
}


@pytest.mark.parametrize("case", BESIDE_BODIES)
def test_what_stands_beside_a_body_is_no_header_and_has_their_limit(
    service: Service, bodies: Bodies, case: str
) -> None:
    missing, behind, status = BESIDE_BODIES[case]
    stated = {"Host": "127.0.0.1", "Content-Type": "application/json", "Connection": "close"}
    stated["Transfer-Encoding"] = "chunked"
    lines = [f"{name}: {value}" for name, value in stated.items() if name != missing]
    body = json.dumps(next(bodies)).encode()
    head = "\r\n".join(["POST /v1/check HTTP/1.1", *lines, "", f"{len(body):x}", ""]).encode()
    with service.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head + body + behind)
        (answer,) = answers_in(read_all(connection))
    assert answer.status == status


def test_a_body_that_is_packed_for_its_way_is_refused(service: Service) -> None:
    head = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    packed = b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    (answer,) = answers_in(service.raw(head + packed))
    is_refusal(answer)
    assert answer.status in (400, 415)


def test_a_slash_at_the_end_changes_nothing(service: Service, bodies: Bodies) -> None:
    for method, path in (("POST", "/v1/check"), ("GET", "/healthz"), ("GET", "/v1/guardrail")):
        body = next(bodies) if method == "POST" else None
        plain = service.ask(method, path, body)
        answer = service.ask(method, f"{path}/", body)
        assert answer.status == plain.status == 200
        assert answer.body == plain.body
        assert "location" not in answer.headers
    assert service.ask("GET", "/healthz//").status == 404
    assert service.ask("GET", "/").status == 404


#: What comes behind requests that are right, and the status of its refusal.
BEHIND = {
    "no HTTP": (b"\x16\x03\x01 what is this\r\n\r\n", 400),
    "too many headers": (b"GET /healthz HTTP/1.1\r\n" + b"a:b\r\n" * 101 + b"\r\n", 431),
    "headers without end": (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 200_000, 431),
    "headers that stop": (b"GET /healthz HTTP/1.1\r\nHost: 127", 408),
    "no address": (b"GET http:///a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "a body without length": (
        b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        400,
    ),
}


@pytest.mark.parametrize("case", BEHIND)
def test_requests_before_a_bad_one_are_answered_and_it_is_refused(
    service: Service, guardrail: Guardrail, bodies: Bodies, case: str
) -> None:
    bad, status = BEHIND[case]
    sent = list(islice(bodies, 20))
    raw = b"".join(request_bytes(json.dumps(body).encode()) for body in sent)
    behind = request_bytes(json.dumps(next(bodies)).encode()) if status != 408 else b""
    *answers, refusal = answers_in(service.raw(raw + bad + behind))
    assert [answer.json()["id"] for answer in answers] == [body["id"] for body in sent]
    nothing_is_invented([Exchange(*pair) for pair in zip(sent, answers, strict=True)], guardrail)
    assert (refusal.status, refusal.headers["connection"]) == (status, "close")
    is_refusal(refusal)


def test_requests_without_end_on_one_connection_hold_up_nobody(service: Service) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    *answers, refusal = answers_in(service.raw(request * 300))
    assert 100 <= len(answers) < 300 and all(answer.status == 200 for answer in answers)
    assert (refusal.status, refusal.headers["connection"]) == (429, "close")
    is_refusal(refusal)

    def flood() -> None:
        with service.connect() as connection, contextlib.suppress(OSError):
            connection.sendall(request * 50_000)

    writer = threading.Thread(target=flood)
    writer.start()
    assert all(service.ask("GET", "/healthz").status == 200 for _ in range(20))
    writer.join()


@pytest.fixture(scope="module")
def guarded(file: Path) -> Iterator[Service]:
    with Service(file, environment={"CALIBRAIL_TOKEN": "right-token"}) as process:
        yield process


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", "Bearer right-toke", "Basic right-token", "right-token"]
)
def test_a_wrong_token_opens_nothing(guarded: Service, bodies: Bodies, given: str) -> None:
    headers = {"Authorization": given} if given else {}
    for method, path, body in (
        ("POST", "/v1/check", next(bodies)),
        ("POST", "/v1/check/batch", {"items": [next(bodies)]}),
        ("POST", "/v1/select", {"items": [next(bodies)], "fdr": 0.1}),
        ("GET", "/v1/guardrail", None),
        ("GET", "/metrics", None),
    ):
        answer = guarded.ask(method, path, body, headers)
        is_refusal(answer)
        assert answer.status == 401, (path, answer)
    assert guarded.ask("GET", "/healthz").status == guarded.ask("GET", "/readyz").status == 200


def test_the_right_token_opens_and_is_told_nobody(
    guarded: Service, guardrail: Guardrail, bodies: Bodies
) -> None:
    body = next(bodies)
    answer = guarded.check(body, Authorization="Bearer right-token")
    assert answer.status == 200
    is_true(answer.body.decode().removesuffix("\n"), body, [guardrail])
    assert "right-token" not in guarded.stderr
