"""Which answers does a column of scores flag, without a guardrail?"""

import math
from dataclasses import dataclass

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import direction
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class ScoreThreshold(Record):
    """A column of scores that flags at its threshold and beyond, and where it has no score.

    Attributes
    ----------
    column : str
        Holds the scores.
    higher : {"hallucinated", "faithful"}
        What a higher score means.
    threshold : float
        Flags scores at or above it, or at or below it where a higher score means faithful.

    Raises
    ------
    InputError
        If one of them is missing, ``higher`` is another, or the threshold is not finite.
    """

    column: str | None = setting(
        "What flags: a column of scores, with --threshold.",
        None,
        flag="score-column",
        metavar="COL",
    )
    higher: str | None = setting(
        "What a higher value of --score-column means.", None, metavar="hallucinated|faithful"
    )
    threshold: float | None = setting(
        "Scores at or beyond it, towards hallucinated, are flagged.", None
    )

    def __post_init__(self) -> None:
        if self.column is None:
            raise InputError("higher and threshold belong to a score_column; name the column too")
        direction(self.higher, type(self))
        if self.threshold is None or not math.isfinite(self.threshold):
            raise InputError(
                f"threshold must be a finite number with a score column; got {self.threshold!r}"
            )
        object.__setattr__(self, "threshold", float(self.threshold))
