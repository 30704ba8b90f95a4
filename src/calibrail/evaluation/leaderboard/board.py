"""What stands on a leaderboard: data sets, rows, and what each detector costs at each target?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

from calibrail.conformal import Bound, holm
from calibrail.record import Record

#: Shares of hallucinations to be caught, by their names in a row.
TARGETS: Final = (0.9, 0.95)
#: What may weaken a row, as a user names it: scores fitted, or heads, prompts or members chosen, on
#: these labels; data selected for disagreement of these detectors; labels given by a model.
MARKS: Final = ("fitted", "selected", "judged")

#: Whether a detector can be set to a target: it can; its threshold flags every answer; there are
#: too few labels to promise it; it could not be calibrated.
State = Literal["set", "flags_all", "few_labels", "failed"]


@dataclass(frozen=True, slots=True)
class Target(Record):
    """A detector that was calibrated to catch a stated share.

    Attributes
    ----------
    coverage : float
        Share of hallucinations that is promised to be caught.
    state : State
        Whether the detector can be set to it.
    threshold : float or None
        In the numbers of the detector's own column.
    caught, fpr : Bound or None
        On the test answers, with Wilson's intervals.
    limit : float or None
        The smallest limit on the FPR that is certified, by this row alone.
    confidence : float or None
        With which it is.
    needed : int or None
        Where labels are too few: how many hallucinated answers, or groups, are needed to calibrate.
    """

    coverage: float
    state: State
    threshold: float | None = None
    caught: Bound | None = None
    fpr: Bound | None = None
    limit: float | None = None
    confidence: float | None = None
    needed: int | None = None


@dataclass(frozen=True, slots=True)
class Shipped(Record):
    """What a threshold does that was chosen elsewhere, on the same test answers.

    Attributes
    ----------
    threshold : float
        In the numbers of the detector's own column; a value equal to it is flagged.
    caught, fpr : Bound
        With Wilson's intervals.
    """

    threshold: float
    caught: Bound
    fpr: Bound


@dataclass(frozen=True, slots=True)
class AgainstBaseline(Record):
    """A detector against the best baseline of its data set, at the same coverage.

    The comparison's own test, on the calibration answers and the half of the test part that
    chooses: every score at the same rank among the hallucinated ones, at least at the coverage
    promised. So it may differ from what a row shows on the test part.

    Attributes
    ----------
    name : str
        The baseline, which raises the fewest false alarms on these answers.
    difference, lower, upper : float or None
        FPR of the detector minus that of the baseline, with its interval.
    p_value, p_adjusted : float
        Of no difference; corrected for all detectors on the page (Holm).
    separated : {"fewer", "more", "no"}
        Whether the detector raises fewer or more false alarms, beyond chance.
    """

    name: str
    difference: float | None
    lower: float | None
    upper: float | None
    p_value: float
    p_adjusted: float = 1.0
    separated: Literal["fewer", "more", "no"] = "no"


@dataclass(frozen=True, slots=True)
class Standing(Record):
    """One row: a detector or a baseline on one data set.

    Attributes
    ----------
    name : str
        Of the score.
    baseline : bool
        Whether it is one of the baselines, which stand below the detectors.
    higher : {"hallucinated", "faithful"}
        What a higher value means, and so on which side of a threshold an answer is flagged.
    auroc : mapping or None
        Estimate with its interval.
    targets : tuple of Target
        One for each of ``TARGETS``.
    shipped : Shipped or None
        Where a shipped threshold is known.
    against : AgainstBaseline or None
        None for baselines, and where nothing could be compared.
    n_undefined : int
        Answers without a score.
    marks : tuple of str
        What weakens the row: ``MARKS``, ``few_groups``, ``few_answers``, ``assumed_independent``,
        ``further_look``, ``rows_alike``.
    reason : str or None
        Why the detector could not be calibrated.
    """

    name: str
    baseline: bool
    higher: Literal["hallucinated", "faithful"]
    auroc: Mapping[str, Any] | None
    targets: tuple[Target, ...]
    shipped: Shipped | None = None
    against: AgainstBaseline | None = None
    n_undefined: int = 0
    marks: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DataSet(Record):
    """One comparison: its answers, and a row for every score, the fewest false alarms first.

    Attributes
    ----------
    name, source, sha256 : str
        As it is called on the page; the file's name and digest.
    note : str
        What a reader has to know of the data.
    page : str or None
        Where the comparison's own page lies, relative to this one.
    n_examples, n_hallucinated : int
        Labelled answers, and hallucinated ones among them.
    n_calibration, n_groups : int
        Hallucinated answers that set every threshold, and the groups or answers that these count
        as.
    counted : {"groups", "answers"}
        What ``n_groups`` counts.
    n_test : mapping of str to int
        Independent test answers, by class.
    command : str
        What makes the comparison.
    rows : tuple of Standing
        Detectors, then baselines.
    curves : mapping
        By score, what every threshold catches and costs on the test answers.
    """

    name: str
    source: str
    sha256: str | None
    note: str
    page: str | None
    n_examples: int
    n_hallucinated: int
    n_calibration: int
    n_groups: int
    counted: str
    n_test: Mapping[str, int]
    command: str
    rows: tuple[Standing, ...]
    curves: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leaderboard(Record):
    """Detectors by what they cost at the coverage that is needed.

    Attributes
    ----------
    title : str
        Of the page.
    guarantee, delta : str and float or None
        What the thresholds promise; the same for all data sets.
    confidence : float
        Level of every interval; separations err with 1 - confidence on the whole page.
    data_sets : tuple of DataSet
        In the order in which they were given.
    """

    schema: ClassVar[str | None] = "calibrail.leaderboard/1"

    title: str
    guarantee: str
    delta: float | None
    confidence: float
    data_sets: tuple[DataSet, ...]

    @classmethod
    def of(cls, title: str, promise: Mapping[str, Any], sets: Sequence[DataSet]) -> "Leaderboard":
        """Return the page of some data sets, its tests corrected for all of them."""
        level, delta = promise["confidence"], promise["delta"]
        rows = [row for item in sets for row in item.rows if row.against is not None]
        adjusted = holm([row.against.p_value for row in rows if row.against is not None])
        judged = {
            id(row): _judged(row, float(p), 1.0 - level)
            for row, p in zip(rows, adjusted, strict=True)
        }
        corrected = tuple(
            replace(item, rows=tuple(judged.get(id(row), row) for row in item.rows))
            for item in sets
        )
        return cls(title, promise["guarantee"], delta, level, corrected)


def _judged(row: Standing, p_adjusted: float, level: float) -> Standing:
    against = row.against
    assert against is not None
    separated: Literal["fewer", "more", "no"] = "no"
    if p_adjusted <= level and against.difference:
        separated = "fewer" if against.difference < 0.0 else "more"
    return replace(row, against=replace(against, p_adjusted=p_adjusted, separated=separated))
