"""What is sent to a service, and what of its replies is believed?"""

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from calibrail.errors import InputError, ServiceError
from calibrail.guardrail.decision import Decision
from calibrail.settings import checks

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
    """

    path: str
    body: bytes | None
    read: Callable[[Any], Result]

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


def check_call(item: Mapping[str, Any], evidence: bool) -> Call[Decision]:
    """Return the request for one decision; the item holds what ``Guardrail.check`` takes."""
    sent, id = named(answer(item))

    def read(reply: Any) -> Decision:
        return decision_about(reply, sent["id"], id, "the reply")

    return Call("/v1/check", _encoded({**sent, **_asking(evidence)}), read)


def batch_call(items: Sequence[object], evidence: bool) -> Call[list[Decision]]:
    """Return the request for a decision about each answer."""
    sent, ids = zip(*map(named, answers(items)), strict=True)

    def read(reply: Any) -> list[Decision]:
        replies = _items(reply, len(sent))
        return [
            decision_about(given, item["id"], id, f"item {place}")
            for place, (given, item, id) in enumerate(zip(replies, sent, ids, strict=True))
        ]

    return Call("/v1/check/batch", _encoded({"items": sent, **_asking(evidence)}), read)


def select_call(items: Sequence[object], **release: object) -> Call[dict[str, Any]]:
    """Return the request for which answers may be released; the options are those of `select`."""
    sent, ids = zip(*map(named, answers(items)), strict=True)

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

    return Call("/readyz", None, read)


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
        "contexts": checks.texts(contexts, "contexts"),
        "id": item.get("id", ""),
        "samples": checks.texts(item.get("samples", ()), "samples"),
        "columns": {name: _cells(name, value) for name, value in (columns or {}).items()},
    }


def named(item: dict[str, Any]) -> tuple[dict[str, Any], str]:
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
    number = checks.number(value, name)
    if math.isinf(number):
        raise InputError(f"columns: {name} must be a finite number; got {value!r}")
    return None if math.isnan(number) else number


def _asking(evidence: bool) -> dict[str, bool]:
    checks.yes_or_no(evidence, "evidence")
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
