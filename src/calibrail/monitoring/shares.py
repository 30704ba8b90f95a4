"""What do flags alone, and what do labels say of the share of hallucinated answers?

From flags alone: the flag rate is a mixture of coverage and FPR, and the bounds of all three that
hold together leave an interval, while the scores within each class are spread as they were on the
answers that the frozen bounds come from. From labels: each draw stands for as many rows as its
batch was drawn from, so that the interval is of the mean over these rows, whatever has changed.
With a judge: see ``judge``.

The error is split evenly among the ways that there are, chosen beforehand by what is given, so that
the narrowest interval may be read. All-time intervals hold the mean over all rows, or draws, so
far. Those of a period hold for it alone: nobody chose when to look at it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from calibrail.conformal import clopper_pearson, confidence_sequence, validation
from calibrail.conformal.prevalence import (
    ANYTHING,
    Interval,
    Unbounded,
    drawn_share,
    share_behind,
)
from calibrail.conformal.validation import Bools, Floats
from calibrail.guardrail.frozen import Headline
from calibrail.labelling.audited import Audited, seconds
from calibrail.monitoring import draws

#: What each way rests on.
ASSUMPTIONS: Final = {"flags": "within_class_scores", "labels": "audited", "judge": "judge"}

Json = dict[str, Any]


def flags_status(flag_rate: Json, headline: Headline, delta: float) -> Json:
    """Return what the flag rate says at the worst corner of the frozen bounds.

    Parameters
    ----------
    flag_rate : dict
        Of all rows, or of a period, with its interval at delta / 3.
    headline : Headline
        What the report said of coverage and FPR.
    delta : float
        Error of all three intervals together, unless frozen ones stand at levels of their own:
        ``confidence`` is what follows from the levels used, None where one is not known.
    """
    notes: list[str] = []
    level = 1.0 - delta / 3.0
    bounds = {name: _frozen(getattr(headline, name), level, notes) for name in ("coverage", "fpr")}
    interval, reason = ANYTHING, None
    if flag_rate["n"]:
        interval, reason = share_behind(
            _interval(flag_rate), _interval(bounds["coverage"]), _interval(bounds["fpr"])
        )
    coverage, fpr = (bounds[name]["estimate"] for name in ("coverage", "fpr"))
    estimate = None
    if flag_rate["n"] and reason is None and None not in (coverage, fpr) and coverage > fpr:
        estimate = min(1.0, max(0.0, (flag_rate["estimate"] - fpr) / (coverage - fpr)))
    shown: Unbounded | str | None = reason if flag_rate["n"] else "nothing_logged"
    return {
        **_rate(estimate, interval),
        "confidence": _together(delta, [getattr(headline, name) for name in bounds]),
        "assumption": ASSUMPTIONS["flags"],
        "reason": shown,
        "notes": sorted(set(notes)),
        "flag_rate": flag_rate,
        **bounds,
    }


def labels_status(audited: Audited, delta: float, *, ever: bool = True) -> Json:
    """Return what the labels of drawn answers say, each for as many rows as it was drawn from.

    Parameters
    ----------
    audited : Audited
        Draws to count; those without a final label count as either.
    delta : float
        Error of the interval.
    ever : bool
        Whether it has to hold at all times, or for one look.
    """
    unknown = draws.unknown(audited)
    least, most = (
        draws.masses(audited, np.where(unknown, given, audited.label)) for given in (0.0, 1.0)
    )
    rows, level = _rows(audited), 1.0 - delta
    # A flagged answer has the lower floor.
    floor = audited.drawing.floors[0] if draws.weighted(audited) else None
    if not ever and floor is None and not np.ptp(audited.share):
        ends = [clopper_pearson(int(mass.sum()), len(audited), level) for mass in (least, most)]
        lower, upper = ends[0][0], ends[1][1]
    else:
        lower = drawn_share(least, rows, level, floor=floor).lower
        upper = drawn_share(most, rows, level, floor=floor).upper
    estimate, weight = None, rows * ~unknown
    if weight.any():
        estimate = float(np.clip(np.sum(least * weight) / weight.sum(), 0.0, 1.0))
    return {
        **_rate(estimate, Interval(lower, upper)),
        "confidence": level,
        "assumption": ASSUMPTIONS["labels"],
        "reason": None if len(audited) else "nothing_drawn",
        "n": int(np.count_nonzero(~unknown & ~np.isnan(audited.label))),
        "n_unknown": int(np.count_nonzero(unknown)),
        "until": draws.reached(audited, len(audited) - 1) if len(audited) else None,
    }


def labels_width(audited: Audited, delta: float, times: float = 1.0) -> float:
    """Return how wide an interval is from so many times the final labels that there are."""
    known = draws.some(audited, ~draws.unknown(audited))
    floor = audited.drawing.floors[0] if draws.weighted(audited) else None
    masses = draws.masses(known, known.label)
    return drawn_share(masses, _rows(known), 1.0 - delta, floor=floor, times=times).width


def _rows(audited: Audited) -> Floats:
    """Return how many rows of the log each draw stands for."""
    share = audited.share
    return np.asarray(1.0 / np.where(share > 0.0, share, 1.0))


def flag_rate(flagged: int, n: int, level: float, *, ever: bool = True) -> Json:
    """Return the share of rows that are flagged, with its interval."""
    lower, upper = (confidence_sequence if ever else clopper_pearson)(flagged, n, level)
    interval = Interval(float(lower), float(upper))
    return {**_rate(flagged / n if n else None, interval), "count": flagged, "n": n}


def counted(periods: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return flagged rows and all rows, without those on which the detector failed.

    What becomes of these is a policy, and never a pass.
    """
    failed = sum(item["failed"] for item in periods)
    flagged = sum(item["flagged"] for item in periods) - failed
    return max(0, flagged), sum(item["n"] for item in periods) - failed


