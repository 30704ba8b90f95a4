"""Bodies of requests and responses, and problem details (RFC 9457).

Problem details (RFC 9457), with the place of each wrong field as a JSON pointer (RFC 6901).
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.responses import Response

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.sentences import listed
from calibrail.data.values import column_value
from calibrail.errors import InputError
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import SelectionMethod
from calibrail.options.guarantee import Unit
from calibrail.scores.base import Score
from calibrail.scores.registry import ColumnScore

#: Environment variable of the token that requests must bring.
TOKEN_VARIABLE: Final = "CALIBRAIL_TOKEN"
PROBLEM_TYPE: Final = "application/problem+json"
#: What comes before a problem's name, in its type.
KIND: Final = "urn:calibrail:problem:"

#: What each type of pydantic's complaints says here, where its own words do not help.
WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request; take it out, or correct its name",
    "string_type": "must be a text",
    "string_unicode": "must be a text of whole characters; it holds half of a surrogate pair",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "float_type": "must be a number",
}


class ServiceProblem(Exception):  # noqa: N818 - the name of the standard
    """A refusal.

    Parameters
    ----------
    status : int
        Of HTTP.
    kind : str
        The problem's name, e.g. ``queue-full``.
    detail : str
        What was wrong with this request, and what to do.
    errors : sequence of (str, str)
        JSON pointer and complaint of each wrong field.
    retry_after : int or None
        Seconds after which the same request may be sent again.
    close : bool
        Whether the connection ends with the answer.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors, self.retry_after, self.close = errors, retry_after, close

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as an object of RFC 9457."""
        content: dict[str, Any] = {
            "type": KIND + self.kind,
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            content["errors"] = [
                {"pointer": pointer, "detail": detail} for pointer, detail in self.errors
            ]
        return content

    def body(self) -> bytes:
        """Return the JSON of the problem; ASCII, so that no text of a request can break it."""
        return json.dumps(self.to_dict()).encode()

    def headers(self) -> dict[str, str]:
        """Return the headers beside the type and the length."""
        headers = {"Cache-Control": "no-store"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.close:
            headers["Connection"] = "close"
        return headers

    def response(self) -> Response:
        """Return the answer that says it."""
        return Response(self.body(), self.status, self.headers(), PROBLEM_TYPE)


def pointer(*path: str | int) -> str:
    """Return a JSON pointer.

    >>> pointer("columns", "a/b", 0)
    '/columns/a~1b/0'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def misread(error: ValidationError, known: Sequence[str]) -> ServiceProblem:
    """Return the problem of a body that is not JSON, or not what the route takes.

    Parameters
    ----------
    error : ValidationError
        What pydantic says.
    known : sequence of str
        The fields that the route takes.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        what = found[0]["msg"].removeprefix("Invalid JSON: ")
        return ServiceProblem(
            400, "not-json", f"the body is not JSON: {what}; send one JSON object"
        )
    errors = []
    for item in found:
        complaint = WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        errors.append((pointer(*item["loc"]), complaint))
    place, complaint = errors[0]
    detail = f"{place or 'the body'} {complaint}"
    if any(item["type"] in ("missing", "extra_forbidden") for item in found):
        detail += f"; the fields are {', '.join(known)}"
    return ServiceProblem(422, "invalid-request", detail, errors=errors)


def _one_or_more(value: object) -> object:
    """Take one text for a list of one."""
    return [value] if isinstance(value, str) else value


#: A number as a table would hold it, and Python's other ways to write one not.
_DECIMAL: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def _cell(value: object) -> object:
    """Return a cell as it was sent, where there is any use for it."""
    each = value if isinstance(value, list) else [value]
    if isinstance(value, dict) or not all(map(_finite, each)):
        raise ValueError("must be a finite number, a text, true, false, null or a list of numbers")
    if isinstance(value, list) and any(
        isinstance(item, str | bool | list | dict) for item in value
    ):
        raise ValueError("must hold a number or null for each sentence")
    return value


def _finite(value: object) -> bool:
    """Return whether a value is no number, or one that fits the numbers scores are made of."""
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        return False


def _is_number(value: object, unit: Unit) -> bool:
    """Return whether a cell that a score reads is a number, nothing, or a list of them."""
    if unit == "sentence" and (isinstance(value, list) or listed(value) is not None):
        # How many there must be depends on the answer.
        return True
    if isinstance(value, str):
        return _DECIMAL.fullmatch(value) is not None and math.isfinite(float(value))
    return not isinstance(value, bool | list)


def fields_read(guardrail: Guardrail) -> list[tuple[str, ...]]:
    """Return the path of each field that a request must have for a guardrail."""
    samples = ("samples",) if "samples" in guardrail.score.requires else ()
    paths: list[tuple[str, ...]] = [(name,) for name in (*guardrail.texts, *samples)]
    return paths + [("columns", name) for name in guardrail.columns if name != ALL_COLUMNS]


def _numeric(score: Score) -> set[str]:
    """Return the columns that a score, or a member of it, takes as they are."""
    if isinstance(score, ColumnScore):
        return {score.column}
    members = getattr(score, "members", {})
    return set().union(*map(_numeric, members.values())) if isinstance(members, dict) else set()


_Texts = Annotated[list[str], BeforeValidator(_one_or_more, json_schema_input_type=list[str] | str)]
_Cell = Annotated[
    Any,
    BeforeValidator(_cell, json_schema_input_type=float | str | bool | list[float | None] | None),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Item(_Body):
    """One answer to decide about."""

    response: str | None = Field(None, description="The answer.")
    question: str | None = Field(None, description="What was asked.")
    contexts: _Texts | None = Field(None, description="The retrieved chunks, in their order.")
    id: str = Field("", description="Carried into the decision.")
    samples: list[str] | None = Field(
        None,
        description="Further answers sampled for the question, where the guardrail reads them.",
    )
    columns: dict[str, _Cell] = Field(
        default_factory=dict,
        description="Columns that the guardrail reads: a score, a group. For a guardrail of "
        "sentences a score may be a list with a number for each.",
    )

    def example(
        self, guardrail: Guardrail, place: tuple[str | int, ...] = (), *, begun: bool = False
    ) -> Example:
        """Return the answer, or what is known of it before its first word where it has ``begun``.

        What the guardrail reads must be there, though it may be empty: a field that was forgotten
        is no answer without one.

        Raises
        ------
        Problem
            If a field that the guardrail reads is missing, or a score's cell is no number.
        """
        errors = [
            (pointer(*place, *path), "is missing; this guardrail reads it")
            for path in fields_read(guardrail)
            if not self._has(*path) and not (begun and path == ("response",))
        ] + [
            (
                pointer(*place, "columns", name),
                "must be a number or null; the score reads it",
            )
            for name in sorted(_numeric(guardrail.score) & self.columns.keys())
            if not _is_number(self.columns[name], guardrail.unit)
        ]
        if guardrail.unit == "answer":
            errors += [
                (pointer(*place, "columns", name), "must be one value, and no list")
                for name, cell in self.columns.items()
                if isinstance(cell, list) and name not in _numeric(guardrail.score)
            ]
        if begun and self.response is not None:
            errors.append((pointer(*place, "response"), "comes in the lines after this one"))
        if errors:
            raise _invalid(errors)
        example = Example(
            self.question or "",
            tuple(self.contexts or ()),
            self.response or "",
            id=self.id,
            samples=tuple(self.samples or ()),
            columns={
                name: json.dumps(cell) if isinstance(cell, list) else column_value(cell)
                for name, cell in self.columns.items()
            },
        )
        if any(listed(cell) is not None for cell in example.columns.values()):
            try:
                guardrail.sentences(example)  # each of them needs its own
            except InputError as error:
                raise _invalid([(pointer(*place, "columns"), f"does not fit: {error}")]) from None
        return example

    def _has(self, name: str, column: str | None = None) -> bool:
        return getattr(self, name) is not None if column is None else column in self.columns


def _invalid(errors: list[tuple[str, str]]) -> ServiceProblem:
    return ServiceProblem(422, "invalid-request", f"{errors[0][0]} {errors[0][1]}", errors=errors)


class Check(Item):
    """One answer, and whether its decision is to say what it rests on."""

    evidence: bool = Field(
        False, description="Say what the score rests on; the answer is then scored by itself."
    )


class CheckBatch(_Body):
    """Answers to decide about, each by itself."""

    items: list[Item] = Field(min_length=1)
    evidence: bool = Field(False, description="As for one answer.")


class Select(_Body):
    """Answers to release as many of as the bound allows."""

    items: list[Item] = Field(min_length=1)
    fdr: float = Field(description="Bound of the share of hallucinated answers among the released.")
    method: Literal["auto", SelectionMethod] = "auto"
    confidence: float = 0.95


Body = TypeVar("Body", bound=_Body)

#: Words for the fields of each body.
_FIELDS: Final = {
    Item: tuple(Item.model_fields),
    Check: tuple(Check.model_fields),
    CheckBatch: (*CheckBatch.model_fields, *(f"items/0/{name}" for name in Item.model_fields)),
    Select: (*Select.model_fields, *(f"items/0/{name}" for name in Item.model_fields)),
}


def parse(kind: type[Body], raw: bytes) -> Body:
    """Return what a body holds.

    Raises
    ------
    Problem
        If it is not JSON, or has a field that is missing, unknown, given twice or of the wrong
        kind.
    """
    try:
        body = kind.model_validate_json(raw)
    except ValidationError as error:
        raise _halved(raw) or misread(error, _FIELDS[kind]) from None
    # Readers differ in which of two they take: the one before this service may have seen another.
    try:
        _STRICT.decode(raw.decode())
    except _Twice:
        raise _given_twice(raw) from None
    return body


def _once(fields: list[tuple[str, Any]]) -> None:
    if len(fields) > len({name for name, _ in fields}):
        raise _Twice


class _Twice(Exception):  # noqa: N818 - a mark, not a failure
    """A field is given twice."""


class _OrderedFields(list[tuple[str, Any]]):
    """The fields of an object, in their order."""


def _places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield the path of each name and of each value, and what stands there."""
    if isinstance(value, _OrderedFields):
        for name, item in value:
            yield (*path, name), name
            yield from _places(item, (*path, name))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _places(item, (*path, place))
    else:
        yield path, value


