"""Distributions, curves, groups, rates, removal."""

import base64
import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.formatting import Scale, exact, number, outward
from calibrail.report.document import Json
from calibrail.report.figures import plot as plots
from calibrail.report.text import group_of, is_proven

#: What joins two parts of a label, by whether the figure is narrow.
_NEXT: Final = (" ", "\n")

#: What the axes of a target span, in percent: left, right, bottom, top.
TARGET_RANGE: Final = (0.0, 100.0, 0.0, 100.0)

#: Groups that a figure shows at most.
MOST_GROUPS: Final = 30


def distributions_svg(
    hallucinated: NDArray[np.float64],
    faithful: NDArray[np.float64],
    threshold: float | None,
    name: str,
    scale: Scale,
    narrow: bool = False,
    *,
    names: tuple[str, str] = ("hallucinated", "faithful"),
    acted: tuple[str, str] = ("flagged", "answers"),
    here: float | None = None,
) -> str:
    """Draw the two classes' scores as histograms with the threshold between them.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores as the user knows them; undefined (NaN) ones are left out.
    threshold : float or None
        The threshold, likewise; no line if None.
    name : str
        What the values are called, for the axis.
    scale : Scale
        What a higher value means.
    narrow : bool
        Draw for a phone: stack what else stands side by side.
    names : pair of str
        What the classes are called.
    acted : pair of str
        What is done from the threshold on, and to what.
    here : float, optional
        The score of one answer, which is marked.

    Returns
    -------
    str
        An ``<svg>`` element that inherits its colours from the page; the same input gives the
        same text. Values beyond the 0.2 % and 99.8 % quantiles are drawn in the outermost bars.
    """
    marked = np.array([] if here is None else [here])
    low, high = drawn_range(hallucinated, np.append(faithful, marked), threshold)
    edges = np.linspace(low, high, 49)
    colours, scores = (plots.HALLUCINATED, plots.FAITHFUL), (hallucinated, faithful)
    with plots.drawing(*((4.1, 3.0) if narrow else (7.2, 3.1))) as plot:
        axes = plot.axes
        for label, colour, values in zip(names, colours, scores, strict=True):
            values = values[np.isfinite(values)]
            if n := len(values):
                counts, _ = np.histogram(np.clip(values, low, high), bins=edges)
                heights = 100.0 * counts / n
                axes.stairs(heights, edges, fill=True, color=colour, alpha=0.35)
                named = f"{label} (n = {n:,})"
                axes.stairs(heights, edges, color=colour, linewidth=1.4, label=named)
        axes.set_ylim(0.0, max(1.0, axes.get_ylim()[1]) * 1.22)
        if threshold is not None:
            plot.target(threshold, 1.4)
            offset = -5 if (threshold - low) / (high - low) > 0.7 else 5
            about = "about " * (number(threshold) != exact(threshold))
            text = f"{acted[0]} {'up to' if scale.negated else 'from'} {about}{number(threshold)}"
            plot.note(text, (threshold, 0.99), (offset, 0), va="top")
        for score in marked:
            axes.axvline(score, ymax=0.85, color=plots.INK, linewidth=3.0)
            side = -5 if score > (low + high) / 2.0 else 5
            plot.note("this answer", (score, 0.8), (side, 0))
        axes.set(xlim=(low, high), ylabel="% of the class")
        higher = names[1] if scale.negated else names[0]
        axes.set_xlabel(f"{plots.axis_text(name)}{_NEXT[narrow]}(higher = more likely {higher})")
        above = (0.5, 1.2 if narrow else 1.08)
        plot.legend(1 if narrow else 2, "upper center", bbox_to_anchor=above)
        about = f"test scores of {' and '.join(names)}" if here is None else f"scores of {names[0]}"
        return plot.svg(f"Histogram of the {about} {acted[1]}.")


