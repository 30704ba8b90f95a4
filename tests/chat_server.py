"""A chat and embedding service that answers, and fails, as tests tell it to.

``ChatServer`` speaks the HTTP interface of OpenAI on a free port of 127.0.0.1. What it answers is a
function of the request (``says``, ``verdicts``, ``sampled``), and how it fails is a function of the
request's key and of how often that key came (``script``, ``scattered``).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import numpy as np

#: Numbers of an embedding unless the request asks for fewer.
WIDTH = 256
#: The most alternatives that one position may list.
MOST_ALTERNATIVES = 20
#: What the service reports for a token that it never says.
NEVER = -9999.0

#: Tokens that a decision route says it took.
DECISION_USAGE = {"input_tokens": 45, "output_tokens": 0, "total_tokens": 45}

HALLUCINATION = ("hall", "ucination")
FAITHFUL = ("faith", "ful")

#: Faults that a request for embeddings may meet; one for chat may meet these and ``CHAT_FAULTS``.
#: "slow" sends the headers, one byte and then nothing for a minute: a time-out between bytes ends
#: it. "drip" sends a byte every 50 ms for half a minute or more: only a time-out over all does.
#: "echoed" answers well and sends the request's own name back, "swapped" that of another request.
FAULTS = (
    "429",
    "429_quota",
    "500",
    "503",
    "401",
    "404",
    "400",
    "slow",
    "drip",
    "cut",
    "refused_line",
    "invalid_json",
    "html",
    "empty_choices",
    "echoed",
    "swapped",
)
CHAT_FAULTS = (
    "no_message",
    "refusal",
    "filtered",
    "length",
    "wrong_logprobs",
    "nan_logprobs",
    "other_tokens",
    "no_logprobs",
)

_Faults = Callable[[str, int], str | None]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived; ``fault`` is what it met, ``at`` a monotonic time."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    key: str
    attempt: int
    at: float
    fault: str | None


@dataclass(frozen=True)
class Reply:
    """One choice of an answer.

    ``top`` holds for every output token the log-probabilities of the tokens that might have stood
    there, the one that was said first; None makes them up from the text. Counts of tokens that are
    None are counted by the server.
    """

    text: str
    top: list[dict[str, float]] | None = None
    refusal: str | None = None
    finish: str = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def says(text: str) -> Callable[[dict[str, Any]], Reply]:
    """Answer every request with this text."""
    return lambda body: Reply(text)


def verdicts(p_of_messages: Callable[[str], float]) -> Callable[[dict[str, Any]], Reply]:
    """Answer with the more likely verdict, and with log-probabilities that agree with it.

    ``p_of_messages`` maps the contents of all messages, joined by newlines, to the probability of
    "hallucination". The two verdicts share 0.97 of the first token's mass in that proportion, their
    capitalised forms another 0.01 in the same one, tokens that begin no verdict the rest.
    """

    def answer(body: dict[str, Any]) -> Reply:
        p = p_of_messages(text_of(body["messages"]))
        return _verdict(p, p >= 0.5)

    return answer


def sampled(p: float | Callable[[str], float]) -> Callable[[dict[str, Any]], Reply]:
    """Answer with a verdict drawn with probability p of "hallucination".

    The draw hashes messages, seed and the choice's number: the same request, the same verdict.
    """

    def answer(body: dict[str, Any]) -> Reply:
        share = p if isinstance(p, int | float) else p(text_of(body["messages"]))
        drawn = _uniform(key_of(body), body.get("choice", 0))
        return _verdict(share, drawn < share)

    return answer


def graded(p_of_messages: Callable[[str], float]) -> Callable[[dict[str, Any]], Reply]:
    """Answer with the probability itself, as JSON."""
    return lambda body: Reply(
        json.dumps({"hallucination": p_of_messages(text_of(body["messages"]))})
    )


def in_mode(mode: str, p: Callable[[str], float]) -> Callable[[dict[str, Any]], Reply]:
    """Answer as a judge of this mode expects."""
    return {"votes": sampled, "graded": graded}.get(mode, verdicts)(p)


def predicate(p_of_state: Callable[[str], float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Answer the questions of ``/decisions`` with the probability of what is shown."""

    def answers(body: dict[str, Any]) -> dict[str, Any]:
        p = p_of_state(body["input"])
        kinds = {"type": "predicate", "probability": p}
        found = [{"name": asked.get("name"), **kinds} for asked in body["questions"]]
        return {"model": f"{body['model']}-1", "answers": found, "usage": DECISION_USAGE}

    return answers


