"""How does a field of a settings object say what it means, once for Python and the command line?"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
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


def flags(settings: Any) -> tuple[str, ...]:
    """Return the words of a command line that give a settings object its values.

    >>> @dataclass(frozen=True)
    ... class Split:
    ...     seed: int = setting("Seed of the split.", 0)
    >>> flags(Split(seed=7))
    ('--seed', '7')
    """
    options = {item.name: item.metadata.get(OPTION, Option("")) for item in fields(settings)}
    words: list[str] = []
    for name, value in changed(settings).items():
        words.append(f"--{(options[name].flag or name).replace('_', '-')}")
        if isinstance(value, Mapping):
            words.append(",".join(f"{key}={entry}" for key, entry in value.items()))
        elif isinstance(value, list | tuple):
            words.append(",".join(map(str, value)))
        elif value is not True:
            words.append(str(value))
    return tuple(words)


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
