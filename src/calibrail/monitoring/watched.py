"""What have bets on the labels of drawn answers won, for all of them or for a group?

Several answers to one question may be right or wrong together: after one of them the next is no
news, and only bets on the first of each question are fair. Or they are as good as any others, and
then bets on all draws are fair, while those that leave out repeats watch other answers than the
promise is about: few of popular questions. Which of the two holds nobody tells. So each bet is made
both ways, and what it is worth is the lesser of the two; an interval reaches as far as either.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from calibrail.conformal.bound import Bound
from calibrail.conformal.restarts import detector, evidence, largest_start, restart_shares
from calibrail.conformal.sequential import SequentialTest
from calibrail.conformal.unsure import UnsureTest, course_of_intervals
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.labelling.audited import Audited
from calibrail.monitoring import draws
from calibrail.monitoring.draws import RATES, Rate
from calibrail.settings.requirement import Requirement

#: Stands for a limit that is not given where only intervals are asked for.
_ANY: Final = 0.5


@dataclass(frozen=True, slots=True)
class Watched:
    """The bets on all answers, or on those of a group, at their share of delta.

    Attributes
    ----------
    audited : Audited
        Drawn answers, in the order drawn.
    limits : dict
        Limit of each rate that has one, in (0, 1).
    delta : float
        Divided evenly between these rates.
    until : int
        So many draws, from the first, are in the intervals and in what is kept.
    first : ndarray of bool, optional
        The draws that are the first of their question; all of them where it is left out.
    """

    audited: Audited
    limits: dict[Rate, float]
    delta: float
    until: int
    first: Bools | None = None

    @property
    def goal(self) -> float:
        """What the logarithm of a wealth has to reach."""
        return float(np.log(max(1, len(self.limits)) / self.delta))

    def least(self, worth: Callable[[Audited], Floats]) -> Floats:
        """Return what is worth less after each draw: bets on all, or on the first of a question."""
        path = worth(self.audited)
        if self.first is None or self.first.all():
            return path
        alone = np.r_[0.0, worth(draws.some(self.audited, self.first))]
        return np.asarray(np.minimum(path, alone[np.cumsum(self.first)]), np.float64)

    def kept(self) -> dict[Rate, Floats]:
        """Return for each rate what betting on "kept" is worth after each draw."""
        return {
            rate: self.least(partial(_kept, rate=rate, limit=limit))
            for rate, limit in self.limits.items()
        }

    def broken(self) -> dict[Rate, Floats]:
        """Return for each rate what betting on "broken" is worth after each draw."""
        return {
            rate: self.least(partial(_broken, rate=rate, limit=limit))
            for rate, limit in self.limits.items()
        }

    def decided(self, broken: Mapping[Rate, Floats]) -> dict[str, Any] | None:
        """Return with which draw the promise was seen to be broken, None if it was not."""
        found = [
            (int(np.argmax(path >= self.goal)), rate)
            for rate, path in broken.items()
            if (path >= self.goal).any()
        ]
        if not found:
            return None
        row, rate = min(found)
        audited = self.audited
        bets = draws.bets_on(audited, rate, "broken", self.limits[rate])
        starts, laid = draws.batch_starts(audited), np.zeros(len(audited))
        laid[starts] = restart_shares(len(starts))
        again = float(detector(bets, laid)[row]) > float(bets.from_start[row])
        start = largest_start(bets, laid, row) if again else 0
        return {
            **draws.reached(audited, row),
            "rate": rate,
            "log_wealth": float(broken[rate][row]),
            "at": self.goal,
            "restart": draws.place(audited, start) if start else None,
        }

    def states(self, points: Sequence[int]) -> list[UnsureTest]:
        """Return what is known of the rates after each of some numbers of draws."""
        limits = {rate: self.limits.get(rate, _ANY) for rate in RATES}
        start = SequentialTest(
            Requirement(limits["fpr"], limits["coverage"], 1.0 - self.delta), self.audited.drawing
        )
        audited, unknown = self.audited, draws.unknown(self.audited)
        worst, best = (draws.hardest_labels(audited, claim) for claim in ("kept", "broken"))
        kept, broken, known = start, start, start
        states, done, n_unknown = [], 0, 0
        for point in points:
            part = np.arange(done, point)
            labelled = part[~unknown[part]]
            kept = self._after(kept, part, worst)
            broken = self._after(broken, part, best)
            known = self._after(known, labelled, audited.label)
            n_unknown, done = n_unknown + int(unknown[part].sum()), point
            states.append(UnsureTest(kept, broken, known, n_unknown))
        return states

    def _after(self, test: SequentialTest, rows: Ints, labels: Floats) -> SequentialTest:
        columns: dict[str, Floats] = {}
        if draws.weighted(self.audited):
            columns = {name: getattr(self.audited, name)[rows] for name in ("probability", "guess")}
        return test.update(self.audited.flagged[rows], labels[rows], **columns)

    def course(self, points: Sequence[int]) -> list[tuple[Bound, Bound]]:
        """Return the confidence sequences of both rates after each of some numbers of draws."""
        course = course_of_intervals(self.states(points))
        if self.first is None or self.first.all():
            return course
        part = replace(self, audited=draws.some(self.audited, self.first), first=None)
        known = np.r_[0, np.cumsum(self.first)]
        alone = part.course([int(known[point]) for point in points])
        return [
            (_wider(coverage, other[0]), _wider(fpr, other[1]))
            for (coverage, fpr), other in zip(course, alone, strict=True)
        ]

    def status(
        self, course: tuple[Bound, Bound] | None = None
    ) -> tuple[dict[str, Any], dict[Rate, Floats]]:
        """Return state, rates and counts, and the course of the bets on "broken"."""
        kept, broken = self.kept(), self.broken()
        bounds = self.course([self.until])[0] if course is None else course
        rates: dict[str, Any] = {}
        for rate, bound in zip(RATES, bounds, strict=True):
            watched = rate in self.limits
            rates[rate] = {
                **bound.to_dict(),
                "limit": self.limits.get(rate),
                "log_wealth_kept": log_after(kept[rate], self.until) if watched else None,
                "log_wealth_broken": _highest(broken[rate]) if watched else None,
                "wanted": self.goal if watched else None,
            }
        decided, state, since = self.decided(broken), "undecided", None
        if decided is not None:
            state, since = "broken", {name: decided[name] for name in ("draw", "batch", "time")}
        elif self.until and self.limits:
            shown = np.all([path[: self.until] >= self.goal for path in kept.values()], axis=0)
            if shown[-1]:
                missing = np.flatnonzero(~shown)
                first = int(missing[-1]) + 1 if len(missing) else 0
                state, since = "kept", draws.reached(self.audited, first)
        audited = self.audited
        return {
            "state": state,
            "since": since,
            "decided": decided,
            "delta": self.delta,
            **rates,
            **counts_of(audited),
            "until": draws.reached(audited, self.until - 1) if self.until else None,
        }, broken


def _kept(audited: Audited, *, rate: Rate, limit: float) -> Floats:
    return draws.bets_on(audited, rate, "kept", limit).from_start


def _broken(audited: Audited, *, rate: Rate, limit: float) -> Floats:
    bets = draws.bets_on(audited, rate, "broken", limit)
    return evidence(bets, draws.batch_starts(audited))


def _wider(bound: Bound, other: Bound) -> Bound:
    return replace(bound, lower=min(bound.lower, other.lower), upper=max(bound.upper, other.upper))


def counts_of(audited: Audited) -> dict[str, int]:
    """Return how many were drawn, and what became of their labels."""
    return {
        "n_drawn": len(audited),
        "n_labels": int(np.count_nonzero(~np.isnan(audited.label) & audited.settled)),
        "n_pending": int(np.count_nonzero(draws.waiting(audited))),
        "n_unsure": int(np.count_nonzero(audited.unsure)),
    }


def log_after(path: Floats, n: int) -> float | None:
    """Return a logarithm after n draws, 0 for n = 0; None for the logarithm of 0."""
    value = float(path[n - 1]) if n else 0.0
    return value if np.isfinite(value) else None


def _highest(path: Floats) -> float:
    return max(0.0, float(path.max(initial=0.0)))
