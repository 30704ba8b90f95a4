"""What does a threshold promise about hallucinations?"""

from dataclasses import dataclass
from typing import Final, Literal

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import column, one_of, share, whole, yes_or_no
from calibrail.settings.option import setting

Guarantee = Literal["marginal", "pac", "anytime", "paper"]
Undefined = Literal["flag", "review", "pass"]
Unit = Literal["answer", "sentence"]

#: Guarantees about the very threshold that comes out, each of which fails with delta at most.
OF_THIS_THRESHOLD: Final = ("pac", "anytime")
#: What concerns one threshold of one detector, whatever else a promise holds.
OF_ONE_THRESHOLD: Final = ("alpha", "guarantee", "delta", "undefined")


@dataclass(frozen=True, slots=True)
class Promise(Record):
    """What the threshold keeps, however good the detector is.

    Attributes
    ----------
    alpha : float
        Tolerated miss rate; 1 - alpha is the target coverage.
    guarantee : {"marginal", "pac", "anytime", "paper"}
        ``marginal``: misses at most alpha on average over calibration draws. ``pac``: with
        probability 1 - delta, this very threshold misses at most alpha. ``anytime``: with
        probability 1 - delta no threshold ever misses more, however often a new one is made as
        calibration examples come in.
    delta : float
        Error probability of ``pac`` and ``anytime``.
    undefined : {"flag", "review", "pass"}
        What happens to answers whose score is undefined; recorded, and counted accordingly. Under
        ``pass`` the promise is one over all calibrations, those refused because too many scores
        are undefined included.
    allow_flag_all : bool
        Accept a threshold that flags everything where there are too few calibration examples.
    by : str, tuple of str, or None
        Column of groups (a topic, a source, a model) that get a threshold and a promise each.
        Several columns: groups that overlap, with a promise for each value of each column; among
        them ``length`` stands for the thirds of the answers' lengths.
    min_n : int or None
        Fewest hallucinated calibration examples for a group's own threshold; what the promise
        needs when left out. Smaller groups share one.
    clustered : bool
        Count each group of the data (a question, a source) once, so that the promise holds although
        the answers of one group are alike. Wherever groups hold several answers of a class this is
        done unasked, unless the requirement says ``assume_independent``.
    beta : float or None
        Three-way decision: flag at most this share of faithful answers, and send what neither
        passes nor is flagged to review.
    unit : {"answer", "sentence"}
        What is flagged: whole answers, or sentences, which are removed. Then ``alpha`` is the
        tolerated share of hallucinated answers that keep an unsupported sentence.

    Raises
    ------
    InputError
        If a value is outside its domain, or two of them exclude each other.

    Examples
    --------
    >>> Promise(alpha=0.1, guarantee="pac").coverage
    0.9
    """

    alpha: float = setting("Tolerated miss rate: 1 - alpha of hallucinations are caught.", 0.05)
    guarantee: Guarantee = setting(
        "marginal: on average over calibration draws. pac: for this very threshold, with "
        "probability 1 - delta. anytime: for all thresholds made as examples come in.",
        "marginal",
    )
    delta: float = setting("Error probability of --guarantee pac and anytime.", 0.1)
    undefined: Undefined = setting("What happens to answers whose score is undefined.", "flag")
    allow_flag_all: bool = setting(
        "With too few examples, flag everything instead of failing.", False
    )
    # The first kind is what the command line takes: one or several.
    by: tuple[str, ...] | str | None = setting(
        "Column of groups that get a threshold and a promise each. Repeatable: groups that "
        "overlap, length among them for thirds of the answers' lengths.",
        None,
        metavar="COL",
    )
    min_n: int | None = setting(
        "Fewest hallucinated examples for a group's own threshold.", None, metavar="N"
    )
    clustered: bool = setting(
        "Count each group (a question, a source) once; done unasked where groups hold several "
        "answers of a class.",
        False,
    )
    beta: float | None = setting(
        "Three-way decision: flag at most this share of faithful answers, review the rest.", None
    )
    unit: Unit = setting(
        "What is flagged: answers, or sentences, which are removed from their answers.", "answer"
    )

    later = ("unit",)

    def __post_init__(self) -> None:
        share(self.alpha, "alpha")
        one_of(self.guarantee, Guarantee, "guarantee")
        if self.of_this_threshold:
            share(self.delta, "delta")
        one_of(self.undefined, Undefined, "undefined")
        one_of(self.unit, Unit, "unit")
        object.__setattr__(self, "by", _columns(self.by))
        if isinstance(self.by, tuple) and self.guarantee != "marginal":
            raise InputError(
                "several columns of groups (by) have the guarantee marginal alone; got "
                f"{self.guarantee}; name one column, or leave out the guarantee"
            )
        for name in ("allow_flag_all", "clustered"):
            yes_or_no(getattr(self, name), name)
        if self.beta is not None:
            share(self.beta, "beta")
        if self.min_n is not None:
            if self.by is None:
                raise InputError("min_n is for the thresholds of groups; name their column with by")
            whole(self.min_n, "min_n", least=1)
        if self.unit == "sentence" and (self.beta is not None or self.guarantee == "paper"):
            raise InputError(
                "sentences are removed at one threshold, with the guarantee marginal, pac or "
                f"anytime; leave out {'beta' if self.beta is not None else 'paper'}"
            )
        if self.clustered and self.guarantee == "paper":
            raise InputError("clustered needs the guarantee marginal or pac; got paper")
        if self.clustered and self.guarantee == "anytime":
            # A group that was counted at one look may have other answers at the next one.
            raise InputError(
                "the guarantee anytime counts answer by answer as they come in, and these share "
                "groups, each of which counts once; use the guarantee pac, give one answer of each "
                "group, or say that all are independent (assume_independent)"
            )

    @property
    def of_this_threshold(self) -> bool:
        """Whether the promise is about the threshold that comes out, and fails with ``delta``."""
        return self.guarantee in OF_THIS_THRESHOLD

    @property
    def coverage(self) -> float:
        """The share of hallucinations that the threshold aims to catch."""
        return 1.0 - self.alpha


def _columns(by: object) -> str | tuple[str, ...] | None:
    """Return the columns of groups, one of them alone by its name."""
    if not isinstance(by, list | tuple):
        column(by, "by")
        return by  # type: ignore[return-value]
    for name in by:
        column(name, "by")
    if not by or None in by or len(set(by)) < len(by):
        raise InputError(f"by must name columns, each once; got {list(by)!r}")
    return str(by[0]) if len(by) == 1 else tuple(by)
