"""Chat questions, batched, counted and cached."""

import hashlib
import json
import math
import operator
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from calibrail.errors import CalibrailError, InputError, errors_as, variable_set
from calibrail.models.batching import Item, each, report_progress, shared
from calibrail.models.hardware import leave_to_parent, renewed
from calibrail.models.llm import transport
from calibrail.serialization import Record

#: Those of a question and of its answer, None where they were not counted.
Tokens = tuple[int | None, int | None]

#: Raised when the table's columns change.
VERSION: Final = 1

#: Answers that a cache in memory holds, or up to twice as many.
MOST_IN_MEMORY: Final = 5_000

#: Seconds to wait for another process that writes.
_PATIENCE: Final = 60.0

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, model TEXT NOT NULL, kind TEXT NOT NULL,
    characters INTEGER NOT NULL, tokens_in INTEGER, tokens_out INTEGER,
    created REAL NOT NULL, value TEXT NOT NULL
) WITHOUT ROWID
"""


class CacheError(CalibrailError):
    """The file of the cache cannot be used."""


class Source(NamedTuple):
    """Whose answers, and of what kind.

    Attributes
    ----------
    endpoint, model : str
        Who answered.
    kind : str
        ``chat`` or ``embedding``.
    """

    endpoint: str
    model: str
    kind: str


@dataclass(frozen=True, slots=True)
class CachedModel(Record):
    """What the cache holds of one model.

    Attributes
    ----------
    endpoint, model : str
        Who answered.
    kind : str
        ``chat`` or ``embedding``.
    n : int
        Answers.
    tokens_in, tokens_out : int
        Tokens that they cost, as far as the endpoint counted them.
    oldest, newest : float
        Seconds since 1970.
    """

    endpoint: str
    model: str
    kind: str
    n: int
    tokens_in: int
    tokens_out: int
    oldest: float
    newest: float


class AnswerCache:
    """A SQLite file of JSON values, for several threads and processes at once.

    A value is written, and safe, as soon as its answer is in. The file holds digests of what was
    asked, never the question itself. A forked process opens the file anew; one in memory starts
    empty there.

    Parameters
    ----------
    path : Path or None
        The file, made if it is absent; None for memory.

    Raises
    ------
    CacheError
        If the file cannot be opened or is something else.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._puts = count(1)
        self._lock = Lock()
        with self._explained():
            self._connection: sqlite3.Connection | None = self._opened()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Open the file anew when it is next used; the parent's connection stays the parent's."""
        leave_to_parent(self._connection)
        self._lock, self._connection = Lock(), None

    def _opened(self) -> sqlite3.Connection:
        path = self.path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A judge may quote what it read: the file is its owner's alone.
            path.touch(mode=0o600)
        connection = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        run = connection.execute
        tables = run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if tables and ("answers",) not in tables:
            raise CacheError.on("cache_of_another_program", path=path)
        if path is not None:
            # Readers and a writer at once, and no answer is lost when a process is killed; where
            # another one switches at this moment, it does so for both.
            with suppress(sqlite3.OperationalError):
                run("PRAGMA journal_mode = WAL").fetchall()
            run("PRAGMA synchronous = NORMAL")
        run(_TABLE)
        ((version,),) = run("PRAGMA user_version").fetchall()
        if version == 0:
            run(f"PRAGMA user_version = {VERSION}")
        if version not in (0, VERSION):
            raise CacheError.on("another_version", path=path, version=version, own=VERSION)
        return connection

    def get(self, key: str, read: Callable[[Any], Any] = dict) -> Any | None:
        """Return the value kept under a key, None if there is none.

        Parameters
        ----------
        key : str
            The key.
        read : callable
            What it makes of the value is returned. Whoever can write the file may have put anything
            there: what ``read`` raises is a `CacheError`.
        """
        rows = self._rows("SELECT value FROM answers WHERE key = ?", (key,))
        with self._explained(), errors_as(ValueError, Exception, "cached_answer_damaged"):
            return read(json.loads(rows[0][0])) if rows else None

    def put(
        self, key: str, value: Mapping[str, Any], source: Source, characters: int, tokens: Tokens
    ) -> None:
        """Keep a value; what another process has kept meanwhile stays."""
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        row = (key, *source, characters, *tokens, time.time(), text)
        self._rows("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        if self.path is None and next(self._puts) % MOST_IN_MEMORY == 0:
            self._rows(
                "DELETE FROM answers WHERE key NOT IN "
                "(SELECT key FROM answers ORDER BY created DESC LIMIT ?)",
                (MOST_IN_MEMORY,),
            )

    def tokens_per_character(self, source: Source) -> float | None:
        """Return how many tokens a character of this model's questions took, None if unknown."""
        ((tokens, characters),) = self._rows(
            "SELECT SUM(tokens_in), SUM(characters) FROM answers WHERE endpoint = ? AND "
            "model = ? AND kind = ? AND tokens_in IS NOT NULL",
            source,
        )
        # Whoever can write the file may have put any number there.
        return rate if characters and 0.0 <= (rate := tokens / characters) < 1e6 else None

    def contents(self) -> list[CachedModel]:
        """Return what is kept, by endpoint, model and kind."""
        rows = self._rows(
            "SELECT CAST(endpoint AS TEXT), CAST(model AS TEXT), CAST(kind AS TEXT), COUNT(*), "
            "CAST(TOTAL(tokens_in) AS INTEGER), CAST(TOTAL(tokens_out) AS INTEGER), "
            "MAX(0.0, MIN(9e9, MIN(created))), MAX(0.0, MIN(9e9, MAX(created))) FROM answers "
            "GROUP BY endpoint, model, kind ORDER BY endpoint, model, kind"
        )
        return [CachedModel(*row) for row in rows]

    def clear(self, model: str | None = None, older_than: float | None = None) -> int:
        """Remove answers and return how many.

        Parameters
        ----------
        model : str, optional
            Only this model's.
        older_than : float, optional
            Only those older than so many days.
        """
        latest = None if older_than is None else time.time() - 86_400.0 * older_than
        with self._used() as connection:
            removed = connection.execute(
                "DELETE FROM answers WHERE model = COALESCE(?1, model) AND (?2 IS NULL OR "
                "created < ?2)",
                (model, latest),
            ).rowcount
            connection.execute("VACUUM")
        return removed

    def sync(self) -> None:
        """Have what is kept survive a power cut, too."""
        self._rows("PRAGMA wal_checkpoint(FULL)")

    def size(self) -> int:
        """Return the bytes that the answers take."""
        ((n_pages,),), ((page_size,),) = map(self._rows, ("PRAGMA page_count", "PRAGMA page_size"))
        return int(n_pages) * int(page_size)

    def close(self) -> None:
        """Close the file."""
        with self._used() as connection:
            connection.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._used() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        with self._explained(), self._lock:
            if self._connection is None:
                self._connection = self._opened()
            yield self._connection

    def _explained(self) -> AbstractContextManager[None]:
        broken = (sqlite3.Error, OSError, ValueError)
        return errors_as(CacheError, broken, "cache_unusable", value=self.path or "in memory")


