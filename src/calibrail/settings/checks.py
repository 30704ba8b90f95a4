"""Which numbers and names may an argument hold, and how is another one refused?"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from calibrail.errors import InputError
from calibrail.settings.option import option_of

Kind = TypeVar("Kind")

#: What a caller may give as a column: a list has one number for each sentence of the answer.
Cell = float | str | Sequence[float | None] | None

#: The largest count that every later step still computes with in full precision.
_LARGEST: Final = 10**12


def number(value: object, name: str) -> float:
    """Return ``value`` as a float, NaN and infinities included, or raise naming the argument."""
    of_numpy = type(value).__module__ == "numpy" and isinstance(value, Real)
    if isinstance(value, bool) or not (of_numpy or isinstance(value, int | float)):
        raise InputError(f"{name} must be a number; got {value!r}")
    # A float32 prints as the decimal number that was meant: 0.05, not 0.05000000074505806.
    if of_numpy and not isinstance(value, Integral):
        return float(str(value))
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError as error:
        raise InputError(f"{name} must be a number that a float can hold") from error


def share(value: object, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1, or raise naming the argument.

    >>> share(0.05, "alpha")
    0.05
    """
    checked = number(value, name)
    if not 0.0 < checked < 1.0:
        raise InputError(f"{name} must lie in (0, 1); got {value!r}")
    return checked


def rate(value: object, name: str) -> float:
    """Return ``value`` as a float in [0, 1], or raise naming the argument."""
    checked = number(value, name)
    if not 0.0 <= checked <= 1.0:
        raise InputError(f"{name} must lie in [0, 1]; got {value!r}")
    return checked


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
        raise InputError(
            f"{name} must be a {kind.__name__}, e.g. {kind.__name__}(...); got "
            f"{type(value).__name__}"
        )
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
        more, less = (option_of(settings, "higher", name) for name in _HIGHER)
        raise InputError(
            f"a column of scores needs a direction: add {more} if a higher value means that an "
            f"answer is more likely hallucinated, {less} if it means that it is less likely so"
        )
    if higher not in _HIGHER:
        raise InputError(
            f"{option_of(settings, 'higher', '|'.join(_HIGHER))} says what a higher value of the "
            f"column means; got {higher!r}"
        )


_HIGHER: Final = ("hallucinated", "faithful")


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
