"""Sample: scores, labels, split, groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail import conformal
from calibrail.data.example import n_repeated
from calibrail.data.splits import ASIDE, CALIBRATION, FIT, TEST, groups_to_add
from calibrail.errors import TooFewExamplesError
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import auroc_difference, clustered_auroc
from calibrail.evaluation.stats.intervals import Codes, Floats, Ints, Mask, Measure, wilson
from calibrail.formatting import percent
from calibrail.options import Promise, SplitOptions
from calibrail.options.fields import spell_option
from calibrail.serialization import Record

__all__ = ["CALIBRATION", "CLASSES", "FIT", "TEST", "Codes", "Floats", "Mask", "Sample"]

#: Labels by the name of their class, in the order in which ``by_class`` gives the classes.
CLASSES: Final = {"hallucinated": 1, "faithful": 0}


@dataclass(frozen=True, slots=True, eq=False)
class Sample(Record):
    """The scores of one detector beside what is known of the answers.

    Attributes
    ----------
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    split : ndarray of int8, shape (n,)
        Part of each answer: 0 = fit, 1 = calibration, 2 = test, 3 = set aside (``thinned``).
    groups : ndarray of int64, shape (n,), or None
        What answers share (a source, a question); negative = stands alone.
    tolerance : float
        Numerical tolerance of the score: flagged when ``value + tolerance >= threshold``.
    n_set_aside : int
        Answers that count nowhere, since another one of their group and class does.
    lot : ndarray of uint64, shape (n,), or None
        The lowest of answers that are alike is drawn; by a fixed seed where there is none.
    independent : bool
        Every answer counts, whatever it shares with others: an assumption of the user's.
    shares : tuple of float, or None
        Which shares of the groups the split gave to fit, calibration and test; none where it went
        by a column, and None where nothing was split.
    otherwise : Sample or None
        The same where what may be copies of one another counts each by itself. Its threshold holds.
    once : Sample or None
        The same where what may be copies of one another counts once; each does here. The threshold
        is the lowest of all ways to tell copies (``between``): those passed count each, those
        caught where they count once.
    of_all : Sample or None
        Where near copies count at worst or at best: the same for what is measured on answers of
        both classes together, which has other ends.
    """

    values: Floats
    labels: Codes
    split: Codes
    groups: Ints | None = None
    tolerance: float = 0.0
    n_set_aside: int = 0
    lot: NDArray[np.uint64] | None = None
    independent: bool = False
    shares: tuple[float, ...] | None = None
    otherwise: Sample | None = None
    once: Sample | None = None
    of_all: Sample | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        object.__setattr__(self, "tolerance", conformal.argument_checks.tolerance(self.tolerance))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def whole(self) -> bool:
        """Whether no answer is set apart for a test, so that those that calibrate are measured."""
        return not (self.split == TEST).any()

    def rows(self, part: int, label: int | None = None) -> Mask:
        """Return which answers belong to a part of the split, and to a class where one is named.

        Where there is no test part, those that calibrate stand for it, one of each group and class.
        """
        rows: Mask = self.split == part
        if part == TEST and self.whole:
            rows = self.drawn(CALIBRATION, self.labels)
        return rows if label is None else rows & (self.labels == label)

    def by_class(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the values of the hallucinated and of the faithful answers of the test part."""
        return values[self.rows(TEST, 1)], values[self.rows(TEST, 0)]

    def scores(self, part: int, label: int) -> Floats:
        """Return the scores of one class in one part, undefined ones included."""
        return self.values[self.rows(part, label)]

    def bounds(self, flagged: Mask, confidence: float) -> tuple[conformal.Bound, conformal.Bound]:
        """Return the coverage and the FPR of the test part, with Wilson's intervals."""
        coverage, fpr = (wilson(*self.count(flagged, TEST, k), confidence) for k in (1, 0))
        return coverage, fpr

    def counts(
        self, flagged: Mask, among: Mask | None = None, part: int = TEST
    ) -> conformal.ClassCounts:
        """Return how many of each class are flagged in the test part, or among some answers."""
        caught, alarms = (self.count(flagged, part, k, among) for k in (1, 0))
        return conformal.ClassCounts(*caught, *alarms)

    def count(
        self, flagged: Mask, part: int, label: int, among: Mask | None = None
    ) -> tuple[int, int]:
        """Return how many of one class in one part are flagged, and how many there are.

        Hallucinated answers that set the threshold test nothing: without a test part there is none.

        Parameters
        ----------
        flagged : ndarray of bool, shape (n,)
            Decisions.
        part, label : int
            Part of the split, and class.
        among : ndarray of bool, shape (n,), optional
            Counts only these.
        """
        rows = self.rows(part, label)
        if part == TEST and label == 1 and self.whole:
            return 0, 0
        if among is not None:
            rows = rows & among
        return int(np.sum(flagged & rows)), int(np.sum(rows))

    def one_per_group(self, flagged: Mask) -> conformal.ClassCounts:
        """Count decisions on one test answer of each group and class, drawn with a fixed seed.

        These are independent where the groups are, so exact bounds hold for them: as rates over
        groups, each counting once. Without groups every answer counts.
        """
        return self.counts(flagged, self.drawn(TEST, self.labels))

    @property
    def base_rate(self) -> float:
        """Share of hallucinated answers, whichever count: of one of a group drawn at random."""
        groups = self.members
        return float(np.average(self.labels == 1, weights=1.0 / np.bincount(groups)[groups]))

    @property
    def members(self) -> Ints:
        """The group of each answer, shape (n,): a number of its own where it counts by itself."""
        return intervals.with_singletons(None if self.independent else self.groups, len(self))

    def auroc(self, ranked: Floats, confidence: float) -> Measure:
        """Return how well scores of all answers, NaN for none, rank the test part.

        Groups are independent, answers of one are not, of whichever class.
        """
        test = self.rows(TEST) & ~np.isnan(ranked)
        return clustered_auroc(ranked[test], self.labels[test], self.members[test], confidence)

    def auroc_difference(self, first: Floats, second: Floats, confidence: float) -> Measure:
        """Return how much better the first scores of all answers rank the test part."""
        test = self.rows(TEST)
        labels, groups = self.labels[test], self.members[test]
        return auroc_difference(first[test], second[test], labels, groups, confidence)

    def drawn(self, part: int, *shared: NDArray[Any]) -> Mask:
        """Return which answers of a part count: one of each group and of all else that is shared.

        Parameters
        ----------
        part : int
            Part of the split.
        *shared : ndarrays of int, shape (n,)
            As `thinned` takes them.
        """
        rows = self.rows(part)
        if self.independent or self.groups is None:
            return rows
        return one_of_each(rows, self.lots, self.groups, *shared)

    @property
    def lots(self) -> NDArray[np.uint64]:
        """What was drawn for each answer, shape (n,); by a fixed seed where nothing was."""
        if self.lot is not None:
            return self.lot
        return np.random.default_rng(0).permutation(len(self)).astype(np.uint64)

    @property
    def clusters(self) -> Ints | None:
        """The groups, numbered by the lots of their answers where there are any."""
        if self.groups is None or self.lot is None:
            return self.groups
        return intervals.numbered_by(self.lot, self.groups)

    def n_sharing(self, rows: Mask) -> int:
        """Return how many of some answers share their group with another one of their class."""
        if self.groups is None:
            return 0
        rows = rows & (self.groups >= 0)
        return n_repeated(self.groups[rows] * 2 + self.labels[rows])

    def thinned(self, rows: Mask, lot: NDArray[np.uint64], *shared: NDArray[Any]) -> Sample:
        """Return the sample in which one of some answers that are alike in ``shared`` counts.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,)
            Answers to thin out; the others stay where they are.
        lot : ndarray of uint64, shape (n,)
            The lowest decides who stays: something that has nothing to do with the scores.
        *shared : ndarrays of int, shape (n,)
            What they are alike in; the group is always one of these. Negative = stands alone.
        """
        if self.groups is None:
            return self
        return replace(self.aside(rows & ~one_of_each(rows, lot, self.groups, *shared)), lot=lot)

    def aside(self, aside: Mask) -> Sample:
        """Return the sample in which some answers count nowhere."""
        split = np.where(aside, ASIDE, self.split).astype(np.int8)
        return replace(self, split=split, n_set_aside=self.n_set_aside + int(aside.sum()))

    @property
    def among_all(self) -> Sample:
        """The sample by which answers of both classes are measured together."""
        return self if self.of_all is None else self.of_all

    def between(self, once: Sample, apart: Mask) -> Sample:
        """Return the sample in which some near copies count each, and of the others one.

        Of near copies that count once the lot draws one. Some of them may be no copies, and count
        besides: those ``apart``, with the one drawn. Where these are all decisions of a kind, no
        way to tell copies counts more of that kind, or fewer of the other: what it counts are
        some of those that count here, and the one drawn among them.

        Parameters
        ----------
        once : Sample
            The same answers where near copies count once; each of them does here.
        apart : ndarray of bool, shape (n,)
            Which count as here.
        """
        split = np.where(apart & (self.split != ASIDE), self.split, once.split).astype(np.int8)
        return replace(self, split=split, n_set_aside=once.n_set_aside)

    def calibrated(self, promise: Promise) -> conformal.Calibration:
        """Return the threshold of the hallucinated calibration answers, by groups if promised."""
        if self.otherwise is not None:
            return self.otherwise.calibrated(promise)
        made: conformal.Calibration
        scores, clusters = self.scores(CALIBRATION, 1), self.clusters
        with self.labels_to_add():
            if promise.clustered and clusters is not None:
                clusters = clusters[self.rows(CALIBRATION, 1)]
                made = conformal.calibrate_clusters(scores, clusters, promise)
            else:
                made = conformal.calibrate_threshold(scores, promise)
        if self.once is None or made.flag_all:
            return made
        passed = self.between(self.once, ~made.flags(self.values, self.tolerance))
        if np.array_equal(passed.split, self.split):
            return made
        # What a lower threshold catches besides counts once, and lowers it again.
        lower = replace(passed, once=self.once).calibrated(promise)
        return lower if lower.flag_all or lower.threshold < made.threshold else made

    @contextmanager
    def labels_to_add(self) -> Iterator[None]:
        """Let an error about too few calibration examples ask for so many that the split suffices.

        The split deals out groups with a hallucinated answer, and all others, each by its shares:
        of further answers, each of a new group, a share calibrates.
        """
        try:
            yield
        except TooFewExamplesError as error:
            if self.shares is None:
                raise
            n, labels = self._labels_to_add(error)
            message = error.message.replace("{labels}", labels)
            raise TooFewExamplesError(message, error.minimum_n, error.n, error.of, n) from None

    def _labels_to_add(self, error: TooFewExamplesError) -> tuple[int, str]:
        if not self.shares:
            more = error.minimum_n - error.n
            return more, f"{error.more(more, error.of)} for the calibration set"
        groups = intervals.with_singletons(self.groups, len(self))
        among = np.isin(groups, groups[self.labels == 1])
        there = 0
        if error.of == "faithful":
            there, among = self.count(among, CALIBRATION, 0)[0], ~among
        n = len(np.unique(groups[among]))
        more = groups_to_add(n, error.minimum_n - there, self.shares)
        alone = error.of == "groups" or self.groups is None or not n_repeated(self.groups)
        about = [] if alone else ["each of a new group"]
        if self.shares[1] < 1.0:
            option = spell_option(SplitOptions, "calibration_share")
            about.append(f"{percent(self.shares[1])} of them calibrate, as {option} says")
        labels = error.more(more, error.of)
        return more, f"{labels} ({'; '.join(about)})" if about else labels

    def with_scores(self, values: Floats, tolerance: float = 0.0) -> Sample:
        """Return the same answers with the scores of another detector."""
        other = self.otherwise and self.otherwise.with_scores(values, tolerance)
        return replace(self, values=values, tolerance=tolerance, otherwise=other)


