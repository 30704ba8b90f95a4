"""Asking about an answer while it is written.

The body is sent while the events come back, which HTTP/1.1 allows and few libraries do: h11, which
httpx rests on, says what to send and what was received, and a socket does both.
"""

import asyncio
import contextlib
import json
import queue
import socket
import ssl
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from calibrail.client._core import Asking, answer, decision_about, http, refusal, with_id
from calibrail.errors import CalibrailError, InputError, ServiceError
from calibrail.guardrail.decision import Decision
from calibrail.text.words import joined

_PATH: Final = "/v1/check/stream"
_READ: Final = 2**16


class Writing:
    """An answer that is still being written, decided by a service; made by ``stream_check``.

    Attributes
    ----------
    decision : Decision or None
        The decision about the answer, up to the sentence that stopped it, once it has ended.
    stopped : mapping or None
        The verdict that stopped it: ``number``, ``start``, ``end``, ``text``, ``reason``, ...
    """

    def __init__(self, asking: Asking, item: Mapping[str, Any]) -> None:
        self._asking, self._what = asking, f"POST {_PATH} of {asking.url}"
        sent, self._id = with_id(answer(item))
        del sent["response"]
        self._sent_id, self._first = sent["id"], sent
        self._h11 = http_one()
        self._connection = self._h11.Connection(self._h11.CLIENT)
        self._written, self._half, self._shown = "", "", 0
        self._status, self._body, self._events = 0, b"", b""
        self._problem = ""
        self.decision: Decision | None = None
        self.stopped: Mapping[str, Any] | None = None

    def show(self, tokens: Iterable[str]) -> Iterator[str]:
        """Yield what may be shown as tokens come; at the stop, close what they come from.

        Raises
        ------
        ServiceError
            If the service refused, failed or could not be reached: the answer has not passed, and
            nothing more of it is shown.
        """
        received: queue.SimpleQueue[bytes | OSError] = queue.SimpleQueue()
        try:
            with contextlib.closing(self._connected()) as connection:

                def read() -> None:
                    try:
                        while data := connection.recv(_READ):
                            received.put(data)
                        received.put(b"")
                    except OSError as error:
                        received.put(error)

                threading.Thread(target=read, name="events", daemon=True).start()
                connection.sendall(self._begin())
                try:
                    for token in tokens:
                        connection.sendall(self._piece(token))
                        while not received.empty():
                            yield from self._take(received.get())
                        if self.stopped is not None or self.decision is not None:
                            break
                finally:
                    if callable(close := getattr(tokens, "close", None)):
                        close()
                if self.stopped is None and self.decision is None:
                    connection.sendall(self._end())
                while self.decision is None:
                    yield from self._take(received.get(timeout=self._asking.timeout))
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        except queue.Empty:
            raise self._late() from None
        except OSError as error:
            raise ServiceError(f"{self._what}: {error}") from error

    async def ashow(self, tokens: AsyncIterable[str]) -> AsyncIterator[str]:
        """Yield as `show` does, under asyncio."""
        host, port, context = self._address()
        try:
            async with asyncio.timeout(self._asking.timeout):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except TimeoutError:
            raise self._late() from None
        except OSError as error:
            raise ServiceError(f"{self._what}: {error}") from error
        reading = asyncio.ensure_future(reader.read(_READ))
        try:
            writer.write(self._begin())
            try:
                async for token in tokens:
                    writer.write(self._piece(token))
                    await writer.drain()
                    await asyncio.sleep(0)
                    while reading.done():
                        for text in self._take(reading.result()):
                            yield text
                        reading = asyncio.ensure_future(reader.read(_READ))
                        await asyncio.sleep(0)
                    if self.stopped is not None or self.decision is not None:
                        break
            finally:
                if callable(close := getattr(tokens, "aclose", None)):
                    await close()
            if self.stopped is None and self.decision is None:
                writer.write(self._end())
            while self.decision is None:
                data = await asyncio.wait_for(asyncio.shield(reading), self._asking.timeout)
                for text in self._take(data):
                    yield text
                reading = asyncio.ensure_future(reader.read(_READ))
        except TimeoutError:
            raise self._late() from None
        except OSError as error:
            raise ServiceError(f"{self._what}: {error}") from error
        finally:
            reading.cancel()
            writer.close()

    def _address(self) -> tuple[str, int, ssl.SSLContext | None]:
        parts = urlsplit(self._asking.url)
        closed = parts.scheme == "https"
        context: ssl.SSLContext | None = self._asking.options()["verify"] if closed else None
        return parts.hostname or "", parts.port or (443 if closed else 80), context

    def _connected(self) -> socket.socket:
        host, port, context = self._address()
        connection = socket.create_connection((host, port), self._asking.timeout)
        if context is not None:
            connection = context.wrap_socket(connection, server_hostname=host)
        # A model may think as long as it likes; the last events are waited for no longer.
        connection.settimeout(None)
        return connection

    def _begin(self) -> bytes:
        options, parts = self._asking.options(), urlsplit(self._asking.url)
        which = "".join(f"?{key}={quote(value)}" for key, value in options["params"].items())
        headers = {
            **options["headers"],
            "Host": parts.netloc,
            "Accept": "text/event-stream",
            "Content-Type": "application/x-ndjson",
            "Transfer-Encoding": "chunked",
        }
        request = self._h11.Request(
            method="POST",
            target=f"{parts.path.rstrip('/')}{_PATH}{which}",
            headers=[*headers.items()],
        )
        return self._send(request) + self._line(self._first)

    def _piece(self, token: str) -> bytes:
        if not isinstance(token, str):
            raise InputError(f"a token must be a text; got {token!r:.80}")
        text, self._half = joined(self._half + token)
        self._written += text
        return self._line(token)

    def _line(self, content: Any) -> bytes:
        line = json.dumps(content, allow_nan=False).encode() + b"\n"
        return self._send(self._h11.Data(data=line))

    def _end(self) -> bytes:
        return self._send(self._h11.EndOfMessage())

    def _send(self, event: Any) -> bytes:
        return bytes(self._connection.send(event) or b"")

    def _late(self) -> ServiceError:
        return ServiceError(f"{self._what}: no answer within {self._asking.timeout:g} s")

    def _take(self, data: bytes | OSError) -> list[str]:
        """Take what came; return what may be shown now."""
        if isinstance(data, OSError):
            raise data
        self._connection.receive_data(data)
        texts: list[str] = []
        while self.decision is None:
            try:
                event = self._connection.next_event()
            except self._h11.RemoteProtocolError as error:
                raise ServiceError(f"{self._what}: {error}") from error
            if isinstance(event, self._h11.Response):
                self._status = event.status_code
            elif isinstance(event, self._h11.Data):
                self._body += bytes(event.data)
                texts += self._told() if self._status == 200 else ()
            elif event is self._h11.NEED_DATA:
                break
            else:
                self._ended()
        return texts

    def _ended(self) -> None:
        if self._status != 200:
            raise refusal(self._what, self._status, self._body)
        why = self._problem or "the events ended without a decision"
        raise ServiceError(f"{self._what}: {why}", status=self._status)

    def _told(self) -> Iterator[str]:
        """Yield what the events that are whole let be shown."""
        *blocks, self._body = self._body.split(b"\n\n")
        for block in blocks:
            lines = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            if b"data" not in lines:
                continue
            try:
                yield from self._event(lines[b"event"].decode(), json.loads(lines[b"data"]))
            except (ValueError, LookupError, TypeError, InputError) as error:
                raise ServiceError(
                    f"what answers {_PATH} is no calibrail service, or not whole: {error}",
                    status=self._status,
                ) from error

    def _event(self, name: str, data: Mapping[str, Any]) -> Iterator[str]:
        if name == "decision":
            self.decision = decision_about(data, self._sent_id, self._id, "the decision")
        elif name == "error":
            self._problem = str(data["detail"])
        elif name == "stop":
            self.stopped = {key: value for key, value in data.items() if key != "show"}
        elif name in ("sentence", "rest") and (text := data["show"]):
            # What is shown is what was written, and nothing that somebody else says.
            if not self._written.startswith(text, self._shown):
                raise InputError(f"it shows {text!r:.80}, which is not what was written")
            self._shown += len(text)
            yield text


def http_one() -> Any:
    """Return h11.

    Raises
    ------
    CalibrailError
        If it is not installed.
    """
    http()
    try:
        import h11
    except ModuleNotFoundError as error:
        raise CalibrailError("the client needs h11: pip install 'calibrail[client]'") from error
    return h11