class TargetBox(NamedTuple):
    """What is shown of both rates, as shares, and the corner that was required.

    Attributes
    ----------
    coverage, fpr : pair of float
        Ends of the box: bounds from below and from above. An end that decides about a limit is the
        bound that the verdict rests on.
    at : pair of float or None
        The rates observed, caught first; None where one of them was not observed.
    corner : pair of float or None
        Least share caught and most false alarms; None where nothing was required.
    verdict : str
        In whose colour it is drawn; empty without one.
    """

    coverage: tuple[float, float]
    fpr: tuple[float, float]
    at: tuple[float, float] | None
    corner: tuple[float, float] | None
    verdict: str

    @property
    def lies(self) -> str:
        """Where it lies: ``inside`` the corner, ``outside`` or ``across`` its edge; or nothing."""
        if self.corner is None:
            return ""
        least, most = self.corner
        if self.coverage[0] >= least and self.fpr[1] <= most:
            return "inside"
        return "outside" if self.coverage[1] < least or self.fpr[0] > most else "across"


#: Where the axes of a target stand in it: left, right, bottom, top.
_FIELD: Final = (52.0, 402.0, 300.0, 24.0)


def target_svg(
    box: TargetBox,
    says: Callable[[], str],
    ends: Mapping[str, str],
    curve: Json | None = None,
    _: bool = False,
) -> str:
    """Draw the corner that was required and the box of what is shown, caught over false alarms.

    Parameters
    ----------
    box : TargetBox
        Both.
    says : callable
        Returns the same in words, for those who do not see it.
    ends : mapping of str to str
        Where the box ends, by what each rate is called, to stand beside it.
    curve : mapping, optional
        ``calibrail.evaluation.sections.operating_curve``: what every threshold catches and costs.
    """
    left, right, bottom, top = _FIELD
    drawn = list[str]()
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        (x, y), says_share = _in_field(_FIELD, share, share), f"{100 * share:g}"
        grid = f"M{x} {bottom:g}V{top:g}M{left:g} {y}H{right:g}"
        drawn.append(f'<path d="{grid}" stroke="var(--quiet)" stroke-opacity=".2"/>')
        drawn.append(_text(says_share, x, bottom + 17, anchor="middle"))
        drawn.append(_text(says_share, left - 7, y + 4.5, anchor="end"))
    if curve is not None:
        rates = (curve[name]["estimate"] for name in ("fpr", "coverage"))
        points = [(1.0, 1.0), *zip(*rates, strict=True), (0.0, 0.0)]
        line = " ".join("{},{}".format(*_in_field(_FIELD, *point)) for point in points)
        drawn.append(f'<polyline points="{line}" fill="none" stroke="var(--quiet)"/>')
    if box.corner is not None:
        drawn.append(_text("required", left, top - 8, "certified"))
    drawn.append(_box(_FIELD, box))
    x, y = _in_field(_FIELD, box.fpr[0], box.coverage[0])
    if y > bottom - 18 * len(ends):
        # Above the box, or within it where that is the field: what is required stands above it.
        y = max(top, _in_field(_FIELD, 0.0, box.coverage[1])[1] - 18 * len(ends) - 8)
    # Not across the corner's edges, where these are near.
    edge = _in_field(_FIELD, 0.0, box.corner[0])[1] if box.corner else 0.0
    y = edge if y < edge < min(y + 60, bottom - 18 * len(ends)) else y
    longest = 7.3 * max(len(f"{span} {name}") for name, span in ends.items())
    x, anchor = (x, "start") if x < min((left + right) / 2, right - longest) else (right, "end")
    halo = 'paint-order="stroke" stroke="var(--ground)" stroke-width="4" stroke-linejoin="round"'
    for name, span in ends.items():
        drawn.append(_text(f"{span} {name}", x, y := y + 18, box.verdict or "ink", anchor, halo))
    across, up = ((left + right) / 2, bottom + 36), (14.0, (top + bottom) / 2)
    caught, alarms = ends
    drawn.append(_text(f"{alarms}, % of faithful answers", *across, "ink", "middle"))
    turned = f'transform="rotate(-90 {up[0]:g} {up[1]:g})"'
    drawn.append(_text(f"{caught}, % of hallucinations", *up, "ink", "middle", turned))
    place = " ".join(map(repr, (*_FIELD, *TARGET_RANGE)))
    head = f'viewBox="0 0 424 346" data-place="{place}" role="img" aria-label="{escape(says())}"'
    return f'<svg {head} font-size="14">\n{"".join(drawn)}</svg>\n'


