"""Promise, Requirement, ScoreThreshold, Release (what must hold)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Final, Literal, Self, cast, get_args

from calibrail.errors import InputError
from calibrail.options import fields
from calibrail.options.fields import setting
from calibrail.serialization import Record

#: What the rank of a threshold promises.
RankGuarantee = Literal["marginal", "pac", "anytime", "paper"]
#: With ``fixed``: the threshold was given, and labelled answers test it.
Guarantee = Literal[RankGuarantee, "fixed"]
Undefined = Literal["flag", "review", "pass"]
Unit = Literal["answer", "sentence"]

#: Guarantees about the very threshold that comes out, each of which fails with delta at most.
OF_THIS_THRESHOLD: Final = ("pac", "anytime")
RANKED: Final[tuple[Guarantee, ...]] = get_args(RankGuarantee)
#: What concerns one threshold of one detector, whatever else a promise holds.
OF_ONE_THRESHOLD: Final = ("alpha", "guarantee", "delta", "undefined")


@dataclass(frozen=True, slots=True)
class Promise(Record):
    """What the threshold keeps, however good the detector is.

    Attributes
    ----------
    alpha : float
        Tolerated miss rate; 1 - alpha is the target coverage.
    guarantee : {"marginal", "pac", "anytime", "paper", "fixed"} or None
        ``marginal``: misses at most alpha on average over calibration draws. ``pac``: with
        probability at least 1 - delta, this very threshold misses at most alpha. ``anytime``: with
        as much no threshold ever misses more, however often a new one is made as
        calibration examples come in. ``fixed``: the threshold was given; alpha is what was asked
        of it, 1 where nothing was. Left out, it is what `settled` makes of it.
    delta : float or None
        Error probability of ``pac`` and ``anytime``; left out, what `settled` makes of it.
    undefined : {"flag", "review", "pass"}
        What happens to answers whose score is undefined; recorded, and counted accordingly. Under
        ``pass`` the promise is one over all calibrations, those refused because too many scores
        are undefined included.
    allow_flag_all : bool
        Accept a threshold that flags everything where there are too few calibration examples.
    by : str, tuple of str, or None
        Column of groups (a topic, a source, a model): each with enough examples gets a threshold
        and a promise, under ``pac`` with probability 1 - delta: all together where no test part is
        kept, else each by itself.
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

    panel: ClassVar = "Promise"

    alpha: float = setting(default=0.05, main=True)
    # Whoever reads them has a promise that is settled.
    guarantee: Guarantee = setting(default=None, main=True, metavar="|".join(RANKED))
    delta: float = setting(default=None)
    undefined: Undefined = setting(default="flag")
    allow_flag_all: bool = setting(default=False)
    # The first kind is what the command line takes: one or several.
    by: tuple[str, ...] | str | None = setting(default=None, metavar="COL", main=True)
    min_n: int | None = setting(default=None, metavar="N")
    clustered: bool = setting(default=False)
    beta: float | None = setting(default=None)
    unit: Unit = setting(default="answer")

    later = ("unit",)

    def __post_init__(self) -> None:
        if self.guarantee is not None:
            fields.one_of(self.guarantee, Guarantee, "guarantee")
        (fields.rate if self.guarantee == "fixed" else fields.share)(self.alpha, "alpha")
        if self.delta is not None and self.guarantee in (None, *OF_THIS_THRESHOLD):
            fields.share(self.delta, "delta")
        fields.one_of(self.undefined, Undefined, "undefined")
        fields.one_of(self.unit, Unit, "unit")
        object.__setattr__(self, "by", _columns(self.by))
        if isinstance(self.by, tuple) and self.guarantee not in (None, "marginal"):
            raise InputError.on("by_columns_marginal", guarantee=self.guarantee)
        for name in ("allow_flag_all", "clustered"):
            fields.yes_or_no(getattr(self, name), name)
        fields.replace_checked(self, beta=fields.share)
        if self.min_n is not None:
            if self.by is None:
                raise InputError("min_n is for the thresholds of groups; name their column with by")
            fields.count(self.min_n, "min_n")
        if self.unit == "sentence" and (self.beta is not None or self.guarantee == "paper"):
            without = "beta" if self.beta is not None else "paper"
            raise InputError.on("sentences_one_threshold", without=without)
        if self.clustered and self.guarantee == "paper":
            raise InputError("clustered needs the guarantee marginal or pac; got paper")
        if self.clustered and self.guarantee == "anytime":
            # A group that was counted at one look may have other answers at the next one.
            raise InputError.on("anytime_counts_answers")

    def settled(self, requirement: "Requirement | None" = None) -> Self:
        """Return the promise with a guarantee and a delta where nobody named them.

        The guarantee is ``pac`` where a limit asks for a verdict, unless several columns name the
        groups, and ``marginal`` otherwise. Without a limit delta is 0.1; with one the threshold has
        half of the error that the confidence leaves, so that the certificate has that confidence.

        >>> Promise().settled().guarantee, Promise().settled(Requirement(0.2)).guarantee
        ('marginal', 'pac')
        """
        asked = None if requirement is None or not requirement.limits else requirement.confidence
        guarantee: Any = self.guarantee
        delta: Any = self.delta
        if guarantee is None:
            guarantee = "marginal" if asked is None or isinstance(self.by, tuple) else "pac"
        if delta is None:
            half = asked is not None and guarantee in OF_THIS_THRESHOLD
            delta = round((1.0 - cast(float, asked)) / 2.0, 12) if half else 0.1
        return replace(self, guarantee=guarantee, delta=delta)

    @property
    def of_this_threshold(self) -> bool:
        """Whether the promise is about the threshold that comes out, and fails with ``delta``."""
        return self.guarantee in OF_THIS_THRESHOLD

    @property
    def proves_itself(self) -> bool:
        """Whether ranks of thresholds prove all that is promised, without a test."""
        return self.guarantee == "pac" and self.beta is None and self.unit == "answer"

    @property
    def coverage(self) -> float:
        """The share of hallucinations that the threshold aims to catch."""
        return 1.0 - self.alpha


