"""How does a watched guardrail look over time?"""

import math
from collections.abc import Sequence
from typing import Final

from calibrail.report.blocks import Json
from calibrail.report.plot import (
    DASHED,
    FAITHFUL,
    HALLUCINATED,
    INCONCLUSIVE,
    INK,
    QUIET,
    REJECTED,
    SERIES,
    Plot,
    axis_text,
    drawing,
)
from calibrail.report.watch_moments import Moments
from calibrail.scale import Scale

#: Logarithms are drawn from here on: a bet that lost more has lost.
_LEAST: Final = math.log(0.5)
#: Groups of a share, such as languages, that one figure shows.
_MOST_LINES: Final = 5


def flags_svg(status: Json, narrow: bool = False) -> str:
    """Draw the share of answers that were flagged, with its band, and of those without a score.

    Parameters
    ----------
    status : mapping
        A watch's ``status.json``.
    narrow : bool
        Draw for a phone.
    """
    timeline, periods = status["timeline"], status["prevalence"]["periods"]
    with drawing(*_size(narrow)) as plot:
        at = Moments.of_periods(timeline)
        at.line(plot, [_share(item, "flagged") for item in timeline], INK, "flagged")
        if len(periods) == len(timeline):
            at.band(plot, [item["flag_rate"] for item in periods], INK)
        for key, colour in (("undefined", INCONCLUSIVE), ("failed", REJECTED)):
            if any(item[key] for item in timeline):
                shares = [_share(item, key) for item in timeline]
                at.line(plot, shares, colour, "without a score" if key == "undefined" else key)
        _marks(plot, at, status["traffic"]["alarms"])
        _finish(plot, at, "% of answers")
        return plot.svg("Share of flagged answers over time.")


def prevalence_svg(status: Json, narrow: bool = False) -> str:
    """Draw how many answers are hallucinated: what flags alone bound, and what labels do.

    Parameters
    ----------
    status, narrow
        As for `flags_svg`.
    """
    timeline, periods = status["timeline"], status["prevalence"]["periods"]
    with drawing(*_size(narrow)) as plot:
        at = Moments.of_periods(timeline)
        for name, colour, label in (
            ("flags", FAITHFUL, "from flags alone"),
            ("labels", HALLUCINATED, "from labels"),
        ):
            if any(item[name] for item in periods):
                at.band(plot, [item[name] for item in periods], colour, label)
                values = [(item[name] or {}).get("estimate") for item in periods]
                at.line(plot, values, colour)
        _marks(plot, at, status["traffic"]["alarms"])
        _finish(plot, at, "% of answers")
        return plot.svg("Bounds of the share of hallucinated answers over time.")


def traffic_svg(status: Json, narrow: bool = False) -> str:
    """Draw the evidence that traffic has changed, with what raises an alarm.

    Parameters
    ----------
    status, narrow
        As for `flags_svg`.
    """
    timeline, traffic = status["timeline"], status["traffic"]
    with drawing(*_size(narrow)) as plot:
        at, axes = Moments.of_periods(timeline), plot.axes
        evidence = [_power(item["log_e"]) for item in timeline]
        at.line(plot, evidence, INK, "evidence", scale=1.0)
        axes.axhline(traffic["threshold"], color=REJECTED, linewidth=1.1, linestyle=DASHED)
        _marks(plot, at, traffic["alarms"])
        _finish(plot, at, "e-value", bottom=None)
        axes.set_yscale("log")
        axes.set_ylim(_power(_LEAST), 20.0 * traffic["threshold"])
        axes.yaxis.set_major_formatter(_in_powers)
        axes.minorticks_off()
        return plot.svg("Evidence that traffic has changed, over time.")


def feature_svg(status: Json, feature: str, name: str, narrow: bool = False) -> str:
    """Draw one feature over time, with the alarms that it raised.

    Parameters
    ----------
    status, narrow
        As for `flags_svg`.
    feature : str
        Which one.
    name : str
        What it is called.
    """
    timeline = status["timeline"]
    alarms = [item for item in status["traffic"]["alarms"] if item["feature"] == feature]
    with drawing(4.1, 2.3) as plot:
        at = Moments.of_periods(timeline)
        if feature == "language":
            for language, colour in zip(_languages(timeline), SERIES, strict=False):
                shares = [
                    item["languages"].get(language, 0) / max(1, sum(item["languages"].values()))
                    for item in timeline
                ]
                at.line(plot, shares, colour, axis_text(language))
        elif feature == "undefined":
            at.line(plot, [_share(item, "undefined") for item in timeline], INK)
        else:
            negated = Scale.of(status["score"]).negated and feature == "score"
            means = [item["means"].get(feature) for item in timeline]
            at.line(plot, means, INK, scale=-1.0 if negated else 1.0)
        _marks(plot, at, alarms)
        if feature in ("language", "undefined"):
            _finish(plot, at, "% of answers")
            plot.axes.set_ylim(top=max(1.0, plot.axes.get_ylim()[1]))
        else:
            _finish(plot, at, "mean", bottom=None)
        return plot.svg(f"{name} over time.")


