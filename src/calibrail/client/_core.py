"""Requests, retries and replies of the client, without any input or output."""

import json
import math
import random
import secrets
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit

from calibrail.errors import CalibrailError, InputError, ServiceError, errors_as
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
        token = self.token
        if not isinstance(self.url, str) or not _is_address(self.url):
            # A password may stand in it: the message does not repeat it.
            raise InputError.on("client_url")
        is_text = isinstance(token, str) and token and token.isascii() and token.isprintable()
        if token is not None and not is_text:
            # It is a secret: the message does not repeat it.
            raise InputError("token must be a text of visible ASCII characters")
        fields.seconds(self.timeout, "timeout")
        fields.whole(self.retries, "retries")

    def options(self) -> dict[str, Any]:
        """Return what httpx is made with."""
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        # Reading the certificates of all authorities takes longer than a decision; a context
        # without any trusts nobody. SSL_CERT_FILE and SSL_CERT_DIR count as elsewhere.
        plain = urlsplit(self.url).scheme == "http"
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else http().create_ssl_context()
        return {
            "base_url": self.url.rstrip("/"),
            "headers": headers,
            "params": {} if self.guardrail is None else {"guardrail": self.guardrail},
            # A proxy that the environment names for other things would read token and texts.
            "trust_env": False,
            "verify": verify,
        }


def _is_address(url: str) -> bool:
    with suppress(ValueError):
        parts = urlsplit(url)
        beside = (parts.query, parts.fragment, parts.username, parts.password)
        host = (parts.hostname or "").encode("idna")
        known = parts.scheme in ("http", "https") and parts.port != 0
        # urlsplit drops tabs and line breaks in silence.
        spaced = any(character.isspace() for character in url)
        return known and bool(host) and not spaced and not any(beside)
    return False


def http() -> ModuleType:
    """Return httpx.

    Raises
    ------
    CalibrailError
        If it is not installed.
    """
    with errors_as(CalibrailError, ModuleNotFoundError, "httpx_missing"):
        import httpx2
    return httpx2


Result = TypeVar("Result")
#: What a call under asyncio gives.
Coming: TypeAlias = Coroutine[Any, Any, Result]