def _columns(by: object) -> str | tuple[str, ...] | None:
    """Return the columns of groups, one of them alone by its name."""
    if not isinstance(by, list | tuple):
        fields.column(by, "by")
        return by  # type: ignore[return-value]
    for name in by:
        fields.column(name, "by")
    if not by or None in by or len(set(by)) < len(by):
        raise InputError(f"by must name columns, each once; got {list(by)!r}")
    return str(by[0]) if len(by) == 1 else tuple(by)


#: What is asked of a detector that is looked at alone.
OF_ONE_DETECTOR: Final = ("risks", "min_kept")


#: What options were called before; these names are still read.
FORMER_FLAGS: Final = {"--max-fpr": "--max-false-alarms", "--min-coverage": "--min-caught"}
#: The same of single commands.
FORMER_OF_COMMANDS: Final = {
    "agree": {"--human": "--label-column", "--judge": "--judge-column"},
    "label": {"--judge": "--judge-column"},
    "monitor": {"--judge": "--judge-labels"},
}

#: Share of the error that is left which an undeclared look at a guardrail takes.
TAKEN: Final = 0.75


@dataclass(frozen=True, slots=True, init=False)
class Requirement(Record):
    """What a verdict is about, and how sure it has to be.

    Attributes
    ----------
    max_fpr : float or None
        The share of faithful answers that may be flagged; needed for a ``certified`` verdict. It is
        given as ``max_false_alarms``, or by this name, which files have.
    min_coverage : float or None
        The coverage that the verdict requires; 1 - alpha when left out. It is given as
        ``min_caught``, likewise.
    confidence : float
        Level of every interval and of the verdict; kept looks at a guardrail share its error.
    assume_independent : bool
        Take every answer as independent, although groups hold several answers of a class. The
        verdict then rests on an assumption, and says so.
    risks : tuple of str
        Find thresholds that keep all of these at once, e.g. ``("precision>=0.9", "recall>=0.8")``.
    min_kept : float or None
        The share of an answer's supported sentences that must be released, on average, above 0;
        needed for a ``certified`` verdict where sentences are removed.
    n_looks : int or None
        How many looks there will be, declared with the first: each may err with an equal part.

    Raises
    ------
    InputError
        If a value is outside its domain, or limits are given both as risks and by themselves.
    """

    panel: ClassVar = "Verdict"

    max_fpr: float | None = setting(default=None, flag="max-false-alarms", main=True)
    min_coverage: float | None = setting(default=None, flag="min-caught")
    confidence: float = setting(default=0.95)
    assume_independent: bool = setting(default=False)
    risks: tuple[str, ...] = setting(default=(), flag="risk", metavar="RISK")
    min_kept: float | None = setting(default=None)
    n_looks: int | None = setting(default=None, flag="looks", metavar="K")

    later = ("min_kept", "n_looks")

    def __init__(
        self,
        max_false_alarms: float | None = None,
        min_caught: float | None = None,
        confidence: float = 0.95,
        assume_independent: bool = False,
        risks: Iterable[str] = (),
        min_kept: float | None = None,
        n_looks: int | None = None,
        **former: float | None,
    ) -> None:
        given = {**locals(), "max_fpr": max_false_alarms, "min_coverage": min_caught}
        for name, value in former.items():
            if name not in fields.KEYWORDS:
                raise TypeError(f"Requirement has no {name!r}")
            if value is not None and given[name] is not None:
                raise InputError(f"give {fields.KEYWORDS[name]} or {name}, not both: they are one")
            given[name] = value if given[name] is None else given[name]
        for item in dataclass_fields(self):
            object.__setattr__(self, item.name, given[item.name])
        self.__post_init__()

    def at_first_look(self, *, spends: bool) -> Self:
        """Return the requirement at the confidence of a first look, which may spend its error."""
        share = 1.0 / self.n_looks if self.n_looks else TAKEN if spends else 1.0
        return replace(self, confidence=1.0 - (1.0 - self.confidence) * share)

    def __post_init__(self) -> None:
        fields.share(self.confidence, "confidence")
        for name in ("min_coverage", "max_fpr", "min_kept"):
            if getattr(self, name) is not None:
                spelled = fields.spell_option(type(self), name).removesuffix("=...")
                fields.rate(getattr(self, name), spelled)
        fields.replace_checked(self, n_looks=fields.count)
        if self.min_kept == 0.0:
            raise InputError.on("min_kept_zero")
        given: object = self.risks
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise InputError(f"risks must be a list, e.g. ['fpr<=0.2']; got {given!r}")
        object.__setattr__(self, "risks", tuple(self.risks))
        if self.risks and (self.max_fpr is not None or self.min_coverage is not None):
            raise InputError.on("limits_as_risks")

    def keywords(self) -> dict[str, Any]:
        """Return what functions take by itself: both limits, and how sure the verdict is to be."""
        names = ("confidence", "assume_independent", "n_looks")
        limits = {"max_false_alarms": self.max_fpr, "min_caught": self.min_coverage}
        return limits | {name: getattr(self, name) for name in names}

    @property
    def limits(self) -> bool:
        """Whether a limit is set for the threshold that a promise makes."""
        return (self.max_fpr, self.min_coverage, self.min_kept) != (None, None, None)

    @property
    def asks(self) -> bool:
        """Whether a limit is set, about which a verdict decides."""
        return (self.max_fpr, self.min_kept) != (None, None) or bool(self.risks)

    def beside(self, promise: Promise) -> Self:
        """Return the requirement with the confidence of a certificate of a settled promise.

        It is the one asked for, unless the promise's own error, as it was named, takes all that
        this leaves: then what delta and one end of an interval leave together.

        >>> Requirement(max_false_alarms=0.2).beside(Promise(guarantee="pac", delta=0.1)).confidence
        0.875
        """
        delta, error = promise.delta or 0.0, 1.0 - self.confidence
        if not (promise.of_this_threshold and self.limits) or delta < error - 1e-12:
            return self
        if (joint := round(1.0 - delta - error / 2.0, 12)) <= 0.0:
            raise InputError.on("confidence_without_room", delta=delta, confidence=self.confidence)
        return replace(self, confidence=joint)

    def coverage(self, promise: Promise) -> float:
        """Return the coverage that is required: ``min_coverage``, or what the promise aims at."""
        return promise.coverage if self.min_coverage is None else self.min_coverage

    def stated_coverage(self, promise: Promise) -> float:
        """Return what `coverage` does; refuse a threshold of which nothing was ever asked."""
        if (least := self.coverage(promise)) == 0.0 and self.min_coverage is None:
            option = fields.spell_option(type(self), "min_coverage")
            raise InputError.on("coverage_never_asked", option=option)
        return least

    def check(self, promise: Promise) -> None:
        """Refuse a promise that this leaves no room for."""
        if self.risks and (promise.by is not None or promise.beta is not None):
            raise InputError("risks choose one threshold; leave out by and beta")
        if self.risks and promise.unit == "sentence":
            raise InputError("risks are about whole answers; leave out risks or unit='sentence'")
        self.check_unit(promise)
        if self.assume_independent and promise.clustered:
            raise InputError.on("clustered_or_independent")

    def check_unit(self, promise: Promise) -> None:
        """Refuse a share to keep where no sentence is removed."""
        if self.min_kept is not None and promise.unit != "sentence":
            unit = fields.spell_option(Promise, "unit", "sentence")
            raise InputError.on("min_kept_of_sentences", unit=unit)


