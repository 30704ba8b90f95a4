"""What does the page ask, and what is it told of an answer?

Nothing but what an annotator may see leaves this file: no score, no verdict, nobody else's label.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from calibrail.errors import CalibrailError
from calibrail.labelling.session import Session
from calibrail.labelling.tasks import UNSURE, Counts, Task
from calibrail.ui.evidence import nearest_quote, sentence_places
from calibrail.ui.places import Places

#: What an annotator may know of how far the labels are: not what they say.
_COUNTS: Final = (
    *("by_you", "labelled", "skipped", "waiting", "holding", "disagreements"),
    *("needed", "found", "to_expect", "decided"),
)

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asked(BaseModel):
    """A request about the answer on screen, by its number in the order of drawing."""

    model_config = ConfigDict(extra="forbid")
    order: StrictInt


class Given(Asked):
    """A label: 0 faithful, 1 hallucinated, None unsure, and the places that show it."""

    label: Annotated[StrictInt, Field(ge=0, le=1)] | None
    spans: list[Annotated[list[StrictInt], Field(min_length=2, max_length=2)]] = []


class AskedSentence(Asked):
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
        self._places: Places | None = None
        self._sentences: list[tuple[int, int]] | None = None

    def state(self) -> dict[str, Any]:
        """Return the answer to label now, if any, and the counts."""
        with self._lock:
            self._look()
            return self._state()

    def label(self, given: Given) -> dict[str, Any]:
        """Put a label on disk and return what comes next."""
        with self._lock:
            if not self._on_screen(given):
                return self._state(stale=True)
            assert self._task is not None and self._places is not None
            if any(not 0 <= a < b <= self._places.units for a, b in given.spans):
                raise CalibrailError("a marked place lies outside of the answer; mark it again")
            text = self._task.response
            places = self._places.from_browser(given.spans)
            spans = [(start, end, text[start:end]) for start, end in places]
            self._session.put(self._annotator, given.order, given.label, spans)
            self._look()
            return self._state()

    def skip(self, asked: Asked) -> dict[str, Any]:
        """Leave an answer for the end of the round and return what comes next."""
        with self._lock:
            if not self._on_screen(asked):
                return self._state(stale=True)
            self._session.skip(self._annotator, asked.order)
            self._look()
            return self._state()

    def undo(self) -> dict[str, Any]:
        """Take the last label back and return its answer, open again."""
        with self._lock:
            undone = self._session.undo(self._annotator)
            self._look()
            return self._state(undone=undone is not None, nothing=undone is None)

    def ended(self) -> dict[str, Any]:
        """Return how far the labels are at the end; no further answer is drawn."""
        with self._lock:
            self._task = None
            return {**self._state(), "stopped": True}

    def sentences(self, asked: Asked) -> dict[str, Any]:
        """Return where the sentences of the answer stand. From here on the label bears a mark."""
        with self._lock:
            if not self._on_screen(asked):
                return {"sentences": [], "stale": True}
            assert self._task is not None and self._places is not None
            self._session.helped(self._annotator, asked.order)
            self._sentences = sentence_places(self._task.response)
            return {"sentences": self._places.to_browser(self._sentences)}

    def nearest(self, asked: AskedSentence) -> dict[str, Any]:
        """Return the part of the chunks that shares most words with a sentence, if any does."""
        with self._lock:
            known = self._on_screen(asked) and self._sentences is not None
            if not known or asked.sentence >= len(self._sentences or ()):
                return {"quote": None}
            assert self._task is not None and self._sentences is not None
            start, end = self._sentences[asked.sentence]
            quote = nearest_quote(self._task.response[start:end], self._task.contexts)
            if quote is None:
                return {"quote": None}
            text = Places(self._task.contexts[quote.chunk])
            ((start, end),) = text.to_browser([(quote.start, quote.end)])
            return {"quote": {"chunk": quote.chunk, "start": start, "end": end}}

    def _on_screen(self, asked: Asked) -> bool:
        """Return whether an answer is still this annotator's to label."""
        self._look()
        return self._task is not None and self._task.order == asked.order

    def _look(self) -> None:
        task = self._session.next(self._annotator)
        if task != self._task:
            self._task, self._sentences = task, None
            self._places = None if task is None else Places(task.response)

    def _state(
        self, *, undone: bool = False, stale: bool = False, nothing: bool = False
    ) -> dict[str, Any]:
        counts = self._session.counts(self._annotator)
        self._progress(counts)
        return {
            "annotator": self._annotator,
            "unsure": UNSURE[self._session.plan.purpose],
            "task": None if self._task is None else _seen(self._task),
            "counts": {name: getattr(counts, name) for name in _COUNTS},
            "undone": undone,
            "nothing_to_undo": nothing,
            "stale": stale,
        }


def _seen(task: Task) -> dict[str, Any]:
    """Return what an annotator sees: an id may name the model, or even the label."""
    return {name: value for name, value in asdict(task).items() if name not in ("id", "alias")}


def application(page: Page, stop: Callable[[], None]) -> FastAPI:
    """Return the application behind the page.

    Parameters
    ----------
    page : Page
        What one annotator sees. Each label is on disk before a request ends.
    stop : callable
        Ends the server once the request that asks for it is answered.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    static = {
        item.name: (item.read_bytes(), _KINDS[item.name.rpartition(".")[2]])
        for item in files("calibrail.ui").joinpath("page").iterdir()
        if item.name.rpartition(".")[2] in _KINDS
    }

    @app.exception_handler(CalibrailError)
    def refused(_: Request, error: Exception) -> Response:
        return _said({"message": str(error)}, 409)

    @app.exception_handler(OSError)
    def unwritten(_: Request, error: Exception) -> Response:
        return _said({"message": f"nothing was saved: {error}"}, 507)

    @app.exception_handler(RequestValidationError)
    def misread(_: Request, error: Exception) -> Response:
        return _said({"message": "this request is none of the page's own"}, 422)

    @app.get("/")
    def start() -> Response:
        content, kind = static["index.html"]
        return Response(content, media_type=kind)

    @app.get("/{name}")
    def part(name: str) -> Response:
        if name not in static:
            return Response("There is no such file.", 404, media_type="text/plain")
        content, kind = static[name]
        return Response(content, media_type=kind)

    @app.get("/api/state")
    def state() -> Response:
        return _said(page.state())

    @app.post("/api/label")
    def label(given: Given) -> Response:
        return _said(page.label(given))

    @app.post("/api/skip")
    def skip(asked: Asked) -> Response:
        return _said(page.skip(asked))

    @app.post("/api/undo")
    def undo() -> Response:
        return _said(page.undo())

    @app.post("/api/sentences")
    def sentences(asked: Asked) -> Response:
        return _said(page.sentences(asked))

    @app.post("/api/nearest")
    def nearest(asked: AskedSentence) -> Response:
        return _said(page.nearest(asked))

    @app.post("/api/stop")
    def end() -> Response:
        stop()
        return _said(page.ended())

    return app


def _said(content: Any, status: int = 200) -> Response:
    """Return JSON in ASCII: halves of surrogate pairs, which no UTF-8 holds, come through too."""
    body = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")
