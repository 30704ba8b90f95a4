"""What difference does it make that answers to one question are not independent?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, ClusteredCalibration
from calibrail.evaluation.rates import wilson
from calibrail.evaluation.rows import TEST


def clustering(
    calibration: ClusteredCalibration,
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    *,
    tolerance: float,
    confidence: float,
) -> dict[str, Any]:
    """Return the threshold that counts each group once beside the naive one, on the test part.

    Parameters
    ----------
    calibration : ClusteredCalibration
        From the hallucinated calibration examples.
    values, labels, codes : ndarray, shape (n,)
        Scores; 1 = hallucinated, 0 = faithful; 2 = test.
    tolerance, confidence
        As for ``evaluate``.
    """
    test = codes == TEST

    def measured(rule: Calibration) -> dict[str, Any]:
        flagged = rule.flags(values, tolerance) & test
        shares = {}
        for name, label in (("coverage", 1), ("fpr", 0)):
            part = test & (labels == label)
            found = wilson(int(np.sum(flagged & part)), int(np.sum(part)), confidence)
            shares[name] = found.to_dict()
        return {"threshold": None if rule.flag_all else rule.threshold, **shares}

    sizes = np.bincount(calibration.clusters)
    return {
        "n": calibration.n,
        "n_clusters": calibration.n_clusters,
        "largest": int(sizes.max()),
        "each_group_once": measured(calibration),
        "naive": measured(calibration.naive()),
    }
