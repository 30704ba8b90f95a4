"""Requests, retries and replies of the client, without any input or output."""

import json
import math
import random
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from calibrail.errors import CalibrailError, InputError, ServiceError
from calibrail.guardrail.decision import Decision
from calibrail.options import fields

if TYPE_CHECKING:
    import httpx2 as httpx


#: Answers that another attempt may better: too much at once, and what proxies say meanwhile.
_PASSING: Final = frozenset({429, 502, 503, 504})

#: Seconds before the second attempt, and the most between two; each is shortened by chance.
_FIRST: Final = 0.1
_LONGEST: Final = 5.0

#: Characters of a reply that an error repeats.
_QUOTED: Final = 200

#: Bytes of a reply that is still read.
_LARGEST: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Asking:
    """Where and how a client asks.

    Parameters
    ----------
    url : str
        Address of the service.
    token : str or None
        What ``CALIBRAIL_TOKEN`` holds there.
    guardrail : str or None
        Which guardrail decides, where there are several.
    timeout : float
        Seconds that a call may take, all attempts included.
    retries : int
        Further attempts where the service could not be reached, or had no room.
    """

    url: str
    token: str | None
    guardrail: str | None
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _is_address(self.url):
            # A password may stand in it: the message does not repeat it.
            raise InputError(
                "url must be an address such as http://127.0.0.1:8000, without a user, a query or "
                "a fragment; a token is given as token"
            )
        token = self.token
        if token is not None and not (
            isinstance(token, str) and token and token.isascii() and token.isprintable()
        ):
            # It is a secret: the message does not repeat it.
            raise InputError("token must be a text of visible ASCII characters")
        if not isinstance(self.guardrail, str | None):
            raise InputError(f"guardrail must be a name; got {self.guardrail!r:.80}")
        if not 0.0 < fields.number(self.timeout, "timeout") < float("inf"):
            raise InputError(f"timeout must be a number of seconds above 0; got {self.timeout!r}")
        fields.whole(self.retries, "retries")

    def options(self) -> dict[str, Any]:
        """Return what httpx is made with."""
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        params: dict[str, str] = {} if self.guardrail is None else {"guardrail": self.guardrail}
        options: dict[str, Any] = {
            "base_url": self.url.rstrip("/"),
            "headers": headers,
            "params": params,
            # A proxy that the environment names for other things would read token and texts.
            "trust_env": False,
        }
        if urlsplit(self.url).scheme == "http":
            # Reading the certificates of all authorities takes longer than a decision; a context
            # without any trusts nobody.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            # Authorities that SSL_CERT_FILE or SSL_CERT_DIR name are trusted as elsewhere.
            options["verify"] = http().create_ssl_context()
        return options


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        named = bool(host) and not any(character.isspace() for character in url)
        return (
            named
            and parts.scheme in ("http", "https")
            and (parts.port is None or parts.port > 0)
            and not (parts.query or parts.fragment or parts.username or parts.password)
        )
    except ValueError:
        return False


def http() -> ModuleType:
    """Return httpx.

    Raises
    ------
    CalibrailError
        If it is not installed.
    """
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise CalibrailError("the client needs httpx2: pip install 'calibrail[client]'") from error
    return httpx2


Result = TypeVar("Result")

