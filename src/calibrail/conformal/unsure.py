"""What does a verdict at any time say where people were unsure about some answers?

An answer that nobody can label is either hallucinated or faithful. It is taken as whatever hurts a
verdict most: for ``certified`` as hallucinated where it was passed and as faithful where it was
flagged, for ``rejected`` the other way round. Every bet is then worth at most what the true labels
would have made of it, so that the errors stay what they are without such answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.bound import Bound
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.eprocess import confidence_sequence
from calibrail.conformal.labelling import truth_values
from calibrail.conformal.sequential import SequentialTest
from calibrail.conformal.sequential_certificate import Decided, SequentialCertificate, goals
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class UnsureTest(Record):
    """A ``SequentialTest`` that takes unsure answers, too; without any it says the same.

    Attributes
    ----------
    certifying, rejecting : SequentialTest
        With unsure answers taken as what hurts "certified", and "rejected", most. Only the first
        certifies, only the second rejects.
    known : SequentialTest
        Without them: rates are estimated from it.
    n_unsure : int
        Answers counted so far that are unsure.
    verdict : {"certified", "rejected", "inconclusive"}
        The first that fell.
    decided : Decided or None
        When it fell.

    Examples
    --------
    >>> from calibrail.settings import Requirement
    >>> start = UnsureTest.of(SequentialTest(Requirement(0.3, 0.8, 0.9)))
    >>> start.update([True] * 40 + [False] * 40, [1] * 40 + [0] * 40).verdict
    'certified'
    >>> labels, unsure = [1] * 40 + [None] * 40, [False] * 40 + [True] * 40
    >>> test = start.update([True] * 40 + [False] * 40, labels, unsure)
    >>> test.verdict, test.n_unsure
    ('inconclusive', 40)
    """

    certifying: SequentialTest
    rejecting: SequentialTest
    known: SequentialTest
    n_unsure: int = 0
    verdict: Verdict = "inconclusive"
    decided: Decided | None = None

    schema: ClassVar = "calibrail.unsure/1"

    @classmethod
    def of(cls, test: SequentialTest) -> "UnsureTest":
        """Return the test before the first answer."""
        if test.drawn:
            raise InputError(f"test must not have seen an answer yet; it has seen {test.drawn:,}")
        return cls(test, test, test)

    def update(
        self,
        flagged: ArrayLike,
        hallucinated: ArrayLike,
        unsure: ArrayLike | None = None,
        probability: ArrayLike | None = None,
        guess: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> "UnsureTest":
        """Return the state after more answers, in the order in which they were drawn.

        Parameters
        ----------
        flagged, hallucinated, probability, guess, groups
            As for ``SequentialTest.update``.
        unsure : bool, or array-like of shape (n,), optional
            Answers that were labelled as neither; their ``hallucinated`` is None.

        Raises
        ------
        InputError
            As there, or if an unsure answer has a label.
        """
        rows = _Rows.of(flagged, hallucinated, unsure, probability, guess, groups)
        after = self._after(rows)
        if after.decided is not None or not after.says():
            return after
        # The wealths only grow: bisection finds the first unit after which the verdict stands.
        low, high = 0, rows.n_units
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._after(rows.first(middle)).says() else (middle, high)
        first = self._after(rows.first(high))
        verdict = first.says() or "inconclusive"
        test = first.certifying if verdict == "certified" else first.rejecting
        return replace(after, verdict=verdict, decided=Decided(test.drawn, test.labelled))

    def says(self) -> Verdict | None:
        """Return which verdict the wealths won so far give, None while labelling may go on."""
        kept, broken = goals(self.certifying.requirement.confidence)
        if max(self.rejecting.highest[1], self.rejecting.highest[3]) >= broken:
            return "rejected"
        if min(self.certifying.highest[0], self.certifying.highest[2]) >= kept:
            return "certified"
        return None

    def probability(self, flagged: ArrayLike, guess: ArrayLike) -> Floats:
        """Return with which probability to label answers drawn next, as ``SequentialTest`` does."""
        return self.certifying.probability(flagged, guess)

    def log_wealth(self) -> tuple[float, float, float, float]:
        """Return the highest logarithms of the four wealths, each by the test that may use it."""
        kept, broken = self.certifying.highest, self.rejecting.highest
        return kept[0], broken[1], kept[2], broken[3]

    def certificate(self) -> SequentialCertificate:
        """Return the verdict so far; intervals hold whatever the unsure answers are."""
        made = self.certifying.certificate()
        if not self.n_unsure:
            return replace(made, verdict=self.verdict, decided=self.decided)
        other, seen = self.rejecting.certificate(), self.known.certificate()
        wealth = dict(zip(made.log_wealth, self.log_wealth(), strict=True))
        reasons = []
        for name in ("coverage", "fpr"):
            refuted = wealth[f"{name}_broken"] >= made.broken_at
            shown = wealth[f"{name}_kept"] >= made.kept_at
            reasons.append(f"{name}_{'refuted' if refuted else 'shown' if shown else 'open'}")
        return replace(
            made,
            verdict=self.verdict,
            reasons=tuple(reasons),
            coverage=_hull(seen.coverage, made.coverage, other.coverage),
            fpr=_hull(seen.fpr, made.fpr, other.fpr),
            log_wealth=wealth,
            decided=self.decided,
        )

    def _after(self, rows: "_Rows") -> "UnsureTest":
        """Return the state after rows, whose verdict is not looked for yet."""
        if not self.n_unsure and not rows.unsure.any():
            test = rows.into(self.certifying, rows.labels)
            return replace(self, certifying=test, rejecting=test, known=test)
        # Passed: hallucinated, flagged: faithful; and the other way round.
        worst = np.where(rows.unsure, ~rows.flagged, rows.labels)
        best = np.where(rows.unsure, rows.flagged, rows.labels)
        return replace(
            self,
            certifying=rows.into(self.certifying, worst),
            rejecting=rows.into(self.rejecting, best),
            known=rows.of_rows(~rows.unsure).into(self.known),
            n_unsure=self.n_unsure + int(np.count_nonzero(rows.unsure)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Answers of one call; ``units`` numbers what they are drawn by, in the order of drawing."""

    flagged: Bools
    labels: Floats
    unsure: Bools
    columns: dict[str, Floats]
    groups: validation.Ints | None
    units: validation.Ints

    @classmethod
    def of(
        cls,
        flagged: ArrayLike,
        hallucinated: ArrayLike,
        unsure: ArrayLike | None,
        probability: ArrayLike | None,
        guess: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> "_Rows":
        decided = truth_values(np.atleast_1d(np.asarray(flagged)), "flagged")
        labels = validation.vector(np.atleast_1d(np.asarray(hallucinated)), "hallucinated")
        given = np.zeros(len(decided)) if unsure is None else np.atleast_1d(np.asarray(unsure))
        doubtful = truth_values(given, "unsure")
        for values, name in ((labels, "hallucinated"), (doubtful, "unsure")):
            validation.paired(values, len(decided), name, "answer")
        if np.any(doubtful & ~np.isnan(labels)):
            row = int(np.argmax(doubtful & ~np.isnan(labels)))
            raise InputError(f"an unsure answer has no label; row {row + 1} is both")
        columns = {}
        for name, item in (("probability", probability), ("guess", guess)):
            if item is not None:
                columns[name] = validation.vector(np.atleast_1d(np.asarray(item)), name)
                validation.paired(columns[name], len(decided), name, "answer")
        codes = None if groups is None else np.atleast_1d(np.asarray(groups))
        units = np.arange(len(decided))
        if codes is not None:
            validation.paired(codes, len(decided), "groups", "answer")
            _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
            units = np.argsort(np.argsort(first))[inverse].astype(np.int64)
        return cls(decided, labels, doubtful, columns, codes, units)

    @property
    def n_units(self) -> int:
        return int(self.units.max(initial=-1)) + 1

    def first(self, n: int) -> "_Rows":
        """Return the rows of the first units."""
        return self.of_rows(self.units < n)

    def of_rows(self, wanted: Bools) -> "_Rows":
        """Return some of the rows."""
        columns = {name: values[wanted] for name, values in self.columns.items()}
        groups = None if self.groups is None else self.groups[wanted]
        parts = (self.flagged[wanted], self.labels[wanted], self.unsure[wanted])
        return _Rows(*parts, columns, groups, self.units[wanted])

    def into(self, test: SequentialTest, labels: Floats | None = None) -> SequentialTest:
        """Return the test after these rows, with other labels where they are given."""
        labels = self.labels if labels is None else labels
        return test.update(self.flagged, labels, **self.columns, groups=self.groups)


def _hull(seen: Bound, *ends: Bound) -> Bound:
    """Return what is estimated without unsure answers, in all that these may make of it."""
    lower, upper = min(end.lower for end in ends), max(end.upper for end in ends)
    return replace(seen, lower=lower, upper=upper)


def course_of_intervals(states: Sequence[UnsureTest]) -> list[tuple[Bound, Bound]]:
    """Return the confidence sequences of coverage and FPR of several states, as certificates do.

    Where answers count one each the intervals of all states are inverted at once.
    """
    if not states or states[0].certifying.weighted:
        made = [state.certificate() for state in states]
        return [(item.coverage, item.fpr) for item in made]
    level = float(states[0].certifying.requirement.confidence)
    courses = []
    for hits, of_class in (("caught", "n_hallucinated"), ("false_alarms", "n_faithful")):
        ends = []
        for side in ("certifying", "rejecting"):
            tests = [getattr(state, side) for state in states]
            counts, n = ([getattr(test, name) for test in tests] for name in (hits, of_class))
            ends.append(confidence_sequence(counts, n, level))
        lower = np.minimum(ends[0][0], ends[1][0]).tolist()
        upper = np.maximum(ends[0][1], ends[1][1]).tolist()
        bounds = []
        for state, low, high in zip(states, lower, upper, strict=True):
            count, n_class = getattr(state.known, hits), getattr(state.known, of_class)
            seen = count / n_class if n_class else None
            bounds.append(Bound(seen, low, high, count, n_class, "beta-mixture", level))
        courses.append(bounds)
    return list(zip(*courses, strict=True))
