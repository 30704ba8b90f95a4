"""With which probability is an answer handed out to be labelled?"""

from dataclasses import dataclass
from typing import Literal

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import number, one_of, yes_or_no
from calibrail.settings.option import setting

LabellingDesign = Literal["uniform", "active"]


@dataclass(frozen=True, slots=True)
class Drawing(Record):
    """How answers are drawn for labelling, fixed before the first label.

    Attributes
    ----------
    design : {"uniform", "active"}
        Label every answer drawn, or each with a probability of its own: higher where a label tells
        more, by a guess of how likely the answer is hallucinated.
    floor : float
        With ``active``: no flagged answer is labelled with a lower probability, and no passed one
        with less than twice that. In (0, 1]; a low floor saves labels and makes bets smaller.
    whole_groups : bool
        What is drawn is a group (a question), all of whose answers belong to one batch; the mean
        over its answers counts once.

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> Drawing("active").floors
    (0.1, 0.2)
    >>> Drawing().floors
    (1.0, 1.0)
    """

    design: LabellingDesign = setting(
        "How answers to label are drawn: uniform or active.", "uniform"
    )
    floor: float = setting("With active: least probability of a label.", 0.1)
    whole_groups: bool = setting("Draw groups, and count the mean of each once.", False)

    def __post_init__(self) -> None:
        one_of(self.design, LabellingDesign, "design")
        if not 0.0 < number(self.floor, "floor") <= 1.0:
            raise InputError(f"floor must lie in (0, 1]; got {self.floor!r}")
        yes_or_no(self.whole_groups, "whole_groups")

    @property
    def floors(self) -> tuple[float, float]:
        """Least probabilities of labelling a flagged and a passed answer."""
        if self.design == "uniform":
            return 1.0, 1.0
        return float(self.floor), min(1.0, 2.0 * float(self.floor))
