"""How long, and how large, may a request's headers be before anybody looks at it?

A client that sends a byte a second would hold its connection for ever: uvicorn ends connections
that are idle between requests, not those in the middle of one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from calibrail.serve.limits import streams
from calibrail.serve.problems import MEDIA_TYPE, Problem

#: Bytes of a request before its body at most.
MOST_HEADERS: Final = 64 * 2**10
#: Seconds that whoever reads a body has to refuse a slow one in its own words.
_GRACE: Final = 1.0


class _Patient(HttpToolsProtocol):
    """A connection that ends where a request does not arrive in time."""

    #: Seconds for the headers, and for the body.
    seconds: float
    #: Seconds between two pieces of a body that is answered while it comes.
    pause: float
    #: Takes the status of each refusal.
    refused: Callable[[int], None]

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _under_way: Sequence[RequestResponseCycle] = ()
    _in_headers = True
    _in_pieces = False
    _n_header = 0

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
        if self._in_headers:
            self._n_header += len(data)
        elif self._timer is not None and self._in_pieces:
            self._arm(self.pause)
        super().data_received(data)
        if self._in_headers and self._n_header > MOST_HEADERS and not self.transport.is_closing():
            detail = f"the headers are longer than {MOST_HEADERS:,} bytes; send shorter ones"
            self._refuse(Problem(431, "headers-too-large", detail))

    def on_message_begin(self) -> None:
        """Wait for the headers to end."""
        super().on_message_begin()
        self._in_headers = True
        if self._timer is None:
            self._arm(self.seconds)

    def on_headers_complete(self) -> None:
        """Wait for the body to end."""
        self._in_headers, self._n_header = False, 0
        super().on_headers_complete()
        # Whoever writes an answer may think for a while between two pieces of it.
        self._in_pieces = streams(dict(self.scope))
        self._arm(self.pause if self._in_pieces else self.seconds + _GRACE)
        before = (item for item in self._under_way if not item.response_complete)
        self._under_way = (*before, self.cycle)

    def on_message_complete(self) -> None:
        """Wait for nothing: the rest is up to the service."""
        self._disarm()
        super().on_message_complete()
        if self.cycle.response_complete:
            # It was refused before its body had come; nothing else would end the connection.
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(Problem(400, "not-http", "this is not an HTTP request"))

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
            detail = f"the headers took longer than {self.seconds:g} s to arrive"
            self._refuse(Problem(408, "too-slow", detail))
        else:
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer outside of any application, and end the connection."""
        type(self).refused(problem.status)
        body = problem.body()
        lines = {
            "Content-Type": MEDIA_TYPE,
            "Content-Length": str(len(body)),
            **problem.headers(),
            "Connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.transport.write(STATUS_LINE[problem.status] + head.encode() + b"\r\n" + body)
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
    return type(
        "Patient",
        (_Patient,),
        {"seconds": seconds, "pause": pause + _GRACE, "refused": staticmethod(refused)},
    )
