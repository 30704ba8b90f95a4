"""Sequential test of the promise by bets on drawn labels.

Each answer that was drawn has its place in the order of drawing. One whose label is not there yet
(waiting, or annotators disagree), or will never be there (nobody can tell), counts as whatever
speaks most against the bet that is made: against "the promise is broken" as hallucinated where it
was flagged and as faithful where it was passed, against "it is kept" the other way round. Draw by
draw the wealth shown is then at most what it will be with all labels. So nothing depends on when a
label comes, in which order, or on what its coming depends: whenever somebody looks, what they see
is at most a wealth that is too high anywhere with probability at most delta.

Several answers to one question may be right or wrong together: after one of them the next is no
news, and only bets on the first of each question are fair. Or they are as good as any others, and
then bets on all draws are fair, while those that leave out repeats watch other answers than the
promise is about: few of popular questions. Which of the two holds nobody tells. So each bet is made
both ways, and what it is worth is the lesser of the two; an interval reaches as far as either.

*Broken*: against "coverage is at least as promised at every draw" (and the same of the FPR) a bet
has won so much that it ever does with probability at most delta while the promise is kept. That is
for ever: labels that come later only add to what was won up to then.

*Kept so far*: the confidence sequences of both rates lie on the right side of their limits. Bets
with fixed stakes are about averages: with z_t the mean of a draw's gain given the past, the product
of the (1 + s Z_t) / (1 + s z_t) is a martingale, and that of the (1 + s z_t) is at most
(1 + s mean z)^n <= 1 where the mean of the z is at most 0 (log is concave). So at every moment the
intervals hold the mean rate over all answers drawn up to then, whatever drifts: what is kept may be
undecided again. Each rate errs with delta / 2, as at different times different ones may be broken.
A promise that was made for each group is kept where each group's is.

With groups one half of delta is for all answers, and of the other half the k-th group to appear has
1 / (k (k + 1)). Each half again is split evenly between the rates that have a limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from calibrail.conformal import argument_checks, estimated_labels
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.bounds import Bound, exact_bound
from calibrail.conformal.sequential import betting
from calibrail.conformal.sequential.sequential_test import (
    SequentialTest,
    UnsureTest,
    course_of_intervals,
)
from calibrail.errors import InputError
from calibrail.labelling.log_sampling import LabelledSample, sample_of
from calibrail.monitoring.history import moment
from calibrail.options.guarantee import Requirement

Rate = Literal["coverage", "fpr"]
#: The claim that a bet is made on; the rate decides on which side of its limit.
Claim = Literal["kept", "broken"]
RATES: Final[tuple[Rate, Rate]] = ("coverage", "fpr")
#: Up to so many times the narrowest width counts as equally narrow; the latest such time is read.
_ABOUT: Final = 1.1


def watchable(sample: LabelledSample | None) -> LabelledSample:
    """Return draws that a watch can bet on, none where nothing is given."""
    if sample is None:
        return sample_of(())
    if sample.drawing.whole_groups:
        raise InputError("answers drawn as whole groups cannot be watched; draw single answers")
    return sample


def take_rows(sample: LabelledSample, wanted: Bools) -> LabelledSample:
    """Return some of the draws, in their order and with their numbers."""
    if sample.order is None:
        sample = replace(sample, order=1 + np.arange(len(sample)))
    arrays: dict[str, Any] = {
        item.name: getattr(sample, item.name)[wanted]
        for item in fields(sample)
        if isinstance(getattr(sample, item.name), np.ndarray)
    }
    return replace(sample, **arrays)


def is_first_asked(sample: LabelledSample) -> Bools:
    """Return which draws do not bear the question of an earlier one, or its id where none is known.

    The lot says which is the first; no label does, and not whether it was handed out.
    """
    seen = set[tuple[str, str]]()
    is_first = np.ones(len(sample), bool)
    asked = [None] * len(sample) if sample.question is None else sample.question.tolist()
    for row, (id, question) in enumerate(zip(sample.id.tolist(), asked, strict=True)):
        key = ("id", id) if question is None else ("question", question)
        is_first[row] = key not in seen
        seen.add(key)
    return is_first


def is_unresolved(sample: LabelledSample) -> Bools:
    """Return which draws may be either: they wait for a label, or nobody can tell."""
    return np.asarray(~sample.settled | sample.unsure)


def hardest_labels(sample: LabelledSample, claim: Claim) -> Floats:
    """Return labels, unknown ones as what speaks most against a claim; NaN where none is due."""
    label = np.where(is_unresolved(sample), np.nan, sample.label)
    against = sample.flagged if claim == "broken" else ~sample.flagged
    return np.where(is_unresolved(sample), against, label).astype(np.float64)


def masses(sample: LabelledSample, labels: Floats) -> Floats:
    """Return W of each draw: what it adds to the number of hallucinated ones."""
    if not sample.drawing.weighted:
        return labels
    return estimated_labels(labels, sample.probability, sample.guess)


def bets_on(sample: LabelledSample, rate: Rate, claim: Claim, limit: float) -> betting.Bets:
    """Return the bets that a rate is on the right ("kept") or the wrong side of its limit."""
    labels = hardest_labels(sample, claim)
    above = (rate == "coverage") == (claim == "kept")
    if not sample.drawing.weighted:
        of_class = labels == (1.0 if rate == "coverage" else 0.0)
        outcome = np.where(of_class, sample.flagged, np.nan)
        return betting.counted_bets(outcome, limit, above=above)
    mass = masses(sample, labels)
    mass = mass if rate == "coverage" else 1.0 - mass
    floors = sample.drawing.floors
    return betting.weighted_bets(mass * sample.flagged, mass, limit, floors, above=above)


def batch_starts(sample: LabelledSample) -> Ints:
    """Return the row of the first draw of each batch."""
    batch = sample.batch
    return np.flatnonzero(np.r_[len(batch) > 0, batch[1:] != batch[:-1]][: len(batch)])


def labelled_until(sample: LabelledSample) -> int:
    """Return up to how many draws, a whole number of batches, intervals are read.

    Intervals of all times hold together, so any may be read, whatever it is chosen by. Answers that
    wait count as whatever makes an interval widest: of the batches that are at least half labelled,
    the latest is taken whose intervals are about as narrow as they get. How many of each class are
    labelled, and how many wait, tell how narrow; not how many of them were flagged, so that no
    change of the rates keeps a watch at a time before it. 0 where no batch is half labelled.
    """
    starts = batch_starts(sample)
    if not len(starts):
        return 0
    late, ends = ~sample.settled, np.append(starts[1:], len(sample))
    due = np.add.reduceat(sample.handed_out.astype(np.int64), starts)
    done = np.add.reduceat((sample.handed_out & ~late).astype(np.int64), starts)
    ready = np.flatnonzero((2 * done >= due) & (due > 0))
    if not len(ready):
        return 0
    widths = np.zeros(len(ready))
    # Waiting ones that were passed may be missed, flagged ones may be false alarms.
    for label, passed in ((1.0, True), (0.0, False)):
        known = np.cumsum(~late & (sample.label == label))[ends[ready] - 1]
        open_ = np.cumsum(late & (sample.flagged != passed))[ends[ready] - 1]
        widths += open_ / np.maximum(1, open_ + known) + 1.0 / np.sqrt(np.maximum(1, known))
    near = ready[widths <= _ABOUT * widths.min()]
    return int(ends[near[-1]])


def place(sample: LabelledSample, row: int) -> dict[str, Any]:
    """Return where a draw stands: number of the draw and of the batch, and the time of its answer.

    Within a batch draws stand in random order: for the time that draws reach see ``reached``.
    """
    return {
        "draw": row + 1 if sample.order is None else int(sample.order[row]),
        "batch": int(sample.batch[row]),
        "time": moment(float(sample.time[row])),
    }


def reached(sample: LabelledSample, row: int) -> dict[str, Any]:
    """Return where draws up to one have got: its place, and the latest time of all up to it."""
    return {**place(sample, row), "time": moment(float(latest_times(sample)[row]))}


def latest_times(sample: LabelledSample) -> Floats:
    """Return the latest time of all draws up to each; NaN before the first that has a time."""
    return np.asarray(np.fmax.accumulate(sample.time), np.float64)


#: Placeholder for a limit that is not given, where only intervals are asked for.
_ANY: Final = 0.5


@dataclass(frozen=True, slots=True)
class LabelledBets:
    """The bets on all answers, or on those of a group, at their share of delta.

    Attributes
    ----------
    sample : LabelledSample
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

    sample: LabelledSample
    limits: dict[Rate, float]
    delta: float
    until: int
    first: Bools | None = None

    @property
    def goal(self) -> float:
        """What the logarithm of a wealth has to reach."""
        return float(np.log(max(1, len(self.limits)) / self.delta))

    def least(self, worth: Callable[[LabelledSample], Floats]) -> Floats:
        """Return what is worth less after each draw: bets on all, or on the first of a question."""
        path = worth(self.sample)
        if self.first is None or self.first.all():
            return path
        alone = np.r_[0.0, worth(take_rows(self.sample, self.first))]
        return np.asarray(np.minimum(path, alone[np.cumsum(self.first)]), np.float64)

    def worth(self, claim: Claim) -> dict[Rate, Floats]:
        """Return for each rate what betting on a claim is worth after each draw."""
        return {
            rate: self.least(partial(_worth, rate=rate, claim=claim, limit=limit))
            for rate, limit in self.limits.items()
        }

    def decided(self, broken: Mapping[Rate, Floats]) -> dict[str, Any] | None:
        """Return with which draw the promise was seen to be broken, None if it was not."""
        over = {rate: np.flatnonzero(path >= self.goal) for rate, path in broken.items()}
        row, rate = min(
            ((int(n[0]), rate) for rate, n in over.items() if len(n)), default=(-1, None)
        )
        if rate is None:
            return None
        sample = self.sample
        bets = bets_on(sample, rate, "broken", self.limits[rate])
        starts, laid = batch_starts(sample), np.zeros(len(sample))
        laid[starts] = betting.restart_shares(len(starts))
        again = float(betting.detector(bets, laid)[row]) > float(bets.from_start[row])
        start = betting.largest_start(bets, laid, row) if again else 0
        return {
            **reached(sample, row),
            "rate": rate,
            "log_wealth": float(broken[rate][row]),
            "at": self.goal,
            "restart": place(sample, start) if start else None,
        }

    def states(self, points: Sequence[int]) -> list[UnsureTest]:
        """Return what is known of the rates after each of some numbers of draws."""
        limits = {rate: self.limits.get(rate, _ANY) for rate in RATES}
        start = SequentialTest(
            Requirement(limits["fpr"], limits["coverage"], 1.0 - self.delta), self.sample.drawing
        )
        sample, unknown = self.sample, is_unresolved(self.sample)
        worst, best = (hardest_labels(sample, claim) for claim in ("kept", "broken"))
        kept, broken, known = start, start, start
        states, done, n_unknown = [], 0, 0
        for point in points:
            part = np.arange(done, point)
            labelled = part[~unknown[part]]
            kept = self._after(kept, part, worst)
            broken = self._after(broken, part, best)
            known = self._after(known, labelled, sample.label)
            n_unknown, done = n_unknown + int(unknown[part].sum()), point
            states.append(UnsureTest(kept, broken, known, n_unknown))
        return states

    def _after(self, test: SequentialTest, rows: Ints, labels: Floats) -> SequentialTest:
        columns: dict[str, Floats] = {}
        if self.sample.drawing.weighted:
            columns = {name: getattr(self.sample, name)[rows] for name in ("probability", "guess")}
        return test.update(self.sample.flagged[rows], labels[rows], **columns)

    def course(self, points: Sequence[int]) -> list[tuple[Bound, Bound]]:
        """Return the confidence sequences of both rates after each of some numbers of draws."""
        course = course_of_intervals(self.states(points))
        if self.first is None or self.first.all():
            return course
        part = replace(self, sample=take_rows(self.sample, self.first), first=None)
        known = np.r_[0, np.cumsum(self.first)]
        alone = part.course([int(known[point]) for point in points])
        return [
            (wider(coverage, other[0]), wider(fpr, other[1]))
            for (coverage, fpr), other in zip(course, alone, strict=True)
        ]

    def status(
        self, course: tuple[Bound, Bound] | None = None
    ) -> tuple[dict[str, Any], dict[Rate, Floats]]:
        """Return state, rates and counts, and the course of the bets on "broken"."""
        kept, broken = self.worth("kept"), self.worth("broken")
        bounds = self.course([self.until])[0] if course is None else course
        rates: dict[str, Any] = {}
        for rate, bound in zip(RATES, bounds, strict=True):
            watched = rate in self.limits
            rates[rate] = {
                **bound.to_dict(),
                "limit": self.limits.get(rate),
                "log_wealth_kept": log_after(kept[rate], self.until) if watched else None,
                "log_wealth_broken": float(broken[rate].max(initial=0.0)) if watched else None,
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
                state, since = "kept", reached(self.sample, first)
        sample = self.sample
        return {
            "state": state,
            "since": since,
            "decided": decided,
            "delta": self.delta,
            **rates,
            **counts_of(sample),
            "until": reached(sample, self.until - 1) if self.until else None,
        }, broken


def _worth(sample: LabelledSample, *, rate: Rate, claim: Claim, limit: float) -> Floats:
    bets = bets_on(sample, rate, claim, limit)
    return bets.from_start if claim == "kept" else betting.evidence(bets, batch_starts(sample))


def wider(bound: Bound, other: Bound) -> Bound:
    """Return a bound that reaches as far as either."""
    return replace(bound, lower=min(bound.lower, other.lower), upper=max(bound.upper, other.upper))


def counts_of(sample: LabelledSample) -> dict[str, int]:
    """Return how many were drawn, and what became of their labels."""
    return {
        "n_drawn": len(sample),
        "n_labels": int(np.count_nonzero(~np.isnan(sample.label) & sample.settled)),
        "n_pending": int(np.count_nonzero(~sample.settled)),
        "n_unsure": int(np.count_nonzero(sample.unsure)),
    }


def log_after(path: Floats, n: int) -> float | None:
    """Return a logarithm after n draws, 0 for n = 0; None for the logarithm of 0."""
    value = float(path[n - 1]) if n else 0.0
    return value if np.isfinite(value) else None


#: Required coverage and limit on the FPR; None where nothing is promised.
Limits = tuple[float | None, float | None]
#: What tells the groups of answers apart.
By = Literal["group", "language"]

#: Mean number of labels to a false alarm of the detector of late breaks, at least.
LABELS_TO_FALSE_ALARM: Final = 1_000
#: Labels whose rates are shown beside it.
LATEST: Final = 100
#: Points of a course.
_POINTS: Final = 59


def promise_status(
    sample: LabelledSample | None,
    limits: Limits,
    delta: float = 0.05,
    *,
    by: By | None = None,
    each: bool = False,
    decided: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the labels of drawn answers say of a promise, as JSON can hold it.

    Parameters
    ----------
    sample : LabelledSample or None
        Drawn answers in the order drawn; None where none were drawn.
    limits : (float or None, float or None)
        Coverage promised, and the highest FPR; None where nothing is promised, or nothing that
        draws could show (a limit outside (0, 1)).
    delta : float
        Most probable that ``state`` is ever "broken" while the promise is kept at every draw; also
        that it is ever "kept" while a mean rate so far is beyond its limit.
    by : {"group", "language"}, optional
        Column of ``sample`` whose groups are watched, too; fixed before the first label.
    each : bool
        Whether the promise was made for each group: then one group alone can break it, and it is
        kept where each group drawn is. Otherwise ``state`` is that of all answers, and a group has
        its own.
    decided : mapping, optional
        What an earlier status held under that name: broken is for ever, even if labels were changed
        since.

    Returns
    -------
    dict
        ``state``: "kept", "undecided" or "broken"; ``since``: the draw with which that began;
        ``decided``: the draw with which it was seen to be broken, the rate, the group (None: all
        answers), the logarithm of the wealth and ``restart``, the batch whose new bet has won most
        (None: the bet from the first draw); ``coverage`` and ``fpr``: estimate, interval at all
        times of the mean over the draws up to ``until``, and logarithms of wealth, of which
        ``wanted`` is needed; ``lately``; ``groups``; ``repeated``, how
        many bear the question of an earlier one; ``n_later``, how many were drawn after ``until``;
        ``windows``, both rates of each window of time; ``course``. Draws count from 1. The times of
        ``since``, ``decided``, ``until`` and ``course`` are the latest among the draws up to there.

    Raises
    ------
    InputError
        If delta is no share, or answers were drawn as whole groups.
    """
    sample, error = watchable(sample), argument_checks.share(delta, "delta")
    first_asked = is_first_asked(sample)
    asked = {
        rate: float(limit)
        for rate, limit in zip(RATES, limits, strict=True)
        if limit is not None and 0.0 < limit < 1.0
    }
    until = labelled_until(sample)
    every = LabelledBets(sample, asked, error if by is None else error / 2.0, until, first_asked)
    points = _points(len(sample), until)
    bounds = every.course(points) if points else []
    here = bounds[points.index(until)] if until else None
    status, broken = every.status(here)
    if status["decided"] is not None:
        status["decided"]["group"] = None
    groups = [] if by is None else _groups(every, error, by)
    shown_parts = [status, *groups] if each else [status]
    if each and groups:
        status |= {"state": "undecided", "since": None}
        if all(item["state"] == "kept" for item in groups):
            since = max((item["since"] for item in groups), key=lambda at: at["draw"])
            status |= {"state": "kept", "since": since}
    fallen = [item["decided"] for item in shown_parts if item["decided"] is not None]
    if fallen or decided is not None:
        at: Any = min(fallen, key=lambda item: item["draw"], default=decided)
        status |= {"state": "broken", "decided": {**at, "shown": bool(fallen)}}
    if (at := status["decided"]) is not None:
        status["since"] = {name: at[name] for name in ("draw", "batch", "time")}
    status["delta_all"] = status.pop("delta")
    lately, path = _lately(every)
    return {
        **status,
        "delta": error,
        "each": each,
        "limits": dict(zip(RATES, (asked.get(rate) for rate in RATES), strict=True)),
        **counts_of(sample),
        "n_disagreements": sample.n_disagreements,
        "n_later": len(sample) - until,
        "repeated": int(np.count_nonzero(~first_asked)),
        "largest_share": float(np.max(sample.share)) if len(sample) else None,
        "lately": lately,
        "groups": groups,
        "windows": _windows(every),
        "course": _course(sample, points, bounds, broken, path),
    }


def _groups(every: LabelledBets, delta: float, by: By) -> list[dict[str, Any]]:
    """Return the status of each group, in the order in which they first appear."""
    sample, statuses = every.sample, []
    column = getattr(sample, by)
    names = dict.fromkeys(name for name in column.tolist() if name is not None)
    for number, name in enumerate(names, start=1):
        mine = column == name
        watched = LabelledBets(
            take_rows(sample, mine),
            every.limits,
            delta / 2.0 / (number * (number + 1)),
            int(np.count_nonzero(mine[: every.until])),
            None if every.first is None else every.first[mine],
        )
        status, _ = watched.status()
        if status["decided"] is not None:
            status["decided"]["group"] = name
        statuses.append({"group": name, **status})
    return statuses


def _lately(every: LabelledBets) -> tuple[dict[str, Any], Floats]:
    """Return what the detector of late breaks says, and its course."""
    sample, until = every.sample, every.until
    wanted = float(np.log(LABELS_TO_FALSE_ALARM + 1))
    worth, n_rates = {}, len(every.limits)
    for rate, limit in every.limits.items():
        bets, laid = bets_on(sample, rate, "broken", limit), _laid(sample, rate, n_rates)
        worth[rate] = (betting.detector(bets, laid), bets, laid)
    total = every.least(partial(_detected, limits=every.limits))
    now = log_after(total, until) if until else None
    over = total[:until] >= wanted
    alarm, since = bool(until and over[-1]), None
    moved: Rate | None = None
    if alarm:
        moved, (_, bets, laid) = max(worth.items(), key=lambda item: float(item[1][0][until - 1]))
        since = place(sample, betting.largest_start(bets, laid, until - 1))
    return {
        "alarm": alarm,
        "rate": moved,
        "since": since,
        "log_e": now,
        "threshold": wanted,
        "arl": LABELS_TO_FALSE_ALARM,
        "first": reached(sample, int(np.argmax(over))) if over.any() else None,
        "latest": _latest(every),
    }, total


def _detected(sample: LabelledSample, *, limits: Mapping[Rate, float]) -> Floats:
    """Return the logarithm of what the detectors of all rates are worth after each draw."""
    total = np.full(len(sample), -np.inf)
    for rate, limit in limits.items():
        bets = bets_on(sample, rate, "broken", limit)
        total = np.logaddexp(total, betting.detector(bets, _laid(sample, rate, len(limits))))
    return total


def _laid(sample: LabelledSample, rate: Rate, n_rates: int) -> Floats:
    """Return what is laid on new bets, in all as much as there are labels, one more at most.

    Counted answers: 1 with each one of the class. Weighted ones: with the draw after each label,
    as a lot must not be known when a bet on it is made.
    """
    if not sample.drawing.weighted:
        known = ~is_unresolved(sample) & (sample.label == (1.0 if rate == "coverage" else 0.0))
        return np.asarray(known, np.float64)
    before = np.r_[True, sample.handed_out[:-1]][: len(sample)]
    return np.asarray(before / n_rates, np.float64)


def _latest(every: LabelledBets) -> dict[str, Any]:
    """Return the rates of the answers labelled last, with intervals that hold for one look.

    Drawn ones without a final label since then are left out, and counted (``n_left_out``): where
    labels come late for a reason that has to do with them, these rates are not those of all.
    """
    sample = every.sample
    rows = np.flatnonzero(_known(sample))[-LATEST:]
    first = int(rows[0]) if len(rows) else len(sample)
    return {
        "n": len(rows),
        "n_left_out": int(np.count_nonzero(is_unresolved(sample)[first:])),
        "from": place(sample, first) if len(rows) else None,
        **_rates_once(every, np.arange(len(sample)) >= first),
    }


def _known(sample: LabelledSample) -> Bools:
    """Return which draws have a label that stands."""
    return np.asarray(~is_unresolved(sample) & ~np.isnan(sample.label))


def _rates_once(every: LabelledBets, among: Bools) -> dict[str, Any]:
    """Return both rates of some draws, each with an interval that holds for one look at them."""
    sample = every.sample
    if sample.drawing.weighted:
        part = take_rows(sample, among & ~is_unresolved(sample))
        bets = LabelledBets(part, every.limits, every.delta, len(part))
        coverage, fpr = bets.course([len(part)])[0]
    else:
        rows, level = among & _known(sample), 1.0 - every.delta
        flagged, label = sample.flagged[rows], sample.label[rows]
        coverage, fpr = (
            exact_bound(int(flagged[label == of].sum()), int((label == of).sum()), level)
            for of in (1.0, 0.0)
        )
    return {"coverage": coverage.to_dict(), "fpr": fpr.to_dict()}


#: Days of a window, the labelled hallucinated answers that one should hold, and most windows.
_DAYS: Final = (1, 7, 28, 91, 364)
_A_WINDOW: Final = 20
_MOST_WINDOWS: Final = 26


def _windows(every: LabelledBets) -> list[dict[str, Any]]:
    """Return both rates in each window of time, or of draws where a time is not known.

    They are as short as leaves labels enough in them; what was flagged plays no part in that. Each
    interval holds for itself.
    """
    sample, known = every.sample, _known(every.sample)
    if not known.any():
        return []
    wrong = int(np.count_nonzero(sample.label[known] == 1.0))
    most = max(1, min(_MOST_WINDOWS, wrong // _A_WINDOW))
    part = np.arange(len(sample)) * most // len(sample)
    if not np.isnan(sample.time).any():
        day = np.floor(sample.time / 86_400.0).astype(np.int64)
        day -= day.min()
        part = next((day // days for days in _DAYS if day.max() // days < most), day * 0)
    windows = []
    for window in np.unique(part[known]):
        rows = part == window
        inside, times = np.flatnonzero(rows), sample.time[rows]
        windows.append(
            {
                "draw": place(sample, int(inside[0]))["draw"],
                "from": moment(float(times.min())),
                "to": moment(float(times.max())),
                "n": int(np.count_nonzero(rows & known)),
                **_rates_once(every, rows),
            }
        )
    return windows


def _points(n: int, until: int) -> list[int]:
    """Return the numbers of draws at which a course is shown, the last one and ``until`` too."""
    even = np.ceil(np.linspace(0.0, n, min(n, _POINTS) + 1)[1:]).astype(int).tolist()
    return sorted({*even, until} - {0})


def _course(
    sample: LabelledSample,
    points: Sequence[int],
    bounds: Sequence[tuple[Bound, Bound]],
    broken: Mapping[Rate, Floats],
    lately: Floats,
) -> dict[str, Any]:
    """Return how intervals and wealths went, up to each of some draws."""
    ends = ("estimate", "lower", "upper")
    intervals: dict[str, Any] = {
        rate: {name: [getattr(pair[index], name) for pair in bounds] for name in ends}
        for index, rate in enumerate(RATES)
    }
    times = latest_times(sample)
    return {
        "draw": [place(sample, point - 1)["draw"] for point in points],
        "time": [moment(float(times[point - 1])) for point in points],
        **intervals,
        "log_wealth_broken": {
            rate: [float(path[point - 1]) for point in points] for rate, path in broken.items()
        },
        "log_e_lately": [log_after(lately, point) for point in points],
    }
