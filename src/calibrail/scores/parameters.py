"""Does a parameter of a score lie in its domain?"""

from typing import Any

from calibrail.errors import InputError


def whole(value: Any, name: str, least: int = 1) -> int:
    """Return a parameter that is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return value


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def positive(value: Any, name: str) -> float:
    """Return a parameter that is a finite number above 0."""
    if not is_number(value):
        raise InputError(f"{name} must be a number above 0; got {value!r}")
    if not 0.0 < value < float("inf"):
        raise InputError(f"{name} must be above 0; got {value!r}")
    return float(value)


def one_of(value: Any, name: str, known: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of the known words."""
    if value not in known:
        words = " or ".join(known) if len(known) == 2 else f"one of {', '.join(known)}"
        raise InputError(f"{name} must be {words}; got {value!r}")


def numbers(text: Any) -> list[float]:
    """Return the numbers of a list written ``"0.5,2"``; none where it is not one."""
    try:
        return [float(part) for part in str(text).split(",")]
    except ValueError:
        return []
