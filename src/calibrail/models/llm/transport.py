"""Requests to an endpoint: sent, retried, limited and paid for."""

import email.utils
import importlib.util
import ipaddress
import json
import math
import operator
import os
import random
import re
import time
from base64 import b64encode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit
from weakref import WeakSet

from calibrail.errors import CalibrailError, InputError, ModelError, errors_as, variable_set
from calibrail.models.hardware import leave_to_parent, renewed, waited_for
from calibrail.options.fields import cli_or_python, numbers, seconds, setting, whole, yes_or_no

#: Environment variable with the file of the answer cache; ``off`` keeps answers in memory only.
CACHE_VARIABLE: Final = "CALIBRAIL_CACHE"


class BudgetError(CalibrailError):
    """The calls that were allowed are spent; what was answered is kept."""


def default_cache() -> Path | None:
    """Return the file of the answer cache: ``CALIBRAIL_CACHE``, or one in the user's cache folder.

    None where the environment says ``off``.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return None if named == "off" else Path(named).expanduser()
    return cache_folder() / "answers.sqlite"


def cache_folder() -> Path:
    """Return calibrail's folder within the user's cache folder, ``XDG_CACHE_HOME``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "calibrail"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    Attributes
    ----------
    tokens_in, tokens_out : float
        Of what is sent and of what is answered.
    tokens_cached : float or None
        Of what is sent and the provider has read before; None where that costs the same.
    """

    tokens_in: float
    tokens_out: float
    tokens_cached: float | None = None

    def of(self, tokens_in: float, tokens_out: float, tokens_cached: float = 0) -> float:
        """Return what so many tokens cost, in US dollars; the cached ones are among those sent.

        >>> Price(0.15, 0.6).of(1_000_000, 10_000)
        0.156
        >>> Price(1.0, 0.0, 0.1).of(1_000_000, 0, 500_000)
        0.55
        """
        cached = self.tokens_in if self.tokens_cached is None else self.tokens_cached
        sent = self.tokens_in * (tokens_in - tokens_cached) + cached * tokens_cached
        return (sent + self.tokens_out * tokens_out) / 1e6


#: Prices are looked up in the table of the provider library.
AUTO: Final = "auto"

#: What a request in a batch costs, of what it costs by itself.
BATCH_SHARE: Final = 0.5


@lru_cache(maxsize=1)
def _prices() -> Mapping[str, Mapping[str, Any]]:
    """Return litellm's table of prices, which is read as a file: the library is not imported."""
    spec = importlib.util.find_spec("litellm")
    with errors_as(InputError, (ValueError, OSError), "no_table_of_prices"):
        (folder,) = (spec and spec.submodule_search_locations) or [""]
        path = Path(folder) / "model_prices_and_context_window_backup.json"
        table: Mapping[str, Mapping[str, Any]] = json.loads(path.read_bytes())
    return table


@lru_cache(maxsize=64)
def table_price(model: str) -> Price:
    """Return what a model costs by the table of the provider library; nothing is sent.

    Raises
    ------
    InputError
        If the library is not installed, or does not know the model.
    """
    known_as = (model, model.removeprefix("openai/"), model.removeprefix("anthropic/"))
    entry: Mapping[str, Any] = next(filter(None, map(_prices().get, known_as)), {})
    names = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
    costs = [entry.get(name) for name in names]
    if costs[0] is None or costs[1] is None:
        raise InputError.on("price_not_in_table", model=model)
    # The table's prices are per token.
    sent, out, cached = (None if cost is None else round(1e6 * cost, 9) for cost in costs)
    return Price(sent or 0.0, out or 0.0, cached)


