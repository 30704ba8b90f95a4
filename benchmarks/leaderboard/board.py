"""What stands on a leaderboard, and what does each detector cost there?

Everything rests on what the comparison found: thresholds at the guarantee that was asked for, the
same test answers for all detectors, one answer of each group and class. Of a comparison's test part
these are the half that chooses a winner, as in its own tables; the other half is not looked at. New
here are the lowest limit on false alarms that is certified, and thresholds that their authors ship.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, ClassCounts, bounds, certificate, holm
from calibrail.data.splits import SPLIT_NAMES, TEST
from calibrail.evaluation.stats.intervals import wilson
from calibrail.formatting import Scale
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.serialization import Record

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
        On the test answers that choose, with Wilson's intervals.
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
    """A detector against the best baseline, or the one it was made of, where as much is caught.

    The comparison's own test, on the calibration answers and the test answers that choose: every
    score at the same rank among the hallucinated ones, at least at the coverage promised. So it may
    differ from what a row shows on the test answers alone.

    Attributes
    ----------
    name : str
        The baseline, which raises the fewest false alarms on these answers; or the base model.
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
        Independent test answers that choose, by class.
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
        """Return the page of some data sets, its tests corrected for all of them.

        What is corrected are p-values as the page keeps them, with 12 digits: rows that are read
        back are corrected as those that were computed.
        """
        level, delta = promise["confidence"], promise["delta"]
        rows = [row for item in sets for row in item.rows if row.against is not None]
        kept = [float(f"{row.against.p_value:.12g}") for row in rows if row.against is not None]
        adjusted = holm(kept)
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


#: Fewer independent test answers of a class than this is few.
FEW: Final = 50


def standings(
    comparison: Mapping[str, Any],
    values: Mapping[str, NDArray[np.float64]],
    labels: NDArray[np.int8],
    split: NDArray[np.str_],
    *,
    negated: Collection[str] = (),
    shipped: Mapping[str, float] | None = None,
    marks: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Standing, ...]:
    """Return a row for every detector and baseline of a comparison.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    values : mapping of str to ndarray of float64, shape (n,)
        Its scores, higher = more likely hallucinated; NaN where undefined.
    labels, split : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; the name of each answer's part, ``test`` for those that
        choose.
    negated : collection of str
        Scores whose own columns hold higher values for faithful answers.
    shipped : mapping of str to float, optional
        Thresholds chosen elsewhere, by score, in the numbers of the score's own column.
    marks : mapping of str to sequence of str, optional
        What else weakens a row, by score.
    """
    shipped, marks = shipped or {}, marks or {}
    reports = {item["name"]: item for item in comparison["detectors"]}
    baselines = {item["name"]: item for item in comparison["baselines"]}
    reasons = {item["name"]: item["reason"] for item in comparison["uncalibrated"]}
    first = comparison["detectors"][0]
    promise, confidence = first["promise"], first["requirement"]["confidence"]
    paired = comparison["paired"]
    tests = [*paired["against_best_baseline"], *paired.get("against_base", ())]
    against = {item["name"]: _against(item) for item in tests}
    test = split == SPLIT_NAMES[TEST]
    least = min(int(np.sum(test & (labels == label))) for label in (0, 1))
    uncertified, weak = _uncertified(first), _weak(first, least)
    rows = []
    for name in (*reports, *reasons, *baselines):
        report = reports.get(name, baselines.get(name, {}))
        scale = Scale(name, negated=True) if name in negated else Scale()
        scores = values[name]
        undefined = np.isnan(scores)
        ranked = np.where(undefined, np.inf if promise["undefined"] == "flag" else -np.inf, scores)
        targets = tuple(
            _target(comparison, name, coverage, promise, confidence, scale, ranked)
            for coverage in TARGETS
        )
        if uncertified:
            targets = tuple(replace(item, limit=None, confidence=None) for item in targets)
        at = None
        if name in shipped:
            flagged = ranked >= scale.shown(float(shipped[name]))
            caught, fpr = (
                wilson(int(np.sum(flagged & part)), int(np.sum(part)), confidence)
                for part in (test & (labels == label) for label in (1, 0))
            )
            at = Shipped(float(shipped[name]), caught, fpr)
        own = () if name in baselines else marks.get(name, ())
        rows.append(
            Standing(
                name=name,
                baseline=name in baselines,
                higher="faithful" if scale.negated else "hallucinated",
                auroc=report.get("test", report).get("auroc"),
                targets=targets,
                shipped=at,
                against=against.get(name),
                n_undefined=int(undefined.sum()),
                marks=tuple(dict.fromkeys((*own, *uncertified, *weak))),
                reason=reasons.get(name),
            )
        )
    return tuple(sorted(rows, key=_order))


