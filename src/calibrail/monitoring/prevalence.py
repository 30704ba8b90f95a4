"""Prevalence of hallucinations, estimated from flags, labels and a judge.

From flags alone: the flag rate is a mixture of coverage and FPR, and the bounds of all three that
hold together leave an interval, while the scores within each class are spread as they were on the
answers that the frozen bounds come from. From labels: each draw stands for as many rows as its
batch was drawn from, so that the interval is of the mean over these rows, whatever has changed.
With a judge: see ``judge``.

The error is split evenly among the ways that there are, chosen beforehand by what is given, so that
the narrowest interval may be read. All-time intervals hold the mean over all rows, or draws, so
far. Those of a period hold for it alone: nobody chose when to look at it.

A judge's label is no label. Among the flagged answers, and among the passed ones, the share that
the judge calls hallucinated is (share) TPR + (1 - share) FPR, with the judge's own error rates,
which are bounded from draws that people labelled. Six bounds (both rates and the judge's share, in
each stratum) and that of the flag rate hold together with 1 - delta, each at delta / 7; from their
corners follow the shares of hallucinated answers, and with these prevalence, coverage and FPR. It
holds while the judge errs among all answers of a stratum as among those that people labelled.

Of answers labelled with probabilities of their own, nothing like it is assumed: bets on people's
labels take out of each a part of what the judge says of the answer, and add that part of its share
among all rows. The mean stays the same whatever the judge says, and where it says what people do,
values vary less. Where it labelled all rows its share is known; otherwise its bounds among flagged
and among passed ones have a part of the error. It must have labelled every draw, handed out or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from calibrail.conformal import argument_checks, clopper_pearson, confidence_sequence
from calibrail.conformal import bounds as intervals
from calibrail.conformal.argument_checks import Floats
from calibrail.conformal.sequential.betting import estimated_labels
from calibrail.conformal.threshold import first_where
from calibrail.errors import InputError
from calibrail.guardrail.file import Headline
from calibrail.labelling.log_sampling import LabelledSample, seconds
from calibrail.monitoring import promise
from calibrail.monitoring.promise import LabelledBets

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
    # Rates of answers that chose the detector, too, flatter it; those of a choice that the file
    # carries (``DataRecord.choice``) are of answers that did not choose.
    flattering = "compared_before", "others_tried"
    notes: list[str] = [code for code in flattering if code in headline.warnings]
    level = 1.0 - delta / 3.0
    bounds = {name: _frozen(getattr(headline, name), level, notes) for name in ("coverage", "fpr")}
    interval, reason = intervals.ANYTHING, None
    if flag_rate["n"]:
        interval, reason = intervals.share_behind(
            _interval(flag_rate), _interval(bounds["coverage"]), _interval(bounds["fpr"])
        )
    coverage, fpr = (bounds[name]["estimate"] for name in ("coverage", "fpr"))
    estimate = None
    if flag_rate["n"] and reason is None and None not in (coverage, fpr) and coverage > fpr:
        estimate = min(1.0, max(0.0, (flag_rate["estimate"] - fpr) / (coverage - fpr)))
    shown: intervals.Unbounded | str | None = reason if flag_rate["n"] else "nothing_logged"
    return {
        **_rate(estimate, interval),
        "confidence": _together(delta, [getattr(headline, name) for name in bounds]),
        "assumption": "within_class_scores",
        "reason": shown,
        "notes": sorted(set(notes)),
        "flag_rate": flag_rate,
        **bounds,
    }


def possible_share(flag_rate: Json, limits: Mapping[str, float | None]) -> Json:
    """Return between which shares of hallucinated answers a promise can still be kept.

    Of a share s that is hallucinated at least ``coverage`` is flagged, and of the others at most
    ``fpr``: the flag rate lies between coverage s and s + fpr (1 - s), whatever the traffic is
    like. None where a limit is not named; where ``least`` is above ``most``, it is kept for none.

    >>> possible_share({"lower": 0.1, "upper": 0.45}, {"coverage": 0.9, "fpr": None})
    {'least': None, 'most': 0.5}
    """
    coverage, fpr = limits.get("coverage"), limits.get("fpr")
    least = None if fpr is None else max(0.0, (flag_rate["lower"] - fpr) / (1.0 - fpr))
    return {
        "least": least,
        "most": None if coverage is None else min(1.0, flag_rate["upper"] / coverage),
    }


def labels_status(sample: LabelledSample, delta: float, *, ever: bool = True) -> Json:
    """Return what the labels of drawn answers say, each for as many rows as it was drawn from.

    Parameters
    ----------
    sample : LabelledSample
        Draws to count; those without a final label count as either.
    delta : float
        Error of the interval.
    ever : bool
        Whether it has to hold at all times, or for one look.
    """
    unknown, level, rows = promise.is_unresolved(sample), 1.0 - delta, _rows(sample)
    least, most = _either(sample)
    if not ever and not sample.drawing.weighted and not np.ptp(sample.share):
        ends = [clopper_pearson(int(mass.sum()), len(sample), level) for mass in (least, most)]
        interval = intervals.Interval(ends[0][0], ends[1][1])
    else:
        interval = _drawn(sample, level)
    estimate, weight = None, rows * ~unknown
    if weight.any():
        mass = promise.masses(sample, least)
        estimate = float(np.clip(np.average(mass, weights=weight), 0.0, 1.0))
    return {
        **_rate(estimate, interval),
        "confidence": level,
        "assumption": "audited",
        "reason": None if len(sample) else "nothing_drawn",
        "n": int(np.count_nonzero(~unknown & ~np.isnan(sample.label))),
        "n_unknown": int(np.count_nonzero(unknown)),
        "until": promise.reached(sample, len(sample) - 1) if len(sample) else None,
    }


def labels_width(sample: LabelledSample, delta: float, times: float = 1.0) -> float:
    """Return how wide an interval is from so many times the final labels that there are."""
    known = promise.take_rows(sample, ~promise.is_unresolved(sample))
    return _drawn(known, 1.0 - delta, times).width


#: Ways to bet on one mean: how much of the guess counts, and how much of a judge's label is taken
#: out. With half of the guess a draw loses half as much at most, so that bets are larger, which
#: pays up to some hundred labels; half of the judge's label suits one that errs (simulated).
_ALONE: Final = ((1.0, 0.0), (0.5, 0.0))
_BESIDE: Final = ((1.0, 0.5), (0.5, 0.5), (1.0, 1.0))

#: A judge's labels of the draws, and between what its share among all rows lies.
_Judge: TypeAlias = tuple[Floats, intervals.Interval]


def _drawn(
    sample: LabelledSample, level: float, times: float = 1.0, judge: _Judge | None = None
) -> intervals.Interval:
    """Return the interval of the share of hallucinated rows, open labels counting as either."""
    (least, most), rows = _either(sample), _rows(sample)
    if not sample.drawing.weighted:
        few, many = (intervals.drawn_share(it, rows, level, times=times) for it in (least, most))
        return intervals.Interval(few.lower, many.upper)
    ways = np.array(_ALONE if judge is None else _BESIDE)
    said, share = judge or (np.zeros(len(sample)), intervals.ANYTHING)

    def at_least(labels: Floats, guess: Floats, said: Floats, mean: float) -> float:
        estimated = [
            estimated_labels(labels, sample.probability, guessed * guess) - taken * (said - mean)
            for guessed, taken in ways
        ]
        # A flagged answer has the lower floor.
        lowest = ways @ [1.0 - 1.0 / sample.drawing.floors[0], mean - 1.0]
        return intervals.drawn_at_least(np.array(estimated), lowest, rows, level, times=times)

    lower = at_least(least, sample.guess, said, share.lower)
    others = at_least(1.0 - most, 1.0 - sample.guess, 1.0 - said, 1.0 - share.upper)
    return intervals.Interval(lower, 1.0 - others)


def _either(sample: LabelledSample) -> tuple[Floats, Floats]:
    """Return labels with open ones as faithful, and as hallucinated; NaN where none is due."""
    unknown = promise.is_unresolved(sample)
    return np.where(unknown, 0.0, sample.label), np.where(unknown, 1.0, sample.label)


def _rows(sample: LabelledSample) -> Floats:
    """Return how many rows of the log each draw stands for."""
    share = sample.share
    return np.asarray(1.0 / np.where(share > 0.0, share, 1.0))


def flag_rate(flagged: int, n: int, level: float, *, ever: bool = True) -> Json:
    """Return the share of rows that are flagged, with its interval."""
    lower, upper = (confidence_sequence if ever else clopper_pearson)(flagged, n, level)
    interval = intervals.Interval(float(lower), float(upper))
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
    sample: LabelledSample | None,
    delta: float,
) -> list[Json]:
    """Return flag rate and prevalence of each period of a timeline, each for one look."""
    begins = [seconds(item["from"]) for item in timeline]
    starts = np.array([np.nan if begin is None else begin for begin in begins])
    # A period ends where the next one begins.
    ends = np.append(starts[1:], np.inf)
    known = sample is not None and not np.isnan(starts).any()
    statuses = []
    for number, item in enumerate(timeline):
        flagged, n = counted([item])
        rate = flag_rate(flagged, n, 1.0 - delta / 3.0, ever=False)
        labels = None
        if sample is not None and known and n:
            mine = (sample.time >= starts[number]) & (sample.time < ends[number])
            if mine.any():
                labels = labels_status(promise.take_rows(sample, mine), delta, ever=False)
        flags = flags_status(rate, headline, delta)
        statuses.append(
            {
                "from": item["from"],
                "to": item["to"],
                "flag_rate": _ends(rate) if n else None,
                "flags": _ends(flags) if flags["reason"] is None else None,
                "labels": None if labels is None else {**_ends(labels), "n": labels["n"]},
            }
        )
    return statuses


def _frozen(known: Mapping[str, Any], level: float, notes: list[str]) -> Json:
    """Return a frozen rate with exact bounds at a level, or with its own where it has no counts."""
    if (counts := _counts(known)) is not None:
        count, n = counts
        interval = intervals.Interval(*clopper_pearson(count, n, level))
        return _rate(count / n if n else None, interval)
    notes.append("bounds_as_frozen")
    if None in (known.get("lower"), known.get("upper")):
        return _rate(known.get("estimate"), intervals.ANYTHING)
    return _rate(known.get("estimate"), _interval(known))


def _counts(known: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the counts that a frozen rate rests on; None where they are not all of it."""
    count, n = known.get("count"), known.get("n")
    # Intervals of sample answers rest on more (weights, open answers), what a rank proves on none.
    alone = known.get("method") not in ("betting", "beta-mixture", "rank")
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


