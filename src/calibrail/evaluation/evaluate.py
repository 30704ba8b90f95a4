"""Evaluate() -> Report with findings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrail.conformal import Calibration, ClusteredCalibration, OverlappingCalibration
from calibrail.conformal.bounds import Bound
from calibrail.conformal.group_thresholds import spelled
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.splits import CALIBRATION, SPLIT_NAMES, TEST
from calibrail.errors import Library
from calibrail.evaluation import measures, sections
from calibrail.evaluation import verdict as verdicts
from calibrail.evaluation.measures import BaselineResult, TestMetrics, baseline_result
from calibrail.evaluation.scored_answers import CLASSES, Sample
from calibrail.evaluation.sections import attainable, clustering, confounds
from calibrail.evaluation.stats.intervals import Floats, Measure
from calibrail.evaluation.stats.tests import look_inverted
from calibrail.formatting import Scale, Shown
from calibrail.options import Costs, Promise, Requirement
from calibrail.scores.table import SentenceTable
from calibrail.serialization import Record

if TYPE_CHECKING:
    from calibrail.conformal.risk_control import RiskControl

sentence_removal = Library("calibrail.evaluation.sentence_removal")

#: Fewer test examples than this in a class leave intervals too wide to act on.
FEW_TEST: Final = 50
#: A threshold at a lower rank than this hangs on one or two extreme calibration scores.
FEW_RANK: Final = 3
#: Above this share of texts with a near-duplicate across the split results look too good.
MANY_ACROSS: Final = 0.01
#: An FPR above this flags practically everything.
NEARLY_ALL: Final = 0.99


@dataclass(frozen=True, slots=True)
class ReportWarning(Record):
    """A warning.

    Attributes
    ----------
    code : str
        Stable short name, e.g. ``reversed_direction``.
    message : str
        What was seen, and what can be done; empty until the report's messages are added.
    values : mapping
        Numbers of the message that stand nowhere else in the report.
    """

    code: str
    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def findings(
    rule: Rule,
    sample: Sample,
    tested: TestMetrics,
    baselines: Sequence[BaselineResult],
    offered: Mapping[str, Any] | None,
    inverted: Mapping[str, Measure] | None = None,
    near_duplicates: Mapping[str, Any] | None = None,
    repeated_ids: Mapping[str, Any] | None = None,
) -> tuple[ReportWarning, ...]:
    """Return every warning that applies, the gravest first.

    Parameters
    ----------
    rule, sample, tested
        What decides, on which answers, and how well.
    baselines : sequence of BaselineResult
        Compared with the detector.
    offered : mapping or None
        From ``sections.attainable``.
    inverted : mapping or None
        From ``look_inverted``.
    near_duplicates : mapping or None
        Texts that are on both sides of the split, or nearly so.
    repeated_ids : mapping or None
        How many ids stand for several answers, and these.
    """
    calibration, fpr = rule.calibration, tested.fpr.estimate
    fixed = calibration.guarantee == "fixed"
    # What a warning says about the one threshold and its rank applies only where it decides.
    used = np.isin(sample.split, (CALIBRATION, TEST))
    counted = sample.rows(TEST) if fixed else used
    paper, n = rule.ranked and calibration.guarantee == "paper", calibration.n
    set_aside = {"n_set_aside": sample.n_set_aside, "n": int(used.sum()), "odd": _odd(sample)}
    # The answers behind threshold and measures that share their group.
    parts = [sample.rows(TEST), *([] if sample.whole else [sample.rows(CALIBRATION, 1)])]
    n_sharing = sum(map(sample.n_sharing, parts)) if sample.independent else 0
    sharing = {"n_sharing": n_sharing, "n": int(np.sum(parts))}
    # Of a threshold that was given the intervals themselves say how wide they are.
    too_few = {} if fixed else _too_few(tested, calibration.rank if rule.ranked else 0)
    # Where a message needs numbers that the report does not hold, these; empty: nothing to say.
    applies: dict[str, bool | dict[str, Any]] = {
        "labels_look_inverted": {k: float(v.estimate or 0.0) for k, v in (inverted or {}).items()},
        "reversed_direction": tested.auroc.lies_below(0.5),
        "flags_everything": rule.flag_all or (fpr or 0.0) > NEARLY_ALL,
        "baseline_beats_detector": any(row.beats_detector for row in baselines),
        "not_shown_to_beat_baseline": any(row.unclear for row in baselines),
        "near_duplicates": many_across(near_duplicates),
        "coverage_outside_band": _outside_band(calibration, tested),
        "paper_rank_undercovers": paper and calibration.rank / (n + 1) > calibration.alpha + 1e-12,
        "few_distinct_scores": {} if offered is None else _ties(calibration),
        "too_few_examples": too_few,
        "repeated_ids": dict(repeated_ids or {}),
        "clustered": set_aside if sample.n_set_aside else {},
        "assumed_independent": sharing if sample.independent and sharing["n_sharing"] else {},
        "undefined_scores": bool(np.isnan(sample.values[counted]).any()),
    }
    return tuple(
        ReportWarning(code, values=values if isinstance(values, dict) else {})
        for code, values in applies.items()
        if values
    )


def many_across(near_duplicates: Mapping[str, Any] | None) -> bool:
    """Return whether so many texts are on both sides of the split that results look too good."""
    found = near_duplicates or {"count": 0, "n": 0}
    return bool(found["count"] > MANY_ACROSS * found["n"])


def _outside_band(calibration: Calibration, tested: TestMetrics) -> bool:
    """Return whether chance alone does not explain the observed coverage.

    Above the band is no finding when scores are tied at the threshold (coverage then grows).
    """
    if (band := tested.coverage_band) is None or band.inside:
        return False
    tied = int(np.sum(calibration.scores == calibration.threshold)) > 1
    return not tied or tested.coverage.count < band.lowest


def _odd(sample: Sample) -> int:
    """Return the answers of a group that holds over a tenth of all, where most groups hold one."""
    if sample.groups is None or not sample.n_set_aside:
        return 0
    known = sample.groups
    sizes = np.sort(np.append(0, np.unique(known[known >= 0], return_counts=True)[1]))
    odd = sizes[len(sizes) // 2] == 1 and sizes[-1] > max(10, len(sample.values) / 10)
    return int(sizes[-1] * odd)


def _too_few(tested: TestMetrics, rank: int) -> dict[str, Any]:
    """Return what is too small: the test part, the rank of a threshold."""
    few = min(tested.n_hallucinated or FEW_TEST, tested.n_faithful) < FEW_TEST
    low_rank = 0 < rank < FEW_RANK
    return {"fewer_than": FEW_TEST * few, "low_rank": low_rank} if few or low_rank else {}


def _ties(calibration: Calibration) -> dict[str, Any]:
    """Return how many calibration scores tie, and what each possible threshold catches."""
    scores = calibration.scores
    below = np.searchsorted(scores, np.unique(scores), "left")
    lost = calibration.n_undefined if calibration.undefined == "pass" else 0
    return {
        "n": len(scores),
        "n_tied": int(np.count_nonzero(scores == calibration.threshold)),
        "caught": (calibration.n - lost - below)[::-1].tolist(),
    }


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown, Record):
    """One detector's evaluation: promise, measures, comparison with baselines, verdict, warnings.

    Parameters
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        What the data shows about the requirements.
    reason : str
        Why, in words: empty until the report's messages are added.
    score : mapping
        The score's specification: ``name`` and ``params``.
    promise : Promise
        What the threshold was to keep. Its ``alpha``, ``guarantee`` and ``delta`` (None but for
        ``pac``) stand beside it in the dictionary, too.
    requirement : Requirement
        What was asked of the data. Its ``confidence`` stands beside it, too.
    threshold : float or None
        An answer is flagged at this score or above; None where everything is flagged.
    flag_all : bool
        Everything is flagged, because no threshold keeps the promise.
    rank, n_calibration : int
        The threshold is the ``rank``-th smallest of the hallucinated calibration scores.
    min_coverage : float
        Coverage that the verdict requires.
    max_fpr : float or None
        Highest FPR that the verdict allows; None where it was not asked.
    undefined : mapping
        The policy, and the number of undefined scores per part and class.
    test : TestMetrics
        Every measure on the test part.
    baselines, detectors : tuple of BaselineResult
        The trivial baselines and the further detectors, calibrated and tested alike.
    certificate : mapping
        The exact bounds behind the verdict (``Certificate.to_dict``).
    warnings : tuple of ReportWarning
        What a reader should know before acting.
    data, reproduce : mapping
        Where the examples came from, and how to get this report again; passed through.
    notes : tuple of str
        Further remarks, passed through.
    by_group : mapping or None
        Threshold, bounds and verdict of every group (``calibrail.evaluation.verdict``).
    clustering : mapping or None
        Where each group counts once: how many there are.
    three_way : mapping or None
        What passes, goes to review and is flagged, with both promises.
    risks : mapping or None
        Thresholds that control several risks at once (``RiskControl.to_dict``).
    shift : mapping or None
        How production answers differ (``calibrail.evaluation.shift``).
    attainable : mapping or None
        What a score with few distinct values can promise (``evaluation.sections.attainable``).
    curve : mapping or None
        Coverage and FPR at other thresholds, in simultaneous bands.
    looks : sequence of mapping
        Earlier looks at the same data, by size, seed and verdict; after one nothing is certified.
    confounds : mapping or None
        How trivial baselines rank beside the score (``calibrail.evaluation.sections``).
    reason_code : str
        Why: a code of ``evaluation.verdict``. Its parameters stand in ``test``, ``looks``,
        ``data`` and ``risks``. Empty in reports of before.
    sentences : mapping or None
        Where sentences are removed: what of the test part, and what something simpler would do
        (``calibrail.evaluation.sentence_removal``). ``unit`` stands in the dictionary, too. Where
        answers could be stopped while they are written, and somebody marked them, what a stream
        shows of them (``calibrail.pipelines.calibrate``).
    cost : mapping or None
        Where costs were given: what to expect of the threshold, and of flagging or passing
        everything (``calibrail.evaluation.sections.expected_cost``); ``upper`` is None where the
        answers were looked at before.
    """

    shown_as = "calibrate"

    schema = "calibrail.report/1"

    verdict: str
    reason: str
    score: Mapping[str, Any]
    promise: Promise
    requirement: Requirement
    threshold: float | None
    flag_all: bool
    rank: int
    n_calibration: int
    min_coverage: float
    max_fpr: float | None
    undefined: Mapping[str, Any]
    test: TestMetrics
    baselines: tuple[BaselineResult, ...]
    detectors: tuple[BaselineResult, ...]
    certificate: Mapping[str, Any]
    warnings: tuple[ReportWarning, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    by_group: Mapping[str, Any] | None = None
    clustering: Mapping[str, Any] | None = None
    three_way: Mapping[str, Any] | None = None
    risks: Mapping[str, Any] | None = None
    curve: Mapping[str, Any] | None = None
    shift: Mapping[str, Any] | None = None
    attainable: Mapping[str, Any] | None = None
    confounds: Mapping[str, Any] | None = None
    looks: Sequence[Mapping[str, Any]] = ()
    reason_code: str = ""
    sentences: Mapping[str, Any] | None = None

    cost: Mapping[str, Any] | None = None

    later = ("sentences", "cost")
    derived = ("alpha", "guarantee", "delta", "confidence", "unit", "column_threshold", "needed")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary that strict JSON can hold, with its schema's name."""
        promise = self.promise
        beside = {
            "alpha": promise.alpha,
            "guarantee": promise.guarantee,
            "delta": promise.delta if promise.of_this_threshold else None,
            "confidence": self.requirement.confidence,
            "unit": promise.unit,
        }
        if promise.guarantee == "fixed":
            beside["needed"] = self.certificate["needed"]
        content, scale = Record.to_dict(self), Scale.of(self.score)
        if scale.column is not None:
            beside["column_threshold"] = scale.in_column(self.threshold)
        for name in ("by_group", "three_way", "risks", "shift", "attainable", "curve"):
            content[name] = scale.beside(content[name])
        content["detectors"] = [Scale.of(row["score"]).beside(row) for row in content["detectors"]]
        return content | beside

    def to_json(self) -> str:
        """Return the report as strict JSON text; the same report gives the same bytes."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Others:
    """What stands beside the detector on the same answers.

    Attributes
    ----------
    baselines, detectors : mapping of str to Sample
        Trivial baselines, and further detectors.
    target : mapping of str to ndarray of float64, shape (m,), or None
        Baselines of unlabelled production answers, to measure how they differ.
    ways : sequence of Sample
        Where near copies count once, and where each does: see `sections.operating_curve`.
    decision : VerdictResult or None
        What `decided` returns, where it is known.
    """

    baselines: Mapping[str, Sample] = field(default_factory=dict)
    detectors: Mapping[str, Sample] = field(default_factory=dict)
    target: Mapping[str, Floats] | None = None
    ways: Sequence[Sample] = ()
    decision: verdicts.VerdictResult | None = None


@dataclass(frozen=True, slots=True)
class ReportOrigin:
    """Where a report comes from; passed through.

    Attributes
    ----------
    score : mapping
        The score's specification: ``name`` and ``params``.
    data, reproduce : mapping
        Source, digests and counts of quarantined rows; command, seed and versions.
    notes : tuple of str
        Further remarks.
    """

    score: Mapping[str, Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def evaluate(
    rule: Rule,
    sample: Sample,
    promise: Promise,
    requirement: Requirement,
    origin: ReportOrigin,
    *,
    others: Others | None = None,
    names: Sequence[str] | None = None,
    risks: "RiskControl | None" = None,
    sentences: SentenceTable | None = None,
) -> Report:
    """Measure a threshold and its score on the test part, and decide about its requirements.

    Parameters
    ----------
    rule : Rule
        What decides: a threshold from the hallucinated examples of the calibration part alone,
        thresholds of groups, a second threshold for a three-way decision.
    sample : Sample
        The detector's scores of all examples.
    promise : Promise
        What the rule was made to keep.
    requirement : Requirement
        What the data is to show. Without a ``max_fpr`` the verdict is "rejected" or "inconclusive".
    origin : ReportOrigin
        What the report says of the detector and the data.
    others : Others, optional
        Baselines and further detectors on the same rows, and production answers.
    names : sequence of str, length n, optional
        Each example's group, where the rule has groups.
    risks : RiskControl, optional
        Multi-risk control that chose the threshold of ``rule``.
    sentences : SentenceTable, optional
        The answers' sentences, where these are removed: each sample's values are then those of
        one of its columns.

    Returns
    -------
    Report
        The same input gives the same report.
    """
    others = others or Others()
    if (decision := others.decision) is None:
        how: Any = {"names": names, "risks": risks, "sentences": sentences}
        decision = decided(rule, sample, promise, requirement, str(origin.score.get("key")), **how)
    calibration, level = rule.calibration, requirement.confidence
    policy = calibration.undefined
    limits = _limits(promise, requirement, risks)
    names = names if rule.groups is not None else None
    flagged = rule.flags(sample.values, names, sample.tolerance)
    features = {name: other.values for name, other in others.baselines.items()}
    trimmed, inverted = decision.trimmed, None
    chapters: dict[str, Any] = {"by_group": decision.by_group, "cost": decision.cost}
    if trimmed is None:
        tested = TestMetrics.of(rule, sample, flagged, level)
        # The detector may be one of the scores of overlap itself.
        own = {origin.score["name"]: sample.values} if "name" in origin.score else {}
        inverted = look_inverted({**features, **own}, sample.labels)
        how = {"undefined": policy, "confidence": level, "ways": others.ways}
        used = None if rule.groups is not None else calibration.threshold
        chapters["curve"] = sections.operating_curve(sample, **how, used=used)
        chapters["confounds"] = confounds(sample, features, undefined=policy, confidence=level)
    else:
        # The answers' values saw the labels: nothing is ranked by them.
        tested = TestMetrics.by_sentence(rule, trimmed, flagged, level)
    if risks is not None:
        shown = {"measured": decision.measured, "n_valid": sum(risks.valid)}
        chapters["risks"] = risks.to_dict() | shown
    if decision.by_group is not None:
        if sample.whole:
            tested = replace(tested, coverage=Bound(**decision.certificate["coverage"]))
    elif rule.ranked:
        chapters["attainable"] = attainable(calibration, sample, level)
    if isinstance(calibration, ClusteredCalibration) and rule.chosen is None:
        chapters["clustering"] = clustering(calibration)
    if rule.upper is not None:
        chapters["three_way"] = sections.three_way_review(rule, names, sample, level)
    if others.target is not None:
        from calibrail.evaluation.shift import measured_shift

        shared = {name: features[name] for name in others.target}
        chapters["shift"] = measured_shift(calibration, sample, shared, others.target, level)

    if trimmed is not None:
        chapters["sentences"] = sentence_removal.sentences_section(trimmed, level) | {
            "baselines": sentence_removal.simplest(trimmed, level),
            "detectors": [],
            "stream": sentence_removal.streaming(trimmed, level),
            "needed_auroc": sentence_removal.needed_auroc(
                trimmed.unsupported(), promise.alpha, requirement.min_kept
            ),
        }

    def rows_of(table: Mapping[str, Sample], kind: str) -> tuple[BaselineResult, ...]:
        if trimmed is None:
            beside = calibration, sample, tested.fpr, level
            return tuple(baseline_result(name, other, *beside) for name, other in table.items())
        pairs = [
            sentence_removal.trimmed_row(*item, calibration, trimmed, level)
            for item in table.items()
        ]
        chapters["sentences"][kind] += [about for _, about in pairs]
        return tuple(item for item, _ in pairs)

    lost = np.isnan(sample.values)
    n_undefined = {
        name: {kind: sample.count(lost, part, k, rows)[0] for kind, k in CLASSES.items()}
        for part, name in enumerate(SPLIT_NAMES)
        for rows in (sample.split == part,)
    }
    baselines, threshold = rows_of(others.baselines, "baselines"), rule.chosen
    if threshold is None and not calibration.flag_all:
        threshold = calibration.threshold
    return Report(
        verdict=decision.verdict,
        reason="",
        reason_code=decision.reason,
        score=origin.score,
        promise=promise.settled(),
        requirement=requirement,
        threshold=threshold,
        flag_all=rule.flag_all,
        rank=calibration.rank,
        n_calibration=calibration.n,
        min_coverage=limits.coverage(promise),
        max_fpr=limits.max_fpr,
        undefined={"policy": policy, **n_undefined},
        test=tested,
        baselines=baselines,
        detectors=rows_of(others.detectors, "detectors"),
        certificate=decision.certificate,
        warnings=findings(
            rule,
            sample,
            tested,
            baselines,
            chapters.get("attainable"),
            inverted,
            origin.data.get("near_duplicates"),
            (origin.data.get("reading") or {}).get("repeated_ids"),
        ),
        data=origin.data,
        reproduce=origin.reproduce,
        notes=origin.notes,
        **chapters,
    )


def decided(
    rule: Rule,
    sample: Sample,
    promise: Promise,
    requirement: Requirement,
    key: str,
    *,
    names: Sequence[str] | None = None,
    risks: "RiskControl | None" = None,
    sentences: SentenceTable | None = None,
    costs: Costs | None = None,
) -> verdicts.VerdictResult:
    """Decide about a threshold, as `evaluate` does, without measuring all else of a report.

    Parameters
    ----------
    rule, sample, promise, requirement, names, risks, sentences
        As for `evaluate`.
    key : str
        The score's column among those of the sentences.
    costs : Costs, optional
        Of what the rule's errors cost.
    """
    limits = _limits(promise, requirement, risks)
    names = names if rule.groups is not None else None
    flagged = rule.flags(sample.values, names, sample.tolerance)
    if sentences is None:
        decision = verdicts.decide(rule, flagged, sample, limits)
    else:
        at = rule.thresholds(len(sample), names)
        trimmed = measures.RemovalOutcome.at(at, sample, sentences, key, rule.calibration.undefined)
        decision = verdicts.decide_trimming(rule, flagged, trimmed, limits)
    if risks is not None:
        counts = sample.counts(flagged), sample.among_all.counts(flagged)
        measured = sections.risk_bounds(risks.risks, *counts, requirement.confidence)
        verdict = sections.risk_verdict(measured)
        content = {**decision.certificate, "verdict": verdict, "flips": None}
        decision = verdicts.VerdictResult(verdict, "risks", content, measured=measured)
    if rule.groups is not None and names is not None:
        overlap = isinstance(rule.groups, OverlappingCalibration)
        table: Any = verdicts.by_overlapping_groups if overlap else verdicts.by_group
        rows = table(rule.groups, names, sample, limits, decision.trimmed)
        if sample.whole:
            decision = verdicts.decide_by_groups(rule.groups, rows["rows"], flagged, sample, limits)
        decision = replace(decision, by_group={"column": spelled(promise.by), **rows})
    if costs is not None and costs.cost_miss is not None:
        cost = sections.expected_cost(sample, flagged, costs, requirement.confidence)
        decision = replace(decision, cost=cost)
    return decision


def _limits(promise: Promise, requirement: Requirement, risks: "RiskControl | None") -> Requirement:
    """Return the limits on coverage and FPR that the verdict is about; risks are such limits."""
    if risks is None:
        return replace(requirement, min_coverage=requirement.coverage(promise))
    levels = {risk.name: risk.level for risk in risks.risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)
