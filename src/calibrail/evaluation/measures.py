"""Measures of a detector, of its baselines, of removed sentences and of repeated replies."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, Calibration, ClassCounts, ClusteredCalibration, coverage_band
from calibrail.conformal.bounds import MeanBound, exact_bound, mean_bound
from calibrail.conformal.certificate import proven_coverage
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.example import mix64
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import InputError
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import CLUSTERED, clustered_auroc
from calibrail.evaluation.stats.intervals import Mask, Measure, ranked_values, wilson
from calibrail.evaluation.stats.tests import overlap
from calibrail.options.guarantee import Undefined
from calibrail.scores.table import SentenceTable, Trimming
from calibrail.serialization import Record

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Delivered(Record):
    """What a reader gets, in shares of independent answers with exact intervals.

    Attributes
    ----------
    freed : Bound
        Hallucinated answers of which no unsupported sentence is shown.
    kept_supported : MeanBound
        Over answers that hold a supported sentence: the share of these that is shown.
    emptied : Bound
        Answers of which nothing is left. One that goes to review is not among them.
    untouched : Bound
        Answers that are shown whole.
    reviewed : Bound
        Answers of which nothing is shown until a person has looked at them.
    """

    freed: Bound
    kept_supported: MeanBound
    emptied: Bound
    untouched: Bound
    reviewed: Bound


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What is left of each of n answers.

    Attributes
    ----------
    freed : ndarray of bool, shape (n,)
        No unsupported sentence is shown.
    kept : ndarray of float64, shape (n,)
        Share of the supported sentences that is shown; NaN where there is none.
    emptied, untouched, reviewed : ndarray of bool, shape (n,)
        Nothing is left; all is left; a person has to look first, and nothing is shown.
    """

    freed: intervals.Mask
    kept: intervals.Floats
    emptied: intervals.Mask
    untouched: intervals.Mask
    reviewed: intervals.Mask

    @classmethod
    def of(cls, sentences: SentenceTable, trimming: Trimming) -> Self:
        """Return what a trimming leaves."""
        removed, reviewed = trimming.removed, trimming.reviewed
        supported = sentences.labels == 0
        n_supported = sentences.count(supported)
        n_left = np.where(reviewed, 0, sentences.count(~removed & supported))
        kept = np.full(sentences.n_answers, np.nan)
        np.divide(n_left, n_supported, out=kept, where=n_supported > 0)
        touched = sentences.any(removed) | reviewed
        return cls(
            freed=reviewed | ~sentences.any(~removed & (sentences.labels == 1)),
            kept=kept,
            emptied=~reviewed & ~sentences.any(~removed) & touched,
            untouched=~touched,
            reviewed=reviewed,
        )

    def shares(self, rows: Rows) -> intervals.Floats:
        """Return what is kept of those of some answers that hold a supported sentence."""
        shares = self.kept[rows]
        return shares[~np.isnan(shares)]

    def delivered(self, hallucinated: Rows, everyone: Rows, confidence: float) -> Delivered:
        """Return the measures of independent answers.

        Parameters
        ----------
        hallucinated, everyone : ndarray of int
            The hallucinated answers that count, and all that count, in an order that has nothing to
            do with what is left of them.
        confidence : float
            Level of every interval.
        """

        def share(which: intervals.Mask, rows: Rows) -> Bound:
            return exact_bound(int(np.count_nonzero(which[rows])), len(rows), confidence)

        return Delivered(
            freed=share(self.freed, hallucinated),
            kept_supported=mean_bound(self.shares(everyone), confidence),
            emptied=share(self.emptied, everyone),
            untouched=share(self.untouched, everyone),
            reviewed=share(self.reviewed, everyone),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RemovalOutcome:
    """The answers of a sample and what one score's threshold leaves of them.

    Attributes
    ----------
    sample : Sample
        The answers, each with its value.
    sentences : SentenceTable
        Their sentences.
    key : str
        The score's column there.
    undefined : str
        Policy for sentences without a score.
    trimming : Trimming
        What the threshold removes.
    outcomes : Outcomes
        What that leaves.
    """

    sample: Sample
    sentences: SentenceTable
    key: str
    undefined: Undefined
    trimming: Trimming
    outcomes: Outcomes

    @classmethod
    def at(
        cls,
        thresholds: intervals.Floats,
        sample: Sample,
        sentences: SentenceTable,
        key: str,
        undefined: Undefined,
    ) -> Self:
        """Remove the sentences of each answer that reach its threshold, shape (n,)."""
        trimming = sentences.trim(key, thresholds, undefined, sample.tolerance)
        return cls(sample, sentences, key, undefined, trimming, Outcomes.of(sentences, trimming))

    def with_trimming(self, trimming: Trimming) -> Self:
        """Return the same answers with something else removed."""
        return replace(self, trimming=trimming, outcomes=Outcomes.of(self.sentences, trimming))

    def again(self, thresholds: intervals.Floats) -> "RemovalOutcome":
        """Return the same answers at other thresholds."""
        return RemovalOutcome.at(thresholds, self.sample, self.sentences, self.key, self.undefined)

    @property
    def stopped(self) -> intervals.Mask:
        """Hallucinated answers that are freed, and faithful ones that are touched, shape (n,)."""
        return np.where(self.sample.labels == 1, self.outcomes.freed, ~self.outcomes.untouched)

    @property
    def hallucinated(self) -> Rows:
        """The hallucinated test answers that count, one of each group, in order by lot."""
        sample = self.sample
        return in_order(sample, sample.drawn(TEST, sample.labels) & (sample.labels == 1))

    def unsupported(self) -> intervals.Ints:
        """Return how many unsupported sentences each of these hallucinated answers holds."""
        return self.sentences.count(self.sentences.labels == 1)[self.hallucinated]

    @property
    def everyone(self) -> Rows:
        """The test answers that count, one of each group, in order by lot."""
        return in_order(self.sample, self.sample.among_all.drawn(TEST))

    @property
    def counts(self) -> ClassCounts:
        """How many hallucinated answers are freed, and how many faithful ones are touched."""
        return self.sample.one_per_group(self.stopped)

    def delivered(self, confidence: float) -> Delivered:
        """Return the measures of the test part."""
        return self.outcomes.delivered(self.hallucinated, self.everyone, confidence)

    def auroc(self, confidence: float) -> intervals.Measure:
        """Return how well the score ranks unsupported above supported sentences of the test part.

        The answers' values saw the labels and rank nothing; the sentences' scores did not. Its
        interval is that of whole answers, or groups of them.
        """
        test, sample = self.sample.rows(TEST), self.sample
        part = self.sentences.of_answers(test)
        if not np.isin(part.labels, (0, 1)).all():
            return intervals.missing(CLUSTERED, "sentences_without_labels", confidence)
        ranked = intervals.ranked_values(part.columns[self.key], self.undefined)
        clusters = np.repeat(sample.members[test], np.diff(part.first))
        return clustered_auroc(ranked, part.labels, clusters, confidence)

    def kept_beyond(self, other: "RemovalOutcome", confidence: float) -> intervals.Measure:
        """Return how much more of what is supported is kept here than there, answer by answer.

        The difference of two shares lies in [-1, 1]; it is bet on as a mean of values in [0, 1].
        """
        rows = self.everyone
        gaps = self.outcomes.shares(rows) - other.outcomes.shares(rows)
        if not len(gaps):
            return intervals.missing("betting, paired", "no_supported", confidence)
        # Rounding may take a sum of such halves past 1.
        bound = mean_bound(np.clip((gaps + 1.0) / 2.0, 0.0, 1.0), confidence)
        lower, upper = 2.0 * bound.lower - 1.0, 2.0 * bound.upper - 1.0
        return intervals.Measure(float(gaps.mean()), lower, upper, "betting, paired", confidence)


def in_order(sample: Sample, rows: intervals.Mask) -> Rows:
    """Return some answers in an order that has nothing to do with them."""
    return shuffled(np.flatnonzero(rows), sample.lots)


def shuffled(rows: Rows, lots: NDArray[np.uint64]) -> Rows:
    """Return rows in an order that has nothing to do with what they are, as bets on a mean need.

    The same in any order of the data: it follows from their lots, shape (n,), but is not theirs.
    The lowest lot of many answers is lower than that of a few, so that by the lots themselves
    large groups would come first, whose answers may be easier or harder than others.
    """
    return rows[np.argsort(mix64(lots[rows]), kind="stable")]


@dataclass(frozen=True, slots=True)
class CoverageBand(Record):
    """Where the number of caught test hallucinations plausibly lies if the promise's model holds.

    Parameters
    ----------
    lowest, highest : int
        Caught counts out of ``n`` between which a BetaBinomial draw falls with ``confidence``.
    n : int
        Hallucinated test examples.
    confidence : float
        Level of the band.
    inside : bool
        Whether the observed count lies in it.
    lower, upper : float
        The ends as shares of ``n``.
    method : str
        How it was computed.
    """

    lowest: int
    highest: int
    n: int
    confidence: float
    inside: bool
    lower: float
    upper: float
    method: str = "beta-binomial"


@dataclass(frozen=True, slots=True)
class TestMetrics(Record):
    """Every measure of a threshold and its score on the test part.

    Parameters
    ----------
    n_hallucinated, n_faithful : int
        Test examples per class.
    coverage, fpr, accuracy : Bound
        Shares caught, flagged wrongly and decided right, with Wilson intervals.
    coverage_band : Band or None
        Where chance alone puts the caught count; None where everything is flagged.
    auroc, overlap : Measure
        Separation of the classes, independent of the threshold.
    freed, kept_supported, emptied, untouched, reviewed : Bound and MeanBound, or None
        Where sentences are removed: what a reader gets (``trimmed.Delivered``). ``coverage`` is
        then the share of hallucinated answers whose unsupported sentences all reach the threshold,
        ``fpr`` that of faithful answers of which one does, ``accuracy`` that of answers of which
        exactly what is unsupported is removed; the classes of the other measures are those of
        sentences.
    """

    n_hallucinated: int
    n_faithful: int
    coverage: Bound
    coverage_band: CoverageBand | None
    fpr: Bound
    accuracy: Bound
    auroc: Measure
    overlap: Measure
    freed: Bound | None = None
    kept_supported: MeanBound | None = None
    emptied: Bound | None = None
    untouched: Bound | None = None
    reviewed: Bound | None = None

    later = ("freed", "kept_supported", "emptied", "untouched", "reviewed")
    # Reports held these once.
    derived = ("median_overlap", "means", "cohens_d", "welch")

    @classmethod
    def of(cls, rule: Rule, sample: Sample, flagged: Mask, confidence: float) -> Self:
        """Measure what a rule flags, and how its score ranks."""
        ranked = ranked_values(sample.values, rule.undefined)
        return cls(
            auroc=sample.auroc(ranked, confidence),
            overlap=overlap(*sample.by_class(ranked), confidence=confidence),
            **_common(rule, sample, flagged, flagged == (sample.labels == 1), confidence),
        )

    @classmethod
    def by_sentence(
        cls, rule: Rule, trimmed: RemovalOutcome, flagged: Mask, confidence: float
    ) -> Self:
        """Measure what a rule removes of answers, and how its score ranks their sentences.

        ``flagged`` says which answers reach their threshold. Sentences of one answer are not
        independent: what would take them for that has no interval.
        """
        sample, outcomes = trimmed.sample, trimmed.outcomes
        part = trimmed.sentences.of_answers(sample.rows(TEST))
        scores = part.columns[trimmed.key]
        classes = scores[part.labels == 1], scores[part.labels == 0]
        ranked = [ranked_values(item, rule.undefined) for item in classes]
        shared = overlap(*ranked, confidence=confidence)
        if shared.estimate is not None:
            shared = Measure(shared.estimate, None, None, "sentences pooled")
        right = outcomes.freed & ~(outcomes.kept < 1.0) & ~outcomes.reviewed
        delivered = trimmed.delivered(confidence)
        return cls(
            auroc=trimmed.auroc(confidence),
            overlap=shared,
            **_common(rule, sample, flagged, right, confidence),
            **{item.name: getattr(delivered, item.name) for item in fields(delivered)},
        )


def _common(
    rule: Rule, sample: Sample, flagged: Mask, right: Mask, confidence: float
) -> dict[str, Any]:
    """Return the measures that are computed alike of answers and of sentences."""
    coverage, fpr = tested_rates(sample, rule.calibration, flagged, confidence)
    # It is of both classes: a group's answers of either are one answer.
    test = sample.drawn(TEST) & (not sample.whole)
    return {
        "n_hallucinated": coverage.n,
        "n_faithful": fpr.n,
        "coverage": coverage,
        "coverage_band": caught_band(rule, sample, flagged, confidence)[1],
        "fpr": fpr,
        "accuracy": wilson(int(np.sum(right & test)), int(np.sum(test)), confidence),
    }


def tested_rates(
    sample: Sample, calibration: Calibration, flagged: Mask, confidence: float
) -> tuple[Bound, Bound]:
    """Return coverage and FPR: of the test part, or, without one, as proven and of all faithful."""
    coverage, fpr = sample.bounds(flagged, confidence)
    return (proven_coverage(calibration) if sample.whole else coverage), fpr


def caught_band(
    rule: Rule, sample: Sample, flagged: Mask, confidence: float
) -> tuple[Bound, CoverageBand | None]:
    """Return what is caught of the test part, and where chance puts that, if this is known."""
    coverage, calibration = sample.bounds(flagged, confidence)[0], rule.calibration
    n = coverage.n
    # The law of the band is that of one threshold from independent examples.
    clustered = isinstance(calibration, ClusteredCalibration)
    if not rule.ranked or clustered or calibration.flag_all or not n:
        return coverage, None
    lowest, highest = coverage_band(calibration, n, confidence)
    inside = lowest <= coverage.count <= highest
    return coverage, CoverageBand(lowest, highest, n, confidence, inside, lowest / n, highest / n)


@dataclass(frozen=True, slots=True)
class BaselineResult(Record):
    """One detector, calibrated and tested on the rows of the detector that a report is about.

    Parameters
    ----------
    name : str
        Name of the score.
    threshold : float or None
        None where it could not be calibrated, and where everything is flagged.
    n_calibration : int
        Hallucinated calibration examples.
    coverage, fpr : Bound or None
        On the test part with Wilson intervals; None where it could not be calibrated.
    auroc : Measure
        On the test part.
    auroc_difference : Measure or None
        This row's AUROC minus the reported detector's, DeLong's paired interval. None in a table
        without a detector to compare with.
    beats_detector : bool
        See ``row``.
    detector_beats : bool
        The interval of ``auroc_difference`` lies entirely below zero.
    reason : str or None
        Why it could not be calibrated.
    score : mapping or None
        The detector's specification, as in a report; None for a baseline.
    """

    derived = ("column_threshold",)

    name: str
    threshold: float | None
    n_calibration: int
    coverage: Bound | None
    fpr: Bound | None
    auroc: Measure
    auroc_difference: Measure | None = None
    beats_detector: bool = False
    detector_beats: bool = False
    reason: str | None = None
    score: Mapping[str, Any] | None = None

    @property
    def unclear(self) -> bool:
        """Whether neither is shown to be better."""
        return not self.beats_detector and not self.detector_beats


def baseline_result(
    name: str,
    other: Sample,
    like: Calibration,
    detector: Sample,
    detector_fpr: Bound,
    confidence: float = 0.95,
) -> BaselineResult:
    """Return a detector calibrated by the promise of ``like``, tested beside the reported one.

    Rule: a row *beats the detector* when DeLong's paired interval of the AUROC difference lies
    entirely above zero AND its observed FPR, calibrated to the same target, is lower. A row that
    cannot be calibrated beats nothing. *The detector beats a row* when the interval lies entirely
    below zero. Otherwise the two are not told apart.

    Parameters
    ----------
    name, other : str and Sample
        Name and scores of the row.
    like : Calibration
        Gives the target, the guarantee and the policy for undefined scores.
    detector, detector_fpr : Sample and Bound
        The reported detector, and its FPR on the test part.
    confidence : float
        Level of the intervals.
    """
    ranked, beside = (ranked_values(item.values, like.undefined) for item in (other, detector))
    difference = other.auroc_difference(ranked, beside, confidence)
    bare = BaselineResult(
        name,
        threshold=None,
        n_calibration=len(other.scores(CALIBRATION, 1)),
        coverage=None,
        fpr=None,
        auroc=other.auroc(ranked, confidence),
        auroc_difference=difference,
        detector_beats=difference.lies_below(0.0),
    )
    try:
        calibration = other.calibrated(replace(like.promise, allow_flag_all=False))
    except InputError as error:
        return replace(bare, reason=str(error))
    flagged = calibration.flags(other.values, other.tolerance)
    coverage, fpr = tested_rates(other, calibration, flagged, confidence)
    return replace(
        bare,
        threshold=calibration.threshold,
        coverage=coverage,
        fpr=fpr,
        beats_detector=difference.lies_above(0.0) and fpr.count < detector_fpr.count,
    )


def share_by_group(
    shares: intervals.Floats, groups: intervals.Ints, lots: NDArray[np.uint64], confidence: float
) -> Bound | MeanBound:
    """Return the mean of shares, one an answer, with an exact interval.

    The groups are independent, not their answers: where some hold several, each group counts once,
    by the mean of its answers.

    Parameters
    ----------
    shares : ndarray of float64, shape (n,)
        In [0, 1].
    groups : ndarray of int64, shape (n,)
        What answers share.
    lots : ndarray of uint64, shape (n,)
        Something of each answer that has nothing to do with its share.
    confidence : float
        Level of the interval.

    Examples
    --------
    >>> lots = np.arange(4, dtype=np.uint64)
    >>> share_by_group(np.array([1.0, 0.0, 0.0, 0.0]), np.arange(4), lots, 0.95).method
    'clopper-pearson'
    >>> share_by_group(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0, 0, 1, 2]), lots, 0.95).n
    3
    """
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if sizes.max(initial=1) == 1 and np.isin(shares, (0.0, 1.0)).all():
        return exact_bound(int(shares.sum()), len(shares), confidence)
    means = np.minimum(1.0, np.bincount(member, weights=shares) / sizes)
    lowest = np.full(len(sizes), np.iinfo(np.uint64).max)
    np.minimum.at(lowest, member, lots)
    return mean_bound(means[shuffled(np.arange(len(sizes)), lowest)], confidence)


def ranked_replies(replies: intervals.Floats) -> intervals.Floats:
    """Return replies, shape (n, k), without NaN: an undefined one lies beyond all others.

    Examples
    --------
    >>> ranked_replies(np.array([[0.0, 1.0], [np.nan, 1.0]])).tolist()
    [[0.0, 1.0], [2.0, 1.0]]
    """
    known = np.append(replies[~np.isnan(replies)], 0.0)
    return np.where(np.isnan(replies), known.max() + (np.ptp(known) or 1.0), replies)


def differing_replies(replies: intervals.Floats, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Return which two replies to an answer differ by more than that, shape (n, k, k)."""
    ranked = ranked_replies(replies)
    return np.asarray(np.abs(ranked[:, :, None] - ranked[:, None, :]) > tolerance)
