"""Labels, plan, watch."""

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, Final, Self

from calibrail.errors import InputError
from calibrail.formatting import Scale, floor_percent
from calibrail.report.document import Json
from calibrail.report.figures import plot as plots

#: How the lines of the two rates are broken: what is caught, and false alarms.
_LINES: Final = ("-", (0, (5, 2)))
#: The four bets: what each is on, its line and whether it speaks for the guardrail.
BETS: Final = {
    "coverage_kept": ("enough is caught", _LINES[0], True),
    "fpr_kept": ("few enough false alarms", _LINES[1], True),
    "coverage_broken": ("too little is caught", _LINES[0], False),
    "fpr_broken": ("too many false alarms", _LINES[1], False),
}
#: Wealths beyond these are drawn at the edge of the figure, the upper one in shares of the goal; a
#: bet that lost more than half has lost.
_LEAST: Final = 0.5
_MOST: Final = 20.0
#: Stretches of a course that are drawn: more would be narrower than a pixel of a small figure.
_MOST_STRETCHES: Final = 128
#: Groups of a share, such as languages, that one figure shows.
_MOST_LINES: Final = 5


def wealth_svg(course: Json, goals: Json, narrow: bool = False) -> str:
    """Draw the highest wealth of the four bets so far over the labels, with their goals.

    What has won twenty times what it has to is drawn there.

    Parameters
    ----------
    course : mapping
        ``sequential.course`` of a certificate from labels.
    goals : mapping
        Holds ``kept_at`` and ``broken_at``, logarithms.
    narrow : bool
        Draw for a phone.
    """
    with plots.drawing(4.1 if narrow else 7.2, 3.9 if narrow else 3.6) as plot:
        axes, labelled = plot.axes, course["labelled"]
        most = _MOST * math.exp(goals["broken_at"])
        for name, (meaning, line, good) in BETS.items():
            wealth = [min(most, _power(value)) for value in course[name]]
            colour = plots.CERTIFIED if good else plots.REJECTED
            axes.plot(labelled, wealth, color=colour, linewidth=1.8, linestyle=line, label=meaning)
        for key, colour in (("kept_at", plots.CERTIFIED), ("broken_at", plots.REJECTED)):
            axes.axhline(math.exp(goals[key]), color=colour, linewidth=1.0, linestyle=plots.DOTTED)
        axes.set(xlabel="labelled answers", ylabel="wealth, from 1")
        _logarithmic(plot, 1.2 * most)
        axes.set_xlim(0, max(1, *labelled))
        plot.legend(1 if narrow else 2, handlelength=2.6)
        return plot.svg("Wealth of the four bets by the number of labelled answers.")


def intervals_svg(course: Json, asked: Json, narrow: bool = False) -> str:
    """Draw the confidence sequences of both rates over the labels, with what was asked.

    Parameters
    ----------
    course : mapping
        ``sequential.course`` of a certificate from labels.
    asked : mapping
        Holds ``min_coverage`` and ``max_fpr``.
    narrow : bool
        Draw for a phone.
    """
    with plots.drawing(4.1 if narrow else 7.2, 3.9 if narrow else 3.6) as plot:
        labelled = course["labelled"]
        limits = {"coverage": asked["min_coverage"], "fpr": asked["max_fpr"]}
        _rates(CoursePoints(plot, labelled, False, ""), course, limits, alpha=0.2, width=1.8)
        plot.axes.set(xlabel="labelled answers", ylabel="% of the class", ylim=(-1.0, 101.0))
        plot.axes.set_xlim(0, max(1, *labelled))
        plot.axes.tick_params(colors=plots.QUIET)
        plot.legend(2, handlelength=2.6)
        return plot.svg("Confidence sequences of both rates by the number of labelled answers.")


#: File formats of the figure, each with its metadata: who made it, and nothing that would make two
#: runs differ.
FIGURE_FORMATS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "svg": {"Creator": "calibrail", "Date": None},
    "png": {"Software": "calibrail"},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "calibrail"},
}

