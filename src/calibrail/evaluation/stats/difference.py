"""How far apart are two paired measures, and does chance explain it?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference with its interval and p-value.

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


def no_difference(method: str) -> Difference:
    """Return the difference of measures that could not be computed: nothing is shown."""
    return Difference(None, None, None, 1.0, 1.0, method)
