"""Does weighting keep the promise under covariate shift, and how much depends on the weights?

A feature x is standard normal in the calibration data and shifted in production; the score falls
with x, so production's hallucinations are harder to catch. The distribution of the score given x
is the same in both, and the ratio of the two densities of x is known.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal import calibrate_threshold, calibrate_weighted
from calibrail.validity.check import Check, Observation, Setting
from calibrail.validity.distributions import Floats, as_score

#: How far the feature's mean moves, and how far the score falls with the feature.
MOVED: Final = 1.0
_SLOPE: Final = 0.6
#: Examples of production, without labels, from which a ratio is estimated.
UNLABELLED: Final = 50


def weighted_coverage(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of production with known weights: at most alpha."""
    rng = at.rng("shift")

    def missed() -> bool:
        x, scores, new, score = _sample(rng, at)
        weighted = calibrate_weighted(scores, _ratio(x, MOVED), at.alpha)
        return not weighted.flags([score], [float(_ratio(new, MOVED))])[0]

    yield at.check("covariate shift, known ratio", at.repeated(missed), at.alpha)


def without_known_ratio(at: Setting) -> Iterator[Observation]:
    """Estimate the ratio, or do without; nothing is promised."""
    rng, other = at.rng("shift"), at.rng("unlabelled")
    estimated, plain = [], []
    for _ in range(at.runs):
        x, scores, new, score = _sample(rng, at)
        # Two normal distributions of the same spread: the difference of the means is all there is.
        moved = float(other.normal(MOVED, 1.0, UNLABELLED).mean() - x.mean())
        weighted = calibrate_weighted(scores, _ratio(x, moved), at.alpha)
        estimated.append(not weighted.flags([score], [float(_ratio(new, moved))])[0])
        plain.append(score < calibrate_threshold(scores, at.promise()).threshold)
    what = f"ratio estimated from {UNLABELLED} unlabelled answers: misses in production"
    yield at.observed(what, estimated, at.alpha)
    yield at.observed("shift ignored: misses in production", plain, at.alpha)


def _sample(rng: np.random.Generator, at: Setting) -> tuple[Floats, Floats, Floats, float]:
    """Return features and scores for calibration, and a feature and score from production."""
    x, new = rng.standard_normal(at.n), np.asarray(rng.normal(MOVED))
    noise = np.sqrt(1.0 - _SLOPE**2) * rng.standard_normal(at.n + 1)
    scores = as_score(at.kind, noise - _SLOPE * np.append(new, x))
    return x, scores[1:], new, float(scores[0])


def _ratio(x: Floats, moved: float) -> Floats:
    return np.asarray(np.exp(moved * x - moved**2 / 2.0))
