"""How good is a calibrated threshold on examples that it has not seen?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrail.conformal import ClusteredCalibration, OverlappingCalibration
from calibrail.conformal.group_keys import spelled
from calibrail.conformal.risks import RiskControl
from calibrail.conformal.rule import Rule
from calibrail.data.splits import SPLIT_NAMES
from calibrail.evaluation.findings import findings
from calibrail.evaluation.report import Report
from calibrail.evaluation.rows import Row, row
from calibrail.evaluation.sample import CLASSES, Floats, Sample
from calibrail.evaluation.sections.attainable import attainable
from calibrail.evaluation.sections.baselines import confounds
from calibrail.evaluation.sections.by_group import by_group, by_overlapping_groups
from calibrail.evaluation.sections.clustering import clustering
from calibrail.evaluation.sections.curve import operating_curve
from calibrail.evaluation.sections.measured_risks import risk_bounds, risk_verdict
from calibrail.evaluation.sections.needed_auroc import needed_auroc
from calibrail.evaluation.sections.review import three_way_review
from calibrail.evaluation.sections.sentences import sentences_section, simplest, trimmed_row
from calibrail.evaluation.sections.streaming import streaming
from calibrail.evaluation.shift.weighting import measured_shift
from calibrail.evaluation.stats.inverted import OVERLAPS, look_inverted
from calibrail.evaluation.tested import Tested
from calibrail.evaluation.trimmed import Trimmed
from calibrail.evaluation.verdict import Decision, decide, decide_trimming
from calibrail.scores.sentence_table import SentenceTable
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
    origin : Origin
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
    calibration, level = rule.calibration, requirement.confidence
    policy = calibration.undefined
    limits = _limits(promise, requirement, risks)
    names = names if rule.groups is not None else None
    flagged = rule.flags(sample.values, names, sample.tolerance)
    features = {name: other.values for name, other in others.baselines.items()}
    trimmed, inverted = None, None
    sections: dict[str, Any] = {}
    if sentences is None:
        tested = Tested.of(rule, sample, flagged, level)
        decision = decide(rule, tested, flagged, sample, limits)
        # The detector may be one of the scores of overlap itself.
        overlaps = {**features, **_by_own_name(origin.score, sample)}
        inverted = look_inverted(overlaps, sample.labels)
        sections["curve"] = operating_curve(sample, undefined=policy, confidence=level)
        sections["confounds"] = confounds(sample, features, undefined=policy, confidence=level)
    else:
        # The answers' values saw the labels: nothing is ranked by them.
        at = rule.thresholds(len(sample), names)
        trimmed = Trimmed.at(at, sample, sentences, str(origin.score["key"]), policy)
        tested = Tested.by_sentence(rule, trimmed, flagged, level)
        decision = decide_trimming(rule, tested, trimmed, limits)
    if risks is not None:
        measured = risk_bounds(risks.risks, sample.counts(flagged), level)
        verdict = risk_verdict(measured)
        content = {**decision.certificate, "verdict": verdict, "flips": None}
        decision = Decision(verdict, "risks", content)
        sections["risks"] = risks.to_dict() | {"measured": measured, "n_valid": sum(risks.valid)}
    if rule.groups is not None and names is not None:
        rows = (
            by_overlapping_groups(rule.groups, names, sample, limits, trimmed)
            if isinstance(rule.groups, OverlappingCalibration)
            else by_group(rule.groups, names, sample, limits, trimmed)
        )
        sections["by_group"] = {"column": spelled(promise.by), **rows}
    elif rule.chosen is None:
        sections["attainable"] = attainable(calibration, sample, level)
    if isinstance(calibration, ClusteredCalibration) and rule.chosen is None:
        sections["clustering"] = clustering(calibration, sample, level)
    if rule.upper is not None:
        sections["three_way"] = three_way_review(rule, names, sample, level)
    if others.target is not None:
        shared = {name: features[name] for name in others.target}
        sections["shift"] = measured_shift(calibration, sample, shared, others.target, level)

    if trimmed is not None:
        sections["sentences"] = sentences_section(trimmed, level) | {
            "baselines": simplest(trimmed, level),
            "detectors": [],
            "stream": streaming(trimmed, level),
            "needed_auroc": needed_auroc(
                trimmed.unsupported(), promise.alpha, requirement.min_kept
            ),
        }

    def rows_of(table: Mapping[str, Sample], kind: str) -> tuple[Row, ...]:
        if trimmed is None:
            beside = calibration, sample, tested.fpr, level
            return tuple(row(name, other, *beside) for name, other in table.items())
        pairs = [trimmed_row(*item, calibration, trimmed, level) for item in table.items()]
        sections["sentences"][kind] += [about for _, about in pairs]
        return tuple(item for item, _ in pairs)

    baselines, threshold = rows_of(others.baselines, "baselines"), rule.chosen
    if threshold is None and not calibration.flag_all:
        threshold = calibration.threshold
    return Report(
        verdict=decision.verdict,
        reason=decision.reason,
        score=origin.score,
        promise=promise,
        requirement=requirement,
        threshold=threshold,
        flag_all=rule.flag_all,
        rank=calibration.rank,
        n_calibration=calibration.n,
        min_coverage=limits.coverage(promise),
        max_fpr=limits.max_fpr,
        undefined={"policy": policy, **_n_undefined(sample)},
        test=tested,
        baselines=baselines,
        detectors=rows_of(others.detectors, "detectors"),
        certificate=decision.certificate,
        warnings=findings(
            rule,
            sample,
            tested,
            baselines,
            sections.get("attainable"),
            inverted,
            origin.data.get("near_duplicates"),
        ),
        data=origin.data,
        reproduce=origin.reproduce,
        notes=origin.notes,
        **sections,
    )


def _limits(promise: Promise, requirement: Requirement, risks: RiskControl | None) -> Requirement:
    """Return the limits on coverage and FPR that the verdict is about; risks are such limits."""
    if risks is None:
        return replace(requirement, min_coverage=requirement.coverage(promise))
    levels = {risk.name: risk.level for risk in risks.risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)


def _by_own_name(score: Mapping[str, Any], sample: Sample) -> dict[str, Floats]:
    return {str(score["name"]): sample.values} if score.get("name") in OVERLAPS else {}


def _n_undefined(sample: Sample) -> dict[str, dict[str, int]]:
    """Return the number of undefined scores per part and class."""
    undefined = np.isnan(sample.values)
    return {
        name: {kind: sample.count(undefined, part, k)[0] for kind, k in CLASSES.items()}
        for part, name in enumerate(SPLIT_NAMES)
    }
