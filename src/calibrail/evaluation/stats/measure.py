"""What does one measured quantity say, how surely, and why is it missing where it is?"""

import math
from dataclasses import dataclass
from typing import Self

from calibrail.record import Record
from calibrail.settings.checks import share


@dataclass(frozen=True, slots=True)
class Measure(Record):
    """A number with its interval, or the reason why there is none.

    Parameters
    ----------
    estimate, lower, upper : float or None
        The value and its two-sided interval; always finite. ``lower`` and ``upper`` are None for
        a measure that is shown without an interval, one of them where there is no bound on that
        side.
    method : str
        How the interval (or, without one, the value) was computed.
    confidence : float or None
        Level of the interval.
    reason : str or None
        Code that says why ``estimate`` is None, or why an end of its interval is, with the numbers
        it speaks of after colons.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    method: str
    confidence: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers outside their domain, and an estimate together with a reason."""
        if self.confidence is not None:
            share(self.confidence, "confidence")
        for name in ("estimate", "lower", "upper"):
            if (value := getattr(self, name)) is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be finite or None; got {value}")
        complete = None not in (self.estimate, self.lower, self.upper)
        if (self.estimate is None and self.reason is None) or (complete and self.reason):
            raise ValueError(
                "a measure has an estimate or a reason, never neither; with an estimate and both "
                "ends of its interval it has no reason"
            )

    def lies_below(self, value: float) -> bool:
        """Return whether the whole interval lies below a value; False without an interval."""
        return self.upper is not None and self.upper < value

    def lies_above(self, value: float) -> bool:
        """Return whether the whole interval lies above a value; False without an interval."""
        return self.lower is not None and self.lower > value


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """How far two paired measures lie apart, and whether chance explains it.

    Attributes
    ----------
    estimate : float or None
        First minus second; None where it cannot be computed.
    lower, upper : float or None
        Two-sided interval, of this difference alone.
    p_value : float
        Two-sided, for "no difference"; 1 where nothing can be computed.
    p_adjusted : float
        The same, corrected for all comparisons of the family (Holm).
    method : str
        How it was computed.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    p_value: float
    p_adjusted: float
    method: str

    @classmethod
    def of(cls, estimate: float, half: float, p_value: float, method: str) -> Self:
        """Return a difference of shares, its interval ``half`` wide on each side within [-1, 1]."""
        lower, upper = max(-1.0, estimate - half), min(1.0, estimate + half)
        p = min(1.0, p_value)
        return cls(estimate, lower, upper, p, p, method)


def no_difference(method: str) -> Difference:
    """Return the difference of measures that could not be computed: nothing is shown."""
    return Difference(None, None, None, 1.0, 1.0, method)


def missing(method: str, reason: str, confidence: float | None = None) -> Measure:
    """Return a measure that could not be computed, with the reason in plain words."""
    return Measure(None, None, None, method, confidence, reason)