def _order(row: Standing) -> tuple[Any, ...]:
    """Sort detectors above baselines, by the FPR at the first target, then by AUROC."""
    target, area = row.targets[0], (row.auroc or {}).get("estimate")
    fpr = target.fpr.estimate if target.fpr else None
    return (
        row.baseline,
        row.reason is not None,
        target.state == "flags_all",
        2.0 if fpr is None else fpr,
        0.0 if area is None else -area,
    )


def _uncertified(first: Mapping[str, Any]) -> list[str]:
    """Return why a data set's rows certify nothing, whatever their bounds: as in a report."""
    found = ["further_look"] if first["looks"] else []
    if first["data"].get("n_alike") and not first["requirement"]["assume_independent"]:
        found.append("rows_alike")
    return found


def _weak(first: Mapping[str, Any], least: int) -> list[str]:
    """Return what weakens every row of a data set with so many test answers of a class."""
    found = []
    if first["requirement"]["assume_independent"]:
        found.append("assumed_independent")
    if least < FEW:
        found.append("few_groups" if first["promise"]["clustered"] else "few_answers")
    return found


def _target(
    comparison: Mapping[str, Any],
    name: str,
    coverage: float,
    promise: Mapping[str, Any],
    confidence: float,
    scale: Scale,
    ranked: NDArray[np.float64],
) -> Target:
    """Return what the comparison's sweep says of one score at one coverage."""
    entry = next(
        item for item in comparison["alpha_sweep"] if abs(item["alpha"] - (1.0 - coverage)) < 1e-9
    )
    row = next((item for item in entry["rows"] if item["name"] == name), None)
    if not entry["rank"]:
        return Target(coverage, "few_labels", needed=entry["minimum_n"])
    if row is None or row["threshold"] is None:
        return Target(coverage, "failed")
    caught, fpr = Bound.from_dict(row["coverage"]), Bound.from_dict(row["fpr"])
    threshold = float(row["threshold"])
    shown = Target(coverage, "set", scale.shown(threshold), caught, fpr)
    if bool(np.all(ranked >= threshold)):
        return replace(shown, state="flags_all")
    counts = ClassCounts(caught.count, caught.n, fpr.count, fpr.n)
    delta = promise["delta"] if promise["guarantee"] in OF_THIS_THRESHOLD else None
    if delta is not None:
        # Comparisons give delta beside the level of one interval, of which one end limits.
        confidence = 1.0 - delta - (1.0 - confidence) / 2.0
    limit, level = smallest_limit(counts, coverage, round(confidence, 12), delta)
    return replace(shown, limit=limit, confidence=None if limit is None else level)


def smallest_limit(
    counts: ClassCounts, min_coverage: float, confidence: float, delta: float | None = None
) -> tuple[float | None, float]:
    """Return the lowest limit on the FPR that would be certified, and with which confidence.

    The same bounds as in ``certify_counts`` and, for a ``pac`` threshold, ``joint_certificate``.
    The limit is read off after the fact: a bound holds with its confidence wherever it comes to
    lie.

    Parameters
    ----------
    counts : Counts
        On examples that the threshold never saw.
    min_coverage : float
        What has to be caught, in (0, 1); what the construction proves, where ``delta`` is given.
    confidence : float
        As in a ``Requirement``.
    delta : float, optional
        The error of a ``pac`` threshold, whose coverage is proven by construction.

    Returns
    -------
    (float or None, float)
        None where no limit would be certified: the coverage is not shown, or is shown to be missed,
        every faithful example may be flagged, or the errors leave no confidence.

    Examples
    --------
    >>> limit, level = smallest_limit(ClassCounts(290, 300, 20, 400), 0.9, 0.95)
    >>> round(limit, 4), level
    (0.0718, 0.95)
    >>> smallest_limit(ClassCounts(270, 300, 20, 400), 0.9, 0.95)
    (None, 0.95)
    >>> limit, level = smallest_limit(ClassCounts(270, 300, 20, 400), 0.9, 0.95, delta=0.025)
    >>> round(limit, 4), level
    (0.0762, 0.95)
    >>> smallest_limit(ClassCounts(240, 300, 20, 400), 0.9, 0.95, delta=0.025)[0] is None
    True
    """
    required, level = min_coverage, confidence
    refuted = float(bounds.interval(counts.caught, counts.n_hallucinated, level)[1]) < required
    proof = bounds.proof_level(level)
    if delta is not None:
        proof = certificate.proof_beside(delta, level)
        level = round(1.0 - delta - (1.0 - proof) / 2.0, 12)
    elif float(bounds.interval(counts.caught, counts.n_hallucinated, proof)[0]) < required:
        return None, level
    limit = float(bounds.interval(counts.false_alarms, counts.n_faithful, proof)[1])
    return (limit if limit < 1.0 and not refuted else None), level


def _against(test: Mapping[str, Any]) -> AgainstBaseline:
    fpr = test["fpr"]
    return AgainstBaseline(
        name=test["against"],
        difference=fpr["estimate"],
        lower=fpr["lower"],
        upper=fpr["upper"],
        p_value=fpr["p_value"],
    )
