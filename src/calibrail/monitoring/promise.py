"""Is what was promised of a guardrail still kept, and since when is it not?

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

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.bound import Bound, exact_bound
from calibrail.conformal.restarts import detector, largest_start
from calibrail.conformal.validation import Floats
from calibrail.labelling.audited import Audited
from calibrail.monitoring import draws
from calibrail.monitoring.draws import RATES, Rate
from calibrail.monitoring.moments import moment
from calibrail.monitoring.watched import Watched, counts_of, log_after

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
    audited: Audited | None,
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
    audited : Audited or None
        Drawn answers in the order drawn; None where none were drawn.
    limits : (float or None, float or None)
        Coverage promised, and the highest FPR; None where nothing is promised, or nothing that
        draws could show (a limit outside (0, 1)).
    delta : float
        Most probable that ``state`` is ever "broken" while the promise is kept at every draw; also
        that it is ever "kept" while a mean rate so far is beyond its limit.
    by : {"group", "language"}, optional
        Column of ``audited`` whose groups are watched, too; fixed before the first label.
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
        ``course``. Draws count from 1. The times of ``since``, ``decided``, ``until`` and
        ``course`` are the latest among the draws up to there.

    Raises
    ------
    InputError
        If delta is no share, or answers were drawn as whole groups.
    """
    audited, error = draws.checked(audited), validation.share(delta, "delta")
    first_asked = draws.first_asked(audited)
    asked = {
        rate: float(limit)
        for rate, limit in zip(RATES, limits, strict=True)
        if limit is not None and 0.0 < limit < 1.0
    }
    until = draws.labelled_until(audited)
    every = Watched(audited, asked, error if by is None else error / 2.0, until, first_asked)
    points = _points(len(audited), until)
    bounds = every.course(points) if points else []
    here = bounds[points.index(until)] if until else None
    status, broken = every.status(here)
    if status["decided"] is not None:
        status["decided"]["group"] = None
    groups = [] if by is None else _groups(every, error, by)
    told = [status, *groups] if each else [status]
    if each and groups:
        shown = all(item["state"] == "kept" for item in groups)
        since = (
            max((item["since"] for item in groups), key=lambda at: at["draw"]) if shown else None
        )
        status |= {"state": "kept" if shown else "undecided", "since": since}
    fallen = [item["decided"] for item in told if item["decided"] is not None]
    if fallen:
        first = min(fallen, key=lambda item: item["draw"])
        status |= {"state": "broken", "decided": {**first, "shown": True}}
    elif decided is not None:
        status |= {"state": "broken", "decided": {**decided, "shown": False}}
    if status["decided"] is not None:
        at = status["decided"]
        status["since"] = {name: at[name] for name in ("draw", "batch", "time")}
    status["delta_all"] = status.pop("delta")
    lately, path = _lately(every)
    return {
        **status,
        "delta": error,
        "each": each,
        "limits": dict(zip(RATES, (asked.get(rate) for rate in RATES), strict=True)),
        **counts_of(audited),
        "n_disagreements": audited.n_disagreements,
        "n_later": len(audited) - until,
        "repeated": int(np.count_nonzero(~first_asked)),
        "largest_share": float(np.max(audited.share)) if len(audited) else None,
        "lately": lately,
        "groups": groups,
        "course": _course(audited, points, bounds, broken, path),
    }


def _groups(every: Watched, delta: float, by: By) -> list[dict[str, Any]]:
    """Return the status of each group, in the order in which they first appear."""
    audited, found = every.audited, []
    column = getattr(audited, by)
    names = dict.fromkeys(name for name in column.tolist() if name is not None)
    for number, name in enumerate(names, start=1):
        mine = column == name
        watched = Watched(
            draws.some(audited, mine),
            every.limits,
            delta / 2.0 / (number * (number + 1)),
            int(np.count_nonzero(mine[: every.until])),
            None if every.first is None else every.first[mine],
        )
        status, _ = watched.status()
        if status["decided"] is not None:
            status["decided"]["group"] = name
        found.append({"group": name, **status})
    return found


