"""What do calibration answers say once they are weighted towards other answers?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrail.conformal import Calibration, WeightedCalibration, calibrate_weighted
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, Floats, Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.density_ratio import density_ratio
from calibrail.evaluation.stats.measure import Measure

#: What is known of answers without their labels: a column a feature, NaN where undefined.
Features = Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Calibration answers, weighted by how much more often their like occurs elsewhere.

    Attributes
    ----------
    calibration : WeightedCalibration
        The hallucinated calibration answers with their weights.
    n : int
        How many they are.
    weights : ndarray of float64, shape (m,)
        Of the other answers.
    told_apart : Measure
        AUROC of telling the two sides apart by the weights; 0.5 = no difference seen.
    """

    calibration: WeightedCalibration
    n: int
    weights: Floats
    told_apart: Measure


def weight_towards(
    sample: Sample, features: Features, others: Features, alpha: float, confidence: float
) -> Weighting:
    """Weight calibration answers towards others by the density ratio of their features.

    Parameters
    ----------
    sample : Sample
        Its calibration part is weighted.
    features, others : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features of the sample and of the others.
    alpha : float
        Tolerated miss rate.
    confidence : float
        Level of the AUROC's interval.
    """
    part = sample.rows(CALIBRATION)
    near = {name: column[part] for name, column in features.items()}
    here, there = density_ratio(_matrix(near, features), _matrix(others, features))
    values = sample.values[part]
    chosen = (sample.labels[part] == 1) & ~np.isnan(values)
    return Weighting(
        calibrate_weighted(values[chosen], here[chosen], alpha),
        int(chosen.sum()),
        there,
        auroc(there, here, confidence=confidence),
    )


def _matrix(columns: Features, names: Features) -> Floats:
    """Return one column a feature, 0 where undefined, and one that says where it is undefined."""
    parts = [columns[name] for name in names]
    return np.column_stack(
        [*map(np.nan_to_num, parts), *(np.isnan(part).astype(np.float64) for part in parts)]
    )


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
    weighting = weight_towards(sample, features, target, calibration.alpha, confidence)
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