def _in_field(field: tuple[float, ...], across: float, up: float) -> tuple[float, float]:
    """Return where two shares stand in a field of these ends."""
    left, right, bottom, top = field
    return round(left + across * (right - left), 2), round(bottom + up * (top - bottom), 2)


def _text(
    text: str, x: float, y: float, colour: str = "quiet", anchor: str = "start", more: str = ""
) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {place} fill="var(--{colour})" {more}>{escape(text)}</text>'


def _box(field: tuple[float, ...], box: TargetBox) -> str:
    """Return a frame, the corner that was required, the box of what is shown, and its middle."""
    left, right, bottom, top = field
    frame = f"M{left:g} {top:g}V{bottom:g}H{right:g}"
    drawn = [f'<path d="{frame}" fill="none" stroke="var(--quiet)"/>']
    if box.corner is not None:
        x, y = _in_field(field, box.corner[1], box.corner[0])
        style = 'fill="none" stroke="var(--certified)" stroke-width="1.3" stroke-dasharray="5 3"'
        drawn.append(_rect("corner", (left, top, x, y), "certified", ".13"))
        drawn.append(f'<path d="M{left:g} {y}H{x}V{top:g}" {style}/>')
    colour = box.verdict or "faithful"
    (x0, y1), (x1, y0) = (_in_field(field, box.fpr[end], box.coverage[end]) for end in (0, 1))
    edge = f'stroke="var(--{colour})" stroke-width="1.5"'
    drawn.append(_rect("box", (x0, y0, x1, y1), colour, ".22", edge))
    if box.at is not None:
        x, y = _in_field(field, box.at[1], box.at[0])
        radius = 4 if right - left > 200 else 2.5
        drawn.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="var(--{colour})"/>')
    return "".join(drawn)


def _rect(name: str, ends: tuple[float, ...], colour: str, opacity: str, more: str = "") -> str:
    x0, y0, x1, y1 = ends
    place = f'x="{x0:g}" y="{y0:g}" width="{x1 - x0:.2f}" height="{y1 - y0:.2f}"'
    fill = f'fill="var(--{colour})" fill-opacity="{opacity}"'
    return f'<rect class="{name}" {place} {fill} {more}/>'


#: Width and height of a group's place among the targets of groups, and its axes in that.
_PLACE: Final = (134.0, 158.0)
_SMALL: Final = (4.0, 118.0, 146.0, 36.0)


def group_targets_svg(
    boxes: Sequence[tuple[str, str, TargetBox]], says: str, narrow: bool = False
) -> str:
    """Draw a small target for each group: its name, its verdict, its corner and its box.

    Parameters
    ----------
    boxes : sequence of (str, str, TargetBox)
        Names, verdicts in few words, and boxes.
    says : str
        The same in words.
    narrow : bool
        Draw for a phone: fewer side by side.
    """
    beside = 3 if narrow else 5
    drawn = []
    for place, (name, word, box) in enumerate(boxes):
        x, y = ((place % beside) * _PLACE[0], place // beside * _PLACE[1])
        bold = 'font-weight="600"'
        named = _text(plots.axis_text(name, narrow=True), 4, 14, "ink", more=bold)
        verdict = _text(word, 4, 30, box.verdict or "quiet")
        drawn.append(
            f'<g transform="translate({x:g} {y:g})">{named}{verdict}{_box(_SMALL, box)}</g>'
        )
    width, height = beside * _PLACE[0], math.ceil(len(boxes) / beside) * _PLACE[1]
    head = f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(says)}"'
    return f'<svg {head} font-size="12">\n{"".join(drawn)}</svg>\n'