def _given_twice(raw: bytes) -> ServiceProblem:
    """Return the problem of a body in which some object has a field more than once."""

    def find(value: object, path: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
        if not isinstance(value, list):
            return None
        items = value if isinstance(value, _OrderedFields) else enumerate(value)
        known = set()
        for name, item in items:
            if name in known:
                return (*path, name)
            known.add(name)
            if found := find(item, (*path, name)):
                return found
        return None

    place = pointer(*(find(_IN_ORDER.decode(raw.decode()), ()) or ()))
    what = "is given more than once; give it once"
    return ServiceProblem(422, "invalid-request", f"{place} {what}", errors=[(place, what)])


def _halved(raw: bytes) -> ServiceProblem | None:
    """Return the problem of a body with half of a surrogate pair, if it is one.

    The parser takes it for JSON that ends too soon.
    """
    if _SURROGATE.search(raw) is None:
        return None
    try:
        content = _IN_ORDER.decode(raw.decode())
        halves = [path for path, text in _places(content) if isinstance(text, str) and _half(text)]
    except (ValueError, RecursionError):
        return None
    errors = [(pointer(*path), WORDS["string_unicode"]) for path in halves]
    return (
        None
        if not errors
        else ServiceProblem(422, "invalid-request", f"{errors[0][0]} {errors[0][1]}", errors=errors)
    )


def _half(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: Reads every field, in the order in which it stands.
_IN_ORDER: Final = json.JSONDecoder(
    object_pairs_hook=_OrderedFields, parse_int=str, parse_float=str
)
#: Reads for the sake of what it refuses; numbers may be longer than Python's own limit.
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)