def _interval(item: Mapping[str, Any]) -> intervals.Interval:
    return intervals.Interval(item["lower"], item["upper"])


def _rate(estimate: float | None, interval: intervals.Interval) -> Json:
    return {"estimate": estimate, "lower": interval.lower, "upper": interval.upper}


def _ends(item: Mapping[str, Any]) -> Json:
    return {name: item[name] for name in ("estimate", "lower", "upper")}


#: Bounds that hold together.
_BOUNDS: Final = 7
#: More labels than this are not counted.
_MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class JudgeSample:
    """What a judge says of logged answers, all of them or some chosen without a look at any.

    Attributes
    ----------
    labels : mapping of str to int
        By the answer's id: 1 hallucinated, 0 faithful.
    flagged, passed : (int, int)
        Among the logged rows that were flagged, and passed, and that it labelled: how many it calls
        hallucinated, and how many there are.

    Raises
    ------
    InputError
        If a label is neither, or a count exceeds its rows.
    """

    labels: Mapping[str, int]
    flagged: tuple[int, int]
    passed: tuple[int, int]


def judge_status(
    judged: JudgeSample,
    sample: LabelledSample,
    rows: tuple[int, int],
    delta: float,
    alone: float | None = None,
) -> Json:
    """Return prevalence, coverage and FPR as a judge's labels bound them.

    Parameters
    ----------
    judged : JudgeSample
        What the judge says.
    sample : LabelledSample
        Drawn answers that people label, in the order drawn.
    rows : (int, int)
        Flagged rows of the log, and all rows.
    delta : float
        Error of all bounds together.
    alone : float, optional
        Error that an interval from labels of people would have without a judge; delta by default.

    Returns
    -------
    dict
        Besides the intervals ``flagged`` and ``passed``: the judge's share, its error rates,
        ``share_judged`` of the rows of the log, and ``reason``, where nothing follows; ``saved``:
        how many more labels of people alone would
        give an interval as narrow, from draws like those so far (None: more than can be said, or
        there is nothing to go by). Of draws with probabilities of their own, ``positive``: the
        judge's share among all rows, in place of coverage, FPR and what they follow from.
    """
    alone = delta if alone is None else alone
    if sample.drawing.weighted:
        return _beside_status(judged, sample, rows, delta, alone)
    level = 1.0 - delta / _BOUNDS
    parts = {name: _stratum(judged, sample, name, level) for name in ("flagged", "passed")}
    rate = flag_rate(*rows, level)
    ends = list(map(_interval, (rate, *parts.values())))
    for name, n in (("flagged", rows[0]), ("passed", rows[1] - rows[0])):
        parts[name]["share_judged"] = min(1.0, parts[name]["positive"]["n"] / n) if n else None
    reasons = [part["reason"] for part in parts.values() if part["reason"] is not None]
    prevalence, (coverage, fpr) = intervals.mixed_share(*ends), intervals.rates_behind(*ends)
    shares = [item["estimate"] for item in (rate, *parts.values())]
    estimates: list[float | None] = [None, None, None]
    if None not in shares:
        points = [intervals.Interval(share, share) for share in shares]
        estimates = [
            item.lower
            for item in (intervals.mixed_share(*points), *intervals.rates_behind(*points))
        ]
    shown = list(map(_rate, estimates, (prevalence, coverage, fpr)))
    return {
        **shown[0],
        "confidence": 1.0 - delta,
        "assumption": "judge",
        "reason": reasons[0] if len(reasons) == len(parts) else None,
        "n": sum(part["n"] for part in parts.values()),
        "flag_rate": rate,
        "coverage": shown[1],
        "fpr": shown[2],
        **parts,
        "saved": labels_saved(sample, alone, prevalence.width),
    }


