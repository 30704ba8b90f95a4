"""How do other detectors and trivial baselines do on the same split at the same target?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrail.conformal import Bound, Calibration
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.evaluation.stats.auroc import auroc, auroc_difference
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Row(Record):
    """One detector, calibrated and tested on the rows of the detector that a report is about.

    Parameters
    ----------
    name : str
        Name of the score.
    threshold : float or None
        None where it could not be calibrated, and where everything is flagged.
    n_calibration : int
        Hallucinated calibration examples.
    coverage, fpr : Bound or None
        On the test part with Wilson intervals; None where it could not be calibrated.
    auroc : Measure
        On the test part.
    auroc_difference : Measure or None
        This row's AUROC minus the reported detector's, DeLong's paired interval. None in a table
        without a detector to compare with.
    beats_detector : bool
        See ``row``.
    detector_beats : bool
        The interval of ``auroc_difference`` lies entirely below zero.
    reason : str or None
        Why it could not be calibrated.
    score : mapping or None
        The detector's specification, as in a report; None for a baseline.
    """

    name: str
    threshold: float | None
    n_calibration: int
    coverage: Bound | None
    fpr: Bound | None
    auroc: Measure
    auroc_difference: Measure | None = None
    beats_detector: bool = False
    detector_beats: bool = False
    reason: str | None = None
    score: Mapping[str, Any] | None = None

    @property
    def unclear(self) -> bool:
        """Whether neither is shown to be better."""
        return not self.beats_detector and not self.detector_beats


def row(
    name: str,
    other: Sample,
    like: Calibration,
    detector: Sample,
    detector_fpr: Bound,
    confidence: float = 0.95,
) -> Row:
    """Return a detector calibrated by the promise of ``like``, tested beside the reported one.

    Rule: a row *beats the detector* when DeLong's paired interval of the AUROC difference lies
    entirely above zero AND its observed FPR, calibrated to the same target, is lower. A row that
    cannot be calibrated beats nothing. *The detector beats a row* when the interval lies entirely
    below zero. Otherwise the two are not told apart.

    Parameters
    ----------
    name, other : str and Sample
        Name and scores of the row.
    like : Calibration
        Gives the target, the guarantee and the policy for undefined scores.
    detector, detector_fpr : Sample and Bound
        The reported detector, and its FPR on the test part.
    confidence : float
        Level of the intervals.
    """
    test = other.rows(TEST)
    ranked, beside = (ranked_values(item.values, like.undefined) for item in (other, detector))
    difference = auroc_difference(ranked[test], beside[test], other.labels[test], confidence)
    bare = Row(
        name,
        threshold=None,
        n_calibration=len(other.scores(CALIBRATION, 1)),
        coverage=None,
        fpr=None,
        auroc=auroc(*other.by_class(ranked), confidence=confidence),
        auroc_difference=difference,
        detector_beats=difference.lies_below(0.0),
    )
    try:
        promise = replace(like.promise, allow_flag_all=False)
        calibration = other.calibrated(promise)
    except InputError as error:
        return replace(bare, reason=str(error))
    flagged = calibration.flags(other.values, other.tolerance)
    coverage, fpr = other.bounds(flagged, confidence)
    return replace(
        bare,
        threshold=calibration.threshold,
        coverage=coverage,
        fpr=fpr,
        beats_detector=difference.lies_above(0.0) and fpr.count < detector_fpr.count,
    )
