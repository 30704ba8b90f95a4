"""How do a promise and a requirement come from the few keywords of a short call?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict, TypeVar

from calibrail.errors import InputError
from calibrail.settings.promise import Guarantee, Promise, Undefined
from calibrail.settings.requirement import Requirement

Settings = TypeVar("Settings")


class Short(TypedDict, total=False):
    """Keywords that stand for the fields of a promise and a requirement in a short call."""

    alpha: float
    guarantee: Guarantee
    delta: float
    undefined: Undefined
    allow_flag_all: bool
    by: str | None
    min_n: int | None
    clustered: bool
    beta: float | None
    max_fpr: float | None
    min_coverage: float | None
    confidence: float
    risks: Sequence[str]


def collect(
    promise: Promise | None, requirement: Requirement | None, short: Mapping[str, Any]
) -> tuple[Promise, Requirement]:
    """Return the promise and the requirement of a call, given as objects or by their fields.

    Raises
    ------
    InputError
        If a keyword is unknown, or given beside the object that it is a field of.

    Examples
    --------
    >>> promise, requirement = collect(None, None, {"alpha": 0.1, "max_fpr": 0.2})
    >>> promise.alpha, requirement.max_fpr
    (0.1, 0.2)
    """
    rest = dict(short)
    made = (from_keywords(Promise, promise, rest), from_keywords(Requirement, requirement, rest))
    if rest:
        known = [item.name for kind in (Promise, Requirement) for item in fields(kind)]
        raise InputError(f"unknown argument {next(iter(rest))!r}; known are {', '.join(known)}")
    return made


def from_keywords(
    kind: type[Settings], given: Settings | None, keywords: dict[str, Any]
) -> Settings:
    """Return the object given, or one from its fields, which are taken out of ``keywords``."""
    names = [item.name for item in fields(kind) if item.name in keywords]  # type: ignore[arg-type]
    values = {name: keywords.pop(name) for name in names}
    if given is None:
        return kind(**values)
    if names:
        what = kind.__name__.lower()
        raise InputError(f"give {names[0]} by itself or in the {what}, not both")
    return given
