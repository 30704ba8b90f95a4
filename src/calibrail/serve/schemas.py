"""Bodies of requests and responses, and problem details (RFC 9457).

Problem details (RFC 9457), with the place of each wrong field as a JSON pointer (RFC 6901).
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeVar

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.sentences import listed
from calibrail.data.values import column_value
from calibrail.errors import InputError, tables_beside
from calibrail.guardrail.decision import CauseCode, Outcome
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import SelectionMethod
from calibrail.options.guarantee import Unit
from calibrail.scores.base import Score, parts_of
from calibrail.scores.registry import ColumnScore

#: Environment variable of the token that requests must bring.
TOKEN_VARIABLE: Final = "CALIBRAIL_TOKEN"
PROBLEM_TYPE: Final = "application/problem+json"
#: Wrong fields that a problem lists, and characters of each of its texts.
MOST_FINDINGS: Final = 20
_MOST_TEXT: Final = 1_000
#: Fields that a body or an item may have, known or not, and columns.
_MOST_FIELDS: Final = 1_000
#: What comes before a problem's name, in its type.
KIND: Final = "urn:calibrail:problem:"

_PROBLEMS: Final = tables_beside(__file__, "problems.toml")
#: What each type of pydantic's complaints says here, where its own words do not help.
WORDS: Final[Mapping[str, str]] = _PROBLEMS.pop("words")
#: What OpenAPI says of fields and parameters, and an answer that it shows.
FIELDS: Final[Mapping[str, str]] = _PROBLEMS.pop("fields")
EXAMPLE: Final[Mapping[str, Any]] = _PROBLEMS.pop("example")


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
        if len(errors) > MOST_FINDINGS:
            detail += f"; the first {MOST_FINDINGS} findings are listed"
        super().__init__(status, detail := _bounded(detail))
        self.status, self.kind, self.detail = status, kind, detail
        self.errors = [(_bounded(at), _bounded(what)) for at, what in errors[:MOST_FINDINGS]]
        self.retry_after, self.close = retry_after, close

    @classmethod
    def of(cls, case: str, **given: object) -> "ServiceProblem":
        """Return the problem of a case of ``problems.toml``; what was given stands in its words."""
        known = dict(_PROBLEMS[case])
        detail = known.pop("detail").format(**given)
        return cls(known.pop("status"), known.pop("kind"), detail, **known)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as an object of RFC 9457."""
        content: dict[str, Any] = {
            "type": KIND + self.kind,
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            content["errors"] = [{"pointer": k, "detail": it} for k, it in self.errors]
        return content

    def response(self) -> Response:
        """Return the answer that says it; ASCII, so that no text of a request can break it."""
        headers = {"Cache-Control": "no-store"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.close:
            headers["Connection"] = "close"
        return Response(json.dumps(self.to_dict()).encode(), self.status, headers, PROBLEM_TYPE)


def _bounded(text: str) -> str:
    """Return a text of a problem, cut, and without halves of surrogate pairs."""
    cut = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} ..."
    return cut.encode("utf-8", "replace").decode()


def pointer(*path: str | int) -> str:
    """Return a JSON pointer.

    >>> pointer("columns", "a/b", 0)
    '/columns/a~1b/0'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def invalid(errors: Sequence[tuple[str, str]], more: str = "") -> ServiceProblem:
    """Return the problem of fields that are wrong, by the pointer and the complaint of each."""
    detail = f"{errors[0][0] or 'the body'} {errors[0][1]}{more}"
    return ServiceProblem(422, "invalid-request", detail, errors=errors)


def _one_or_more(value: object) -> object:
    """Take one text for a list of one."""
    return [value] if isinstance(value, str) else value


def _cell(value: object) -> object:
    """Return a cell as it was sent, where there is any use for it."""
    each = value if isinstance(value, list) else [value]
    numbers = [item for item in each if isinstance(item, int | float)]
    # Of integers that are too large for a float, too, this is a comparison, and no conversion.
    if isinstance(value, dict) or not all(abs(item) <= sys.float_info.max for item in numbers):
        raise ValueError("must be a finite number, a text, true, false, null or a list of numbers")
    if isinstance(value, list) and any(
        isinstance(item, str | bool | list | dict) for item in value
    ):
        raise ValueError("must hold a number or null for each sentence")
    return value


def _is_number(value: object, unit: Unit, score: ColumnScore) -> bool:
    """Return whether a cell that a score reads is a number, nothing, or a list of them.

    A verdict is a number, too.
    """
    if unit == "sentence" and (isinstance(value, list) or listed(value) is not None):
        # How many there must be depends on the answer.
        return True
    number = score.number(value)
    return value is None or (number is not None and math.isfinite(number))


def fields_read(guardrail: Guardrail) -> list[tuple[str, ...]]:
    """Return the path of each field that a request must have for a guardrail."""
    samples = ("samples",) if "samples" in guardrail.score.requires else ()
    paths: list[tuple[str, ...]] = [(name,) for name in (*guardrail.texts, *samples)]
    return paths + [("columns", name) for name in guardrail.columns if name != ALL_COLUMNS]


def _numeric(score: Score) -> dict[str, ColumnScore]:
    """Return what reads each column that a score, or a member of it, takes as it is."""
    return {part.column: part for part in parts_of(score) if isinstance(part, ColumnScore)}


class _FirstWrong(pydantic.FailFast):
    """Of a list the first wrong element is told, and no further one looked at."""

    #: An alternative of a type must have one.
    __hash__ = object.__hash__


_Texts = Annotated[
    list[str], _FirstWrong(), BeforeValidator(_one_or_more, json_schema_input_type=list[str] | str)
]
_Cell = Annotated[
    Any,
    BeforeValidator(_cell, json_schema_input_type=float | str | bool | list[float | None] | None),
]


def _few(value: Any, what: str) -> Any:
    """Refuse an object of many fields before each of them is a finding."""
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise ValueError(f"has {len(value):,} {what}; send at most {_MOST_FIELDS:,}")
    return value


_Columns = Annotated[dict[str, _Cell], BeforeValidator(partial(_few, what="columns"))]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        return _few(value, "fields")


class Item(_Body):
    """One answer to decide about."""

    response: str | None = Field(None, description="The answer.")
    question: str | None = Field(None, description="What was asked.")
    contexts: _Texts | None = Field(None, description="The retrieved chunks, in their order.")
    id: str = Field("", description="Carried into the decision.")
    samples: Annotated[list[str], _FirstWrong()] | None = Field(None, description=FIELDS["samples"])
    columns: _Columns = Field(default_factory=dict, description=FIELDS["columns"])

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
            if (getattr(self, path[0]) is None or not {*path[1:]} <= self.columns.keys())
            and not (begun and path == ("response",))
        ] + [
            (pointer(*place, "columns", name), "must be a number or null; the score reads it")
            for name, score in sorted(_numeric(guardrail.score).items())
            if name in self.columns and not _is_number(self.columns[name], guardrail.unit, score)
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
            raise invalid(errors)
        example = Example(
            self.question or "",
            tuple(self.contexts or ()),
            self.response or "",
            id=self.id,
            samples=tuple(self.samples or ()),
            columns={
                name: json.dumps(cell) if isinstance(cell, list) else column_value(cell)
                for name, cell in guardrail.cells(self.columns).items()
            },
        )
        if any(listed(cell) is not None for cell in example.columns.values()):
            try:
                guardrail.sentences(example)  # each of them needs its own
            except InputError as error:
                raise invalid([(pointer(*place, "columns"), f"does not fit: {error}")]) from None
        return example


class Telling(_Body):
    """What decisions are to say beside the outcome."""

    evidence: bool = Field(False, description=FIELDS["evidence"])
    probability: bool = Field(False, description=FIELDS["probability"])
    base_rate: float | None = Field(None, gt=0.0, lt=1.0, description=FIELDS["base_rate"])


class Check(Item, Telling):
    """One answer, and what its decision is to say."""


class CheckBatch(Telling):
    """Answers to decide about, each by itself."""

    items: list[Item] = Field(min_length=1)


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
    """A line of decisions.jsonl, with the digest of the guardrail that decided.

    With column, column_value, column_threshold where the score is a column, evidence and
    probability (lower, upper, base_rate) where they were asked for, and text and removed where the
    guardrail removes sentences.
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

    items: list[dict[str, Any]] = Field(description=FIELDS["selected"])


class StateReply(BaseModel):
    """Whether the process lives, or the service decides."""

    status: str
    metrics: Literal["incomplete"] | None = Field(None, description=FIELDS["metrics"])


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


def parse(kind: type[Body], raw: bytes, most: int) -> Body:
    """Return what a body of at most so many answers holds.

    Raises
    ------
    Problem
        If it is not JSON, has more answers, or a field that is missing, unknown, given twice or of
        the wrong kind.
    """
    content, complaints = read_json(raw), list[tuple[tuple[str | int, ...], Any]]()
    items = content.get("items") if isinstance(content, dict) else None
    if isinstance(items, list) and "items" in kind.model_fields:
        if len(items) > most:
            raise ServiceProblem.of("too_many", n=len(items), most=most)
        # One by one: thousands of wrong ones are not looked at.
        known = list[Item]()
        for place, item in enumerate(items):
            try:
                known.append(Item.model_validate(item))
            except ValidationError as error:
                complaints += [(("items", place), found) for found in _findings(error)]
                if len(complaints) > MOST_FINDINGS:
                    break
        content = {**content, "items": known or (items and [Item.model_validate({})])}
    try:
        made = kind.model_validate(content)
        if not complaints:
            return made
    except ValidationError as error:
        complaints += [((), found) for found in _findings(error)]
    errors = [
        (
            pointer(*at, *item["loc"]),
            WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, "),
        )
        for at, item in complaints
    ]
    more = ""
    if any(item["type"] in ("missing", "extra_forbidden") for _, item in complaints):
        names = [*kind.model_fields]
        names += [f"items/0/{name}" for name in Item.model_fields if "items" in kind.model_fields]
        more = f"; the fields are {', '.join(names)}"
    raise invalid(errors, more)


def _findings(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_input=False))


def read_json(raw: bytes) -> Any:
    """Return what JSON says, where all readers of it would agree on that.

    Raises
    ------
    ServiceProblem
        If it is not JSON, gives a field twice, holds half of a surrogate pair, or a number that
        Python does not read.
    """
    try:
        content = json.loads(raw.decode(), object_pairs_hook=_once, parse_int=_whole_number)
        if _SURROGATE.search(raw):
            # Half of a pair is no text: whoever writes it out fails.
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except (ValueError, RecursionError) as error:
        raise ServiceProblem.of("broken_json", error=error) from None


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a field given twice, a service before this one may read the other."""
    content = dict(fields)
    if len(content) < len(fields):
        ((name, n),) = Counter(name for name, _ in fields).most_common(1)
        raise ServiceProblem.of("twice", name=name, n=n)
    return content


def _whole_number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        # Python's own words are for whoever runs the service.
        raise ServiceProblem.of("number", digits=digits) from None
