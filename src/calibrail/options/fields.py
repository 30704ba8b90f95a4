"""Option(), checks of values, how messages spell an option."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from decimal import Decimal
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

from calibrail.errors import InputError, tables_beside

#: Key under which a field's metadata holds its ``Option``.
OPTION: Final = "option"

#: What callers call fields that files know by another name.
KEYWORDS: Final = {"max_fpr": "max_false_alarms", "min_coverage": "min_caught"}


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is given on the command line.

    Attributes
    ----------
    help : str
        What it means, in one sentence; empty where `help_of` tells it.
    flag : str or None
        Its name there; the field's own, with dashes, when left out.
    metavar : str or None
        What stands for its value in the help; guessed from the type when left out.
    parse : callable or None
        From what stands on the command line to the field's value.
    main : bool
        Whether the help lists it first, before the panel of its class.
    writes : str
        Which kind of file is written there; empty where none is.
    """

    help: str
    flag: str | None = None
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None
    main: bool = False
    writes: str = ""


def setting(help: str = "", default: Any = MISSING, **about: Any) -> Any:
    """Return a dataclass field that commands offer as an option.

    What it means stands in ``help.toml`` where ``help`` is left out; ``about`` is the rest of its
    ``Option``.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    >>> Split().seed, Split.__dataclass_fields__["seed"].metadata[OPTION].help
    (0, 'Seed of the split.')
    """
    return field(default=default, metadata={OPTION: Option(help, **about)})


def panel_of(kind: Any, name: str) -> str | None:
    """Return the panel of the help in which a field of a settings class is listed, if any.

    The class that declares the field names it, by its class variable ``panel``.

    >>> class Split:
    ...     panel = "Split"
    ...     seed: int = 0
    >>> panel_of(Split, "seed")
    'Split'
    """
    declaring = (base for base in kind.__mro__ if name in get_annotations(base))
    return cast(str | None, vars(next(declaring)).get("panel"))


@cache
def help_texts() -> Mapping[str, dict[str, Any]]:
    """Return what stands in ``help.toml``, by table and name."""
    return tables_beside(__file__, "help.toml")


def help_of(kind: Any, name: str, command: str = "") -> str:
    """Return what a field of a settings class means, in one sentence; at best for one command.

    >>> from calibrail.options import SplitOptions
    >>> help_of(SplitOptions, "seed")
    'Seed of the split.'
    """
    declaring = next(base for base in kind.__mro__ if name in get_annotations(base))
    return str(help_texts().get(command, {}).get(name) or help_texts()[declaring.__name__][name])


def changed(settings: Any) -> dict[str, Any]:
    """Return the fields of a settings object that commands offer and that are not their default.

    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    >>> changed(Split(seed=7)), changed(Split())
    ({'seed': 7}, {})
    """
    return {
        item.name: value
        for item in fields(settings)
        if OPTION in item.metadata
        and (value := getattr(settings, item.name)) is not None
        and value != item.default
    }


def flag(item: Field[Any]) -> str:
    """Return how a field that commands offer is spelled there."""
    option = item.metadata.get(OPTION)
    return f"--{((option and option.flag) or item.name).replace('_', '-')}"


def spellings(kind: Any, only: Collection[str] = (), without: Collection[str] = ()) -> set[str]:
    """Return how fields of a settings class (all, where ``only`` is empty) are spelled.

    Those that take a value end with ``=``.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    ...     strict: bool = setting("Stop at the first bad row.", False)
    >>> sorted(spellings(Split))
    ['--seed=', '--strict']
    """
    spelled = set()
    for item in fields(kind):
        wanted = item.name not in without and item.name in (only or [item.name])
        if wanted and OPTION in item.metadata:
            yes = flag(item)
            switches = {yes, f"--no-{yes[2:]}"} if item.default is True else {yes}
            spelled |= switches if isinstance(item.default, bool) else {f"{yes}="}
    return spelled


def flags(settings: Any) -> tuple[str, ...]:
    """Return the words of a command line that give a settings object its values.

    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    >>> flags(Split(seed=7))
    ('--seed', '7')
    """
    return tuple(v for k, it in changed(settings).items() for v in worded(settings, k, it))


def python_call(name: str, source: str, words: Sequence[str], *kinds: Any) -> str:
    """Return the call of a function of calibrail that is what words of a command line are.

    Parameters
    ----------
    name : str
        The function.
    source : str
        Its first arguments, as they stand in the call.
    words : sequence of str
        Options of settings classes, and their values.
    *kinds
        Their classes.

    Examples
    --------
    >>> from calibrail.options import Promise, ReadOptions
    >>> python_call("calibrate", "data", ["--strict", "--alpha", "0.1"], ReadOptions, Promise)
    'calibrail.calibrate(data, strict=True, alpha=0.1)'
    """
    given: dict[Any, dict[str, Any]] = {kind: {} for kind in kinds}
    spelled = {flag(item): (kind, item) for kind in given for item in fields(kind)}
    rest = iter(words)
    for word in rest:
        kind, item = spelled[word]
        hint = str(item.type)
        value: Any = True if isinstance(item.default, bool) else next(rest)
        if "Mapping" in hint:
            value = given[kind].get(item.name, {}) | pairs([value], word)
        elif re.search(r"int|float", hint) and "str" not in hint:
            value = json.loads(value)
        given[kind][item.name] = value
    every = (item for values in given.values() for item in values.items())
    parts = [f"{KEYWORDS.get(key, key)}={value!r}" for key, value in every]
    return f"calibrail.{name}({', '.join(filter(None, [source, *parts]))})"


