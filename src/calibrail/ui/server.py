"""The labelling page.

The server listens on this machine alone, yet other pages in the same browser, and other people who
are logged in here, reach the same port. So every request needs a secret that only the printed
address holds, and comes under a name of this machine, which a foreign name that points here
(DNS rebinding) does not have.

Python counts code points; JavaScript counts UTF-16 code units, two for what lies beyond U+FFFF,
such as most emoji. Half of a pair, which is no character, is one of both.

Nothing but what an annotator may see leaves this file: no score, no verdict, nobody else's label.
"""

import hashlib
import hmac
import json
import os
import secrets
import socket
import sys
import threading
import webbrowser
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from calibrail.errors import CalibrailError, error_text
from calibrail.labelling.session import Counts, Session, Task
from calibrail.report.messages import word
from calibrail.ui.terminal import nearest_quote, sentence_places, why_shown

#: Headers of every response: nothing is stored, framed or fetched from elsewhere, no text runs.
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access:
    """An ASGI application behind a token.

    The address that is printed ends in ``?token=``. Who opens it gets the page, and with it a
    cookie that opens the page's files again, and nothing else: cookies are seen by whatever
    listens on another port of this machine. Answers and labels take the token itself, as a
    ``Bearer`` that the page keeps for its tab.

    Parameters
    ----------
    app : ASGI application
        What answers.
    token : str
        The secret.
    port : int
        Where the server listens on 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._pass = hashlib.sha256(f"calibrail page {token}".encode()).hexdigest()
        self._cookie = f"calibrail-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        opened = _same(request.query_params.get("token", ""), self._token)
        refusal = self._refusal(request, opened=opened)
        foreign = refusal is not None and refusal.status_code == 421

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if opened and not foreign:
                    keep = f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", keep)
            await send(message)

        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request, *, opened: bool) -> PlainTextResponse | None:
        headers, path = request.headers, request.scope["path"]
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts or origin not in (None, f"http://{host}"):
            # It comes under a foreign name, or from a foreign page.
            return PlainTextResponse("This server has another name.", 421)
        if path.startswith("/api/"):
            kind, _, given = headers.get("authorization", "").partition(" ")
            allowed = kind == "Bearer" and _same(given, self._token)
        else:
            held = _same(request.cookies.get(self._cookie, ""), self._pass)
            allowed = held or (opened and path == "/")
        return None if allowed else PlainTextResponse(error_text("no_token"), 403)


def _same(given: str, secret: str) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


Place = tuple[int, int]


class Places:
    """Places of one text, in code points and in UTF-16 code units.

    Examples
    --------
    >>> places = Places("a😀b")
    >>> places.from_browser([(1, 3), (3, 4)]), places.to_browser([(1, 2), (2, 3)])
    ([(1, 2), (2, 3)], [(1, 3), (3, 4)])
    """

    def __init__(self, text: str) -> None:
        #: Where each character begins in code units, and where the last one ends.
        self._starts = [0, *accumulate(1 + (letter > "\uffff") for letter in text)]
        #: Length of the text in UTF-16 code units.
        self.units = self._starts[-1]

    def to_browser(self, spans: Iterable[Sequence[int]]) -> list[Place]:
        """Return places in code units, of places in code points."""
        return [(self._starts[start], self._starts[end]) for start, end in spans]

    def from_browser(self, spans: Iterable[Sequence[int]]) -> list[Place]:
        """Return places in code points; one that cuts a character in two holds all of it."""
        starts = self._starts
        return [(bisect_right(starts, a) - 1, bisect_left(starts, b)) for a, b in spans]


#: What an annotator may know of how far the labels are: not what they say.
_COUNTS: Final = (
    *("by_you", "labelled", "skipped", "waiting", "holding", "disagreements"),
    *("needed", "found", "to_expect", "decided", "drawn", "total"),
)

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class AnswerRequest(BaseModel):
    """A request about the answer on screen, by its number in the order of drawing."""

    model_config = ConfigDict(extra="forbid")
    order: StrictInt


class LabelBody(AnswerRequest):
    """A label: 0 faithful, 1 hallucinated, None unsure, and the places that show it."""

    label: Annotated[StrictInt, Field(ge=0, le=1)] | None
    spans: list[Annotated[list[StrictInt], Field(min_length=2, max_length=2)]] = []
    note: Annotated[str, Field(max_length=2000)] = ""


class UndoRequest(BaseModel):
    """A request to take back the last label, or that of one answer."""

    model_config = ConfigDict(extra="forbid")
    order: StrictInt | None = None


class AskedSentence(AnswerRequest):
    """A request about one sentence of the answer on screen."""

    sentence: Annotated[StrictInt, Field(ge=0)]


class Page:
    """What one annotator sees of a session, one request at a time.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels.
    annotator : str
        Who labels here.
    progress : callable
        Takes the counts whenever they are shown.
    """

    def __init__(
        self, session: Session, annotator: str, progress: Callable[[Counts], None]
    ) -> None:
        self._session, self._annotator, self._progress = session, annotator, progress
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._sentences: list[tuple[int, int]] = []

    def state(self) -> dict[str, Any]:
        """Return the answer to label now, if any, and the counts."""
        with self._lock:
            self._look()
            return self._state()

    def label(self, given: LabelBody) -> dict[str, Any]:
        """Put a label on disk and return what comes next."""

        def put(task: Task) -> None:
            places = Places(task.response)
            if any(not 0 <= a < b <= places.units for a, b in given.spans):
                raise CalibrailError("a marked place lies outside of the answer; mark it again")
            marked = places.from_browser(given.spans)
            spans = [(start, end, task.response[start:end]) for start, end in marked]
            self._session.put(self._annotator, task.order, given.label, spans, note=given.note)

        return self._act(given, put)

    def skip(self, asked: AnswerRequest) -> dict[str, Any]:
        """Leave an answer for the end of the round and return what comes next."""
        return self._act(asked, lambda task: self._session.skip(self._annotator, task.order))

    def _act(self, asked: AnswerRequest, action: Callable[[Task], None]) -> dict[str, Any]:
        """Do something to the answer on screen and return what comes next."""
        with self._lock:
            if (task := self._on_screen(asked)) is None:
                return self._state(stale=True)
            action(task)
            self._look()
            return self._state()

    def undo(self, asked: UndoRequest) -> dict[str, Any]:
        """Take the last label back, or that of an answer, and return its answer, open again."""
        with self._lock:
            undone = self._session.undo(self._annotator, asked.order)
            self._look()
            return self._state(undone=undone is not None, nothing=undone is None)

    def mine(self) -> list[dict[str, Any]]:
        """Return the annotator's own labels that may be changed, the last one first."""
        return [
            {
                **{"order": task.order, "question": task.question, "response": task.response[:200]},
                **{"label": item.label, "note": item.note},
                "marks": Places(task.response).to_browser([span[:2] for span in item.spans]),
            }
            for task, item in self._session.own_labels(self._annotator)
        ]

    def ended(self) -> dict[str, Any]:
        """Return how far the labels are at the end; no further answer is drawn."""
        with self._lock:
            self._task = None
            return {**self._state(), "stopped": True}

    def sentences(self, asked: AnswerRequest) -> dict[str, Any]:
        """Return where the sentences of the answer stand. From here on the label bears a mark."""
        with self._lock:
            if (task := self._on_screen(asked)) is None:
                return {"sentences": [], "stale": True}
            self._session.helped(self._annotator, asked.order)
            self._sentences = sentence_places(task.response)
            return {"sentences": Places(task.response).to_browser(self._sentences)}

    def nearest(self, asked: AskedSentence) -> dict[str, Any]:
        """Return the part of the chunks that shares most words with a sentence, if any does."""
        with self._lock:
            task, quote = self._on_screen(asked), None
            if task is not None and asked.sentence < len(self._sentences):
                start, end = self._sentences[asked.sentence]
                quote = nearest_quote(task.response[start:end], task.contexts)
            if task is None or quote is None:
                return {"quote": None}
            text = Places(task.contexts[quote.chunk])
            ((start, end),) = text.to_browser([(quote.start, quote.end)])
            return {"quote": {"chunk": quote.chunk, "start": start, "end": end}}

    def _on_screen(self, asked: AnswerRequest) -> Task | None:
        """Return an answer that is still this annotator's to label; None where it is not."""
        self._look()
        return self._task if self._task is not None and self._task.order == asked.order else None

    def _look(self) -> None:
        task = self._session.next(self._annotator)
        if task != self._task:
            self._task, self._sentences = task, []

    def _state(
        self, *, undone: bool = False, stale: bool = False, nothing: bool = False
    ) -> dict[str, Any]:
        counts = self._session.counts(self._annotator)
        self._progress(counts)
        return {
            "annotator": self._annotator,
            "unsure": word("label.unsure", self._session.plan.purpose),
            "task": None if self._task is None else _seen(self._task),
            "counts": {name: getattr(counts, name) for name in _COUNTS},
            "undone": undone,
            "nothing_to_undo": nothing,
            "stale": stale,
        }