def _beside_status(
    judged: JudgeSample, sample: LabelledSample, rows: tuple[int, int], delta: float, alone: float
) -> Json:
    """Return prevalence from draws with probabilities of their own, whatever the judge does."""
    n, among = rows[1], intervals.Interval(*[rows[0] / max(1, rows[1])] * 2)
    strata = ((judged.flagged, rows[0]), (judged.passed, n - rows[0]))
    error = delta / (1 + sum(part[1] < of for part, of in strata))
    rates = [flag_rate(*part, 1.0 - error) for part, _ in strata]
    points = [intervals.Interval(*[rate["estimate"] or 0.0] * 2) for rate in rates]
    known = zip(rates, points, strata, strict=True)
    ends = [point if part[1] >= of else _interval(rate) for rate, point, (part, of) in known]
    share, point = intervals.mixed_share(among, *ends), intervals.mixed_share(among, *points).lower
    said = np.array([judged.labels.get(item, np.nan) for item in sample.id.tolist()], np.float64)
    reason = None if len(sample) else "nothing_drawn"
    reason = "draws_not_judged" if np.isnan(said).any() else reason
    found, estimate, unknown = intervals.ANYTHING, None, promise.is_unresolved(sample)
    if reason is None:
        found = _drawn(sample, 1.0 - error, judge=(said, share))
        mass = promise.masses(sample, _either(sample)[0])
        taken = min((0.5, 1.0), key=lambda part: float(np.var(mass - part * said)))
        if (weight := _rows(sample) * ~unknown).any():
            estimate = float(np.average(mass - taken * (said - point), weights=weight))
            estimate = min(found.upper, max(found.lower, estimate))
    return {
        **_rate(estimate, found),
        "confidence": 1.0 - delta,
        "assumption": "judge_beside",
        "reason": reason,
        "n": int(np.count_nonzero(~unknown & ~np.isnan(sample.label + said))),
        "positive": _rate(point, share),
        "share_judged": min(1.0, sum(part[1] for part, _ in strata) / max(1, n)),
        "saved": labels_saved(sample, alone, found.width),
    }


