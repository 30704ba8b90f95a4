"""What does one evaluation of one detector hold, and how is it written down?"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrail.conformal import Bound
from calibrail.errors import InputError
from calibrail.evaluation.findings import Band, Finding
from calibrail.evaluation.rows import Row
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.separation import Moments, Welch

#: Name of the format that ``Report.to_dict`` writes.
SCHEMA = "calibrail.report/1"


@dataclass(frozen=True, slots=True)
class Tested:
    """Every measure of a threshold and its score on the test part.

    Parameters
    ----------
    n_hallucinated, n_faithful : int
        Test examples per class.
    coverage, fpr, accuracy : Bound
        Shares caught, flagged wrongly and decided right, with Wilson intervals.
    coverage_band : Band or None
        Where chance alone puts the caught count; None where everything is flagged.
    auroc, overlap, median_overlap, cohens_d : Measure
        Separation of the classes, independent of the threshold. Cohen's d is over defined scores.
    means : mapping of str to Moments
        Under ``"hallucinated"`` and ``"faithful"``, over defined scores.
    welch : Welch
        Test of equal means.
    """

    n_hallucinated: int
    n_faithful: int
    coverage: Bound
    fpr: Bound
    accuracy: Bound
    coverage_band: Band | None
    auroc: Measure
    overlap: Measure
    median_overlap: Measure
    means: Mapping[str, Moments]
    cohens_d: Measure
    welch: Welch

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-able dictionary."""
        return {
            "n_hallucinated": self.n_hallucinated,
            "n_faithful": self.n_faithful,
            "coverage": self.coverage.to_dict(),
            "coverage_band": self.coverage_band.to_dict() if self.coverage_band else None,
            "fpr": self.fpr.to_dict(),
            "accuracy": self.accuracy.to_dict(),
            "auroc": self.auroc.to_dict(),
            "overlap": self.overlap.to_dict(),
            "median_overlap": self.median_overlap.to_dict(),
            "means": {name: value.to_dict() for name, value in self.means.items()},
            "cohens_d": self.cohens_d.to_dict(),
            "welch": self.welch.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tested:
        """Rebuild the measures from ``to_dict``."""
        fields: dict[str, Any] = dict(data)
        for key in ("coverage", "fpr", "accuracy"):
            fields[key] = Bound(**fields[key])
        for key in ("auroc", "overlap", "median_overlap", "cohens_d"):
            fields[key] = Measure.from_dict(fields[key])
        if fields["coverage_band"]:
            fields["coverage_band"] = Band.from_dict(fields["coverage_band"])
        fields["means"] = {k: Moments.from_dict(v) for k, v in fields["means"].items()}
        fields["welch"] = Welch.from_dict(fields["welch"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Report:
    """One detector's evaluation: promise, measures, comparison with baselines, verdict, warnings.

    Parameters
    ----------
    score : mapping
        The score's specification: ``name`` and ``params``.
    alpha : float
        Tolerated miss rate.
    guarantee : {"marginal", "pac", "paper"}
        What the threshold promises.
    delta : float or None
        Error of the ``pac`` guarantee.
    threshold : float or None
        An answer is flagged at this score or above; None where everything is flagged.
    flag_all : bool
        Everything is flagged, because no threshold keeps the promise.
    rank, n_calibration : int
        The threshold is the ``rank``-th smallest of the hallucinated calibration scores.
    confidence : float
        Level of every interval, and of the certificate.
    min_coverage : float
        Coverage that the verdict requires.
    max_fpr : float or None
        Highest FPR that the verdict allows; None where it was not asked.
    undefined : mapping
        The policy, and the number of undefined scores per part and class.
    test : Tested
        Every measure on the test part.
    baselines, detectors : tuple of Row
        The trivial baselines and the further detectors, calibrated and tested alike.
    verdict : {"certified", "rejected", "inconclusive"}
        What the data shows about the requirements.
    reason : str
        Why, in plain words.
    certificate : mapping
        The exact bounds behind the verdict (``Certificate.to_dict``).
    warnings : tuple of Finding
        What a reader should know before acting.
    data, reproduce : mapping
        Where the examples came from, and how to get this report again; passed through.
    notes : tuple of str
        Further remarks, passed through.
    by_group : mapping or None
        Threshold, bounds and verdict of every group (``calibrail.evaluation.sections.by_group``).
    clustering : mapping or None
        The threshold that counts each group once, beside the naive one.
    three_way : mapping or None
        What passes, goes to review and is flagged, with both promises.
    risks : mapping or None
        Thresholds that control several risks at once (``RiskControl.to_dict``).
    shift : mapping or None
        How production answers differ (``calibrail.evaluation.shift.unlabelled``).
    attainable : mapping or None
        What a score with few distinct values can promise (``evaluation.sections.attainable``).
    curve : mapping or None
        Coverage and FPR at other thresholds, in simultaneous bands.
    confounds : mapping or None
        How trivial baselines rank beside the score (``calibrail.evaluation.sections.baselines``).
    """

    score: Mapping[str, Any]
    alpha: float
    guarantee: str
    delta: float | None
    threshold: float | None
    flag_all: bool
    rank: int
    n_calibration: int
    confidence: float
    min_coverage: float
    max_fpr: float | None
    undefined: Mapping[str, Any]
    test: Tested
    baselines: tuple[Row, ...]
    detectors: tuple[Row, ...]
    verdict: str
    reason: str
    certificate: Mapping[str, Any]
    warnings: tuple[Finding, ...]
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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dictionary that strict JSON can hold, with its schema's name."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "reason": self.reason,
            "score": dict(self.score),
            "alpha": self.alpha,
            "guarantee": self.guarantee,
            "delta": self.delta,
            "threshold": self.threshold,
            "flag_all": self.flag_all,
            "rank": self.rank,
            "n_calibration": self.n_calibration,
            "confidence": self.confidence,
            "min_coverage": self.min_coverage,
            "max_fpr": self.max_fpr,
            "undefined": dict(self.undefined),
            "test": self.test.to_dict(),
            "baselines": [row.to_dict() for row in self.baselines],
            "detectors": [row.to_dict() for row in self.detectors],
            "certificate": dict(self.certificate),
            "warnings": [finding.to_dict() for finding in self.warnings],
            "data": finite_json(self.data),
            "reproduce": finite_json(self.reproduce),
            "notes": list(self.notes),
            "by_group": finite_json(self.by_group),
            "clustering": finite_json(self.clustering),
            "three_way": finite_json(self.three_way),
            "risks": finite_json(self.risks),
            "curve": finite_json(self.curve),
            "shift": finite_json(self.shift),
            "attainable": finite_json(self.attainable),
            "confounds": finite_json(self.confounds),
        }

    def to_json(self) -> str:
        """Return the report as strict JSON text; the same report gives the same bytes."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Rebuild a report from ``to_dict``.

        Raises
        ------
        InputError
            If the dictionary is not of this schema, or a field is missing or unknown.
        """
        schema = data.get("schema")
        if schema != SCHEMA:
            raise InputError(f'schema must be "{SCHEMA}"; got {schema!r}')
        fields = {key: value for key, value in data.items() if key != "schema"}
        try:
            fields["test"] = Tested.from_dict(fields["test"])
            fields["baselines"] = tuple(Row.from_dict(row) for row in fields["baselines"])
            fields["detectors"] = tuple(Row.from_dict(row) for row in fields["detectors"])
            fields["warnings"] = tuple(Finding.from_dict(item) for item in fields["warnings"])
            fields["notes"] = tuple(fields["notes"])
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise InputError(f"the report has a missing or an unknown field: {error}") from error


def finite_json(value: Any) -> Any:
    """Return a copy that strict JSON can hold: a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
