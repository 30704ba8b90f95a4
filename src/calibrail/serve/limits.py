"""Token, body size, host.

Whatever is refused here costs no more than reading what is refused: no route, no parser, no thread.

A client that sends a byte a second would hold its connection for ever: uvicorn ends connections
that are idle between requests, not those in the middle of one.
"""

import asyncio
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http import httptools_impl

from calibrail.models.llm.transport import is_loopback
from calibrail.serve.schemas import ServiceProblem
from calibrail.serve.service import CLIENT, Service, TokenHolder

#: How many of the largest bodies are held at a time.
_BODIES: Final = 64
#: What anybody may ask: whoever starts and stops the process has no token.
OPEN: Final = frozenset({"/healthz", "/readyz"})
#: What a client may ask as often as it likes.
_UNCOUNTED: Final = OPEN | {"/metrics"}
#: Headers on which it depends who asks for what: of two, another party may have read the other.
_ONCE: Final = b"host authorization content-type content-encoding transfer-encoding".split()
#: Header of an answer: the digest of the guardrail that decided.
DECIDED_BY: Final = b"calibrail-guardrail"
#: Where an answer may come in pieces, and as which type of body it then does.
STREAM_PATH: Final = "/v1/check/stream"
LINES: Final = "application/x-ndjson"
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([^\s;\"]*)")
_LOCAL: Final = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)


