"""Explicit keywords of public functions, collected into option objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, TypeAlias, TypeVar

from calibrail.errors import InputError
from calibrail.options.data import SplitOptions
from calibrail.options.fields import KEYWORDS

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Public = Callable[Parameters, Result]
Names: TypeAlias = Mapping[str, Any] | None


def options_from_keywords(
    *, only: Names = None, override: bool = False, **kinds: Any
) -> Callable[[Public[Parameters, Result]], Public[Parameters, Result]]:
    """Let the keywords of a function stand for the fields of the option objects that it takes.

    Fields that files know by another name (`KEYWORDS`) may be given by that, too.
    The function spells its keywords out, so that ``help()`` and an editor show them; those of
    ``reading`` as ``**how: Unpack[ReadKeywords]``. What is given of them makes the objects that it
    is called with; its own copies of them are not to be used. Where none is given, neither is an
    object made. An object is not changed by a default.

    Parameters
    ----------
    only : mapping of str to type
        Keywords that stand for a field only where their value is of a type.
    override : bool
        Whether keywords win over the object that is given beside them, or are refused.
    **kinds
        The class of each parameter that takes an object. A keyword is a field of the first of
        them that has it.

    Raises
    ------
    InputError
        In a call, if a keyword is unknown, or given beside the object that it is a field of.

    Examples
    --------
    >>> from calibrail.options import SplitOptions
    >>> @options_from_keywords(splitting=SplitOptions)
    ... def split(splitting: SplitOptions | None = None, *, seed: int = 0) -> SplitOptions | None:
    ...     return splitting
    >>> split(seed=7).seed, split()
    (7, None)
    """

    def decorate(function: Public[Parameters, Result]) -> Public[Parameters, Result]:
        taken = _spelled(signature(function), kinds)
        holders = _holders(taken, kinds)
        others = {old: new for old, new in KEYWORDS.items() if new in taken.parameters}
        names = {new: old for old, new in KEYWORDS.items()}

        @wraps(function)
        def call(*args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            words = {others.get(key, key): value for key, value in keywords.items()}
            if twice := [old for old in keywords if others.get(old) in keywords]:
                raise InputError(f"give {others[twice[0]]} or {twice[0]}, not both: they are one")
            refuse_unknown(words.keys() - taken.parameters.keys(), taken)
            given = dict(taken.bind_partial(*args, **words).arguments)
            parts: dict[str, dict[str, Any]] = {}
            for name in given.keys() & holders.keys():
                if isinstance(given[name], (only or {}).get(name, object)):
                    parts.setdefault(holders[name], {})[names.get(name, name)] = given.pop(name)
            for name, kind in kinds.items():
                made, part = given.get(name), parts.get(name, {})
                if made is not None and not isinstance(made, kind):
                    raise InputError.on("not_of_kind", name=name, kind=kind, given=type(made))
                if made is not None and part and not override:
                    keyword = KEYWORDS.get(min(part), min(part))
                    raise InputError(f"give {keyword} by itself or in the {name}, not both")
                if part:
                    given[name] = kind(**part) if made is None else replace(made, **part)
            return function(**given)  # type: ignore[call-arg]

        call.__dict__["option_kinds"] = kinds
        call.__dict__["__signature__"] = taken
        return call

    return decorate


def _spelled(taken: Signature, kinds: Mapping[str, Any]) -> Signature:
    """Return a signature with the fields of ``reading`` in place of those that are unpacked."""
    own = {k: item for k, item in taken.parameters.items() if item.kind is not item.VAR_KEYWORD}
    if len(own) == len(taken.parameters):
        return taken
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
        for item in fields(kinds["reading"])
        if (name := item.name) not in own
    ]
    return taken.replace(parameters=[*own.values(), *more])


def _holders(taken: Signature, kinds: Mapping[str, Any]) -> dict[str, str]:
    """Return, of each keyword that is a field, the parameter whose object has it."""
    return {
        keyword: name
        for name, kind in reversed(list(kinds.items()))
        for keyword in (KEYWORDS.get(item.name, item.name) for item in fields(kind))
        if keyword in taken.parameters and keyword not in kinds
    }


def refuse_unknown(names: Iterable[str], taken: Signature) -> None:
    """Refuse keywords that a function does not know; its arguments are listed.

    Raises
    ------
    InputError
        If there is one.
    """
    known = [name for name in taken.parameters if name != "self"]
    for name in sorted(names):
        if "splitting" in known and name in {item.name for item in fields(SplitOptions)}:
            raise InputError.on("part_of_splitting", name=name)
        close = get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        raise InputError(f"unknown argument {name!r}{meant} Known are {', '.join(known)}")