def _lately(every: Watched) -> tuple[dict[str, Any], Floats]:
    """Return what the detector of late breaks says, and its course."""
    audited, until = every.audited, every.until
    wanted = float(np.log(LABELS_TO_FALSE_ALARM + 1))
    worth, n_rates = {}, len(every.limits)
    for rate, limit in every.limits.items():
        bets, laid = draws.bets_on(audited, rate, "broken", limit), _laid(audited, rate, n_rates)
        worth[rate] = (detector(bets, laid), bets, laid)
    total = every.least(partial(_detected, limits=every.limits))
    now = log_after(total, until) if until else None
    over = total[:until] >= wanted
    alarm, since = bool(until and over[-1]), None
    moved: Rate | None = None
    if alarm:
        moved, (_, bets, laid) = max(worth.items(), key=lambda item: float(item[1][0][until - 1]))
        since = draws.place(audited, largest_start(bets, laid, until - 1))
    return {
        "alarm": alarm,
        "rate": moved,
        "since": since,
        "log_e": now,
        "threshold": wanted,
        "arl": LABELS_TO_FALSE_ALARM,
        "first": draws.reached(audited, int(np.argmax(over))) if over.any() else None,
        "latest": _latest(every),
    }, total


def _detected(audited: Audited, *, limits: Mapping[Rate, float]) -> Floats:
    """Return the logarithm of what the detectors of all rates are worth after each draw."""
    total = np.full(len(audited), -np.inf)
    for rate, limit in limits.items():
        bets = draws.bets_on(audited, rate, "broken", limit)
        total = np.logaddexp(total, detector(bets, _laid(audited, rate, len(limits))))
    return total


def _laid(audited: Audited, rate: Rate, n_rates: int) -> Floats:
    """Return what is laid on new bets, in all as much as there are labels, one more at most.

    Counted answers: 1 with each one of the class. Weighted ones: with the draw after each label,
    as a lot must not be known when a bet on it is made.
    """
    if not draws.weighted(audited):
        known = ~draws.unknown(audited) & (audited.label == (1.0 if rate == "coverage" else 0.0))
        return np.asarray(known, np.float64)
    before = np.r_[True, audited.handed_out[:-1]][: len(audited)]
    return np.asarray(before / n_rates, np.float64)


def _latest(every: Watched) -> dict[str, Any]:
    """Return the rates of the answers labelled last, with intervals that hold for one look.

    Drawn ones without a final label since then are left out, and counted (``n_left_out``): where
    labels come late for a reason that has to do with them, these rates are not those of all.
    """
    audited = every.audited
    known = ~draws.unknown(audited) & ~np.isnan(audited.label)
    rows = np.flatnonzero(known)[-LATEST:]
    first = int(rows[0]) if len(rows) else len(audited)
    if draws.weighted(audited):
        settled = np.flatnonzero(~draws.unknown(audited) & (np.arange(len(audited)) >= first))
        late = draws.some(audited, np.isin(np.arange(len(audited)), settled))
        coverage, fpr = Watched(late, every.limits, every.delta, len(late)).course([len(late)])[0]
    else:
        level, flagged, label = 1.0 - every.delta, audited.flagged[rows], audited.label[rows]
        coverage, fpr = (
            exact_bound(int(flagged[label == of].sum()), int((label == of).sum()), level)
            for of in (1.0, 0.0)
        )
    return {
        "n": len(rows),
        "n_left_out": int(np.count_nonzero(draws.unknown(audited)[first:])),
        "from": draws.place(audited, first) if len(rows) else None,
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
    }


def _points(n: int, until: int) -> list[int]:
    """Return the numbers of draws at which a course is shown, the last one and ``until`` too."""
    even = np.ceil(np.linspace(0.0, n, min(n, _POINTS) + 1)[1:]).astype(int).tolist()
    return sorted({*even, until} - {0})


def _course(
    audited: Audited,
    points: Sequence[int],
    bounds: Sequence[tuple[Bound, Bound]],
    broken: Mapping[Rate, Floats],
    lately: Floats,
) -> dict[str, Any]:
    """Return how intervals and wealths went, up to each of some draws."""
    intervals: dict[str, Any] = {
        rate: {
            name: [getattr(pair[index], name) for pair in bounds]
            for name in ("estimate", "lower", "upper")
        }
        for index, rate in enumerate(RATES)
    }
    times = draws.latest_times(audited)
    return {
        "draw": [draws.place(audited, point - 1)["draw"] for point in points],
        "time": [moment(float(times[point - 1])) for point in points],
        **intervals,
        "log_wealth_broken": {
            rate: [float(path[point - 1]) for point in points] for rate, path in broken.items()
        },
        "log_e_lately": [log_after(lately, point) for point in points],
    }
