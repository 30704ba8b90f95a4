"""Which arguments does the conformal core accept, and how does it refuse the others?"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.errors import InputError

#: The largest count that every later step still computes with in full precision.
_LARGEST: Final = 10**12


def share(value: float, name: str) -> float:
    """Return ``value`` as a float strictly between 0 and 1, or raise naming the argument.

    >>> share(0.05, "alpha")
    0.05
    """
    found = number(value, name)
    if not 0.0 < found < 1.0:
        raise InputError(f"{name} must lie in (0, 1); got {value!r}")
    return found


def rate(value: float, name: str) -> float:
    """Return ``value`` as a float in [0, 1], or raise naming the argument."""
    found = number(value, name)
    if not 0.0 <= found <= 1.0:
        raise InputError(f"{name} must lie in [0, 1]; got {value!r}")
    return found


def tolerance(value: float) -> float:
    """Return a tolerance as a finite float of at least 0."""
    found = number(value, "tolerance")
    if not 0.0 <= found < np.inf:
        raise InputError(f"tolerance must be finite and at least 0; got {value!r}")
    return found


def whole(value: int, name: str, *, least: int = 0) -> int:
    """Return ``value`` as an int from ``least`` to 10^12."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number; got {value!r}")
    if value < least:
        raise InputError(f"{name} must be at least {least}; got {value}")
    if value > _LARGEST:
        raise InputError(f"{name} must be at most {_LARGEST:,}; got more")
    return int(value)


def counts(count: int, n: int, names: tuple[str, str] = ("count", "n")) -> tuple[int, int]:
    """Return a count out of n with ``0 <= count <= n``."""
    total = whole(n, names[1])
    part = whole(count, names[0])
    if part > total:
        raise InputError(f"{names[0]} must be at most {names[1]} = {total}; got {part}")
    return part, total


def vector(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a float64 array of shape (n,); NaN and infinities are left to the caller."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "fiubO":
            raise InputError(f"{name} must hold numbers; got {given.dtype}")
        array = given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} must hold numbers; {error}") from error
    if array.ndim != 1:
        raise InputError(f"{name} must have shape (n,); got {array.shape}")
    return array


def defined(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a float64 array of shape (n,) without NaN."""
    array = vector(values, name)
    # The minimum of an array with a NaN is NaN: one pass, no temporary array.
    if len(array) and np.isnan(array.min()):
        raise InputError(
            f"{name} must not hold NaN: an undefined score has no p-value and follows the policy "
            "for undefined scores"
        )
    return array


def number(value: object, name: str) -> float:
    """Return ``value`` as a float, NaN and infinities included, or raise naming the argument."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} must be a number; got {value!r}")
    # A float32 prints as the decimal number that was meant: 0.05, not 0.05000000074505806.
    if isinstance(value, np.floating):
        return float(str(value))
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{name} must be a number that a float can hold") from error
