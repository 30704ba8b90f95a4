"""Winner of a comparison on answers that did not choose it: candidates, paired tests.

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

- **False alarms at the same coverage** (the one that chooses): would the detectors still differ if
  other answers had calibrated them?
- **McNemar** on the faithful answers that only one of two thresholds flags: exact, but about *these
  thresholds*. With two equally good detectors and 44 calibration answers, McNemar finds a
  difference at the 5 % level in a third of all cases (a test holds that number): it takes the luck
  of calibration for merit. So it never chooses; it confirms a choice, for the thresholds at hand.
- **DeLong** for AUROC: how the scores rank, without any threshold.

Groups of answers (one question, one source) count as one each: McNemar flips the sign of a whole
group's difference, DeLong's variance becomes Obuchowski's (1997), and the bootstrap draws groups.
With groups of one answer, these are the ordinary tests.

The test part is halved by group.

- Calibration and the first half together **choose**. At the coverage that all were calibrated to,
  the detector with the lowest FPR is the candidate. It wins if it separates from every other
  detector and from every baseline at the stated confidence, by tests that set every threshold anew
  in every draw: so calibration answers may take part, and the luck of one calibration is not taken
  for merit. The candidate is the best of all on the very answers that test it, so p-values count
  every pair of which one is a detector, whichever are shown, and both measures (``PairTests``).
- The second half **confirms**, for the threshold at hand. It had no part in the choice, so its
  exact bounds (Clopper-Pearson) certify the winner without bias, and McNemar's test says whether
  the winner's threshold flags fewer faithful answers than those of the runner-up and of the best
  baseline. Where it says the opposite of one of them, there is no winner. Whatever is shown of all
  detectors is of the first half: who picks the best row of a table that holds both, and tests it on
  both again, is wrong in a quarter of all cases at 5 % stated.

How often is a detector named that is not the best? To be named, it has to separate from the best
one, too, which happens to any pair of equals with probability e at most.

A ``pac`` threshold is not certified by construction here: its error holds for one detector named in
advance, not for the one of several that happened to flag least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from calibrail.conformal import Bound, Calibration, certify_counts, holm
from calibrail.conformal.threshold import add_tolerance, decimal
from calibrail.data.splits import CALIBRATION, FIT, TEST, split
from calibrail.data.splits import CONFIRMING as SPARED
from calibrail.evaluation.scored_answers import Sample, one_of_each
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import auroc_test, placements, test_of_placements
from calibrail.evaluation.stats.intervals import Codes, Difference, Floats, Ints, Mask, Measure
from calibrail.evaluation.stats.tests import McNemar, mcnemar
from calibrail.options import Requirement
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
        ranked = intervals.ranked_values(sample.values, calibration.undefined)
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
    drawn : ndarray of int8, shape (n,), or None
        The halves, where they are those of other answers, too.
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
    drawn: Codes | None = None

    @classmethod
    def on(
        cls,
        sample: Sample,
        members: list[Candidate],
        *,
        confidence: float = 0.95,
        seed: int = 0,
        drawn: Codes | None = None,
    ) -> Candidates:
        """Return candidates on the answers of a sample, whichever detector's scores it holds."""
        groups = intervals.with_singletons(sample.groups, len(sample))
        ranking = np.isin(sample.split, (CALIBRATION, TEST))
        if sample.lot is not None:
            if not sample.independent:
                ranking = one_of_each(ranking, sample.lot, groups, sample.labels)
            # Halves and bootstraps take groups by number: by lot, in any order of the rows.
            groups = intervals.numbered_by(sample.lot, groups)
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
            drawn,
        )

    @property
    def halves(self) -> Codes:
        """Which half of the test part each answer belongs to."""
        if self.drawn is not None:
            return np.where(self.split == TEST, self.drawn, 0).astype(np.int8)
        return halve(self.labels, self.split, self.groups, self.seed)

    def without_confirming(self) -> Candidates:
        """Return the candidates with the half set aside that is to confirm a winner."""
        split = np.where(self.halves == CONFIRMING, SPARED, self.split).astype(np.int8)
        return replace(self, split=split)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


