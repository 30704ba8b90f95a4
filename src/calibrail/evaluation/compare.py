"""Which of several detectors costs the fewest false alarms at the same target?"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import calibrate
from calibrail.errors import InputError
from calibrail.evaluation.evaluate import evaluate
from calibrail.evaluation.report import Report, finite_json
from calibrail.evaluation.rows import Row
from calibrail.evaluation.wording import listed, percent

#: Name of the format that ``Comparison.to_dict`` writes.
SCHEMA = "calibrail.compare/1"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several detectors on one split at one target, the fewest false alarms first.

    Parameters
    ----------
    detectors : tuple of (str, Report)
        Name and report of each detector, sorted by observed FPR, then by AUROC (highest first).
    uncalibrated : mapping of str to str
        Detectors that could not be calibrated, with the reason.
    baselines : tuple of Row
        The trivial baselines, sorted alike; those that could not be calibrated come last.
    leader : str or None
        The first detector, if its FPR interval lies below every other detector's; else None.
    finding : str
        What the comparison shows, in plain words.
    data, reproduce : mapping
        Passed through.
    """

    detectors: tuple[tuple[str, Report], ...]
    uncalibrated: Mapping[str, str]
    baselines: tuple[Row, ...]
    leader: str | None
    finding: str
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that strict JSON can hold.

        Each entry of ``detectors`` has the fields of a report, and its ``name``.
        """
        return {
            "schema": SCHEMA,
            "leader": self.leader,
            "finding": self.finding,
            "detectors": [{"name": name, **report.to_dict()} for name, report in self.detectors],
            "uncalibrated": [
                {"name": name, "reason": reason} for name, reason in self.uncalibrated.items()
            ],
            "baselines": [item.to_dict() for item in self.baselines],
            "data": finite_json(self.data),
            "reproduce": finite_json(self.reproduce),
        }

    def to_json(self) -> str:
        """Return the comparison as strict JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def compare_detectors(
    values: Mapping[str, NDArray[np.float64]],
    *,
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    alpha: float,
    guarantee: Literal["marginal", "pac", "paper"] = "marginal",
    delta: float = 0.1,
    undefined: Literal["flag", "review", "pass"] = "flag",
    confidence: float = 0.95,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    baselines: Mapping[str, NDArray[np.float64]] | None = None,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    tolerances: Mapping[str, float] | None = None,
    groups: NDArray[np.int64] | None = None,
    fitted: Collection[str] = (),
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Comparison:
    """Calibrate every detector to the same target on the same split, and report each on the test.

    Intervals are those of single reports: no claim is made about several detectors at once, and a
    detector is called the leader only where its FPR interval lies below all others'.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores per detector, higher = more likely hallucinated; NaN where undefined.
    labels, codes : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 0 = fit, 1 = calibration, 2 = test.
    alpha, guarantee, delta, undefined
        As in ``calibrate``, the same for every detector and baseline.
    specs : mapping of str to mapping
        Full specification (``name``, ``params``) of the detectors that have one.
    fitted : collection of str
        Detectors that were fitted on labelled examples.
    confidence, max_fpr, min_coverage, baselines, tolerances, groups, data, reproduce, notes, seed
        As in ``evaluate``.

    Raises
    ------
    InputError
        If there is no detector, or an array is not as ``evaluate`` needs it.
    """
    if not values:
        raise InputError("values must hold at least one detector; got none")
    source = (codes == 1) & (labels == 1)
    reports: list[tuple[str, Report]] = []
    uncalibrated: dict[str, str] = {}
    for name, column in values.items():
        if len(column) != len(labels):
            raise InputError(f"{name} must have {len(labels)} values; got {len(column)}")
        try:
            calibration = calibrate(column[source], alpha, guarantee, delta, undefined=undefined)
        except InputError as error:
            uncalibrated[name] = str(error)
            continue
        report = evaluate(
            calibration,
            score=(specs or {}).get(name, name),
            values=column,
            labels=labels,
            codes=codes,
            tolerance=(tolerances or {}).get(name, 0.0),
            confidence=confidence,
            max_fpr=max_fpr,
            min_coverage=min_coverage,
            baselines=baselines,
            tolerances=tolerances,
            groups=groups,
            fitted=name in fitted,
            data=data,
            reproduce=reproduce,
            notes=notes,
            seed=seed,
        )
        reports.append((name, report))
    reports.sort(key=lambda item: _order(item[1].test.fpr.estimate, item[1].test.auroc.estimate))
    leader = _leader(reports)
    return Comparison(
        detectors=tuple(reports),
        uncalibrated=uncalibrated,
        baselines=_baseline_rows(reports),
        leader=leader,
        finding=_finding(reports, leader),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
    )


def _order(fpr: float | None, area: float | None) -> tuple[float, float]:
    """Sort by FPR, then by AUROC from the top; what is missing comes last."""
    return (2.0 if fpr is None else fpr, 0.0 if area is None else -area)


def _leader(reports: Sequence[tuple[str, Report]]) -> str | None:
    if len(reports) < 2:
        return None
    first = reports[0][1].test.fpr
    ahead = all(first.upper < report.test.fpr.lower for _, report in reports[1:])
    return reports[0][0] if ahead else None


def _finding(reports: Sequence[tuple[str, Report]], leader: str | None) -> str:
    """Say what the comparison shows, without a winner where intervals overlap."""
    if not reports:
        return "No detector could be calibrated to this target."
    name, report = reports[0]
    fpr = report.test.fpr
    if fpr.estimate is None:
        return "The test part has no faithful example, so false alarms cannot be compared."
    cost = (
        f"{percent(fpr.estimate)} false alarms ({percent(fpr.lower)} to {percent(fpr.upper)}) "
        f"while aiming to catch {percent(1 - report.alpha)} of hallucinations"
    )
    if len(reports) == 1:
        text = f"{name} costs {cost}."
    elif leader is not None:
        text = (
            f"{name} costs the fewest: {cost}; its interval lies below every other detector's. "
            "The same data chose it, so certify it on data that did not."
        )
    else:
        close = [n for n, r in reports[1:] if r.test.fpr.lower <= fpr.upper]
        text = (
            f"No winner: {name} costs {cost}, and its interval overlaps with that of "
            f"{listed(close)}."
        )
    better = [item.name for item in report.baselines if item.beats_detector]
    if better:
        text += f" The {'baselines' if len(better) > 1 else 'baseline'} {listed(better)} beat"
        text += f"{'' if len(better) > 1 else 's'} it."
    return text


def _baseline_rows(reports: Sequence[tuple[str, Report]]) -> tuple[Row, ...]:
    """Return the baselines by themselves, without the comparison with one detector."""
    if not reports:
        return ()
    bare = [
        replace(item, auroc_difference=None, beats_detector=False, detector_beats=False)
        for item in reports[0][1].baselines
    ]
    return tuple(
        sorted(bare, key=lambda r: _order(r.fpr.estimate if r.fpr else None, r.auroc.estimate))
    )
