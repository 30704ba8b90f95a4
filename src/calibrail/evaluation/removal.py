"""Outcomes of answers whose sentences are removed."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, ClassCounts, exact_bound
from calibrail.conformal.bounds import MeanBound, mean_bound
from calibrail.data.example import mix64
from calibrail.data.splits import TEST
from calibrail.evaluation.sample import Sample
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import clustered_auroc
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
        shown = sentences.any(~removed)
        touched = sentences.any(removed) | reviewed
        return cls(
            freed=reviewed | ~sentences.any(~removed & (sentences.labels == 1)),
            kept=kept,
            emptied=~reviewed & ~shown & touched,
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
        outcomes = Outcomes.of(sentences, trimming)
        return cls(sample, sentences, key, undefined, trimming, outcomes)

    def with_trimming(self, trimming: Trimming) -> Self:
        """Return the same answers with something else removed."""
        outcomes = Outcomes.of(self.sentences, trimming)
        return replace(self, trimming=trimming, outcomes=outcomes)

    def again(self, thresholds: intervals.Floats) -> "RemovalOutcome":
        """Return the same answers at other thresholds."""
        return RemovalOutcome.at(thresholds, self.sample, self.sentences, self.key, self.undefined)

    @property
    def stopped(self) -> intervals.Mask:
        """Hallucinated answers that are freed, and faithful ones that are touched, shape (n,)."""
        hallucinated = self.sample.labels == 1
        return np.where(hallucinated, self.outcomes.freed, ~self.outcomes.untouched)

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
        return in_order(self.sample, self.sample.drawn(TEST))

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
        groups = intervals.with_singletons(sample.groups, len(sample))[test]
        if not np.isin(part.labels, (0, 1)).all():
            return intervals.missing(
                "obuchowski, korn-graubard", "sentences_without_labels", confidence
            )
        ranked = intervals.ranked_values(part.columns[self.key], self.undefined)
        clusters = np.repeat(groups, np.diff(part.first))
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
