"""How much more often do such answers occur in production than in the calibration data?"""

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.errors import InputError
from calibrail.evaluation.stats.arrays import Floats


def density_ratio(
    calibration: ArrayLike, production: ArrayLike, limit: float = 0.01
) -> tuple[Floats, Floats]:
    """Estimate the density ratio production / calibration from features of unlabelled answers.

    A logistic regression (scikit-learn, standardised features) tells the two samples apart; its
    odds, corrected for the sample sizes, are the ratio. Estimated probabilities are kept ``limit``
    away from 0 and 1, so that no single example carries everything.

    Parameters
    ----------
    calibration : array-like of float, shape (n, d)
        Features of the calibration examples; they must not be made from labels or scores.
    production : array-like of float, shape (m, d)
        The same features of production answers.
    limit : float
        In (0, 0.5).

    Returns
    -------
    (ndarray, ndarray) of float64, shapes (n,) and (m,)
        Weights of the calibration examples and of the production answers, of mean about 1 on the
        calibration side.

    Raises
    ------
    InputError
        If the features are not finite matrices with the same columns.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    near = _matrix(calibration, "calibration")
    far = _matrix(production, "production")
    if near.shape[1] != far.shape[1]:
        raise InputError(
            f"production must have the {near.shape[1]} features of calibration; got {far.shape[1]}"
        )
    if validation.share(limit, "limit") >= 0.5:
        raise InputError(f"limit must lie in (0, 0.5); got {limit!r}")
    model = make_pipeline(StandardScaler(), LogisticRegression())
    origin = np.repeat([0, 1], [len(near), len(far)])
    model.fit(np.concatenate([near, far]), origin)

    def ratio(features: Floats) -> Floats:
        chance = np.clip(model.predict_proba(features)[:, 1], limit, 1.0 - limit)
        return np.asarray(chance / (1.0 - chance) * len(near) / len(far), dtype=np.float64)

    return ratio(near), ratio(far)


def _matrix(features: ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers; {error}") from error
    if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
        raise InputError(f"{name} must be a finite matrix of shape (n, d); got shape {array.shape}")
    return array