@lru_cache(maxsize=8)
def open_cache(path: Path | None) -> AnswerCache:
    """Return the process's one connection to a cache file."""
    return AnswerCache(path)


#: Samples between the first one of a round of questions and that of the next round.
_APART: Final = 1 << 20
_round: ContextVar[int] = ContextVar("round", default=0)


def asked_again(number: int) -> AbstractContextManager[int]:
    """Ask within the block for further answers to what was asked, so many rounds later.

    The answers of each round are kept by themselves; 0 changes nothing.
    """
    return variable_set(_round, _round.get() + number)


def first_sample() -> int:
    """Return the number of the first sample of the round that is asked now."""
    return _APART * _round.get()


#: Positions whose alternatives are kept, at either end of an answer: a verdict stands at its
#: beginning, or after what a model thinks aloud.
KEPT_POSITIONS: Final = 16
#: Log-probability of a token that can never come, as OpenAI writes it.
NEVER: Final = -9999.0

#: Tokens that no answer costs: larger counts are mistakes, and would overflow a table's sums.
_MOST_TOKENS: Final = 2**40

_LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a chat model.

    Attributes
    ----------
    messages : tuple of (str, str)
        Role and content of each message.
    temperature : float
        0 for the most likely answer.
    max_tokens : int
        Tokens of the answer at most.
    top_logprobs : int
        Alternatives per token whose log-probabilities are asked for; 0 for none.
    schema : str
        JSON schema of the answer, as text; empty for free text.
    sample : int
        Which of several answers to the same question; it seeds the endpoint's sampling. The first
        one of the round that is asked now, where nothing is said.
    effort : str
        How much the model is to think before it answers; empty for what it does unasked.
    most_tokens : int
        What a model is allowed that thought to the end of ``max_tokens``; 0 for no more.
    """

    messages: tuple[tuple[str, str], ...]
    temperature: float = 0.0
    max_tokens: int = 16
    top_logprobs: int = 0
    schema: str = ""
    sample: int = field(default_factory=first_sample)
    effort: str = ""
    most_tokens: int = 0

    @property
    def kind(self) -> str:
        """What the transport is asked for."""
        return "chat"

    def read(self, body: Any) -> "ChatAnswer":
        """Return the answer that a body holds; a ``ValueError`` says what is wrong with it."""
        return read_answer(body)

    def parameters(self) -> dict[str, Any]:
        """Return everything but the model as the fields of an OpenAI request."""
        fields: dict[str, Any] = {
            # Halves of a character, left over from broken UTF-16, cannot be sent.
            "messages": [
                {"role": role, "content": text.encode("utf-8", "replace").decode()}
                for role, text in self.messages
            ],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        if self.temperature > 0.0:
            fields["seed"] = self.sample
        if self.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if self.schema:
            shape = {"name": "answer", "strict": True, "schema": json.loads(self.schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": shape}
        if self.effort:
            fields["reasoning_effort"] = self.effort
        return fields

    def raised(self) -> Self:
        """Return the same question with all the tokens that it may take."""
        return replace(self, max_tokens=self.most_tokens, most_tokens=0)

    def key(self, endpoint: str, model: str) -> str:
        """Return a digest of the endpoint, the model and all that is asked: 64 hex digits."""
        # Answers were kept before there was an effort; what else may be spent asks nothing else.
        unsaid = {"most_tokens"} if self.effort else {"most_tokens", "effort"}
        request = {name: value for name, value in asdict(self).items() if name not in unsaid}
        content = {"endpoint": endpoint, "model": model, "request": request}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Position:
    """One token of an answer with its alternatives.

    Attributes
    ----------
    token : str
        The token as text.
    logprob : float
        Its natural log-probability as the endpoint gives it, not checked.
    top : tuple of (str, float)
        The likeliest tokens at this place with theirs.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat model answered.

    Attributes
    ----------
    text : str
        The answer; empty where it refused.
    refusal : bool
        Whether the endpoint marked it as a refusal or filtered it.
    finish : str
        Why it ended: ``stop``, ``length``, ...
    positions : tuple of Position, or None
        The first tokens with their log-probabilities; None where the endpoint gave none.
    served : str
        The model as the endpoint names it, e.g. with its date; empty if it does not.
    tokens_in, tokens_out : int or None
        Tokens as the endpoint counted them.
    tokens_cached : int or None
        Those among ``tokens_in`` that the provider had read before.
    """

    text: str
    refusal: bool = False
    finish: str = "stop"
    positions: tuple[Position, ...] | None = None
    served: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None

    @property
    def tokens(self) -> Tokens:
        """The tokens of question and answer."""
        return self.tokens_in, self.tokens_out

    @property
    def is_starved(self) -> bool:
        """Whether it ended before the model had thought to the end."""
        return self.finish == "length" and transport.wording("unsaid").match(self.text) is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild an answer from ``to_dict``.

        Raises
        ------
        Exception
            Of any class, if it is something else.
        """
        if (held := data["positions"]) is not None:
            held = tuple(map(_kept_position, held))
        answer = cls(**{**data, "positions": held})
        # Each of these raises where it is of another type, or too large to be added up.
        "".join([answer.text, answer.finish, answer.served])
        float(sum(operator.index(n or 0) for n in (*answer.tokens, answer.tokens_cached)))
        return answer


