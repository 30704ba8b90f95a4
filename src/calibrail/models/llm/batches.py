"""Questions asked through a provider's batch API: submitted, picked up again, collected."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

from calibrail.atomic_files import folder_lock, write_atomically
from calibrail.errors import CalibrailError, ModelError, error_text, errors_as
from calibrail.models.llm import transport
from calibrail.models.llm.chat import ChatRequest, LanguageModel, read_answer
from calibrail.models.llm.transport import OUTPUT_LIMIT, AgainError, CallLimits, RefusedError

#: Seconds between two looks at a batch: the first, and the longest.
FIRST_LOOK: Final = 2.0
LONGEST_LOOK: Final = 60.0
#: Seconds after which a batch that a provider was asked for stands in its list.
SETTLED: Final = 10.0
#: Batches that a question is asked in at most; then it is asked by itself.
ROUNDS: Final = 3
#: A batch of so many questions that are all refused ends the run.
_ALL_FAIL: Final = 10
#: For how long providers keep what a batch answered, and how far their clocks may be off.
_KEPT, _CLOCKS = 30.0 * 86_400.0, 600.0
#: Bytes that are read at most: of a batch's state or a page of the list, of a file of answers, and
#: of one of its lines; and pages of the list.
MOST_JSON, MOST_FILE, MOST_LINE, MOST_PAGES = 2**22, 2**32, 2**26, 100
#: Bytes, sent or read, that prolong a call by a second.
SLOWEST: Final = 2**16
#: What is tried again: what an answer of another shape than its provider's raises, too.
_AGAIN: Final = (AgainError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

_CHAT: Final = "/v1/chat/completions"
_LEAVE_OUT: Final = "leave --batch out (CallLimits(batch=False)) and ask directly"
_ANEW: Final = "the same command picks it up, and pays nothing twice"

Made = TypeVar("Made")
Say = Callable[[str], None]
#: Questions without an answer: why, or None where another batch may answer it.
Left = dict[str, str | None]
#: A question's digest, a chat completion or None, HTTP's status (0 where it was not asked in time),
#: and what the provider says of it.
BatchResult = tuple[str, Any, int, Any]


@dataclass(slots=True)
class Batch:
    """What is known of one batch; it holds digests of the questions, and no text of them.

    Attributes
    ----------
    name : str
        What calibrail calls it.
    endpoint, model : str
        Who answers.
    characters : dict of str to int
        Those of each question, by the digest under which its answer is kept.
    created : float
        Seconds since 1970.
    file : str or None
        The provider's id of the uploaded questions.
    sent : float or None
        When the provider was first asked to begin; None where it never was.
    id : str or None
        The provider's id of the batch; None where it is not known.
    others : list of str
        Ids of batches that looked like this one and were not.
    """

    name: str
    endpoint: str
    model: str
    characters: dict[str, int]
    created: float
    file: str | None = None
    sent: float | None = None
    id: str | None = None
    others: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"batch {self.id} of {time.ctime(self.created)}"


class BatchFolder:
    """The batches that are under way, a file each, in a folder beside the answer cache.

    Parameters
    ----------
    cache : Path
        The file of the cache.
    """

    def __init__(self, cache: Path) -> None:
        self._folder = cache.with_name(f"{cache.name}.batches")

    @contextmanager
    def locked(self) -> Iterator[list[Batch]]:
        """Let one process at a time submit; yield the batches that are under way."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(self._folder):
            yield self.known()

    def known(self) -> list[Batch]:
        """Return the batches that are under way, by their names."""
        batches = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                batches.append(Batch(**json.loads(path.read_bytes())))
            except FileNotFoundError:
                # Another process has collected it meanwhile.
                continue
            except (ValueError, TypeError) as error:
                raise ModelError.on("batch_file_damaged", path=path, error=error) from None
        return batches

    def save(self, batch: Batch) -> None:
        """Write what is known of a batch."""
        content = json.dumps(asdict(batch)).encode()
        write_atomically(self._folder / f"{batch.name}.json", content, durable=True)

    def remove(self, batch: Batch) -> None:
        """Forget a batch."""
        (self._folder / f"{batch.name}.json").unlink(missing_ok=True)