def worded(settings: Any, name: str, value: Any) -> list[str]:
    """Return the words that give one field of a settings object, or of its class, a value."""
    (spelled,) = [flag(item) for item in fields(settings) if item.name == name]
    if value is None or value is True:
        return [spelled]
    if isinstance(value, Mapping):
        return [spelled, ",".join(f"{key}={entry}" for key, entry in value.items())]
    return [spelled, ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)]


class _Speech:
    """Whom messages speak to: who wrote a command, or who called a function."""

    #: Options of the command that runs, none where it is not known; None: callers in Python.
    options: Collection[str] | None = None


@contextmanager
def cli_spelling(options: Collection[str] = ()) -> Iterator[None]:
    """Let messages name options by their flags within the block, as a command line has them.

    A remedy that is an option is told where it is one of ``options``, those of the command.
    """
    before, _Speech.options = _Speech.options, options
    try:
        yield
    finally:
        _Speech.options = before


def offers(flag: str) -> bool:
    """Return whether who reads a message can give an option; callers in Python can give all.

    >>> with cli_spelling({"--by", "--labels"}):
    ...     offers("--by"), offers("--looks")
    (True, False)
    """
    return not _Speech.options or flag in _Speech.options


def cli_or_python(flag: str, argument: str) -> str:
    """Return what a message calls an option: on the command line, or in Python.

    >>> cli_or_python("--no-baselines", "baselines=False")
    'baselines=False'
    """
    return argument if _Speech.options is None else flag


def spell_option(settings: Any, name: str, value: Any = None) -> str:
    """Return what a message calls a field of a settings class, with a value where one is given.

    >>> @dataclass(frozen=True)
    ... class Read:
    ...     mapping: dict[str, str] = setting("Columns by field.", None, flag="map")
    >>> spell_option(Read, "mapping"), spell_option(Read, "mapping", {"contexts": "text"})
    ('mapping=...', "mapping={'contexts': 'text'}")
    >>> with cli_spelling():
    ...     spell_option(Read, "mapping"), spell_option(Read, "mapping", {"contexts": "text"})
    ('--map', '--map contexts=text')
    """
    given = "..." if value is None else repr(value)
    words = shlex.join(worded(settings, name, value))
    return cli_or_python(words, f"{KEYWORDS.get(name, name)}={given}")


def spell_words(kind: Any, words: Sequence[str]) -> str:
    """Return what a message calls words of a command line that give options of a settings class.

    >>> from calibrail.options import ReadOptions
    >>> spell_words(ReadOptions, ["--positive", "0"])
    "positive='0'"
    """
    call = python_call("", "", words, kind)
    return cli_or_python(shlex.join(words), call[len("calibrail.(") : -1])


def pairs(items: list[str] | None, flag: str) -> dict[str, str]:
    """Turn ``KEY=VALUE`` items into a mapping, naming the option of a malformed one."""
    result: dict[str, str] = {}
    # A comma parts two items only where another KEY= follows it.
    for item in (part for given in items or [] for part in re.split(r",(?=[^,=]+=)", given)):
        key, separator, value = item.partition("=")
        if not separator or not key or not value:
            raise InputError(f"{flag} must look like KEY=VALUE; got {item!r}")
        if result.setdefault(key, value) != value:
            raise InputError(f"{flag} gives {key} twice, as {result[key]} and as {value}")
    return result


Kind = TypeVar("Kind")

#: What a caller may give as a column: a list has one number for each sentence of the answer.
Cell = float | str | Sequence[float | None] | None

#: The largest count that every later step still computes with in full precision.
_LARGEST: Final = 10**12


