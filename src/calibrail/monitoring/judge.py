"""May a judge replace people: what do its labels show, where people labelled some answers, too?

A judge's label is no label. Among the flagged answers, and among the passed ones, the share that
the judge calls hallucinated is (share) TPR + (1 - share) FPR, with the judge's own error rates,
which are bounded from draws that people labelled. Six bounds (both rates and the judge's share, in
each stratum) and that of the flag rate hold together with 1 - delta, each at delta / 7; from their
corners follow the shares of hallucinated answers, and with these prevalence, coverage and FPR. It
holds while the judge errs among all answers of a stratum as among those that people labelled. Of
answers drawn with probabilities of their own, those that the lot passed over count, too: what is
known of the judge's errors is known only where it labelled every answer drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from calibrail.conformal import validation
from calibrail.conformal.prevalence import (
    ANYTHING,
    Interval,
    mixed_share,
    rates_behind,
    share_behind,
)
from calibrail.errors import InputError
from calibrail.labelling.audited import Audited
from calibrail.monitoring import draws
from calibrail.monitoring.shares import ASSUMPTIONS, Json, flag_rate, labels_width
from calibrail.monitoring.watched import Watched
from calibrail.settings.drawing import Drawing

#: Bounds that hold together.
_BOUNDS: Final = 7
#: More labels than this are not counted.
_MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Judged:
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

    def __post_init__(self) -> None:
        for name, label in self.labels.items():
            if label not in (0, 1):
                raise InputError(
                    f"a judge's label must be 1 (hallucinated) or 0; {name!r} has {label!r:.40}"
                )
        for side in ("flagged", "passed"):
            count, n = getattr(self, side)
            validation.counts(count, n, (f"{side} judged hallucinated", f"{side} judged"))


def judge_status(
    judged: Judged,
    audited: Audited,
    rows: tuple[int, int],
    delta: float,
    alone: float | None = None,
) -> Json:
    """Return prevalence, coverage and FPR as a judge's labels bound them.

    Parameters
    ----------
    judged : Judged
        What the judge says.
    audited : Audited
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
        there is nothing to go by).
    """
    level = 1.0 - delta / _BOUNDS
    parts = {name: _stratum(judged, audited, name, level) for name in ("flagged", "passed")}
    rate = flag_rate(*rows, level)
    ends = [Interval(item["lower"], item["upper"]) for item in (rate, *parts.values())]
    for name, n in (("flagged", rows[0]), ("passed", rows[1] - rows[0])):
        parts[name]["share_judged"] = min(1.0, parts[name]["positive"]["n"] / n) if n else None
    reasons = [part["reason"] for part in parts.values() if part["reason"] is not None]
    prevalence, (coverage, fpr) = mixed_share(*ends), rates_behind(*ends)
    shares = [item["estimate"] for item in (rate, *parts.values())]
    estimates: list[float | None] = [None, None, None]
    if None not in shares:
        points = [Interval(share, share) for share in shares]
        estimates = [item.lower for item in (mixed_share(*points), *rates_behind(*points))]
    intervals = zip(estimates, (prevalence, coverage, fpr), strict=True)
    shown = [{"estimate": e, "lower": i.lower, "upper": i.upper} for e, i in intervals]
    return {
        **shown[0],
        "confidence": 1.0 - delta,
        "assumption": ASSUMPTIONS["judge"],
        "reason": reasons[0] if len(reasons) == len(parts) else None,
        "n": sum(part["n"] for part in parts.values()),
        "flag_rate": rate,
        "coverage": shown[1],
        "fpr": shown[2],
        **parts,
        "saved": labels_saved(audited, delta if alone is None else alone, prevalence.width),
    }


def _stratum(judged: Judged, audited: Audited, name: str, level: float) -> Json:
    """Return what the judge's labels say of the flagged, or of the passed answers."""
    said = np.array([judged.labels.get(item, -1) for item in audited.id.tolist()], np.int64)
    # Answers that were handed out are not a sample: the draws that were passed over belong to it.
    lacking = draws.weighted(audited) and bool((said < 0).any())
    both = (said >= 0) & (audited.flagged == (name == "flagged")) & (not lacking)
    part = replace(draws.some(audited, both), flagged=said[both] == 1)
    if draws.weighted(part):
        # Whatever the judge says, the floor is that of the stratum; a drawing has two.
        floor = part.drawing.floors[0 if name == "flagged" else 1]
        part = replace(part, drawing=Drawing("active", floor / 2.0))
    tpr, fpr = Watched(part, {}, 1.0 - level, len(part)).course([len(part)])[0]
    count, n = getattr(judged, name)
    positive = flag_rate(count, n, level)
    seen, high, low = (
        Interval(item["lower"], item["upper"]) for item in (positive, tpr.to_dict(), fpr.to_dict())
    )
    share: Interval
    reason: str | None
    share, reason = share_behind(seen, high, low)
    if lacking:
        share, reason = ANYTHING, "draws_not_judged"
    estimate = None
    rates = (positive["estimate"], tpr.estimate, fpr.estimate)
    if reason is None and rates[0] is not None and rates[1] is not None and rates[2] is not None:
        estimate = float(np.clip((rates[0] - rates[2]) / (rates[1] - rates[2]), 0.0, 1.0))
    return {
        "estimate": estimate,
        "lower": share.lower,
        "upper": share.upper,
        "reason": reason,
        "n": tpr.n + fpr.n,
        "positive": positive,
        "tpr": tpr.to_dict(),
        "fpr": fpr.to_dict(),
    }


def labels_saved(audited: Audited, delta: float, width: float) -> int | None:
    """Return how many more labels alone would give an interval of at most this width, 0 if none.

    The labels are as many times those that there are, with the same shares; intervals are those of
    ``shares.labels_status`` at the same error. None without labels, and above ten million.
    """
    n = int(np.count_nonzero(~draws.unknown(audited) & ~np.isnan(audited.label)))
    if not n:
        return None

    def enough(labels: int) -> bool:
        return labels_width(audited, delta, labels / n) <= width

    if enough(n):
        return 0
    low, high = n, 2 * n
    while high <= _MOST and not enough(high):
        low, high = high, 2 * high
    if high > _MOST:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high - n