_FIELDS = ("response", "question", "contexts", "id", "samples", "columns")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request, and how its reply is read.

    Attributes
    ----------
    path : str
        Below the service's address.
    body : bytes or None
        What is sent; None asks with GET.
    read : callable
        Takes the JSON of a reply; raises `InputError` where it is not one to this request.
    once : bool
        Whether it is asked without retries.
    """

    path: str
    body: bytes | None
    read: Callable[[Any], Result]
    once: bool = False

    @property
    def method(self) -> str:
        """GET or POST."""
        return "GET" if self.body is None else "POST"

    @property
    def headers(self) -> dict[str, str]:
        """What a body is said to be."""
        return {} if self.body is None else {"Content-Type": "application/json"}

    def result(self, raw: bytes) -> Result:
        """Return what a reply says.

        Raises
        ------
        ServiceError
            If it is none, or not one to what was asked.
        """
        try:
            text = raw.decode("utf-8", "surrogatepass")
            return self.read(json.loads(text, parse_constant=_refuse, object_pairs_hook=_object))
        except (ValueError, InputError, RecursionError) as error:
            raise ServiceError(
                f"what answers {self.path} is no calibrail service, or not whole: {error}",
                status=200,
            ) from error


class Attempts:
    """The attempts of one call: what to send, what a reply means, and how long to wait.

    It neither sends nor waits: the clients do, each in its own way.

    Parameters
    ----------
    asking : Asking
        How often, and how long.
    call : Call
        What is asked.

    Attributes
    ----------
    pause : float
        Seconds to wait before the next one.
    """

    def __init__(self, asking: Asking, call: Call[Any]) -> None:
        self._asking, self._call = asking, call
        self._retries = 0 if call.once else asking.retries
        self._what = f"{call.method} {call.path} of {asking.url}"
        self._end = time.monotonic() + asking.timeout
        self._n = self._size = 0
        self.pause = 0.0

    @property
    def left(self) -> float:
        """Seconds until the call must have ended."""
        return max(0.0, self._end - time.monotonic())

    def request(self) -> dict[str, Any]:
        """Return what httpx sends; each of its steps ends in time, however many there are."""
        self._size = 0
        return {
            "method": self._call.method,
            "url": self._call.path,
            "content": self._call.body,
            "headers": self._call.headers,
            "extensions": {"timeout": _Left(self)},
        }

    def received(self, part: bytes) -> bytes:
        """Return a part of a reply.

        Raises
        ------
        ServiceError
            If time is over, or the reply has no end.
        """
        self._size += len(part)
        if self._size > _LARGEST:
            raise ServiceError(f"{self._what}: the reply is larger than {_LARGEST:,} bytes")
        if not self.left:
            raise self.late()
        return part

    def late(self) -> ServiceError:
        """Return the error that time is over."""
        return ServiceError(f"{self._what}: no answer within {self._asking.timeout:g} s")

    def failed(self, error: Exception) -> None:
        """Take that the service could not be reached.

        Raises
        ------
        ServiceError
            If it is not asked again.
        """
        if isinstance(error, http().TimeoutException) or not self.left:
            raise self.late() from error
        self._wait(ServiceError(f"{self._what}: {str(error) or type(error).__name__}"), None)

    def answered(self, response: "httpx.Response", raw: bytes) -> bool:
        """Return whether a reply is one to read.

        Raises
        ------
        ServiceError
            If the service refused, and is not asked again.
        """
        status = response.status_code
        if status == 200:
            return True
        error = refusal(self._what, status, raw)
        if status not in _PASSING:
            raise error
        self._wait(error, retry_after(response.headers.get("Retry-After")))
        return False

    def _wait(self, error: ServiceError, wait: float | None) -> None:
        """Set the pause before the next attempt; raise the error where there is none."""
        longest = min(_LONGEST, _FIRST * 2.0**self._n)
        pause = random.uniform(0.5, 1.0) * longest
        if wait is not None:
            # Not all who were refused at once come back at once.
            pause = max(pause, wait + random.uniform(0.0, 0.1) * wait)
        if self._n >= self._retries or pause >= self.left:
            raise error
        self._n, self.pause = self._n + 1, pause


def not_ready(error: ServiceError) -> bool:
    """Return False where an error says no more than that the service does not decide now.

    Raises
    ------
    ServiceError
        If it says something else.
    """
    if error.status is None or error.status in _PASSING:
        return False
    raise error


def refusal(what: str, status: int, raw: bytes) -> ServiceError:
    """Return the error that a reply says which is none.

    Parameters
    ----------
    what : str
        What was asked.
    status : int
        Of HTTP.
    raw : bytes
        The reply.
    """
    detail, problem = raw[:_QUOTED].decode("utf-8", "replace"), ""
    try:
        content = json.loads(raw)
        problem = str(content["type"]).rpartition(":")[2]
        detail = str(content["detail"])
    except (ValueError, LookupError, TypeError, RecursionError):
        # Not the service's own words: those of something before it.
        pass
    called = f"{status} ({problem})" if problem else f"{status}"
    return ServiceError(f"{what}: {called}: {detail}", status=status, problem=problem)


class _Left(dict[str, float]):
    """The time limits of httpx's steps, each read when its step begins."""

    def __init__(self, attempts: Attempts) -> None:
        super().__init__()
        self._attempts = attempts

    def get(self, name: str, default: Any = None) -> float:
        # Zero would mean not to wait at all, which is another error.
        return max(self._attempts.left, 1e-3)


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, which may hold a date.

    >>> retry_after("7"), retry_after("soon"), retry_after("Fri, 01 Jan 2010 00:00:00 GMT")
    (7.0, None, 0.0)
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def check_call(item: Mapping[str, Any], evidence: bool) -> Call[Decision]:
    """Return the request for one decision; the item holds what ``Guardrail.check`` takes."""
    sent, id = with_id(answer(item))

    def read(reply: Any) -> Decision:
        return decision_about(reply, sent["id"], id, "the reply")

    return Call("/v1/check", _encoded({**sent, **_evidence_field(evidence)}), read)