def groups_svg(
    section: Mapping[str, Any],
    narrow: bool = False,
    *,
    names: tuple[str, str] = ("caught", "false alarms"),
) -> str:
    """Draw what is caught and wrongly flagged in each group, with exact bounds.

    Parameters
    ----------
    section : mapping
        ``evaluation.sections.by_group.by_group``; the first ``MOST_GROUPS`` rows are drawn.
    narrow : bool
        Draw for a phone.
    names : pair of str
        What both shares are called.
    """
    rows = section["rows"][:MOST_GROUPS]
    with plots.drawing(4.1 if narrow else 7.2, 1.3 + 0.42 * max(1, len(rows))) as plot:
        caught = ("coverage", "min_coverage", -1, plots.HALLUCINATED, "o", names[0])
        alarms = ("fpr", "max_fpr", 1, plots.FAITHFUL, "s", names[1])
        for place, row in enumerate(rows):
            for rate, limit, way, colour, mark, called in (caught, alarms):
                plot.interval(place + 0.14 * way, row[rate], colour, mark, called, scale=100.0)
                if row.get(limit) is not None:
                    x, y = [100 * row[limit]] * 2, [place, place + 0.32 * way]
                    plot.axes.plot(x, y, color=colour, linewidth=1.2, linestyle=(0, (2, 1.5)))
        plot.rows([plots.axis_text(group_of(row)) for row in rows])
        bounds = f"% of the class,{_NEXT[narrow]}exact bounds, all together"
        plot.axes.set(xlim=(-1.0, 101.0), xlabel=bounds)
        plot.legend(2)
        return plot.svg(f"Share {names[0]} and {names[1]} in each group, with bounds.")


def rates_svg(rows: Sequence[plots.Row], narrow: bool = False) -> str:
    """Draw what is freed, kept and touched with bounds, and what was asked.

    Parameters
    ----------
    rows : sequence of (str, mapping, float or None)
        As for ``interval_lines``: what is freed, kept and touched.
    narrow : bool
        Draw for a phone.
    """
    with plots.drawing(4.1 if narrow else 7.2, 0.7 + 0.4 * len(rows)) as plot:
        for place, (_, value, asked) in enumerate(rows):
            colour = (plots.HALLUCINATED, plots.FAITHFUL, plots.QUIET)[place]
            plot.interval(place, value, colour, "osD"[place], scale=100.0)
            if asked is not None:
                ends = [place - 0.4, place + 0.4]
                plot.axes.plot(
                    [100 * asked] * 2, ends, color=plots.INK, linewidth=1.2, linestyle=plots.DASHED
                )
        plot.rows([name for name, _, _ in rows])
        plot.axes.set(xlim=(-1.0, 101.0), xlabel="%")
        return plot.svg("Shares fully cleaned, kept and altered with bounds, and what is required.")


def shift_svg(content: Mapping[str, Any], narrow: bool = False) -> str:
    """Draw the caught share of every test of a drift audit with its interval, and the promise.

    Parameters
    ----------
    content : mapping
        The content of ``shift.json``.
    narrow : bool
        Draw for a phone.
    """
    tests = [item for item in content["tests"] if item["coverage"]["estimate"] is not None]
    with plots.drawing(4.1 if narrow else 7.2, 0.9 + 0.34 * max(1, len(tests))) as plot:
        for place, item in enumerate(tests):
            colour = plots.HALLUCINATED if item["finding"] == "broken" else plots.FAITHFUL
            plot.interval(place, item["coverage"], colour, scale=100.0)
        plot.target(100 * (1 - content["alpha"]))
        plot.rows([plots.axis_text(str(item["tested_on"]), narrow) for item in tests])
        plot.axes.set(xlim=(-1.0, 101.0), xlabel="caught, % of hallucinated answers")
        return plot.svg("Share of hallucinated answers caught in every test.")


