"""Do one threshold, its p-values and its coverage band keep their promises?"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.stats import betabinom, binom

from calibrail.conformal import coverage_band, rank
from calibrail.validity.check import CONFIDENCE, DELTA, Check, Setting
from calibrail.validity.distributions import Floats, below, draw

#: Test examples per simulated band.
BATCH: Final = 100


def marginal_coverage(at: Setting) -> Iterator[Check]:
    """Miss one fresh hallucination per calibration: probability k / (n + 1), at most alpha."""
    rng, k = at.rng("marginal"), rank(at.n, at.alpha)
    missed = draw(rng, at.kind, at.runs) < _thresholds(at, rng, k)
    yield at.check("marginal coverage", missed, at.alpha, exact=k / (at.n + 1))


def training_conditional(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold whose true miss rate exceeds alpha: at most ``DELTA``."""
    rng, k = at.rng("pac"), rank(at.n, at.alpha, "pac", DELTA)
    bad = below(at.kind, _thresholds(at, rng, k)) > at.alpha
    yield at.check("pac coverage", bad, DELTA, exact=float(binom.cdf(k - 1, at.n, at.alpha)))


def p_value_uniformity(at: Setting) -> Iterator[Check]:
    """Give a hallucination a p-value of at most alpha: probability at most alpha."""
    rng = at.rng("p-value")
    scores, fresh = draw(rng, at.kind, (at.runs, at.n)), draw(rng, at.kind, (at.runs, 1))
    p = (1.0 + np.count_nonzero(scores <= fresh, axis=1)) / (at.n + 1.0)
    yield at.check("p-value", p <= at.alpha, at.alpha, exact=rank(at.n, at.alpha) / (at.n + 1))


def band_coverage(at: Setting) -> Iterator[Check]:
    """Catch a number of ``BATCH`` fresh hallucinations outside the band (below it, with ties)."""
    rng, k = at.rng("band"), rank(at.n, at.alpha)
    threshold = _thresholds(at, rng, k)[:, None]
    caught = np.count_nonzero(draw(rng, at.kind, (at.runs, BATCH)) >= threshold, axis=1)
    lowest, highest = coverage_band((k, at.n), BATCH, CONFIDENCE)
    caught_of_batch = betabinom(BATCH, at.n + 1 - k, k)
    under, over = float(caught_of_batch.cdf(lowest - 1)), float(caught_of_batch.sf(highest))
    error = 1.0 - CONFIDENCE
    if at.kind == "continuous":
        outside = (caught < lowest) | (caught > highest)
        yield at.check("coverage band", outside, error, exact=under + over)
    else:
        yield at.check("coverage band", caught < lowest, error / 2.0, exact=under)


def _thresholds(at: Setting, rng: np.random.Generator, k: int) -> Floats:
    """Return the k-th smallest of n fresh calibration scores, shape (runs,)."""
    return np.partition(draw(rng, at.kind, (at.runs, at.n)), k - 1, axis=1)[:, k - 1]