#: Coverages nearer to each other than this are one level.
NEAR: Final = 0.05


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
    member : ndarray of int64, shape (m,)
        The group of each hallucinated score: in their order equal scores are taken.

    Attributes
    ----------
    threshold : float
        The score at that rank, on the data itself.
    """

    def __init__(
        self, hallucinated: Floats, faithful: Floats, rank: int, weights: Floats, member: Ints
    ) -> None:
        self.share = rank / float(weights.sum())
        self._order_h = np.lexsort((member, hallucinated))
        self._order_f = np.argsort(faithful, kind="stable")
        ladder = hallucinated[self._order_h]
        self._weights = weights[self._order_h]
        steps = np.cumsum(self._weights)
        #: Scores up to the threshold, by their place among ``hallucinated``.
        self.lowest = self._order_h[: int(_place(steps, self.share * steps[-1:])) + 1]
        self.threshold = float(hallucinated[self.lowest[-1]])
        self._passed = np.searchsorted(faithful[self._order_f], ladder, side="left")

    def fpr(self, drawn_h: Ints, drawn_f: Ints) -> Floats:
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
        return np.asarray(1.0 - passed / below[:, -1])


def _place(steps: Floats, least: Floats) -> NDArray[np.intp]:
    """Return where rising sums reach what is sought, but for their rounding."""
    return np.asarray(np.minimum((steps < least - 1e-9).sum(axis=-1), steps.shape[-1] - 1))


class PairTests:
    """Tests of all pairs of candidates at the same coverage, corrected together.

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
    fpr, area : dict of str to float
        FPR of each candidate at these thresholds, and its AUROC.
    apart : dict of str to bool
        Candidates that ties let catch clearly more than the rank asks for; whether they flag all.
    part : ndarray of bool, shape (n,)
        The answers used.
    n_pairs : int
        Pairs of which at least one is a detector.
    critical, between : float
        How many standard errors the largest difference of all pairs reaches by chance, and the
        largest in FPR of two detectors.
    """

    METHOD = "bootstrap-groups-recalibrated, t"

    def __init__(self, candidates: Candidates, part: Mask) -> None:
        self._level = candidates.confidence
        self.fpr: dict[str, float] = {}
        self.area: dict[str, float] = {}
        self.apart = dict[str, bool]()
        self.part = part
        self.rank = self.n_pairs = 0
        self.between = 0.0
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
            ladder = FixedCoverage(scores[caught], scores[faithful], self.rank, weights, member)
            flagged = scores[faithful] >= ladder.threshold
            ladders[item.name], self._flagged[item.name] = ladder, flagged
            self.fpr[item.name] = float(flagged.mean())
            missed = weights[scores[caught] < ladder.threshold].sum()
            if (self.rank - 1.0 - missed) / n > NEAR:
                self.apart[item.name] = bool(flagged.all())
            # Independent groups that hold the scores up to the threshold's rank.
            below = np.bincount(member[ladder.lowest], weights=weights[ladder.lowest])
            self._groups_below[item.name] = float(below.sum() ** 2 / np.sum(below**2))
        self._member = np.unique(groups[faithful], return_inverse=True)[1]
        ranking = candidates.ranking[part]
        self._labels = labels[ranking]
        self._ranked_member = np.unique(groups[ranking], return_inverse=True)[1]
        self._placed = {
            item.name: placements(item.ranked[part][ranking], self._labels) for item in candidates
        }
        sizes = np.bincount(self._labels, minlength=2)
        influence = np.zeros((len(self._labels), len(candidates)))
        for place, (name, doubled) in enumerate(self._placed.items()):
            for label in (0, 1):
                own = self._labels == label
                right = doubled[own] / (2.0 * sizes[1 - label])
                self.area[name] = float(right.mean())
                influence[own, place] = (right - self.area[name]) / sizes[label]
        draws, seed = intervals.draws_for(len(groups)), candidates.seed
        drawn, areas = [], []
        for counts in intervals.bootstrap_counts(groups, labels, draws=draws, seed=seed, stream=2):
            parts = counts[:, caught], counts[:, faithful]
            drawn.append([ladder.fpr(*parts) for ladder in ladders.values()])
            # The AUROC of a draw, to first order.
            areas.append(influence.T @ counts[:, ranking].T)
        self._drawn = dict(zip(ladders, np.concatenate(drawn, axis=1), strict=True))
        self._adjust(candidates, dict(zip(ladders, np.concatenate(areas, axis=1), strict=True)))

    def _adjust(self, candidates: Candidates, areas: Mapping[str, Floats]) -> None:
        """Correct the p-values of all pairs and both measures by the largest of each draw.

        Step by step (Romano and Wolf, 2005): a difference is held against the largest of those
        that are no larger than itself. Each p-value is read as a normal deviate, so that what
        Student's t and few groups cost stays counted. A draw's resolution ends at one in their
        number; beyond, Holm bounds the same probability.
        """
        pairs = [
            (one, other)
            for one, other in combinations(candidates, 2)
            if not (one.baseline and other.baseline)
        ]
        self.n_pairs = len(pairs)
        keys, p_values, moved = [], [], []
        for one, other in pairs:
            names = one.name, other.name
            kinds = ("fpr", self.difference, self._drawn), ("auroc", self.ranking, areas)
            for kind, test, drawn in kinds:
                gap = drawn[names[0]] - drawn[names[1]]
                spread = float(np.std(gap, ddof=1))
                keys.append((kind, frozenset(names)))
                p_values.append(test(*names).p_value)
                steps = np.abs(gap - gap.mean()) / spread if spread > 1e-9 else 0.0 * gap
                moved.append(steps.astype(np.float32))
        if not pairs:
            return
        p, largest = np.array(p_values), np.array(moved)
        order = np.argsort(-p, kind="stable")
        largest = np.maximum.accumulate(largest[order], axis=0)
        reached = -ndtri(np.maximum(p[order], 1e-300) / 2.0)
        reached_by_chance = (largest >= reached[:, None]).sum(axis=1) + 1
        bound = np.arange(1, len(p) + 1) * p[order]
        adjusted = np.minimum(bound, reached_by_chance / (largest.shape[1] + 1))
        adjusted = np.minimum(1.0, np.maximum(adjusted, p[order]))
        adjusted = np.maximum.accumulate(adjusted[::-1])[::-1]
        self.critical = float(np.quantile(largest[-1], self._level))
        among = [not any(one.baseline for one in pair) for pair in pairs]
        if any(among):
            of_fpr = np.array(moved[::2])[among].max(axis=0)
            self.between = float(np.quantile(of_fpr, self._level))
        self._adjusted = {keys[place]: q for place, q in zip(order, adjusted.tolist(), strict=True)}

    def adjusted(self, kind: str, name: str, against: str) -> float:
        """Return the p-value of a pair's difference in ``fpr`` or ``auroc``, corrected for all."""
        return float(self._adjusted[kind, frozenset((name, against))])

    def ranking(self, name: str, against: str) -> Difference:
        """Return the AUROC of one candidate minus that of another."""
        doubled = self._placed[name] - self._placed[against]
        return test_of_placements(doubled, self._labels, self._ranked_member, self._level)

    def difference(self, name: str, against: str) -> Difference:
        """Return the FPR of one candidate minus that of another."""
        estimate, error, df = self._spread(name, against)
        if not error:
            # No draw differs: Hoeffding's inequality for a mean over independent groups.
            half = math.sqrt(2.0 * math.log(2.0 / (1.0 - self._level)) / df)
            p = 2.0 * math.exp(-df * estimate**2 / 2.0)
            return Difference.of(estimate, half, p, self.METHOD)
        half = -float(stdtrit(df, (1.0 - self._level) / 2.0)) * error
        p = 2.0 * float(stdtr(df, -abs(estimate) / error))
        return Difference.of(estimate, half, p, self.METHOD)

    def bounds(self, name: str, against: str) -> Measure:
        """Return the same with an interval that holds for all pairs of detectors together."""
        estimate, error, df = self._spread(name, against)
        tail = min(float(ndtr(-self.between)), (1.0 - self._level) / 2.0)
        # Of few answers that only one flags, draws say too little: four more (Agresti and Coull).
        gap = self._flagged[name].astype(np.float64) - self._flagged[against]
        in_groups = np.bincount(self._member, gap)
        few = math.sqrt(np.count_nonzero(in_groups) + 4.0) / len(in_groups)
        if error:
            half = -float(stdtrit(df, tail)) * max(error, few)
        else:
            half = math.sqrt(-2.0 * math.log(tail) / df)
        ends = max(-1.0, estimate - half), min(1.0, estimate + half)
        return Measure(estimate, *ends, f"{self.METHOD}, max-T", self._level)

    def _spread(self, name: str, against: str) -> tuple[float, float, float]:
        """Return a difference in FPR, its standard error, and its degrees of freedom.

        Where no draw differs the error is 0, and for the last there is the number of groups.
        """
        gap = self._flagged[name].astype(np.float64) - self._flagged[against]
        estimate, groups = float(gap.mean()), int(self._member.max()) + 1
        variance = float(np.var(self._drawn[name] - self._drawn[against], ddof=1))
        if variance <= 1e-18:
            return estimate, 0.0, groups
        rank = min(self._groups_below[name], self._groups_below[against])
        inner = min(clustered_variance(gap, self._member), variance)
        spread = (variance - inner) ** 2 / (2 * rank - 1) + inner**2 / max(1, groups - 1)
        return estimate, math.sqrt(variance), variance**2 / spread


