"""Routes (FastAPI models give OpenAPI)."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final, get_args

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from calibrail.data.example import Example
from calibrail.errors import CalibrailError
from calibrail.guardrail.cause import SEEN, Cause, CauseCode
from calibrail.guardrail.decision import Decision
from calibrail.options import Release
from calibrail.pipelines.card import card
from calibrail.pipelines.select import NewAnswers, select_decided
from calibrail.serve import streaming
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import LINES, STREAM_PATH
from calibrail.serve.metrics import MEDIA_TYPE
from calibrail.serve.schemas import (
    PROBLEM_TYPE,
    Check,
    CheckBatch,
    Item,
    Select,
    ServiceProblem,
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
_DECISION: Final = {
    "id": "answer-1",
    "outcome": "pass",
    "score": 0.1,
    "threshold": 0.333333,
    "p_value": 0.03,
    "reason": "score 0.1 is below the threshold 0.333333",
}
_NUMBER: Final = {"type": ["number", "null"]}
_DECIDED: Final = {
    "type": "object",
    "description": "A line of decisions.jsonl. With column, column_value, column_threshold where "
    "the score is a column, evidence where it was asked for, and text and removed where the "
    "guardrail removes sentences.",
    "required": [*_DECISION],
    "properties": {
        "id": {"type": "string"},
        "outcome": {"enum": ["pass", "flag", "review", "error"]},
        **{name: _NUMBER for name in ("score", "threshold", "p_value")},
        "reason": {"type": "string"},
        "cause": {
            "type": "object",
            "description": "Where there is no score: why, for programs.",
            "required": ["code"],
            "properties": {
                "code": {"enum": [code for code in get_args(CauseCode) if code != "score"]},
                "error": {"type": "string", "description": "The class of what was raised."},
                "timeout": {"type": "boolean"},
                "row": {"type": "integer"},
            },
        },
        "text": {"type": ["string", "null"], "description": "What may be shown of the answer."},
        "removed": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **{name: {"type": "integer"} for name in ("start", "end")},
                    **{name: _NUMBER for name in ("score", "p_value")},
                    **{name: {"type": "string"} for name in ("text", "reason")},
                },
            },
        },
    },
}
_PROBLEM: Final = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail")},
        "status": {"type": "integer"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("pointer", "detail")},
            },
        },
    },
}
_WHICH: Final = {
    "name": "guardrail",
    "in": "query",
    "description": "Which guardrail decides; needed where there are several.",
    "schema": {"type": "string"},
}
_FORMAT: Final = {
    "name": "format",
    "in": "query",
    "description": "The certificate as JSON, or the card as a page or as Markdown.",
    "schema": {"enum": ["json", "html", "md"], "default": "json"},
}
_REFUSALS: Final[Mapping[int, ServiceProblem]] = {
    400: ServiceProblem(400, "not-json", "the body is not JSON; send one JSON object"),
    401: ServiceProblem(401, "unauthorized", "this needs the service's token"),
    404: ServiceProblem(404, "no-such-guardrail", "no guardrail is called 'faq'; there is legal"),
    405: ServiceProblem(
        405, "no-such-method", "GET /v1/check: Method Not Allowed; see /openapi.json"
    ),
    408: ServiceProblem(408, "too-slow", "the body took longer than 10 s to arrive"),
    413: ServiceProblem(413, "too-large", "the body is larger than 1,048,576 bytes"),
    415: ServiceProblem(415, "not-json", "send the header Content-Type: application/json"),
    421: ServiceProblem(421, "other-host", "this service answers on this machine: use 127.0.0.1"),
    422: ServiceProblem(
        422,
        "invalid-request",
        "/response is missing; this guardrail reads it",
        errors=[("/response", "is missing; this guardrail reads it")],
    ),
    429: ServiceProblem(429, "queue-full", "1,024 answers wait, of 1,024 at most"),
    431: ServiceProblem(431, "headers-too-large", "the headers are longer than 65,536 bytes"),
    503: ServiceProblem(
        503, "log-unavailable", "a decision could not be written to the decision log"
    ),
}


def _json_content(schema: Mapping[str, Any], **examples: Any) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"content": {"application/json": {"schema": schema, "examples": named}}}


def _route(
    kind: type[BaseModel], asked: Mapping[str, Any], given: Mapping[str, Any], **answer: Any
) -> dict[str, Any]:
    """Return what a route takes and gives, with examples of both."""
    body = _json_content({"$ref": f"#/components/schemas/{kind.__name__}"}, **asked)
    done = {"description": "decided", **_json_content(given, **answer)}
    return {
        "parameters": [_WHICH],
        "requestBody": {"required": True, **body},
        "responses": {"200": done, **_refused(*_REFUSALS.values())},
    }


def _refused(*problems: ServiceProblem) -> dict[str, Any]:
    """Return the answers that say no."""
    return {
        str(problem.status): {
            "description": problem.kind.replace("-", " "),
            "content": {
                PROBLEM_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "example": problem.to_dict(),
                }
            },
        }
        for problem in problems
    }


def _read(*statuses: int, refused: Iterable[ServiceProblem] = (), **content: Any) -> dict[str, Any]:
    """Return what a route without a body gives."""
    media = {kind.replace("_", "/", 1): schema for kind, schema in content.items()}
    done = {
        "description": "as asked",
        "content": {kind: {"schema": s} for kind, s in media.items()},
    }
    problems = [*(_REFUSALS[status] for status in (*statuses, 405, 421, 431)), *refused]
    return {"responses": {"200": done, **_refused(*problems)}}


_ITEMS: Final = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Decision"}}},
}
#: What further is said of each route that takes a body.
CHECK: Final = _route(
    Check,
    {"texts": _ANSWER, "column": _COLUMN},
    {"$ref": "#/components/schemas/Decision"},
    decided=_DECISION,
)
BATCH: Final = _route(
    CheckBatch, {"texts": {"items": [_ANSWER]}}, _ITEMS, decided={"items": [_DECISION]}
)
_BEGUN: Final = {name: text for name, text in _ANSWER.items() if name != "response"}
_SENTENCE: Final = {"number": 1, "outcome": "pass", "stop": False, "show": _ANSWER["response"]}
_EVENTS: Final = (
    f"event: sentence\ndata: {json.dumps(_SENTENCE)}\n\n"
    f"event: decision\ndata: {json.dumps(_DECISION)}\n\n"
)
_IN_PIECES: Final = _route(
    Item, {"whole": _ANSWER}, {"$ref": "#/components/schemas/Decision"}, decided=_DECISION
)
STREAM_SCHEMA: Final = {
    **_IN_PIECES,
    "requestBody": {
        "required": True,
        "content": {
            **_IN_PIECES["requestBody"]["content"],
            LINES: {
                "schema": {"type": "string"},
                "example": "\n".join(map(json.dumps, (_BEGUN, "Tungsten has", " the symbol W."))),
            },
        },
    },
    "responses": {
        **_IN_PIECES["responses"],
        "200": {
            "description": "events: sentence, stop, rest, decision, error",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS}},
        },
    },
}
SELECT: Final = _route(
    Select,
    {"texts": {"items": [_ANSWER], "fdr": 0.1}},
    {
        "type": "object",
        "description": "What `calibrail select --json` prints, with `items`: id, released, score "
        "and p_value of each answer.",
    },
)


_TOKEN: Final = "The service's CALIBRAIL_TOKEN, where it has one."
_STATE: Final = {"type": "object", "properties": {"status": {"type": "string"}}}
_COUNTS: Final = {"type": "string", "enum": ["incomplete"]}
_READY_STATE: Final = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "metrics": _COUNTS},
}
_STUCK: Final = ServiceProblem(503, "stuck", "the detector has been at one batch for too long")
#: What further is said of the others.
GUARDRAIL: Final = {
    "parameters": [_WHICH, _FORMAT],
    **_read(
        *(401, 404, 422),
        application_json={"type": "object"},
        text_html={"type": "string"},
        text_markdown={"type": "string"},
    ),
}
HEALTH: Final = {**_read(application_json=_STATE, refused=[_STUCK]), "security": []}
READY: Final = {**_read(application_json=_READY_STATE, refused=[_STUCK]), "security": []}
METRICS: Final = _read(401, text_plain={"type": "string"})


def describe(app: FastAPI, *, closed: bool) -> None:
    """Let an application name the bodies that its routes read themselves, and who may ask."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        content = app.openapi_schema
        if content is None:
            content = plain()
            schemas = {"Decision": _DECIDED, "Problem": _PROBLEM}
            for kind in (Item, Check, CheckBatch, Select):
                schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {})
                schemas[kind.__name__] = schema
            token = {"type": "http", "scheme": "bearer", "description": _TOKEN}
            content["components"] = {"schemas": schemas, "securitySchemes": {"token": token}}
            # A service without a token takes requests without one.
            content["security"] = [{"token": []}] if closed else [{"token": []}, {}]
        return content

    app.openapi = described  # type: ignore[method-assign]


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
    given = iter(decided)
    decisions = [
        next(given) if is_new else _withheld(example)
        for example, is_new in zip(examples, new, strict=True)
    ]
    released = iter(result.selection.released)
    await asyncio.to_thread(
        service.keep,
        loaded,
        list(zip(examples, decisions, strict=True)),
        kind="select",
        released=[is_new and bool(next(released)) for is_new in new],
    )
    chosen = iter(result.items())
    unreleased = {"released": False, "score": None, "p_value": None, "seen_before": True}
    items = [
        next(chosen) if is_new else {"id": example.id, **unreleased}
        for example, is_new in zip(examples, new, strict=True)
    ]
    return json.dumps({**result.to_dict(), "items": items}, ensure_ascii=False, allow_nan=False)


