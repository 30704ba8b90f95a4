"""Which arguments does the conformal core accept, and how does it refuse the others?"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.errors import InputError
from calibrail.settings.checks import number, rate, share, whole

__all__ = [
    "counts",
    "defined",
    "number",
    "rate",
    "share",
    "tolerance",
    "vector",
    "whole",
]


def tolerance(value: float) -> float:
    """Return a tolerance as a finite float of at least 0."""
    checked = number(value, "tolerance")
    if not 0.0 <= checked < np.inf:
        raise InputError(f"tolerance must be finite and at least 0; got {value!r}")
    return checked


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