def streams(scope: Scope) -> bool:
    """Return whether the body of a request is read piece by piece, while it is answered."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind = kinds[0].partition(b";")[0].strip().lower() if kinds else b""
    path = scope["path"].removesuffix("/")
    return path == STREAM_PATH and scope["method"] == "POST" and kind == LINES.encode()


class RequestLimits:
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
        self._local = is_loopback(service.options.host)
        #: Bytes of bodies that have come, and whose requests are not answered yet.
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        began, status = time.perf_counter(), 0
        # A slash at the end changes nothing.
        scope["path"] = scope["path"].removesuffix("/") or "/"

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if digest := scope.get("decided_by"):
                    message["headers"] = [*message["headers"], (DECIDED_BY, digest.encode())]
                if self._service.draining:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        try:
            await self._answer(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            if status:
                seconds = time.perf_counter() - began
                self._service.metrics.requested(route, status, seconds, scope.get("problem", ""))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0

        async def counted() -> Message:
            """Return what comes next, as long as bodies are not too large."""
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held, self._held = held + size, self._held + size
            if held > self._most:
                raise ServiceProblem.of("too_large", most=self._most)
            if self._held > _BODIES * self._most:
                raise ServiceProblem.of("large_requests")
            return message

        try:
            headers = dict(scope["headers"])
            for name in _ONCE:
                if sum(given == name for given, _ in scope["headers"]) > 1:
                    raise ServiceProblem.of("header_twice", name=name.decode())
            holder = self._admit(scope, headers)
            if streams(scope):
                self._count(holder, scope)
                await self._app(scope, counted, send)
                return
            bodies = [await self._body(headers, counted)]
            self._count(holder, scope)

            async def whole() -> Message:
                if not bodies:
                    return await receive()
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}

            await self._app(scope, whole, send)
        except ServiceProblem as problem:
            scope["problem"] = problem.kind
            await problem.response()(scope, receive, send)
        except ConnectionResetError:
            pass
        finally:
            self._held -= held

    def _admit(self, scope: Scope, headers: Mapping[bytes, bytes]) -> TokenHolder | None:
        """Return whose token a request brings, where it needs one."""
        holder = None
        if self._local and not _LOCAL.fullmatch(headers.get(b"host", b"").decode("latin-1")):
            # A page elsewhere whose name points here (DNS rebinding) does not know that name.
            raise ServiceProblem.of("other_host", host=self._service.options.host)
        if self._service.tokens.needed and scope["path"] not in OPEN:
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            holder = self._service.tokens.find(token.strip())
            if kind.lower() != b"bearer" or holder is None:
                raise ServiceProblem.of("token")
            CLIENT.set(holder.name)
        if scope["method"] == "POST":
            kind, _, further = headers.get(b"content-type", b"").lower().partition(b";")
            if kind.strip() != b"application/json" and not streams(scope):
                more = f" or {LINES}, a line a piece" if scope["path"] == STREAM_PATH else ""
                raise ServiceProblem.of("content_type", more=more)
            charset = _CHARSET.search(further.decode("latin-1"))
            if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
                raise ServiceProblem.of("charset", charset=charset[1])
            coding = headers.get(b"transfer-encoding", b"").decode("latin-1").strip().lower()
            if coding not in ("", "chunked"):
                raise ServiceProblem.of("transfer_encoding", coding=coding)
            packed = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
            if packed not in ("", "identity"):
                raise ServiceProblem.of("content_encoding", packed=packed)
        return holder

    @staticmethod
    def _count(holder: TokenHolder | None, scope: Scope) -> None:
        """Count a request, or refuse one that comes too often."""
        if holder and scope["path"] not in _UNCOUNTED and (seconds := holder.wait()):
            problem = ServiceProblem.of("too_often", name=holder.name, rate=holder.rate)
            problem.retry_after = math.ceil(seconds)
            raise problem

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return the body, if it arrives in time."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._most:
            raise ServiceProblem.of("too_large", most=self._most)
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
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise ServiceProblem.of("slow_body", seconds=self._seconds) from None


#: Bytes of a request before its body at most.
MOST_HEADERS: Final = 64 * 2**10
#: And how many headers.
MOST_NAMES: Final = 100
#: And how many requests of one connection may wait for the answer to an earlier one.
MOST_WAITING: Final = 100
#: Bytes that are parsed at a time: what stands beside a body in them may belong to any part of it.
_SLICE: Final = 4 * 2**10
#: Seconds that whoever reads a body has to refuse a slow one in its own words.
_GRACE: Final = 1.0


class _Patient(httptools_impl.HttpToolsProtocol):
    """A connection that ends where a request does not arrive in time."""

    #: Seconds for the headers, and for the body.
    seconds: float
    #: Seconds between two pieces of a body that is answered while it comes.
    pause: float
    #: Takes the status of each refusal.
    refused: Callable[[int], None]

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _under_way: Sequence[httptools_impl.RequestResponseCycle] = ()
    _in_headers = True
    _in_pieces = _anew = False
    _refusal: ServiceProblem | None = None
    _n_header = _n_beside = _n_names = _n_named = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect the first request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._arm(self.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._disarm()
        if self._unread is not None:
            self._unread.cancel()
        # Of requests that came one behind the other, the one at work is not the latest.
        for cycle in self._under_way:
            cycle.disconnected = True
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what has come whole, though nothing more comes; return whether there is any."""
        if waits := self._timer is None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        return waits

    def pause_writing(self) -> None:
        """Wait for a client that does not read what it asked for, but not for ever."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take bytes, as long as the headers do not grow too long."""
        if self._timer is not None and self._in_pieces and not self._in_headers:
            self._arm(self.pause)
        for at in range(0, len(data), _SLICE):
            if self._refusal is not None:
                return
            piece = data[at : at + _SLICE]
            self._n_beside, self._anew = len(piece), False
            super().data_received(piece)
            if self._has_too_many():
                self._refuse(ServiceProblem.of("headers_too_large", most=MOST_HEADERS))
            self._n_header = self._n_beside + (0 if self._anew else self._n_header)

    def on_message_begin(self) -> None:
        """Wait for the headers to end."""
        super().on_message_begin()
        self._in_headers = True
        if self._timer is None:
            self._arm(self.seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, as long as there are not too many: they may all have come at once.

        One that stands behind a body (a trailer) is counted, and says nothing.
        """
        if self._in_headers:
            super().on_header(name, value)
        self._n_names, self._n_named = self._n_names + 1, self._n_named + len(name) + len(value)
        if self._has_too_many():
            # The parser gives up, and says so by a 400.
            raise OverflowError

    def on_headers_complete(self) -> None:
        """Wait for the body to end, as long as there are not too many requests in a row."""
        if len(self.pipeline) == MOST_WAITING:
            raise OverflowError
        super().on_headers_complete()
        self._in_headers = False
        # Whoever writes an answer may think for a while between two pieces of it.
        self._in_pieces = streams(dict(self.scope))
        self._arm(self.pause if self._in_pieces else self.seconds + _GRACE)
        before = (item for item in self._under_way if not item.response_complete)
        self._under_way = (*before, self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body: what stands between two is held to the limit of headers."""
        self._anew, self._n_beside = True, self._n_beside - len(body)
        if self._has_too_many():
            raise OverflowError
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for nothing: the rest is up to the service."""
        self._disarm()
        self._in_headers = True
        self._anew, self._n_names, self._n_named = True, 0, 0
        super().on_message_complete()
        if self.cycle.response_complete:
            # It was refused before its body had come; nothing else would end the connection, which
            # is good for further requests.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, has too many headers, or comes behind too many requests."""
        if self._has_too_many():
            self._refuse(ServiceProblem.of("headers_too_many", n=MOST_NAMES, most=MOST_HEADERS))
        elif len(self.pipeline) == MOST_WAITING:
            self._refuse(ServiceProblem.of("too_many_waiting", n=MOST_WAITING))
        else:
            self._refuse(ServiceProblem.of("not_http"))

    def _has_too_many(self) -> bool:
        most = max(self._n_named, self._n_header + self._n_beside)
        return self._n_names > MOST_NAMES or most > MOST_HEADERS

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            # It is this side that does not read: an earlier request of the connection is at work.
            self._arm(self.seconds)
        elif self._in_headers:
            self._refuse(ServiceProblem.of("slow_headers", seconds=self.seconds))
        else:
            self.transport.abort()

    def _refuse(self, problem: ServiceProblem) -> None:
        """Answer outside of any application once all before is answered; end the connection."""
        if self._refusal is not None or self.transport.is_closing():
            return
        type(self).refused(problem.status)
        self._disarm()
        self._refusal = problem
        if not self._in_headers:
            # It is the latest request that is refused, in its body.
            *self._under_way, cycle = self._under_way
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
            if cycle.response_started:
                self.transport.close()
        self._say_refusal()

    def on_response_complete(self) -> None:
        """Go on with the next request; after the last one say why no further one is taken."""
        super().on_response_complete()
        self._say_refusal()

    def _say_refusal(self) -> None:
        waits = any(not cycle.response_complete for cycle in self._under_way)
        if self._refusal is None or waits or self.transport.is_closing():
            return
        response = self._refusal.response()
        head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
        line = httptools_impl.STATUS_LINE[response.status_code]
        self.transport.write(line + head + b"\r\n" + bytes(response.body))
        self.transport.close()


def protocol(
    seconds: float, pause: float, refused: Callable[[int], None]
) -> type[asyncio.Protocol]:
    """Return the protocol of connections.

    Parameters
    ----------
    seconds : float
        How long headers may take to arrive, and then the body.
    pause : float
        How long a body that is answered while it comes may stand still.
    refused : callable
        Takes the status of each request that is refused before any application sees it.
    """
    given = {"seconds": seconds, "pause": pause + _GRACE, "refused": staticmethod(refused)}
    return type("Patient", (_Patient,), given)
