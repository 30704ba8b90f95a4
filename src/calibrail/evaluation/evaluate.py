"""How good is a calibrated threshold on examples that it has not seen?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from calibrail.errors import InputError
from calibrail.evaluation import findings as found
from calibrail.evaluation.findings import Band, Finding
from calibrail.evaluation.report import Report, Tested
from calibrail.evaluation.rows import Row, compare_row, row
from calibrail.evaluation.sample import CALIBRATION, FIT, TEST, Sample
from calibrail.evaluation.sections.attainable import attainable, few_distinct_scores
from calibrail.evaluation.sections.baselines import confounds
from calibrail.evaluation.sections.by_group import by_group
from calibrail.evaluation.sections.clustering import clustering, one_per_group
from calibrail.evaluation.sections.curve import operating_curve
from calibrail.evaluation.sections.measured_risks import measured_risks, risk_verdict
from calibrail.evaluation.sections.review import three_way_review
from calibrail.evaluation.shift.unlabelled import measured_shift
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import checked_confidence
from calibrail.evaluation.stats.overlap import median_overlap, overlap
from calibrail.evaluation.stats.rates import accuracy, wilson
from calibrail.evaluation.stats.separation import cohens_d, moments, welch
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.evaluation.verdict import Alarms, Decision, decide

_Floats = NDArray[np.float64]
_Codes = NDArray[np.int8]


def evaluate(
    calibration: Calibration,
    *,
    score: str | Mapping[str, Any],
    values: _Floats,
    labels: _Codes,
    codes: _Codes,
    tolerance: float = 0.0,
    confidence: float = 0.95,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    baselines: Mapping[str, _Floats] | None = None,
    others: Mapping[str, _Floats] | None = None,
    tolerances: Mapping[str, float] | None = None,
    groups: NDArray[np.int64] | None = None,
    rule: Rule | None = None,
    by: str | None = None,
    names: Sequence[str] | None = None,
    risks: RiskControl | None = None,
    target: Mapping[str, _Floats] | None = None,
    fitted: bool = False,
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Report:
    """Measure a threshold and its score on the test part, and decide about its requirements.

    Parameters
    ----------
    calibration : Calibration
        The threshold, from the hallucinated examples of the calibration part alone.
    score : str or mapping
        The score's specification: a name, or a mapping with ``name`` and ``params``.
    values : ndarray of float64, shape (n,)
        Scores of all examples, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    codes : ndarray of int8, shape (n,)
        Part of each example: 0 = fit, 1 = calibration, 2 = test.
    tolerance : float
        Numerical tolerance of the score: flagged when ``value + tolerance >= threshold``.
    confidence : float
        Level of every interval, and of the certificate as a whole.
    max_fpr : float or None
        Highest acceptable FPR. Without it the verdict is "rejected" or "inconclusive".
    min_coverage : float or None
        Required coverage; ``1 - alpha`` if None.
    baselines, others : mapping of str to ndarray of float64, shape (n,)
        Trivial baselines, and further detectors, on the same rows.
    tolerances : mapping of str to float
        Numerical tolerances of ``others`` and ``baselines``; 0 where absent.
    groups : ndarray of int64, shape (n,), or None
        What examples share (a source, a question); negative = stands alone.
    rule : Rule, optional
        Everything that decides, where that is more than the one threshold: thresholds of groups, a
        second threshold for a three-way decision.
    by : str, optional
        Column that the groups of ``rule`` come from.
    names : sequence of str, length n, optional
        Each example's group in that column.
    risks : RiskControl, optional
        Multi-risk control that chose the threshold of ``rule``.
    target : mapping of str to ndarray of float64, shape (m,), optional
        Baselines of unlabelled production answers, to measure how they differ.
    fitted : bool
        Whether the score was fitted on labelled examples: then only test examples may serve the
        FPR bound.
    data, reproduce : mapping
        Source, digests and counts of quarantined rows; command, seed and versions. Passed through.
    notes : sequence of str
        Remarks, passed through.
    seed : int
        Seed of the bootstrap interval of the overlap.

    Returns
    -------
    Report
        The same input gives the same report.

    Raises
    ------
    InputError
        If the arrays differ in length, or hold something other than the values named above.
    """
    values, labels, codes = _checked(values, labels, codes)
    level = checked_confidence(confidence)
    required = 1.0 - calibration.alpha if min_coverage is None else min_coverage
    for name, share in (("min_coverage", required), ("max_fpr", max_fpr)):
        if share is not None and not 0.0 <= share <= 1.0:
            raise InputError(f"{name} must lie in [0, 1]; got {share}")
    rule = rule or Rule(calibration)
    keys = names if rule.groups is not None else None
    flagged = rule.flags(values, keys, tolerance)
    simple = (
        keys is None and rule.chosen is None and not isinstance(calibration, ClusteredCalibration)
    )
    tested = _tested(calibration, values, labels, codes, flagged, level, seed, simple)
    own_fpr = tested.fpr

    def rows(table: Mapping[str, _Floats] | None) -> tuple[Row, ...]:
        result = []
        for name, column in (table or {}).items():
            if len(column) != len(values):
                raise InputError(f"{name} must have {len(values)} values; got {len(column)}")
            slack = (tolerances or {}).get(name, 0.0)
            made = row(name, column, labels, codes, calibration, tolerance=slack, confidence=level)
            result.append(
                compare_row(
                    made, column, values, own_fpr, labels, codes,
                    undefined=calibration.undefined, confidence=level,
                )
            )  # fmt: skip
        return tuple(result)

    alarms = Alarms.count(flagged, labels, codes, groups, fitted)
    once = None
    if isinstance(calibration, ClusteredCalibration) and groups is not None:
        once = one_per_group(flagged, labels, codes, groups)
    decision = decide(
        calibration,
        tested,
        alarms,
        required,
        max_fpr,
        level,
        one_threshold=keys is None and rule.chosen is None,
        once=once,
        verb="flags" if rule.upper is None else "withholds",
    )
    shift = None
    if target is not None:
        shift = measured_shift(
            calibration,
            Sample(values, labels, codes),
            {name: (baselines or {})[name] for name in target},
            target,
            level,
        )
    measured = None
    if risks is not None:
        measured = measured_risks(risks, flagged, labels, codes, level)
        verdict, reason = risk_verdict(measured["measured"])
        both = {"verdict": verdict, "reason": reason}
        decision = Decision(verdict, reason, {**decision.certificate, **both, "flips": None})
    grouped = None
    if rule.groups is not None and keys is not None:
        shared = shared_calibration(calibration, values[(codes == CALIBRATION) & (labels == 1)])
        grouped = by_group(
            str(by), rule.groups, shared, keys, values, labels, codes,
            tolerance=tolerance, min_coverage=required, max_fpr=max_fpr, confidence=level,
        )  # fmt: skip
    clustered = None
    if isinstance(calibration, ClusteredCalibration):
        clustered = clustering(
            calibration, values, labels, codes, tolerance=tolerance, confidence=level
        )
    review = None
    if rule.upper is not None:
        review = three_way_review(
            rule, keys, values, labels, codes, tolerance=tolerance, confidence=level
        )
    baseline_rows = rows(baselines)
    threshold = None if calibration.flag_all else float(calibration.threshold)
    if rule.chosen is not None:
        threshold = rule.chosen
    offered = None
    if keys is None and rule.chosen is None:
        offered = attainable(
            calibration, values, labels, codes, tolerance=tolerance, confidence=level
        )
    undefined = _undefined_counts(calibration.undefined, values, labels, codes)
    return Report(
        score={"name": score, "params": {}} if isinstance(score, str) else dict(score),
        alpha=float(calibration.alpha),
        guarantee=calibration.guarantee,
        delta=calibration.delta,
        threshold=threshold,
        flag_all=rule.flag_all,
        rank=calibration.rank,
        n_calibration=calibration.n,
        confidence=level,
        min_coverage=float(required),
        max_fpr=max_fpr,
        undefined=undefined,
        test=tested,
        baselines=baseline_rows,
        detectors=rows(others),
        verdict=decision.verdict,
        reason=decision.reason,
        certificate=decision.certificate,
        warnings=_warnings(
            calibration, rule, tested, baseline_rows, undefined, labels, codes, groups, offered
        ),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
        notes=tuple(notes),
        by_group=grouped,
        clustering=clustered,
        three_way=review,
        risks=measured,
        shift=shift,
        attainable=offered,
        curve=operating_curve(
            values, labels, codes, undefined=calibration.undefined, confidence=level
        ),
        confounds=confounds(
            values,
            labels,
            codes,
            baselines or {},
            undefined=calibration.undefined,
            confidence=level,
        ),
    )


def shared_calibration(like: Calibration, scores: _Floats) -> Calibration:
    """Return one threshold for all examples, by the promise of a fallback."""
    return calibrate_threshold(scores, replace(like.promise, allow_flag_all=True))


def _checked(values: _Floats, labels: _Codes, codes: _Codes) -> tuple[_Floats, _Codes, _Codes]:
    if not len(values) == len(labels) == len(codes):
        raise InputError(
            "values, labels and codes must have one entry per example; got "
            f"{len(values)}, {len(labels)} and {len(codes)}"
        )
    if np.isinf(values).any():
        raise InputError("values must be finite, or NaN where undefined; got an infinite value")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("labels must be 0 (faithful) or 1 (hallucinated)")
    if not np.isin(codes, (FIT, CALIBRATION, TEST)).all():
        raise InputError("codes must be 0 (fit), 1 (calibration) or 2 (test)")
    return np.asarray(values, dtype=np.float64), labels, codes


def _tested(
    calibration: Calibration,
    values: _Floats,
    labels: _Codes,
    codes: _Codes,
    flagged: NDArray[np.bool_],
    confidence: float,
    seed: int,
    simple: bool,
) -> Tested:
    hallucinated, faithful = (codes == TEST) & (labels == 1), (codes == TEST) & (labels == 0)
    n_h, n_f = int(hallucinated.sum()), int(faithful.sum())
    ranked = ranked_values(values, calibration.undefined)
    ranked_h, ranked_f = ranked[hallucinated], ranked[faithful]
    coverage = wilson(int(flagged[hallucinated].sum()), n_h, confidence)
    test = codes == TEST
    return Tested(
        n_hallucinated=n_h,
        n_faithful=n_f,
        coverage=coverage,
        fpr=wilson(int(flagged[faithful].sum()), n_f, confidence),
        accuracy=accuracy(flagged[test], labels[test], confidence),
        # The law of the band is that of one threshold from independent examples.
        coverage_band=_band(calibration, coverage, confidence, simple),
        auroc=auroc(ranked_h, ranked_f, confidence=confidence),
        overlap=overlap(ranked_h, ranked_f, confidence=confidence, seed=seed),
        median_overlap=median_overlap(ranked_h, ranked_f),
        means={
            "hallucinated": moments(values[hallucinated]),
            "faithful": moments(values[faithful]),
        },
        cohens_d=cohens_d(values[hallucinated], values[faithful]),
        welch=welch(values[hallucinated], values[faithful]),
    )


def _band(
    calibration: Calibration, coverage: Bound, confidence: float, simple: bool
) -> Band | None:
    if calibration.flag_all or coverage.n == 0 or not simple:
        return None
    lowest, highest = coverage_band(calibration, coverage.n, confidence)
    inside = lowest <= coverage.count <= highest
    return Band(int(lowest), int(highest), coverage.n, confidence, inside)


def _undefined_counts(
    policy: str, values: _Floats, labels: _Codes, codes: _Codes
) -> dict[str, Any]:
    counts: dict[str, Any] = {"policy": policy}
    undefined = np.isnan(values)
    for name, part in (("fit", FIT), ("calibration", CALIBRATION), ("test", TEST)):
        here = undefined & (codes == part)
        counts[name] = {
            "hallucinated": int(np.sum(here & (labels == 1))),
            "faithful": int(np.sum(here & (labels == 0))),
        }
    return counts


def _warnings(
    calibration: Calibration,
    rule: Rule,
    tested: Tested,
    baselines: tuple[Row, ...],
    undefined: Mapping[str, Any],
    labels: _Codes,
    codes: _Codes,
    groups: NDArray[np.int64] | None,
    offered: Mapping[str, Any] | None,
) -> tuple[Finding, ...]:
    """Return every warning that applies, the gravest first."""
    coverage, fpr, area = tested.coverage, tested.fpr, tested.auroc
    # What a warning says about the one threshold and its rank applies only where it decides.
    alone = rule.chosen is None and rule.groups is None
    tied = int(np.sum(calibration.scores == calibration.threshold)) > 1
    shared = found.shared_groups(labels, codes, groups) if groups is not None else {"total": 0}
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
