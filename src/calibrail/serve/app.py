"""The service's web application: its routes, streams among them.

Of a stream the body's first line says what was asked; each further one is a JSON text, the next
piece of the answer. While they come, events go back (server-sent events): ``sentence`` for each
that was judged, ``stop`` for the first that may not be shown, then ``decision``; ``error`` where
there is none. An answer that is there already is a JSON object with its ``response``, and gets the
same events.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from itertools import compress
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from calibrail.data.example import Example
from calibrail.errors import CalibrailError, GuardrailError, InputError
from calibrail.guardrail.decision import TIMEOUT, Decision, Unfinished
from calibrail.guardrail.sentences import StreamCheck
from calibrail.options import Release
from calibrail.pipelines.card import explanation
from calibrail.pipelines.select import NewAnswers, select_decided
from calibrail.report import render_markdown, render_page
from calibrail.report.documents import build_document
from calibrail.serve import schemas
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import LINES, STREAM_PATH, streams
from calibrail.serve.metrics import MEDIA_TYPE
from calibrail.serve.service import Service
from calibrail.text.sentences import Sentence
from calibrail.text.words import joined

#: Bytes of a body that is parsed in a thread.
_LARGE: Final = 1 << 16
#: Answers of a body that are looked at one by one without a look at other requests.
_FEW: Final = 50
#: Lines of a body between two looks at other requests.
_LINES_AT_ONCE: Final = 500
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
        self._rest, self._at, self._n = b"", 0, 0
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
            raise schemas.ServiceProblem.of("slow_pieces", error=error) from None
        if not line:
            raise schemas.ServiceProblem.of("body_without_line")
        return line

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer, none of more than `_AT_ONCE` characters.

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
            # What is no text is not looked at: it may be anything, and large.
            with contextlib.suppress(ValueError):
                piece = json.loads(line) if line.startswith(b'"') else None
            if not isinstance(piece, str):
                raise self._wrong(schemas.WORDS["no_piece"])
            text, half = joined(half + piece)
            if re.search("[\ud800-\udfff]", text):
                raise self._wrong(schemas.WORDS["string_unicode"])
            # One that is long comes in parts, between which others are answered.
            for start in range(0, len(text), _AT_ONCE):
                yield text[start : start + _AT_ONCE]
                await asyncio.sleep(0)
                self._restart()
        if half:
            raise self._wrong(schemas.WORDS["string_unicode"])

    def _wrong(self, complaint: str) -> schemas.ServiceProblem:
        return schemas.ServiceProblem.of("wrong_line", n=self._n, complaint=complaint)

    async def _line(self) -> bytes:
        """Return the next line that holds something; nothing at the end."""
        parts = list[bytes]()
        while True:
            end = self._rest.find(b"\n", self._at)
            parts.append(self._rest[self._at : end if end >= 0 else None])
            self._at = end + 1
            if end < 0:
                self._rest = b""
                if (more := await self._more()) is not None:
                    self._rest = more
                    continue
            self._n += 1
            if not self._n % _LINES_AT_ONCE:
                await asyncio.sleep(0)
            line = b"".join(parts).strip()
            if line or end < 0:
                return line
            parts = []

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
EVENT_STREAM: Final = "text/event-stream"
#: Characters of an answer that are cut into sentences between two looks at other requests.
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
    asked = await _parsed(schemas.Item, await (pieces.first() if in_lines else request.body()))
    (example,) = await _examples(loaded, [asked], begun=in_lines)
    try:
        check = StreamCheck(loaded.guardrail, example)
    except GuardrailError as error:
        raise schemas.ServiceProblem.of("cannot_stream", error=error) from None
    except InputError as error:
        raise schemas.ServiceProblem.of("invalid", error=error) from None
    texts = aiter(pieces) if in_lines else _here(asked.response or "", request)
    return _Events(service, loaded, example, check, texts)


async def _here(response: str, request: Request) -> AsyncIterator[str]:
    """Yield an answer that is there already, as long as somebody waits for what is said of it."""
    for start in range(0, len(response), _AT_ONCE):
        yield response[start : start + _AT_ONCE]
        if await request.is_disconnected():
            raise ClientDisconnect


@dataclass(eq=False)
class _Events(Response):
    """Server-sent events, while the request's body may still come.

    Starlette's own streaming response would read the body, to hear of its end.
    """

    _service: Service
    _loaded: Loaded
    _example: Example
    _check: StreamCheck
    _pieces: AsyncIterator[str]

    def __post_init__(self) -> None:
        super().__init__(media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is to say."""
        with self._service.batcher.place():
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
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
            # Of an answer of nothing but numbers all sentences are found only now.
            for sentence in await asyncio.to_thread(check.end):
                if check.stopped is None:
                    yield await self._judged(sentence)
            decision = await self._service.batcher.step(self._loaded, check.cut)
            if rest := check.release():
                yield _event("rest", json.dumps({"show": rest}))
        except schemas.ServiceProblem as problem:
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
        except schemas.ServiceProblem as problem:
            yield _event("error", json.dumps(problem.to_dict()))
        else:
            yield _event("decision", decision.line())

    async def _judged(self, sentence: Sentence) -> bytes:
        """Return the event of a sentence, once it is its turn to be judged."""
        step = partial(self._check.judge, sentence)
        begun = time.perf_counter()
        verdict = await self._service.batcher.step(self._loaded, step)
        seconds = time.perf_counter() - begun
        self._service.metrics.observe("stream_sentence_seconds", seconds, self._loaded.name)
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
        self._service.metrics.count("streams", self._loaded.name, end)
        self._service.metrics.count("stream_sentences", self._loaded.name, by=check.n_sentences)


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode("utf-8", "replace")