#: The verdicts, each with its line.
VERDICTS: Final = {"certified": "-", "rejected": (0, (5, 2)), "inconclusive": (0, (1, 1.5))}


def plan_svg(plan: Json, narrow: bool = False) -> str:
    """Draw the probability of each verdict over the labelled answers, for the page.

    Parameters
    ----------
    plan : mapping
        ``Plan.to_dict()``, made with assumptions.
    narrow : bool
        Draw for a phone.
    """
    with plots.drawing(4.1 if narrow else 7.2, 3.8) as plot:
        _draw(plot, plan, {colour: colour for colour in plots.COLOURS})
        return plot.svg("Probability of each verdict by the number of labelled answers.")


def draw_plan(plan: Json, format: str = "svg") -> bytes:
    """Draw the probability of each verdict over the labelled answers.

    Parameters
    ----------
    plan : mapping
        ``Plan.to_dict()``, made with assumptions.
    format : {"svg", "png", "pdf"}
        Format of the file.

    Returns
    -------
    bytes
        Content of a file that stands alone, on white; the same plan gives the same bytes.

    Raises
    ------
    InputError
        If the format is another, or the plan assumes nothing and so has no curve.
    """
    if format not in FIGURE_FORMATS:
        raise InputError(f"format must be one of {', '.join(FIGURE_FORMATS)}; got {format!r}")
    if not plan["curve"]["n"]:
        raise InputError.on("plan_without_curve")
    on_white = {stand_in: colour for stand_in, (_, colour) in plots.COLOURS.items()}
    buffer, metadata = io.BytesIO(), dict(FIGURE_FORMATS[format])
    with plots.drawing(7.2, 3.8, on_white[plots.INK], on_white[plots.QUIET]) as plot:
        _draw(plot, plan, on_white)
        plot.figure.savefig(buffer, format=format, dpi=200, facecolor="white", metadata=metadata)
    return buffer.getvalue()


def _draw(plot: plots.Plot, plan: Json, colours: Mapping[str, str]) -> None:
    """Draw the curves, each stand-in in the colour that this medium gives it."""
    axes, curve = plot.axes, plan["curve"]
    # Too few answers to calibrate give no verdict, and nothing to draw.
    undecided = [share == 1.0 and bool(plan["guarantee"]) for share in curve["inconclusive"]]
    start = undecided.index(False) if False in undecided else 0
    for (verdict, dashes), stand_in in zip(VERDICTS.items(), plots.VERDICT_COLOURS, strict=True):
        n, shares = curve["n"][start:], [100.0 * share for share in curve[verdict][start:]]
        colour = colours[stand_in]
        axes.plot(n, shares, color=colour, linewidth=1.8, linestyle=dashes, label=verdict)
    low, high = curve["n"][0], curve["n"][-1]
    if high > 50 * low:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    quiet = colours[plots.QUIET]
    axes.axhline(100.0 * plan["power"], color=quiet, linewidth=0.9, linestyle=plots.DOTTED)
    if plan["at"] and low <= plan["n"] <= high:
        plot.target(plan["n"], 1.1, colours[plots.INK])
        text = f"{plan['n']:,} answers:\nat least {floor_percent(plan['power'])} from here on"
        offset = -7 if plan["n"] > 0.7 * high else 7
        plot.note(text, (plan["n"], 0.5), (offset, 0), va="center")
    axes.set(xlim=(low, high), ylim=(-1.0, 102.0))
    axes.set(xlabel="labelled answers", ylabel="probability of the verdict, %")
    plot.legend(3, handlelength=2.6)


