"""What does one evaluation of one detector hold, and how is it written down?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibrail.evaluation.findings import Finding
from calibrail.evaluation.rows import Row
from calibrail.evaluation.tested import Tested
from calibrail.record import Record
from calibrail.scale import Scale
from calibrail.settings import Promise, Requirement
from calibrail.shown import Shown


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown, Record):
    """One detector's evaluation: promise, measures, comparison with baselines, verdict, warnings.

    Parameters
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        What the data shows about the requirements.
    reason : str
        Why: a code of ``evaluation.verdict``, in plain words once ``workflow.wording`` was at it.
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
    test : Tested
        Every measure on the test part.
    baselines, detectors : tuple of Row
        The trivial baselines and the further detectors, calibrated and tested alike.
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
        How production answers differ (``calibrail.evaluation.shift.weighting``).
    attainable : mapping or None
        What a score with few distinct values can promise (``evaluation.sections.attainable``).
    curve : mapping or None
        Coverage and FPR at other thresholds, in simultaneous bands.
    looks : sequence of mapping
        Earlier looks at the same data, by size, seed and verdict; after one nothing is certified.
    confounds : mapping or None
        How trivial baselines rank beside the score (``calibrail.evaluation.sections.baselines``).
    sentences : mapping or None
        Where sentences are removed: what of the test part, and what something simpler would do
        (``calibrail.evaluation.sections.sentences``). ``unit`` stands in the dictionary, too. Where
        answers could be stopped while they are written, and somebody marked them, what a stream
        shows of them (``calibrail.workflow.streamed``).
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
    test: Tested
    baselines: tuple[Row, ...]
    detectors: tuple[Row, ...]
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
    looks: Sequence[Mapping[str, Any]] = ()
    sentences: Mapping[str, Any] | None = None

    later = ("sentences",)

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
        scale = Scale.of(self.score)
        if scale.column is not None:
            beside["column_threshold"] = scale.in_column(self.threshold)
        return Record.to_dict(self) | beside

    def to_json(self) -> str:
        """Return the report as strict JSON text; the same report gives the same bytes."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Report":
        """Rebuild a report from ``to_dict``.

        Raises
        ------
        InputError
            If the dictionary is not of this schema, or a field is missing or unknown.
        """
        repeated = ("alpha", "guarantee", "delta", "confidence", "unit", "column_threshold")
        return super(Report, cls).from_dict(
            {key: value for key, value in content.items() if key not in repeated}
        )
