"""Routes of the service; OpenAPI comes from the models of requests and replies."""

import asyncio
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from calibrail.errors import CalibrailError
from calibrail.guardrail.decision import SEEN, Cause, Decision
from calibrail.options import Release
from calibrail.pipelines.card import card
from calibrail.pipelines.select import NewAnswers, select_decided
from calibrail.serve import streaming
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import LINES, STREAM_PATH
from calibrail.serve.metrics import MEDIA_TYPE
from calibrail.serve.schemas import (
    PROBLEM_TYPE,
    BatchReply,
    Check,
    CheckBatch,
    DecisionReply,
    Item,
    Problem,
    Select,
    SelectReply,
    ServiceProblem,
    StateReply,
    parse,
    pointer,
)
from calibrail.serve.service import Service

_ANSWER: Final = {
    "question": "Which element has the symbol W?",
    "contexts": ["Tungsten is a metal with the symbol W and atomic number 74."],
    "response": "Tungsten has the symbol W.",
    "id": "answer-1",
}
_COLUMN: Final = {"id": "answer-1", "columns": {"my_detector": 0.83, "language": "en"}}
_LINES: Final = "\n".join(map(json.dumps, ({"question": _ANSWER["question"]}, "Tungsten is")))


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the statuses of problems."""
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {PROBLEM_TYPE: {"schema": schema}}
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
Which = Annotated[
    str | None, Query(description="Which guardrail decides; needed where there are several.")
]

_STREAM_LINES: Final = {"schema": {"type": "string"}, "example": _LINES}
_STREAM_RESPONSES: Final = {
    **_DECIDING,
    200: {
        "description": "events: sentence, stop, rest, decision, error",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
}
_CARDS: Final = {
    **_refusals(401, 404, 422),
    200: {
        "description": "what decides",
        "content": {
            kind: {"schema": {"type": "string"}} for kind in ("text/html", "text/markdown")
        },
    },
}


#: What the batch is called in what is answered.
_SOURCE: Final = "request"


async def select_items(service: Service, loaded: Loaded, asked: Select) -> str:
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
    examples = [
        item.example(loaded.guardrail, ("items", place)) for place, item in enumerate(asked.items)
    ]
    new = [batch.admits(example) for example in examples]
    admitted = [example for example, is_new in zip(examples, new, strict=True) if is_new]
    decided = await service.batcher.decide(loaded, admitted, kept=False) if admitted else []
    try:
        result = await asyncio.to_thread(select_decided, batch, decided, release, _SOURCE)
    except CalibrailError as error:
        raise _select_refusal(error) from None
    pairs, items, chosen = [], [], iter(zip(decided, result.items(), strict=True))
    unreleased = {"released": False, "score": None, "p_value": None, "seen_before": True}
    for example, is_new in zip(examples, new, strict=True):
        seen = Decision(example.id, "error", None, None, None, SEEN, cause=Cause("seen_before"))
        decision, item = next(chosen) if is_new else (seen, {"id": example.id, **unreleased})
        pairs.append((example, decision))
        items.append(item)
    released = [bool(item["released"]) for item in items]
    await asyncio.to_thread(service.keep, loaded, pairs, kind="select", released=released)
    return json.dumps({**result.to_dict(), "items": items}, ensure_ascii=False, allow_nan=False)


def _select_refusal(error: CalibrailError) -> ServiceProblem:
    """Return the problem that an error stands for, at the field that it begins with."""
    name = re.match(r"\w*", str(error))
    known = [name[0]] if name is not None and name[0] in Select.model_fields else []
    return ServiceProblem(
        422, "invalid-request", str(error), errors=[(pointer(*known), str(error))]
    )


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
    # Requests are refused by `RequestLimits`; here the token is only described.
    bearer = HTTPBearer(
        scheme_name="token",
        auto_error=False,
        description="The service's CALIBRAIL_TOKEN, where it has one.",
    )
    closed = [] if service.token is None else [Depends(bearer)]
    routes = APIRouter(dependencies=closed, default_response_class=JSONResponse)

    @app.exception_handler(ServiceProblem)
    async def refused(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, ServiceProblem)
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def unknown_format(_: Request, error: Exception) -> Response:
        return ServiceProblem(422, "invalid-request", "?format= is json, html or md").response()

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path}: {error.detail}; see /openapi.json"
        kind = {404: "no-such-route", 405: "no-such-method"}.get(error.status_code, "refused")
        response = ServiceProblem(error.status_code, kind, detail).response()
        response.headers.update(error.headers or {})
        return response

    async def decider(request: Request, guardrail: Which = None) -> Loaded:
        _refuse_other_parameters(request, "guardrail")
        return service.guardrails.get(guardrail)

    Decider = Annotated[Loaded, Depends(decider)]  # noqa: N806 - a type

    takes = _taking(Check, {"texts": _ANSWER, "column": _COLUMN})

    @routes.post(
        "/v1/check", response_model=DecisionReply, responses=_DECIDING, openapi_extra=takes
    )
    async def check(loaded: Decider, request: Request) -> Response:
        """Decide about one answer."""
        asked = parse(Check, await request.body())
        example = asked.example(loaded.guardrail)
        decisions = await service.batcher.decide(loaded, [example], alone=asked.evidence)
        return _json(decisions[0].line(evidence=asked.evidence))

    takes = _taking(CheckBatch, {"texts": {"items": [_ANSWER]}})

    @routes.post(
        "/v1/check/batch", response_model=BatchReply, responses=_DECIDING, openapi_extra=takes
    )
    async def check_batch(loaded: Decider, request: Request) -> Response:
        """Decide about answers, each as if it were alone."""
        asked = parse(CheckBatch, await request.body())
        examples = [
            item.example(loaded.guardrail, ("items", place))
            for place, item in enumerate(asked.items)
        ]
        decisions = await service.batcher.decide(loaded, examples, alone=asked.evidence)
        lines = ", ".join(decision.line(evidence=asked.evidence) for decision in decisions)
        return _json(f'{{"items": [{lines}]}}')

    takes = _taking(Item, {"whole": _ANSWER}, **{LINES: _STREAM_LINES})

    @routes.post(STREAM_PATH, responses=_STREAM_RESPONSES, openapi_extra=takes)
    async def check_stream(loaded: Decider, request: Request) -> Response:
        """Decide about an answer sentence by sentence, while it is being written."""
        return await streaming.stream(service, loaded, request)

    takes = _taking(Select, {"texts": {"items": [_ANSWER], "fdr": 0.1}})

    @routes.post("/v1/select", response_model=SelectReply, responses=_DECIDING, openapi_extra=takes)
    async def select(loaded: Decider, request: Request) -> Response:
        """Release as many answers of a batch as the false discovery rate allows."""
        asked = parse(Select, await request.body())
        return _json(await select_items(service, loaded, asked))

    @routes.get("/v1/guardrail", response_model=dict[str, Any], responses=_CARDS)
    async def guardrail(
        request: Request,
        guardrail: Which = None,
        format: Annotated[
            Literal["json", "html", "md"],
            Query(description="The certificate as JSON, or the card as a page or as Markdown."),
        ] = "json",
    ) -> Response:
        """Say what decides, since when, and what it promises: `format` is json, html or md."""
        _refuse_other_parameters(request, "guardrail", "format")
        loaded = service.guardrails.get(guardrail)
        known = await asyncio.to_thread(card, loaded.guardrail)
        if format == "html":
            page = await asyncio.to_thread(known.html)
            return Response(page, media_type="text/html", headers=PAGE_HEADERS)
        if format == "md":
            return Response(known.markdown(), media_type="text/markdown")
        refusal = service.guardrails.refusal(loaded.name)
        content = {
            "name": loaded.name,
            "since": loaded.since.isoformat(),
            "refused": refusal and {"time": refusal.time.isoformat(), "reason": refusal.reason},
            **known.to_dict(),
        }
        return _json(json.dumps(content, ensure_ascii=False))

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=StateReply, responses=_STATE)
    async def health() -> Response:
        """Say that the process lives, and that starting it anew would not help."""
        problem = service.dead()
        return _json('{"status": "alive"}') if problem is None else problem.response()

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", response_model=StateReply, responses=_STATE)
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
    _describe_bodies(app)
    return app


def _describe_bodies(app: FastAPI) -> None:
    """Let OpenAPI hold the schemas of bodies that no route declares to FastAPI itself."""
    plain = app.openapi
    kinds: list[type[BaseModel]] = [Check, CheckBatch, Select, Problem]

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            _, schema = models_json_schema(
                [(kind, "validation") for kind in kinds],
                ref_template="#/components/schemas/{model}",
            )
            plain()["components"]["schemas"] |= schema["$defs"]
        return plain()

    app.openapi = described  # type: ignore[method-assign]


def _refuse_other_parameters(request: Request, *known: str) -> None:
    """Refuse a parameter that is given twice, or that nothing reads: it may be misspelt."""
    names = [name for name, _ in request.query_params.multi_items()]
    if twice := [name for name in known if names.count(name) > 1]:
        detail = f"the address has ?{twice[0]}= more than once; give it once"
        raise ServiceProblem(422, "invalid-request", detail)
    if unknown := [name for name in names if name not in known]:
        detail = f"the address has ?{unknown[0]!s:.40}=, which nothing reads; it may have "
        detail += " and ".join(f"?{name}=" for name in known)
        raise ServiceProblem(422, "invalid-request", detail)


def _json(text: str) -> Response:
    return Response(text.encode("utf-8", "surrogatepass"), media_type="application/json")
