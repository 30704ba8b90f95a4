"""Do one threshold, its p-values and its coverage band keep their promises, and do two of them?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.stats import betabinom

from calibrail.conformal import DECISIONS, coverage_band, rank, three_way
from calibrail.conformal.validation import Bools
from calibrail.validity.check import CONFIDENCE, DELTA, Check, Observation, Setting
from calibrail.validity.distributions import Floats, below, draw, up_to

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
