"""What do calibration answers say once they are weighted towards other answers?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrail.conformal import WeightedCalibration, calibrate_weighted
from calibrail.evaluation.sample import Codes, Floats
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
    values: Floats,
    labels: Codes,
    features: Features,
    others: Features,
    alpha: float,
    confidence: float,
) -> Weighting:
    """Weight calibration answers towards others by the density ratio of their features.

    Parameters
    ----------
    values, labels : ndarray, shape (n,)
        Of the calibration answers.
    features, others : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features on both sides.
    alpha : float
        Tolerated miss rate.
    confidence : float
        Level of the AUROC's interval.
    """
    here, there = density_ratio(_matrix(features, features), _matrix(others, features))
    chosen = (labels == 1) & ~np.isnan(values)
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
