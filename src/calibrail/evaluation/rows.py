"""How do other detectors and trivial baselines do on the same split at the same target?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, Calibration, calibrate_threshold
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, TEST
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.paired_auroc import auroc_difference
from calibrail.evaluation.stats.rates import wilson
from calibrail.evaluation.stats.undefined import ranked_values

#: Codes of the parts of a split, as they stand in ``codes`` arrays.


@dataclass(frozen=True, slots=True)
class Row:
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
        See ``compare_row``.
    detector_beats : bool
        The interval of ``auroc_difference`` lies entirely below zero.
    reason : str or None
        Why it could not be calibrated.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-able dictionary."""
        return {
            "name": self.name,
            "threshold": self.threshold,
            "n_calibration": self.n_calibration,
            "coverage": self.coverage.to_dict() if self.coverage else None,
            "fpr": self.fpr.to_dict() if self.fpr else None,
            "auroc": self.auroc.to_dict(),
            "auroc_difference": self.auroc_difference.to_dict() if self.auroc_difference else None,
            "beats_detector": self.beats_detector,
            "detector_beats": self.detector_beats,
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """Rebuild a row from ``to_dict``."""
        fields = dict(data)
        for key in ("coverage", "fpr"):
            fields[key] = Bound(**fields[key]) if fields[key] else None
        fields["auroc"] = Measure.from_dict(fields["auroc"])
        if fields["auroc_difference"]:
            fields["auroc_difference"] = Measure.from_dict(fields["auroc_difference"])
        return cls(**fields)


def row(
    name: str,
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    like: Calibration,
    *,
    tolerance: float = 0.0,
    confidence: float = 0.95,
) -> Row:
    """Return one detector's row: calibrated by the promise of ``like``, tested on the test part.

    Parameters
    ----------
    name : str
        Name of the score.
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated, NaN where undefined.
    labels, codes : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 0 = fit, 1 = calibration, 2 = test.
    like : Calibration
        Gives the target, the guarantee and the policy for undefined scores.
    tolerance, confidence : float
        Numerical tolerance of the score; level of the intervals.
    """
    test = codes == TEST
    ranked = ranked_values(values, like.undefined)
    area = auroc(ranked[test & (labels == 1)], ranked[test & (labels == 0)], confidence=confidence)
    source = values[(codes == CALIBRATION) & (labels == 1)]
    try:
        calibration = calibrate_threshold(source, replace(like.promise, allow_flag_all=False))
    except InputError as error:
        return Row(name, None, len(source), None, None, area, reason=str(error))
    flagged = calibration.flags(values[test], tolerance)
    hallucinated = labels[test] == 1
    caught, alarms = int(np.sum(flagged & hallucinated)), int(np.sum(flagged & ~hallucinated))
    return Row(
        name=name,
        threshold=None if calibration.flag_all else calibration.threshold,
        n_calibration=calibration.n,
        coverage=wilson(caught, int(np.sum(hallucinated)), confidence),
        fpr=wilson(alarms, int(np.sum(~hallucinated)), confidence),
        auroc=area,
    )


def compare_row(
    other: Row,
    values: NDArray[np.float64],
    detector_values: NDArray[np.float64],
    detector_fpr: Bound,
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    *,
    undefined: str,
    confidence: float = 0.95,
) -> Row:
    """Return ``other`` with its verdict against the reported detector, on the same test rows.

    Rule: a row *beats the detector* when DeLong's paired interval of the AUROC difference lies
    entirely above zero AND its observed FPR, calibrated to the same target, is lower. A row that
    cannot be calibrated beats nothing. *The detector beats a row* when the interval lies entirely
    below zero. Otherwise the two are not told apart.

    Parameters
    ----------
    other : Row
        The row of ``values``.
    values, detector_values : ndarray of float64, shape (n,)
        Scores of the row and of the detector, NaN where undefined.
    detector_fpr : Bound
        The detector's FPR on the test part.
    labels, codes : ndarray of int8, shape (n,)
        As in ``row``.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Level of the paired interval.
    """
    test = codes == TEST
    difference = auroc_difference(
        ranked_values(values[test], undefined),
        ranked_values(detector_values[test], undefined),
        labels[test],
        confidence=confidence,
    )
    higher = difference.lower is not None and difference.lower > 0.0
    lower_fpr = (
        other.fpr is not None
        and other.fpr.estimate is not None
        and detector_fpr.estimate is not None
        and other.fpr.estimate < detector_fpr.estimate
    )
    return Row(
        name=other.name,
        threshold=other.threshold,
        n_calibration=other.n_calibration,
        coverage=other.coverage,
        fpr=other.fpr,
        auroc=other.auroc,
        auroc_difference=difference,
        beats_detector=higher and lower_fpr,
        detector_beats=difference.upper is not None and difference.upper < 0.0,
        reason=other.reason,
    )
