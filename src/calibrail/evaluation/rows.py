"""How do other detectors and trivial baselines do on the same split at the same target?"""

from dataclasses import dataclass, replace

from calibrail.conformal import Bound, Calibration, calibrate_threshold
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, TEST, Floats, Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.paired_auroc import auroc_difference
from calibrail.evaluation.stats.rates import wilson
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


def row(name: str, sample: Sample, like: Calibration, confidence: float = 0.95) -> Row:
    """Return one detector's row: calibrated by the promise of ``like``, tested on the test part.

    Parameters
    ----------
    name : str
        Name of the score.
    sample : Sample
        Its scores.
    like : Calibration
        Gives the target, the guarantee and the policy for undefined scores.
    confidence : float
        Level of the intervals.
    """
    ranked = ranked_values(sample.values, like.undefined)
    area = auroc(ranked[sample.rows(TEST, 1)], ranked[sample.rows(TEST, 0)], confidence=confidence)
    source = sample.scores(CALIBRATION, 1)
    try:
        calibration = calibrate_threshold(source, replace(like.promise, allow_flag_all=False))
    except InputError as error:
        return Row(name, None, len(source), None, None, area, reason=str(error))
    flagged = calibration.flags(sample.values, sample.tolerance)
    return Row(
        name=name,
        threshold=None if calibration.flag_all else calibration.threshold,
        n_calibration=calibration.n,
        coverage=wilson(*sample.count(flagged, TEST, 1), confidence),
        fpr=wilson(*sample.count(flagged, TEST, 0), confidence),
        auroc=area,
    )


def compare_row(
    other: Row,
    values: Floats,
    sample: Sample,
    detector_fpr: Bound,
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
    values : ndarray of float64, shape (n,)
        Scores of the row, NaN where undefined.
    sample : Sample
        The detector's.
    detector_fpr : Bound
        The detector's FPR on the test part.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Level of the paired interval.
    """
    test = sample.rows(TEST)
    difference = auroc_difference(
        ranked_values(values[test], undefined),
        ranked_values(sample.values[test], undefined),
        sample.labels[test],
        confidence=confidence,
    )
    higher = difference.lower is not None and difference.lower > 0.0
    lower_fpr = (
        other.fpr is not None
        and other.fpr.estimate is not None
        and detector_fpr.estimate is not None
        and other.fpr.estimate < detector_fpr.estimate
    )
    return replace(
        other,
        auroc_difference=difference,
        beats_detector=higher and lower_fpr,
        detector_beats=difference.upper is not None and difference.upper < 0.0,
    )
