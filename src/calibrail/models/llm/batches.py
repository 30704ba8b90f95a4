"""Questions asked through a provider's batch API: submitted, picked up again, collected."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote
from uuid import uuid4

from calibrail.atomic_files import folder_lock, write_atomically
from calibrail.errors import ModelError
from calibrail.models.llm import transport
from calibrail.models.llm.chat import CacheError, ChatRequest, LanguageModel, read_answer
from calibrail.models.llm.transport import BATCH_SHARE, AgainError, BudgetError, CallLimits

#: Seconds between two looks at a batch: the first, and the longest.
FIRST_LOOK: Final = 2.0
LONGEST_LOOK: Final = 60.0
#: Seconds after which a batch that a provider was asked for stands in its list.
SETTLED: Final = 10.0
#: Batches that a question is asked in at most; then it is asked by itself.
ROUNDS: Final = 3
#: Days for which providers keep what a batch answered, at most.
_KEPT_DAYS: Final = 30.0
_DAY: Final = 86_400.0

_ANTHROPIC: Final = "https://api.anthropic.com"
_LEAVE_OUT: Final = "leave --batch out (CallLimits(batch=False)) and ask directly"
_ANEW: Final = "the same command picks it up, and pays nothing twice"

Result = TypeVar("Result")
Say = Callable[[str], None]


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

    @property
    def since(self) -> str:
        """When it was submitted, in words."""
        return datetime.fromtimestamp(self.created).strftime("%Y-%m-%d %H:%M")


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
            except (OSError, ValueError, TypeError) as error:
                raise CacheError(
                    f"{path} does not say what was submitted ({error}); remove it, and what it "
                    "asked is asked anew"
                ) from error
        return batches

    def save(self, batch: Batch) -> None:
        """Write what is known of a batch."""
        content = json.dumps(asdict(batch)).encode()
        write_atomically(self._folder / f"{batch.name}.json", content, durable=True)

    def remove(self, batch: Batch) -> None:
        """Forget a batch."""
        (self._folder / f"{batch.name}.json").unlink(missing_ok=True)


class StatusError(Exception):
    """A batch API refused a request.

    Parameters
    ----------
    status : int
        HTTP's.
    reason : str
        That with the provider's code.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


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


class BatchResult(NamedTuple):
    """What became of one question.

    Attributes
    ----------
    key : str
        Its digest.
    body : object
        A chat completion; None where there is none.
    status : int
        HTTP's; 0 for a question that was not asked in time.
    error : mapping
        What the provider says of it.
    """

    key: str
    body: Any = None
    status: int = 0
    error: Mapping[str, Any] = {}