def one_of_each(
    rows: Mask, lot: NDArray[Any], groups: Ints, *shared: NDArray[Any]
) -> NDArray[np.bool_]:
    """Return of some answers the one of each group, and of all else that is shared, that counts.

    Parameters
    ----------
    rows : ndarray of bool, shape (n,)
        The answers to choose from; no other is chosen.
    lot : ndarray, shape (n,)
        The lowest is chosen.
    groups : ndarray of int64, shape (n,)
        Negative = stands alone, and is chosen.
    *shared : ndarrays of int, shape (n,)
        A label, the number of a column's value.

    Examples
    --------
    >>> everyone, labels = np.full(4, True), np.array([1, 1, 0, 1])
    >>> one_of_each(everyone, np.arange(4), np.array([7, 7, 7, -1]), labels).tolist()
    [True, False, True, True]
    """
    chosen: Mask = rows & (groups < 0)
    largest = int(groups.max(initial=-1))
    if 0 <= largest < 2 * len(groups):
        # Who is alone in a group needs no lot.
        sizes = np.bincount(groups[rows & ~chosen], minlength=largest + 1)
        chosen |= rows & (sizes[np.maximum(groups, 0)] == 1)
    order = np.flatnonzero(rows & ~chosen)
    order = order[np.argsort(lot[order], kind="stable")]
    keys = groups[order]
    for item in shared:
        values, codes = np.unique(item[order], return_inverse=True)
        keys = np.unique(keys, return_inverse=True)[1] * len(values) + codes
    chosen[order[np.unique(keys, return_index=True)[1]]] = True
    return chosen