def against_reference(
    name: str, margin: float, fpr: Mapping[str, Sequence[Measure]], apart: Mapping[str, bool]
) -> dict[str, Any]:
    """Return which detectors raise at most so many more false alarms than one of them.

    Parameters
    ----------
    name, margin
        The reference, and the largest difference in FPR at the same coverage.
    fpr : mapping of str to sequence of Measure
        FPR of each detector minus that of the reference, in each way of counting near copies; the
        widest interval counts.
    apart : mapping of str to bool
        Scores that ties keep from that coverage, and whether they flag everything, as a yes/no
        detector may. Then nothing is compared, nor between two of them. Else one that catches more
        may be non-inferior, and what raises more false alarms than it inferior.
    """
    rows = []
    for detector, ways in fpr.items():
        lower, upper = (pick(getattr(way, end) for way in ways) for pick, end in _WIDEST)
        verdict = "non-inferior" if upper <= margin else "inferior" if lower > margin else "open"
        tied = apart.get(detector), apart.get(name)
        if tied != (None, None) and (*tied, verdict) not in _SOUND:
            verdict = NOT_COMPARABLE
        gap = replace(ways[0], lower=lower, upper=upper)
        rows.append({"name": detector, "fpr": gap, "verdict": verdict})
    return {"name": name, "margin": margin, "detectors": rows, "apart": dict(apart)}


