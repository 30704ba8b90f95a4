"""What may be asked of the service, and what is answered?"""

import asyncio
import json
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from calibrail.guardrail.decision import Decision
from calibrail.serve import described, selecting, streams
from calibrail.serve.bodies import Batch, Check, Select, parse
from calibrail.serve.guardrails import Loaded
from calibrail.serve.limits import STREAM
from calibrail.serve.metrics import MEDIA_TYPE
from calibrail.serve.problems import Problem
from calibrail.serve.service import Service
from calibrail.workflow.card import card

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
    described.describe(app, closed=service.token is not None)

    @app.exception_handler(Problem)
    async def refused(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, Problem)
        return problem.response()

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"{request.method} {request.url.path}: {error.detail}; see /openapi.json"
        kind = {404: "no-such-route", 405: "no-such-method"}.get(error.status_code, "refused")
        response = Problem(error.status_code, kind, detail).response()
        response.headers.update(error.headers or {})
        return response

    @app.post("/v1/check", openapi_extra=described.CHECK)
    async def check(request: Request) -> Response:
        """Decide about one answer."""
        asked = parse(Check, await request.body())
        loaded = _named(service, request)
        example = asked.example(loaded.guardrail)
        decisions = await service.batcher.decide(loaded, [example], alone=asked.evidence)
        return _json(decisions[0].line(evidence=asked.evidence))

    @app.post("/v1/check/batch", openapi_extra=described.BATCH)
    async def check_batch(request: Request) -> Response:
        """Decide about answers, each as if it were alone."""
        asked = parse(Batch, await request.body())
        loaded = _named(service, request)
        examples = [
            item.example(loaded.guardrail, ("items", place))
            for place, item in enumerate(asked.items)
        ]
        decisions = await service.batcher.decide(loaded, examples, alone=asked.evidence)
        return _json(_items(decisions, evidence=asked.evidence))

    @app.post(STREAM, openapi_extra=described.STREAM)
    async def check_stream(request: Request) -> Response:
        """Decide about an answer sentence by sentence, while it is being written."""
        return await streams.stream(service, _named(service, request), request)

    @app.post("/v1/select", openapi_extra=described.SELECT)
    async def select(request: Request) -> Response:
        """Release as many answers of a batch as the false discovery rate allows."""
        asked = parse(Select, await request.body())
        loaded = _named(service, request)
        return _json(await selecting.select(service, loaded, asked))

    @app.get("/v1/guardrail", openapi_extra=described.GUARDRAIL)
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
                raise Problem(
                    422, "invalid-request", f"format must be json, html or md; got {other!r:.20}"
                )

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", openapi_extra=described.HEALTH)
    async def health() -> Response:
        """Say that the process lives, and that starting it anew would not help."""
        service.refuse_dead()
        return _json('{"status": "alive"}')

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", openapi_extra=described.READY)
    async def ready() -> Response:
        """Say whether the service decides, and whether it could not count all that it did."""
        service.refuse_unready()
        counts = ', "metrics": "incomplete"' if service.metrics.failed else ""
        return _json(f'{{"status": "ready"{counts}}}')

    @app.get("/metrics", response_class=Response, openapi_extra=described.METRICS)
    async def metrics() -> Response:
        """Give the counts, for Prometheus."""
        return Response(service.metrics.text(), media_type=MEDIA_TYPE)

    return app


def _named(service: Service, request: Request, *further: str) -> Loaded:
    """Return the guardrail that a request names; a misspelt name of a parameter names none."""
    known = ("guardrail", *further)
    names = [name for name, _ in request.query_params.multi_items()]
    if twice := [name for name in known if names.count(name) > 1]:
        raise Problem(
            422, "invalid-request", f"the address has ?{twice[0]}= more than once; give it once"
        )
    if unknown := [name for name in names if name not in known]:
        raise Problem(
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
