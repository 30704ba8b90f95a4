"""Do a threshold, its p-values, its bands, few labels above it and weights keep their promises?

Bands: one fails if the true share P(score >= t) leaves it at any real t, also between two scores,
where the band of the next score serves. With continuous scores the true shares at the sorted scores
are sorted uniform numbers, so the probability that a band fails is known; it is computed here by
another recursion than the one that made the band.

Ceilings: answers are drawn one after another and labelled as
``calibrail.conformal.sequential.audited_calibration`` says;
what is not labelled is not used.

Covariate shift: a feature x is standard normal in the calibration data and shifted in production;
the score falls with x, so production's hallucinations are harder to catch. The distribution of the
score given x is the same in both, and the ratio of the two densities of x is known.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import betabinom

from calibrail.conformal import (
    DECISIONS,
    calibrate_threshold,
    calibrate_weighted,
    coverage_band,
    rank,
    three_way,
)
from calibrail.conformal.argument_checks import Bools
from calibrail.conformal.bounds import Method

from .bands import simultaneous_band
from .check import (
    CONFIDENCE,
    DELTA,
    Check,
    Floats,
    Observation,
    Setting,
    as_score,
    below,
    draw,
    up_to,
)

#: Test examples per simulated band.
BATCH: Final = 100
#: The faithful scores lie this far below the hallucinated ones.
_SHIFT: Final = 1.0
#: Share of hallucinations without a score, in parts of alpha: nearly as many as may be missed.
_UNDEFINED: Final = 0.9


def marginal_coverage(at: Setting) -> Iterator[Check]:
    """Miss one fresh hallucination per calibration: probability k / (n + 1), at most alpha."""
    rng = at.rng("marginal")
    missed = draw(rng, at.kind, at.runs) < _thresholds(at, rng, rank(at.n, at.alpha))
    yield at.check("marginal coverage", missed, at.alpha, exact=at.miss_rate)


def training_conditional(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold whose true miss rate exceeds alpha: at most ``DELTA``."""
    thresholds = _thresholds(at, at.rng("pac"), rank(at.n, at.alpha, "pac", DELTA))
    bad = below(at.kind, thresholds) > at.alpha
    yield at.check("pac coverage", bad, DELTA, exact=at.pac_error)


def anytime_ever(at: Setting) -> Iterator[Check]:
    """Draw an ``anytime`` threshold that misses too much at any of the looks, one an answer."""
    scores = draw(at.rng("anytime"), at.kind, (at.runs, at.n))
    # The k-th smallest is bad where fewer than k of the scores would be good thresholds.
    good = np.cumsum(below(at.kind, scores) <= at.alpha, axis=1)
    ranks = np.array([rank(n, at.alpha, "anytime", DELTA) for n in range(1, at.n + 1)])
    yield at.check("anytime coverage, at every look", (good < ranks).any(axis=1), DELTA)