#: The verdict about scores that ties keep from the coverage of the comparison.
NOT_COMPARABLE: Final = "not comparable"
#: What is sound where a detector or the reference catches more than the rest.
_SOUND: Final = ((False, None, "non-inferior"), (None, False, "inferior"))
_WIDEST: Final[Any] = ((min, "lower"), (max, "upper"))


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
        At the calibrated thresholds; ``only_first`` counts what only ``name`` flags. Its p-value
        is corrected for the number of pairs.
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


_FIXED: Final = "thresholds-as-they-are"


def paired_tests(
    candidates: Candidates, reference: Candidate, members: Sequence[Candidate], pairs: PairTests
) -> tuple[PairedTest, ...]:
    """Test candidates against one reference, at the same coverage and at their thresholds.

    Whoever is the reference, p-values are corrected for all pairs: those of false alarms and of
    AUROC together, McNemar's by themselves.

    Parameters
    ----------
    candidates : Candidates
        Their answers and the level of each interval, which is not corrected for their number.
    reference : Candidate
        What they are compared with; left out itself.
    members : sequence of Candidate
        Those to test, in this order.
    pairs : PairTests
        Of the answers that choose.

    Returns
    -------
    tuple of PairedTest
        In the order given.
    """
    tests = []
    faithful = pairs.part & (candidates.labels == 0)
    for item in members:
        if item.name == reference.name:
            continue
        names = item.name, reference.name
        flips = _flips(candidates, item, reference, faithful)
        flips = replace(flips, p_adjusted=min(1.0, pairs.n_pairs * flips.p_value))
        fpr, area = (
            replace(test(*names), p_adjusted=pairs.adjusted(kind, *names))
            for kind, test in (("fpr", pairs.difference), ("auroc", pairs.ranking))
        )
        tests.append(PairedTest(*names, item.baseline, fpr, flips, area))
    return tuple(tests)


