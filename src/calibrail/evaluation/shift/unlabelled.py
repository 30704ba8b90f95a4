"""How far do production answers differ from the calibration answers, and what would that cost?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, calibrate_weighted
from calibrail.errors import InputError
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.density_ratio import density_ratio

_Floats = NDArray[np.float64]


def measured_shift(
    calibration: Calibration,
    values: _Floats,
    features: Mapping[str, _Floats],
    target: Mapping[str, _Floats],
    source: NDArray[np.bool_],
    hallucinated: NDArray[np.bool_],
    *,
    confidence: float,
) -> dict[str, Any]:
    """Weight the calibration examples towards production, and say how much is left of them.

    The weights are estimated from surface features, so the weighted threshold carries no exact
    promise; it shows in which direction, and about how far, the threshold would have to move.

    Parameters
    ----------
    calibration : Calibration
        The unweighted threshold.
    values : ndarray of float64, shape (n,)
        Scores, NaN where undefined.
    features, target : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features of the labelled answers and of unlabelled production answers.
    source, hallucinated : ndarray of bool, shape (n,)
        Calibration part; hallucinated examples.
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
    near, far = _matrix(features, features)[source], _matrix(target, features)
    mine, theirs = density_ratio(near, far)
    chosen = hallucinated[source] & ~np.isnan(values[source])
    weighted = calibrate_weighted(values[source][chosen], mine[chosen], calibration.alpha)
    threshold = weighted.threshold(float(theirs.mean()))
    return {
        "features": list(features),
        "n_target": len(far),
        "n": int(chosen.sum()),
        "effective_n": weighted.effective_n,
        "threshold": calibration.threshold,
        "weighted_threshold": None if np.isinf(threshold) else threshold,
        "auroc": auroc(theirs, mine, confidence=confidence).to_dict(),
    }


def _matrix(columns: Mapping[str, _Floats], names: Mapping[str, _Floats]) -> _Floats:
    """Return one column a feature, 0 where undefined, and one that says where it is undefined."""
    parts = [columns[name] for name in names]
    found = [np.nan_to_num(part) for part in parts]
    return np.column_stack([*found, *(np.isnan(part).astype(np.float64) for part in parts)])
