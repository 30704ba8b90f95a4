"""How is an answer decided whose words come one after the other, and what is said meanwhile?

The body's first line says what was asked; each further one is a JSON text, the next piece of the
answer. While they come, events go back (server-sent events): ``sentence`` for each that was judged,
``stop`` for the first that may not be shown, then ``decision``; ``error`` where there is none. An
answer that is there already is a JSON object with its ``response``, and gets the same events.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from calibrail.data.example import Example
from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail.decision import Decision, Unfinished
from calibrail.guardrail.streaming import StreamCheck
from calibrail.serve.bodies import Item, parse
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import streams
from calibrail.serve.pieces import Pieces
from calibrail.serve.problems import Problem
from calibrail.serve.service import Service
from calibrail.text.sentences import Sentence

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
        raise Problem(422, "cannot-stream", str(error)) from None
    except InputError as error:
        raise Problem(422, "invalid-request", str(error)) from None
    told = _Told(service, loaded, example, check)
    if in_lines:
        return _Events(service, told.events(pieces))
    return _Events(service, told.events(_here(asked.response or "", request)))


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

    def __init__(self, service: Service, events: AsyncIterator[bytes]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._service, self._events = service, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is to say."""
        with self._service.batcher.place():
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            body = {"type": "http.response.body", "body": b"", "more_body": True}
            async for event in self._events:
                await send({**body, "body": event})
            await send({**body, "more_body": False})


class _Told:
    """An answer that comes in pieces, and what is said of it."""

    def __init__(
        self, service: Service, loaded: Loaded, example: Example, check: StreamCheck
    ) -> None:
        self._service, self._loaded = service, loaded
        self._example, self._check = example, check

    async def events(self, pieces: AsyncIterable[str]) -> AsyncIterator[bytes]:
        """Yield the events; what does not end is decided by the failure policy."""
        check = self._check
        error: Exception | None = None
        try:
            # That it is taken is known before its first sentence.
            yield b": begun\n\n"
            async for piece in pieces:
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
        except Problem as problem:
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
        except Problem as problem:
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