def confirming_tests(
    candidates: Candidates, best: Candidate, rivals: Sequence[Candidate], part: Mask
) -> tuple[PairedTest, ...]:
    """Test rivals against the one chosen, thresholds as they are, on answers that did not choose.

    Each kind of p-value is corrected by Holm.
    """
    faithful, ranking = part & (candidates.labels == 0), part & candidates.ranking
    labels, groups = candidates.labels[ranking], candidates.groups[ranking]
    tests = []
    for item in rivals:
        flips = _flips(candidates, item, best, faithful)
        fpr = intervals.no_difference(_FIXED)
        if faithful.any():
            # Where few answers are flagged by one threshold alone, a normal interval has no width.
            gap = float(item.flagged[faithful].mean() - best.flagged[faithful].mean())
            fpr = Difference(gap, None, None, flips.p_value, flips.p_value, _FIXED)
        ranked = item.ranked[ranking], best.ranked[ranking]
        area = auroc_test(*ranked, labels, groups, confidence=candidates.confidence)
        tests.append(PairedTest(item.name, best.name, item.baseline, fpr, flips, area))
    for kind in ("fpr", "mcnemar", "auroc"):
        adjusted = holm([getattr(test, kind).p_value for test in tests]).tolist()
        for place, p in enumerate(adjusted):
            test = replace(getattr(tests[place], kind), p_adjusted=p)
            tests[place] = replace(tests[place], **{kind: test})
    return tuple(tests)


def _flips(candidates: Candidates, one: Candidate, other: Candidate, faithful: Mask) -> McNemar:
    flags = one.flagged[faithful], other.flagged[faithful]
    return mcnemar(*flags, candidates.groups[faithful])


#: Halves of the test part, as ``halve`` names them; 0 = not for testing.
CHOOSING: Final = 1
CONFIRMING: Final = 2


