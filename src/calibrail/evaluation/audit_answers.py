"""The answers an audit looks at; components, detector pairs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrail.evaluation.stats import auroc, intervals
from calibrail.evaluation.stats.auroc import CLUSTERED, Ranking, ranked
from calibrail.evaluation.stats.intervals import Estimated, Floats, Measure
from calibrail.evaluation.stats.tests import partial, spearman
from calibrail.options.fields import share
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True, eq=False)
class AuditAnswers:
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

    labels: intervals.Codes
    clusters: intervals.Ints
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        share(self.confidence, "confidence")

    def __len__(self) -> int:
        return len(self.labels)

    def where(self, rows: intervals.Mask | NDArray[np.intp]) -> Self:
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
        return auroc.clustered_auroc(values, self.labels, self.clusters, self.confidence)

    def matched_auroc(self, ranking: Ranking, reason: str | None) -> Measure:
        """Return an AUROC over matched pairs with its interval, or why there is none."""
        if reason is not None or ranking.area is None:
            reason = reason or "none_alike_of_both_classes"
            return intervals.missing(CLUSTERED, reason, self.confidence)
        fewest = min(len(np.unique(self.clusters[self.labels == label])) for label in (0, 1))
        variance, _ = ranking.area.variance(self.clusters)
        units = min(ranking.n_disjoint, fewest)
        return auroc.area_measure(ranking.area.value, variance, units, CLUSTERED, self.confidence)

    def measured(
        self, statistic: Estimated, method: str, scale: intervals.Scale = "plain"
    ) -> Measure:
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
        if variance <= 0.0 or (scale == "fisher" and abs(value) >= 1.0 - 1e-12):
            return Measure(value, None, None, method, self.confidence)
        half = float(stdtrit(n - 1, (1.0 + self.confidence) / 2.0)) * math.sqrt(variance)
        return Measure(value, *intervals.interval(value, half, scale), method, self.confidence)

    def correlation(self, value: Estimated | None, method: str, reason: str) -> Measure:
        """Return a correlation with its interval on Fisher's scale, or why there is none."""
        if value is None:
            return intervals.missing(method, reason, self.confidence)
        return self.measured(value, f"{method}, jackknife, fisher", "fisher")

    def separation(self, ranks: Floats) -> dict[str, Any]:
        """Return how far apart the classes are: ``auroc``, ``reversed``.

        Parameters
        ----------
        ranks : ndarray of float64, shape (n,)
            Scores, undefined ones where the policy puts them.
        """
        area = self.auroc(ranks)
        return {"auroc": area, "reversed": area.lies_below(0.5)}


Driver = Literal["theta_rq", "theta_rc"]


@dataclass(frozen=True, slots=True)
class Component(Record):
    """One component by itself.

    Parameters
    ----------
    name : {"theta_rq", "theta_rc", "ratio"}
        Angle between response and question (negated), between response and context, and
        theta_rq / theta_rc (negated): higher = more likely hallucinated, by the index's idea.
    auroc : Measure
        How far it separates the classes; below 0.5 where it points the other way.
    """

    name: str
    auroc: Measure


@dataclass(frozen=True, slots=True)
class Components(Record):
    """The parts of the index on one encoder (table 5 of Marin, arXiv 2512.13771).

    Parameters
    ----------
    encoder : str
        Whose angles these are.
    n : int
        Answers with both angles.
    rows : tuple of Component
        The two angles and their ratio.
    difference : Measure
        How much farther from 0.5 the AUROC of theta(r, q) lies than that of theta(r, c).
    driver : {"theta_rq", "theta_rc"} or None
        The one that is shown to separate better; None where the interval holds 0.
    """

    encoder: str
    n: int
    rows: tuple[Component, ...]
    difference: Measure
    driver: Driver | None


def components(
    encoder: str, angles: Mapping[str, Floats], answers: AuditAnswers
) -> Components | None:
    """Take the index apart; None where the two angles are not known for both classes.

    Parameters
    ----------
    encoder : str
        Name of the encoder.
    angles : mapping of str to ndarray of float64, shape (n,)
        ``theta_rq`` and ``theta_rc`` in radians, NaN where undefined.
    answers : Answers
        Labels and groups.
    """
    rows = ~np.isnan(angles["theta_rq"]) & ~np.isnan(angles["theta_rc"])
    question, context = angles["theta_rq"][rows], angles["theta_rc"][rows]
    answers = answers.where(rows)
    if not answers.both_classes:
        return None
    # Each turned as the index turns it: hallucinated answers are expected near the question and far
    # from the context, so that the ratio is low.
    values = {"theta_rq": -question, "theta_rc": context, "ratio": -question / (context + 1e-8)}
    parts = tuple(Component(name, answers.auroc(column)) for name, column in values.items())
    both = answers.ranked(values["theta_rq"]), answers.ranked(values["theta_rc"])
    difference = answers.measured(intervals.difference_from_half(*both), "paired, either direction")
    driver: Driver | None = "theta_rq" if difference.lies_above(0.0) else None
    if difference.lies_below(0.0):
        driver = "theta_rc"
    return Components(encoder, len(answers), parts, difference, driver)


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
    spearman : Measure
        Rank correlation.
    given_label : Measure
        Rank correlation given the label: what they share beyond being right.
    top : tuple of TopOverlap
        Overlap of the most suspicious answers.
    """

    first: str
    second: str
    n: int
    spearman: Measure
    given_label: Measure
    top: tuple[TopOverlap, ...]


def pair_agreement(detectors: Mapping[str, Floats], answers: AuditAnswers) -> tuple[Pair, ...]:
    """Compare every two detectors.

    Parameters
    ----------
    detectors : mapping of str to ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    answers : Answers
        Labels and groups.
    """
    return tuple(_pair(names, detectors, answers) for names in combinations(detectors, 2))


def _pair(names: tuple[str, str], detectors: Mapping[str, Floats], answers: AuditAnswers) -> Pair:
    x, y = (detectors[name] for name in names)
    rows = ~np.isnan(x) & ~np.isnan(y)
    x, y, answers = x[rows], y[rows], answers.where(rows)
    classes, ranks = answers.labels.astype(np.float64), spearman(x, y)
    given_label = partial(ranks, spearman(x, classes), spearman(y, classes))
    few = "few_have_both_or_constant"
    return Pair(
        *names,
        n=len(x),
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
    return np.asarray(above + tied * (left / int(tied.sum())))
