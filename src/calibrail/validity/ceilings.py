"""Does a threshold keep its promise for which few answers above it were labelled?

Answers are drawn one after another and labelled as ``calibrail.conformal.ceiling`` says; what is
not labelled is not used.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, nbinom

from calibrail.conformal import ceiling_rank
from calibrail.settings import Guarantee
from calibrail.validity.check import DELTA, Check, Setting
from calibrail.validity.distributions import Floats

#: Shares of the answers above the ceiling that are labelled.
SHARES: Final = (0.2, 0.5)
#: Probability of more answers than are looked at for the exact probability of a failure.
_REST: Final = 1e-12


def marginal(at: Setting) -> Iterator[Check]:
    """Miss one fresh hallucination per calibration: probability k E[1 / (T + 1)]."""
    for share in SHARES:
        k = ceiling_rank(at.n, share, at.alpha)
        if k:
            total, chance = _law(at.n, share)
            exact = float(np.sum(chance * k / (total + 1.0)))
            fresh = at.rng(f"ceiling, fresh, {share}").standard_normal(at.runs)
            missed = fresh < thresholds(at, share, k)
            yield _check(at, "marginal", missed, at.alpha, exact, share)


def pac(at: Setting) -> Iterator[Check]:
    """Draw a threshold whose true miss rate exceeds alpha: at most ``DELTA``."""
    for share in SHARES:
        k = ceiling_rank(at.n, share, at.alpha, "pac", DELTA)
        if k:
            total, chance = _law(at.n, share)
            exact = float(np.sum(chance * binom.cdf(k - 1, total, at.alpha)))
            bad = ndtr(thresholds(at, share, k)) > at.alpha
            yield _check(at, "pac", bad, DELTA, exact, share)


def thresholds(at: Setting, share: float, k: int) -> Floats:
    """Return the threshold of each run: hallucinated answers drawn until n have a low lot."""
    rng = at.rng(f"ceiling, {k}, {share}")
    lowest = np.full((at.runs, k), np.inf)
    known = np.zeros(at.runs, dtype=np.int64)
    while (going := np.flatnonzero(known < at.n)).size:
        score, low = rng.standard_normal(going.size), rng.random(going.size) < share
        known[going] += low
        labelled = (score < lowest[going, -1]) | low
        candidate = np.where(labelled, score, np.inf)
        lowest[going] = np.sort(np.column_stack([lowest[going], candidate]), axis=1)[:, :k]
    return lowest[:, -1]


def _check(
    at: Setting, guarantee: Guarantee, failed: object, promised: float, exact: float, share: float
) -> Check:
    what = f"ceiling, {guarantee} coverage"
    design = f"{share:g} of the answers above it labelled"
    return at.check(what, np.asarray(failed), promised, exact=exact, design=design)


def _law(n: int, share: float) -> tuple[Floats, Floats]:
    """Return numbers of hallucinated answers drawn, and their probabilities."""
    unknown = np.arange(int(nbinom.isf(_REST, n, share)) + 2)
    return np.asarray(n + unknown, dtype=np.float64), np.asarray(nbinom.pmf(unknown, n, share))
