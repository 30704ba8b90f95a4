"""LabelOptions, Drawing, AuditOptions, RecalibrateOptions."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from calibrail.errors import InputError
from calibrail.options.fields import (
    column,
    number,
    one_of,
    path,
    rate,
    setting,
    share,
    whole,
    yes_or_no,
)
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class LabelOptions(Record):
    """Which answers come in which order to whom.

    What is left out is as it was when the labels were begun; another value is refused then.

    Attributes
    ----------
    seed : int or None
        Of the order in which answers are drawn, and of all lots; 0 at first.
    shared : float or None
        Share of the answers that two people label, in [0, 1]; 0 at first.
    guess : str or None
        With the design ``active``: column from which P(hallucinated) is guessed beside the
        guardrail's score, numbers or a judge's labels; what they are worth is learnt from the
        labels so far.
    settle : bool
        Hand out the answers about which annotators disagree, and nothing else.
    fresh : bool
        Whether the answers are other ones than those that set the guardrail's threshold, where
        their rows cannot tell.
    elsewhere : str or None
        File of labels that were made elsewhere: with the id of each answer its label and the
        probability with which it was to be labelled, which was known before. They are counted as
        if they had been drawn here; the other answers of the traces stay without a label.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    panel: ClassVar = "Labelling"

    seed: int | None = setting("Seed of the order of drawing and of all lots (default: 0).", None)
    shared: float | None = setting(
        "Share of the answers that two people label (default: 0).", None, metavar="SHARE"
    )
    guess: str | None = setting(
        "With active: column that P(hallucinated) is guessed from, numbers or a judge's labels.",
        None,
        metavar="COL",
    )
    settle: bool = setting("Settle what annotators disagree about.", False)
    fresh: bool = setting("These answers are new, where the rows cannot tell.", False)
    elsewhere: str | None = setting(
        "Labels made elsewhere: file of id, label and the probability of being labelled.",
        None,
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        if self.seed is not None:
            object.__setattr__(self, "seed", whole(self.seed, "seed"))
        if self.shared is not None:
            object.__setattr__(self, "shared", rate(self.shared, "shared"))
        column(self.guess, "guess")
        if self.elsewhere is not None:
            object.__setattr__(self, "elsewhere", str(path(self.elsewhere, "elsewhere")))
        yes_or_no(self.settle, "settle")
        yes_or_no(self.fresh, "fresh")


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

    panel: ClassVar = "Drawing"

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

    panel: ClassVar = "Drawing"

    per_day: float | None = setting(
        "Answers to label for each day of the log (0.5: one in two days).",
        None,
        metavar="N",
        main=True,
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


@dataclass(frozen=True, slots=True)
class RecalibrateOptions(Record):
    """What a new threshold is made of, and with which probability none ever misses too much.

    Attributes
    ----------
    delta : float or None
        Of the guarantee ``anytime``; that of the guardrail when left out.
    since : str or None
        A time (ISO 8601, UTC unless it says otherwise): only answers that were logged then or later
        take part. To be told without a look at labels, which would void the guarantee.

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> RecalibrateOptions(since="2027-03-01").since
    '2027-03-01'
    """

    panel: ClassVar = "Threshold"

    delta: float | None = setting(
        "Most probable that any threshold made so ever misses too much (default: that of the "
        "guardrail).",
        None,
    )
    since: str | None = setting(
        "Only answers logged then or later take part, e.g. 2027-03-01: when the traffic changed, "
        "as monitor tells. A time chosen by a look at labels voids the promise.",
        None,
        metavar="TIME",
    )

    def __post_init__(self) -> None:
        if self.delta is not None:
            share(self.delta, "delta")
        if self.since is not None:
            try:
                datetime.fromisoformat(self.since)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"since must be a time, e.g. 2027-03-01 or 2027-03-01T12:00; got {self.since!r}"
                ) from error
