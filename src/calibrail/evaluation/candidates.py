"""Candidates on the same answers, paired tests.

A threshold at rank r of m hallucinated scores misses r - 1 of them, whatever the scale of the
score: the rank is what makes thresholds of different detectors comparable. Where each group counts
once, an answer weighs 1 / (answers of its group), and the rank is one among groups. When data is
drawn again, both change: the threshold that stands at that rank, and the faithful answers that it
flags.

A threshold is as random as the answers that calibrated it. Two equally good detectors get
thresholds that differ by luck: one raises fewer false alarms and misses more. So all labelled
answers are drawn again, by whole groups; every detector gets its threshold anew in every draw, at
the same coverage, and the spread of the difference in FPR gives Student's t. Its degrees of freedom
combine, as Welch and Satterthwaite do, those of the faithful groups with 2k - 1 for a threshold at
rank k: the spread of the k-th smallest score is known no better than from about k exponential gaps.

Where the thresholds count each group once, the coverage at which they are compared does, too: a
hallucinated answer weighs 1 / (answers of its group), as in ``calibrate_clusters``. k is then the
effective number of groups at or below the threshold (Kish, 1965, "Survey sampling").

Three tests look at three questions:

- **False alarms at the same coverage** (the one that chooses), see ``false_alarms``: would the
  detectors still differ if other answers had calibrated them?
- **McNemar** on the faithful answers that only one of two thresholds flags: exact, but about *these
  thresholds*. With two equally good detectors and 44 calibration answers, McNemar finds a
  difference at the 5 % level in a third of all cases (a test holds that number): it takes the luck
  of calibration for merit. So it never chooses; it confirms a choice, for the thresholds at hand.
- **DeLong** for AUROC: how the scores rank, without any threshold.

Groups of answers (one question, one source) count as one each: McNemar flips the sign of a whole
group's difference, DeLong's variance becomes Obuchowski's (1997), and the bootstrap draws groups.
With groups of one answer, these are the ordinary tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from calibrail.conformal import Calibration, holm
from calibrail.conformal.threshold import add_tolerance
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.evaluation.sample import Sample, one_of_each
from calibrail.evaluation.stats.auroc import auroc_test
from calibrail.evaluation.stats.intervals import (
    Codes,
    Difference,
    Floats,
    Mask,
    bootstrap_counts,
    draws_for,
    no_difference,
    ranked_values,
    with_singletons,
)
from calibrail.evaluation.stats.tests import McNemar, mcnemar
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A detector or a baseline with its threshold, on the answers that all candidates share.

    Attributes
    ----------
    name : str
        Of the score.
    baseline : bool
        Whether it is a baseline, which stands beside the detectors unasked.
    calibration : Calibration
        Its threshold; rank and n are the same for all candidates.
    ranked : ndarray of float64, shape (n,)
        Scores of all answers, higher = more likely hallucinated; undefined ones at the end that
        their policy implies.
    decided : ndarray of float64, shape (n,)
        The same plus the numerical tolerance: flagged where at or above the threshold.
    flagged : ndarray of bool, shape (n,)
        Decisions.
    """

    name: str
    baseline: bool
    calibration: Calibration
    ranked: Floats
    decided: Floats
    flagged: Mask

    @classmethod
    def of(
        cls, name: str, sample: Sample, calibration: Calibration, *, baseline: bool = False
    ) -> Candidate:
        """Return the candidate of a score that could be calibrated."""
        ranked = ranked_values(sample.values, calibration.undefined)
        decided = add_tolerance(ranked, sample.tolerance)
        flagged = calibration.flags(sample.values, sample.tolerance)
        return cls(name, baseline, calibration, ranked, decided, flagged)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """All candidates of one comparison, and the answers that they share.

    Attributes
    ----------
    members : tuple of Candidate
        Detectors and baselines.
    labels, split : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 0 = fit, 1 = calibration, 2 = test.
    groups : ndarray of int64, shape (n,)
        What answers share; a number of its own for one that stands alone.
    ranking : ndarray of bool, shape (n,)
        Which answers show how well a score ranks: where others were set aside, one of each group
        and class among the hallucinated calibration answers, too, of which a threshold sees all.
    confidence : float
        Level of every interval and claim.
    seed : int
        Of the halves of the test part and of every bootstrap.
    thinned, independent : bool
        Whether answers were set aside, so that one of each group and class counts; whether every
        answer counts whatever it shares with others.
    """

    members: tuple[Candidate, ...]
    labels: Codes
    split: Codes
    groups: NDArray[np.int64]
    ranking: Mask
    confidence: float = 0.95
    seed: int = 0
    thinned: bool = False
    independent: bool = False

    @classmethod
    def on(
        cls, sample: Sample, members: list[Candidate], *, confidence: float = 0.95, seed: int = 0
    ) -> Candidates:
        """Return candidates on the answers of a sample, whichever detector's scores it holds."""
        groups = with_singletons(sample.groups, len(sample))
        ranking = np.isin(sample.split, (CALIBRATION, TEST))
        if sample.lot is not None:
            ranking = one_of_each(ranking, sample.lot, groups, sample.labels)
        return cls(
            tuple(members),
            sample.labels,
            sample.split,
            groups,
            ranking,
            confidence,
            seed,
            sample.n_set_aside > 0,
            sample.independent,
        )

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