_ANSWER: Final = schemas.EXAMPLE
_COLUMN: Final = {"id": "answer-1", "columns": {"my_detector": 0.83, "language": "en"}}
_LINES: Final = "\n".join(map(json.dumps, ({"question": _ANSWER["question"]}, "Tungsten is")))


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the statuses of problems."""
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {schemas.PROBLEM_TYPE: {"schema": schema}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (*statuses, 405, 421, 431)
    }


#: Problems of a route that takes a body, and of one that says whether the service is there.
_DECIDING: Final = _refusals(400, 401, 404, 408, 413, 415, 422, 429, 503)
_STATE: Final = _refusals(503)


def _taking(
    kind: type[BaseModel], examples: Mapping[str, Any], **others: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what OpenAPI says of the bodies that a route takes, which it parses itself."""
    content = {
        "schema": {"$ref": f"#/components/schemas/{kind.__name__}"},
        "examples": {name: {"value": body} for name, body in examples.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content, **others}}}


#: Which guardrail is asked for.
Which = Annotated[str | None, Query(description=schemas.FIELDS["guardrail"])]

_STREAM_LINES: Final = {"schema": {"type": "string"}, "example": _LINES}


def _texts(description: str, *kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of an answer that is a text of these kinds."""
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {200: {"description": description, "content": content}}


_EVENTS: Final = _texts("events: sentence, stop, rest, decision, error", EVENT_STREAM)
_PAGES: Final = ("text/html", "text/markdown")
_CARDS: Final = {**_refusals(401, 404, 422, 429), **_texts("what decides", *_PAGES)}
_ONE_DECIDED: Final = {**_DECIDING, **_texts("the decision", *_PAGES)}
#: How a card or a decision is shown.
Format = Annotated[Literal["json", "html", "md"], Query(description=schemas.FIELDS["format"])]
#: Of one decision's page: items of evidence, and characters of each text.
_BOUNDS: Final = {"most": 100, "characters": 600}
#: Pages of decisions that are asked for at a time.
_MOST_PAGES: Final = 8


#: What the batch is called in what is answered.
_SOURCE: Final = "request"


async def _decided(
    service: Service, loaded: Loaded, asked: schemas.Telling, examples: list[Example]
) -> Sequence[Decision]:
    """Return the decision about each answer, with what it is asked to tell."""

    async def told(decisions: Sequence[Decision]) -> Sequence[Decision]:
        if not asked.probability and asked.base_rate is None:
            return decisions
        try:
            if not asked.probability:
                raise InputError("base_rate is what probability is for; also ask for that")
            return await asyncio.to_thread(loaded.guardrail.tell, decisions, asked.base_rate)
        except CalibrailError as error:
            raise schemas.ServiceProblem.of("invalid", error=error) from None

    # What cannot be told is refused before anything is decided.
    await told(())
    decisions = await service.batcher.decide(loaded, examples, alone=asked.evidence)
    return await told(decisions)


async def select_items(service: Service, loaded: Loaded, asked: schemas.Select) -> str:
    """Return the JSON of what ``calibrail select`` prints, with each answer's own line.

    An answer that set the guardrail's threshold is not released, and is marked.

    Raises
    ------
    Problem
        If a field is outside its domain, nothing can be promised of this batch, or its decisions
        cannot be written to the log.
    """
    try:
        release = Release(asked.fdr, asked.method, asked.confidence)
        batch = NewAnswers(loaded.guardrail)
    except CalibrailError as error:
        raise _select_refusal(error) from None
    examples = await _examples(loaded, asked.items, "items")
    new = await asyncio.to_thread(batch.admits, examples)
    admitted = [*compress(examples, new)]
    judged = iter(await service.batcher.decide(loaded, admitted, kept=False) if admitted else [])
    decided = [
        next(judged) if is_new else Decision.seen_before(example.id, loaded.digest)
        for example, is_new in zip(examples, new, strict=True)
    ]
    try:
        result = await asyncio.to_thread(select_decided, batch, decided, release, _SOURCE)
    except CalibrailError as error:
        raise _select_refusal(error) from None
    items, pairs = result.items(), list(zip(examples, decided, strict=True))
    released = [bool(item["released"]) for item in items]
    await asyncio.to_thread(service.keep, loaded, pairs, kind="select", released=released)
    return json.dumps({**result.to_dict(), "items": items}, ensure_ascii=False, allow_nan=False)


def _select_refusal(error: CalibrailError) -> schemas.ServiceProblem:
    """Return the problem that an error stands for, at the field that it begins with."""
    name = re.match(r"\w*", str(error))
    known = [name[0]] if name is not None and name[0] in schemas.Select.model_fields else []
    problem = schemas.ServiceProblem.of("invalid", error=error)
    problem.errors = [(schemas.pointer(*known), str(error))]
    return problem


#: Of a page: nothing is fetched from elsewhere.
PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def application(service: Service) -> FastAPI:
    """Return the routes of a service."""
    app = FastAPI(title="calibrail", version=version("calibrail"), docs_url=None, redoc_url=None)
    # Another address is answered, not redirected to: ``Host`` would name where.
    app.router.redirect_slashes = False
    # Requests are refused by `RequestLimits`; here the token is only described.
    bearer = HTTPBearer(scheme_name="token", auto_error=False, description=schemas.FIELDS["token"])
    closed = [Depends(bearer)] if service.tokens.needed else []
    routes = APIRouter(dependencies=closed, default_response_class=JSONResponse)

    @app.exception_handler(schemas.ServiceProblem)
    async def refused(_: Request, problem: schemas.ServiceProblem) -> Response:
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def unknown_format(_: Request, error: Exception) -> Response:
        return schemas.ServiceProblem.of("invalid", error="?format= is json, html or md").response()

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}; see /openapi.json"
        kind = {404: "no-such-route", 405: "no-such-method"}.get(error.status_code, "refused")
        response = schemas.ServiceProblem(error.status_code, kind, detail).response()
        response.headers.update(error.headers or {})
        return response

    async def decider(request: Request, guardrail: Which = None) -> Loaded:
        shown = ["format"] if request.scope["path"] == "/v1/check" else []
        _refuse_other_parameters(request, "guardrail", *shown)
        loaded = service.guardrails.get(guardrail)
        request.scope["decided_by"] = loaded.digest
        return loaded

    Decider = Annotated[Loaded, Depends(decider)]  # noqa: N806 - a type

    # One at a time: drawing a page takes as long as many decisions.
    drawing, asked_for = asyncio.Lock(), set[Request]()

    @routes.post(
        "/v1/check",
        response_model=schemas.DecisionReply,
        responses=_ONE_DECIDED,
        openapi_extra=_taking(schemas.Check, {"texts": _ANSWER, "column": _COLUMN}),
    )
    async def check(loaded: Decider, request: Request, format: Format = "json") -> Response:
        """Decide about one answer; as a page with the answer, its sources and known scores."""
        asked = await _parsed(schemas.Check, await request.body())
        if format == "json":
            (decision,) = await _decided(service, loaded, asked, await _examples(loaded, [asked]))
            return _json(decision.line(evidence=asked.evidence))
        if len(asked_for) >= _MOST_PAGES:
            why = f"{_MOST_PAGES} pages are being drawn, as many as may be"
            raise schemas.ServiceProblem.of("queue_full", why=why)
        asked_for.add(request)
        try:
            asked = asked.model_copy(update={"evidence": True})
            examples = await _examples(loaded, [asked])
            (decision,) = await _decided(service, loaded, asked, examples)
            async with drawing:
                if await request.is_disconnected():
                    return Response(status_code=204)
                shown = partial(_shown, loaded, examples[0], decision, format)
                return _page(await asyncio.to_thread(shown), format)
        finally:
            asked_for.remove(request)

    @routes.post(
        "/v1/check/batch",
        response_model=schemas.BatchReply,
        responses=_DECIDING,
        openapi_extra=_taking(schemas.CheckBatch, {"texts": {"items": [_ANSWER]}}),
    )
    async def check_batch(loaded: Decider, request: Request) -> Response:
        """Decide about answers, each as if it were alone."""
        asked = await _parsed(schemas.CheckBatch, await request.body(), service.options.queue)
        examples = await _examples(loaded, asked.items, "items")
        decisions = await _decided(service, loaded, asked, examples)
        lines = ", ".join(decision.line(evidence=asked.evidence) for decision in decisions)
        return _json(f'{{"items": [{lines}]}}')

    takes = _taking(schemas.Item, {"whole": _ANSWER}, **{LINES: _STREAM_LINES})

    @routes.post(STREAM_PATH, responses={**_DECIDING, **_EVENTS}, openapi_extra=takes)
    async def check_stream(loaded: Decider, request: Request) -> Response:
        """Decide about an answer sentence by sentence, while it is being written."""
        return await stream(service, loaded, request)

    takes = _taking(schemas.Select, {"texts": {"items": [_ANSWER], "fdr": 0.1}})

    @routes.post(
        "/v1/select", response_model=schemas.SelectReply, responses=_DECIDING, openapi_extra=takes
    )
    async def select(loaded: Decider, request: Request) -> Response:
        """Release as many answers of a batch as the false discovery rate allows."""
        asked = await _parsed(schemas.Select, await request.body(), service.options.queue)
        return _json(await select_items(service, loaded, asked))

    @routes.get("/v1/guardrail", response_model=dict[str, Any], responses=_CARDS)
    async def guardrail(
        request: Request, guardrail: Which = None, format: Format = "json"
    ) -> Response:
        """Say what decides, since when, and what it promises: `format` is json, html or md."""
        _refuse_other_parameters(request, "guardrail", "format")
        loaded = service.guardrails.get(guardrail)
        # Others may wait for it, too, when whoever came first has left.
        text = (await asyncio.shield(loaded.cards))[format]
        if format != "json":
            return _page(text, format)
        refusal = service.guardrails.refusal(loaded.name)
        content = {
            "name": loaded.name,
            "since": loaded.since.isoformat(),
            "refused": refusal and {"time": refusal.time.isoformat(), "reason": refusal.reason},
        }
        begins = f"{json.dumps(content, ensure_ascii=False)[:-1]}, ".encode("utf-8", "replace")
        return Response(begins + text[1:], media_type="application/json")

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=schemas.StateReply, responses=_STATE)
    async def health() -> Response:
        """Say that the process lives, and that starting it anew would not help."""
        problem = service.dead()
        return _json('{"status": "alive"}') if problem is None else problem.response()

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", response_model=schemas.StateReply, responses=_STATE)
    async def ready() -> Response:
        """Say whether the service decides, and whether it could not count all that it did."""
        if (problem := service.unready()) is not None:
            return problem.response()
        counts = ', "metrics": "incomplete"' if service.metrics.failed else ""
        return _json(f'{{"status": "ready"{counts}}}')

    @routes.get("/metrics", response_class=PlainTextResponse, responses=_refusals(401))
    async def metrics() -> Response:
        """Give the counts, for Prometheus."""
        return Response(service.metrics.text(), media_type=MEDIA_TYPE)

    app.include_router(routes)
    # Bodies that no route declares to FastAPI itself.
    kinds = (schemas.Check, schemas.CheckBatch, schemas.Select, schemas.Problem)
    _, bodies = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    app.openapi()["components"]["schemas"] |= bodies["$defs"]
    return app


async def _parsed(kind: type[schemas.Body], raw: bytes, most: int = 1) -> schemas.Body:
    """Return what a body of at most so many answers holds; a large one is read beside the loop."""
    if len(raw) > _LARGE:
        return await asyncio.to_thread(schemas.parse, kind, raw, most)
    return schemas.parse(kind, raw, most)


async def _examples(
    loaded: Loaded, items: Sequence[schemas.Item], *at: str, begun: bool = False
) -> list[Example]:
    """Return answers; beside the loop where they are many, or cells ask for their sentences."""

    def made() -> list[Example]:
        rows = range(len(items))
        places: list[tuple[str | int, ...]] = [(*at, row) if at else () for row in rows]
        made = partial(schemas.Item.example, guardrail=loaded.guardrail, begun=begun)
        return [made(item, place=place) for item, place in zip(items, places, strict=True)]

    cells = (cell for item in items for cell in item.columns.values())
    if len(items) > _FEW or any(isinstance(cell, list | str) for cell in cells):
        return await asyncio.to_thread(made)
    return made()


def _refuse_other_parameters(request: Request, *known: str) -> None:
    """Refuse a parameter that is given twice, or that nothing reads: it may be misspelt."""
    names = [name for name, _ in request.query_params.multi_items()]
    if twice := [name for name in known if names.count(name) > 1]:
        raise schemas.ServiceProblem.of("parameter_twice", name=twice[0])
    if unknown := [name for name in names if name not in known]:
        allowed = " and ".join(f"?{name}=" for name in known)
        raise schemas.ServiceProblem.of("unknown_parameter", name=unknown[0], known=allowed)


def _shown(loaded: Loaded, example: Example, decision: Decision, form: str) -> bytes:
    """Return what ``explain --page`` writes about a decision."""
    content = decision.to_dict(evidence=True)
    known = explanation(loaded.guardrail, example, decision)
    document = build_document("explain", content, **known, **_BOUNDS)
    render = render_page if form == "html" else render_markdown
    return render(document).encode("utf-8", "replace")


def _page(text: bytes, form: str) -> Response:
    """Return a page that fetches nothing, or Markdown."""
    if form == "html":
        return Response(text, media_type="text/html", headers=PAGE_HEADERS)
    return Response(text, media_type="text/markdown")


def _json(text: str) -> Response:
    return Response(text.encode("utf-8", "replace"), media_type="application/json")
