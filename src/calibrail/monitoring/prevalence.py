"""How many of the logged answers are hallucinated, by what tells most?"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.conformal import validation
from calibrail.errors import InputError
from calibrail.guardrail.frozen import Headline
from calibrail.labelling.audited import Audited
from calibrail.monitoring import draws
from calibrail.monitoring.judge import Judged, judge_status
from calibrail.monitoring.shares import (
    Json,
    counted,
    flag_rate,
    flags_status,
    labels_status,
    periods_status,
)

#: In this order where intervals are equally wide.
_WAYS: Final = ("labels", "judge", "flags")


def prevalence_status(
    timeline: Sequence[Mapping[str, Any]],
    headline: Headline,
    audited: Audited | None = None,
    judged: Judged | None = None,
    delta: float = 0.05,
    *,
    clustered: bool = False,
) -> Json:
    """Return how many of the logged answers are hallucinated, in each way that there is.

    Parameters
    ----------
    timeline : sequence of mapping
        Periods of the log: ``from``, ``to`` (text or None), ``n``, ``flagged`` and ``failed``.
    headline : Headline
        What was frozen of coverage and FPR.
    audited : Audited, optional
        Drawn answers in the order drawn; None where none are to be drawn.
    judged : Judged, optional
        Labels of a judge, which need ``audited``.
    delta : float
        Error of all intervals together, unless bounds are taken as frozen; each way has its even
        part.
    clustered : bool
        Whether the answers behind the frozen rates came in groups: the bounds take each as
        independent, and ``flags`` notes "clustered".

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
    error = validation.share(delta, "delta")
    if judged is not None and audited is None:
        raise InputError(
            "a judge's labels count only beside labels of people; name a folder of drawn answers"
        )
    ways: dict[str, Json | None] = dict.fromkeys(("flags", "labels", "judge"))
    part = error / (1 + (audited is not None) + (judged is not None))
    rows = counted(timeline)
    rate = flag_rate(*rows, 1.0 - part / 3.0)
    flags = flags_status(rate, headline, part)
    ways["flags"] = {**flags, "notes": [*flags["notes"], "clustered"]} if clustered else flags
    if audited is not None:
        audited = draws.checked(audited)
        known = draws.some(audited, draws.first(audited, draws.labelled_until(audited)))
        ways["labels"] = labels_status(known, part)
        if judged is not None:
            ways["judge"] = judge_status(judged, known, rows, part, error / 2.0)
    given = {name: ways[name] for name in _WAYS if ways[name] is not None}
    if (labels := given.get("labels")) is not None:
        # What labels refute rests on something that does not hold any more.
        given = {name: item for name, item in given.items() if _meet(item, labels)}
    method = min(given, key=lambda name: _width(given[name]))
    if _width(given[method]) >= 1.0:
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
        "periods": periods_status(timeline, headline, audited, part),
    }


def _width(item: Json | None) -> float:
    return 1.0 if item is None else item["upper"] - item["lower"]


def _meet(item: Json | None, other: Json) -> bool:
    return item is not None and max(item["lower"], other["lower"]) <= min(
        item["upper"], other["upper"]
    )