@dataclass(frozen=True, slots=True)
class Winner(Record):
    """What the two halves of the test part say about who is best.

    Attributes
    ----------
    name : str or None
        The winner; None where the data that chooses does not separate the candidate from all, or
        the data that confirms contradicts it.
    candidate : str or None
        The detector with the lowest FPR at the same coverage; None where none can be compared.
    runner_up, best_baseline : str or None
        The next detector, and the best baseline.
    ahead_of, not_separated : tuple of str
        From whom the data separates the candidate, and from whom it does not.
    halves : mapping
        Under ``choosing`` and ``confirming``, the number of examples of each class; the seed; the
        rank of every threshold among the hallucinated examples that choose, or among their groups
        where thresholds count groups.
    choosing : tuple of PairedTest
        Every other score against the candidate, the nearest first.
    baseline_tests : tuple of PairedTest
        Every detector against the best baseline, on the data that chooses.
    confirming : tuple of PairedTest
        Runner-up and best baseline against the winner, thresholds as they are, on the confirming
        half.
    confirmed : bool or None
        Whether the confirming half separates the winner from both; None without a winner.
    contradicted_by : tuple of str
        Whose thresholds flag fewer faithful answers of the confirming half than the candidate's,
        beyond chance: then nobody wins, and nothing else is told of that half.
    fpr : mapping of str to Bound
        On the confirming half (Wilson), of the winner and those in ``confirming``.
    candidate_certificate : mapping or None
        The candidate's exact bounds and verdict on the confirming half, which had no part in the
        choice: so they hold whether it wins or not.
    times : float or None
        By about which factor the data would have to grow to separate the candidate from all
        others, if the differences seen are the true ones; None where it separates, or where no
        sensible amount would do.
    level : float
        Adjusted p-values up to it separate: 1 - confidence.
    reference : mapping or None
        What `against_reference` says, where a margin is asked for.
    withheld : str
        Why nobody wins whom the data separates: ``looked_before`` where nothing of the error is
        left, ``near_copies`` where how these count decides who wins; else empty.
    """

    later = ("withheld",)

    name: str | None = None
    candidate: str | None = None
    runner_up: str | None = None
    best_baseline: str | None = None
    ahead_of: tuple[str, ...] = ()
    not_separated: tuple[str, ...] = ()
    halves: Mapping[str, Any] = field(default_factory=dict)
    choosing: tuple[PairedTest, ...] = ()
    baseline_tests: tuple[PairedTest, ...] = ()
    confirming: tuple[PairedTest, ...] = ()
    confirmed: bool | None = None
    contradicted_by: tuple[str, ...] = ()
    fpr: Mapping[str, Bound] = field(default_factory=dict)
    candidate_certificate: Mapping[str, Any] | None = None
    times: float | None = None
    level: float = 0.05
    reference: Mapping[str, Any] | None = None
    withheld: str = ""

    def without_winner(self, why: str) -> Winner:
        """Return that nobody wins; ``why`` where somebody would."""
        if self.name is None:
            return self
        return replace(self, name=None, confirmed=None, confirming=(), fpr={}, withheld=why)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The winner's exact bounds and verdict on the confirming half; None without a winner."""
        return None if self.name is None else self.candidate_certificate

    def to_dict(self) -> dict[str, Any]:
        """Return what decides, JSON-able; the tests stand under ``paired`` in a comparison."""
        tests = ("choosing", "baseline_tests", "confirming", "reference")
        content = {**Record.to_dict(self), "candidate_certificate": self.certificate}
        names = {"candidate_certificate": "certificate"}
        return {names.get(key, key): item for key, item in content.items() if key not in tests}


def halve(
    labels: NDArray[np.int8], codes: NDArray[np.int8], groups: NDArray[np.int64], seed: int = 0
) -> NDArray[np.int8]:
    """Return which half of the test part each example belongs to; no group is torn apart.

    Examples
    --------
    >>> codes = np.array([1, 2, 2, 2, 2], dtype=np.int8)
    >>> halves = halve(np.array([0, 1, 0, 1, 0]), codes, np.array([0, 1, 1, 2, 2]))
    >>> sorted(halves.tolist()), bool(halves[1] == halves[2] != halves[3])
    ([0, 1, 1, 2, 2], True)
    """
    halves = np.zeros(len(labels), dtype=np.int8)
    test = codes == TEST
    if test.any():
        sides = split(labels[test], groups[test], seed=seed, calibration_share=0.5)
        halves[test] = np.where(sides == CALIBRATION, CHOOSING, CONFIRMING)
    return halves


