"""Anytime-valid verdict after every label, also where annotators were unsure.

An answer that nobody can label is either hallucinated or faithful. It is taken as whatever hurts a
verdict most: for ``certified`` as hallucinated where it was passed and as faithful where it was
flagged, for ``rejected`` the other way round. Every bet is then worth at most what the true labels
would have made of it, so that the errors stay what they are without such answers.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats
from calibrail.conformal.bounds import Bound, Region, part_level
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.sequential import audited_calibration as audited
from calibrail.conformal.sequential import betting
from calibrail.errors import InputError
from calibrail.options.guarantee import Requirement
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class Decided(Record):
    """When the verdict fell: after how many answers drawn, of which so many labelled."""

    drawn: int
    labelled: int


@dataclass(frozen=True, slots=True)
class SequentialCertificate(Record):
    """A verdict that holds whenever one looks and however often, with what it rests on.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        The first that fell; ``inconclusive`` while labelling may go on.
    reasons : tuple of str
        One code for each requirement: ``coverage_shown``, ``coverage_refuted`` or
        ``coverage_open``, and the same of ``fpr``.
    coverage, fpr : Bound
        Confidence sequences: all intervals of all times hold together with ``confidence``, each
        rate by itself. Where answers were labelled with different probabilities the estimate is
        weighted, and the ends are rounded outwards to whole percents and the requirement.
    coverage_at_least, fpr_at_most : float
        The ends that "certified" rests on: the bets that won it, inverted. Each alone holds at all
        times with ``confidence``, and so reaches less far than its interval, which has two ends.
    region : Region
        Confidence sequences that hold together, at all times: what is shown to readers.
    min_coverage, max_fpr : float
        What is required.
    confidence : float
        Of the verdict: a wrong "certified", and a wrong "rejected", ever fall with probability at
        most 1 - confidence each.
    log_wealth : mapping of str to float
        Highest logarithm so far of the wealth won by betting on ``coverage_kept``,
        ``coverage_broken``, ``fpr_kept`` and ``fpr_broken``.
    kept_at, broken_at : float
        What ``log_wealth`` has to reach: both that are kept for ``certified``, one that is broken
        for ``rejected``.
    drawn, labelled : int
        Answers so far.
    decided : Decided or None
        When the verdict fell.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    coverage: Bound
    fpr: Bound
    coverage_at_least: float
    fpr_at_most: float
    min_coverage: float
    max_fpr: float
    confidence: float
    log_wealth: Mapping[str, float]
    kept_at: float
    broken_at: float
    drawn: int
    labelled: int
    decided: Decided | None
    region: Region


def verdicts(highest: Floats, confidence: float) -> tuple[Bools, Bools]:
    """Return whether highest logarithms of four wealths, shape (..., 4), certify and reject.

    ``certified`` is wrong only where one claim is broken, and the wealth of that one reaches
    1 / delta: both may take the whole error, and need not have it at the same time.
    """
    kept, broken = goals(confidence)
    certified = (highest[..., 0] >= kept) & (highest[..., 2] >= kept)
    return certified, (highest[..., 1] >= broken) | (highest[..., 3] >= broken)


def goals(confidence: float) -> tuple[float, float]:
    """Return what logarithms have to reach to show that a claim is kept, and that it is broken."""
    error = 1.0 - argument_checks.share(confidence, "confidence")
    return float(np.log(1.0 / error)), float(np.log(2.0 / error))


