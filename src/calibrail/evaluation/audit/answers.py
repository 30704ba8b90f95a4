"""Which labelled answers is a detector audited on, and how surely is something said of them?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError
from calibrail.evaluation.stats.correlation import correlation_measure
from calibrail.evaluation.stats.influence import Estimated, Scale, measured
from calibrail.evaluation.stats.measure import Measure, checked_confidence
from calibrail.evaluation.stats.ranking import Ranking, area_measure, matched_measure, ranked

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Labelled answers in groups.

    Attributes
    ----------
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    clusters : ndarray of int64, shape (n,)
        What answers hang together; a number of its own for one that stands alone.
    confidence : float
        Level of every interval about them.
    seed : int
        Seed of the folds, which keep groups whole.
    """

    labels: Labels
    clusters: Ints
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)
        if len(self.clusters) != len(self.labels):
            raise InputError(
                f"clusters must have {len(self.labels)} values; got {len(self.clusters)}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Answers:
        """Return some of the answers, by a mask or by their places."""
        return replace(self, labels=self.labels[rows], clusters=self.clusters[rows])

    @property
    def both_classes(self) -> bool:
        """Whether there is a hallucinated and a faithful answer."""
        return bool((self.labels == 1).any() and (self.labels == 0).any())

    def by_class(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the values of hallucinated and those of faithful answers."""
        return values[self.labels == 1], values[self.labels == 0]

    def ranked(self, values: Floats) -> Estimated:
        """Return the AUROC with each answer's influence, where there are both classes."""
        area = ranked(values, self.labels)
        assert area is not None
        return area

    def auroc(self, values: Floats) -> Measure:
        """Return the AUROC with its interval."""
        return area_measure(values, self.labels, self.clusters, self.confidence)

    def matched_auroc(self, ranking: Ranking, reason: str | None) -> Measure:
        """Return an AUROC over matched pairs with its interval, or why there is none."""
        return matched_measure(ranking, self.clusters, reason, self.confidence)

    def measured(self, statistic: Estimated, method: str, scale: Scale = "plain") -> Measure:
        """Return a statistic with its interval."""
        return measured(statistic, self.clusters, method, self.confidence, scale)

    def correlation(self, value: Estimated | None, method: str, reason: str) -> Measure:
        """Return a correlation with its interval, or the reason why there is none."""
        return correlation_measure(value, self.clusters, method, self.confidence, reason)
