"""Which labelled answers is a detector audited on, and how surely is something said of them?"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrail.errors import InputError
from calibrail.evaluation.sample import CLASSES
from calibrail.evaluation.stats.arrays import Codes, Floats, Ints, Mask
from calibrail.evaluation.stats.auroc import area_measure, auroc
from calibrail.evaluation.stats.influence import Estimated, Scale, interval
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.ranking import CLUSTERED, Ranking, clustered_auroc, ranked
from calibrail.evaluation.stats.separation import cohens_d, moments
from calibrail.settings.checks import share

_RANGES = {"plain": (-math.inf, math.inf), "fisher": (-1.0, 1.0)}


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

    labels: Codes
    clusters: Ints
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        share(self.confidence, "confidence")
        if len(self.clusters) != len(self.labels):
            raise InputError(
                f"clusters must have {len(self.labels)} values; got {len(self.clusters)}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, rows: Mask | NDArray[np.intp]) -> Self:
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
        """Return the AUROC with its interval, of whole groups where answers share them.

        The variance is then that of Obuchowski (1997); see ``area_measure``.
        """
        if not self.both_classes or len(np.unique(self.clusters)) == len(self):
            return auroc(*self.by_class(values), confidence=self.confidence)
        return clustered_auroc(values, self.labels, self.clusters, self.confidence)

    def matched_auroc(self, ranking: Ranking, reason: str | None) -> Measure:
        """Return an AUROC over matched pairs with its interval, or why there is none."""
        if reason is not None or ranking.area is None:
            reason = reason or "none_alike_of_both_classes"
            return missing(CLUSTERED, reason, self.confidence)
        return self._area(ranking.area, min(ranking.n_disjoint, self._fewest_groups()))

    def _area(self, area: Estimated, units: float) -> Measure:
        variance, _ = area.variance(self.clusters)
        return area_measure(area.value, variance, units, CLUSTERED, self.confidence)

    def _fewest_groups(self) -> int:
        """Return how many groups hold answers of the class that fewer of them hold."""
        return min(len(np.unique(self.clusters[self.labels == label])) for label in (0, 1))

    def measured(self, statistic: Estimated, method: str, scale: Scale = "plain") -> Measure:
        """Return a statistic with its interval, from a t distribution of G - 1 degrees of freedom.

        G groups have any influence. Without an interval where the variance is zero or the value at
        the end of its range.

        Parameters
        ----------
        statistic : Estimated
            The statistic.
        method : str
            Named in the result.
        scale : {"plain", "fisher"}
            Where the interval is symmetric.
        """
        value, (variance, n) = statistic.value, statistic.variance(self.clusters)
        low, high = _RANGES[scale]
        if variance <= 0.0 or not low + 1e-12 < value < high - 1e-12:
            return Measure(value, None, None, method, self.confidence)
        half = float(stdtrit(n - 1, (1.0 + self.confidence) / 2.0)) * math.sqrt(variance)
        return Measure(value, *interval(value, half, scale), method, self.confidence)

    def correlation(self, value: Estimated | None, method: str, reason: str) -> Measure:
        """Return a correlation with its interval on Fisher's scale, or why there is none."""
        if value is None:
            return missing(method, reason, self.confidence)
        return self.measured(value, f"{method}, jackknife, fisher", "fisher")

    def separation(self, values: Floats, ranks: Floats) -> dict[str, Any]:
        """Return how far apart the classes are: ``means``, ``cohens_d``, ``auroc``, ``reversed``.

        Parameters
        ----------
        values, ranks : ndarray of float64, shape (n,)
            Scores, NaN where undefined; the same with undefined ones where the policy puts them.
        """
        classes, area = self.by_class(values), self.auroc(ranks)
        return {
            "means": dict(zip(CLASSES, map(moments, classes), strict=True)),
            "cohens_d": cohens_d(*classes),
            "auroc": area,
            "reversed": area.lies_below(0.5),
        }