_Floats = NDArray[np.float64]
_Counts = NDArray[np.int64]


class FixedCoverage:
    """One score, ready to be counted at the same rank in many draws.

    Parameters
    ----------
    hallucinated : ndarray of float64, shape (m,)
        Scores that set the threshold, higher = more likely hallucinated; no NaN.
    faithful : ndarray of float64, shape (n,)
        Scores of faithful answers; no NaN.
    rank : int
        1-based rank of the threshold in units of weight: among ``hallucinated`` where each weighs
        1; at most the sum of the weights.
    weights : ndarray of float64, shape (m,)
        What each hallucinated score counts.

    Attributes
    ----------
    threshold : float
        The score at that rank, on the data itself.
    """

    def __init__(
        self, hallucinated: _Floats, faithful: _Floats, rank: int, weights: _Floats
    ) -> None:
        self.share = rank / float(weights.sum())
        self._order_h = np.argsort(hallucinated, kind="stable")
        self._order_f = np.argsort(faithful, kind="stable")
        ladder = hallucinated[self._order_h]
        self._weights = weights[self._order_h]
        steps = np.cumsum(self._weights)
        #: Scores up to the threshold, by their place among ``hallucinated``.
        self.lowest = self._order_h[: int(_place(steps, self.share * steps[-1:])) + 1]
        self.threshold = float(hallucinated[self.lowest[-1]])
        self._passed = np.searchsorted(faithful[self._order_f], ladder, side="left")

    def fpr(self, drawn_h: _Counts, drawn_f: _Counts) -> _Floats:
        """Return the FPR at the threshold of each draw.

        Parameters
        ----------
        drawn_h, drawn_f : ndarray of int64, shapes (b, m) and (b, n)
            How often each hallucinated and each faithful example was drawn.

        Returns
        -------
        ndarray of float64, shape (b,)
        """
        steps = np.cumsum(drawn_h[:, self._order_h] * self._weights, axis=1)
        # The same share of however much was drawn.
        place = self._passed[_place(steps, self.share * steps[:, -1:])]
        below = np.zeros((len(drawn_f), drawn_f.shape[1] + 1), dtype=np.int64)
        np.cumsum(drawn_f[:, self._order_f], axis=1, out=below[:, 1:])
        passed = below[np.arange(len(below)), place]
        result: _Floats = 1.0 - passed / below[:, -1]
        return result


def _place(steps: _Floats, least: _Floats) -> NDArray[np.intp]:
    """Return where rising sums reach what is sought, but for their rounding."""
    place: NDArray[np.intp] = np.minimum((steps < least - 1e-9).sum(axis=-1), steps.shape[-1] - 1)
    return place