def _withheld(example: Example) -> Decision:
    """Return what the log says of an answer that the guardrail was calibrated on."""
    return Decision(example.id, "error", None, None, None, SEEN, cause=Cause("seen_before"))


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
    describe(app, closed=service.token is not None)

    @app.exception_handler(ServiceProblem)
    async def refused(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, ServiceProblem)
        return problem.response()

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path}: {error.detail}; see /openapi.json"
        kind = {404: "no-such-route", 405: "no-such-method"}.get(error.status_code, "refused")
        response = ServiceProblem(error.status_code, kind, detail).response()
        response.headers.update(error.headers or {})
        return response

    @app.post("/v1/check", openapi_extra=CHECK)
    async def check(request: Request) -> Response:
        """Decide about one answer."""
        asked = parse(Check, await request.body())
        loaded = _named(service, request)
        example = asked.example(loaded.guardrail)
        decisions = await service.batcher.decide(loaded, [example], alone=asked.evidence)
        return _json(decisions[0].line(evidence=asked.evidence))

    @app.post("/v1/check/batch", openapi_extra=BATCH)
    async def check_batch(request: Request) -> Response:
        """Decide about answers, each as if it were alone."""
        asked = parse(CheckBatch, await request.body())
        loaded = _named(service, request)
        examples = [
            item.example(loaded.guardrail, ("items", place))
            for place, item in enumerate(asked.items)
        ]
        decisions = await service.batcher.decide(loaded, examples, alone=asked.evidence)
        return _json(_items(decisions, evidence=asked.evidence))

    @app.post(STREAM_PATH, openapi_extra=STREAM_SCHEMA)
    async def check_stream(request: Request) -> Response:
        """Decide about an answer sentence by sentence, while it is being written."""
        return await streaming.stream(service, _named(service, request), request)

    @app.post("/v1/select", openapi_extra=SELECT)
    async def select(request: Request) -> Response:
        """Release as many answers of a batch as the false discovery rate allows."""
        asked = parse(Select, await request.body())
        loaded = _named(service, request)
        return _json(await select_items(service, loaded, asked))

    @app.get("/v1/guardrail", openapi_extra=GUARDRAIL)
    async def guardrail(request: Request) -> Response:
        """Say what decides, since when, and what it promises: `format` is json, html or md."""
        loaded = _named(service, request, "format")
        known = await asyncio.to_thread(card, loaded.guardrail)
        match request.query_params.get("format", "json"):
            case "json":
                refusal = service.guardrails.refusal(loaded.name)
                content = {
                    "name": loaded.name,
                    "since": loaded.since.isoformat(),
                    "refused": refusal
                    and {"time": refusal.time.isoformat(), "reason": refusal.reason},
                    **known.to_dict(),
                }
                return _json(json.dumps(content, ensure_ascii=False))
            case "html":
                page = await asyncio.to_thread(known.html)
                return Response(page, media_type="text/html", headers=PAGE_HEADERS)
            case "md":
                return Response(known.markdown(), media_type="text/markdown")
            case other:
                raise ServiceProblem(
                    422, "invalid-request", f"format must be json, html or md; got {other!r:.20}"
                )

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", openapi_extra=HEALTH)
    async def health() -> Response:
        """Say that the process lives, and that starting it anew would not help."""
        service.refuse_dead()
        return _json('{"status": "alive"}')

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", openapi_extra=READY)
    async def ready() -> Response:
        """Say whether the service decides, and whether it could not count all that it did."""
        service.refuse_unready()
        counts = ', "metrics": "incomplete"' if service.metrics.failed else ""
        return _json(f'{{"status": "ready"{counts}}}')

    @app.get("/metrics", response_class=Response, openapi_extra=METRICS)
    async def metrics() -> Response:
        """Give the counts, for Prometheus."""
        return Response(service.metrics.text(), media_type=MEDIA_TYPE)

    return app


def _named(service: Service, request: Request, *further: str) -> Loaded:
    """Return the guardrail that a request names; a misspelt name of a parameter names none."""
    known = ("guardrail", *further)
    names = [name for name, _ in request.query_params.multi_items()]
    if twice := [name for name in known if names.count(name) > 1]:
        raise ServiceProblem(
            422, "invalid-request", f"the address has ?{twice[0]}= more than once; give it once"
        )
    if unknown := [name for name in names if name not in known]:
        raise ServiceProblem(
            422,
            "invalid-request",
            f"the address has ?{unknown[0]!s:.40}=, which nothing reads; it may have "
            f"{' and '.join(f'?{name}=' for name in known)}",
        )
    return service.guardrails.get(request.query_params.get("guardrail"))


def _items(decisions: Iterable[Decision], *, evidence: bool) -> str:
    lines = ", ".join(decision.line(evidence=evidence) for decision in decisions)
    return f'{{"items": [{lines}]}}'


def _json(text: str, **options: Any) -> Response:
    body = text.encode("utf-8", "surrogatepass")
    return Response(body, media_type="application/json", **options)
