"""Do two detectors, or one on two encoders, say the same about the same answers?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.stats.arrays import Floats
from calibrail.evaluation.stats.correlation import partial, pearson, spearman
from calibrail.evaluation.stats.measure import Measure
from calibrail.record import Record

#: Shares of the answers that are looked at as the most suspicious ones.
TOP: Final = (0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class TopOverlap(Record):
    """How far two detectors agree on the most suspicious answers.

    Parameters
    ----------
    share : float
        Share of all answers that is looked at.
    k : int
        That many answers.
    overlap : float
        Share of one detector's top k that is in the other's; where scores are tied at the border,
        its mean over random choices among them.
    by_chance : float
        The same for two unrelated detectors: k/n.
    """

    share: float
    k: int
    overlap: float
    by_chance: float


@dataclass(frozen=True, slots=True)
class Pair(Record):
    """Two detectors on the answers for which both are defined.

    Parameters
    ----------
    first, second : str
        The detectors.
    n : int
        Answers.
    pearson, spearman : Measure
        Linear and rank correlation.
    given_label : Measure
        Rank correlation given the label: what they share beyond being right.
    top : tuple of TopOverlap
        Overlap of the most suspicious answers.
    """

    first: str
    second: str
    n: int
    pearson: Measure
    spearman: Measure
    given_label: Measure
    top: tuple[TopOverlap, ...]


def pair_agreement(detectors: Mapping[str, Floats], answers: Answers) -> tuple[Pair, ...]:
    """Compare every two detectors.

    Parameters
    ----------
    detectors : mapping of str to ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    answers : Answers
        Labels and groups.
    """
    return tuple(_pair(names, detectors, answers) for names in combinations(detectors, 2))


def _pair(names: tuple[str, str], detectors: Mapping[str, Floats], answers: Answers) -> Pair:
    x, y = (detectors[name] for name in names)
    rows = ~np.isnan(x) & ~np.isnan(y)
    x, y, answers = x[rows], y[rows], answers.where(rows)
    classes = answers.labels.astype(np.float64)
    ranks = spearman(x, y)
    given_label = partial(ranks, spearman(x, classes), spearman(y, classes))
    few = "few_have_both_or_constant"
    return Pair(
        *names,
        n=len(x),
        pearson=answers.correlation(pearson(x, y), "pearson", few),
        spearman=answers.correlation(ranks, "spearman", few),
        given_label=answers.correlation(given_label, "partial spearman", few),
        top=tuple(overlap_at(x, y, share) for share in TOP) if len(x) else (),
    )


def overlap_at(x: Floats, y: Floats, share: float) -> TopOverlap:
    """Return how much of the top ``share`` of one score is in that of the other.

    Examples
    --------
    >>> scores = np.arange(10.0)
    >>> overlap_at(scores, scores, 0.2).overlap, overlap_at(scores, -scores, 0.2).overlap
    (1.0, 0.0)
    """
    k = max(1, math.ceil(share * len(x) - 1e-9))
    both = float(_weights(x, k) @ _weights(y, k))
    return TopOverlap(share, k, both / k, k / len(x))


def _weights(values: Floats, k: int) -> Floats:
    """Return the probability of being among the k highest where ties are broken by chance."""
    border = np.partition(values, len(values) - k)[len(values) - k]
    above, tied = values > border, values == border
    left = k - int(above.sum())
    weights: Floats = above + tied * (left / int(tied.sum()))
    return weights
