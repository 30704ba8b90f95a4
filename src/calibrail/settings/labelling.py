"""How does a session of labelling go?"""

from dataclasses import dataclass

from calibrail.record import Record
from calibrail.settings.checks import column, path, rate, whole, yes_or_no
from calibrail.settings.option import setting


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
