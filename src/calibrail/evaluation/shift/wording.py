"""What does a drift audit say in words?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrail.evaluation.shift.labelled import BROKEN, HOLDS, UNTESTED
from calibrail.evaluation.stats.phrases import count, number, percent


def finding(results: Sequence[Mapping[str, Any]], alpha: float, left_out: int) -> str:
    """Return the whole result in one or two sentences."""
    broken = [item for item in results if item["finding"] == BROKEN]
    tested = [item for item in results if item["finding"] != UNTESTED]
    target = percent(1.0 - alpha)
    if not tested:
        text = f"No test holds enough hallucinated answers to say anything about {target}."
    elif not broken:
        text = (
            f"No test contradicts the promise of {target} caught "
            f"({count(len(tested), 'test')}); that is no proof that nothing changes."
        )
    else:
        names = ", ".join(str(item["tested_on"]) for item in broken[:5])
        more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
        text = (
            f"The promise of {target} caught does not carry over to {names}{more}: "
            f"{len(broken)} of {count(len(tested), 'test')} broken."
        )
        repaired = sum(item["repair"] == "repaired" for item in broken)
        if any(item["repair"] for item in broken):
            text += f" Weighting repairs {repaired} of them."
    if left_out:
        text += f" Left out for too few calibration answers: {count(left_out, 'test')}."
    return text


def sentence(item: Mapping[str, Any], alpha: float) -> str:
    """Return what one test shows, in words."""
    coverage, name = item["coverage"], item["tested_on"]
    text = f"{name}: {coverage['count']:,} of {count(coverage['n'], 'hallucinated answer')} caught"
    if item["finding"] == UNTESTED:
        return f"{text}; too few to tell."
    text += (
        f" ({percent(coverage['estimate'])}, {percent(coverage['lower'])} to "
        f"{percent(coverage['upper'])}), {percent(1.0 - alpha)} promised"
    )
    if item["finding"] == HOLDS:
        return f"{text}: no contradiction to the promise (p = {number(item['p_value'])})."
    text += f": the promise is broken (corrected p = {number(item['adjusted_p'])})."
    if needed := item["needed"]:
        text += (
            f" A threshold of {number(needed['threshold'])} instead of "
            f"{number(item['threshold'])} would be needed, at "
            f"{percent(needed['fpr']['estimate'])} false alarms"
            if needed["fpr"]["estimate"] is not None
            else f" A threshold of {number(needed['threshold'])} would be needed"
        )
        text += "."
    weighted = item["weighted"]
    if item["repair"] == "repaired" and weighted["fpr"]["estimate"] is not None:
        text += (
            f" Weighting brings it back to {percent(weighted['coverage']['estimate'])}, at "
            f"{percent(weighted['fpr']['estimate'])} false alarms and an effective sample of "
            f"{weighted['effective_n']:,.0f}; that is seen here, not promised."
        )
    elif item["repair"] == "not repaired":
        text += (
            f" Weighting does not repair it ({percent(weighted['coverage']['estimate'])} caught): "
            "more than the mix of surface features has changed."
        )
    return text