def noul(p_of_state: Callable[[str], float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Answer the questions of ``/systemone`` with the probability of what is shown."""

    def answers(body: dict[str, Any]) -> dict[str, Any]:
        found = {
            name: {"type": "noul", "noul": p_of_state(body["state"])} for name in body["questions"]
        }
        return {"model": f"{body['model']}-1", "answers": found, "usage": DECISION_USAGE}

    return answers


def script(*names: str | None) -> _Faults:
    """Give the n-th attempt of every key the n-th of these faults, later ones none."""
    return lambda key, attempt: names[attempt] if attempt < len(names) else None


_FAITHFULLY, _HEALTHY = says("faithful"), script()


def always(name: str) -> _Faults:
    """Give every attempt this fault."""
    return lambda key, attempt: name


def scattered(rate: float, *names: str, seed: int = 0) -> _Faults:
    """Give each attempt one of these faults, or with probability 1 - ``rate`` none: a hash."""

    def fault(key: str, attempt: int) -> str | None:
        if _uniform(key, attempt, seed, "whether") >= rate:
            return None
        return names[int(_uniform(key, attempt, seed, "which") * len(names))]

    return fault


def key_of(body: Mapping[str, Any]) -> str:
    """Return what makes two requests the same: messages (or inputs) and seed."""
    what = body["messages"] if "messages" in body else body.get("input", body.get("state"))
    stated = json.dumps([what, body.get("seed")], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(stated.encode()).hexdigest()


def text_of(messages: list[dict[str, Any]]) -> str:
    """Return the contents of all messages, joined by newlines."""
    texts = []
    for message in messages:
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [part["text"] for part in content]
        texts += parts
    return "\n".join(texts)


class RefusedError(Exception):
    """A request that a server answers with an error in OpenAI's form."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class LocalServer:
    """An HTTP/1.1 server on a free port of 127.0.0.1, open within a ``with``.

    A client may come and go as it likes; anything else that goes wrong in a handler is answered
    with a 500 and raised again where the ``with`` ends.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.max_in_flight = 0
        self._in_flight = 0
        self._connections: set[socket.socket] = set()
        self._problems: list[Exception] = []

    def handle(self, line: Line) -> None:
        """Answer one request, or raise ``RefusedError``."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self.lock:
            # Or threads would go on to answer on connections that a client keeps alive.
            for connection in self._connections:
                _hang_up(connection)
        if self._problems and error is None:
            raise self._problems[0]

    def _enters(self, change: int) -> None:
        with self.lock:
            self._in_flight += change
            self.max_in_flight = max(self.max_in_flight, self._in_flight)


class Line(BaseHTTPRequestHandler):
    """One connection to a ``LocalServer``, with the ways to answer on it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    raw: bytes
    _counted: bool

    def do_POST(self) -> None:
        owner = self.server.owner
        self.raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._counted = True
        owner._enters(1)
        try:
            owner.handle(self)
        except RefusedError as refused:
            self.send(refused.status, refused.body, headers=refused.headers)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as problem:
            with owner.lock:
                owner._problems.append(problem)
            self.send(500, {"error": {"message": repr(problem), "type": "server_error"}})
        finally:
            self._leaves()

    do_GET = do_POST  # noqa: N815

    def json(self) -> dict[str, Any]:
        """Return the body of the request."""
        try:
            body = json.loads(self.raw)
        except ValueError:
            raise RefusedError(400, "We could not parse the JSON body of your request.") from None
        if not isinstance(body, dict):
            raise RefusedError(400, "The body of a request is a JSON object.")
        return body

    def send(
        self,
        status: int,
        body: Any,
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with bytes as they are, or with JSON."""
        content = self._begin(status, body, kind, headers)
        self.wfile.write(content)

    def send_part(self, body: Any) -> None:
        """Announce the whole answer, send half of it and hang up."""
        content = self._begin(200, body, "application/json", None)
        self.wfile.write(content[: len(content) // 2])
        self.hang_up()

    def send_slowly(self, body: Any, pause: float) -> None:
        """Send one byte, wait, send the next, until the client leaves."""
        content = self._begin(200, body, "application/json", None)
        for place in range(len(content)):
            self.wfile.write(content[place : place + 1])
            if not self.wait(pause):
                self.hang_up()
                return

    def hang_up(self) -> None:
        """End the connection."""
        self._leaves()
        self.close_connection = True
        _hang_up(self.connection)

    def wait(self, seconds: float) -> bool:
        """Wait; return early and False where the client has left or the server closes."""
        until = time.monotonic() + seconds
        while not self.server.owner.closing.is_set():
            left = until - time.monotonic()
            if left <= 0:
                return True
            if select.select([self.connection], [], [], min(left, 0.1))[0]:
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        return False
                except ConnectionError:
                    return False
                # It speaks before it was answered: nothing more is to be learnt from select.
                time.sleep(min(max(until - time.monotonic(), 0.0), 0.1))
        return False

    def setup(self) -> None:
        super().setup()
        with self.server.owner.lock:
            self.server.owner._connections.add(self.connection)

    def finish(self) -> None:
        with self.server.owner.lock:
            self.server.owner._connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _begin(self, status: int, body: Any, kind: str, headers: Mapping[str, str] | None) -> bytes:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        # Before the first byte: whoever has read the answer may at once send the next request.
        self._leaves()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        return content

    def _leaves(self) -> None:
        if self._counted:
            self._counted = False
            self.server.owner._enters(-1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, owner: LocalServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), Line)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: handlers report what is not a client's leaving."""


class ChatServer(LocalServer):
    """The service.

    Parameters
    ----------
    answer : callable
        From the body of a request to the ``Reply``. With ``n`` choices it is called for each, from
        the second on with the choice's number as ``body["choice"]``.
    faults : callable
        From a request's key and the number of earlier requests of that key to one of ``FAULTS`` or
        ``CHAT_FAULTS``, or None. Called under the server's lock.
    latency : float
        Seconds before any answer or fault.
    retry_after : float
        Seconds that a "429" states.
    served : str, optional
        Name of the model that it reports; by default the one asked for.
    api_key : str, optional
        Any other bearer is refused with 401.
    logprobs : bool
        False leaves the field ``logprobs`` out of every choice.
    reject : tuple of str
        Parameters that are refused with 400.
    context : int, optional
        Characters over all messages beyond which a request is refused with 400.
    routes : mapping of str to callable, optional
        Further routes, ``decisions`` or ``systemone``: from the body of a request to the answer's.

    Attributes
    ----------
    seen : list of Seen
        Requests in order of arrival.
    max_in_flight : int
        Largest number of requests that had arrived and had not had the first byte of their answer.
    """

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Reply] = _FAITHFULLY,
        faults: _Faults = _HEALTHY,
        latency: float = 0.0,
        retry_after: float = 0.05,
        served: str | None = None,
        api_key: str | None = None,
        logprobs: bool = True,
        reject: tuple[str, ...] = (),
        context: int | None = None,
        routes: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
    ) -> None:
        super().__init__()
        self.routes = {f"/v1/{name}": answers for name, answers in (routes or {}).items()}
        self.answer = answer
        self.faults = faults
        self.latency = latency
        self.retry_after = retry_after
        self.served = served
        self.api_key = api_key
        self.logprobs = logprobs
        self.reject = reject
        self.context = context
        self.seen: list[Seen] = []
        self._numbers = itertools.count(1)
        self._attempts: Counter[str] = Counter()

    def requests_per_key(self) -> Counter[str]:
        """Return how many requests of each key arrived."""
        with self.lock:
            return Counter(seen.key for seen in self.seen if seen.body)

    def reset(self) -> None:
        """Forget every request."""
        with self.lock:
            self.seen.clear()
            self._attempts.clear()
            self.max_in_flight = self._in_flight

    def handle(self, line: Line) -> None:
        path = line.path.partition("?")[0]
        body = line.json() if line.command == "POST" else {}
        fault = self._note(path, body, line)
        if self.latency and not line.wait(self.latency):
            line.hang_up()
            return
        if fault is not None and self._fails(line, fault):
            return
        bearer = line.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and bearer != self.api_key:
            raise _status_fault("401")
        if (line.command, path) == ("GET", "/v1/models"):
            name = self.served or "judge"
            model = {"id": name, "object": "model", "created": 1700000000, "owned_by": "tests"}
            line.send(200, {"object": "list", "data": [model]})
            return
        if path in self.routes:
            line.send(200, self.routes[path](body))
            return
        if line.command != "POST" or path not in ("/v1/chat/completions", "/v1/embeddings"):
            raise RefusedError(404, f"Invalid URL ({line.command} {path})")
        if not isinstance(body.get("model"), str):
            raise RefusedError(400, "you must provide a model parameter", param="model")
        for name in self.reject:
            if body.get(name) is not None:
                raise RefusedError(
                    400,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                    param=name,
                    code="unsupported_parameter",
                )
        answer: Any = (
            self._chat(body, fault) if path.endswith("completions") else self._embed(body, fault)
        )
        if fault == "slow":
            line.send_slowly(answer, 60.0)
        elif fault == "drip":
            line.send_slowly(answer, 0.05)
        elif fault in ("echoed", "swapped"):
            name = line.headers["X-Client-Request-Id"] if fault == "echoed" else "another"
            line.send(200, answer, headers={"x-client-request-id": name})
        elif fault == "cut":
            line.send_part(answer)
        elif fault == "invalid_json":
            line.send(200, json.dumps(answer).encode()[:-10])
        else:
            line.send(200, answer, headers={"x-request-id": f"req_{answer.get('id', 'tests')}"})

    def _note(self, path: str, body: dict[str, Any], line: Line) -> str | None:
        headers = {name.lower(): value for name, value in line.headers.items()}
        with self.lock:
            key = key_of(body) if body else ""
            attempt = self._attempts[key]
            self._attempts[key] += 1
            fault = self.faults(key, attempt) if body else None
            self.seen.append(Seen(path, body, headers, key, attempt, time.monotonic(), fault))
        known = FAULTS if path.endswith("embeddings") else FAULTS + CHAT_FAULTS
        if fault is not None and fault not in known:
            raise ValueError(f"{path} has no fault {fault!r}; it has {', '.join(known)}")
        return fault

    def _fails(self, line: Line, fault: str) -> bool:
        if fault == "refused_line":
            line.hang_up()
        elif fault == "html":
            page = b"<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>"
            line.send(200, page, kind="text/html; charset=utf-8")
        elif fault[0].isdigit():
            raise _status_fault(fault, self.retry_after)
        else:
            return False
        return True

    def _chat(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RefusedError(400, "Missing required parameter: 'messages'.", param="messages")
        if body.get("stream"):
            raise RefusedError(400, "This server does not stream.", param="stream")
        alternatives = wanted_alternatives(body)
        length = len(text_of(messages))
        if self.context is not None and length > self.context:
            raise RefusedError(
                400,
                f"This model's maximum context length is {self.context} characters. However, your "
                f"messages resulted in {length} characters.",
                param="messages",
                code="context_length_exceeded",
            )
        n = body.get("n") or 1
        replies = [self.answer({**body, "choice": i} if i else body) for i in range(n)]
        choices = [
            self._choice(index, reply, alternatives, fault) for index, reply in enumerate(replies)
        ]
        stated = replies[0].prompt_tokens
        prompt = max(1, length // 4) if stated is None else stated
        said = sum(
            len(_pieces(reply)) if reply.completion_tokens is None else reply.completion_tokens
            for reply in replies
        )
        return completion(
            f"chatcmpl-{next(self._numbers)}",
            self.served or body["model"],
            [] if fault == "empty_choices" else choices,
            prompt,
            said,
        )

    def _choice(
        self, index: int, reply: Reply, alternatives: int | None, fault: str | None
    ) -> dict[str, Any]:
        content: str | None = reply.text if reply.refusal is None else None
        refusal, finish, top = reply.refusal, reply.finish, _pieces(reply)
        if fault == "no_message":
            content = None
        elif fault == "refusal":
            content, refusal = None, "I'm sorry, but I can't help with that."
        elif fault in ("filtered", "length"):
            content, finish = "", "content_filter" if fault == "filtered" else "length"
        elif fault == "other_tokens":
            top = [{"Par": -0.2, "Lon": -2.0}, {"is": -0.1, "don": -2.5}, {".": -0.05, "!": -3.5}]
        entries = [] if not content else [logprob_entry(one, alternatives or 0) for one in top]
        if fault == "wrong_logprobs":
            _overwrite(entries, [0.7])
        elif fault == "nan_logprobs":
            _overwrite(entries, [math.nan, None])
        choice = {
            "index": index,
            "message": {"role": "assistant", "content": content, "refusal": refusal},
            "logprobs": {"content": entries, "refusal": None},
            "finish_reason": finish,
        }
        if alternatives is None or fault == "no_logprobs":
            choice["logprobs"] = None
        if not self.logprobs:
            del choice["logprobs"]
        return choice

    def _embed(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise RefusedError(400, "'input' is a string or a list of strings.", param="input")
        if not texts or not all(texts):
            raise RefusedError(400, "'input' cannot be an empty string.", param="input")
        width = body.get("dimensions") or WIDTH
        if not 1 <= width <= WIDTH:
            raise RefusedError(400, f"'dimensions' lies in 1 to {WIDTH}.", param="dimensions")
        form = body.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise RefusedError(
                400, f"Invalid 'encoding_format': {form!r}.", param="encoding_format"
            )
        data = []
        for index, text in enumerate(texts):
            vector = embed(text, width)
            stated: Any = vector.tolist()
            if form == "base64":
                stated = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": stated})
        used = sum(max(1, len(text) // 4) for text in texts)
        return {
            "object": "list",
            "data": [] if fault == "empty_choices" else data,
            "model": self.served or body["model"],
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }


def wanted_alternatives(body: Mapping[str, Any]) -> int | None:
    """Return how many alternatives a chat request wants listed; None for no log-probabilities."""
    stated = body.get("top_logprobs")
    if stated is not None and not body.get("logprobs"):
        raise RefusedError(400, "'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    if stated is not None and not 0 <= stated <= MOST_ALTERNATIVES:
        raise RefusedError(
            400,
            f"'top_logprobs' lies in 0 to {MOST_ALTERNATIVES}; got {stated}.",
            param="top_logprobs",
        )
    return (stated or 0) if body.get("logprobs") else None


def logprob_entry(top: Mapping[str, float], alternatives: int) -> dict[str, Any]:
    """Return one position of ``logprobs.content``: the token said stands first in ``top``."""
    token, chosen = next(iter(top.items()))
    ranked = sorted(top.items(), key=lambda item: -item[1])[:alternatives]
    return {**_token(token, chosen), "top_logprobs": [_token(*item) for item in ranked]}


def token_entry(token: str, logprob: float, raw: bytes) -> dict[str, Any]:
    """Return one token as ``logprobs.content`` and ``top_logprobs`` list it."""
    return {"token": token, "logprob": logprob, "bytes": list(raw)}


def completion(
    name: str, model: str, choices: list[dict[str, Any]], prompt_tokens: int, completion_tokens: int
) -> dict[str, Any]:
    """Return the body of a chat completion."""
    return {
        "id": name,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": "fp_tests",
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def embed(text: str, width: int = WIDTH) -> np.ndarray:
    """Return the sum of the directions of a text's words, at unit length: shape (width,)."""
    words = re.findall(r"\w+", text.lower()) or [text]
    total = np.sum([_direction(word) for word in words], axis=0)[:width]
    vector: np.ndarray = (total / np.linalg.norm(total)).astype(np.float32)
    return vector


@lru_cache(maxsize=4096)
def _direction(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(WIDTH)


def _verdict(p: float, hallucination: bool) -> Reply:
    """Return a verdict in two tokens and what else could have stood at each."""
    first = {"hall": 0.97 * p, "faith": 0.97 * (1 - p), "Hall": 0.01 * p, "Faith": 0.01 * (1 - p)}
    first |= {"The": 0.008, "Based": 0.005, "**": 0.003, "I": 0.002}
    chosen = HALLUCINATION if hallucination else FAITHFUL
    first = {chosen[0]: first[chosen[0]], **first}
    second = {chosen[1]: 0.998, chosen[1][0]: 0.001, ".": 0.0005}
    top = [{token: _log(mass) for token, mass in one.items()} for one in (first, second)]
    return Reply("".join(chosen), top)


def _pieces(reply: Reply) -> list[dict[str, float]]:
    if reply.top is not None:
        if (spelt := "".join(next(iter(one)) for one in reply.top)) != reply.text:
            raise ValueError(f"the tokens of the reply {reply.text!r} spell {spelt!r}")
        return reply.top
    words = re.findall(r"\s*\S+|\s+$", reply.text)
    return [{word: -0.02, " the": -4.5, ",": -5.0, "\n": -6.0} for word in words]


def _token(token: str, logprob: float) -> dict[str, Any]:
    return token_entry(token, logprob, token.encode())


def _overwrite(entries: list[dict[str, Any]], values: list[float | None]) -> None:
    for entry in entries:
        for place, one in enumerate([entry, *entry["top_logprobs"]]):
            one["logprob"] = values[place % len(values)]


def _status_fault(name: str, retry_after: float = 0.0) -> RefusedError:
    if name == "429":
        stated = {"Retry-After": f"{retry_after:g}"}
        return RefusedError(
            429,
            f"Rate limit reached. Please try again in {retry_after:g}s.",
            kind="requests",
            code="rate_limit_exceeded",
            headers=stated,
        )
    if name == "429_quota":
        text = "You exceeded your current quota, please check your plan and billing details."
        return RefusedError(429, text, kind="insufficient_quota", code="insufficient_quota")
    if name == "401":
        return RefusedError(401, "Incorrect API key provided.", code="invalid_api_key")
    if name == "404":
        text = "The model does not exist or you do not have access to it."
        return RefusedError(404, text, param="model", code="model_not_found")
    if name == "400":
        return RefusedError(400, "The request is malformed.")
    text = "The server had an error." if name == "500" else "The server is overloaded."
    return RefusedError(int(name), text, kind="server_error")


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else NEVER


def _uniform(*parts: object) -> float:
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The other side was first.
        return
