"""From which distributions do the simulated scores come, and how likely is each value?

Every score is a normal number, taken as it is, rounded, or binned. So the true rates of every
threshold are known exactly.
"""

from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Kind = Literal["continuous", "discrete", "tied"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Shares of the values 0, 1, 2 of a heavily tied score.
_TIED: Final = (0.05, 0.25, 0.7)
_CUTS: Final = ndtri(np.cumsum(_TIED)[:-1])

Floats = NDArray[np.float64]


def as_score(kind: Kind, normal: Floats) -> Floats:
    """Return scores of a kind: discrete ones are rounded to halves, tied ones take three values."""
    if kind == "discrete":
        return np.round(2.0 * normal) / 2.0
    if kind == "tied":
        return np.searchsorted(_CUTS, normal, side="right").astype(np.float64)
    return normal


def draw(
    rng: np.random.Generator, kind: Kind, shape: int | tuple[int, ...], loc: Floats | float = 0.0
) -> Floats:
    """Draw scores, normal around ``loc`` (one, or one each) with standard deviation 1."""
    return as_score(kind, rng.standard_normal(shape) + loc)


def below(kind: Kind, threshold: Floats | float, loc: float = 0.0) -> Floats:
    """Return P(score < threshold) for thresholds that are scores of this kind, exactly.

    >>> round(float(below("continuous", -1.2815515655)), 4), float(below("tied", 1.0).round(4))
    (0.1, 0.05)
    """
    return _reached(kind, np.asarray(threshold, dtype=np.float64), loc, beyond=False)


def up_to(kind: Kind, value: Floats | float, loc: float = 0.0) -> Floats:
    """Return P(score <= value) for values that are scores of this kind, exactly."""
    return _reached(kind, np.asarray(value, dtype=np.float64), loc, beyond=True)


def quantile(kind: Kind, share: float) -> float:
    """Return the highest score with ``below`` of at most ``share``, for ``loc`` 0."""
    z = float(ndtri(share))
    if kind == "discrete":
        return float(np.floor(2.0 * z + 0.5)) / 2.0
    return float(np.searchsorted(_CUTS, z, side="right")) if kind == "tied" else z


def _reached(kind: Kind, scores: Floats, loc: float, *, beyond: bool) -> Floats:
    """Return the probability of a normal number below the first (or beyond the last) of a score."""
    if kind == "discrete":
        scores = scores + (0.25 if beyond else -0.25)
    if kind == "tied":
        edges = np.concatenate([[-np.inf], _CUTS, [np.inf]])
        scores = edges[scores.astype(np.intp) + (1 if beyond else 0)]
    return np.asarray(ndtr(scores - loc), dtype=np.float64)