def drawn_range(
    hallucinated: NDArray[np.float64], faithful: NDArray[np.float64], threshold: float | None
) -> tuple[float, float]:
    """Return where the histogram of ``distributions_svg`` begins and ends.

    It holds nearly all values, and the threshold.
    """
    bound = 1e150  # far beyond it, sums and products that matplotlib forms overflow
    values = np.concatenate([hallucinated, faithful])
    values = values[np.isfinite(values)]
    points = np.quantile(values, [0.002, 0.998]).tolist() if len(values) else [0.0, 1.0]
    if threshold is not None:
        points.append(threshold)
    low, high = max(-bound, min(points)), min(bound, max(points))
    margin = 0.03 * (high - low) or max(abs(high) * 0.1, 0.5)
    return low - margin, high + margin


#: Limits of the axes, in percent: left, right, bottom, top.
_RANGE: Final = (-2.0, 102.0, -2.0, 104.0)


def freed_and_kept_svg(
    section: Mapping[str, Any],
    at: Mapping[str, Any],
    asked: tuple[float, float | None],
    others: Sequence[Mapping[str, Any]],
    narrow: bool = False,
) -> str:
    """Draw the share of answers freed against that of supported sentences kept, over thresholds.

    Parameters
    ----------
    section : mapping
        ``sentences`` of a report: its ``curve``, and ``flagged_whole``.
    at : mapping
        ``freed`` and ``kept_supported`` at the threshold in use.
    asked : pair of float or None
        The shares to be freed and to be kept.
    others : sequence of mapping
        The same of other scores, at the thresholds of the same target.
    narrow : bool
        Draw for a phone.
    """
    curve, whole = section["curve"], section["flagged_whole"]
    with plots.drawing(*((4.1, 4.0) if narrow else (7.2, 4.2))) as plot:
        axes = plot.axes
        for limit, line in zip(asked, (axes.axhline, axes.axvline), strict=True):
            if limit is not None:
                line(100 * limit, color=plots.INK, linewidth=1.0, linestyle=plots.DASHED)
        # Removing nothing, and removing everything, need no threshold.
        kept, freed = [0.0, *curve["kept"], 1.0], [1.0, *curve["freed"], 0.0]
        points = sorted(zip(kept, freed, strict=True), key=lambda point: (point[0], -point[1]))
        x, y = ([100 * value for value in values] for values in zip(*points, strict=True))
        axes.plot(x, y, color=plots.HALLUCINATED, linewidth=1.6, label="this score, any threshold")
        if others:
            x, y = _places(others)
            axes.plot(x, y, "x", color=plots.QUIET, markersize=6, label="others, same target")
        x, y = _places([whole])
        axes.plot(x, y, "s", color=plots.FAITHFUL, markersize=6, label="whole answers withheld")
        for end, along in (("kept_supported", True), ("freed", False)):
            ends = [100 * at[end][side] for side in ("lower", "upper")]
            across = [100 * at["freed" if along else "kept_supported"]["estimate"]] * 2
            x, y = (ends, across) if along else (across, ends)
            axes.plot(x, y, color=plots.INK, linewidth=1.2)
        x, y = _places([at])
        axes.plot(x, y, "o", color=plots.INK, markersize=6, label="in use")
        axes.set(xlim=_RANGE[:2], ylim=_RANGE[2:])
        axes.set_xlabel("supported sentences kept, %")
        axes.set_ylabel("hallucinated answers fully cleaned, %")
        plot.legend(1 if narrow else 2)
        return plot.svg("Answers fully cleaned against supported sentences kept, by threshold.")