@dataclass(frozen=True)
class Costs(Record):
    """What wrong decisions cost; the threshold of least expected cost is picked by it.

    Attributes
    ----------
    cost_miss, cost_alarm : float or None
        Of a hallucinated answer that passes, and of a faithful one that is flagged, in one unit:
        both, each above 0, or neither.
    base_rate : float or None
        Share of the answers to come that is hallucinated; that of the data when left out.

    Raises
    ------
    InputError
        If one of the costs is missing, or a value is outside its domain.

    Examples
    --------
    >>> Costs(20.0, 1.0, base_rate=0.1).weights(0.5)
    (2.0, 0.9)
    """

    panel: ClassVar = "Costs"

    cost_miss: float | None = setting(default=None)
    cost_alarm: float | None = setting(default=None)
    base_rate: float | None = setting(default=None)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("cost_miss", "cost_alarm")}
        if None in given.values() and {*given.values(), self.base_rate} != {None}:
            raise InputError.on("costs_are_two")
        for name, cost in given.items():
            if cost is not None and not (fields.number(cost, name) > 0.0 and math.isfinite(cost)):
                raise InputError.on("cost_domain", name=name, cost=cost)
        fields.replace_checked(self, base_rate=fields.share)

    def costs(self) -> "Costs":
        """Return the costs alone, also of what holds more."""
        return Costs(self.cost_miss, self.cost_alarm, self.base_rate)

    def weights(self, share: float) -> tuple[float, float]:
        """Return what all misses, and all false alarms, would cost an answer on average.

        ``share`` is that of hallucinated answers in the data, for where no base rate is given.
        """
        rate = share if self.base_rate is None else self.base_rate
        return rate * (self.cost_miss or 0.0), (1.0 - rate) * (self.cost_alarm or 0.0)