_FIELDS = ("response", "question", "contexts", "id", "samples", "columns")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request, and how its reply is read.

    Attributes
    ----------
    path : str
        Below the service's address.
    body : mapping or None
        What is sent as JSON; None asks with GET.
    read : callable
        Takes the JSON of a reply; raises `InputError` where it is not one to this request.
    once : bool
        Whether it is asked without retries.
    """

    path: str
    body: Mapping[str, Any] | None
    read: Callable[[Any], Result]
    once: bool = False

    def result(self, raw: bytes) -> Result:
        """Return what a reply says.

        Raises
        ------
        ServiceError
            If it is none, or not one to what was asked.
        """
        with no_service(self.path, 200):
            text = raw.decode("utf-8", "surrogatepass")
            return self.read(json.loads(text, object_pairs_hook=_object))


def no_service(path: str, status: int) -> AbstractContextManager[None]:
    """Raise what shows that a reply is none, within the block, as a `ServiceError`."""
    odd = (ValueError, TypeError, LookupError, InputError, RecursionError)
    return errors_as(partial(ServiceError, status=status), odd, "no_service", path=path)


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
        self._method = "GET" if call.body is None else "POST"
        self._what = f"{self._method} {call.path} of {asking.url}"
        self._end = time.monotonic() + asking.timeout
        self._body = None if call.body is None else json.dumps(call.body, allow_nan=False).encode()
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
            "method": self._method,
            "url": self._call.path,
            "content": self._body,
            "headers": {} if self._call.body is None else {"Content-Type": "application/json"},
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
        self._wait(ServiceError(f"{self._what}: {str(error) or type(error).__name__}"), 0.0)

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
        self._wait(error, _seconds(response.headers.get("Retry-After", "")))
        return False

    def _wait(self, error: ServiceError, least: float) -> None:
        """Set the pause before the next attempt; raise the error where there is none."""
        longest = min(_LONGEST, _FIRST * 2.0**self._n)
        # Not all who were refused at once come back at once.
        pause = max(random.uniform(0.5, 1.0) * longest, random.uniform(1.0, 1.1) * least)
        if self._n >= self._retries or pause >= self.left:
            raise error
        self._n, self.pause = self._n + 1, pause


def _seconds(asked: str) -> float:
    """Return how long ``Retry-After`` asks to wait, until a date, too; 0 where it makes no sense.

    >>> _seconds("7"), _seconds("soon"), _seconds("Fri, 01 Jan 2010 00:00:00 GMT")
    (7.0, 0.0, 0.0)
    """
    if asked.isdecimal():
        return float(asked)
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    return 0.0


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
    # What is not in the service's own words is said by something before it.
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        content = json.loads(raw)
        problem = str(content["type"]).rpartition(":")[2]
        detail = str(content["detail"])
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


def object_of(reply: Any) -> dict[str, Any]:
    """Return a reply that is an object."""
    if not isinstance(reply, dict):
        raise InputError("an object was expected")
    return reply


def is_released(item: Mapping[str, Any]) -> bool:
    """Return whether an answer is released; it has a p-value then.

    What is neither true nor false releases nothing.
    """
    released = item["released"]
    if not (0 < item["p_value"] <= 1 if released is True else released is False):
        raise InputError("it does not say of each answer whether it is released")
    return bool(released)


def _ready(reply: Any) -> bool:
    if reply["status"] != "ready":
        raise InputError('{"status": "ready"} was expected')
    return True


#: The question whether the service decides.
READY: Final = Call("/readyz", None, _ready, once=True)


def answers(items: Sequence[object]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return answers as they are sent, and the ids that their caller gave.

    Raises
    ------
    InputError
        If there is none, or one is no answer; it is named.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise InputError(f"items must be a list of answers; got {items!r:.80}")
    if not items:
        raise InputError("items must hold an answer at least; got none")
    sent, ids = [], []
    for place, item in enumerate(items):
        with errors_as(InputError, InputError, "item_wrong", place=place):
            each, id = answer(item)
        sent.append(each)
        ids.append(id)
    return sent, ids


def answer(item: object) -> tuple[dict[str, Any], str]:
    """Return one answer as it is sent, and the id that its caller gave.

    Without one it gets an id that no other answer has: decisions that came back in another order
    would not be noticed otherwise.

    Parameters
    ----------
    item : dict or Example
        What ``check`` takes.
    """
    if not isinstance(item, Mapping):
        if not hasattr(item, "response"):
            raise InputError(f"an answer is a dict or an Example; got {item!r:.80}")
        item = {name: getattr(item, name) for name in _FIELDS if hasattr(item, name)}
    if unknown := sorted(set(item) - set(_FIELDS)):
        raise InputError(f"{unknown[0]} is no field of an answer; they are {', '.join(_FIELDS)}")
    texts = {name: item.get(name, "") for name in ("response", "question", "id")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InputError(f"{name} must be a text; got {text!r:.80}")
    contexts, columns = item.get("contexts", ()), item.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise InputError(f"columns must be a dict; got {columns!r:.80}")
    sent = {
        **texts,
        "id": texts["id"] or secrets.token_hex(16),
        "contexts": [contexts] if isinstance(contexts, str) else fields.texts(contexts, "contexts"),
        "samples": fields.texts(item.get("samples", ()), "samples"),
        "columns": {name: _cell(name, value) for name, value in columns.items()},
    }
    return sent, texts["id"]


def _cell(name: str, value: object) -> Any:
    """Return a column's value, or the list of those of an answer's sentences."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Sequence):
        return [_cell(name, item) for item in value]
    number = fields.number(value, name)
    if math.isinf(number):
        raise InputError(f"columns: {name} must be a finite number; got {value!r}")
    # NaN is how tables hold nothing.
    return None if math.isnan(number) else number


def telling(evidence: bool, probability: bool, base_rate: float | None) -> dict[str, bool | float]:
    """Return the fields that ask what a decision is to tell."""
    asked = {"evidence": evidence, "probability": probability}
    for name, value in asked.items():
        fields.yes_or_no(value, name)
    rate = {} if base_rate is None else {"base_rate": fields.share(base_rate, "base_rate")}
    return {name: True for name, value in asked.items() if value} | rate


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a field stands twice in one object")
    return content


def decision_about(reply: Any, sent: str, id: str) -> Decision:
    """Return a decision about the answer that was sent by one id and is known by another."""
    decision = Decision.from_dict(reply)
    if decision.id != sent:
        raise InputError(f"it is about the answer {decision.id!r:.80}, not about {sent!r:.80}")
    return replace(decision, id=id)


def items_of(reply: Any, sent: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the items of a reply, which are about what was sent, in its order."""
    items = reply["items"]
    if [item["id"] for item in items] != [item["id"] for item in sent]:
        raise InputError(f"its items are not about the {len(sent)} answers, in their order")
    return list(items)
