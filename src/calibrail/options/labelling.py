"""LabelOptions, Drawing, AuditOptions, RecalibrateOptions."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from calibrail.errors import InputError, errors_as
from calibrail.options import fields
from calibrail.options.fields import setting
from calibrail.serialization import Record


def _file(value: object, name: str) -> str:
    return str(fields.path(value, name))


def _listed(value: object, name: str) -> tuple[str, ...]:
    return fields.texts((value,) if isinstance(value, str) else value, name)


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
    judge_column : str or sequence of str
        Column of a judge's labels, or of its numbers, of every answer. Answers are drawn by the
        design ``active``, unless another one is named; what the judge's word is worth is learnt
        from people's labels so far, and it is never counted as one. With a queue: columns of labels
        that judges, or people before, gave the answers, which it compares.
    queue : {"disagreements"} or None
        Of new answers: those come first about which such labels and the guardrail's flag disagree,
        by the design ``disagreements``. Of answers that are labelled: a review of one's own labels
        that any of them contradicts.
    judge_higher : {"hallucinated", "faithful"} or None
        With a queue: what a higher rating means, of judges who give numbers that are no labels. One
        beyond a cut counts as hallucinated: it calls as many so as the guardrail flagged of the
        answers that it was made from, or half of the answers. No label of people sets it.
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

    seed: int | None = setting(default=None)
    shared: float | None = setting(default=None, metavar="SHARE")
    judge_column: tuple[str, ...] = setting(default=(), metavar="COL")
    queue: Literal["disagreements"] | None = setting(default=None)
    judge_higher: str | None = setting(default=None, metavar="hallucinated|faithful")
    settle: bool = setting(default=False)
    fresh: bool = setting(default=False)
    elsewhere: str | None = setting(default=None, metavar="FILE")

    def __post_init__(self) -> None:
        fields.replace_checked(self, seed=fields.whole, shared=fields.rate, elsewhere=_file)
        fields.replace_checked(self, judge_column=_listed)
        if repeated := [item for item, n in Counter(self.judge_column).items() if n > 1]:
            raise InputError.on("judge_named_twice", name=repeated[0])
        if self.judge_higher is not None:
            fields.one_of(self.judge_higher, Literal["hallucinated", "faithful"], "judge_higher")
        if self.queue is not None:
            fields.one_of(self.queue, Literal["disagreements"], "queue")
        fields.yes_or_no(self.settle, "settle")
        fields.yes_or_no(self.fresh, "fresh")

    @property
    def guide(self) -> str | None:
        """The one judge whose word says, without a queue, whose labels tell most."""
        if len(self.judge_column) > 1:
            raise InputError.on("several_judges", columns=", ".join(self.judge_column))
        return next(iter(self.judge_column), None)


LabellingDesign = Literal["uniform", "active", "disagreements"]


@dataclass(frozen=True, slots=True)
class Drawing(Record):
    """How answers are drawn for labelling, fixed before the first label.

    Attributes
    ----------
    design : {"uniform", "active", "disagreements"}
        Label every answer drawn, or each with a probability of its own: higher where a label tells
        more, by a guess of how likely the answer is hallucinated; or 1 where judges, and the
        guardrail's flag, disagree, and the floor elsewhere.
    floor : float
        Unless ``uniform``: no flagged answer is labelled with a lower probability, and no passed
        one with less than twice that. In (0, 1]; a low floor saves labels and makes bets smaller.
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

    design: LabellingDesign = setting(default="uniform")
    floor: float = setting(default=0.1)
    whole_groups: bool = setting(default=False)

    def __post_init__(self) -> None:
        fields.one_of(self.design, LabellingDesign, "design")
        if not 0.0 < fields.number(self.floor, "floor") <= 1.0:
            raise InputError(f"floor must lie in (0, 1]; got {self.floor!r}")
        fields.yes_or_no(self.whole_groups, "whole_groups")

    @classmethod
    def beside(cls, judge: str | None, drawing: "Drawing | None") -> "Drawing":
        """Return the drawing that is named, or else the one that goes with a judge or without."""
        if drawing is None and judge is not None:
            # A learnt guess saves labels soon with larger bets, and a useless one costs none.
            return cls("active", floor=0.2)
        return fields.optional(drawing, cls, "drawing")

    @property
    def weighted(self) -> bool:
        """Whether answers are labelled with different probabilities."""
        return self.design != "uniform"

    @property
    def floors(self) -> tuple[float, float]:
        """Least probabilities of labelling a flagged and a passed answer."""
        if not self.weighted:
            return 1.0, 1.0
        return float(self.floor), min(1.0, 2.0 * float(self.floor))


@dataclass(frozen=True, slots=True)
class AuditOptions(Record):
    """How many answers of a decision log are drawn for people.

    What is left out is as it was in the call before; ``seed``, ``shared`` and ``judge_column`` stay
    what they were in the first one.

    Attributes
    ----------
    per_day : float or None
        Answers that people are to label for each day (UTC) of which the log holds answers; below 1
        one in several days. Needed in the first call.
    seed : int or None
        Of the order in which lines are drawn, and of all lots; 0 at first.
    shared : float or None
        Share of the answers that two people label, in [0, 1]; 0 at first.
    judge_column : str or None
        Column of the traces with a judge's labels or numbers, found by the ids of logged answers:
        as for labels of traces, and every call needs those of its new lines.

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

    per_day: float | None = setting(default=None, metavar="N", main=True)
    seed: int | None = setting(default=None)
    shared: float | None = setting(default=None, metavar="SHARE")
    judge_column: str | None = setting(default=None, metavar="COL")

    def __post_init__(self) -> None:
        fields.column(self.judge_column, "judge_column")
        fields.replace_checked(self, per_day=fields.number, seed=fields.whole, shared=fields.rate)
        if self.per_day is not None and not 0.0 < self.per_day < float("inf"):
            raise InputError(f"per_day must be above 0; got {self.per_day!r}")


@dataclass(frozen=True, slots=True)
class RecalibrateOptions(Record):
    """What a new threshold is made of, and with which probability none ever misses too much.

    Attributes
    ----------
    delta : float or None
        Of the guarantee ``anytime``. Left out, that of the guardrail, or half of what a verdict's
        confidence leaves, where that has no room for it or the guardrail has none.
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

    delta: float | None = setting(default=None)
    since: str | None = setting(default=None, metavar="TIME")

    def __post_init__(self) -> None:
        fields.replace_checked(self, delta=fields.share)
        if self.since is not None:
            with errors_as(InputError, (TypeError, ValueError), "since_no_time", since=self.since):
                datetime.fromisoformat(self.since)