def _kept_position(item: Any) -> Position:
    top = tuple((token, _logprob(logprob)) for token, logprob in item["top"])
    "".join([item["token"], *(token for token, _ in top)])
    return Position(item["token"], _logprob(item["logprob"]), top)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer, in words that hold nothing of what was sent.

    Attributes
    ----------
    reason : str
        The words.
    status : int or None
        The status of HTTP with which the endpoint refused it; None where it was given up.
    """

    reason: str
    status: int | None = None
    #: Whether the model thought to the end of its tokens.
    is_starved: bool = False


def read_answer(body: Any) -> ChatAnswer:
    """Read the body of a chat completion.

    Raises
    ------
    ValueError
        If it is no chat completion with a choice; the message says what is missing.
    """
    with errors_as(ValueError, (TypeError, LookupError, ValueError), "answer_without_choice"):
        choice = body["choices"][0]
        message = dict(choice["message"])
    content, finish = message.get("content"), choice.get("finish_reason")
    if isinstance(content, list):
        # What a model thinks may stand in parts of its own.
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(_text(part.get("text")) for part in parts) if parts else None
    refused = bool(message.get("refusal")) or finish == "content_filter"
    if not (isinstance(content, str) or refused or finish == "length"):
        raise ValueError("the endpoint answered without a text")
    return ChatAnswer(
        text=_text(content),
        refusal=refused,
        finish=_text(finish),
        positions=_positions(choice.get("logprobs")),
        served=_text(body.get("model")),
        tokens_in=read_tokens(body, "prompt_tokens"),
        tokens_out=read_tokens(body, "completion_tokens"),
        tokens_cached=read_tokens(body, "cached_tokens", "prompt_tokens_details"),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _positions(logprobs: Any) -> tuple[Position, ...] | None:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    positions = []
    for place, item in enumerate(content):
        if not isinstance(item, dict) or not isinstance(item.get("token"), str):
            return None
        inside = KEPT_POSITIONS <= place < len(content) - KEPT_POSITIONS
        listed = None if inside else item.get("top_logprobs")
        top = tuple(
            (entry["token"], _logprob(entry.get("logprob")))
            for entry in (listed if isinstance(listed, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("token"), str)
        )
        positions.append(Position(item["token"], _logprob(item.get("logprob")), top))
    return tuple(positions)


def _logprob(value: Any) -> float:
    """Return a log-probability; what is none becomes a number that no check lets pass."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    if value == -math.inf:
        return NEVER
    # A whole number of JSON may be larger than any float.
    return float(value) if -_LARGEST <= value <= _LARGEST else 1.0


