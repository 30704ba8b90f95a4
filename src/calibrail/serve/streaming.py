"""Answers that come in pieces.

The body's first line says what was asked; each further one is a JSON text, the next piece of the
answer. While they come, events go back (server-sent events): ``sentence`` for each that was judged,
``stop`` for the first that may not be shown, then ``decision``; ``error`` where there is none. An
answer that is there already is a JSON object with its ``response``, and gets the same events.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from calibrail.data.example import Example
from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail.decision import TIMEOUT, Decision, Unfinished
from calibrail.guardrail.sentences import StreamCheck
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import streams
from calibrail.serve.schemas import WORDS, Item, ServiceProblem, parse
from calibrail.serve.service import Service
from calibrail.text.sentences import Sentence
from calibrail.text.words import joined

_WHAT: Final = (
    "the first line is a JSON object that says what was asked, each further one a JSON text, the "
    "next piece of the answer"
)
#: How many pauses of the longest kind an answer may wait for its pieces in all.
_PAUSES: Final = 20


class Pieces:
    """The lines of a body.

    Parameters
    ----------
    body : async iterator of bytes
        The body, cut anywhere.
    pause : float
        Seconds until the first line, and then until the next piece that holds something; twenty
        times as many are waited in all.
    given_up : Event
        Set when nothing more is waited for.
    """

    def __init__(self, body: AsyncIterator[bytes], pause: float, given_up: asyncio.Event) -> None:
        self._body, self._pause, self._given_up = body, pause, given_up
        self._rest, self._n = b"", 0
        self._now = asyncio.get_running_loop().time
        self._left = _PAUSES * pause
        self._restart()

    async def first(self) -> bytes:
        """Return the first line.

        Raises
        ------
        Problem
            If there is none, or it does not come in time.
        """
        try:
            line = await self._line()
        except Unfinished as error:
            raise ServiceProblem(408, "too-slow", str(error), close=True) from None
        if not line:
            raise ServiceProblem(400, "not-json", f"the body holds no line: {_WHAT}")
        return line

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer.

        Half of a surrogate pair waits for its other half: programs that count in UTF-16 cut there.

        Raises
        ------
        Problem
            If a line is no text.
        Unfinished
            If none comes in time.
        """
        half = ""
        self._restart()
        while line := await self._line():
            piece: Any = None
            with contextlib.suppress(ValueError, RecursionError):
                piece = json.loads(line)
            if not isinstance(piece, str):
                raise self._wrong(f"is no JSON text; {_WHAT}")
            text, half = joined(half + piece)
            if re.search("[\ud800-\udfff]", text):
                raise self._wrong(WORDS["string_unicode"])
            if text:
                yield text
                self._restart()
        if half:
            raise self._wrong(WORDS["string_unicode"])

    def _wrong(self, complaint: str) -> ServiceProblem:
        return ServiceProblem(422, "invalid-request", f"line {self._n} {complaint}")

    async def _line(self) -> bytes:
        """Return the next line that holds something; nothing at the end."""
        parts = [self._rest]
        while True:
            line, end, self._rest = parts[-1].partition(b"\n")
            more = None if end else await self._more()
            if more is not None:
                parts.append(more)
                continue
            self._n += 1
            line = b"".join([*parts[:-1], line]).strip()
            if line or not end:
                return line
            parts = [self._rest]

    def _restart(self) -> None:
        self._end = self._now() + self._pause

    async def _more(self) -> bytes | None:
        began = self._now()
        seconds = min(self._end - began, self._left)
        coming = asyncio.ensure_future(anext(self._body, None))
        stopped = asyncio.ensure_future(self._given_up.wait())
        first = asyncio.FIRST_COMPLETED
        try:
            done, _ = await asyncio.wait({coming, stopped}, timeout=seconds, return_when=first)
        finally:
            self._left -= self._now() - began
            stopped.cancel()
            coming.cancel()
        if coming in done:
            return coming.result()
        if done:
            raise Unfinished(f"the service was stopped before {TIMEOUT}")
        if self._left <= 0:
            raise Unfinished(f"its pieces took {_PAUSES * self._pause:g} s to come {TIMEOUT}")
        raise Unfinished(f"no piece of the answer within {self._pause:g} s {TIMEOUT}")