def _stratum(judged: JudgeSample, sample: LabelledSample, name: str, level: float) -> Json:
    """Return what the judge's labels say of the flagged, or of the passed answers."""
    judgements = np.array([judged.labels.get(item, -1) for item in sample.id.tolist()], np.int64)
    both = (judgements >= 0) & (sample.flagged == (name == "flagged"))
    part = replace(promise.take_rows(sample, both), flagged=judgements[both] == 1)
    tpr, fpr = LabelledBets(part, {}, 1.0 - level, len(part)).course([len(part)])[0]
    count, n = getattr(judged, name)
    positive = flag_rate(count, n, level)
    seen, high, low = map(_interval, (positive, tpr.to_dict(), fpr.to_dict()))
    share, reason = intervals.share_behind(seen, high, low)
    estimate = None
    rates = (positive["estimate"], tpr.estimate, fpr.estimate)
    if reason is None and rates[0] is not None and rates[1] is not None and rates[2] is not None:
        estimate = float(np.clip((rates[0] - rates[2]) / (rates[1] - rates[2]), 0.0, 1.0))
    return {
        **_rate(estimate, share),
        "reason": reason,
        "n": tpr.n + fpr.n,
        "positive": positive,
        "tpr": tpr.to_dict(),
        "fpr": fpr.to_dict(),
    }