def _places(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return where measures stand, in percent."""
    kept, freed = ([100 * it[k]["estimate"] for it in rows] for k in ("kept_supported", "freed"))
    return kept, freed


#: Thresholds that the slider offers at most, beside the one in use.
MOST: Final = 400

#: What is known at each threshold, in this order.
FIELDS: Final = tuple((k, it) for k in ("coverage", "fpr") for it in ("estimate", "lower", "upper"))


def operating_points(report: Json) -> dict[str, Any] | None:
    """Return the thresholds that the slider offers, each with what it catches and costs.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.

    Returns
    -------
    dict or None
        ``points``, lists of the threshold, ascending as shown, and of what ``FIELDS`` names;
        ``start`` and ``in_use``, places in it, the latter None where no single threshold decides;
        ``jumps``, the places of ``edges`` by name, those that exist. None without a curve.

    Notes
    -----
    Between two thresholds of the curve, the band is that of its neighbours: what is caught and
    what is flagged only fall as the threshold rises, so their bounds hold in between, too.
    """
    if not report["curve"]:
        return None
    points, start, in_use = _kept(report)
    scale, last = Scale.of(report["score"]), len(points) - 1
    offered = [point[0] for point in points]
    jumps = {
        name: offered.index(report["curve"]["thresholds"][place])
        for name, place in edges(report).items()
        if place is not None
    }
    if scale.negated:
        points = [[scale.shown(point[0]), *point[1:]] for point in points[::-1]]
        start, in_use = last - start, None if in_use is None else last - in_use
        jumps = {name: last - place for name, place in jumps.items()}
    return {"points": points, "start": start, "in_use": in_use, "jumps": jumps}


def edges(report: Json) -> dict[str, int | None]:
    """Return which thresholds of the curve reach either limit; nothing without one.

    Of those that raise few enough false ``alarms`` and catch anything the lowest, and of those that
    have enough ``caught`` the highest; None where there is none.
    """
    curve, most, least = report["curve"], report["max_fpr"], report["min_coverage"]
    if None in (curve, most):
        return {}
    caught, alarms = (curve[rate]["estimate"] for rate in ("coverage", "fpr"))
    kept = (i for i, share in enumerate(alarms) if share <= most and caught[i] > 0.0)
    reached = (i for i, share in enumerate(caught) if share >= least)
    return {"alarms": next(kept, None), "caught": max(reached, default=None)}


def _kept(report: Json) -> tuple[list[list[float]], int, int | None]:
    """Return points, start and place in use by thresholds as they are kept."""
    curve = report["curve"]
    points = [
        [threshold, *(_six(curve[name][end][place], end) for name, end in FIELDS)]
        for place, threshold in enumerate(curve["thresholds"])
    ]
    if len(points) > MOST:
        even = {round(place * (len(points) - 1) / (MOST - 1)) for place in range(MOST)}
        even |= {place for place in edges(report).values() if place is not None}
        points = [points[place] for place in sorted(even)]
    used = None if report["by_group"] else report["threshold"]
    test = report["test"]
    rates = [test[name]["estimate"] for name in ("coverage", "fpr")]
    if is_proven(test["coverage"]) and used is not None:
        # No test part: the curve is of all answers, and what it flags there is flagged here.
        at = bisect_left(curve["thresholds"], used)
        same = [*curve["thresholds"][at : at + 1], *curve.get("below", ())[at : at + 1]]
        if same and (same[0] == used or same[-1] is None or same[-1] < used):
            rates = [curve[name]["estimate"][at] for name in ("coverage", "fpr")]
    if used is None or not math.isfinite(used) or None in rates:
        wanted = 1.0 - report["alpha"]
        start = max((place for place, point in enumerate(points) if point[1] >= wanted), default=0)
        return points, start, None
    place = sum(point[0] < used for point in points)
    # Beyond the ends of the curve all that is known of a share is that it lies in [0, 1].
    before = points[place - 1] if place else [1.0] * 7
    after = points[place] if place < len(points) else [math.inf] + [0.0] * 6
    if on_curve := after[0] == used:
        before = after
    row = [used]
    for column, rate in ((1, round(rates[0], 6)), (4, round(rates[1], 6))):
        row += [rate, min(after[column + 1], rate), max(before[column + 2], rate)]
    points[place : place + on_curve] = [row]
    return points, place, place


def _six(share: float, end: str) -> float:
    """Return a share with six decimals, an end of an interval rounded away from it."""
    if end not in ("lower", "upper"):
        return round(share, 6)
    return float(outward(share, 6, upper=end == "upper"))


def embedded_json(value: Any) -> str:
    r"""Return JSON that may stand inside a ``script`` element: nothing in it can end that.

    Examples
    --------
    >>> embedded_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def source_hash(script: str) -> str:
    """Return how a content security policy names this very script.

    Examples
    --------
    >>> source_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
