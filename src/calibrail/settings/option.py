"""How does a field of a settings object say what it means, once for Python and the command line?"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final

#: Key under which a field's metadata holds its ``Option``.
OPTION: Final = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is given on the command line.

    Attributes
    ----------
    help : str
        What it means, in one sentence.
    flag : str or None
        Its name there; the field's own, with dashes, when left out.
    metavar : str or None
        What stands for its value in the help; guessed from the type when left out.
    parse : callable or None
        From what stands on the command line to the field's value.
    """

    help: str
    flag: str | None = None
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None


def setting(
    help: str,
    default: Any = MISSING,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    parse: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a dataclass field that commands offer as an option.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    >>> Split().seed, Split.__dataclass_fields__["seed"].metadata[OPTION].help
    (0, 'Seed of the split.')
    """
    metadata = {OPTION: Option(help, flag, metavar, parse)}
    return field(default=default, metadata=metadata)


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
    return tuple(
        word for name, value in changed(settings).items() for word in _words(settings, name, value)
    )


def _words(settings: Any, name: str, value: Any) -> list[str]:
    """Return the words that give one field of a settings object, or of its class, a value."""
    (spelled,) = [flag(item) for item in fields(settings) if item.name == name]
    if value is None or value is True:
        return [spelled]
    if isinstance(value, Mapping):
        return [spelled, ",".join(f"{key}={entry}" for key, entry in value.items())]
    return [spelled, ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)]


class _Speech:
    """Whom messages speak to: who wrote a command, or who called a function."""

    flags = False


@contextmanager
def speaking_of_flags() -> Iterator[None]:
    """Let messages name options by their flags within the block, as a command line has them."""
    before, _Speech.flags = _Speech.flags, True
    try:
        yield
    finally:
        _Speech.flags = before


def either(flag: str, argument: str) -> str:
    """Return what a message calls an option: on the command line, or in Python.

    >>> either("--no-baselines", "baselines=False")
    'baselines=False'
    """
    return flag if _Speech.flags else argument


def option_of(settings: Any, name: str, value: Any = None) -> str:
    """Return what a message calls a field of a settings class, with a value where one is given.

    >>> @dataclass(frozen=True)
    ... class Read:
    ...     mapping: dict[str, str] = setting("Columns by field.", None, flag="map")
    >>> option_of(Read, "mapping"), option_of(Read, "mapping", {"contexts": "text"})
    ('mapping=...', "mapping={'contexts': 'text'}")
    >>> with speaking_of_flags():
    ...     option_of(Read, "mapping"), option_of(Read, "mapping", {"contexts": "text"})
    ('--map', '--map contexts=text')
    """
    given = "..." if value is None else repr(value)
    return either(shlex.join(_words(settings, name, value)), f"{name}={given}")


def pairs(items: list[str] | None, flag: str) -> dict[str, str]:
    """Turn ``KEY=VALUE`` items into a mapping, naming the option of a malformed one."""
    from calibrail.errors import InputError

    result = {}
    # A comma parts two items only where another KEY= follows it.
    for item in (part for given in items or [] for part in re.split(r",(?=[^,=]+=)", given)):
        key, separator, value = item.partition("=")
        if not separator or not key or not value:
            raise InputError(f"{flag} must look like KEY=VALUE; got {item!r}")
        result[key] = value
    return result