#: Of what is answered.
MEDIA_TYPE: Final = "text/event-stream"
#: Characters of an answer that is there already between two looks at who asked.
_AT_ONCE: Final = 200


async def stream(service: Service, loaded: Loaded, request: Request) -> Response:
    """Return what answers a request whose answer comes in pieces, or is told in pieces.

    Raises
    ------
    Problem
        If it is refused before anything is decided.
    """
    pieces = Pieces(request.stream(), service.options.deadline, service.batcher.given_up)
    in_lines = streams(request.scope)
    asked = parse(Item, await pieces.first() if in_lines else await request.body())
    example = asked.example(loaded.guardrail, begun=in_lines)
    try:
        check = StreamCheck(loaded.guardrail, example)
    except GuardrailError as error:
        raise ServiceProblem(422, "cannot-stream", str(error)) from None
    except InputError as error:
        raise ServiceProblem(422, "invalid-request", str(error)) from None
    texts = aiter(pieces) if in_lines else _here(asked.response or "", request)
    return _Events(service, loaded, example, check, texts)


async def _here(response: str, request: Request) -> AsyncIterator[str]:
    """Yield an answer that is there already, as long as somebody waits for what is said of it."""
    for start in range(0, len(response), _AT_ONCE):
        yield response[start : start + _AT_ONCE]
        if await request.is_disconnected():
            raise ClientDisconnect


class _Events(Response):
    """Server-sent events, while the request's body may still come.

    Starlette's own streaming response would read the body, to hear of its end.
    """

    def __init__(
        self,
        service: Service,
        loaded: Loaded,
        example: Example,
        check: StreamCheck,
        pieces: AsyncIterator[str],
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._service, self._loaded = service, loaded
        self._example, self._check, self._pieces = example, check, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is to say."""
        with self._service.batcher.place():
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            body = {"type": "http.response.body", "body": b"", "more_body": True}
            async for event in self._told():
                await send({**body, "body": event})
            await send({**body, "more_body": False})

    async def _told(self) -> AsyncIterator[bytes]:
        """Yield the events; what does not end is decided by the failure policy."""
        check = self._check
        error: Exception | None = None
        try:
            # That it is taken is known before its first sentence.
            yield b": begun\n\n"
            async for piece in self._pieces:
                for sentence in check.split(piece):
                    if check.stopped is None:
                        yield await self._judged(sentence)
                if check.stopped is not None:
                    break
            for sentence in check.end():
                if check.stopped is None:
                    yield await self._judged(sentence)
            decision = await self._service.batcher.step(self._loaded, check.cut)
            if rest := check.release():
                yield _event("rest", json.dumps({"show": rest}))
        except ServiceProblem as problem:
            yield _event("error", json.dumps(problem.to_dict()))
            error = Unfinished(problem.detail)
        except ClientDisconnect:
            error = Unfinished()
        except (TimeoutError, Unfinished) as late:
            error = late
        if error is not None:
            decision = self._loaded.guardrail.failed(self._example, error)
        try:
            await asyncio.to_thread(self._keep, decision)
        except ServiceProblem as problem:
            yield _event("error", json.dumps(problem.to_dict()))
        else:
            yield _event("decision", decision.line())

    async def _judged(self, sentence: Sentence) -> bytes:
        """Return the event of a sentence, once it is its turn to be judged."""
        step = partial(self._check.judge, sentence)
        begun = time.perf_counter()
        verdict = await self._service.batcher.step(self._loaded, step)
        self._service.metrics.judged(self._loaded, time.perf_counter() - begun)
        return _event(
            "stop" if verdict.stop else "sentence",
            json.dumps({**verdict.to_dict(), "show": self._check.release()}),
        )

    def _keep(self, decision: Decision) -> None:
        """Keep the decision before it is given."""
        check = self._check
        example = replace(self._example, response=check.text)
        self._service.keep(self._loaded, [(example, decision)], kind="stream")
        stopped = check.stopped is not None and not check.failed
        end = "failed" if decision.failed else "stopped" if stopped else "whole"
        self._service.metrics.streamed(self._loaded, end, check.n_sentences)


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
