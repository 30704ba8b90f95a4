"""Checks of arguments of the core."""

from collections.abc import Sized

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.errors import InputError
from calibrail.options.fields import doubles, number, rate, share, small_float, whole

#: Checks that every room shares, to be found here beside those of the core.
__all__ = ["number", "rate", "share", "whole"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def tolerance(value: float) -> float:
    """Return a tolerance as a finite float of at least 0."""
    checked = number(value, "tolerance")
    if not 0.0 <= checked < np.inf:
        raise InputError(f"tolerance must be finite and at least 0; got {value!r}")
    return checked


def counts(count: int, n: int, names: tuple[str, str] = ("count", "n")) -> tuple[int, int]:
    """Return a count out of n with ``0 <= count <= n``."""
    total, part = whole(n, names[1]), whole(count, names[0])
    if part > total:
        raise InputError(f"{names[0]} must be at most {names[1]} = {total}; got {part}")
    return part, total


def vector(values: ArrayLike, name: str) -> Floats:
    """Return a float64 array of shape (n,); NaN and infinities are left to the caller."""
    # No context manager: every decision comes by here, and one takes microseconds.
    try:
        given = doubles(values) if small_float(values) else np.asarray(values)
        array = given.astype(np.float64, copy=False) if given.dtype.kind in "fiubO" else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError.on("no_numbers", name=name, error=error) from error
    if array is None:
        raise InputError(f"{name} must hold numbers; got {given.dtype}")
    if array.ndim != 1:
        raise InputError(f"{name} must have shape (n,); got {array.shape}")
    return array


def defined(values: ArrayLike, name: str) -> Floats:
    """Return a float64 array of shape (n,) without NaN."""
    array = vector(values, name)
    # The minimum of an array with a NaN is NaN: one pass, no temporary array.
    if len(array) and np.isnan(array.min()):
        raise InputError.on("nan_score", name=name)
    return array


def scores(values: ArrayLike, name: str = "scores") -> Floats:
    """Return a float64 array of shape (n,) that is finite, or NaN where undefined."""
    array = vector(values, name)
    if np.isinf(array).any():
        raise InputError(f"{name} must be finite, NaN where undefined; got an infinite score")
    return array


def finite(values: ArrayLike, name: str = "scores") -> Floats:
    """Return a float64 array of shape (n,), n >= 1, that is finite."""
    array = vector(values, name)
    if not len(array) or not np.isfinite(array).all():
        raise InputError(f"{name} must hold at least one score, all finite")
    return array


def rates(values: ArrayLike, name: str, unit: str = "answer") -> Floats:
    """Return a float64 array of shape (n,) in [0, 1]."""
    array = vector(values, name)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise InputError(f"{name} must lie in [0, 1] for every {unit}")
    return array


def p_values(values: ArrayLike, *, zero: bool) -> Floats:
    """Return a copy of p-values, 1 in place of NaN; 0 is one of them only if ``zero``."""
    p = vector(values, "p_values").copy()
    p[np.isnan(p)] = 1.0
    if len(p) and not (0.0 <= p.min() <= p.max() <= 1.0 and (zero or p.min() > 0.0)):
        domain = "[0, 1]" if zero else "(0, 1]"
        raise InputError(f"p_values must lie in {domain}, NaN where a score is undefined")
    return p


def paired(values: Sized, n: int, name: str, unit: str = "score") -> None:
    """Refuse what does not have one entry for each of n scores (or other units)."""
    if len(values) != n:
        raise InputError(f"{name} must have {n} entries, one per {unit}; got {len(values)}")