def _seen(task: Task) -> dict[str, Any]:
    """Return what an annotator sees: an id may name the model, or even the label."""
    seen = {name: value for name, value in asdict(task).items() if name not in ("id", "alias")}
    return {**seen, "why": why_shown(task)}


def application(page: Page, stop: Callable[[], None]) -> FastAPI:
    """Return the application behind the page.

    Parameters
    ----------
    page : Page
        What one annotator sees. Each label is on disk before a request ends.
    stop : callable
        Ends the server once the request that asks for it is answered.
    """
    app = FastAPI(
        docs_url=None, redoc_url=None, openapi_url=None, default_response_class=_AsciiJson
    )
    static = {
        item.name: (item.read_bytes(), _KINDS[item.name.rpartition(".")[2]])
        for item in files("calibrail.ui").joinpath("page").iterdir()
        if item.name.rpartition(".")[2] in _KINDS
    }

    for kind, status, message in (
        (CalibrailError, 409, "{}"),
        (OSError, 507, "nothing was saved: {}"),
        (RequestValidationError, 422, "this request is none of the page's own"),
    ):
        app.add_exception_handler(kind, partial(_refuse, status, message))

    @app.get("/")
    @app.get("/{name}")
    def part(name: str = "index.html") -> Response:
        if name not in static:
            return Response("There is no such file.", 404, media_type="text/plain")
        content, kind = static[name]
        return Response(content, media_type=kind)

    def end() -> dict[str, Any]:
        stop()
        return page.ended()

    for name, show in (("state", page.state), ("mine", page.mine)):
        app.get(f"/api/{name}", response_model=None)(show)
    actions = (page.label, page.skip, page.undo, page.sentences, page.nearest)
    for name, action in ((action.__name__, action) for action in actions):
        app.post(f"/api/{name}", response_model=None)(action)
    app.post("/api/stop", response_model=None)(end)
    return app