@dataclass(frozen=True, slots=True)
class SequentialTest(Record):
    """What has been learnt so far about a frozen threshold: everything that later labels need.

    Answers, or whole groups, are drawn at random and independent of each other; threshold, limits
    and drawing were fixed before the first label. Its size does not depend on the number of labels.
    ``update`` returns a new one; the same answers, one by one or in batches, cut and restored
    anywhere, give the same bytes.

    Attributes
    ----------
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr`` in (0, 1).
    drawing : Drawing
        How answers are drawn.
    drawn, caught, n_hallucinated, false_alarms, n_faithful : int
        Answers drawn, and labelled ones, each counted once.
    mass, hits : tuple of (float, float)
        Sums of the weights, and of those that are flagged, of both classes. Drawn ``uniform``ly
        without groups they are the counts.
    highest : tuple of float
        Highest logarithm of the four wealths so far: coverage kept and broken, FPR kept and broken.
    verdict : {"certified", "rejected", "inconclusive"}
        The first that fell.
    decided : Decided or None
        When it fell.
    log_wealth : tuple of float, or None
        Of every bet at every limit of both rates, where answers are weighted.
    """

    requirement: Requirement
    drawing: Drawing = field(default_factory=Drawing)
    drawn: int = 0
    caught: int = 0
    n_hallucinated: int = 0
    false_alarms: int = 0
    n_faithful: int = 0
    mass: tuple[float, float] = (0.0, 0.0)
    hits: tuple[float, float] = (0.0, 0.0)
    highest: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    verdict: Verdict = "inconclusive"
    decided: Decided | None = None
    log_wealth: tuple[float, ...] | None = None

    schema: ClassVar = "calibrail.sequential/1"

    def __post_init__(self) -> None:
        audited.limits(self.requirement)
        size = betting.zero_wealth().size if self.weighted else 0
        if self.log_wealth is not None and len(self.log_wealth) != size:
            raise InputError.on("log_wealth_size", n=size, got=len(self.log_wealth))
        if self.weighted and self.log_wealth is None:
            object.__setattr__(self, "log_wealth", tuple(betting.zero_wealth().ravel().tolist()))

    @property
    def weighted(self) -> bool:
        """Whether answers weigh differently: drawn by a guess, or by groups."""
        return self.drawing.weighted or self.drawing.whole_groups

    @property
    def labelled(self) -> int:
        """Answers with a label so far."""
        return self.n_hallucinated + self.n_faithful

    def update(
        self,
        flagged: ArrayLike,
        hallucinated: ArrayLike,
        probability: ArrayLike | None = None,
        guess: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> "SequentialTest":
        """Return the state after one more answer or a batch of them, in the order they were drawn.

        Parameters
        ----------
        flagged : bool, or array-like of shape (n,)
            What the frozen guardrail decided.
        hallucinated : bool or None, or array-like of shape (n,)
            The label; None (or NaN) where an answer was drawn and, by the lot of its probability,
            not labelled. ``uniform``: answers without a label are passed over.
        probability, guess : float, or array-like of shape (n,), optional
            With which the answer was to be labelled, and P(hallucinated) as guessed: both known
            before the label. Needed with ``active``, left out with ``uniform``.
        groups : int, or array-like of shape (n,), optional
            Whole numbers that say which answers belong together, each group whole in one call.
            Needed with ``whole_groups``, left out without.

        Raises
        ------
        InputError
            If a value is outside its domain, a probability is below the floor, or an argument is
            missing or does not go with the drawing.

        Examples
        --------
        >>> required = Requirement(min_caught=0.8, max_false_alarms=0.3, confidence=0.9)
        >>> test = SequentialTest(required).update([True] * 40 + [False] * 40, [1] * 40 + [0] * 40)
        >>> test.verdict, test.decided
        ('certified', Decided(drawn=50, labelled=50))
        """
        decided = audited.truth_values(np.atleast_1d(np.asarray(flagged)), "flagged")
        labels = argument_checks.vector(np.atleast_1d(np.asarray(hallucinated)), "hallucinated")
        argument_checks.paired(labels, len(decided), "hallucinated", "answer")
        if not np.isin(labels[~np.isnan(labels)], (0.0, 1.0)).all():
            raise InputError("hallucinated must hold true, false, or None where there is no label")
        weights = self._weights(decided, labels, probability, guess)
        units = self.units(groups, len(decided))
        if not len(decided):
            return self
        if not self.weighted:
            return self._counted(decided, labels)
        size = np.bincount(units).astype(np.float64)
        columns = (weights, weights * decided, decided.astype(np.float64))
        mass, hits, passed_on = (np.bincount(units, column) / size for column in columns)
        # Which unit each label came with: a verdict names the labels up to its own unit.
        known = np.bincount(units, ~np.isnan(labels)).astype(np.int64)
        rows = np.stack([mass, 1.0 - mass, hits, passed_on - hits], axis=1)
        return self._counts(decided, labels, len(size))._bet(rows, self.labelled + np.cumsum(known))

    def probability(self, flagged: ArrayLike, guess: ArrayLike) -> Floats:
        """Return with which probability to label answers drawn next, by all that is known now.

        As ``labelling_probability``, weighed for the claims that are still open and the share of
        hallucinated answers so far.
        """
        goal = goals(self.requirement.confidence)[0]
        return audited.labelling_probability(
            np.atleast_1d(np.asarray(flagged)),
            np.atleast_1d(np.asarray(guess)),
            self.requirement,
            self.drawing,
            base_rate=float(share_so_far(self.mass[0], self.drawn)),
            undecided=(self.highest[0] < goal, self.highest[2] < goal),
        )

    def certificate(self) -> SequentialCertificate:
        """Return the verdict so far with its intervals."""
        level = float(self.requirement.confidence)
        edges, (kept_at, broken_at) = audited.limits(self.requirement), goals(level)
        if self.weighted:
            (at_least, _), (_, at_most) = betting.confidence_set(self.state(), edges, kept_at)
        else:
            missed, passed = self.n_hallucinated - self.caught, self.n_faithful - self.false_alarms
            at_least = float(betting.lowest_limit(self.caught, missed, kept_at))
            at_most = 1.0 - float(betting.lowest_limit(passed, self.false_alarms, kept_at))
        coverage, fpr = self._intervals(level)
        names = ("coverage_kept", "coverage_broken", "fpr_kept", "fpr_broken")
        best, wealth = self.highest, dict(zip(names, self.highest, strict=True))
        # What was shown once stays shown.
        return SequentialCertificate(
            verdict=self.verdict,
            reasons=_reasons(wealth, kept_at, broken_at),
            coverage=coverage,
            fpr=fpr,
            coverage_at_least=max(at_least, edges[0] if best[0] >= kept_at else 0.0),
            fpr_at_most=min(at_most, edges[1] if best[2] >= kept_at else 1.0),
            min_coverage=edges[0],
            max_fpr=edges[1],
            confidence=level,
            log_wealth=wealth,
            kept_at=kept_at,
            broken_at=broken_at,
            drawn=self.drawn,
            labelled=self.labelled,
            decided=self.decided,
            region=Region(*self._intervals(part_level(level)), level),
        )

    def _intervals(self, level: float) -> tuple[Bound, Bound]:
        """Return the confidence sequences of both rates, each at a level of its own."""
        rates = ((self.caught, self.n_hallucinated), (self.false_alarms, self.n_faithful))
        if self.weighted:
            edges, goal = audited.limits(self.requirement), goals(level)[1]
            method, ends = "betting", betting.confidence_set(self.state(), edges, goal)
        else:
            method, ends = "beta-mixture", []
            for count, n in rates:
                low, high = betting.confidence_sequence(count, n, level)
                ends.append((float(low), float(high)))
        seen = (
            min(1.0, max(0.0, hit / mass)) if mass > 0.0 else None
            for hit, mass in zip(self.hits, self.mass, strict=True)
        )
        coverage, fpr = (
            Bound(share, low, high, count, n, method, level)
            for share, (low, high), (count, n) in zip(seen, ends, rates, strict=True)
        )
        return coverage, fpr

    def _weights(
        self, flagged: Bools, labels: Floats, probability: ArrayLike | None, guess: ArrayLike | None
    ) -> Floats:
        """Return W of each answer, or raise naming the first one whose probability is too low."""
        active = self.drawing.weighted
        for name, given in (("probability", probability), ("guess", guess)):
            if (given is not None) != active:
                needed = "is needed where" if active else "must be left out unless"
                raise InputError(f"{name} {needed} answers are drawn by a guess (design active)")
        if not active:
            if self.drawing.whole_groups and np.isnan(labels).any():
                raise InputError.on("whole_groups_labelled")
            return labels
        q = argument_checks.vector(np.atleast_1d(np.asarray(probability)), "probability")
        g = argument_checks.vector(np.atleast_1d(np.asarray(guess)), "guess")
        weights = betting.estimated_labels(labels, q, g)
        least = np.where(flagged, *self.drawing.floors)
        if np.any(low := q < least - 1e-12):
            row = int(np.argmax(low))
            kind, drawing = "flagged" if flagged[row] else "passed", self.drawing
            raise InputError.on(
                "below_floor", least=least[row], kind=kind, of=drawing, got=q[row], row=row + 1
            )
        return weights

    def units(self, groups: ArrayLike | None, n: int) -> argument_checks.Ints:
        """Return the number of each answer's unit, from 0, in the order they first appear."""
        if (groups is not None) != self.drawing.whole_groups:
            needed = "is needed" if self.drawing.whole_groups else "must be left out"
            raise InputError(f"groups {needed} where whole_groups is {self.drawing.whole_groups}")
        if groups is None:
            return np.arange(n)
        codes = np.atleast_1d(np.asarray(groups))
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise InputError(f"groups must hold whole numbers; got {codes.dtype}")
        argument_checks.paired(codes, n, "groups", "answer")
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse].astype(np.int64)

    def _counts(self, flagged: Bools, labels: Floats, drawn: int) -> "SequentialTest":
        """Return the state with its counts alone brought up to date."""
        hallucinated, faithful = labels == 1.0, labels == 0.0
        return replace(
            self,
            drawn=self.drawn + drawn,
            caught=self.caught + int(np.count_nonzero(flagged & hallucinated)),
            n_hallucinated=self.n_hallucinated + int(np.count_nonzero(hallucinated)),
            false_alarms=self.false_alarms + int(np.count_nonzero(flagged & faithful)),
            n_faithful=self.n_faithful + int(np.count_nonzero(faithful)),
        )

    def _counted(self, flagged: Bools, labels: Floats) -> "SequentialTest":
        """Return the state after answers that count one each."""
        edges = audited.limits(self.requirement)
        events = (labels == 1.0, labels == 0.0)
        before = ((self.caught, self.n_hallucinated), (self.false_alarms, self.n_faithful))
        wealth, n_labelled = [], np.full(len(labels), self.labelled)
        for edge, event, (hits, n), good in zip(edges, events, before, (True, False), strict=True):
            count, total = hits + np.cumsum(flagged & event), n + np.cumsum(event)
            misses = (total - count).astype(np.float64)
            n_labelled = n_labelled + total - n
            wealth += [
                betting.wealth_of_counts(count.astype(np.float64), misses, edge, above=above)
                for above in (good, not good)
            ]
        after = self._counts(flagged, labels, len(labels))
        after = replace(
            after,
            mass=(float(after.n_hallucinated), float(after.n_faithful)),
            hits=(float(after.caught), float(after.false_alarms)),
        )
        drawn = self.drawn + 1 + np.arange(len(labels))
        return after._judged(np.stack(wealth, axis=1), drawn, n_labelled)

    def _bet(self, rows: Floats, n_labelled: argument_checks.Ints) -> "SequentialTest":
        """Return the state after units with their masses and hits, shape (n, 4)."""
        sums = np.add.accumulate(np.vstack([[*self.mass, *self.hits], rows]))[-1].tolist()
        after = replace(self, mass=(sums[0], sums[1]), hits=(sums[2], sums[3]))
        first, done, state = self.drawn - len(rows), 0, self.state()
        edges = audited.limits(self.requirement)
        for latest, wealth in betting.bet(state, rows, edges, self.drawing.floors):
            part = slice(done, done + len(wealth))
            drawn = first + 1 + np.arange(part.start, part.stop)
            after, done = after._judged(wealth, drawn, n_labelled[part]), part.stop
            state = latest
        return replace(after, log_wealth=tuple(state.ravel().tolist()))

    def state(self) -> Floats:
        """Return the logarithms of all bets as an array."""
        empty = betting.zero_wealth()
        return empty if self.log_wealth is None else np.array(self.log_wealth).reshape(empty.shape)

    def _judged(
        self, wealth: Floats, drawn: argument_checks.Ints, labelled: argument_checks.Ints
    ) -> "SequentialTest":
        """Return the state after the logarithms of the four wealths, shape (n, 4)."""
        best = np.maximum.accumulate(np.vstack([self.highest, wealth]))[1:]
        after = replace(self, highest=tuple(best[-1].tolist()))
        if self.decided is not None:
            return after
        certified, rejected = verdicts(best, self.requirement.confidence)
        if not np.any(fallen := certified | rejected):
            return after
        row = int(np.argmax(fallen))
        return replace(
            after,
            verdict="rejected" if rejected[row] else "certified",
            decided=Decided(int(drawn[row]), int(labelled[row])),
        )


