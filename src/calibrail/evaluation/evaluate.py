"""How good is a calibrated threshold on examples that it has not seen?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    Bound,
    Calibration,
    ClusteredCalibration,
    calibrate_threshold,
    coverage_band,
)
from calibrail.conformal.risks import RiskControl
from calibrail.conformal.rule import Rule
from calibrail.data.diagnosis import Finding
from calibrail.evaluation import findings as found
from calibrail.evaluation.findings import Band
from calibrail.evaluation.report import Report, Tested
from calibrail.evaluation.rows import Row, compare_row, row
from calibrail.evaluation.sample import CALIBRATION, FIT, TEST, Floats, Sample
from calibrail.evaluation.sections.attainable import attainable, few_distinct_scores
from calibrail.evaluation.sections.baselines import confounds
from calibrail.evaluation.sections.by_group import by_group
from calibrail.evaluation.sections.clustering import clustering, one_per_group
from calibrail.evaluation.sections.curve import operating_curve
from calibrail.evaluation.sections.measured_risks import measured_risks, risk_verdict
from calibrail.evaluation.sections.review import three_way_review
from calibrail.evaluation.shift.unlabelled import measured_shift
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.overlap import median_overlap, overlap
from calibrail.evaluation.stats.rates import accuracy, wilson
from calibrail.evaluation.stats.separation import cohens_d, moments, welch
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.evaluation.verdict import Alarms, Decision, decide
from calibrail.settings import Promise, Requirement


@dataclass(frozen=True, slots=True)
class Others:
    """What stands beside the detector on the same answers.

    Attributes
    ----------
    baselines, detectors : mapping of str to Sample
        Trivial baselines, and further detectors.
    target : mapping of str to ndarray of float64, shape (m,), or None
        Baselines of unlabelled production answers, to measure how they differ.
    """

    baselines: Mapping[str, Sample] = field(default_factory=dict)
    detectors: Mapping[str, Sample] = field(default_factory=dict)
    target: Mapping[str, Floats] | None = None


@dataclass(frozen=True, slots=True)
class Origin:
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
    origin: Origin,
    *,
    others: Others | None = None,
    names: Sequence[str] | None = None,
    risks: RiskControl | None = None,
    seed: int = 0,
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
    origin : Origin
        What the report says of the detector and the data.
    others : Others, optional
        Baselines and further detectors on the same rows, and production answers.
    names : sequence of str, length n, optional
        Each example's group, where the rule has groups.
    risks : RiskControl, optional
        Multi-risk control that chose the threshold of ``rule``.
    seed : int
        Seed of the bootstrap interval of the overlap.

    Returns
    -------
    Report
        The same input gives the same report.
    """
    others = others or Others()
    calibration = rule.calibration
    limits = _limits(promise, requirement, risks)
    level = requirement.confidence
    names = names if rule.groups is not None else None
    flagged = rule.flags(sample.values, names, sample.tolerance)
    tested = _tested(rule, sample, flagged, level, seed)
    clusters = calibration if isinstance(calibration, ClusteredCalibration) else None
    once = None
    if clusters is not None and sample.groups is not None:
        once = one_per_group(flagged, sample)
    decision = decide(rule, tested, Alarms.count(flagged, sample), limits, once)
    measured = None
    if risks is not None:
        measured = measured_risks(risks, flagged, sample, level)
        verdict, reason = risk_verdict(measured["measured"])
        both = {"verdict": verdict, "reason": reason}
        decision = Decision(verdict, reason, {**decision.certificate, **both, "flips": None})
    grouped = None
    if rule.groups is not None and names is not None:
        shared = shared_calibration(calibration, sample.scores(CALIBRATION, 1))
        rows = by_group(rule.groups, shared, names, sample, limits)
        grouped = {"column": promise.by, **rows}
    shift = None
    if others.target is not None:
        features = {name: others.baselines[name].values for name in others.target}
        shift = measured_shift(calibration, sample, features, others.target, level)
    offered = None
    if rule.groups is None and rule.chosen is None:
        offered = attainable(calibration, sample, level)
    threshold = None if calibration.flag_all else float(calibration.threshold)
    policy = calibration.undefined

    def rows_of(table: Mapping[str, Sample]) -> tuple[Row, ...]:
        made = ((other, row(name, other, calibration, level)) for name, other in table.items())
        return tuple(
            compare_row(item, other.values, sample, tested.fpr, undefined=policy, confidence=level)
            for other, item in made
        )

    baselines = rows_of(others.baselines)
    undefined = _undefined_counts(policy, sample)
    return Report(
        verdict=decision.verdict,
        reason=decision.reason,
        score=origin.score,
        promise=promise,
        requirement=requirement,
        threshold=threshold if rule.chosen is None else rule.chosen,
        flag_all=rule.flag_all,
        rank=calibration.rank,
        n_calibration=calibration.n,
        min_coverage=limits.coverage(promise),
        max_fpr=limits.max_fpr,
        undefined=undefined,
        test=tested,
        baselines=baselines,
        detectors=rows_of(others.detectors),
        certificate=decision.certificate,
        warnings=_warnings(rule, sample, tested, baselines, undefined, offered),
        data=origin.data,
        reproduce=origin.reproduce,
        notes=origin.notes,
        by_group=grouped,
        clustering=None if clusters is None else clustering(clusters, sample, level),
        three_way=None if rule.upper is None else three_way_review(rule, names, sample, level),
        risks=measured,
        curve=operating_curve(sample, undefined=policy, confidence=level),
        shift=shift,
        attainable=offered,
        confounds=confounds(
            sample,
            {name: other.values for name, other in others.baselines.items()},
            undefined=policy,
            confidence=level,
        ),
    )


