"""Which requests reach the routes at all?

Whatever is refused here costs no more than reading what is refused: no route, no parser, no thread.
"""

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from calibrail.serve.batching import RETRY_AFTER
from calibrail.serve.problems import Problem
from calibrail.serve.service import Service

#: How many of the largest bodies are held at a time.
_BODIES: Final = 64
#: What anybody may ask: whoever starts and stops the process has no token.
OPEN: Final = frozenset({"/healthz", "/readyz"})
#: Headers on which it depends who asks for what: of two, another party may have read the other.
_ONCE: Final = (b"host", b"authorization", b"content-type", b"content-encoding")
#: Where an answer may come in pieces, and as which type of body it then does.
STREAM: Final = "/v1/check/stream"
LINES: Final = "application/x-ndjson"
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([^\s;\"]*)")
_LOCAL: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)


def streams(scope: Scope) -> bool:
    """Return whether the body of a request is read piece by piece, while it is answered."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind = kinds[0].partition(b";")[0].strip().lower() if kinds else b""
    return scope["path"] == STREAM and scope["method"] == "POST" and kind == LINES.encode()


class Gate:
    """An ASGI application behind limits.

    Parameters
    ----------
    app : ASGI application
        What answers.
    service : Service
        Whose limits and token these are.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._most, self._seconds = service.options.max_body, service.options.read_timeout
        self._token = None if service.token is None else service.token.encode()
        self._local = is_loopback(service.options.host)
        #: Bytes of bodies that have come, and whose requests are not answered yet.
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        began, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._service.draining:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        try:
            await self._answer(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            if status:
                seconds = time.perf_counter() - began
                problem = scope.get("problem", "")
                self._service.metrics.requested(route, status, seconds, problem)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = [0]
        try:
            headers = dict(scope["headers"])
            for name in _ONCE:
                if sum(given == name for given, _ in scope["headers"]) > 1:
                    detail = f"the request has the header {name.decode()} more than once"
                    raise Problem(400, "invalid-request", f"{detail}; send it once")
            self._admit(scope, headers)
            if streams(scope):
                await self._app(scope, self._in_pieces(receive, held), send)
                return
            body = await self._body(headers, receive, held)
            await self._pass_on(body, scope, receive, send)
        except Problem as problem:
            scope["problem"] = problem.kind
            await problem.response()(scope, receive, send)
        except ConnectionResetError:
            pass
        finally:
            self._held -= held[0]

    def _in_pieces(self, receive: Receive, held: list[int]) -> Receive:
        """Return what gives the parts of a body as they come, as long as they are not too many."""

        async def piece() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                self._hold(len(message.get("body", b"")), held)
            return message

        return piece

    def _hold(self, size: int, held: list[int]) -> None:
        """Count bytes of a body."""
        held[0] += size
        self._held += size
        if held[0] > self._most:
            raise self._too_large()
        if self._held > _BODIES * self._most:
            raise Problem(
                429,
                "too-busy",
                "too many large requests at a time; send this again later",
                retry_after=RETRY_AFTER,
            )

    async def _pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        given = False

        async def whole() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, whole, send)

    def _admit(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        if self._local and not _LOCAL.fullmatch(headers.get(b"host", b"").decode("latin-1")):
            # A page elsewhere whose name points here (DNS rebinding) does not know that name.
            raise Problem(
                421,
                "other-host",
                "this service is bound to this machine alone, and the header Host names another "
                f"one: ask {self._service.options.host}; have a reverse proxy pass that name on, "
                "not its own; or bind to another address, with a token",
            )
        if self._token is not None and scope["path"] not in OPEN:
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                raise Problem(
                    401,
                    "unauthorized",
                    "this needs the service's token: send the header Authorization: Bearer TOKEN",
                )
        if scope["method"] == "POST":
            kind, _, further = headers.get(b"content-type", b"").lower().partition(b";")
            if kind.strip() != b"application/json" and not streams(scope):
                more = f" or {LINES}, a line a piece" if scope["path"] == STREAM else ""
                raise Problem(
                    415,
                    "not-json",
                    f"send the body with the header Content-Type: application/json{more}",
                )
            charset = _CHARSET.search(further.decode("latin-1"))
            if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
                raise Problem(
                    415,
                    "other-encoding",
                    f"Content-Type says charset={charset[1]:.40}; send the body in UTF-8",
                )
            packed = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
            if packed not in ("", "identity"):
                raise Problem(
                    415,
                    "other-encoding",
                    f"Content-Encoding says {packed:.40}; send the body as it is, without it",
                )

    async def _body(
        self, headers: Mapping[bytes, bytes], receive: Receive, held: list[int]
    ) -> bytes:
        """Return the body; ``held[0]`` counts its bytes, whatever becomes of it."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._most:
            raise self._too_large()
        if length == b"0" and b"transfer-encoding" not in headers:
            return b""
        parts = []
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    parts.append(message.get("body", b""))
                    self._hold(len(parts[-1]), held)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            detail = f"the body took longer than {self._seconds:g} s to arrive"
            raise Problem(408, "too-slow", detail, close=True) from None

    def _too_large(self) -> Problem:
        detail = f"the body is larger than {self._most:,} bytes; send fewer answers at once"
        return Problem(413, "too-large", detail)


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