def wealth_svg(status: Json, narrow: bool = False) -> str:
    """Draw the evidence that the promise is broken, with what shows it.

    Parameters
    ----------
    status, narrow
        As for `flags_svg`.
    """
    promise = status["promise"]
    course, decided = promise["course"], promise["decided"]
    goal = max(promise[name].get("wanted") or 0.0 for name in ("coverage", "fpr"))
    with drawing(*_size(narrow)) as plot:
        at, axes = Moments.of_course(course), plot.axes
        most = goal + 3.0
        for name, colour, label in (
            ("coverage", HALLUCINATED, "too little is caught"),
            ("fpr", FAITHFUL, "too many false alarms"),
        ):
            if wealth := course["log_wealth_broken"].get(name):
                values = [_power(min(most, value)) for value in wealth]
                at.line(plot, values, colour, label, scale=1.0)
        axes.axhline(math.exp(goal), color=REJECTED, linewidth=1.1, linestyle=DASHED)
        _broken(plot, at, decided)
        _finish(plot, at, "wealth, from 1", bottom=None)
        axes.set_yscale("log")
        axes.set_ylim(_power(_LEAST), math.exp(most))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.minorticks_off()
        return plot.svg("Wealth of the bets that the promise is broken, over time.")


def rates_svg(status: Json, narrow: bool = False) -> str:
    """Draw the confidence sequences of coverage and FPR, with what was promised.

    Parameters
    ----------
    status, narrow
        As for `flags_svg`.
    """
    promise = status["promise"]
    course = promise["course"]
    with drawing(*_size(narrow)) as plot:
        at = Moments.of_course(course)
        for name, colour, label, style in (
            ("coverage", HALLUCINATED, "caught", "-"),
            ("fpr", FAITHFUL, "false alarms", (0, (5, 2))),
        ):
            found = course[name]
            both = zip(found["lower"], found["upper"], strict=True)
            at.band(plot, [{"lower": low, "upper": high} for low, high in both], colour)
            at.line(plot, found["estimate"], colour, label, linestyle=style)
            if (limit := promise["limits"][name]) is not None:
                plot.axes.axhline(100.0 * limit, color=colour, linewidth=1.1, linestyle=DASHED)
        _broken(plot, at, promise["decided"])
        _finish(plot, at, "% of the class")
        plot.axes.set_ylim(-1.0, 101.0)
        return plot.svg("Confidence sequences of coverage and false alarms over time.")


def _size(narrow: bool) -> tuple[float, float]:
    return (4.1, 2.9) if narrow else (7.2, 2.6)


def _power(log: float) -> float:
    """Return what a logarithm stands for, from the least on that is drawn."""
    return math.exp(min(700.0, max(_LEAST, log)))


def _in_powers(value: float, _: object) -> str:
    """Return a power of ten: mathematical text would need fonts that a page lacks."""
    raised = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")
    exponent = round(math.log10(value))
    return f"{value:,.0f}" if 0 <= exponent < 4 else f"10{str(exponent).translate(raised)}"


def _share(item: Json, key: str) -> float | None:
    return item[key] / item["n"] if item["n"] else None


def _languages(timeline: Sequence[Json]) -> list[str]:
    """Return the languages with most answers, the most frequent first."""
    totals: dict[str, int] = {}
    for item in timeline:
        for language, n in item["languages"].items():
            totals[language] = totals.get(language, 0) + n
    return sorted(totals, key=lambda name: (-totals[name], name))[:_MOST_LINES]


def _marks(plot: Plot, at: Moments, alarms: Sequence[Json]) -> None:
    """Mark each alarm, and the time within which the change lies that it speaks of."""
    for alarm in alarms:
        where = at.of(alarm)
        low, high = at.of(alarm["since"]["lower"]), at.of(alarm["since"]["upper"])
        if low is not None and high is not None:
            plot.axes.axvspan(low, high, color=INCONCLUSIVE, alpha=0.3, linewidth=0)
        if where is not None:
            plot.axes.axvline(where, color=INCONCLUSIVE, linewidth=1.3)


def _broken(plot: Plot, at: Moments, decided: Json | None) -> None:
    where = at.of(decided)
    if where is not None:
        plot.axes.axvline(where, color=REJECTED, linewidth=1.3)


def _finish(plot: Plot, at: Moments, what: str, bottom: float | None = 0.0) -> None:
    """Name the axes, and give dates as few words as they need."""
    axes = plot.axes
    axes.set(ylabel=what)
    if bottom is not None:
        axes.set_ylim(bottom=bottom)
    if at.dated:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        places = AutoDateLocator(minticks=3, maxticks=8)
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(places))
    else:
        axes.set_xlabel(at.unit)
    if len(set(at.x)) > 1:
        axes.set_xlim(min(at.x), max(at.x))
    axes.tick_params(colors=QUIET)
    plot.legend(3, handlelength=1.8)
