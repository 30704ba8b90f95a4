"""How many logged answers do people label, and how are these drawn?"""

from dataclasses import dataclass
from typing import TypedDict

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import number, rate, whole
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class AuditOptions(Record):
    """How many answers of a decision log are drawn for people.

    What is left out is as it was in the call before; ``seed`` and ``shared`` stay what they were in
    the first one.

    Attributes
    ----------
    per_day : float or None
        Answers that people are to label for each day (UTC) of which the log holds answers; below 1
        one in several days. Needed in the first call.
    seed : int or None
        Of the order in which lines are drawn, and of all lots; 0 at first.
    shared : float or None
        Share of the answers that two people label, in [0, 1]; 0 at first.

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> AuditOptions(per_day=20).per_day
    20.0
    """

    per_day: float | None = setting(
        "Answers to label for each day of the log (0.5: one in two days).", None, metavar="N"
    )
    seed: int | None = setting("Seed of the order of drawing and of all lots (default: 0).", None)
    shared: float | None = setting(
        "Share of the answers that two people label (default: 0).", None, metavar="SHARE"
    )

    def __post_init__(self) -> None:
        if self.per_day is not None:
            per_day = number(self.per_day, "per_day")
            if not 0.0 < per_day < float("inf"):
                raise InputError(f"per_day must be above 0; got {self.per_day!r}")
            object.__setattr__(self, "per_day", per_day)
        if self.seed is not None:
            object.__setattr__(self, "seed", whole(self.seed, "seed"))
        if self.shared is not None:
            object.__setattr__(self, "shared", rate(self.shared, "shared"))


class AuditShort(TypedDict, total=False):
    """Keywords that stand for these fields in a short call."""

    per_day: float | None
    seed: int | None
    shared: float | None