class BatchState(NamedTuple):
    """How far a batch is.

    Attributes
    ----------
    ended : bool
        Whether nothing more will be answered.
    n_done : int
        Questions that are done.
    files : tuple of str
        Where results stand.
    cancelled : bool
        Whether somebody ended it.
    refused : str
        Why nothing was asked at all; empty where it was.
    """

    ended: bool
    n_done: int
    files: tuple[str, ...] = ()
    cancelled: bool = False
    refused: str = ""


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _meaning(
    address: str, status: int, said: Any, headers: Mapping[str, str] | None = None
) -> Exception:
    """Return what it means that a provider answers with an error, or with a text in its place."""
    error = _fields(said)
    code = transport.code_in(error.get("code"), error.get("type"))
    message = str(error.get("message") or "")
    text = str(error.get("param") or message), message
    no_key = dict.fromkeys((401, 403), "is the key in the environment accepted?")
    return transport.explained(address, status, code, text, headers or {}, no_key)


class OpenAIBatches:
    """Files of questions at ``/files``, batches of them at ``/batches``.

    Requests go over the HTTP client of the openai SDK, to this address and no other.

    Parameters
    ----------
    endpoint : str
        As ``resolve_endpoint`` returns it.
    limits : CallLimits
        How long a request may take, and how often it is sent.
    """

    #: Questions, and bytes, of a batch at most.
    most, most_bytes = 50_000, 200_000_000
    path, after = "/batches", "after"

    def __init__(self, endpoint: str, limits: CallLimits) -> None:
        with errors_as(ModelError, ImportError, "batches_extra_missing"):
            from openai import DefaultHttpxClient
        self._address, headers = self._access(endpoint)
        self._key = next(iter(headers.values()), "").removeprefix("Bearer ")
        self._limits, self._broken = limits, transport.connection_errors()
        options: Any = {"timeout": limits.timeout, "headers": headers}
        options["event_hooks"] = transport.HOOKS
        self._client: Any = DefaultHttpxClient(follow_redirects=False, **options)

    def _access(self, endpoint: str) -> tuple[str, dict[str, str]]:
        """Return the address, and the headers with the key."""
        address = endpoint
        if endpoint == "openai":
            # Where the library of providers sends what is asked directly, and with the same key.
            named = map(os.environ.get, (transport.ADDRESS_VARIABLE, "OPENAI_API_BASE"))
            address = transport.resolve_endpoint(next(filter(None, named), transport.OPENAI))
        key = transport.key_for(transport.OPENAI if endpoint == "openai" else address)
        return address, {} if key is None else {"Authorization": f"Bearer {key}"}

    def send(self, method: str, path: str, **content: Any) -> Any:
        """Send one request and return the JSON of the answer.

        Raises
        ------
        AgainError
            If it may be sent again.
        RefusedError
            If it is refused.
        ModelError
            If no request can succeed.
        """
        return self._value(b"".join(self._parts(method, path, content, MOST_JSON)))

    def lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON values of a file of lines: at most as many as a batch has questions."""
        rest, n = bytearray(), 0
        for part in chain(self._parts("GET", path, {}, MOST_FILE), (b"\n",)):
            rest += part
            *whole, rest = rest.split(b"\n") if b"\n" in part else [rest]
            self._at_most(max(map(len, [*whole, rest])), MOST_LINE, "bytes of one line")
            for line in filter(bytearray.strip, whole):
                self._at_most(n := n + 1, self.most, "lines")
                yield self._value(line)

    def _at_most(self, n: int, most: int, what: str) -> None:
        if n > most:
            raise ModelError(f"{self._address} sent more than {most:,} {what}; {_LEAVE_OUT}")

    def _value(self, raw: bytes | bytearray) -> Any:
        """Return the JSON value of an answer, in which no key stands."""
        try:
            return transport._without_key(json.loads(raw), self._key)
        except (ValueError, RecursionError):
            raise AgainError("the endpoint answered with broken JSON") from None

    def _parts(self, method: str, path: str, content: Any, most: int) -> Iterator[bytes]:
        request = self._client.build_request(method, self._address + path, **content)
        size, due = 0, time.monotonic() + self._limits.timeout
        due += int(request.headers.get("content-length", 0)) / SLOWEST

        def timed(step: Callable[[], Made]) -> Made:
            """Take a step in the time of the whole call: the library's time-out is of silence."""
            return cast(Made, transport.within(max(0.0, due - time.monotonic()), step))

        try:
            with closing(timed(partial(self._client.send, request, stream=True))) as answer:
                if answer.status_code < 300:
                    parts: Iterator[bytes] = answer.iter_bytes()
                    while (part := timed(partial(next, parts, None))) is not None:
                        size, due = size + len(part), due + len(part) / SLOWEST
                        self._at_most(size, most, "bytes")
                        yield part
                    return
                body = answer.read()
        except TimeoutError:
            raise AgainError("no complete answer in the time of a call") from None
        except self._broken as error:
            raise AgainError(f"the connection failed ({type(error).__name__})") from None
        problem: Any = None
        with suppress(AgainError):
            problem = _fields(self._value(body)).get("error")
        raise _meaning(self._address, answer.status_code, problem, answer.headers)

    def retried(self, act: Callable[[], Made], patience: int = 1) -> Made:
        """Do something until it succeeds, as often as the limits allow, times ``patience``."""
        most = patience * self._limits.attempts
        for attempt in range(most):
            try:
                return act()
            except _AGAIN as error:
                if isinstance(error, CalibrailError):
                    raise
                wait, reason = getattr(error, "wait", None), getattr(error, "reason", "no answer")
            pause = min(transport.LONGEST_WAIT, transport.FIRST_WAIT * 2.0 ** min(attempt, 30))
            time.sleep(max(pause, min(wait or 0.0, self._limits.patience)))
        raise ModelError(f"{self._address} did not answer, asked {most} times ({reason}); {_ANEW}")

    def list_since(self, since: float) -> Iterator[Mapping[str, Any]]:
        """Yield the provider's batches that were begun since then, the newest first."""
        page, n = dict[str, Any](), 0
        while not page or (page.get("has_more") and page["data"]):
            self._at_most(n := n + 1, MOST_PAGES, "pages of batches")
            last = {self.after: page["data"][-1]["id"]} if page else {}
            page = self.send("GET", self.path, params={"limit": 100, **last})
            for item in page["data"]:
                at = item["created_at"]
                made = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at
                if made < since:
                    return
                yield item

    def line(self, key: str, fields: Mapping[str, Any]) -> bytes:
        """Return a question as the provider takes it."""
        about = {"custom_id": key, "method": "POST", "url": _CHAT}
        return json.dumps({**about, "body": fields}).encode()

    def upload(self, batch: Batch, lines: Sequence[bytes]) -> str | None:
        """Hand in the questions, where that comes first; return the file. Nothing is paid yet."""
        file = (f"calibrail-{batch.name}.jsonl", b"\n".join(lines), "application/jsonl")
        sent = self.send("POST", "/files", data={"purpose": "batch"}, files={"file": file})
        return str(sent["id"])

    def create(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Have a batch begun and return its id; the metadata tells it from others."""
        body = {"input_file_id": batch.file, "endpoint": _CHAT, "completion_window": "24h"}
        named = {**body, "metadata": {"calibrail": batch.name}}
        return str(self.send("POST", self.path, json=named)["id"])

    def is_same(self, item: Mapping[str, Any], batch: Batch) -> bool:
        """Return whether a batch of the provider's is this one, as far as can be seen."""
        named = (item.get("metadata") or {}).get("calibrail") == batch.name
        return named or item.get("input_file_id") == batch.file

    def look(self, id: str) -> BatchState:
        """Return how far a batch is."""
        item = self.send("GET", f"{self.path}/{quote(id, safe='')}")
        status, counts = item.get("status"), item.get("request_counts") or {}
        n_done = int(counts.get("completed") or 0)
        files = tuple(filter(None, (item.get("output_file_id"), item.get("error_file_id"))))
        errors = (item.get("errors") or {}).get("data") or [{}] if status == "failed" else ()
        codes = {transport.code_in(_fields(error).get("code")) or "no code" for error in errors}
        # A batch may be completed a moment before its answers can be read.
        is_over = status in ("completed", "failed", "expired", "cancelled")
        ended = is_over and not (n_done and not files)
        n_done += int(counts.get("failed") or 0)
        return BatchState(ended, n_done, files, status == "cancelled", ", ".join(sorted(codes)))

    def results(self, id: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield what became of the questions of a batch that has ended, in any order."""
        for file in state.files:
            for line in self.lines(f"/files/{quote(file, safe='')}/content"):
                response = line.get("response") or {}
                status, body = response.get("status_code") or 0, response.get("body")
                error = _fields(body).get("error") or line.get("error") or {}
                yield line["custom_id"], body if status == 200 else None, status, error


class AnthropicBatches(OpenAIBatches):
    """Batches of messages at ``/v1/messages/batches``.

    The key comes from ``ANTHROPIC_API_KEY``, and goes to ``ANTHROPIC_BASE_URL``, or Anthropic.
    """

    most, most_bytes = 100_000, 256_000_000
    path, after = "/v1/messages/batches", "after_id"
    _STATUS: Final = {
        "invalid_request_error": 400,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "overloaded_error": 529,
        "timeout_error": 504,
    }
    _FINISH: Final = {"max_tokens": "length", "refusal": "content_filter"}

    def _access(self, endpoint: str) -> tuple[str, dict[str, str]]:
        if not (key := os.environ.get("ANTHROPIC_API_KEY", "").strip()):
            raise ModelError("Anthropic wants a key: set ANTHROPIC_API_KEY")
        named = os.environ.get("ANTHROPIC_API_BASE") or os.environ.get("ANTHROPIC_BASE_URL")
        address = transport.resolve_endpoint(named or "https://api.anthropic.com")
        return address.removesuffix("/v1"), {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def line(self, key: str, fields: Mapping[str, Any]) -> bytes:
        """Return a question in Anthropic's words."""
        most = fields.get("max_tokens") or fields.get("max_completion_tokens")
        params = {"model": fields["model"], "max_tokens": most, "messages": fields["messages"]}
        if "temperature" in fields:
            params["temperature"] = fields["temperature"]
        config: dict[str, Any] = {}
        if shape := fields.get("response_format"):
            config["format"] = {"type": "json_schema", "schema": shape["json_schema"]["schema"]}
        if (effort := fields.get("reasoning_effort", "none")) != "none":
            params["thinking"] = {"type": "adaptive"}
            config["effort"] = "low" if effort == "minimal" else effort
        params |= {"output_config": config} if config else {}
        return json.dumps({"custom_id": key, "params": params}).encode()

    def upload(self, batch: Batch, lines: Sequence[bytes]) -> str | None:
        """Do nothing: the questions come with the batch."""
        return None

    def create(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Have a batch begun and return its id."""
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        headers = {"content-type": "application/json"}
        return str(self.send("POST", self.path, content=content, headers=headers)["id"])

    def is_same(self, item: Mapping[str, Any], batch: Batch) -> bool:
        """Return whether a batch has as many questions; its results show whose it is."""
        return bool(sum(item["request_counts"].values()) == len(batch.characters))

    def look(self, id: str) -> BatchState:
        """Return how far a batch is."""
        item = self.send("GET", f"{self.path}/{quote(id, safe='')}")
        counts = item["request_counts"]
        n_done, ended = sum(counts.values()) - counts["processing"], item["processing_status"]
        return BatchState(ended == "ended", n_done, (), bool(counts["canceled"]))

    def results(self, id: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield what became of the questions; from no other address than the key's own."""
        for line in self.lines(f"{self.path}/{quote(id, safe='')}/results"):
            result = line["result"]
            error = _fields(_fields(result.get("error")).get("error"))
            body = self._completion(result["message"]) if result["type"] == "succeeded" else None
            yield line["custom_id"], body, self._STATUS.get(error.get("type", ""), 0), error

    def _completion(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as a chat completion; what was thought aloud is no part of it."""
        texts = [item["text"] for item in message["content"] if item["type"] == "text"]
        usage = message["usage"]
        read, made = (usage.get(f"cache_{of}_input_tokens") or 0 for of in ("read", "creation"))
        finish = self._FINISH.get(message["stop_reason"], "stop")
        counted = {
            "prompt_tokens": usage["input_tokens"] + read + made,
            "completion_tokens": usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": read},
        }
        choice = {"message": {"content": "".join(texts)}, "finish_reason": finish}
        return {"model": message["model"], "choices": [choice], "usage": counted}


def provider_of(endpoint: str, limits: CallLimits) -> OpenAIBatches:
    """Return how who answers takes batches.

    Raises
    ------
    ModelError
        If that is not known here.
    """
    if not transport.takes_batches(endpoint):
        raise ModelError(f"how {endpoint} takes batches is not known here; {_LEAVE_OUT}")
    kind = AnthropicBatches if endpoint == "anthropic" else OpenAIBatches
    return kind(endpoint, limits)


def name_unfinished(models: Iterable[LanguageModel], cache: Path, say: Say) -> None:
    """Name the batches under way to models that are asked without them now."""
    asked = {(model._asked, model.name) for model in models}
    for batch in BatchFolder(cache).known():
        if (batch.endpoint, batch.model) in asked:
            n, begun = len(batch.characters), time.ctime(batch.created)
            say(error_text("batch_under_way", n=n, begun=begun))


def ask_in_batches(wanted: Mapping[LanguageModel, Iterable[ChatRequest]], say: Say) -> None:
    """Have the questions that the cache lacks answered in batches, and their answers kept.

    What an earlier process has submitted is picked up. What no batch answers is left to be asked by
    itself, and so is what the budget does not cover. All models' batches are under way together.

    Parameters
    ----------
    wanted : mapping of LanguageModel to iterable of ChatRequest
        Who is asked, and the questions.
    say : callable
        Takes what a user should know, a line at a time.

    Raises
    ------
    ModelError
        If the endpoint takes no batches, refuses this one, or somebody cancelled it.
    """
    runs = [_BatchRun(model, requests, say) for model, requests in wanted.items()]
    try:
        for run in runs:
            run.under_way()
        for run in runs:
            while batches := run.under_way():
                run.collect(batches)
    except KeyboardInterrupt:
        where = ", ".join(dict.fromkeys(model.endpoint for model in wanted))
        say(f"interrupted; what was submitted to {where} goes on there: {_ANEW}")
        raise


class _BatchRun:
    """Asks one model's questions; see `ask_in_batches`."""

    def __init__(self, model: LanguageModel, requests: Iterable[ChatRequest], say: Say) -> None:
        self._model, self._say, self._session = model, say, model.session()
        limits = self._session.account.limits
        assert limits.cache is not None
        self._folder = BatchFolder(limits.cache)
        self._provider = provider_of(model.endpoint, limits)
        kinds = {item: item.kind == "chat" for item in requests}
        self._requests = dict.fromkeys(item for item, is_chat in kinds.items() if is_chat)
        self._wanted = dict(map(self._asked, self._requests))
        if not all(kinds.values()):
            say(f"{model.endpoint}: no batch takes decisions, which are asked at the full price")
        self._rounds, self._most = Counter[str](), self._provider.most
        self._told: set[str | None] = set()

    def _asked(self, request: ChatRequest) -> tuple[str, ChatRequest]:
        """Return what is asked, with its key: with more tokens, where the model needs them."""
        known, key = self._model._known(self._session.cache, request), self._model._key(request)
        # What was answered with more tokens has no answer without.
        lacks = known is None or self._session.cache.get(key) is None
        if lacks and request.most_tokens and request.effort in self._model.starves:
            request = request.raised()
        return self._model._key(request), request

    def under_way(self) -> list[Batch]:
        """Return the batches under way that answer what is wanted, having submitted what lacks."""
        if not (wanted := self._lacking(())):
            return []
        who = self._model._asked, self._model.name
        with self._folder.locked() as known:
            ours = [batch for batch in known if (batch.endpoint, batch.model) == who]
            batches = list(filter(self._is_begun, ours))
            taken = {key for batch in batches for key in batch.characters}
            for keys, lines in self._parts(self._affordable(self._lacking(taken))):
                batches.append(self._submit(keys, lines))
        return [batch for batch in batches if not batch.characters.keys().isdisjoint(wanted)]

    def _lacking(self, taken: Iterable[str]) -> list[str]:
        get, taken = self._session.cache.get, set(taken)
        asked = (key for key in self._wanted if key not in taken and self._rounds[key] < ROUNDS)
        return [key for key in asked if get(key) is None]

    def _affordable(self, keys: Iterable[str]) -> Iterator[str]:
        # Whoever asks for the rest by itself will hear that the budget is spent.
        with suppress(transport.BudgetError):
            for key in keys:
                self._session.account.spend()
                yield key

    def _fields(self, key: str) -> dict[str, Any]:
        """Return a question without what the endpoint does not know."""
        name, endpoint = self._model.name, self._model.endpoint
        body = {"model": name.removeprefix(f"{endpoint}/"), **self._wanted[key].parameters()}
        return self._model._caller._known(body)

    def _parts(self, keys: Iterable[str]) -> Iterator[tuple[list[str], list[bytes]]]:
        """Yield questions and their lines, as many together as a batch takes."""
        part, lines, size = list[str](), list[bytes](), 0
        for key in keys:
            line = self._provider.line(key, self._fields(key))
            if part and (len(part) >= self._most or size + len(line) > self._provider.most_bytes):
                yield part, lines
                if self._most < self._provider.most:
                    # So many at a time are too many for this account.
                    return
                part, lines, size = [], [], 0
            part.append(key)
            lines.append(line)
            size += len(line) + 1
        if part:
            yield part, lines

    def _submit(self, keys: Sequence[str], lines: Sequence[bytes]) -> Batch:
        """Submit a batch: before each step it is noted how far it is."""
        model, provider = self._model, self._provider
        characters = {key: sum(len(text) for _, text in self._wanted[key].messages) for key in keys}
        batch = Batch(uuid4().hex, model._asked, model.name, characters, time.time())
        self._folder.save(batch)

        def create() -> str:
            try:
                return provider.create(batch, lines)
            except AgainError:
                # It may have begun all the same.
                if (known := self._looked_for(batch)) is None:
                    raise
                return known

        try:
            batch.file = provider.retried(lambda: provider.upload(batch, lines))
            batch.sent = time.time()
            self._folder.save(batch)
            batch.id = provider.retried(create)
        except RefusedError as error:
            self._folder.remove(batch)
            why = "it takes no batches" if error.status in (404, 405) else "no batch was begun"
            raise ModelError(f"{model.endpoint} answered {error}: {why}; {_LEAVE_OUT}") from None
        self._folder.save(batch)
        self._rounds.update(keys)
        model.batched.update(keys)
        self._told.add(batch.id)
        n = sum(self._wanted[key] not in self._requests for key in keys)
        where = f"{model.endpoint}, {n:,} with more tokens to think" if n else model.endpoint
        self._say(error_text("batch_submitted", of=batch, n=len(keys), where=where, anew=_ANEW))
        return batch

    def _is_begun(self, batch: Batch) -> bool:
        """Return whether a batch of an earlier process was begun; one that was not is forgotten."""
        if batch.id is None and batch.sent is not None:
            batch.id = self._provider.retried(lambda: self._looked_for(batch))
        if batch.id is None:
            self._folder.remove(batch)
            return False
        self._folder.save(batch)
        if batch.id not in self._told:
            self._told.add(batch.id)
            self._say(f"{batch}: {len(batch.characters):,} questions, picked up")
        return True

    def _looked_for(self, batch: Batch) -> str | None:
        """Return the id of a batch that may have begun; it may stand in the list a little late."""
        known = {*batch.others, *(item.id for item in self._folder.known())}
        while True:
            for item in self._provider.list_since(batch.created - _CLOCKS):
                if item["id"] not in known and self._provider.is_same(item, batch):
                    return str(item["id"])
            if time.time() > (batch.sent or 0.0) + SETTLED:
                return None
            time.sleep(SETTLED / 10.0)

    def collect(self, batches: Sequence[Batch]) -> None:
        """Wait until batches have ended, and keep what they answered as soon as each has."""
        waiting, pause = {batch.name: batch for batch in batches}, FIRST_LOOK
        while waiting:
            n_done = 0
            for batch in list(waiting.values()):
                state, left = self._provider.retried(partial(self._look, batch), 10)
                if state.ended:
                    del waiting[batch.name]
                    self._end(batch, state, left)
                else:
                    n_done += state.n_done
            self._session.account.watch_batch(n_done)
            if waiting:
                time.sleep(pause)
                pause = min(LONGEST_LOOK, 1.5 * pause)
        # On some the model may have thought to the end of its tokens.
        self._wanted = dict(map(self._asked, self._requests))

    def _look(self, batch: Batch) -> tuple[BatchState, Left]:
        """Return how far a batch is and, where it has ended, what it left; keep its answers."""
        try:
            state = self._provider.look(str(batch.id))
            results = self._provider.results(str(batch.id), state)
            return state, self._left(batch, results if state.ended and not state.refused else ())
        except RefusedError as error:
            if error.status == 404 and time.time() > batch.created + _KEPT:
                # Nobody has its answers any more.
                return BatchState(True, 0), self._left(batch, ())
            raise ModelError.on("batch_not_known", of=batch, error=error, by=_LEAVE_OUT) from None

    def _left(self, batch: Batch, results: Iterable[BatchResult]) -> Left:
        """Keep the answers of a batch, and return the questions that it did not answer."""
        left: Left = dict.fromkeys(batch.characters)
        before = {key: self._fields(key) for key in batch.characters if key in self._wanted}
        for key, body, status, error in results:
            if key not in batch.characters:
                left[key] = ""
            elif body is not None:
                left.pop(key, None)
                self._keep(key, body, batch.characters[key])
            elif status:
                why = _meaning(batch.endpoint, status, error)
                if isinstance(why, ModelError):
                    raise why
                if isinstance(why, RefusedError):
                    if key in before:
                        self._model._caller._learn(why.about, before[key])
                    # Put otherwise, or with more tokens, another batch may answer it.
                    request = self._wanted.get(key)
                    if request and request.most_tokens and OUTPUT_LIMIT in why.about:
                        self._model.starves.add(request.effort)
                        left[key] = ""
                    elif key not in before or why.too_long or self._fields(key) == before[key]:
                        left[key] = "" if why.too_long else why.reason
        return left

    def _keep(self, key: str, body: Any, characters: int) -> None:
        # What cannot be read is asked by itself.
        with suppress(ValueError):
            answer, share = read_answer(body), transport.BATCH_SHARE
            if self._session.cache.get(key) is None:
                value = answer.to_dict()
                self._model.keep_answer(self._session, key, value, characters, answer.tokens, share)

    def _end(self, batch: Batch, state: BatchState, left: Left) -> None:
        """Forget a batch that has ended; decide what is asked in another one."""
        n, n_left = len(batch.characters), len(left)
        if n_left > n and batch.characters.keys() <= left.keys():
            # Another one's, of as many questions: this one is looked for again.
            batch.others, batch.id = [*batch.others, str(batch.id)], None
            return self._folder.save(batch)
        for key in batch.characters:
            if left.get(key, "") is not None:
                self._rounds[key] = ROUNDS
        self._session.cache.sync()
        self._folder.remove(batch)
        whys = list(filter(None, left.values()))
        problem = ""
        if "token_limit_exceeded" in state.refused and n > 1:
            self._rounds.subtract(batch.characters)
            self._most = max(1, n // 2)
            self._say(f"batch {batch.id}: {n:,} questions are too many at a time; in parts, then")
        elif state.refused:
            problem = f"refused ({state.refused}), and nothing of it is asked"
        else:
            self._say(f"batch {batch.id}: {n - n_left:,} of {n:,} questions answered")
        if state.cancelled and left:
            problem = f"cancelled, after {n - n_left:,} of {n:,} answers; run the same for the rest"
        if len(whys) == n >= _ALL_FAIL:
            # By themselves they would cost twice what was asked for.
            problem = f"refused question by question ({whys[0]})"
        if problem:
            raise ModelError.on("batch_ended", batch=batch, how=problem, by=_LEAVE_OUT)
        return None