def number(value: object, name: str) -> float:
    """Return ``value`` as a float, NaN and infinities included, or raise naming the argument."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise InputError(f"{name} must be a number; got {value!r}")
    try:
        return float(doubles(value) if small_float(value) else value)
    except (OverflowError, ValueError) as error:
        raise InputError(f"{name} must be a number that a float can hold") from error


_SMALL: Final = re.compile(r"float16|float32|(half)?float(?=\[)", re.IGNORECASE)


def small_float(values: Any) -> str:
    """Return which type of less than double precision numbers have, or their array; "" of others.

    Known are those of numpy, torch, pandas (nullable, of Arrow, sparse, categories) and polars.
    """
    kind = getattr(values, "dtype", None)
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)
    held = None if getattr(kind, "char", "") == "d" else _SMALL.search(str(kind))
    if held is None or "bfloat" in str(kind) or "complex" in str(kind):
        return ""
    return "float16" if held[1] or held[0].endswith("16") else "float32"


def doubles(values: Any) -> Any:
    """Return numbers of a smaller type as doubles of the same digits, an array of their shape.

    As a file of text would give them: 0.1 rather than 0.10000000149.

    >>> import numpy as np
    >>> doubles(np.float32(0.1)).item(), np.float32(0.1).item()
    (0.1, 0.10000000149011612)
    """
    import numpy as np

    values = values.detach().cpu() if hasattr(values, "detach") else values
    return np.asarray(values, small_float(values) or None).astype(str).astype(np.float64)


def numbers(text: Any, kind: Callable[[str], Kind]) -> list[Kind]:
    """Return the numbers of a list written ``"0.5,2"``; none where it is not one."""
    with suppress(ValueError):
        return [kind(part) for part in str(text).split(",")]
    return []


def share(value: object, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1, or raise naming the argument.

    >>> share(0.05, "alpha")
    0.05
    """
    return _within(value, name, "(0, 1)", lambda checked: 0.0 < checked < 1.0)


def rate(value: object, name: str) -> float:
    """Return ``value`` as a float in [0, 1], or raise naming the argument."""
    return _within(value, name, "[0, 1]", lambda checked: 0.0 <= checked <= 1.0)


def _within(value: object, name: str, interval: str, holds: Callable[[float], bool]) -> float:
    """Return a number that lies in an interval; else also tell the share that a percentage is."""
    if holds(checked := number(value, name)):
        return checked
    share = checked / 100.0
    percent = f" ({checked:g}% is {share:g})" if checked > 1.0 and holds(share) else ""
    raise InputError(f"{name} must lie in {interval}; got {value!r}{percent}")


def seconds(value: object, name: str) -> float:
    """Return ``value`` as a finite float above 0, or raise naming the argument."""
    if not 0.0 < (checked := number(value, name)) < float("inf"):
        raise InputError(f"{name} must be a number of seconds above 0; got {value!r}")
    return checked


def count(value: Any, name: str) -> int:
    """Return ``value`` as an int from 1 to 10^12."""
    return whole(value, name, least=1)


def whole(value: Any, name: str, *, least: int = 0) -> int:
    """Return ``value`` as an int from ``least`` to 10^12."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number; got {value!r}")
    count = int(value)
    if count < least:
        raise InputError(f"{name} must be at least {least}; got {value}")
    if count > _LARGEST:
        raise InputError(f"{name} must be at most {_LARGEST:,}; got more")
    return count


def optional(value: Any, kind: type[Kind], name: str) -> Kind:
    """Return ``value`` if it is of its settings' kind, or what that is where nothing is said.

    >>> optional(None, dict, "options")
    {}
    """
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InputError.on("not_of_kind", name=name, kind=kind, given=type(value))
    return value


def one_of(value: str, choices: Any, name: str) -> Any:
    """Return ``value`` if it is one of the choices: a tuple of them, or a ``Literal`` type."""
    allowed = choices if isinstance(choices, tuple) else get_args(choices)
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
    return value


def direction(higher: str | None, settings: Any) -> None:
    """Refuse a column of scores of which nothing says what a higher value means."""
    if higher is None:
        more, less = (spell_option(settings, "higher", name) for name in _HIGHER)
        raise InputError.on("direction_needed", more=more, less=less)
    if higher not in _HIGHER:
        option = spell_option(settings, "higher", "|".join(_HIGHER))
        raise InputError.on("direction_unknown", option=option, higher=higher)


_HIGHER: Final = ("hallucinated", "faithful")


def replace_checked(settings: Any, **checks: Callable[[Any, str], Any]) -> None:
    """Set fields of frozen settings to what their checks return, unless None is their default."""
    defaults = {item.name: item.default for item in fields(settings)}
    for name, check in checks.items():
        if (value := getattr(settings, name)) is not None or defaults[name] is not None:
            object.__setattr__(settings, name, check(value, name))


def column(value: object, name: str) -> None:
    """Refuse what is no column's name, and not None."""
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(f"{name} must name a column; got {value!r}")


def yes_or_no(value: object, name: str) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":
        raise InputError(f"{name} must be True or False; got {value!r}")


def texts(value: object, name: str) -> tuple[str, ...]:
    """Return a list of texts; one text alone is refused, since its letters are meant by nobody."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be a list of texts; got {value!r}")
    listed = tuple(value)
    if wrong := [item for item in listed if not isinstance(item, str)]:
        raise InputError(f"{name} must be a list of texts; one of them is {wrong[0]!r}")
    return listed


def path(value: object, name: str) -> Path:
    """Return a path, or raise naming the argument."""
    if not isinstance(value, str | PathLike):
        raise InputError(f"{name} must be a path; got {type(value).__name__}")
    return Path(value)