def find_winner(
    candidates: Candidates, required: Requirement, against: tuple[str, float] | None = None
) -> Winner:
    """Choose on one half of the test part, confirm on the other.

    Parameters
    ----------
    candidates : Candidates
        Detectors and baselines that could be calibrated; a baseline never wins. One minus their
        ``confidence`` bounds the probability of naming a detector that is not the best.
    required : Requirement
        What the certificate requires; without a limit on the FPR nothing is certified.
    against : (str, float), optional
        A detector, and by how much the FPR of the others may exceed its own at the same coverage.
    """
    labels, split = candidates.labels, candidates.split
    halves = candidates.halves
    choosing, confirming = (halves == CHOOSING) | (split == CALIBRATION), halves == CONFIRMING
    pairs = PairTests(candidates, choosing)
    result = Winner(
        halves={
            "seed": candidates.seed,
            "rank": pairs.rank,
            "choosing": _sizes(labels[choosing]),
            "confirming": _sizes(labels[confirming]),
        }
    )

    detectors = [item for item in candidates if not item.baseline]
    if not detectors or pairs.rank == 0:
        return result
    if against is not None:
        names = [item.name for item in detectors if item.name != against[0]]
        fpr = {name: [pairs.bounds(name, against[0])] for name in names}
        result = replace(result, reference=against_reference(*against, fpr, pairs.apart))
    # By FPR at the same coverage, then by AUROC from the top.
    order = sorted(candidates, key=lambda item: (pairs.fpr[item.name], -pairs.area[item.name]))
    detectors = [item for item in order if not item.baseline]
    best, runner_up = detectors[0], next(iter(detectors[1:]), None)
    baseline = next((item for item in order if item.baseline), None)
    level = float(1 - decimal(candidates.confidence))
    tests = paired_tests(candidates, best, order, pairs)
    behind = tuple(item.name for item in tests if not _ahead(item, level))
    against_baseline = paired_tests(candidates, baseline, detectors, pairs) if baseline else ()
    result = replace(
        result,
        candidate=best.name,
        runner_up=runner_up.name if runner_up else None,
        best_baseline=baseline.name if baseline else None,
        ahead_of=tuple(item.name for item in tests if _ahead(item, level)),
        not_separated=behind,
        choosing=tests,
        baseline_tests=against_baseline,
        level=level,
    )
    sample = Sample(
        np.zeros(len(labels)),
        labels,
        np.where(confirming, TEST, FIT).astype(np.int8),
        candidates.groups,
        independent=candidates.independent,
    )
    # Each group counts once where answers of one class share groups.
    certificate = certify_counts(sample.one_per_group(best.flagged), required).to_dict()
    once = candidates.thinned or (not candidates.independent and sample.n_sharing(confirming) > 0)
    counted = "one answer of each group and class" if once else "every answer"
    result = replace(result, candidate_certificate={**certificate, "counted": counted})
    if behind or not tests:
        return replace(result, times=_times(tests, level, pairs.critical if tests else 0.0))
    behind_it = [item for item in (runner_up, baseline) if item is not None]
    confirmed = confirming_tests(candidates, best, behind_it, confirming)
    contradicted = tuple(item.name for item in confirmed if _ahead(item, level, sign=-1))
    if contradicted:
        return replace(result, contradicted_by=contradicted)
    return replace(
        result,
        name=best.name,
        confirming=confirmed,
        confirmed=all(_ahead(item, level) for item in confirmed),
        fpr={
            item.name: sample.bounds(item.flagged, candidates.confidence)[1]
            for item in (best, *behind_it)
        },
    )


def _sizes(labels: Codes) -> dict[str, int]:
    n_hallucinated = int(labels.sum())
    return {"n_hallucinated": n_hallucinated, "n_faithful": len(labels) - n_hallucinated}


def _ahead(test: PairedTest, level: float, sign: int = 1) -> bool:
    """Return whether the reference raises fewer false alarms than ``test.name``, beyond chance.

    With ``sign`` -1, whether it raises more.
    """
    return sign * (test.fpr.estimate or 0.0) > 0.0 and test.fpr.p_adjusted <= level


#: More than this many times the data is no advice.
_MOST_TIMES: Final = 20.0


def _times(tests: Sequence[PairedTest], level: float, critical: float) -> float | None:
    """Return by how much the data would have to grow for 80 % power against the closest rival."""
    # The normal deviate that gave a p-value grows with the square root of the data.
    needed = critical + float(ndtri(0.8))
    factors = [1.0]
    for test in tests:
        if _ahead(test, level):
            continue
        if not test.fpr.estimate or test.fpr.estimate < 0.0 or test.fpr.p_value >= 1.0:
            return None
        observed = -float(ndtri(test.fpr.p_value / 2.0))
        factors.append((needed / observed) ** 2 if observed > 0.0 else math.inf)
    return max(factors) if 1.0 < max(factors) <= _MOST_TIMES else None
