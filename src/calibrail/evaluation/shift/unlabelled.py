"""How far do production answers differ from the calibration answers, and what would that cost?"""

from typing import Any

import numpy as np

from calibrail.conformal import Calibration
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, Sample
from calibrail.evaluation.shift.weighting import Features, weight_towards


def measured_shift(
    calibration: Calibration,
    sample: Sample,
    features: Features,
    target: Features,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Weight the calibration examples towards production, and say how much is left of them.

    The weights are estimated from surface features, so the weighted threshold carries no exact
    promise; it shows in which direction, and about how far, the threshold would have to move.

    Parameters
    ----------
    calibration : Calibration
        The unweighted threshold.
    sample : Sample
        The labelled answers; the weighted ones are those of the calibration part.
    features, target : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features of the labelled answers and of unlabelled production answers.
    confidence : float
        Level of the AUROC's interval.

    Returns
    -------
    dict
        ``effective_n`` of ``n`` hallucinated calibration examples, the thresholds, and the AUROC of
        telling production from calibration answers (0.5 = no difference seen).
    """
    if calibration.flag_all:
        raise InputError("target needs a threshold; there are too few calibration examples for one")
    part = sample.rows(CALIBRATION)
    weighting = weight_towards(
        sample.values[part],
        sample.labels[part],
        {name: column[part] for name, column in features.items()},
        target,
        calibration.alpha,
        confidence,
    )
    threshold = weighting.calibration.threshold(float(weighting.weights.mean()))
    return {
        "features": list(features),
        "n_target": len(weighting.weights),
        "n": weighting.n,
        "effective_n": weighting.calibration.effective_n,
        "threshold": calibration.threshold,
        "weighted_threshold": None if np.isinf(threshold) else threshold,
        "auroc": weighting.told_apart.to_dict(),
    }