def _refuse(status: int, message: str, _: Request, error: Exception) -> Response:
    return _AsciiJson({"message": message.format(error)}, status)


class _AsciiJson(JSONResponse):
    """JSON in ASCII: halves of surrogate pairs, which no UTF-8 holds, come through, too."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


#: Seconds that requests under way get when the server ends.
_LAST_WORDS = 2


def serve(
    session: Session,
    annotator: str,
    tell: Callable[[str], None],
    progress: Callable[[Counts], None],
    *,
    browser: bool = True,
) -> None:
    """Serve the page of one annotator until it is stopped there, or by Ctrl-C.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels.
    annotator : str
        Who labels here.
    tell : callable
        Takes the address, once it answers.
    progress : callable
        Takes the counts after each label.
    browser : bool
        Open it in the browser, too.
    """
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener,
        TemporaryDirectory(ignore_cleanup_errors=True) as private,
    ):
        listener.bind(("127.0.0.1", 0))
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        server: uvicorn.Server

        def stop() -> None:
            server.should_exit = True

        config = uvicorn.Config(
            Access(application(Page(session, annotator, progress), stop), token, port),
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_LAST_WORDS,
            lifespan="off",
            ws="none",
        )
        server = uvicorn.Server(config)
        listener.listen()
        address = f"http://127.0.0.1:{port}/?token={token}"
        tell(address)
        # A browser without a window would take over the terminal.
        screens = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
        screen = sys.platform in ("win32", "darwin") or any(map(os.environ.get, screens))
        if browser and screen:
            # Everybody on this machine sees a command line, nobody else this folder.
            way = Path(private) / "label.html"
            way.touch(0o600)
            way.write_text(f'<meta http-equiv="refresh" content="0;url={address}">')
            # Some browsers answer only when they are closed.
            threading.Thread(target=webbrowser.open, args=(way.as_uri(),), daemon=True).start()
        # uvicorn ends in good order first, and then raises Ctrl-C again.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