def labels_saved(sample: LabelledSample, delta: float, width: float) -> int | None:
    """Return how many more labels alone would give an interval of at most this width, 0 if none.

    The labels are as many times those that there are, with the same shares; intervals are those of
    ``shares.labels_status`` at the same error. None without labels, and above ten million.
    """
    n = int(np.count_nonzero(~promise.is_unresolved(sample) & ~np.isnan(sample.label)))
    if not n:
        return None

    def enough(more: int) -> bool:
        return labels_width(sample, delta, (n + more) / n) <= width

    saved = first_where(enough, _MOST + 1, 0)
    return saved if saved <= _MOST else None


#: In this order where intervals are equally wide.
_WAYS: Final = ("labels", "judge", "flags")


def prevalence_status(
    timeline: Sequence[Mapping[str, Any]],
    headline: Headline,
    sample: LabelledSample | None = None,
    judged: JudgeSample | None = None,
    delta: float = 0.05,
    *,
    noted: Sequence[str] = (),
) -> Json:
    """Return how many of the logged answers are hallucinated, in each way that there is.

    Parameters
    ----------
    timeline : sequence of mapping
        Periods of the log: ``from``, ``to`` (text or None), ``n``, ``flagged`` and ``failed``.
    headline : Headline
        What was frozen of coverage and FPR.
    sample : LabelledSample, optional
        Drawn answers in the order drawn; None where none are to be drawn.
    judged : JudgeSample, optional
        Labels of a judge, which need ``sample``.
    delta : float
        Error of all intervals together, unless bounds are taken as frozen; each way has its even
        part.
    noted : sequence of str
        What else ``flags`` notes of the frozen rates: "clustered" where the answers behind them
        came in groups, of which the bounds take each as independent; "labels_of_judge".

    Returns
    -------
    dict
        ``estimate``, ``lower``, ``upper`` of the narrowest interval, its ``method`` ("flags",
        "labels" or "judge") and ``assumption``; ``confidence`` with which all intervals hold (None
        where that of frozen ones is not known); all of ``flags``, ``labels`` and ``judge`` (None
        where not given); ``periods``, one for each of the timeline. Where nothing follows the
        interval is [0, 1], and a ``reason`` says why.

    Raises
    ------
    InputError
        If delta is no share, or a judge's labels are given without drawn answers.
    """
    error = argument_checks.share(delta, "delta")
    if judged is not None and sample is None:
        raise InputError.on("judge_without_people")
    ways: dict[str, Json | None] = dict.fromkeys(("flags", "labels", "judge"))
    part = error / (1 + (sample is not None) + (judged is not None))
    rows = counted(timeline)
    flags = flags_status(flag_rate(*rows, 1.0 - part / 3.0), headline, part)
    ways["flags"] = {**flags, "notes": [*flags["notes"], *noted]}
    if sample is not None:
        sample = promise.watchable(sample)
        until = promise.labelled_until(sample)
        known = promise.take_rows(sample, np.arange(len(sample)) < until)
        ways["labels"] = labels_status(known, part)
        if judged is not None:
            if sample.drawing.weighted:
                # Decisions without a score are drawn, too, and a judge may label them.
                rows = sum(item["flagged"] for item in timeline), sum(it["n"] for it in timeline)
            ways["judge"] = judge_status(judged, known, rows, part, error / 2.0)
    given = {name: item for name in _WAYS if (item := ways[name]) is not None}
    if (labels := given.get("labels")) is not None:
        # What labels refute rests on something that does not hold any more.
        low, high = labels["lower"], labels["upper"]
        given = {
            name: item
            for name, item in given.items()
            if max(item["lower"], low) <= min(item["upper"], high)
        }
    widths = {name: item["upper"] - item["lower"] for name, item in given.items()}
    method = min(widths, key=widths.__getitem__)
    if widths[method] >= 1.0:
        method = "flags"
    best = ways[method] or {}
    # Frozen bounds err with what they had then.
    sure = flags["confidence"]
    return {
        **{name: best[name] for name in ("estimate", "lower", "upper")},
        "method": method,
        "assumption": best["assumption"],
        "delta": error,
        "confidence": None if sure is None else max(0.0, sure - (error - part)),
        **ways,
        "periods": periods_status(timeline, headline, sample, part),
    }