@dataclass(frozen=True, slots=True)
class CoursePoints:
    """Where the points of a course stand: at their times, or at numbers where times are unknown.

    Attributes
    ----------
    plot : Plot
        What is drawn in.
    x : list of float
        Where each stands.
    dated : bool
        Whether these are times, in days.
    unit : str
        What is counted where they are not.
    """

    plot: plots.Plot
    x: list[float]
    dated: bool
    unit: str

    @classmethod
    def of_periods(cls, plot: plots.Plot, periods: Sequence[Json]) -> Self:
        """Return the middles of periods, which hold ``from``, ``to``, ``row`` and ``n``."""
        if periods and all(item["from"] and item["to"] for item in periods):
            ends = [_days([item["from"], item["to"]]) for item in periods]
            return cls(plot, [(low + high) / 2.0 for low, high in ends], True, "")
        return cls(plot, [item["row"] + item["n"] / 2.0 for item in periods], False, "answers")

    @classmethod
    def of_course(cls, plot: plots.Plot, course: Json) -> Self:
        """Return the latest times up to draws, or else their numbers.

        A batch is drawn by lot, so that the times of its draws go forth and back.
        """
        if course["time"] and None not in course["time"]:
            return cls(plot, list(accumulate(_days(course["time"]), max)), True, "")
        return cls(plot, [float(n) for n in course["draw"]], False, "drawn answers")

    def of(self, place: Json | None) -> float | None:
        """Return where a row or a time stands; None where it cannot be told."""
        if not place:
            return None
        if self.dated:
            return _days([place["time"]])[0] if place.get("time") else None
        row = place.get("row", place.get("draw"))
        return None if row is None else float(row)

    def middle(self, window: Json) -> float:
        """Return the middle of a window of draws; its first draw where no time is known."""
        if self.dated and window["to"]:
            return sum(_days([window["from"], window["to"]])) / 2.0
        return math.nan if self.dated else float(window["draw"])

    def _stretches(self, known: Sequence[bool]) -> list[list[int]]:
        """Return the numbers of the points by stretches, of each the known ones if any is."""
        size = max(1, math.ceil(len(known) / _MOST_STRETCHES))
        parts = (range(at, min(at + size, len(known))) for at in range(0, len(known), size))
        return [[at for at in part if known[at]] or [part[0]] for part in parts]

    def line(
        self, values: Sequence[float | None], colour: str, label: str = "", **style: Any
    ) -> None:
        """Draw values over time, of a stretch the least and the largest; a lonely one as a dot."""
        scale = style.pop("scale", 100.0)
        shown = [math.nan if value is None else scale * value for value in values]
        parts = self._stretches([value is not None for value in values])
        kept = sorted({pick(part, key=shown.__getitem__) for part in parts for pick in (min, max)})
        x, y = [self.x[at] for at in kept], [shown[at] for at in kept]
        style = {"linewidth": 1.5, "marker": "o" if len(shown) == 1 else "", **style}
        self.plot.axes.plot(x, y, label=label or None, color=colour, **style)

    def band(
        self, values: Sequence[Json | None], colour: str, label: str = "", alpha: float = 0.22
    ) -> None:
        """Draw from lower to upper bounds, in percent, of a stretch the outermost ones."""
        nothing = {"lower": math.nan, "upper": math.nan}
        ends = [value if value and value["lower"] is not None else nothing for value in values]
        parts = self._stretches([value is not nothing for value in ends])
        x = [self.x[part[0]] for part in parts[:-1]] + self.x[-1:]
        low = [100.0 * min(ends[at]["lower"] for at in part) for part in parts]
        high = [100.0 * max(ends[at]["upper"] for at in part) for part in parts]
        style: Json = {"color": colour, "label": label or None}
        if len(x) == 1:
            self.plot.axes.plot(x * 2, [low[0], high[0]], linewidth=2.0, **style)
        else:
            self.plot.axes.fill_between(x, low, high, alpha=alpha, linewidth=0, **style)


def _days(times: Sequence[str]) -> list[float]:
    """Return times as figures count them."""
    from matplotlib.dates import date2num

    return [float(date2num(datetime.fromisoformat(time))) for time in times]


