"""What difference does it make that answers to one question are not independent?"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, ClusteredCalibration
from calibrail.evaluation.sample import TEST, Sample
from calibrail.evaluation.stats.rates import wilson


def clustering(
    calibration: ClusteredCalibration,
    sample: Sample,
    confidence: float,
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
        flagged = rule.flags(sample.values, sample.tolerance)
        shares = {}
        for name, label in (("coverage", 1), ("fpr", 0)):
            shares[name] = wilson(*sample.count(flagged, TEST, label), confidence).to_dict()
        return {"threshold": None if rule.flag_all else rule.threshold, **shares}

    sizes = np.bincount(calibration.clusters) if calibration.n else np.zeros(1, np.int64)
    return {
        "n": calibration.n,
        "n_clusters": calibration.n_clusters,
        "largest": int(sizes.max()),
        "each_group_once": measured(calibration),
        "naive": measured(calibration.naive()),
    }


def one_per_group(flagged: NDArray[np.bool_], sample: Sample) -> tuple[int, int, int, int]:
    """Count decisions on one test answer of each group and class, drawn with a fixed seed.

    These are independent where the groups are, so exact bounds hold for them: as rates over groups,
    each counting once.

    Without groups every answer counts.

    Returns
    -------
    (int, int, int, int)
        Caught and number of hallucinated answers, false alarms and number of faithful ones.
    """
    counts = []
    order = np.random.default_rng(0).permutation(len(sample))
    for label in (1, 0):
        part = order[sample.rows(TEST, label)[order]]
        chosen = part
        if sample.groups is not None:
            _, first = np.unique(sample.groups[part], return_index=True)
            chosen = part[first]
        counts += [int(np.sum(flagged[chosen])), len(chosen)]
    return counts[0], counts[1], counts[2], counts[3]
