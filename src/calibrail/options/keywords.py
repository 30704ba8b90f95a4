"""Short calls: alpha=0.1 in place of Promise(alpha=0.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar, get_args

from calibrail.errors import InputError
from calibrail.options.data import ReadOptions, SplitOptions
from calibrail.options.guarantee import Guarantee, Promise, Requirement, Undefined, Unit
from calibrail.options.runtime import WatchedBy, WatchOptions

Settings = TypeVar("Settings")


class Limits(TypedDict, total=False):
    """Keywords that stand for the fields of a requirement in a short call."""

    max_fpr: float | None
    min_coverage: float | None
    confidence: float
    assume_independent: bool
    risks: Sequence[str]
    min_kept: float | None


class CalibrateKeywords(Limits, total=False):
    """Keywords that stand for the fields of a promise and a requirement in a short call."""

    alpha: float
    guarantee: Guarantee
    delta: float
    undefined: Undefined
    allow_flag_all: bool
    by: str | Sequence[str] | None
    min_n: int | None
    clustered: bool
    beta: float | None
    unit: Unit


class LabelKeywords(Limits, total=False):
    """Keywords that stand for the fields of a requirement and of a session of labelling."""

    seed: int | None
    shared: float | None
    guess: str | None
    settle: bool
    fresh: bool
    elsewhere: str | None


class MonitorKeywords(TypedDict, total=False):
    """Keywords that stand for the fields of the options of a watch."""

    arl: int
    delta: float
    seed: int
    by: WatchedBy | None


class CompareKeywords(CalibrateKeywords, total=False):
    """Keywords of a short call whose detectors are set beside baselines unless that is refused."""

    baselines: bool


def options_from_keywords(
    promise: Promise | None,
    requirement: Requirement | None,
    short: Mapping[str, Any],
    function: Callable[..., Any],
) -> tuple[Promise, Requirement]:
    """Return the promise and the requirement of a call, given as objects or by their fields.

    ``function`` is what was called; an error lists its arguments.

    Raises
    ------
    InputError
        If a keyword is unknown, or given beside the object that it is a field of.

    Examples
    --------
    >>> promise, requirement = collect(None, None, {"alpha": 0.1, "max_fpr": 0.2}, print)
    >>> promise.alpha, requirement.max_fpr
    (0.1, 0.2)
    """
    rest = dict(short)
    made = (from_keywords(Promise, promise, rest), from_keywords(Requirement, requirement, rest))
    refuse_unknown(rest, function)
    return made


def collect_requirement(
    requirement: Requirement | None, short: Mapping[str, Any], function: Callable[..., Any]
) -> Requirement:
    """Return the requirement of a call, given as an object or by its fields, as ``collect`` does.

    >>> collect_requirement(None, {"max_fpr": 0.2}, print).max_fpr
    0.2
    """
    rest = dict(short)
    made = from_keywords(Requirement, requirement, rest)
    refuse_unknown(rest, function)
    return made


def collect_watch(
    options: WatchOptions | None, short: Mapping[str, Any], function: Callable[..., Any]
) -> WatchOptions:
    """Return the options of a watch, given as an object or by their fields, as ``collect`` does.

    >>> collect_watch(None, {"arl": 5_000}, print).arl
    5000
    """
    rest = dict(short)
    made = from_keywords(WatchOptions, options, rest)
    refuse_unknown(rest, function)
    return made


def refuse_unknown(rest: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse keywords that a function does not know; its arguments are listed.

    Raises
    ------
    InputError
        If there is one.
    """
    if not rest:
        return
    name = next(iter(rest))
    for group, kind in (("reading", ReadOptions), ("splitting", SplitOptions)):
        if name in {item.name for item in fields(kind)}:
            raise InputError(
                f"{name} is part of {group}; give it as {group}={kind.__name__}({name}=...)"
            )
    known = _arguments(function)
    close = get_close_matches(name, known, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    raise InputError(f"unknown argument {name!r}{meant} Known are {', '.join(known)}")


def _arguments(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments, those of its keywords among them."""
    names: list[str] = []
    for parameter in signature(function).parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            names += [name for short in get_args(parameter.annotation) for name in _keys(short)]
        else:
            names.append(parameter.name)
    return names


def _keys(short: Any) -> Iterable[str]:
    keys: Iterable[str] = short.__annotations__
    return keys


def from_keywords(kind: type[Settings], given: Settings | None, rest: dict[str, Any]) -> Settings:
    """Return the object given, or one from its fields, which are taken out of ``rest``."""
    names = [item.name for item in fields(kind) if item.name in rest]  # type: ignore[arg-type]
    values = {name: rest.pop(name) for name in names}
    if given is None:
        return kind(**values)
    what = kind.__name__
    for prefix in ("Shift", "Label", "Watch", "Audit"):
        what = what.removeprefix(prefix)
    what = what.lower()
    if not isinstance(given, kind):
        raise InputError(
            f"{what} must be a {kind.__name__}, e.g. {kind.__name__}(...); got "
            f"{type(given).__name__}"
        )
    if names:
        raise InputError(f"give {names[0]} by itself or in the {what}, not both")
    return given
