"""What difference does it make that answers to one question are not independent?"""

from typing import Any

import numpy as np

from calibrail.conformal import Calibration, ClusteredCalibration
from calibrail.evaluation.sample import Sample


def clustering(
    calibration: ClusteredCalibration, sample: Sample, confidence: float
) -> dict[str, Any]:
    """Return the threshold that counts each group once beside the naive one, on the test part.

    Parameters
    ----------
    calibration : ClusteredCalibration
        From the hallucinated calibration examples.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Level of every interval.
    """

    def measured(rule: Calibration) -> dict[str, Any]:
        coverage, fpr = sample.bounds(rule.flags(sample.values, sample.tolerance), confidence)
        threshold = None if rule.flag_all else rule.threshold
        return {"threshold": threshold, "coverage": coverage.to_dict(), "fpr": fpr.to_dict()}

    return {
        "n": calibration.n,
        "n_clusters": calibration.n_clusters,
        "largest": int(np.bincount(calibration.clusters).max(initial=0)),
        "each_group_once": measured(calibration),
        "naive": measured(calibration.naive()),
    }