def periods_status(
    timeline: Sequence[Mapping[str, Any]],
    headline: Headline,
    audited: Audited | None,
    delta: float,
) -> list[Json]:
    """Return flag rate and prevalence of each period of a timeline, each for one look."""
    begins = [seconds(item["from"]) for item in timeline]
    starts = np.array([np.nan if begin is None else begin for begin in begins])
    known = audited is not None and not np.isnan(starts).any()
    found = []
    for number, item in enumerate(timeline):
        flagged, n = counted([item])
        rate = flag_rate(flagged, n, 1.0 - delta / 3.0, ever=False)
        labels = None
        if audited is not None and known and n:
            mine = _within(audited.time, starts, number)
            if mine.any():
                labels = labels_status(draws.some(audited, mine), delta, ever=False)
        flags = flags_status(rate, headline, delta)
        found.append(
            {
                "from": item["from"],
                "to": item["to"],
                "flag_rate": _ends(rate) if n else None,
                "flags": _ends(flags) if flags["reason"] is None else None,
                "labels": None if labels is None else {**_ends(labels), "n": labels["n"]},
            }
        )
    return found


def _within(time: Floats, starts: Floats, number: int) -> Bools:
    """Return which draws were logged in a period: it ends where the next one begins."""
    last = starts[number + 1] if number + 1 < len(starts) else np.inf
    return np.asarray((time >= starts[number]) & (time < last))


def _frozen(known: Mapping[str, Any], level: float, notes: list[str]) -> Json:
    """Return a frozen rate with exact bounds at a level, or with its own where it has no counts."""
    counts = _counts(known)
    if counts is not None:
        count, n = counts
        return {**_rate(count / n if n else None, Interval(*clopper_pearson(count, n, level)))}
    notes.append("bounds_as_frozen")
    ends = (known.get("lower"), known.get("upper"))
    if None in ends:
        return _rate(known.get("estimate"), ANYTHING)
    validation.number(known["lower"], "lower")
    return _rate(known.get("estimate"), Interval(float(known["lower"]), float(known["upper"])))


def _counts(known: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the counts that a frozen rate rests on; None where they are not all of it."""
    count, n = known.get("count"), known.get("n")
    # Intervals of audited answers rest on more: weights, open answers.
    alone = known.get("method") not in ("betting", "beta-mixture")
    return (count, n) if alone and isinstance(count, int) and isinstance(n, int) else None


def _together(delta: float, rates: Sequence[Mapping[str, Any]]) -> float | None:
    """Return with what probability the flag rate's interval and those of the rates all hold."""
    error, own = delta, False
    for known in rates:
        if _counts(known) is None and None not in (known.get("lower"), known.get("upper")):
            level = known.get("confidence")
            if not isinstance(level, float):
                return None
            error, own = error + (1.0 - level) - delta / 3.0, True
    return max(0.0, 1.0 - error) if own else 1.0 - delta


def _interval(item: Mapping[str, Any]) -> Interval:
    return Interval(item["lower"], item["upper"])


def _rate(estimate: float | None, interval: Interval) -> Json:
    return {"estimate": estimate, "lower": interval.lower, "upper": interval.upper}


def _ends(item: Mapping[str, Any]) -> Json:
    return {name: item[name] for name in ("estimate", "lower", "upper")}