def read_tokens(body: dict[str, Any], kind: str, part: str = "") -> int | None:
    """Return how many tokens of a kind an answer says that it took; None where it says none."""
    usage = body.get("usage")
    usage = usage.get(part) if part and isinstance(usage, dict) else usage
    n = usage.get(kind) if isinstance(usage, dict) else None
    is_count = isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _MOST_TOKENS
    return n if is_count else None


Answer = TypeVar("Answer")


class Question(NamedTuple):
    """One thing that would be asked.

    Attributes
    ----------
    key : str
        Digest under which its answer is kept, hexadecimal.
    texts : sequence of str
        What is sent.
    max_tokens : int
        Tokens of the answer at most.
    """

    key: str
    texts: Sequence[str]
    max_tokens: int


class ChatSession(NamedTuple):
    """What one round of asking goes by.

    Attributes
    ----------
    account : Account
        What calls are charged to.
    cache : AnswerCache
        Where answers are kept.
    stop : Event
        Set when nothing more is to be sent.
    """

    account: transport.Account
    cache: AnswerCache
    stop: Event


class RemoteModel:
    """Base of the models behind an OpenAI-compatible endpoint.

    Parameters
    ----------
    name : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.

    Attributes
    ----------
    model : str
        What the user called it.
    usage : Usage
        What it was used for so far.
    """

    #: What is asked for: ``chat`` or ``embedding``.
    kind: str
    #: Questions that one call holds.
    batch = 1

    def __init__(self, name: str, endpoint: str) -> None:
        self.name, self.model, self.endpoint = name, name, endpoint
        self.usage = transport.Usage()
        self._caller = transport.Caller(endpoint)
        self._source = Source(endpoint, name, self.kind)
        self._lock = Lock()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Make a lock that no thread of the parent holds; answers in memory stay good."""
        self._lock = Lock()

    def question(self, item: Any) -> Question:
        """Return what would be asked."""
        raise NotImplementedError

    def knows(self, question: Question) -> bool:
        """Return whether the answer is kept already."""
        return open_cache(transport.account().limits.cache).get(question.key) is not None

    def tokens_so_far(self) -> float | None:
        """Return tokens per character of what was asked before, None if nothing was counted."""
        return open_cache(transport.account().limits.cache).tokens_per_character(self._source)

    def count(self, used: transport.Usage) -> None:
        """Add to what the model was used for."""
        with self._lock:
            self.usage += used

    def count_answer(self, tokens: Tokens, n_cached: int, n_sent: int = 0, read: int = 0) -> None:
        """Count one answer with its tokens, and whether the cache held it (1) or not (0).

        A batch that was sent may have put it there; ``read`` are tokens that the provider knew.
        """
        tokens_in, tokens_out = (n or 0 for n in tokens)
        counted = int(None not in tokens)
        self.count(transport.Usage(1, n_sent, n_cached, 0, tokens_in, tokens_out, counted, read))

    def session(self) -> ChatSession:
        """Return what a round of asking goes by, as it is now."""
        spent = transport.account()
        # Nothing is paid for that could not be counted.
        spent.limits.price_of(self.name)
        return ChatSession(spent, open_cache(spent.limits.cache), spent.stop())

    def ask_each(
        self,
        ask: Callable[[ChatSession, Item], Answer],
        items: Sequence[Item],
        session: ChatSession,
    ) -> Iterator[tuple[Item, Answer]]:
        """Yield every item with what came of asking, as it is ready; see ``each``."""
        before = self._caller.n_sent
        n_threads, done = session.account.limits.concurrency, 0
        try:
            answers = each(partial(ask, session), items, n_threads, session.stop)
            for done, answer in enumerate(answers, start=1):
                yield answer
                report_progress(done / len(items))
            if done < len(items):
                raise CalibrailError("the run was stopped")
        finally:
            self.count(transport.Usage(n_sent=self._caller.n_sent - before))

    def send(
        self,
        body: dict[str, Any],
        session: ChatSession,
        read: Callable[[Any], Answer],
        kind: str = "",
    ) -> Answer:
        """Have one request answered, of the model's own kind unless one is named: `Caller.call`."""
        body, kind = {"model": self.name, **body}, kind or self.kind
        request = transport.ModelRequest(kind, body, session.account, session.stop, read)
        return cast(Answer, self._caller.call(request))

    def keep_answer(
        self,
        session: ChatSession,
        key: str,
        value: dict[str, Any],
        characters: int,
        tokens: Tokens,
        share: float = 1.0,
    ) -> None:
        """Keep an answer, with the tokens that it cost as far as they were counted.

        ``share`` is that of the price which was paid, as in ``Account.answered``.
        """
        session.cache.put(key, value, self._source, characters, tokens)
        session.account.answered((*tokens, value.get("tokens_cached")), self.name, share)


