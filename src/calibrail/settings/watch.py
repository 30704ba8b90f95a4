"""How is a guardrail watched, and how often may a watch be wrong?"""

from dataclasses import dataclass
from typing import Final, Literal

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import one_of, share, whole
from calibrail.settings.option import setting

#: What answers may be grouped by: fields of the lines of a decision log.
WatchedBy = Literal["group", "language"]

#: The most rows of a stream that serve as its reference: a quarter of them is kept in the state
#: until it is complete, and the state stays small. A reference of its own may be of any length.
MOST_REFERENCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class WatchOptions(Record):
    """What a watch compares with what, and what it promises about false alarms.

    Attributes
    ----------
    reference : int
        Answers at the start of the watch, and after each alarm, that later ones are compared with.
    arl : int
        Mean number of answers to a false alarm about traffic, at least.
    delta : float
        The promise is said to be broken falsely, ever, with at most this probability; of all
        answers or, where it was made for each group and these are watched, of any of them. Where
        many drawn answers share a question that is not known, more often than that.
    seed : int
        Of the draws that break ties between equal values; same seed, same bytes.
    by : {"group", "language"}, optional
        Whether the promise is watched in each group, or language, of the log, too.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    reference: int = setting(
        "Answers at the start, and after each alarm, that later ones are compared with.",
        1_000,
        metavar="N",
    )
    arl: int = setting(
        "Mean number of answers to a false alarm about traffic, at least.", 100_000, metavar="N"
    )
    delta: float = setting(
        "Most probable that the promise is ever said to be broken while it is kept.", 0.05
    )
    seed: int = setting("Seed of the draws that break ties between equal values.", 0)
    by: WatchedBy | None = setting(
        "Watch the promise in each group of the log, too: group or language.", None, metavar="FIELD"
    )

    def __post_init__(self) -> None:
        if whole(self.reference, "reference", least=2) > MOST_REFERENCE:
            raise InputError(
                f"reference must be at most {MOST_REFERENCE:,} answers of the stream; got "
                f"{self.reference:,}: give a longer one as a log of its own"
            )
        whole(self.arl, "arl", least=1)
        object.__setattr__(self, "delta", share(self.delta, "delta"))
        whole(self.seed, "seed")
        if self.by is not None:
            one_of(self.by, WatchedBy, "by")