def undefined_passed(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination under ``pass``: at most alpha, a refusal releasing nothing."""
    missed, returned = _undefined_passed(at)
    yield at.check("marginal coverage, undefined scores passed", missed & returned, at.alpha)


def undefined_passed_where_returned(at: Setting) -> Iterator[Observation]:
    """Miss one among the thresholds that come out alone, which nothing promises."""
    missed, returned = _undefined_passed(at)
    if returned.any():
        kept = replace(at, runs=int(returned.sum()))
        what = "miss where undefined scores pass, among returned thresholds"
        yield kept.observed(what, missed[returned], at.alpha)


def _undefined_passed(at: Setting) -> tuple[Bools, Bools]:
    """Return per run whether a fresh hallucination passes, and whether there is a threshold."""
    rng, k, share = at.rng("undefined passed"), rank(at.n, at.alpha), _UNDEFINED * at.alpha
    scores = draw(rng, at.kind, (at.runs, at.n + 1))
    scores[rng.random(scores.shape) < share] = -np.inf
    threshold = np.partition(scores[:, 1:], k - 1, axis=1)[:, k - 1]
    return scores[:, 0] < threshold, np.isfinite(threshold)


def p_value_uniformity(at: Setting) -> Iterator[Check]:
    """Give a hallucination a p-value of at most alpha: probability at most alpha."""
    rng = at.rng("p-value")
    scores, fresh = draw(rng, at.kind, (at.runs, at.n)), draw(rng, at.kind, (at.runs, 1))
    p = (1.0 + np.count_nonzero(scores <= fresh, axis=1)) / (at.n + 1.0)
    yield at.check("p-value", p <= at.alpha, at.alpha, exact=at.miss_rate)


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


def three_way_marginal(at: Setting) -> Iterator[Check]:
    """Pass a fresh hallucination, flag a fresh faithful answer: at most alpha each (beta = alpha).

    Where the two thresholds cross, passing comes first, so flags are rarer than k / (n + 1).
    """
    promise, name = at.promise(beta=at.alpha), "three-way, marginal"
    decisions = [
        three_way(bad[1:], good[1:], promise).decide([bad[0], good[0]])
        for bad, good in _both_classes(at, "three-way", at.n + 1)
    ]
    of_bad, of_good = np.transpose(decisions)
    passed, flagged = of_bad == DECISIONS.index("pass"), of_good == DECISIONS.index("flag")
    yield at.check(name, passed, at.alpha, exact=at.miss_rate, design="hallucinated, passed")
    yield at.check(name, flagged, at.alpha, design="faithful, flagged")


def three_way_pac(at: Setting) -> Iterator[Check]:
    """Draw thresholds with a true error above alpha on a side: at most ``DELTA`` each."""
    promise, name = at.promise("pac", beta=at.alpha), "three-way, pac"
    rules = [three_way(*scores, promise) for scores in _both_classes(at, "three-way pac", at.n)]
    low = np.array([rule.calibration.threshold for rule in rules])
    high = np.maximum(np.array([rule.flag_above for rule in rules], dtype=np.float64), low)
    passed = below(at.kind, low) > at.alpha
    flagged = 1.0 - up_to(at.kind, high, -_SHIFT) > at.alpha
    yield at.check(name, passed, DELTA, exact=at.pac_error, design="hallucinated, passed")
    yield at.check(name, flagged, DELTA, design="faithful, flagged")


def _both_classes(at: Setting, name: str, n: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield for each run n scores of hallucinated and n of faithful answers."""
    rng = at.rng(name)
    for _ in range(at.runs):
        yield draw(rng, at.kind, n), draw(rng, at.kind, n, -_SHIFT)


def _thresholds(at: Setting, rng: np.random.Generator, k: int) -> Floats:
    """Return the k-th smallest of n fresh calibration scores, shape (runs,)."""
    return np.partition(draw(rng, at.kind, (at.runs, at.n)), k - 1, axis=1)[:, k - 1]


_NAMES: Final[dict[Method, str]] = {"berk-jones": "Berk-Jones", "dkw": "DKW"}
#: States with less probability than this are left out of the recursion.
_NEGLIGIBLE: Final = 1e-15


def band_everywhere(at: Setting) -> Iterator[Check]:
    """Leave a band anywhere, below or above: at most alpha = 1 - confidence, half of it a side."""
    for method, name in _NAMES.items():
        rng = at.rng(f"{method} band")
        lower, upper = _by_count(at.n, 1.0 - at.alpha, method)
        both, low, high = _probabilities(at.n, 1.0 - at.alpha, method)
        if at.kind == "continuous":
            true = np.sort(rng.random((at.runs, at.n)), axis=1)
            under, over = (true < lower).any(axis=1), (true > upper).any(axis=1)
        else:
            under, over = _tied(at, rng, method)
        sides = (
            ("both sides", under | over, at.alpha, both),
            ("lower side", under, at.alpha / 2.0, low),
            ("upper side", over, at.alpha / 2.0, high),
        )
        for design, failed, promised, exact in sides:
            yield at.check(f"{name} band", failed, promised, exact=exact, design=design)


def escape(lower: Floats, upper: Floats) -> float:
    """Return P(not lower[c - 1] <= U_(c) <= upper[c - 1] for all c) for n uniform numbers.

    Counts of the numbers up to each bound form a Markov chain with binomial steps; what stays
    between the bounds is followed from bound to bound.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (n,)
        Ascending bounds of the sorted numbers.

    Examples
    --------
    Two numbers, the smaller at least 0.5, or the larger at most 0.5:

    >>> escape(np.array([0.5, 0.5]), np.ones(2)), escape(np.zeros(2), np.array([0.5, 0.5]))
    (0.75, 0.75)
    """
    n = len(lower)
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    counts, state, time = np.zeros(1, dtype=np.int64), np.ones(1), 0.0
    for bound in np.unique(np.concatenate([lower, upper])).tolist():
        if not 0.0 < bound < 1.0:
            continue
        step = (bound - time) / (1.0 - time)
        least = max(int(np.searchsorted(upper, bound, side="right")), int(counts[0]))
        most = int(np.searchsorted(lower, bound, side="left"))
        reached = np.arange(least, most + 1)
        grown = reached[None, :] - counts[:, None]
        possible, left = grown >= 0, n - counts[:, None]
        grown = np.where(possible, grown, 0)
        ways = log_factorial[left] - log_factorial[grown] - log_factorial[n - reached[None, :]]
        log = ways + grown * np.log(step) + (left - grown) * np.log1p(-step)
        state = state @ np.where(possible, np.exp(log), 0.0)
        kept = np.flatnonzero(state > _NEGLIGIBLE)
        if not len(kept):
            return 1.0
        counts, state, time = reached[kept], state[kept], bound
    return 1.0 - float(state.sum())


@lru_cache(maxsize=256)
def _probabilities(n: int, confidence: float, method: Method) -> tuple[float, float, float]:
    """Return the probability of leaving the band on any side, below, and above."""
    lower, upper = _by_count(n, confidence, method)
    return escape(lower, upper), escape(lower, np.ones(n)), escape(np.zeros(n), upper)


def _by_count(n: int, confidence: float, method: Method) -> tuple[Floats, Floats]:
    """Return the bounds of the true shares at the scores that 1, ..., n scores reach, (n,) each.

    Above a score the band of the next higher one serves, so that one bounds the share from above.
    """
    band = simultaneous_band(np.arange(float(n)), confidence, method)
    beyond = band.at([float(n)])[2]
    return band.lower[::-1], np.concatenate([beyond, band.upper[:0:-1]])


def _tied(
    at: Setting, rng: np.random.Generator, method: Method
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    under, over = np.zeros(at.runs, dtype=bool), np.zeros(at.runs, dtype=bool)
    for run in range(at.runs):
        band = simultaneous_band(draw(rng, at.kind, at.n), 1.0 - at.alpha, method)
        beyond = band.at([band.thresholds[-1] + 1.0])[2]
        under[run] = np.any(1.0 - below(at.kind, band.thresholds) < band.lower)
        above = 1.0 - up_to(at.kind, band.thresholds)
        over[run] = np.any(above > np.concatenate([band.upper[1:], beyond]))
    return under, over


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