def _limits(promise: Promise, requirement: Requirement, risks: RiskControl | None) -> Requirement:
    """Return the limits on coverage and FPR that the verdict is about; risks are such limits."""
    if risks is None:
        return replace(requirement, min_coverage=requirement.coverage(promise))
    levels = {risk.name: risk.level for risk in risks.risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)


def shared_calibration(like: Calibration, scores: Floats) -> Calibration:
    """Return one threshold for all examples, by the promise of a fallback."""
    return calibrate_threshold(scores, replace(like.promise, allow_flag_all=True))


def _tested(
    rule: Rule, sample: Sample, flagged: NDArray[np.bool_], confidence: float, seed: int
) -> Tested:
    hallucinated, faithful = sample.rows(TEST, 1), sample.rows(TEST, 0)
    ranked = ranked_values(sample.values, rule.undefined)
    ranked_h, ranked_f = ranked[hallucinated], ranked[faithful]
    values_h, values_f = sample.values[hallucinated], sample.values[faithful]
    coverage = wilson(*sample.count(flagged, TEST, 1), confidence)
    fpr = wilson(*sample.count(flagged, TEST, 0), confidence)
    test = sample.rows(TEST)
    return Tested(
        n_hallucinated=coverage.n,
        n_faithful=fpr.n,
        coverage=coverage,
        coverage_band=_band(rule, coverage, confidence),
        fpr=fpr,
        accuracy=accuracy(flagged[test], sample.labels[test], confidence),
        auroc=auroc(ranked_h, ranked_f, confidence=confidence),
        overlap=overlap(ranked_h, ranked_f, confidence=confidence, seed=seed),
        median_overlap=median_overlap(ranked_h, ranked_f),
        means={"hallucinated": moments(values_h), "faithful": moments(values_f)},
        cohens_d=cohens_d(values_h, values_f),
        welch=welch(values_h, values_f),
    )


def _band(rule: Rule, coverage: Bound, confidence: float) -> Band | None:
    calibration = rule.calibration
    # The law of the band is that of one threshold from independent examples.
    simple = rule.groups is None and rule.chosen is None
    if isinstance(calibration, ClusteredCalibration) or not simple:
        return None
    if calibration.flag_all or coverage.n == 0:
        return None
    lowest, highest = coverage_band(calibration, coverage.n, confidence)
    inside = lowest <= coverage.count <= highest
    return Band(int(lowest), int(highest), coverage.n, confidence, inside)


def _undefined_counts(policy: str, sample: Sample) -> dict[str, Any]:
    counts: dict[str, Any] = {"policy": policy}
    undefined = np.isnan(sample.values)
    for name, part in (("fit", FIT), ("calibration", CALIBRATION), ("test", TEST)):
        counts[name] = {
            "hallucinated": sample.count(undefined, part, 1)[0],
            "faithful": sample.count(undefined, part, 0)[0],
        }
    return counts


def _warnings(
    rule: Rule,
    sample: Sample,
    tested: Tested,
    baselines: tuple[Row, ...],
    undefined: Mapping[str, Any],
    offered: Mapping[str, Any] | None,
) -> tuple[Finding, ...]:
    """Return every warning that applies, the gravest first."""
    calibration = rule.calibration
    coverage, fpr, area = tested.coverage, tested.fpr, tested.auroc
    # What a warning says about the one threshold and its rank applies only where it decides.
    alone = rule.chosen is None and rule.groups is None
    tied = int(np.sum(calibration.scores == calibration.threshold)) > 1
    shared = {"total": 0}
    if sample.groups is not None:
        shared = found.shared_groups(sample.labels, sample.split, sample.groups)
    repaired = isinstance(calibration, ClusteredCalibration) or rule.chosen is not None
    messages: dict[str, str | None] = {
        "reversed_direction": found.reversed_direction(area),
        "flags_everything": found.flags_everything(calibration, fpr, rule.flag_all),
        "baseline_beats_detector": found.baseline_beats_detector(baselines, area, fpr),
        "not_shown_to_beat_baseline": found.not_shown_to_beat_baseline(baselines),
        "coverage_outside_band": found.coverage_outside_band(tested.coverage_band, coverage, tied),
        "paper_rank_undercovers": found.paper_rank_undercovers(calibration) if alone else None,
        "few_distinct_scores": few_distinct_scores(calibration, offered),
        "too_few_examples": found.too_few_examples(
            calibration if alone else None, coverage.n, fpr.n
        ),
        "clustered": found.clustered(shared, advise=not repaired),
        "undefined_scores": found.undefined_scores(undefined),
    }
    return tuple(Finding(code, text) for code, text in messages.items() if text is not None)
