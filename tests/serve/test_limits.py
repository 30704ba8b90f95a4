"""What does not reach the routes, and what holds for every answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from calibrail.errors import InputError
from calibrail.serve.limits import protocol
from calibrail.serve.schemas import TOKEN_VARIABLE
from calibrail.serve.service import Service, token
from tests.serve.conftest import ANSWER

Visiting = Callable[..., None]
JSON = {"Content-Type": "application/json"}


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(
    visit: Visiting, surface: Path
) -> None:
    async def in_parts() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b" " * 300

    async def go(client: Any, _: Service) -> None:
        for content in (b" " * 2_001, in_parts()):
            said = await client.post("/v1/check", content=content, headers=JSON)
            assert said.status_code == 413
            assert "2,000 bytes" in said.json()["detail"]
        fits = await client.post("/v1/check", json=ANSWER)
        assert fits.status_code == 200
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_rejected_total{reason="too_large"} 2.0' in metrics

    visit(go, surface, max_body=2_000)


def test_a_body_that_trickles_is_refused(visit: Visiting, surface: Path) -> None:
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/check", content=trickle(), headers=JSON)
        assert said.status_code == 408
        assert said.headers["connection"] == "close"
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_rejected_total{reason="slow"} 1.0' in metrics

    visit(go, surface, read_timeout=0.1)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic secret"}, 401),
        ({"Authorization": "Bearer secret"}, 200),
        ({"Authorization": "bearer secret"}, 200),
    ],
)
def test_with_a_token_everything_but_health_needs_it(
    visit: Visiting,
    surface: Path,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    status: int,
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")

    async def go(client: Any, _: Service) -> None:
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200
        for path in ("/metrics", "/openapi.json", "/v1/guardrail"):
            said = await client.get(path, headers=headers)
            assert said.status_code == status, path
        said = await client.post("/v1/check", json=ANSWER, headers=headers)
        assert said.status_code == status
        assert (status == 401) == ("www-authenticate" in said.headers)

    visit(go, surface)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_end_of_a_line_is_no_part_of_the_token(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, f"secret{ending}")
    assert token() == "secret"


@pytest.mark.parametrize("given", ["", "\n", "  ", "sec ret", " secret", "s\u00e9cret", "s\udce9"])
def test_a_token_that_no_client_can_send_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, given)
    with pytest.raises(InputError, match="visible ASCII") as refused:
        token()
    assert "cret" not in str(refused.value)


def test_a_header_that_decides_who_asks_is_given_once(
    visit: Visiting, surface: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")

    async def go(client: Any, _: Service) -> None:
        right = ("Authorization", "Bearer secret")
        for more in (("Authorization", "Bearer wrong"), ("Host", "evil.example")):
            for pair in ([more, right], [right, more]):
                headers = [("Host", "127.0.0.1"), *pair]
                said = await client.get("/metrics", headers=headers)
                assert said.status_code == 400
                assert "more than once" in said.json()["detail"]

    visit(go, surface)


def test_health_has_a_head(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, service: Service) -> None:
        for path in ("/healthz", "/readyz"):
            assert (await client.head(path)).status_code == 200
        service.draining = True
        assert (await client.head("/readyz")).status_code == 503

    visit(go, surface)


def test_a_page_elsewhere_cannot_ask(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        foreign = await client.post("/v1/check", json=ANSWER, headers={"Host": "evil.example"})
        assert foreign.status_code == 421
        assert "reverse proxy" in foreign.json()["detail"]
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            said = await client.post("/v1/check", content=b"{}", headers={"Content-Type": kind})
            assert said.status_code == 415
        local = await client.get("/healthz", headers={"Host": "localhost:8000"})
        assert local.status_code == 200

    visit(go, surface)


def test_bound_elsewhere_it_answers_to_any_name(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        said = await client.post("/v1/check", json=ANSWER, headers={"Host": "guard.internal"})
        assert said.status_code == 200

    visit(go, surface, host="0.0.0.0")


def test_while_it_is_stopped_connections_end_and_it_is_not_ready(
    visit: Visiting, surface: Path
) -> None:
    async def go(client: Any, service: Service) -> None:
        service.draining = True
        assert (await client.get("/readyz")).status_code == 503
        said = await client.post("/v1/check", json=ANSWER)
        assert (said.status_code, said.headers["connection"]) == (200, "close")
        assert "calibrail_ready 0.0" in (await client.get("/metrics")).text

    visit(go, surface)


@contextlib.asynccontextmanager
async def _connected(
    app: Any, seconds: float, refused: Callable[[int], None]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection to an application of ASGI, as the service has them."""
    config = uvicorn.Config(app, http=protocol(seconds, seconds, refused), lifespan="off")
    config.load()
    state, loop = uvicorn.server.ServerState(), asyncio.get_running_loop()
    kind: Any = config.http_protocol_class
    server = await loop.create_server(lambda: kind(config, state, {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()


def test_headers_that_stop_behind_a_request_at_work_are_refused_after_its_answer() -> None:
    may_answer = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await may_answer.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    async def go() -> tuple[bytes, list[int]]:
        refused = list[int]()

        def note(status: int) -> None:
            refused.append(status)
            may_answer.set()

        async with _connected(slow, 0.05, note) as (reader, writer):
            # The second one is not read to its end, whatever comes behind.
            writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHo")
            said = await asyncio.wait_for(reader.read(), 60)
        return said, refused

    said, refused = asyncio.run(go())
    assert refused == [408]
    assert [piece[:3] for piece in said.split(b"HTTP/1.1 ")[1:]] == [b"200", b"408"]


def test_a_body_that_breaks_while_it_is_answered_just_ends() -> None:
    seen = list[str]()

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (message := await receive())["type"] == "http.request":
            await send({"type": "http.response.body", "body": message["body"], "more_body": True})
        seen.append(message["type"])

    async def go() -> bytes:
        async with _connected(echo, 60.0, lambda status: None) as (reader, writer):
            writer.write(
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
            )
            said = await reader.readuntil(b"ab")
            writer.write(b"zz\r\n")
            said += await asyncio.wait_for(reader.read(), 60)
            while not seen:
                await asyncio.sleep(0.01)
        return said

    # What has begun is no place for another answer.
    assert asyncio.run(go()).count(b"HTTP/1.1") == 1
    assert seen == ["http.disconnect"]