def batch_call(items: Sequence[object], evidence: bool) -> Call[list[Decision]]:
    """Return the request for a decision about each answer."""
    sent, ids = zip(*map(with_id, answers(items)), strict=True)

    def read(reply: Any) -> list[Decision]:
        replies = _items(reply, len(sent))
        return [
            decision_about(given, item["id"], id, f"item {place}")
            for place, (given, item, id) in enumerate(zip(replies, sent, ids, strict=True))
        ]

    return Call("/v1/check/batch", _encoded({"items": sent, **_evidence_field(evidence)}), read)


def select_call(items: Sequence[object], **release: object) -> Call[dict[str, Any]]:
    """Return the request for which answers may be released; the options are those of `select`."""
    sent, ids = zip(*map(with_id, answers(items)), strict=True)

    def read(reply: Any) -> dict[str, Any]:
        replies = _items(reply, len(sent))
        for place, (given, item) in enumerate(zip(replies, sent, strict=True)):
            if not isinstance(given, dict) or given.get("id") != item["id"]:
                raise InputError(f"item {place} is not about the answer with the id {item['id']!r}")
            if not isinstance(given.get("released"), bool):
                raise InputError(f"item {place} does not say whether the answer is released")
            p_value = given.get("p_value")
            if given["released"] and not (isinstance(p_value, int | float) and 0 < p_value <= 1):
                raise InputError(f"item {place} is released with the p_value {p_value!r:.80}")
        n = sum(item["released"] for item in replies)
        if reply.get("n_released") != n:
            raise InputError(f"n_released is {reply.get('n_released')!r}, and {n} items are")
        named = [{**given, "id": id} for given, id in zip(replies, ids, strict=True)]
        return {**reply, "items": named}

    return Call("/v1/select", _encoded({"items": sent, **release}), read)


def guardrail_call() -> Call[dict[str, Any]]:
    """Return the request for what decides."""

    def read(reply: Any) -> dict[str, Any]:
        if not isinstance(reply, dict):
            raise InputError("an object was expected")
        return reply

    return Call("/v1/guardrail", None, read)


def ready_call() -> Call[bool]:
    """Return the question whether the service decides."""

    def read(reply: Any) -> bool:
        if not isinstance(reply, dict) or reply.get("status") != "ready":
            raise InputError('{"status": "ready"} was expected')
        return True

    return Call("/readyz", None, read, once=True)