class FalseAlarms:
    """False alarms of candidates at the same coverage, and what other data would have shown.

    Parameters
    ----------
    candidates : Candidates
        All calibrated at the same rank of the same answers.
    part : ndarray of bool, shape (n,)
        Answers to use; those of both classes set and cost the threshold.

    Attributes
    ----------
    rank : int
        Of every threshold among the hallucinated answers of ``part``, or among their groups where
        thresholds count groups: the share of them that calibration left below its threshold.
        0 without answers of a class.
    fpr : dict of str to float
        FPR of each candidate at these thresholds.
    """

    METHOD = "bootstrap-groups-recalibrated, t"

    def __init__(self, candidates: Candidates, part: Mask) -> None:
        self._level = candidates.confidence
        self.fpr: dict[str, float] = {}
        self.rank = 0
        labels, groups = candidates.labels[part], candidates.groups[part]
        caught, faithful = labels == 1, labels == 0
        if not len(candidates) or not caught.any() or not faithful.any():
            return
        member = np.unique(groups[caught], return_inverse=True)[1]
        clustered = any(item.calibration.promise.clustered for item in candidates)
        weights = 1.0 / np.bincount(member)[member] if clustered else np.ones(len(member))
        n = round(float(weights.sum()))
        # The same for all, unless thresholds count groups: these lie at shares of their own.
        share = median(item.calibration.share_below for item in candidates)
        self.rank = min(n, max(1, round(share * (n + 1))))
        self._flagged: dict[str, Mask] = {}
        self._groups_below: dict[str, float] = {}
        ladders: dict[str, FixedCoverage] = {}
        for item in candidates:
            scores = item.decided[part]
            ladder = FixedCoverage(scores[caught], scores[faithful], self.rank, weights)
            flagged = scores[faithful] >= ladder.threshold
            ladders[item.name], self._flagged[item.name] = ladder, flagged
            self.fpr[item.name] = float(flagged.mean())
            # Independent groups that hold the scores up to the threshold's rank.
            below = np.bincount(member[ladder.lowest], weights=weights[ladder.lowest])
            self._groups_below[item.name] = float(below.sum() ** 2 / np.sum(below**2))
        self._member = np.unique(groups[faithful], return_inverse=True)[1]
        draws, seed = draws_for(len(groups)), candidates.seed
        drawn = [
            [ladder.fpr(counts[:, caught], counts[:, faithful]) for ladder in ladders.values()]
            for counts in bootstrap_counts(groups, labels, draws=draws, seed=seed, stream=2)
        ]
        self._drawn = dict(zip(ladders, np.concatenate(drawn, axis=1), strict=True))

    def difference(self, name: str, against: str) -> Difference:
        """Return the FPR of one candidate minus that of another."""
        gap = self._flagged[name].astype(np.float64) - self._flagged[against]
        estimate = float(gap.mean())
        variance = float(np.var(self._drawn[name] - self._drawn[against], ddof=1))
        groups = int(self._member.max()) + 1
        if variance <= 1e-18:
            # No draw differs: Hoeffding's inequality for a mean over independent groups.
            half = math.sqrt(2.0 * math.log(2.0 / (1.0 - self._level)) / groups)
            p = 2.0 * math.exp(-groups * estimate**2 / 2.0)
            return Difference.of(estimate, half, p, self.METHOD)
        rank = min(self._groups_below[name], self._groups_below[against])
        inner = min(clustered_variance(gap, self._member), variance)
        spread = (variance - inner) ** 2 / (2 * rank - 1) + inner**2 / max(1, groups - 1)
        df, error = variance**2 / spread, math.sqrt(variance)
        half = -float(stdtrit(df, (1.0 - self._level) / 2.0)) * error
        p = 2.0 * float(stdtr(df, -abs(estimate) / error))
        return Difference.of(estimate, half, p, self.METHOD)


