"""Certified, rejected, or go on: what does a frozen threshold's verdict say after every label?"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.betting import estimated_labels
from calibrail.conformal.bound import Bound
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.eprocess import confidence_sequence, lowest_limit, wealth_of_counts
from calibrail.conformal.joint_bets import bet, not_refuted, nothing_won
from calibrail.conformal.labelling import labelling_probability, limits, truth_values
from calibrail.conformal.sequential_certificate import (
    Decided,
    SequentialCertificate,
    goals,
    verdicts,
)
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.drawing import Drawing
from calibrail.settings.requirement import Requirement


@dataclass(frozen=True, slots=True)
class SequentialTest(Record):
    """What has been learnt so far about a frozen threshold: everything that later labels need.

    Its size does not depend on the number of labels. ``update`` returns a new one; the same
    answers, one by one or in batches, cut and restored anywhere, give the same bytes.

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
        limits(self.requirement)
        size = nothing_won().size if self.weighted else 0
        if self.log_wealth is not None and len(self.log_wealth) != size:
            raise InputError(
                f"log_wealth must have {size} numbers for this drawing; got {len(self.log_wealth)}"
            )
        if self.weighted and self.log_wealth is None:
            object.__setattr__(self, "log_wealth", tuple(nothing_won().ravel().tolist()))

    @property
    def weighted(self) -> bool:
        """Whether answers weigh differently: drawn by a guess, or by groups."""
        return self.drawing.design == "active" or self.drawing.whole_groups

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
        >>> required = Requirement(min_coverage=0.8, max_fpr=0.3, confidence=0.9)
        >>> test = SequentialTest(required).update([True] * 40 + [False] * 40, [1] * 40 + [0] * 40)
        >>> test.verdict, test.decided
        ('certified', Decided(drawn=50, labelled=50))
        """
        decided = truth_values(np.atleast_1d(np.asarray(flagged)), "flagged")
        labels = validation.vector(np.atleast_1d(np.asarray(hallucinated)), "hallucinated")
        validation.paired(labels, len(decided), "hallucinated", "answer")
        if not np.isin(labels[~np.isnan(labels)], (0.0, 1.0)).all():
            raise InputError("hallucinated must hold true, false, or None where there is no label")
        weights = self._weights(decided, labels, probability, guess)
        units = self._units(groups, len(decided))
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
        return labelling_probability(
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
        edges, (kept_at, broken_at) = limits(self.requirement), goals(level)
        rates = ((self.caught, self.n_hallucinated), (self.false_alarms, self.n_faithful))
        if self.weighted:
            method, ends = "betting", not_refuted(self._state(), edges, broken_at)
            (at_least, _), (_, at_most) = not_refuted(self._state(), edges, kept_at)
        else:
            method, ends = "beta-mixture", []
            for count, n in rates:
                low, high = confidence_sequence(count, n, level)
                ends.append((float(low), float(high)))
            at_least = float(lowest_limit(self.caught, self.n_hallucinated - self.caught, kept_at))
            passed = self.n_faithful - self.false_alarms
            at_most = 1.0 - float(lowest_limit(passed, self.false_alarms, kept_at))
        coverage, fpr = (
            Bound(_ratio(hits, mass), low, high, count, n, method, level)
            for hits, mass, (low, high), (count, n) in zip(
                self.hits, self.mass, ends, rates, strict=True
            )
        )
        best, reasons = self.highest, []
        for name, kept, broken in (("coverage", best[0], best[1]), ("fpr", best[2], best[3])):
            state = "refuted" if broken >= broken_at else "shown" if kept >= kept_at else "open"
            reasons.append(f"{name}_{state}")
        names = ("coverage_kept", "coverage_broken", "fpr_kept", "fpr_broken")
        # What was shown once stays shown.
        return SequentialCertificate(
            verdict=self.verdict,
            reasons=tuple(reasons),
            coverage=coverage,
            fpr=fpr,
            coverage_at_least=max(at_least, edges[0] if best[0] >= kept_at else 0.0),
            fpr_at_most=min(at_most, edges[1] if best[2] >= kept_at else 1.0),
            min_coverage=edges[0],
            max_fpr=edges[1],
            confidence=level,
            log_wealth=dict(zip(names, best, strict=True)),
            kept_at=kept_at,
            broken_at=broken_at,
            drawn=self.drawn,
            labelled=self.labelled,
            decided=self.decided,
        )

    def _weights(
        self,
        flagged: Bools,
        labels: Floats,
        probability: ArrayLike | None,
        guess: ArrayLike | None,
    ) -> Floats:
        """Return W of each answer, or raise naming the first one whose probability is too low."""
        active = self.drawing.design == "active"
        for name, given in (("probability", probability), ("guess", guess)):
            if (given is not None) != active:
                needed = "is needed where" if active else "must be left out unless"
                raise InputError(f"{name} {needed} answers are drawn by a guess (design active)")
        if not active:
            if self.drawing.whole_groups and np.isnan(labels).any():
                raise InputError(
                    "hallucinated must hold a label for every answer of a group drawn; leave out "
                    "the groups that are not drawn"
                )
            return labels
        q = validation.vector(np.atleast_1d(np.asarray(probability)), "probability")
        g = validation.vector(np.atleast_1d(np.asarray(guess)), "guess")
        weights = estimated_labels(labels, q, g)
        least = np.where(flagged, *self.drawing.floors)
        if np.any(low := q < least - 1e-12):
            row = int(np.argmax(low))
            raise InputError(
                f"probability must be at least {least[row]:g} for a "
                f"{'flagged' if flagged[row] else 'passed'} answer (floor = "
                f"{self.drawing.floor:g}); got {q[row]:g} in row {row + 1}"
            )
        return weights

    def _units(self, groups: ArrayLike | None, n: int) -> validation.Ints:
        """Return the number of each answer's unit, from 0, in the order they first appear."""
        if (groups is not None) != self.drawing.whole_groups:
            needed = "is needed" if self.drawing.whole_groups else "must be left out"
            raise InputError(f"groups {needed} where whole_groups is {self.drawing.whole_groups}")
        if groups is None:
            return np.arange(n)
        codes = np.atleast_1d(np.asarray(groups))
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise InputError(f"groups must hold whole numbers; got {codes.dtype}")
        validation.paired(codes, n, "groups", "answer")
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
        edges = limits(self.requirement)
        events = (labels == 1.0, labels == 0.0)
        before = ((self.caught, self.n_hallucinated), (self.false_alarms, self.n_faithful))
        wealth, n_labelled = [], np.full(len(labels), self.labelled)
        for edge, event, (hits, n), good in zip(edges, events, before, (True, False), strict=True):
            count, total = hits + np.cumsum(flagged & event), n + np.cumsum(event)
            misses = (total - count).astype(np.float64)
            n_labelled = n_labelled + total - n
            wealth += [
                wealth_of_counts(count.astype(np.float64), misses, edge, above=above)
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

    def _bet(self, rows: Floats, n_labelled: validation.Ints) -> "SequentialTest":
        """Return the state after units with their masses and hits, shape (n, 4)."""
        sums = np.add.accumulate(np.vstack([[*self.mass, *self.hits], rows]))[-1].tolist()
        after = replace(self, mass=(sums[0], sums[1]), hits=(sums[2], sums[3]))
        first, done, state = self.drawn - len(rows), 0, self._state()
        edges = limits(self.requirement)
        for latest, wealth in bet(state, rows, edges, self.drawing.floors):
            part = slice(done, done + len(wealth))
            drawn = first + 1 + np.arange(part.start, part.stop)
            after, done = after._judged(wealth, drawn, n_labelled[part]), part.stop
            state = latest
        return replace(after, log_wealth=tuple(state.ravel().tolist()))

    def _state(self) -> Floats:
        """Return the logarithms of all bets as an array."""
        empty = nothing_won()
        return empty if self.log_wealth is None else np.array(self.log_wealth).reshape(empty.shape)

    def _judged(
        self, wealth: Floats, drawn: validation.Ints, labelled: validation.Ints
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


def share_so_far(mass: ArrayLike, drawn: int) -> Floats:
    """Return the share of hallucinated answers as estimated so far, never 0 or 1."""
    return np.clip((np.asarray(mass) + 5.0) / (drawn + 10.0), 0.01, 0.99)


def _ratio(hits: float, mass: float) -> float | None:
    """Return the share of a class that is flagged, in [0, 1]; None without any of it."""
    return min(1.0, max(0.0, hits / mass)) if mass > 0.0 else None
