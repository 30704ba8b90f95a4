"""What does a threshold promise where production differs from the calibration data?

Under covariate shift the answers come from other questions, but a given kind of question is
answered as before: the distribution of the features changes, that of the score given the features
does not. If w(x), the ratio of the two densities of the features, were known, weighting the
calibration examples by it would keep the ``marginal`` promise exactly (Tibshirani, Barber, Candes
and Ramdas, 2019, "Conformal prediction under covariate shift"). In practice w is estimated, so NO
exact promise is made: the result is as good as the estimate, and no better than its effective
sample size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.pvalues import add_tolerance, count_at_most
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.record import Record


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCalibration(Record):
    """Calibration scores with their weights; each new answer brings its own weight.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,)
        Calibration scores of hallucinated examples, ascending.
    weights : ndarray of float64, shape (n,)
        Density ratio production / calibration of each, any scale.
    alpha : float
        Tolerated miss rate.
    """

    scores: Floats
    weights: Floats
    alpha: float

    @property
    def effective_n(self) -> float:
        """Effective sample size (sum w)^2 / sum w^2: so many equal weights would be as precise."""
        scaled = np.ldexp(self.weights, -self._exponent)
        return float(scaled.sum() ** 2 / (scaled**2).sum())

    @property
    def _exponent(self) -> int:
        """The largest weight lies below 2 to this power: a scale that rounds nothing."""
        return int(np.frexp(self.weights.max())[1])

    def p_value(self, values: ArrayLike, weights: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return (w(x) + sum of w_i over s_i <= S) / (w(x) + sum of all w_i) for each answer.

        Parameters
        ----------
        values : array-like of float, shape (m,)
            Scores, no NaN.
        weights : array-like of float, shape (m,)
            Each answer's own density ratio, on the scale of the calibration weights.
        tolerance : float
            Numerical tolerance of the score.
        """
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        ratio = _weights(weights, len(queries), "weights")
        ladder = np.append(0.0, np.cumsum(np.ldexp(self.weights, -self._exponent)))
        below = ladder[count_at_most(self.scores, queries)]
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.ldexp(ratio, -self._exponent)
            shares = (ratio + below) / (ratio + ladder[-1])
        # A weight beyond all others leaves no doubt that nothing like it was labelled.
        return np.where(np.isinf(ratio), 1.0, shares)

    def flags(self, values: ArrayLike, weights: ArrayLike, tolerance: float = 0.0) -> Bools:
        """Return which answers are flagged: those whose weighted p-value exceeds alpha."""
        return np.asarray(self.p_value(values, weights, tolerance) > self.alpha)

    def threshold(self, weight: float | None = None) -> float:
        """Return the threshold for an answer of the given weight; of mean weight if left out.

        ``-inf`` where an answer of this weight is always flagged: it looks like nothing that was
        labelled.
        """
        exponent = self._exponent
        mean = float(np.ldexp(np.ldexp(self.weights, -exponent).mean(), exponent))
        ratio = mean if weight is None else validation.number(weight, "weight")
        ratio = float(_weights([ratio], 1, "weight")[0])
        candidates = np.append(-np.inf, self.scores)
        flagged = self.flags(candidates, np.full(len(candidates), ratio))
        return float(candidates[np.argmax(flagged)])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**Record.to_dict(self), "effective_n": self.effective_n}


def calibrate_weighted(scores: ArrayLike, weights: ArrayLike, alpha: float) -> WeightedCalibration:
    """Calibrate on hallucinated examples that are weighted towards production.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, n >= 1, finite.
    weights : array-like of float, shape (n,)
        Density ratio production / calibration at each example's features: finite, at least 0, not
        all 0. Any scale, but the scale of the weights that new answers will bring.
    alpha : float
        Tolerated miss rate, in (0, 1).

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> even = calibrate_weighted([1, 2, 3, 4], [1, 1, 1, 1], alpha=0.4)
    >>> even.threshold(), even.effective_n
    (2.0, 4.0)
    >>> uneven = calibrate_weighted([1, 2, 3, 4], [1, 1, 1, 7], alpha=0.4)
    >>> uneven.threshold(1.0), round(uneven.effective_n, 2)
    (4.0, 1.92)
    """
    values = validation.finite(scores)
    given = _weights(weights, len(values), "weights")
    if not given.max() > 0.0:
        raise InputError(
            "weights must not all be 0: production has nothing in common with the data"
        )
    order = np.argsort(values, kind="stable")
    return WeightedCalibration(values[order], given[order], validation.share(alpha, "alpha"))


def _weights(weights: ArrayLike, n: int, name: str) -> Floats:
    array = validation.vector(weights, name)
    validation.paired(array, n, name)
    if len(array) and not (np.isfinite(array).all() and array.min() >= 0.0):
        raise InputError(f"{name} must be finite and at least 0")
    return array