def clustered_variance(values: NDArray[np.float64], member: NDArray[np.int64]) -> float:
    """Return the variance of a mean of values that belong to independent groups.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Values, alike within a group.
    member : ndarray of int64, shape (n,)
        Group of each, 0 to G - 1; infinite uncertainty cannot be told from one group, so G = 1
        gives 0.

    Examples
    --------
    >>> clustered_variance(np.array([0.0, 1.0]), np.array([0, 1]))
    0.25
    """
    sums = np.bincount(member, weights=values - values.mean())
    groups = len(sums)
    return float(sums @ sums) / len(values) ** 2 * groups / (groups - 1) if groups > 1 else 0.0


@dataclass(frozen=True, slots=True)
class PairedTest(Record):
    """One score against a reference, on the same answers.

    Attributes
    ----------
    name, against : str
        The score, and the reference.
    baseline : bool
        Whether the score is a baseline.
    fpr : Difference
        FPR of ``name`` minus that of ``against``: at the same coverage, thresholds set anew; or,
        with the method ``thresholds-as-they-are``, at the calibrated thresholds, without interval.
    mcnemar : McNemar
        At the calibrated thresholds; ``only_first`` counts what only ``name`` flags.
    auroc : Difference
        AUROC of ``name`` minus that of ``against``, each group counting once in each class where
        thresholds count groups.
    """

    name: str
    against: str
    baseline: bool
    fpr: Difference
    mcnemar: McNemar
    auroc: Difference


def paired_tests(
    candidates: Candidates,
    reference: Candidate,
    members: Sequence[Candidate],
    part: Mask,
    alarms: FalseAlarms | None = None,
) -> tuple[PairedTest, ...]:
    """Test candidates against one reference; each kind of p-value is corrected by Holm.

    Detectors are one family and baselines, which stand beside them unasked, another: they do not
    make it harder to tell detectors apart.

    Parameters
    ----------
    candidates : Candidates
        Their answers and the level of each interval, which is not corrected for their number.
    reference : Candidate
        What they are compared with; left out itself.
    members : sequence of Candidate
        Those to test, in this order.
    part : ndarray of bool, shape (n,)
        Answers to use.
    alarms : FalseAlarms, optional
        Of the same part: tests false alarms at the same coverage. Without it, the calibrated
        thresholds are taken as they are, and McNemar's p-value counts; the part must then be one
        that did not choose.

    Returns
    -------
    tuple of PairedTest
        In the order given.
    """
    faithful, level = part & (candidates.labels == 0), candidates.confidence
    ranking = part & candidates.ranking
    labels, groups = candidates.labels[ranking], candidates.groups[ranking]
    tests = []
    for item in members:
        if item.name == reference.name:
            continue
        flags = item.flagged[faithful], reference.flagged[faithful]
        flips = mcnemar(*flags, candidates.groups[faithful])
        if alarms is not None:
            fpr = alarms.difference(item.name, reference.name)
        else:
            fpr = _as_they_are(*flags, flips.p_value)
        area = auroc_test(
            item.ranked[ranking], reference.ranked[ranking], labels, groups, confidence=level
        )
        tests.append(PairedTest(item.name, reference.name, item.baseline, fpr, flips, area))
    return tuple(_corrected(tests))


def _corrected(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Correct each kind of p-value by Holm, detectors and baselines each by themselves."""
    result = list(tests)
    for kind in ("fpr", "mcnemar", "auroc"):
        for baseline in (False, True):
            family = [place for place, test in enumerate(tests) if test.baseline is baseline]
            adjusted = holm([getattr(tests[place], kind).p_value for place in family])
            for place, p in zip(family, adjusted.tolist(), strict=True):
                test = replace(getattr(tests[place], kind), p_adjusted=p)
                result[place] = replace(result[place], **{kind: test})
    return result


def _as_they_are(first: Mask, second: Mask, p: float) -> Difference:
    """Return the difference in FPR of two fixed thresholds, as McNemar's test sees it.

    Without an interval: where few answers are flagged by one threshold alone, a normal one has
    hardly any width, and none where there is no such answer.
    """
    method = "thresholds-as-they-are"
    if len(first) == 0:
        return no_difference(method)
    gap = float(first.mean() - second.mean())
    return Difference(gap, None, None, p, p, method)
