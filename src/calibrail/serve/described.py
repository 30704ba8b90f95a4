"""What does the service say of its own routes, for programs that read OpenAPI?"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from fastapi import FastAPI
from pydantic import BaseModel

from calibrail.guardrail.cause import CauseCode
from calibrail.serve.bodies import Batch, Check, Item, Select
from calibrail.serve.limits import LINES
from calibrail.serve.problems import MEDIA_TYPE, Problem

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
_REFUSALS: Final[Mapping[int, Problem]] = {
    400: Problem(400, "not-json", "the body is not JSON; send one JSON object"),
    401: Problem(401, "unauthorized", "this needs the service's token"),
    404: Problem(404, "no-such-guardrail", "no guardrail is called 'faq'; there is legal"),
    405: Problem(405, "no-such-method", "GET /v1/check: Method Not Allowed; see /openapi.json"),
    408: Problem(408, "too-slow", "the body took longer than 10 s to arrive"),
    413: Problem(413, "too-large", "the body is larger than 1,048,576 bytes"),
    415: Problem(415, "not-json", "send the header Content-Type: application/json"),
    421: Problem(421, "other-host", "this service answers on this machine: use 127.0.0.1"),
    422: Problem(
        422,
        "invalid-request",
        "/response is missing; this guardrail reads it",
        errors=[("/response", "is missing; this guardrail reads it")],
    ),
    429: Problem(429, "queue-full", "1,024 answers wait, of 1,024 at most"),
    431: Problem(431, "headers-too-large", "the headers are longer than 65,536 bytes"),
    503: Problem(503, "log-unavailable", "a decision could not be written to the decision log"),
}


def _json(schema: Mapping[str, Any], **examples: Any) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"content": {"application/json": {"schema": schema, "examples": named}}}


def _route(
    kind: type[BaseModel], asked: Mapping[str, Any], given: Mapping[str, Any], **answer: Any
) -> dict[str, Any]:
    """Return what a route takes and gives, with examples of both."""
    body = _json({"$ref": f"#/components/schemas/{kind.__name__}"}, **asked)
    done = {"description": "decided", **_json(given, **answer)}
    return {
        "parameters": [_WHICH],
        "requestBody": {"required": True, **body},
        "responses": {"200": done, **_refused(*_REFUSALS.values())},
    }


def _refused(*problems: Problem) -> dict[str, Any]:
    """Return the answers that say no."""
    return {
        str(problem.status): {
            "description": problem.kind.replace("-", " "),
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "example": problem.to_dict(),
                }
            },
        }
        for problem in problems
    }


def _read(*statuses: int, refused: Iterable[Problem] = (), **content: Any) -> dict[str, Any]:
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
    Batch, {"texts": {"items": [_ANSWER]}}, _ITEMS, decided={"items": [_DECISION]}
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
STREAM: Final = {
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
_STUCK: Final = Problem(503, "stuck", "the detector has been at one batch for too long")
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
            for kind in (Item, Check, Batch, Select):
                schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {})
                schemas[kind.__name__] = schema
            token = {"type": "http", "scheme": "bearer", "description": _TOKEN}
            content["components"] = {"schemas": schemas, "securitySchemes": {"token": token}}
            # A service without a token takes requests without one.
            content["security"] = [{"token": []}] if closed else [{"token": []}, {}]
        return content

    app.openapi = described  # type: ignore[method-assign]