#: Panels of a timeline below its traffic: a rate, its colour and its name.
_PANELS: Final = (
    ("coverage", plots.HALLUCINATED, "caught"),
    ("fpr", plots.FAITHFUL, "false alarms"),
)
#: What happened: the place of each as alarms have it, its name, and whether the promise broke.
Events = Sequence[tuple[Json, str, bool]]
#: Levels that the names of events take in turns, so that those of neighbours do not meet.
_LEVELS: Final = 5


def timeline_svg(status: Json, events: Events, narrow: bool = False) -> str:
    """Draw traffic, what is caught and false alarms over one time, with what happened when.

    Parameters
    ----------
    status : mapping
        A watch's ``status.json``.
    events : sequence of (mapping, str, bool)
        Place of each, as alarms have it, its name, and whether the promise broke.
    narrow : bool
        Draw for a phone.
    """
    timeline, periods = status["timeline"], status["prevalence"]["periods"]
    windows, limits = status["promise"].get("windows", ()), status["promise"]["limits"]
    n_panels = 3 if windows else 1
    with plots.drawing(4.1 if narrow else 7.2, 2.4 + 1.5 * (n_panels - 1)) as whole:
        whole.figure.clear()
        rows = whole.figure.subplots(n_panels, 1, sharex=True, squeeze=False)
        panels = [replace(whole, axes=axes) for axes in rows[:, 0]]
        at = CoursePoints.of_periods(panels[0], timeline)
        at.line([_share(item, "flagged") for item in timeline], plots.INK, "flagged")
        if len(periods) == len(timeline):
            at.band([item["flag_rate"] for item in periods], plots.INK)
        for key, colour in (("undefined", plots.INCONCLUSIVE), ("failed", plots.REJECTED)):
            if any(item[key] for item in timeline):
                shares = [_share(item, key) for item in timeline]
                at.line(shares, colour, "without a score" if key == "undefined" else key)
        _finish(at, "% of answers")
        for plot, (rate, colour, name) in zip(panels[1:], _PANELS, strict=False):
            measured = [item for item in windows if item[rate]["estimate"] is not None]
            x, values = [*map(at.middle, measured)], [item[rate] for item in measured]
            plot.upright_intervals(x, values, colour, 2.0, 100.0)
            estimates = [100.0 * value["estimate"] for value in values]
            plot.axes.plot(x, estimates, "o", color=colour, markersize=5)
            if limits[rate] is not None:
                plot.limit(100.0 * limits[rate], colour)
            plot.axes.set(ylabel=f"% {name}", ylim=(-3.0, 103.0))
            plot.axes.tick_params(colors=plots.QUIET)
        _mark(at, panels, events, narrow)
        return whole.svg("Traffic, caught and false alarms over time, with what happened when.")


def _mark(at: CoursePoints, panels: Sequence[plots.Plot], events: Events, narrow: bool) -> None:
    """Draw events through all panels, their names above the first one."""
    low, high = panels[0].axes.get_xlim()
    for number, (event, name, broken) in enumerate(events):
        if (where := at.of(event)) is None:
            continue
        colour = plots.REJECTED if broken else plots.INCONCLUSIVE
        for plot in panels:
            plot.axes.axvline(where, color=colour, linewidth=1.3)
        left = where > low + 0.7 * (high - low)
        offset = (-3 if left else 3, 3 + 11 * (number % _LEVELS))
        text = str(number + 1) if narrow else name
        panels[0].note(text, (where, 1.0), offset, fontsize=9, color=colour)


