"""Would detectors differ in false alarms if other answers had calibrated them?

A threshold is as random as the answers that calibrated it. Two equally good detectors get
thresholds that differ by luck: one raises fewer false alarms and misses more. So all labelled
answers are drawn again, by whole groups; every detector gets its threshold anew in every draw, at
the same coverage, and the spread of the difference in FPR gives Student's t. Its degrees of freedom
combine, as Welch and Satterthwaite do, those of the faithful groups with 2k - 1 for a threshold at
rank k: the spread of the k-th smallest score is known no better than from about k exponential gaps.

Where the thresholds count each group once, the coverage at which they are compared does, too: a
hallucinated answer weighs 1 / (answers of its group), as in ``calibrate_clusters``. k is then the
effective number of groups at or below the threshold (Kish, 1965, "Survey sampling").
"""

import math
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from calibrail.evaluation.compare.candidate import Candidates
from calibrail.evaluation.compare.fixed_coverage import FixedCoverage
from calibrail.evaluation.sample import Mask
from calibrail.evaluation.stats.measure import Difference
from calibrail.evaluation.stats.resampling import bootstrap_counts, draws_for


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
