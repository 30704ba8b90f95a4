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
from starlette.exceptions import HTTPException
from starlette.responses import Response

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.sentences import listed
from calibrail.data.values import column_value
from calibrail.errors import InputError
from calibrail.guardrail.decision import CauseCode, Outcome
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


class ServiceProblem(HTTPException):
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
        super().__init__(status, detail)
        self.status, self.kind = status, kind
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

    def response_headers(self) -> dict[str, str]:
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
        return Response(self.body(), self.status, self.response_headers(), PROBLEM_TYPE)


def pointer(*path: str | int) -> str:
    """Return a JSON pointer.

    >>> pointer("columns", "a/b", 0)
    '/columns/a~1b/0'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def misread(complaints: Sequence[Any], known: Sequence[str]) -> ServiceProblem:
    """Return the problem of a body that is not what the route takes.

    Parameters
    ----------
    complaints : sequence of dict
        The errors of pydantic.
    known : sequence of str
        The fields that the route takes.
    """
    errors = []
    for item in complaints:
        complaint = WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        errors.append((pointer(*item["loc"]), complaint))
    place, complaint = errors[0]
    detail = f"{place or 'the body'} {complaint}"
    if any(item["type"] in ("missing", "extra_forbidden") for item in complaints):
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


class CauseReply(BaseModel):
    """Where there is no score: why, for programs."""

    code: CauseCode
    error: str = Field("", description="The class of what was raised.")
    timeout: bool = False
    row: int | None = None


class RemovedReply(BaseModel):
    """A sentence that was removed from an answer."""

    start: int
    end: int
    score: float | None
    p_value: float | None
    text: str
    reason: str


class DecisionReply(BaseModel):
    """A line of decisions.jsonl.

    With column, column_value, column_threshold where the score is a column, evidence where it was
    asked for, and text and removed where the guardrail removes sentences.
    """

    model_config = ConfigDict(extra="allow")

    id: str = Field(examples=["answer-1"])
    outcome: Outcome = Field(examples=["pass"])
    score: float | None = Field(examples=[0.1])
    threshold: float | None = Field(examples=[0.333333])
    p_value: float | None = Field(examples=[0.03])
    reason: str = Field(examples=["score 0.1 is below the threshold 0.333333"])
    cause: CauseReply | None = None
    text: str | None = Field(None, description="What may be shown of the answer.")
    removed: list[RemovedReply] | None = None


class BatchReply(BaseModel):
    """The decisions about a batch, in its order."""

    items: list[DecisionReply]


class SelectReply(BaseModel):
    """What `calibrail select --json` prints, with each answer's own line."""

    model_config = ConfigDict(extra="allow")

    items: list[dict[str, Any]] = Field(
        description="id, released, score and p_value of each answer."
    )


class StateReply(BaseModel):
    """Whether the process lives, or the service decides."""

    status: str
    metrics: Literal["incomplete"] | None = Field(
        None, description="Where not all that it did could be counted."
    )


class FieldProblem(BaseModel):
    """One wrong field."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(examples=[f"{KIND}queue-full"])
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] = Field(default_factory=list)


Body = TypeVar("Body", bound=_Body)


def parse(kind: type[Body], raw: bytes) -> Body:
    """Return what a body holds.

    Raises
    ------
    Problem
        If it is not JSON, or has a field that is missing, unknown, given twice or of the wrong
        kind.
    """
    try:
        return kind.model_validate(read_json(raw))
    except ValidationError as error:
        raise misread(error.errors(include_url=False), field_names(kind)) from None


def field_names(kind: type[BaseModel]) -> list[str]:
    """Return the fields of a body as a complaint lists them, those of its items included."""
    names = [*kind.model_fields]
    items = [f"items/0/{name}" for name in Item.model_fields] if "items" in names else []
    return names + items


def read_json(raw: bytes) -> Any:
    """Return what JSON says, where all readers of it would agree on that.

    Raises
    ------
    Problem
        If it is not JSON, gives a field twice, or holds half of a surrogate pair.
    """
    try:
        text = raw.decode()
        content = _ONCE.decode(text)
    except _TwinError:
        faults = list(_faults(_IN_ORDER.decode(text), ()))
    except (ValueError, RecursionError) as error:
        detail = f"the body is not JSON: {error}; send one JSON object"
        raise ServiceProblem(400, "not-json", detail) from None
    else:
        if _SURROGATE.search(raw) is None:
            return content
        if not (faults := list(_faults(_IN_ORDER.decode(text), ()))):
            return content
    errors = [(pointer(*path), complaint) for path, complaint in faults]
    detail = f"{errors[0][0]} {errors[0][1]}"
    raise ServiceProblem(422, "invalid-request", detail, errors=errors)


class _TwinError(Exception):
    """A field is given twice: the service before this one may have read the other value."""


class _OrderedFields(list[tuple[str, Any]]):
    """The fields of an object, in their order."""


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(content := dict(fields)) < len(fields):
        raise _TwinError
    return content


def _whole_number(digits: str) -> int | float:
    # Python refuses to read integers of thousands of digits; as a float they are infinite.
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _faults(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[Any, str]]:
    """Yield the path and the complaint of each field given twice and each half of a surrogate."""
    if isinstance(value, list):
        known = set()
        for name, item in value if isinstance(value, _OrderedFields) else enumerate(value):
            if name in known:
                yield (*path, name), "is given more than once; give it once"
            known.add(name)
            yield from _faults(name, (*path, name))
            yield from _faults(item, (*path, name))
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        yield path, WORDS["string_unicode"]


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: Digits of the longest integer that is read as one.
_MOST_DIGITS: Final = 1_000
_ONCE: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=_whole_number)
_IN_ORDER: Final = json.JSONDecoder(
    object_pairs_hook=_OrderedFields, parse_int=str, parse_float=float
)