def whole_answers(command: str, promise: Promise, requirement: Requirement | None = None) -> None:
    """Refuse a promise by which sentences are removed.

    Parameters
    ----------
    command : str
        What was called.
    promise : Promise
        What it was called for.
    requirement : Requirement, optional
        What it was to show; a share of sentences to keep is refused, too.

    Raises
    ------
    InputError
        If the promise is about sentences, or the requirement is.

    Examples
    --------
    >>> whole_answers("compare", Promise())
    """
    if promise.unit == "sentence":
        option = fields.spell_option(Promise, "unit", "sentence")
        raise InputError.on("looks_at_whole_answers", command=command, option=option)
    if requirement is not None:
        requirement.check_unit(promise)


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

    panel: ClassVar = "Release"

    fdr: float = setting(main=True)
    method: Literal["auto", SelectionMethod] = setting(default="auto")
    confidence: float = setting(default=0.95)

    def __post_init__(self) -> None:
        fields.share(self.fdr, "fdr")
        fields.one_of(self.method, Literal["auto", SelectionMethod], "method")
        fields.share(self.confidence, "confidence")


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

    panel: ClassVar = "Detectors"

    column: str | None = setting(default=None, flag="score-column", metavar="COL")
    higher: str | None = setting(default=None, metavar="hallucinated|faithful")
    threshold: float | None = setting(default=None)

    def __post_init__(self) -> None:
        if self.column is None:
            raise InputError("higher and threshold belong to a score_column; name the column too")
        fields.direction(self.higher, type(self))
        if self.threshold is None or not math.isfinite(self.threshold):
            raise InputError.on("threshold_of_column", threshold=self.threshold)
        object.__setattr__(self, "threshold", float(self.threshold))