#: Answers held in memory beyond those that were just asked for.
HELD: Final = 4096

Answers = dict[ChatRequest, ChatAnswer | Failure]


class LanguageModel(RemoteModel):
    """A chat model behind an OpenAI-compatible endpoint.

    Use ``load_llm``, which shares one between all scores of a process.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.
    """

    #: No forward pass runs on this machine.
    n_passes = 0
    kind = "chat"

    def __init__(self, model: str, endpoint: str) -> None:
        super().__init__(model, endpoint)
        self._held: Answers = {}
        #: Questions that batches of this process have answered, and nobody has looked up yet.
        self.batched: set[str] = set()
        #: The efforts with which it thinks to the end of what a plain answer takes.
        self.starves: set[str] = set()
        # Deployments of two accounts may share their names.
        address = os.environ.get(f"{endpoint.upper()}_API_BASE", "")
        self._asked = endpoint if "://" in endpoint else f"{endpoint} {address}".rstrip(" /")

    def prepare(self, requests: Iterable[ChatRequest]) -> None:
        """Have every request answered that is not yet: from the cache, or by the endpoint.

        Raises
        ------
        ModelError
            If the endpoint cannot be used at all.
        BudgetError
            If the calls that were allowed are spent.
        """
        self.answers(tuple(requests))

    def renew(self) -> None:
        """Forget what failed: an endpoint that was down may be up again."""
        with self._lock:
            self._held = {k: it for k, it in self._held.items() if not isinstance(it, Failure)}

    def unknown(self, effort: str | None) -> set[str]:
        """Return which parameters the endpoint turned out not to take with an effort."""
        return self._caller.unknown[effort]

    def forget(self, *, count: bool = False) -> None:
        """Drop the answers in memory; the cache keeps its own.

        With ``count`` they count as sent by whoever looks them up.
        """
        with self._lock:
            if count:
                self.batched.update(map(self._key, self._held))
            self._held = {}

    def question(self, item: ChatRequest) -> Question:
        """Return what would be asked."""
        if item.most_tokens:
            raised = self.question(item.raised())
            if item.effort in self.starves or self.knows(raised):
                # So it will of others.
                self.starves.add(item.effort)
                return raised
        return Question(self._key(item), [text for _, text in item.messages], item.max_tokens)

    def answers(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | Failure]:
        """Return the answer to each request, or why there is none; from any thread."""
        wanted = dict.fromkeys(requests)
        with self._lock:
            answers = {key: self._held[key] for key in wanted if key in self._held}
            # What was asked for together with these may yet be looked up.
            if len(answers) < len(wanted) and len(self._held) + len(wanted) - len(answers) > HELD:
                self._held = dict(answers)
        session = self.session()
        unknown = list[ChatRequest]()
        for request in [request for request in wanted if request not in answers]:
            if (known := self._known(session.cache, request)) is not None:
                answers[request] = known
                keys = {self._key(request), self._key(request.raised())} if self.batched else set()
                self._note(request, known, n_cached=int(keys.isdisjoint(self.batched)))
                self.batched.difference_update(keys)
            else:
                unknown.append(request)
        for request, answer in self.ask_each(self._ask, unknown, session):
            answers[request] = answer
            self._note(request, answer)
        return [answers[request] for request in requests]

    def _known(self, cache: AnswerCache, request: ChatRequest) -> ChatAnswer | None:
        """Return the answer that is kept: to the question, or to it with all its tokens."""
        for asked in (request, request.raised())[: 1 + bool(request.most_tokens)]:
            answer: ChatAnswer | None = cache.get(self._key(asked), ChatAnswer.from_dict)
            if answer is not None:
                if asked is not request or (request.most_tokens and answer.is_starved):
                    self.starves.add(request.effort)
                if asked is not request or not (request.most_tokens and answer.is_starved):
                    return answer
        return None

    def _ask(self, session: ChatSession, request: ChatRequest) -> ChatAnswer | Failure:
        # Another process may have asked meanwhile.
        if (known := self._known(session.cache, request)) is not None:
            return known
        if not request.most_tokens:
            return self._asked_once(session, request)
        if request.effort not in self.starves:
            answer = self._asked_once(session, request)
            if not answer.is_starved:
                return answer
            # Learnt for good: a model that thinks less is asked once, and pays for no more.
            self.starves.add(request.effort)
        answer = self._asked_once(session, request.raised())
        # It may be more than a server has room for; what was given up already is not asked again.
        is_refused = isinstance(answer, Failure) and answer.status is not None
        return self._asked_once(session, request) if is_refused else answer

    def _asked_once(self, session: ChatSession, request: ChatRequest) -> ChatAnswer | Failure:
        key, characters = self._key(request), sum(len(text) for _, text in request.messages)
        try:
            answer = self.send(request.parameters(), session, request.read, request.kind)
        except transport.RefusedError as error:
            return Failure(str(error), error.status, transport.OUTPUT_LIMIT in error.about)
        self.keep_answer(session, key, answer.to_dict(), characters, answer.tokens)
        # Where another process was faster, its answer is the one that both keep.
        kept: ChatAnswer | None = session.cache.get(key, ChatAnswer.from_dict)
        return answer if kept is None else kept

    def _note(
        self, request: ChatRequest, answer: ChatAnswer | Failure, n_cached: int | None = None
    ) -> None:
        if isinstance(answer, Failure):
            self.count(transport.Usage(n_failed=1))
        else:
            # What came from the cache, and was not there before, was sent in a batch.
            read = answer.tokens_cached or 0
            self.count_answer(answer.tokens, n_cached or 0, int(n_cached == 0), read)
        with self._lock:
            self._held[request] = answer

    def _key(self, request: ChatRequest) -> str:
        return request.key(self._asked, self.name)


def load_llm(model: str, base_url: str | None = None) -> LanguageModel:
    """Return the process's one chat model of this name at this endpoint; nothing is sent yet.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    base_url : str or None
        See ``resolve_endpoint``.

    Raises
    ------
    InputError
        If the name or the address is none.
    """
    if not isinstance(model, str) or not model:
        raise InputError(f'model must be a name, e.g. model="gpt-6-luna"; got {model!r}')
    return shared(LanguageModel, model, transport.resolve_endpoint(base_url, model))
