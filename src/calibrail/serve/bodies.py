"""What may a request hold, and which answers does it mean?"""

import json
import math
from collections import Counter
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.row_parser import column_value
from calibrail.guardrail.runtime import Guardrail
from calibrail.serve.problems import Problem, misread, pointer
from calibrail.settings import SelectionMethod


def _one_or_more(value: object) -> object:
    """Take one text for a list of one."""
    return [value] if isinstance(value, str) else value


def _cell(value: object) -> float | str | None:
    """Return a cell as a file's would be read."""
    if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("must be a finite number, a text, true, false or null")
    return column_value(value)


_Texts = Annotated[list[str], BeforeValidator(_one_or_more, json_schema_input_type=list[str] | str)]
_Cell = Annotated[Any, BeforeValidator(_cell, json_schema_input_type=float | str | bool | None)]


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
        default_factory=dict, description="Columns that the guardrail reads: a score, a group."
    )

    def example(self, guardrail: Guardrail, place: tuple[str | int, ...] = ()) -> Example:
        """Return the answer.

        What the guardrail reads must be there, though it may be empty: a field that was forgotten
        is no answer without one.

        Raises
        ------
        Problem
            If a field that the guardrail reads is missing.
        """
        reads = (*guardrail.texts, *(("samples",) if "samples" in guardrail.score.requires else ()))
        named = [name for name in guardrail.columns if name != ALL_COLUMNS]
        lacking: list[tuple[str, ...]] = [(name,) for name in reads if getattr(self, name) is None]
        lacking += [("columns", name) for name in named if name not in self.columns]
        if lacking:
            errors = [
                (pointer(*place, *path), "is missing; this guardrail reads it") for path in lacking
            ]
            detail = f"{errors[0][0]} {errors[0][1]}"
            raise Problem(422, "invalid-request", detail, errors=errors)
        return Example(
            self.question or "",
            tuple(self.contexts or ()),
            self.response or "",
            id=self.id,
            samples=tuple(self.samples or ()),
            columns=self.columns,
        )


class Check(Item):
    """One answer, and whether its decision is to say what it rests on."""

    evidence: bool = Field(
        False, description="Say what the score rests on; the answer is then scored by itself."
    )


class Batch(_Body):
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
    Check: tuple(Check.model_fields),
    Batch: (*Batch.model_fields, *(f"items/0/{name}" for name in Item.model_fields)),
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
        raise misread(error, _FIELDS[kind]) from None
    # Readers differ in which of two they take: the one before this service may have seen another.
    _STRICT.decode(raw.decode())
    return body


def _once(fields: list[tuple[str, Any]]) -> None:
    if len(fields) > len({name for name, _ in fields}):
        counts = Counter(name for name, _ in fields)
        twice = next(name for name, count in counts.items() if count > 1)
        raise Problem(
            422, "invalid-request", f"the field {twice!r} is given more than once; give it once"
        )


#: Reads for the sake of what it refuses; numbers may be longer than Python's own limit.
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)
