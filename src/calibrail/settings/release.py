"""How much of a batch may be released, and what is assumed of it?"""

from dataclasses import dataclass
from typing import Literal

from calibrail.record import Record
from calibrail.settings.checks import one_of, share
from calibrail.settings.option import setting

#: What a selection can reckon with: nothing, the batch itself, or the labels.
SelectionMethod = Literal["bh", "storey", "both-classes"]


@dataclass(frozen=True, slots=True)
class Release(Record):
    """What is promised of the answers that are released from a batch.

    Attributes
    ----------
    fdr : float
        Bound q of the expected share of hallucinated answers among the released.
    method : {"auto", "bh", "storey", "both-classes"}
        How the batch's share of hallucinated answers enters. ``bh``: it may be anything, so the
        bound is q times that share. ``storey``: it is estimated from the batch, whose answers must
        be independent. ``both-classes``: it is that of the labelled answers, from which the batch
        must not differ in it. ``auto``: ``storey``, or ``bh`` where answers of the batch share a
        group.
    confidence : float
        Of the bounds for all cut-offs together.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    fdr: float = setting("Bound of the expected share of hallucinated answers among the released.")
    method: Literal["auto", SelectionMethod] = setting(
        "What is assumed of the share of hallucinated answers in the batch. bh: nothing. storey: "
        "estimated from the batch, whose answers are independent. both-classes: as in the labelled "
        "answers. auto: storey, or bh where answers share a group.",
        "auto",
    )
    confidence: float = setting("Level of the bounds for all other cut-offs together.", 0.95)

    def __post_init__(self) -> None:
        share(self.fdr, "fdr")
        one_of(self.method, Literal["auto", SelectionMethod], "method")
        share(self.confidence, "confidence")