def read_price(text: str) -> Price | Literal["auto"]:
    """Return the price that ``IN,OUT``, or ``IN,OUT,CACHED``, stands for.

    Raises
    ------
    InputError
        If these are not two amounts of money, or three.

    >>> read_price("0.15,0.60")
    Price(tokens_in=0.15, tokens_out=0.6, tokens_cached=None)
    """
    if text == AUTO:
        return "auto"
    amounts = numbers(text, float)
    if len(amounts) not in (2, 3) or not all(0.0 <= amount < math.inf for amount in amounts):
        raise InputError.on("price_no_amounts", text=text)
    return Price(*amounts)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model was used for so far; figures only grow.

    Attributes
    ----------
    n_answers : int
        Distinct requests that were answered, by the endpoint or the cache.
    n_sent : int
        Requests sent, further attempts included.
    n_cached : int
        Answers that the cache held.
    n_failed : int
        Requests that got no answer.
    tokens_in, tokens_out : int
        Tokens of all answers, the cached ones included, as the endpoint counted them.
    n_counted : int
        Answers whose tokens were counted.
    tokens_cached : int
        Those among ``tokens_in`` that the provider had read before.
    """

    n_answers: int = 0
    n_sent: int = 0
    n_cached: int = 0
    n_failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    n_counted: int = 0
    tokens_cached: int = 0

    def __sub__(self, other: Self) -> Self:
        return type(self)(*map(operator.sub, astuple(self), astuple(other)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class CallLimits:
    """How calls to an endpoint are limited. Limits do not change what a judge says.

    Parameters
    ----------
    concurrency : int
        Calls in flight at most.
    timeout : float
        Seconds that one call may take, its whole body included.
    attempts : int
        Times that one request is sent at most, where the endpoint is busy, fails or cannot be
        reached.
    max_calls : int or None
        Calls in all, further attempts included; None for no limit.
    price : Price, "auto" or None
        For the cost per 1,000 answers: None where it is not known, ``"auto"`` where litellm's table
        of prices knows it.
    cache : Path or None
        SQLite file with the answers so far; None for this process's memory.
    patience : float
        Longest wait, in seconds, that an endpoint may ask for (Retry-After) before an example is
        given up.
    batch : bool
        Whether what is asked in one go is asked through the provider's batch API, at half price:
        it may take a day, and a run that was interrupted picks it up. It needs a ``cache``.
    """

    panel: ClassVar = "Calls to endpoints"

    concurrency: int = setting(default=8, metavar="N")
    timeout: float = setting(default=60.0, metavar="SECONDS")
    attempts: int = 6
    max_calls: int | None = setting(default=None, metavar="N")
    price: Price | Literal["auto"] | None = setting(
        default=None, metavar="IN,OUT", parse=read_price
    )
    cache: Path | None = field(default_factory=default_cache)
    patience: float = 300.0
    batch: bool = setting(default=False)

    def __post_init__(self) -> None:
        whole(self.concurrency, "concurrency", least=1)
        whole(self.attempts, "attempts", least=1)
        if self.max_calls is not None:
            whole(self.max_calls, "max_calls")
        for name in ("timeout", "patience"):
            seconds(getattr(self, name), name)
        yes_or_no(self.batch, "batch")
        if self.batch and self.cache is None:
            raise InputError.on("batch_without_cache", variable=CACHE_VARIABLE)

    def price_of(self, model: str) -> Price | None:
        """Return what a model costs, None where that is not known.

        Raises
        ------
        InputError
            If it is to be looked up, and cannot be.
        """
        return table_price(model) if self.price == "auto" else self.price


class Account:
    """What was spent under one set of limits, by all models and threads.

    Parameters
    ----------
    limits : CallLimits
        The limits.
    watch : callable, optional
        Called with the number of answers so far whenever one comes in, from any thread.
    """

    def __init__(self, limits: CallLimits, watch: Callable[[int], None] | None = None) -> None:
        self.limits = limits
        self.n_sent = self.n_answered = 0
        self._dollars = 0.0
        self._watch = watch
        self._lock = Lock()
        self._stops, self._is_over, self._outer = WeakSet[Event](), False, _current.get()
        renewed(self)

    def stop(self) -> Event:
        """Return what one round of asking sets when it ends, and ``end`` for all of them.

        The ``end`` of an account around this one sets it as well.
        """
        stop = Event() if self._outer is None else self._outer.stop()
        with self._lock:
            self._stops.add(stop)
            if self._is_over:
                stop.set()
            return stop

    def end(self) -> None:
        """Send nothing more, from any thread: nobody waits for an answer."""
        with self._lock:
            self._is_over = True
            for stop in self._stops:
                stop.set()

    def renew_after_fork(self) -> None:
        """Make a lock that no thread of the parent holds; each process spends for itself."""
        self._lock = Lock()

    def spend(self) -> None:
        """Count one call that is about to be sent.

        Raises
        ------
        BudgetError
            If no more may be sent.
        """
        with self._lock:
            limit = self.limits.max_calls
            if limit is not None and self.n_sent >= limit:
                larger = cli_or_python("--max-calls", "CallLimits(max_calls=...)")
                raise BudgetError.on("budget_spent", limit=limit, n=self.n_answered, larger=larger)
            self.n_sent += 1

    def answered(
        self, tokens: Sequence[int | None] = (), model: str = "", share: float = 1.0
    ) -> None:
        """Count one answer, and what it cost.

        Parameters
        ----------
        tokens : sequence of (int or None)
            Those sent and answered, and which of those sent were cached, where they are known.
        model : str
            What answered.
        share : float
            Of the price, for an answer in a batch.
        """
        price = self.limits.price_of(model)
        sent, out, cached = (*(n or 0 for n in tokens), 0, 0, 0)[:3]
        with self._lock:
            self.n_answered += 1
            self._dollars += 0.0 if price is None else share * price.of(sent, out, cached)
            if self._watch is not None:
                self._watch(self.n_answered)

    def watch_batch(self, n_done: int) -> None:
        """Tell whoever watches how many answers there are, those done in a batch among them."""
        with self._lock:
            if self._watch is not None:
                self._watch(self.n_answered + n_done)

    def dollars(self) -> float | None:
        """Return what the answers so far have cost; None where none was asked for, or no price."""
        is_known = self.limits.price is not None and (self.n_sent or self.n_answered)
        return self._dollars if is_known else None


_current: ContextVar[Account | None] = ContextVar("calibrail_account", default=None)


def account() -> Account:
    """Return the account that calls are charged to: the innermost ``limit_calls``, or a new one."""
    return _current.get() or Account(CallLimits())


def limit_calls(
    limits: CallLimits | None = None, watch: Callable[[int], None] | None = None
) -> AbstractContextManager[Account]:
    """Limit all calls made within the block.

    Parameters
    ----------
    limits : CallLimits, optional
        The limits; the usual ones when left out.
    watch : callable, optional
        Called with the number of answers so far.

    Examples
    --------
    >>> with limit_calls(CallLimits(max_calls=100, concurrency=16)) as spent:
    ...     pass  # calibrate(..., "judge:model=...")
    >>> spent.n_sent
    0
    """
    return variable_set(_current, Account(limits or CallLimits(), watch))


def no_calls() -> AbstractContextManager[Account]:
    """Send nothing within the block: what was answered before is looked up.

    What would be sent raises `BudgetError`.
    """
    return limit_calls(replace(account().limits, max_calls=0))


OPENAI: Final = "https://api.openai.com/v1"

#: Environment variables with the address and the key, as the OpenAI SDK names them.
ADDRESS_VARIABLE: Final = "OPENAI_BASE_URL"
KEY_VARIABLE: Final = "OPENAI_API_KEY"

_PROVIDER: Final = re.compile("[a-z][a-z0-9_]*")
# What clients read in one way only: no spaces, control characters or backslashes.
_PLAIN: Final = re.compile(r"[^\s\\\x00-\x1f\x7f]+")


def resolve_endpoint(base_url: str | None, model: str = "") -> str:
    """Return the address of an OpenAI-compatible endpoint, or the name of a provider.

    Parameters
    ----------
    base_url : str or None
        E.g. ``http://localhost:8000/v1``; None for ``OPENAI_BASE_URL``, or OpenAI itself.
    model : str
        The model's name. Where no address is given, here or in the environment, what stands before
        its first slash names a provider: ``anthropic/claude-haiku-5-5``. So does a ``base_url``
        that repeats it, as a guardrail holds it.

    Raises
    ------
    InputError
        If it is no http(s) address, or holds a password, a query or a fragment: a key belongs into
        the environment, since addresses stand in reports and guardrails.

    Examples
    --------
    >>> resolve_endpoint("http://localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    provider, slash, _ = model.partition("/")
    is_named = bool(slash) and _PROVIDER.fullmatch(provider) is not None
    if base_url is None:
        base_url = os.environ.get(ADDRESS_VARIABLE) or (provider if is_named else OPENAI)
    if is_named and base_url == provider:
        return provider
    # A key within a wrong address is not to stand in a message.
    remedy = "write http://HOST/v1 or https://HOST/v1"
    address = str(base_url).strip()
    try:
        parts = urlsplit(address)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        raise InputError(f"base_url is no address; {remedy}") from None
    if parts.scheme not in ("http", "https") or not host or not _PLAIN.fullmatch(address):
        raise InputError(f"base_url is no address of a web server; {remedy}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError.on("address_with_key", variable=KEY_VARIABLE)
    return address.rstrip("/")


def takes_batches(endpoint: str) -> bool:
    """Return whether it is known how an endpoint would take batches."""
    return "://" in endpoint or endpoint in ("openai", "anthropic")


def key_for(endpoint: str) -> str | None:
    """Return the key that may be sent to an endpoint, None where none may be or none is set.

    The key of the environment goes to OpenAI, to the endpoint that the environment names
    (``OPENAI_BASE_URL``) and to this machine itself. Any other address may come from a file
    written by someone else, such as a guardrail, and gets no key.

    Raises
    ------
    ModelError
        If OpenAI is to be called and there is no key.
    """
    if not is_trusted(endpoint):
        return None
    # A file that holds a key usually ends in a newline.
    key = os.environ.get(KEY_VARIABLE, "").strip() or None
    if endpoint == OPENAI and key is None:
        raise ModelError.on("key_missing", openai=OPENAI, key_variable=KEY_VARIABLE)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ModelError(f"the environment variable {KEY_VARIABLE} holds more than a key")
    return key


def is_trusted(endpoint: str) -> bool:
    """Return whether what the environment says of OpenAI, the key above all, may go there."""
    return is_usual(endpoint) or is_loopback(urlsplit(endpoint).hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def is_usual(endpoint: str) -> bool:
    """Return whether it is OpenAI, a provider by its name, or what the environment names."""
    named = os.environ.get(ADDRESS_VARIABLE, "").strip().rstrip("/")
    return "://" not in endpoint or endpoint in (OPENAI, named)


#: Bytes of a body that are read at most: of embeddings, of any other answer, and for each of its
#: tokens, alone and with the likeliest others.
MAX_BODY: Final = 256 * 2**20
_MOST_OF_CHAT: Final = 256 * 2**10
_OF_TOKEN: Final = 64
_OF_TOKEN_WITH_OTHERS: Final = 4096


def most_bytes(kind: str, body: Mapping[str, Any]) -> int:
    """Return how many bytes the answer to a request may have: what was asked for fits well."""
    if kind == "embedding":
        return MAX_BODY
    tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    each = _OF_TOKEN_WITH_OTHERS if body.get("logprobs") else _OF_TOKEN
    return _MOST_OF_CHAT + each * int(tokens)


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return what a call gives, whose own time-out is one of silence, within so many seconds.

    Raises
    ------
    TimeoutError
        If it is not there by then. Nothing waits for it any more, the end of the process included.
    """
    answer = Future[Any]()

    def complete() -> None:
        waited_for()
        try:
            answer.set_result(call())
        except InvalidStateError:
            # It came too late for anybody.
            return
        except Exception as error:
            with suppress(InvalidStateError):
                answer.set_exception(error)

    Thread(target=copy_context().run, args=(complete,), daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        answer.cancel()
        raise


#: Letters of a key: none has fewer, and no run of so many of them comes back out of an answer.
_SHORTEST_KEY: Final = 12
#: A letter as it is, or as JSON or an address escapes it.
_ESCAPED: Final = re.compile(r"(?:%|\\u00|\\x)([0-9a-f]{2})", re.IGNORECASE)
_LETTER: Final = re.compile(f"{_ESCAPED.pattern}|.", re.IGNORECASE | re.DOTALL)


#: Error codes are words such as ``context_length_exceeded``; anything longer may quote the prompt.
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

#: How endpoints say that a model thought until nothing was left for its answer.
_STARVED: Final = "could not finish the message"
#: What stands for it in ``RefusedError.about``.
OUTPUT_LIMIT: Final = "output limit"
#: How endpoints say that a text exceeds what the model reads.
_TOO_LONG: Final = ("context length", "maximum context", "too many tokens", "too long")
#: How they say that a model has the Responses API alone.
NO_CHAT: Final = "v1/responses"


class AgainError(Exception):
    """A request that may succeed when it is sent again.

    Parameters
    ----------
    reason : str
        What happened, without anything that was sent.
    wait : float or None
        Seconds that the endpoint asks for.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


class RefusedError(Exception):
    """A request that the endpoint does not take, however often it is sent.

    Parameters
    ----------
    reason : str
        What happened, without anything that was sent.
    about : collection of str
        Parameters of the request that the endpoint's message speaks of, the first one first.
    too_long : bool
        Whether the text exceeds what the model reads.
    """

    #: The status of HTTP with which it was refused; None where it was given up.
    status: int | None = None

    def __init__(self, reason: str, about: Collection[str] = (), too_long: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.about, self.too_long = reason, about, too_long


class NoRouteError(ModelError):
    """The endpoint does not offer what was asked for, whatever the request."""


def _without_key(value: Any, key: str | None) -> Any:
    """Return an answer that gives no long run of the key back: parts of it stand in files and logs.

    What is shorter than any key is left: local servers take a word for one.
    """
    if key is None or len(key) < _SHORTEST_KEY:
        return value
    if isinstance(value, dict):
        return {name: _without_key(item, key) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_key(item, key) for item in value]
    return _redacted(value, key) if isinstance(value, str) and value[_SHORTEST_KEY - 1 :] else value


def _redacted(text: str, key: str) -> str:
    """Return a text in which ``[key]`` stands for every run of the key, in any of its spellings."""
    # Most texts escape nothing, and hold no run as it is: they are not taken apart.
    if not _ESCAPED.search(text) and not any(run in text for run in _runs(key)):
        return text
    letters = [(match[0], _letter(match)) for match in _LETTER.finditer(text)]
    plain, runs = "".join(letter for _, letter in letters), _runs(key)
    starts = [i for i in range(len(plain)) if plain[i : i + _SHORTEST_KEY] in runs]
    hidden = {i + offset for i in starts for offset in range(_SHORTEST_KEY)}
    for i in hidden:
        letters[i] = ("" if i - 1 in hidden else "[key]", "")
    return "".join(shown for shown, _ in letters)


def _letter(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[0]


@lru_cache(maxsize=64)
def _runs(key: str) -> frozenset[str]:
    """Return every 12 letters in a row of a key as it is and, whatever stands before, in base64."""
    raw, forms = key.encode("utf-8", "surrogatepass"), [key, _LETTER.sub(_letter, key)]
    for before in range(3):
        # What stands before and behind it decides the first and the last letters.
        begin, end = -(-8 * before // 6), (8 * (before + len(raw))) // 6
        for made in (b64encode, urlsafe_b64encode):
            forms.append(made(bytes(before) + raw).decode()[begin:end])
    n = _SHORTEST_KEY
    return frozenset(form[i : i + n] for form in forms for i in range(len(form) - n + 1))


@lru_cache
def wording(name: str) -> re.Pattern[str]:
    """Return a pattern of what endpoints answer; read at first use, as a start asks none."""
    from calibrail.text.words import patterns

    return re.compile(patterns("endpoints")[name])


def explained(
    endpoint: str,
    status: int,
    code: str,
    text: tuple[str, str],
    headers: Mapping[str, str],
    remedies: Mapping[int, str],
) -> Exception:
    """Return what an error status means; nothing of the endpoint's prose is passed on.

    Parameters
    ----------
    endpoint : str
        Who answered.
    status, code : int, str
        Of the answer.
    text : (str, str)
        Where the message names a parameter, and the message.
    headers : mapping
        Of the answer.
    remedies : mapping
        What ends the run, by status.
    """
    reason = f"HTTP {status}" + (f" ({code})" if code else "")
    # The message may quote the prompt; it is asked only where no parameter is named.
    named, message = (part.lower() for part in text)
    if code == "insufficient_quota":
        return ModelError(f"{endpoint} answered {reason}: the account is used up")
    if status in (408, 409, 425, 429) or status >= 500:
        return AgainError(reason, _retry_after(headers))
    if NO_CHAT in message:
        return ModelError.on("responses_alone", endpoint=endpoint, reason=reason)
    moved = dict.fromkeys(range(300, 400), "it has moved; name its new address")
    if hopeless := {**moved, **remedies}.get(status):
        return ModelError(f"{endpoint} answered {reason}: {hopeless}")
    if _STARVED in message:
        return RefusedError(f"{reason}: the model thought to the end of max_tokens", [OUTPUT_LIMIT])
    about = list(dict.fromkeys(wording("parameters").findall(named)))
    quoted = named == message and not wording("no_temperature").search(message)
    if "temperature" in about and quoted:
        about.remove("temperature")
    said = code in ("context_length_exceeded", "string_above_max_length")
    too_long = said or status == 413 or any(sign in message for sign in _TOO_LONG)
    if too_long:
        reason += ": longer than the model reads"
    elif about:
        reason += f" about {', '.join(sorted(about))}"
    refused = RefusedError(reason, about, too_long)
    refused.status = status
    return refused


#: Bytes that are read of the body of an HTTP error, as it is sent.
ERROR_BYTES: Final = 1 << 14


def cut_body(response: Any, most: int = 0) -> None:
    """Read no more of a body, before the library reads all of it.

    Parameters
    ----------
    response : object
        As the HTTP library gives it, not read.
    most : int
        Bytes, as they are sent; 0 for all. Of an error no more is read than says what it is.
    """
    if most := ERROR_BYTES if response.status_code >= 300 else most:
        library, content = type(response).__module__.partition(".")[0], bytearray()
        for part in response.stream:
            content += part
            if len(content) >= most:
                break
        response.stream.close()
        response.stream = importlib.import_module(library).ByteStream(bytes(content[:most]))


HOOKS: Final[Mapping[str, Any]] = {"response": [cut_body]}


def connection_errors() -> tuple[type[Exception], ...]:
    """Return what a connection raises when it breaks while a body is read."""
    broken: tuple[type[Exception], ...] = (OSError,)
    for name in ("httpx2", "httpx"):
        with suppress(ImportError):
            broken += (importlib.import_module(name).HTTPError,)
    return broken


def code_in(*values: object) -> str:
    """Return the first value that is a code of an error, or nothing."""
    return next((v for v in values if isinstance(v, str) and _CODE.fullmatch(v)), "")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as a number or a date."""
    with suppress(ValueError):
        if FIRST_WAIT <= (seconds := float(headers.get("retry-after-ms", "")) / 1000.0) < math.inf:
            return seconds
    asked = headers.get("retry-after") or ""
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    # A shorter wait than our own first one asks for nothing.
    return seconds if FIRST_WAIT <= seconds < math.inf else None


#: Waits between attempts, in seconds: the first, and the longest that is not asked for.
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0

#: Times that a request waits for as long as it is asked to.
MOST_WAITS: Final = 50

#: So many requests in a row without an answer mean that the endpoint, not an example, is at fault.
ALL_FAIL: Final = 40

#: The same before anything was ever answered: then it is the address, the network, the server.
FIRST_FAIL: Final = 4

#: A request that any model answers, and where its answer stands, by kind.
_HARMLESS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "chat": ({"messages": [{"role": "user", "content": "Say yes."}]}, "choices"),
    "embedding": ({"input": ["yes"]}, "data"),
    "decisions": ({"input": "Yes."}, "answers"),
    "systemone": ({"state": "Yes."}, "answers"),
}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is to be sent, on whose account, and what is made of the answer.

    Attributes
    ----------
    kind : {"chat", "embedding", "decisions", "systemone"}
        What is asked for.
    body : mapping
        The fields of the request.
    account : Account
        What calls are charged to, with its limits.
    stop : Event
        Set when nothing more is to be sent.
    read : callable
        Makes a value of the JSON answer, or raises ValueError with what is wrong with it.
    """

    kind: str
    body: Mapping[str, Any]
    account: Account
    stop: Event
    read: Callable[[Any], Any]


class Caller:
    """Sends requests to one endpoint, from any thread.

    What an endpoint does not know is left out from then on: ``max_tokens`` becomes
    ``max_completion_tokens``, log-probabilities that are not to be had are not asked for, an
    answer in a shape that it cannot promise is asked for in words alone, and a model that takes no
    temperature goes by its own. A model may know more with one effort than with another.

    Parameters
    ----------
    endpoint : str
        Address.
    transport : object, optional
        What sends, by a method ``send`` like that of `OpenAITransport`, which is taken when left
        out.
    """

    def __init__(self, endpoint: str, transport: Any = None) -> None:
        self.endpoint, self._transport = endpoint, transport
        self._makes_transport = transport is None
        self.n_sent = self._in_a_row = 0
        self._ever_answered = False
        self._hold_until = 0.0
        self._lock = Lock()
        #: What the endpoint turned out not to know, by effort.
        self.unknown = defaultdict[str | None, set[str]](set)
        renewed(self)

    def renew_after_fork(self) -> None:
        """Open connections of this process's own: replies on the parent's are the parent's."""
        self._lock = Lock()
        if self._makes_transport:
            leave_to_parent(self._transport)
            self._transport = None

    def call(self, request: ModelRequest) -> Any:
        """Send a request until its ``read`` accepts the answer, and return what it made of it.

        Being asked to wait is no failure: a rate limit lets some of those pass that wait for it,
        so that one request may have to wait many times. All wait, but not for quite as long, or
        they would come back as one.

        Raises
        ------
        RefusedError
            If it failed for good; the reason names the last failure.
        ModelError, BudgetError
            If no request can succeed, or none may be sent.
        """
        limits, stop = request.account.limits, request.stop
        # Once nothing is answered any more, one attempt tells whether it is again.
        attempts = 1 if self._in_a_row >= ALL_FAIL else limits.attempts
        n_attempts, n_waits, waited = 0, 0, 0.0
        while True:
            try:
                result = self._send(request)
            except AgainError as error:
                spread = random.uniform(0.0, FIRST_WAIT)
                if error.wait is None:
                    n_attempts += 1
                    is_last = n_attempts >= attempts
                    pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(n_attempts - 1, 30)) + spread
                else:
                    n_waits, waited = n_waits + 1, waited + error.wait
                    is_last = n_waits > MOST_WAITS or waited > limits.patience
                    pause = error.wait * random.uniform(1.0, 1.5) + spread
                if is_last or stop.is_set():
                    n = n_attempts + (error.wait is not None)
                    reason = f"{error.reason}, asked {'once' if n == 1 else f'{n} times'}"
                    if error.wait is not None:
                        reason += f"; the endpoint asks to wait {error.wait:g} s"
                    most = ALL_FAIL if self._ever_answered else FIRST_FAIL
                    raise self._given_up(request, RefusedError(reason), most) from None
                if error.wait is not None:
                    with self._lock:
                        self._hold_until = max(self._hold_until, time.monotonic() + error.wait)
                stop.wait(pause)
            except RefusedError as error:
                # Too long is this request's own fault; all else may be that of every request.
                fault = error if error.too_long else self._given_up(request, error, ALL_FAIL)
                raise fault from None
            else:
                self._in_a_row, self._ever_answered = 0, True
                return result

    def _given_up(self, request: ModelRequest, error: RefusedError, most: int) -> Exception:
        """Return what it means that a request failed for good: whose fault that is."""
        with self._lock:
            row = self._in_a_row = self._in_a_row + 1
        if request.stop.is_set() or row < most or self._answers(request):
            return error
        return ModelError.on("none_answered", of=self, row=row, error=error)

    def _answers(self, request: ModelRequest) -> bool:
        """Return whether the endpoint answers such a request about a text that is harmless."""
        harmless, expected = _HARMLESS[request.kind]
        plain = replace(request, body={**request.body, **harmless}, read=lambda answer: answer)
        try:
            answer = self._send(plain)
        except (AgainError, RefusedError):
            return False
        if is_answer := isinstance(answer, dict) and bool(answer.get(expected)):
            self._in_a_row = 0
        return is_answer

    def _send(self, request: ModelRequest) -> Any:
        """Send once, and once more in other words where the endpoint does not know some."""
        while True:
            if (wait := self._hold_until - time.monotonic()) > 0.0:
                request.stop.wait(wait)
            if request.stop.is_set():
                raise RefusedError("the run was stopped")
            fields = self._known(request.body)
            request.account.spend()
            with self._lock:
                self.n_sent += 1
                if self._transport is None:
                    self._transport = _transport(self.endpoint)
            try:
                answer = self._transport.send(request.kind, fields, request.account.limits.timeout)
            except RefusedError as error:
                if not error.too_long and self._learn(error.about, fields):
                    continue
                if {*error.about} & fields.keys() == {"reasoning_effort"}:
                    asked = fields["reasoning_effort"]
                    raise ModelError.on(
                        "effort_refused", of=self, asked=asked, error=error
                    ) from None
                raise
            try:
                return request.read(answer)
            except ValueError as error:
                raise AgainError(str(error)) from None

    def _known(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request without what the endpoint does not know."""
        unknown = self.unknown[body.get("reasoning_effort")]
        fields = {n: value for n, value in body.items() if n == "top_logprobs" or n not in unknown}
        if "max_tokens" in body and "max_tokens" in unknown:
            fields["max_completion_tokens"] = body["max_tokens"]
        if "logprobs" in unknown:
            fields.pop("top_logprobs", None)
        elif "top_logprobs" in unknown and "top_logprobs" in fields:
            fields["top_logprobs"] = min(5, fields["top_logprobs"])
        return fields

    def _learn(self, about: Collection[str], fields: Mapping[str, Any]) -> bool:
        """Note what the endpoint does not know; return whether the request can be put otherwise."""
        sent = [name for name in about if name in fields]
        with self._lock:
            unknown = self.unknown[fields.get("reasoning_effort")]
            if "logprobs" not in sent and "top_logprobs" in sent and fields["top_logprobs"] > 5:
                # Some list five at most.
                unknown.add("top_logprobs")
            elif {"logprobs", "top_logprobs"} & {*sent}:
                unknown.add("logprobs")
            else:
                # Another effort is not what was asked for, and no limit would be a dear one.
                kept = ("reasoning_effort", "max_completion_tokens")
                unknown.update([name for name in sent if name not in kept][:1])
            # Another thread may have learnt it since this request was put together.
            return self._known(fields) != dict(fields)


def _transport(endpoint: str) -> Any:
    """Return what sends to an address, or to a provider by its name."""
    from calibrail.models.llm.providers import OpenAITransport, ProviderTransport

    return (OpenAITransport if "://" in endpoint else ProviderTransport)(endpoint)
