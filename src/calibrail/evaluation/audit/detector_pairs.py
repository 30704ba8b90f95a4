"""Do two detectors, or one on two encoders, say the same about the same answers?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.stats.correlation import correlation_measure, partial, pearson, spearman
from calibrail.evaluation.stats.measure import Measure

_Floats = NDArray[np.float64]

#: Shares of the answers that are looked at as the most suspicious ones.
TOP: Final = (0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class TopOverlap:
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
class Pair:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**asdict(self), "top": [asdict(item) for item in self.top]}


def agreement(
    detectors: Mapping[str, _Floats],
    labels: NDArray[np.int8],
    clusters: NDArray[np.int64],
    confidence: float = 0.95,
) -> tuple[Pair, ...]:
    """Compare every two detectors.

    Parameters
    ----------
    detectors : mapping of str to ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels, clusters : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; what answers hang together.
    confidence : float
        Level of the intervals.
    """
    return tuple(
        _pair(first, second, detectors[first], detectors[second], labels, clusters, confidence)
        for first, second in combinations(detectors, 2)
    )


def _pair(
    first: str,
    second: str,
    x: _Floats,
    y: _Floats,
    labels: NDArray[np.int8],
    clusters: NDArray[np.int64],
    confidence: float,
) -> Pair:
    rows = ~np.isnan(x) & ~np.isnan(y)
    x, y, groups = x[rows], y[rows], clusters[rows]
    classes = labels[rows].astype(np.float64)
    ranks, of_x, of_y = spearman(x, y), spearman(x, classes), spearman(y, classes)
    given = None
    if ranks is not None and of_x is not None and of_y is not None:
        given = partial(ranks, of_x, of_y)
    few = "fewer than three answers have both scores, or one of the two does not vary"
    return Pair(
        first=first,
        second=second,
        n=len(x),
        pearson=correlation_measure(pearson(x, y), groups, "pearson", confidence, few),
        spearman=correlation_measure(ranks, groups, "spearman", confidence, few),
        given_label=correlation_measure(given, groups, "partial spearman", confidence, few),
        top=tuple(overlap_at(x, y, share) for share in TOP) if len(x) else (),
    )


def overlap_at(x: _Floats, y: _Floats, share: float) -> TopOverlap:
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


def _weights(values: _Floats, k: int) -> _Floats:
    """Return the probability of being among the k highest where ties are broken by chance."""
    border = np.partition(values, len(values) - k)[len(values) - k]
    above, tied = values > border, values == border
    left = k - int(above.sum())
    weights: _Floats = above + tied * (left / int(tied.sum()))
    return weights
