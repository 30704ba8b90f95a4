"""What does one measured quantity say, how surely, and why is it missing where it is?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calibrail.errors import InputError


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with its interval, or the reason why there is none.

    Parameters
    ----------
    estimate, lower, upper : float or None
        The value and its two-sided interval; always finite. ``lower`` and ``upper`` are None for
        a measure that is shown without an interval.
    method : str
        How the interval (or, without one, the value) was computed.
    confidence : float or None
        Level of the interval.
    reason : str or None
        Why ``estimate`` is None; None otherwise.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    method: str
    confidence: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse a number that is not finite, and an estimate together with a reason."""
        for name in ("estimate", "lower", "upper"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be finite or None; got {value}")
        if (self.estimate is None) != (self.reason is not None):
            raise ValueError("a measure has an estimate or a reason, never both and never neither")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-able dictionary."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measure:
        """Rebuild a measure from ``to_dict``."""
        return cls(**data)


def missing(method: str, reason: str, confidence: float | None = None) -> Measure:
    """Return a measure that could not be computed, with the reason in plain words."""
    return Measure(None, None, None, method, confidence, reason)


def value_only(
    value: float, method: str, reason: str = "the value is too large to hold"
) -> Measure:
    """Return a measure without an interval; a value that is not finite becomes ``reason``."""
    if not math.isfinite(value):
        return missing(method, reason)
    return Measure(float(value), None, None, method)


def checked_confidence(confidence: float) -> float:
    """Return a confidence level, or raise ``InputError`` where it is outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must lie in (0, 1); got {confidence}")
    return float(confidence)