class BatchWeb:
    """Requests to one address over the HTTP client of the openai SDK.

    Parameters
    ----------
    address : str
        Without a slash at its end; nothing is sent to another one.
    headers : mapping
        The key among them.
    limits : CallLimits
        How long a request may take, and how often it is sent.
    """

    def __init__(self, address: str, headers: Mapping[str, str], limits: CallLimits) -> None:
        try:
            from openai import DefaultHttpxClient
        except ImportError as error:
            raise ModelError(
                f"calling {address} needs the judge extra: {transport.INSTALL} ({error})"
            ) from error
        self._address, self._limits = address, limits
        self._broken = transport.connection_errors()
        self._client: Any = DefaultHttpxClient(
            follow_redirects=False, timeout=limits.timeout, headers=headers
        )

    def send(self, method: str, path: str, **content: Any) -> Any:
        """Send one request and return the JSON of the answer.

        Raises
        ------
        AgainError
            If it may be sent again.
        StatusError
            If it is refused.
        ModelError
            If the key is not accepted.
        """
        return json.loads(b"".join(self._parts(method, path, content)))

    def lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON values of a file of lines."""
        rest = b""
        for part in self._parts("GET", path, {}):
            *whole, rest = (rest + part).split(b"\n")
            yield from map(json.loads, filter(bytes.strip, whole))
        if rest.strip():
            yield json.loads(rest)

    def _parts(self, method: str, path: str, content: Mapping[str, Any]) -> Iterator[bytes]:
        try:
            with self._client.stream(method, self._address + path, **content) as answer:
                if answer.status_code >= 300:
                    answer.read()
                    raise self._refused(answer)
                yield from answer.iter_bytes()
        except self._broken as error:
            raise AgainError(f"the connection failed ({type(error).__name__})") from None

    def _refused(self, answer: Any) -> Exception:
        try:
            error = json.loads(answer.content)["error"]
            code = transport.code_of(error.get("code")) or transport.code_of(error.get("type"))
        except (ValueError, TypeError, KeyError, AttributeError):
            code = ""
        reason = f"HTTP {answer.status_code}" + (f" ({code})" if code else "")
        if answer.status_code in (408, 409, 425, 429) or answer.status_code >= 500:
            return AgainError(reason, transport.retry_after(answer.headers))
        if answer.status_code in (401, 403):
            return ModelError(f"{self._address} answered {reason}: its key is not accepted")
        return StatusError(answer.status_code, reason)

    def retried(self, act: Callable[[], Result], patience: int = 1) -> Result:
        """Do something until it succeeds, as often as the limits allow, times ``patience``."""
        most = patience * self._limits.attempts
        for attempt in range(most):
            try:
                return act()
            except (AgainError, json.JSONDecodeError) as error:
                wait, reason = getattr(error, "wait", None), getattr(error, "reason", "broken JSON")
                if attempt + 1 == most:
                    break
                pause = min(transport.LONGEST_WAIT, transport.FIRST_WAIT * 2.0 ** min(attempt, 30))
                time.sleep(max(pause, min(wait or 0.0, self._limits.patience)))
        raise ModelError(f"{self._address} did not answer, asked {most} times ({reason}); {_ANEW}")


class BatchProvider(Protocol):
    """How one provider takes batches."""

    #: Questions, and bytes, of a batch at most.
    most: int
    most_bytes: int
    web: BatchWeb

    def line(self, key: str, fields: Mapping[str, Any]) -> bytes:
        """Return a question as the provider takes it."""

    def upload(self, batch: Batch, lines: Sequence[bytes]) -> str | None:
        """Hand in the questions, where that comes first; nothing is paid yet."""

    def create(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Have a batch begun and return its id."""

    def find(self, batch: Batch, known: set[str]) -> str | None:
        """Return the id of a batch that may have been begun; ``known`` are those of others."""

    def look(self, id: str) -> BatchState:
        """Return how far a batch is."""

    def results(self, id: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield what became of the questions of a batch that has ended."""


class OpenAIBatches:
    """Files of questions at ``/files``, batches of them at ``/batches``.

    Parameters
    ----------
    endpoint : str
        As ``resolve_endpoint`` returns it.
    limits : CallLimits
        The limits.
    """

    most, most_bytes = 50_000, 200_000_000

    def __init__(self, endpoint: str, limits: CallLimits) -> None:
        key = transport.key_for(endpoint)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.web = BatchWeb(endpoint, headers, limits)

    def line(self, key: str, fields: Mapping[str, Any]) -> bytes:
        """Return a line of the file."""
        about = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions"}
        return json.dumps({**about, "body": fields}).encode()

    def upload(self, batch: Batch, lines: Sequence[bytes]) -> str | None:
        """Upload the file and return its id."""
        file = (f"calibrail-{batch.name}.jsonl", b"\n".join(lines), "application/jsonl")
        sent = self.web.send("POST", "/files", data={"purpose": "batch"}, files={"file": file})
        return str(sent["id"])

    def create(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Have the file answered; the metadata tells the batch from others."""
        body = {
            "input_file_id": batch.file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"calibrail": batch.name},
        }
        return str(self.web.send("POST", "/batches", json=body)["id"])

    def find(self, batch: Batch, known: set[str]) -> str | None:
        """Return the batch with this name or this file."""
        for item in _listed(self.web, "/batches", "after"):
            named = (item.get("metadata") or {}).get("calibrail") == batch.name
            if named or item.get("input_file_id") == batch.file:
                return str(item["id"])
            if item.get("created_at", math.inf) < batch.created - _DAY:
                break
        return None

    def look(self, id: str) -> BatchState:
        """Return how far a batch is."""
        found = self.web.send("GET", f"/batches/{quote(id, safe='')}")
        status, counts = found.get("status"), found.get("request_counts") or {}
        n_done = counts.get("completed") or 0
        files = tuple(filter(None, (found.get("output_file_id"), found.get("error_file_id"))))
        errors = (found.get("errors") or {}).get("data") or () if status == "failed" else ()
        codes = {transport.code_of(item.get("code")) or "no code" for item in errors}
        refused = ", ".join(sorted(codes)) or "no code" if status == "failed" else ""
        # A batch may be completed a moment before its answers can be read.
        ended = status in ("completed", "failed", "expired", "cancelled")
        ended = ended and not (n_done and not files)
        n_done += counts.get("failed") or 0
        return BatchState(ended, n_done, files, status == "cancelled", refused)

    def results(self, id: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield the lines of both files."""
        for file in state.files:
            for line in self.web.lines(f"/files/{quote(file, safe='')}/content"):
                response = line.get("response") or {}
                status, body = response.get("status_code") or 0, response.get("body")
                if status == 200:
                    yield BatchResult(line["custom_id"], body, status)
                else:
                    error = (body or {}).get("error") or line.get("error") or {}
                    yield BatchResult(line["custom_id"], None, status, error)


class AnthropicBatches:
    """Batches of messages at ``/v1/messages/batches``.

    The key comes from ``ANTHROPIC_API_KEY``, and goes to ``ANTHROPIC_BASE_URL``, or Anthropic.

    Parameters
    ----------
    limits : CallLimits
        The limits.
    """

    most, most_bytes = 100_000, 256_000_000
    _PATH: Final = "/v1/messages/batches"
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

    def __init__(self, limits: CallLimits) -> None:
        key = os.environ.get("ANTHROPIC_API_KEY", "").strip()
        if not key:
            raise ModelError("Anthropic wants a key: set ANTHROPIC_API_KEY")
        address = transport.resolve_endpoint(os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC)
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        self.web = BatchWeb(address.removesuffix("/v1"), headers, limits)

    def line(self, key: str, fields: Mapping[str, Any]) -> bytes:
        """Return one of the requests, in Anthropic's words."""
        told = [item for item in fields["messages"] if item["role"] != "system"]
        system = [item["content"] for item in fields["messages"] if item["role"] == "system"]
        most = fields.get("max_tokens") or fields.get("max_completion_tokens")
        params = {"model": fields["model"].removeprefix("anthropic/"), "max_tokens": most}
        params |= {"messages": told, **({"system": "\n".join(system)} if system else {})}
        if "temperature" in fields:
            params["temperature"] = fields["temperature"]
        if shape := fields.get("response_format"):
            schema = {"type": "json_schema", "schema": shape["json_schema"]["schema"]}
            params["output_config"] = {"format": schema}
        return json.dumps({"custom_id": key, "params": params}).encode()

    def upload(self, batch: Batch, lines: Sequence[bytes]) -> str | None:
        """Do nothing: the questions come with the batch."""
        return None

    def create(self, batch: Batch, lines: Sequence[bytes]) -> str:
        """Have the questions answered."""
        content = b'{"requests":[' + b",".join(lines) + b"]}"
        headers = {"content-type": "application/json"}
        return str(self.web.send("POST", self._PATH, content=content, headers=headers)["id"])

    def find(self, batch: Batch, known: set[str]) -> str | None:
        """Return a batch of as many questions that was made since; its results show whose it is."""
        for item in _listed(self.web, self._PATH, "after_id"):
            made = datetime.fromisoformat(item["created_at"]).timestamp()
            if made < batch.created - _DAY:
                break
            is_alike = sum(item["request_counts"].values()) == len(batch.characters)
            # Clocks differ.
            if is_alike and item["id"] not in known and made > batch.created - 600.0:
                return str(item["id"])
        return None

    def look(self, id: str) -> BatchState:
        """Return how far a batch is."""
        found = self.web.send("GET", f"{self._PATH}/{quote(id, safe='')}")
        counts = dict(found.get("request_counts") or {})
        n_done = sum(counts.values()) - counts.get("processing", 0)
        ended = found.get("processing_status") == "ended"
        return BatchState(ended, n_done, (), bool(counts.get("canceled")))

    def results(self, id: str, state: BatchState) -> Iterator[BatchResult]:
        """Yield the lines of the results; from no other address than the key's own."""
        for line in self.web.lines(f"{self._PATH}/{quote(id, safe='')}/results"):
            result = line["result"]
            if result["type"] == "succeeded":
                yield BatchResult(line["custom_id"], self._completion(result["message"]), 200)
            else:
                error = result.get("error") or {}
                error = error.get("error") or error
                status = self._STATUS.get(error.get("type", ""), 0)
                yield BatchResult(line["custom_id"], None, status, error)

    def _completion(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as a chat completion; what was thought aloud is no part of it."""
        blocks = (item for item in message.get("content") or () if item.get("type") == "text")
        usage, finish = message.get("usage") or {}, message.get("stop_reason")
        read, made = (usage.get(f"cache_{of}_input_tokens") or 0 for of in ("read", "creation"))
        choice = {
            "message": {"content": "".join(item["text"] for item in blocks)},
            "finish_reason": self._FINISH.get(str(finish), "stop"),
        }
        counted = {
            "prompt_tokens": (usage.get("input_tokens") or 0) + read + made,
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": read},
        }
        return {"model": message.get("model"), "choices": [choice], "usage": counted}


def _listed(web: BatchWeb, path: str, after: str) -> Iterator[Mapping[str, Any]]:
    """Yield what a provider lists, the newest first, page by page."""
    last = ""
    while True:
        params = {"limit": 100} | ({after: last} if last else {})
        page = web.send("GET", path, params=params)
        yield from page["data"]
        if not (page.get("has_more") and page["data"]):
            return
        last = page["data"][-1]["id"]


def provider_of(model: LanguageModel, limits: CallLimits) -> BatchProvider:
    """Return how the provider of a model takes batches."""
    if model.name.startswith("anthropic/") and model.endpoint.startswith("anthropic"):
        return AnthropicBatches(limits)
    return OpenAIBatches(model.endpoint, limits)


def ask_in_batches(model: LanguageModel, requests: Iterable[ChatRequest], say: Say) -> None:
    """Have the questions that the cache lacks answered in batches, and their answers kept.

    What an earlier process has submitted is picked up. What no batch answers is left to be asked by
    itself, and so is what the budget does not cover.

    Parameters
    ----------
    model : LanguageModel
        Who is asked.
    requests : iterable of ChatRequest
        The questions.
    say : callable
        Takes what a user should know, a line at a time.

    Raises
    ------
    ModelError
        If the endpoint takes no batches, refuses this one, or somebody cancelled it.
    """
    run = _BatchRun(model, requests, say)
    try:
        while batches := run.submitted():
            run.collect(batches)
    except KeyboardInterrupt:
        say(f"interrupted; what was submitted to {model.endpoint} goes on there: {_ANEW}")
        raise


class _BatchRun:
    """Asks one model's questions; see `ask_in_batches`."""

    def __init__(self, model: LanguageModel, requests: Iterable[ChatRequest], say: Say) -> None:
        self._model, self._say, self._session = model, say, model.session()
        self._limits = self._session.account.limits
        assert self._limits.cache is not None
        self._folder = BatchFolder(self._limits.cache)
        self._provider = provider_of(model, self._limits)
        self._wanted = {model.key(request): request for request in requests}
        self._rounds, self._most = Counter[str](), self._provider.most
        self._told: set[str] = set()

    def submitted(self) -> list[Batch]:
        """Return the batches under way that answer what is wanted, having submitted what lacks."""
        if not (wanted := self._lacking(())):
            return []
        with self._folder.locked() as known:
            batches = [batch for batch in known if self._is_mine(batch) and self._found(batch)]
            taken = {key for batch in batches for key in batch.characters}
            for keys, lines in self._parts(self._affordable(self._lacking(taken))):
                batches.append(self._submit(keys, lines))
        return [batch for batch in batches if not batch.characters.keys().isdisjoint(wanted)]

    def _is_mine(self, batch: Batch) -> bool:
        return (batch.endpoint, batch.model) == (self._model.endpoint, self._model.name)

    def _lacking(self, taken: Iterable[str]) -> list[str]:
        get, taken = self._session.cache.get, set(taken)
        asked = (key for key in self._wanted if key not in taken and self._rounds[key] < ROUNDS)
        return [key for key in asked if get(key) is None]

    def _affordable(self, keys: Iterable[str]) -> Iterator[str]:
        for key in keys:
            try:
                self._session.account.spend()
            except BudgetError:
                # Whoever asks for the rest by itself will hear of it.
                return
            yield key

    def _fields(self, key: str) -> dict[str, Any]:
        return {"model": self._model.name, **self._wanted[key].parameters()}

    def _parts(self, keys: Iterable[str]) -> Iterator[tuple[list[str], list[bytes]]]:
        """Yield questions and their lines, as many together as a batch takes."""
        part, lines, size = list[str](), list[bytes](), 0
        for key in keys:
            line = self._provider.line(key, self._model.caller.known(self._fields(key)))
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
        texts = (self._wanted[key].messages for key in keys)
        sizes = (sum(len(text) for _, text in messages) for messages in texts)
        characters, now = dict(zip(keys, sizes, strict=True)), time.time()
        batch = Batch(uuid4().hex, self._model.endpoint, self._model.name, characters, now)
        web, provider = self._provider.web, self._provider
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
            batch.file = web.retried(lambda: provider.upload(batch, lines))
            batch.sent = time.time()
            self._folder.save(batch)
            batch.id = web.retried(create)
        except StatusError as error:
            self._folder.remove(batch)
            why = "it takes no batches" if error.status in (404, 405) else "no batch was begun"
            raise ModelError(
                f"{self._model.endpoint} answered {error}: {why}; {_LEAVE_OUT}"
            ) from None
        self._folder.save(batch)
        self._rounds.update(keys)
        self._model.batched.update(keys)
        self._told.add(batch.id)
        self._say(
            f"batch {batch.id}: {len(keys):,} questions submitted to {self._model.endpoint}; "
            f"it may take a day, Ctrl-C leaves it there, and {_ANEW}"
        )
        return batch

    def _found(self, batch: Batch) -> bool:
        """Return whether a batch of an earlier process was begun; one that was not is forgotten."""
        if batch.id is None and batch.sent is not None:
            batch.id = self._provider.web.retried(lambda: self._looked_for(batch))
        if batch.id is None:
            self._folder.remove(batch)
            return False
        self._folder.save(batch)
        if batch.id not in self._told:
            self._told.add(batch.id)
            n = len(batch.characters)
            self._say(f"batch {batch.id} of {batch.since}: {n:,} questions, picked up")
        return True

    def _looked_for(self, batch: Batch) -> str | None:
        """Return the id of a batch that may have begun; it may stand in the list a little late."""
        known = {item.id for item in self._folder.known() if item.id} | set(batch.others)
        while (id := self._provider.find(batch, known)) is None:
            if time.time() > (batch.sent or 0.0) + SETTLED:
                return None
            time.sleep(SETTLED / 10.0)
        return id

    def collect(self, batches: Sequence[Batch]) -> None:
        """Wait until batches have ended, and keep what they answered as soon as each has."""
        waiting, pause = list(batches), FIRST_LOOK
        done: dict[str, int] = {}
        while waiting:
            for batch in list(waiting):
                state = self._provider.web.retried(lambda batch=batch: self._look(batch), 10)  # type: ignore[misc]
                done[batch.name] = 0 if state.ended else state.n_done
                if state.ended:
                    waiting.remove(batch)
                    self._end(batch, state)
            self._session.account.watch_batch(sum(done.values()))
            if waiting:
                time.sleep(pause)
                pause = min(LONGEST_LOOK, 1.5 * pause)

    def _look(self, batch: Batch) -> BatchState:
        try:
            return self._provider.look(batch.id or "")
        except StatusError as error:
            if error.status == 404 and time.time() > batch.created + _KEPT_DAYS * _DAY:
                # Nobody has its answers any more.
                return BatchState(True, 0)
            raise ModelError(
                f"{batch.endpoint} answered {error} about the batch {batch.id} of {batch.since}: "
                f"is the key that with which it was submitted? Or {_LEAVE_OUT}"
            ) from None

    def _end(self, batch: Batch, state: BatchState) -> None:
        """Keep the answers of a batch that has ended; decide what is asked in another one."""
        n = len(batch.characters)
        if state.refused:
            self._folder.remove(batch)
            self._rounds.subtract(batch.characters)
            if n == 1 or "token_limit_exceeded" not in state.refused:
                raise ModelError(
                    f"{batch.endpoint} refused the batch {batch.id} ({state.refused}), and asks "
                    f"nothing of it; mend that, or {_LEAVE_OUT}"
                )
            self._most = max(1, n // 2)
            self._say(f"batch {batch.id}: {n:,} questions are too many at a time; in parts, then")
            return
        before = {key: self._known(key) for key in batch.characters if key in self._wanted}
        again = self._provider.web.retried(lambda: self._kept(batch, state, before))
        if again is None:
            # Another batch of as many questions: this one is looked for again.
            batch.others, batch.id = [*batch.others, str(batch.id)], None
            self._folder.save(batch)
            return
        for key in batch.characters.keys() - again:
            self._rounds[key] = ROUNDS
        self._session.cache.sync()
        self._folder.remove(batch)
        lacking = sum(self._session.cache.get(key) is None for key in batch.characters)
        self._say(f"batch {batch.id}: {n - lacking:,} of {n:,} questions answered")
        if state.cancelled and lacking:
            raise ModelError(
                f"the batch {batch.id} was cancelled at {batch.endpoint}, after {n - lacking:,} of "
                f"{n:,} answers, which are kept; run the same again and the rest is submitted, or "
                f"{_LEAVE_OUT}"
            )

    def _known(self, key: str) -> dict[str, Any]:
        return self._model.caller.known(self._fields(key))

    def _kept(
        self, batch: Batch, state: BatchState, before: Mapping[str, dict[str, Any]]
    ) -> set[str] | None:
        """Keep what was answered; return what another batch may answer, None for a wrong batch."""
        again, strange = set(batch.characters), False
        for result in self._provider.results(str(batch.id), state):
            key = result.key
            if key not in batch.characters:
                strange = True
                continue
            if result.body is not None:
                again.discard(key)
                self._keep(key, result.body, batch.characters[key])
            elif 400 <= result.status < 500 and result.status not in (408, 409, 425, 429):
                code = transport.code_of(result.error.get("code"))
                error = transport.refusal(
                    result.status, code, result.error.get("param"), result.error.get("message")
                )
                if key in before:
                    self._model.caller.learn(error.about, before[key])
                # Put otherwise, another batch may answer it; else it is asked by itself.
                if key not in before or error.too_long or self._known(key) == before[key]:
                    again.discard(key)
        is_other = strange and again == batch.characters.keys()
        return None if is_other else again

    def _keep(self, key: str, body: Any, characters: int) -> None:
        try:
            answer = read_answer(body)
        except ValueError:
            # It is asked by itself.
            return
        if self._session.cache.get(key) is None:
            value, tokens = answer.to_dict(), answer.tokens
            self._model.keep_answer(self._session, key, value, characters, tokens, BATCH_SHARE)