def prevalence_svg(status: Json, narrow: bool = False) -> str:
    """Draw how many answers are hallucinated: what flags alone bound, and what labels do.

    Parameters
    ----------
    status, narrow
        As for `timeline_svg`.
    """
    timeline, periods = status["timeline"], status["prevalence"]["periods"]
    with plots.drawing(*_size(narrow)) as plot:
        at = CoursePoints.of_periods(plot, timeline)
        for name, colour, label in (
            ("flags", plots.FAITHFUL, "from flags alone"),
            ("labels", plots.HALLUCINATED, "from labels"),
        ):
            values = [item[name] for item in periods]
            if any(values):
                at.band(values, colour, label)
                at.line([(value or {}).get("estimate") for value in values], colour)
        _finish(at, "% of answers", status["traffic"]["alarms"])
        return plot.svg("Bounds of the share of hallucinated answers over time.")


def traffic_svg(status: Json, narrow: bool = False) -> str:
    """Draw the evidence that traffic has changed, with what raises an alarm.

    Parameters
    ----------
    status, narrow
        As for `timeline_svg`.
    """
    timeline, traffic = status["timeline"], status["traffic"]
    with plots.drawing(*_size(narrow)) as plot:
        at, axes = CoursePoints.of_periods(plot, timeline), plot.axes
        at.line([_power(item["log_e"]) for item in timeline], plots.INK, "evidence", scale=1.0)
        plot.limit(traffic["threshold"], plots.REJECTED)
        _finish(at, "e-value", traffic["alarms"], bottom=None)
        _logarithmic(plot, _MOST * traffic["threshold"])
        axes.yaxis.set_major_formatter(_in_powers)
        return plot.svg("Evidence that traffic has changed, over time.")


def feature_svg(status: Json, feature: str, name: str, narrow: bool = False) -> str:
    """Draw one feature over time, with the alarms that it raised.

    Parameters
    ----------
    status, narrow
        As for `timeline_svg`.
    feature : str
        Which one.
    name : str
        What it is called.
    """
    timeline = status["timeline"]
    alarms = [item for item in status["traffic"]["alarms"] if item["feature"] == feature]
    with plots.drawing(4.1, 2.3) as plot:
        at = CoursePoints.of_periods(plot, timeline)
        if feature == "language":
            for language, colour in zip(_languages(timeline), plots.SERIES, strict=False):
                shares = [
                    item["languages"].get(language, 0) / max(1, sum(item["languages"].values()))
                    for item in timeline
                ]
                at.line(shares, colour, plots.axis_text(language))
        elif feature == "undefined":
            at.line([_share(item, "undefined") for item in timeline], plots.INK)
        else:
            negated = Scale.of(status["score"]).negated and feature == "score"
            means = [item["means"].get(feature) for item in timeline]
            at.line(means, plots.INK, scale=-1.0 if negated else 1.0)
        if feature in ("language", "undefined"):
            _finish(at, "% of answers", alarms)
            plot.axes.set_ylim(top=max(1.0, plot.axes.get_ylim()[1]))
        else:
            _finish(at, "mean", alarms, bottom=None)
        return plot.svg(f"{name} over time.")


def watch_wealth_svg(status: Json, narrow: bool = False) -> str:
    """Draw the evidence that the promise is broken, with what shows it.

    Parameters
    ----------
    status, narrow
        As for `timeline_svg`.
    """
    promise = status["promise"]
    goal = max(promise[name].get("wanted") or 0.0 for name in ("coverage", "fpr"))
    with plots.drawing(*_size(narrow)) as plot:
        at = CoursePoints.of_course(plot, promise["course"])
        for name, colour in (("coverage", plots.HALLUCINATED), ("fpr", plots.FAITHFUL)):
            if wealth := promise["course"]["log_wealth_broken"].get(name):
                values = [_power(min(goal + 3.0, value)) for value in wealth]
                at.line(values, colour, BETS[f"{name}_broken"][0], scale=1.0)
        plot.limit(math.exp(goal), plots.REJECTED)
        _finish(at, "wealth, from 1", decided=promise["decided"], bottom=None)
        _logarithmic(plot, math.exp(goal + 3.0))
        return plot.svg("Wealth of the bets that the promise is broken, over time.")


