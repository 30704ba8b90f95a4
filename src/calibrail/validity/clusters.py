"""Does calibration on clusters keep its promise, and what happens without it?

Answers to one question share an effect (intra-class correlation 0.8), and the higher it is, the
more answers the question has. What is promised counts each question once, so the true miss rate of
a threshold is that of one normal score.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calibrail.conformal import calibrate_clusters, calibrate_threshold
from calibrail.validity.check import DELTA, Check, Observation, Setting
from calibrail.validity.distributions import Floats, as_score, below, draw

#: Share of the scores' variance that answers to one question have in common.
CORRELATION: Final = 0.8
#: A question has 1 to this many answers.
LARGEST: Final = 10

DESIGN: Final = f"1 to {LARGEST} answers a cluster, correlation {CORRELATION:g}"


def clustered_marginal(at: Setting) -> Iterator[Check]:
    """Miss a fresh hallucination of a new cluster: at most alpha."""
    thresholds = [calibrate_clusters(*part, at.promise()).threshold for part in _samples(at)]
    missed = draw(at.rng("new cluster"), at.kind, at.runs) < thresholds
    yield at.check("clusters, marginal coverage", missed, at.alpha, design=DESIGN)


def clustered_pac(at: Setting) -> Iterator[Check]:
    """Draw a ``pac`` threshold that misses more than alpha of new clusters: at most ``DELTA``."""
    calibrated = (calibrate_clusters(*part, at.promise("pac")) for part in _samples(at))
    bad = below(at.kind, np.array([item.threshold for item in calibrated])) > at.alpha
    yield at.check("clusters, pac coverage", bad, DELTA, design=DESIGN)


def naive_on_clusters(at: Setting) -> Iterator[Observation]:
    """Calibrate on the same data as if all answers were independent; nothing is promised."""
    samples = [scores for scores, _ in _samples(at)]
    marginal = [calibrate_threshold(scores, at.promise()).threshold for scores in samples]
    missed = draw(at.rng("new cluster"), at.kind, at.runs) < marginal
    yield at.observed("naive threshold misses an answer of a new cluster", missed, at.alpha)
    promise = at.promise("pac", allow_flag_all=True)
    pac = (calibrate_threshold(scores, promise) for scores in samples)
    bad = ndtr([item.threshold for item in pac]) > at.alpha
    yield at.observed("naive pac threshold misses more than alpha", bad, DELTA)


def _samples(at: Setting) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Yield for each run the scores of ``n`` clusters and the cluster of each."""
    rng = at.rng("clusters")
    for _ in range(at.runs):
        effects = rng.standard_normal(at.n)
        sizes = 1 + rng.binomial(LARGEST - 1, ndtr(effects))
        clusters = np.repeat(np.arange(at.n), sizes)
        noise = rng.standard_normal(len(clusters))
        normal = np.sqrt(CORRELATION) * effects[clusters] + np.sqrt(1.0 - CORRELATION) * noise
        yield as_score(at.kind, normal), clusters