def answers(items: Sequence[object]) -> list[dict[str, Any]]:
    """Return answers as they are sent.

    Raises
    ------
    InputError
        If there is none, or one is no answer; it is named.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise InputError(f"items must be a list of answers; got {items!r:.80}")
    if not items:
        raise InputError("items must hold an answer at least; got none")
    sent = []
    for place, item in enumerate(items):
        try:
            sent.append(answer(item))
        except InputError as error:
            raise InputError(f"items[{place}]: {error}") from error
    return sent


def answer(item: object) -> dict[str, Any]:
    """Return one answer as it is sent: a mapping of what ``check`` takes, or an ``Example``."""
    if not isinstance(item, Mapping):
        if not hasattr(item, "response"):
            raise InputError(f"an answer is a dict or an Example; got {item!r:.80}")
        item = {name: getattr(item, name) for name in _FIELDS if hasattr(item, name)}
    if unknown := sorted(set(item) - set(_FIELDS)):
        raise InputError(f"{unknown[0]} is no field of an answer; they are {', '.join(_FIELDS)}")
    for name in ("response", "question", "id"):
        if not isinstance(item.get(name, ""), str):
            raise InputError(f"{name} must be a text; got {item[name]!r:.80}")
    contexts, columns = item.get("contexts", ()), item.get("columns")
    if not isinstance(columns, Mapping | None):
        raise InputError(f"columns must be a dict; got {columns!r:.80}")
    if isinstance(contexts, str):
        contexts = (contexts,)
    return {
        "response": item.get("response", ""),
        "question": item.get("question", ""),
        "contexts": fields.texts(contexts, "contexts"),
        "id": item.get("id", ""),
        "samples": fields.texts(item.get("samples", ()), "samples"),
        "columns": {name: _cells(name, value) for name, value in (columns or {}).items()},
    }


def with_id(item: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return an answer as it is sent, and the id that its caller gave.

    Without one it gets an id that no other answer has: decisions that came back in another order
    would not be noticed otherwise.
    """
    return {**item, "id": item["id"] or secrets.token_hex(16)}, item["id"]


def _cells(name: object, value: object) -> float | str | bool | list[float | None] | None:
    """Return a column's value, or the list of those of an answer's sentences."""
    if not isinstance(name, str):
        raise InputError(f"a column's name must be a text; got {name!r:.80}")
    if isinstance(value, str | bool):
        return value
    if isinstance(value, Sequence):
        return [_number(name, item) for item in value]
    return _number(name, value)


def _number(name: str, value: object) -> float | None:
    """Return a number; NaN is how tables hold nothing."""
    if value is None:
        return None
    number = fields.number(value, name)
    if math.isinf(number):
        raise InputError(f"columns: {name} must be a finite number; got {value!r}")
    return None if math.isnan(number) else number


def _evidence_field(evidence: bool) -> dict[str, bool]:
    fields.yes_or_no(evidence, "evidence")
    return {"evidence": True} if evidence else {}


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, allow_nan=False).encode()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a field stands twice in one object")
    return content


def decision_about(reply: Any, sent: str, id: str, place: str) -> Decision:
    """Return a decision about the answer that was sent by one id and is known by another."""
    decision = Decision.from_dict(reply)
    if decision.id != sent:
        raise InputError(f"{place} is about the answer {decision.id!r:.80}, not about {sent!r:.80}")
    # A detector of one's own that failed is quoted with the id that it was given.
    return replace(decision, id=id, reason=decision.reason.replace(sent, id))


def _items(reply: Any, n: int) -> list[Any]:
    items = reply.get("items") if isinstance(reply, dict) else None
    if not isinstance(items, list):
        raise InputError("an object with a list of items was expected")
    if len(items) != n:
        raise InputError(f"{len(items)} items came back for {n}")
    return items