def _reasons(wealth: Mapping[str, float], kept_at: float, broken_at: float) -> tuple[str, ...]:
    """Return what the wealths show of each requirement, as codes."""
    reasons = []
    for name in ("coverage", "fpr"):
        refuted, shown = wealth[f"{name}_broken"] >= broken_at, wealth[f"{name}_kept"] >= kept_at
        reasons.append(f"{name}_{'refuted' if refuted else 'shown' if shown else 'open'}")
    return tuple(reasons)


def share_so_far(mass: ArrayLike, drawn: int) -> Floats:
    """Return the share of hallucinated answers as estimated so far, never 0 or 1."""
    return np.clip((np.asarray(mass) + 5.0) / (drawn + 10.0), 0.01, 0.99)


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
    >>> from calibrail.options import Requirement
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
        rows = {
            "flagged": audited.truth_values(np.atleast_1d(np.asarray(flagged)), "flagged"),
            "hallucinated": argument_checks.vector(np.atleast_1d(hallucinated), "hallucinated"),
        }
        given = {"unsure": unsure, "probability": probability, "guess": guess, "groups": groups}
        rows |= {key: np.atleast_1d(item) for key, item in given.items() if item is not None}
        n = len(rows["flagged"])
        for name, values in rows.items():
            argument_checks.paired(values, n, name, "answer")
        doubtful = audited.truth_values(rows.pop("unsure", np.zeros(n)), "unsure")
        if np.any(both := doubtful & ~np.isnan(rows["hallucinated"])):
            raise InputError.on("unsure_with_label", value=int(np.argmax(both)) + 1)
        after = self._after(rows, doubtful)
        if after.decided is not None or not after.says():
            return after
        units = self.certifying.units(rows.get("groups"), n)

        def until(unit: int) -> UnsureTest:
            part = units < unit
            return self._after({key: item[part] for key, item in rows.items()}, doubtful[part])

        # The wealths only grow: bisection finds the first unit after which the verdict stands.
        before = range(1, int(units.max()) + 1)
        first = until(1 + bisect_left(before, True, key=lambda unit: bool(until(unit).says())))
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
        region, regions = made.region, (seen.region, made.region, other.region)
        coverages, rates = zip(*((item.coverage, item.fpr) for item in regions), strict=True)
        return replace(
            made,
            verdict=self.verdict,
            reasons=_reasons(wealth, made.kept_at, made.broken_at),
            coverage=_hull(seen.coverage, made.coverage, other.coverage),
            fpr=_hull(seen.fpr, made.fpr, other.fpr),
            region=replace(region, coverage=_hull(*coverages), fpr=_hull(*rates)),
            log_wealth=wealth,
            decided=self.decided,
        )

    def _after(self, rows: Mapping[str, Any], unsure: Bools) -> "UnsureTest":
        """Return the state after rows, whose verdict is not looked for yet."""
        if not self.n_unsure and not unsure.any():
            test = self.certifying.update(**rows)
            return replace(self, certifying=test, rejecting=test, known=test)
        flagged, labels = rows["flagged"], rows["hallucinated"]
        # Passed: hallucinated, flagged: faithful; and the other way round.
        worst = {**rows, "hallucinated": np.where(unsure, ~flagged, labels)}
        best = {**rows, "hallucinated": np.where(unsure, flagged, labels)}
        return replace(
            self,
            certifying=self.certifying.update(**worst),
            rejecting=self.rejecting.update(**best),
            known=self.known.update(**{name: values[~unsure] for name, values in rows.items()}),
            n_unsure=self.n_unsure + int(np.count_nonzero(unsure)),
        )


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
            ends.append(betting.confidence_sequence(counts, n, level))
        lower = np.minimum(ends[0][0], ends[1][0]).tolist()
        upper = np.maximum(ends[0][1], ends[1][1]).tolist()
        bounds = []
        for state, low, high in zip(states, lower, upper, strict=True):
            count, n_class = getattr(state.known, hits), getattr(state.known, of_class)
            seen = count / n_class if n_class else None
            bounds.append(Bound(seen, low, high, count, n_class, "beta-mixture", level))
        courses.append(bounds)
    return list(zip(*courses, strict=True))
