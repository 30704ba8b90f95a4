"""Clients of the service, for threads and for event loops, and their streams.

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
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

from calibrail.client import _core
from calibrail.client._core import Attempts, Call, Coming, Result
from calibrail.errors import InputError, ServiceError, errors_as
from calibrail.guardrail.decision import Decision
from calibrail.options.fields import Cell
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

    def __init__(self, asking: _core.Asking, item: Mapping[str, Any]) -> None:
        self._asking, self._what = asking, f"POST {_PATH} of {asking.url}"
        # httpx rests on it.
        import h11

        self._h11 = h11
        self._first, self._id = _core.answer(item)
        del self._first["response"]
        self._connection = self._h11.Connection(self._h11.CLIENT)
        self._written, self._half, self._shown = "", "", 0
        self._status, self._body, self._problem = 0, b"", ""
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

        def read() -> None:
            try:
                while data := connection.recv(_READ):
                    received.put(data)
                received.put(b"")
            except OSError as error:
                received.put(error)

        with self._explained(), contextlib.closing(self._connected()) as connection:
            threading.Thread(target=read, name="events", daemon=True).start()
            connection.sendall(self._begin())
            try:
                for token in tokens:
                    connection.sendall(self._piece(token))
                    while not received.empty():
                        yield from self._take(received.get())
                    if self._is_over:
                        break
            finally:
                if callable(close := getattr(tokens, "close", None)):
                    close()
            if not self._is_over:
                connection.sendall(self._send(self._h11.EndOfMessage()))
            while self.decision is None:
                yield from self._take(received.get(timeout=self._asking.timeout))
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    async def ashow(self, tokens: AsyncIterable[str]) -> AsyncIterator[str]:
        """Yield as `show` does, under asyncio."""
        host, port, context = self._address()
        with self._explained():
            async with asyncio.timeout(self._asking.timeout):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
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
                        if self._is_over:
                            break
                finally:
                    if callable(close := getattr(tokens, "aclose", None)):
                        await close()
                if not self._is_over:
                    writer.write(self._send(self._h11.EndOfMessage()))
                while self.decision is None:
                    data = await asyncio.wait_for(asyncio.shield(reading), self._asking.timeout)
                    for text in self._take(data):
                        yield text
                    reading = asyncio.ensure_future(reader.read(_READ))
            finally:
                reading.cancel()
                writer.close()

    @property
    def _is_over(self) -> bool:
        return self.stopped is not None or self.decision is not None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (queue.Empty, TimeoutError):
            late = f"{self._what}: no answer within {self._asking.timeout:g} s"
            raise ServiceError(late) from None
        except OSError as error:
            raise ServiceError(f"{self._what}: {error}") from error

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
        target = f"{parts.path.rstrip('/')}{_PATH}{which}"
        request = self._h11.Request(method="POST", target=target, headers=[*headers.items()])
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

    def _send(self, event: Any) -> bytes:
        return bytes(self._connection.send(event) or b"")

    def _take(self, data: bytes | OSError) -> list[str]:
        """Take what came; return what may be shown now."""
        if isinstance(data, OSError):
            raise data
        self._connection.receive_data(data)
        texts: list[str] = []
        while self.decision is None:
            broken = self._h11.RemoteProtocolError
            with errors_as(ServiceError, broken, "events_broken", what=self._what):
                event = self._connection.next_event()
            if isinstance(event, self._h11.Response):
                self._status = event.status_code
            elif isinstance(event, self._h11.Data):
                self._body += bytes(event.data)
                texts += self._told() if self._status == 200 else ()
            elif event is self._h11.NEED_DATA:
                break
            elif self._status != 200:
                raise _core.refusal(self._what, self._status, self._body)
            else:
                why = self._problem or "the events ended without a decision"
                raise ServiceError(f"{self._what}: {why}", status=self._status)
        return texts

    def _told(self) -> Iterator[str]:
        """Yield what the events that are whole let be shown."""
        *blocks, self._body = self._body.split(b"\n\n")
        for block in blocks:
            lines = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            if b"data" not in lines:
                continue
            with _core.no_service(_PATH, self._status):
                yield from self._event(lines[b"event"].decode(), json.loads(lines[b"data"]))

    def _event(self, name: str, data: Mapping[str, Any]) -> Iterator[str]:
        if name == "decision":
            self.decision = _core.decision_about(data, self._first["id"], self._id)
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


#: What a call gives: itself, or under asyncio what is awaited for it.
One = TypeVar("One")
Several = TypeVar("Several")
Content = TypeVar("Content")


class _Core(Generic[One, Several, Content]):
    """What both clients share: where they ask, and what; how they wait is up to each."""

    _kind: str

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        guardrail: str | None = None,
        timeout: float = 40.0,
        retries: int = 3,
    ) -> None:
        self._asking = _core.Asking(url, token, guardrail, timeout, retries)
        self._httpx = _core.http()
        self._http: Any = getattr(self._httpx, self._kind)(**self._asking.options())

    def check(
        self,
        *,
        response: str = "",
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, Cell] | None = None,
        evidence: bool = False,
        probability: bool = False,
        base_rate: float | None = None,
    ) -> One:
        """Decide about one answer, as ``Guardrail.check`` does, which explains the arguments.

        Parameters
        ----------
        evidence : bool
            Whether the decision says what it rests on; the answer is then scored by itself.
        probability, base_rate : bool and float
            Whether it tells P(hallucinated), as ``Guardrail.with_probability`` has it, and for
            which share of hallucinated answers.
        """
        item: dict[str, object] = {"response": response, "question": question, "id": id}
        item |= {"contexts": contexts, "samples": samples, "columns": columns}
        sent, id = _core.answer(item)

        def read(reply: Any) -> Decision:
            return _core.decision_about(reply, sent["id"], id)

        body = {**sent, **_core.telling(evidence, probability, base_rate)}
        return cast(One, self._ask(Call("/v1/check", body, read)))

    def check_batch(
        self,
        items: Sequence[object],
        *,
        evidence: bool = False,
        probability: bool = False,
        base_rate: float | None = None,
    ) -> Several:
        """Decide about each of several answers, in their order.

        Parameters
        ----------
        items : sequence of dict or Example
            Each holds what `check` takes.
        evidence, probability, base_rate
            As for `check`.
        """
        sent, ids = _core.answers(items)

        def read(reply: Any) -> list[Decision]:
            about = zip(_core.items_of(reply, sent), sent, ids, strict=True)
            return [_core.decision_about(given, item["id"], id) for given, item, id in about]

        body = {"items": sent, **_core.telling(evidence, probability, base_rate)}
        return cast(Several, self._ask(Call("/v1/check/batch", body, read)))

    def select(
        self, items: Sequence[object], *, fdr: float, method: str = "auto", confidence: float = 0.95
    ) -> Content:
        """Release what can be released of a batch with the false discovery rate bounded.

        Returns
        -------
        dict
            What ``calibrail select --json`` prints, and ``items``: for each answer its ``id``,
            whether it is ``released``, ``score`` and ``p_value``.
        """
        sent, ids = _core.answers(items)

        def read(reply: Any) -> dict[str, Any]:
            replies = _core.items_of(reply, sent)
            n_released = sum(map(_core.is_released, replies))
            if reply["n_released"] != n_released:
                raise InputError("it does not say of each answer whether it is released")
            named = [{**given, "id": id} for given, id in zip(replies, ids, strict=True)]
            return {**reply, "items": named}

        body = {"items": sent, "fdr": fdr, "method": method, "confidence": confidence}
        return cast(Content, self._ask(Call("/v1/select", body, read)))

    def guardrail(self) -> Content:
        """Return what decides there: its certificate, digest, and state."""
        return cast(Content, self._ask(Call("/v1/guardrail", None, _core.object_of)))

    def stream_check(
        self,
        *,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Writing:
        """Begin to decide about an answer that is still being written.

        Its `Writing.show`, or under asyncio its `Writing.ashow`, takes the tokens and yields what
        may be shown; it is asked once, without retries. ``timeout`` bounds the connection and the
        wait for the last events.
        """
        item: dict[str, object] = {"question": question, "contexts": contexts, "id": id}
        return Writing(self._asking, {**item, "samples": samples, "columns": columns})

    def _ask(self, call: Call[Any]) -> Any:
        raise NotImplementedError


class Client(_Core[Decision, list[Decision], dict[str, Any]]):
    """Asks a service of ``calibrail serve`` for decisions; may be used by several threads.

    A call returns decisions or raises: where the service refused, failed, could not be reached or
    said what makes no sense, there is a `ServiceError`, and the answer has not passed. Proxies that
    the environment names are not used: they would read the token and the texts.

    Parameters
    ----------
    url : str
        Address of the service, e.g. ``http://127.0.0.1:8000``.
    token : str, optional
        What the variable CALIBRAIL_TOKEN holds there.
    guardrail : str, optional
        Which guardrail decides, where the service has several.
    timeout : float
        Seconds that a call may take, all its attempts included; longer than the service's own
        deadline, so that what its failure policy decides is heard.
    retries : int
        Further attempts where the service could not be reached, or had no room (429, 502, 503,
        504). Each waits longer than the one before, and as long as the service asks for; none is
        begun that the timeout would cut off.

    Raises
    ------
    CalibrailError
        If httpx2 is not installed: ``pip install 'calibrail[client]'``.
    """

    _kind = "Client"

    def ready(self) -> bool:
        """Return whether the service decides now; asked once, without retries.

        Raises
        ------
        ServiceError
            If something else answers there.
        """
        try:
            return self._ask(_core.READY)
        except ServiceError as error:
            return _core.not_ready(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, call: Call[Result]) -> Result:
        attempts = Attempts(self._asking, call)
        while True:
            try:
                with self._http.stream(**attempts.request()) as response:
                    raw = b"".join(map(attempts.received, response.iter_bytes()))
                if attempts.answered(response, raw):
                    return call.result(raw)
            except self._httpx.HTTPError as error:
                attempts.failed(error)
            time.sleep(attempts.pause)


class AsyncClient(_Core[Coming[Decision], Coming[list[Decision]], Coming[dict[str, Any]]]):
    """Asks a service of ``calibrail serve`` for decisions, under asyncio.

    As `Client`, whose parameters it takes. A call that is cancelled ends at once; its answer has
    not passed.
    """

    _kind = "AsyncClient"

    async def ready(self) -> bool:
        """As ``Client.ready``."""
        try:
            return await self._ask(_core.READY)
        except ServiceError as error:
            return _core.not_ready(error)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _ask(self, call: Call[Result]) -> Result:
        attempts = Attempts(self._asking, call)
        while True:
            try:
                async with (
                    asyncio.timeout(attempts.left),
                    self._http.stream(**attempts.request()) as response,
                ):
                    raw = b"".join([attempts.received(it) async for it in response.aiter_bytes()])
                if attempts.answered(response, raw):
                    return call.result(raw)
            except TimeoutError as error:
                raise attempts.late() from error
            except self._httpx.HTTPError as error:
                attempts.failed(error)
            await asyncio.sleep(attempts.pause)