def rates_svg(status: Json, narrow: bool = False) -> str:
    """Draw the confidence sequences of coverage and FPR, with what was promised.

    Parameters
    ----------
    status, narrow
        As for `timeline_svg`.
    """
    promise = status["promise"]
    with plots.drawing(*_size(narrow)) as plot:
        at = CoursePoints.of_course(plot, promise["course"])
        _rates(at, promise["course"], promise["limits"])
        _finish(at, "% of the class", decided=promise["decided"])
        plot.axes.set_ylim(-1.0, 101.0)
        return plot.svg("Confidence sequences of what is caught and of false alarms over time.")


def _rates(
    at: CoursePoints, course: Json, limits: Json, alpha: float = 0.22, width: float = 1.5
) -> None:
    """Draw the confidence sequences of both rates, and what was asked of each."""
    for (name, colour, label), style in zip(_PANELS, _LINES, strict=True):
        ends = zip(course[name]["lower"], course[name]["upper"], strict=True)
        at.band([{"lower": low, "upper": high} for low, high in ends], colour, alpha=alpha)
        at.line(course[name]["estimate"], colour, label, linestyle=style, linewidth=width)
        if limits[name] is not None:
            at.plot.limit(100.0 * limits[name], colour)


def _logarithmic(plot: plots.Plot, most: float) -> None:
    """Draw wealths on a logarithmic axis, from the least that is drawn."""
    plot.axes.set_yscale("log")
    plot.axes.set_ylim(_LEAST, most)
    plot.axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    plot.axes.minorticks_off()


def _size(narrow: bool) -> tuple[float, float]:
    return (4.1, 2.9) if narrow else (7.2, 2.6)


def _power(log: float) -> float:
    """Return what a logarithm stands for, from the least on that is drawn."""
    return max(_LEAST, math.exp(min(700.0, log)))


def _in_powers(value: float, _: object) -> str:
    """Return a power of ten: mathematical text would need fonts that a page lacks."""
    raised = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")
    exponent = round(math.log10(value))
    return f"{value:,.0f}" if 0 <= exponent < 4 else f"10{str(exponent).translate(raised)}"


def _share(item: Json, key: str) -> float | None:
    return item[key] / item["n"] if item["n"] else None


def _languages(timeline: Sequence[Json]) -> list[str]:
    """Return the languages with most answers, the most frequent first."""
    totals = Counter[str]()
    for item in timeline:
        totals.update(item["languages"])
    return sorted(totals, key=lambda name: (-totals[name], name))[:_MOST_LINES]


def _finish(
    at: CoursePoints,
    what: str,
    alarms: Sequence[Json] = (),
    decided: Json | None = None,
    bottom: float | None = 0.0,
) -> None:
    """Mark alarms, each with the time within which the change lies, and a break; name the axes."""
    axes = at.plot.axes
    for alarm in alarms:
        low, high = at.of(alarm["since"]["lower"]), at.of(alarm["since"]["upper"])
        if low is not None and high is not None:
            axes.axvspan(low, high, color=plots.INCONCLUSIVE, alpha=0.3, linewidth=0)
    for moment, colour in (
        *((alarm, plots.INCONCLUSIVE) for alarm in alarms),
        (decided, plots.REJECTED),
    ):
        if (where := at.of(moment)) is not None:
            axes.axvline(where, color=colour, linewidth=1.3)
    axes.set(ylabel=what)
    if bottom is not None:
        axes.set_ylim(bottom=bottom)
    # Dates are given as few words as they need.
    if at.dated:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        places = AutoDateLocator(minticks=3, maxticks=8)
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(places))
    else:
        axes.set_xlabel(at.unit)
    if len(set(at.x)) > 1:
        axes.set_xlim(min(at.x), max(at.x))
    axes.tick_params(colors=plots.QUIET)
    at.plot.legend(3, handlelength=1.8)
