"""How do two score distributions and a table of intervals look as pictures?"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.phrases import number
from calibrail.report.phrases import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Stand-ins that matplotlib draws with, since the page's style sheet decides on the colours: the
#: name there, and the colour in a file that stands alone on white.
COLOURS: Final = {
    "#010101": ("var(--ink)", "#1c2330"),
    "#020202": ("var(--quiet)", "#5b6474"),
    "#030303": ("var(--hallucinated)", "#c2410c"),
    "#040404": ("var(--faithful)", "#1d6fb8"),
    "#050505": ("var(--certified)", "#157347"),
    "#060606": ("var(--rejected)", "#b42318"),
    "#070707": ("var(--inconclusive)", "#8a5a08"),
    "#0a0a01": ("var(--s1)", "#0b62a4"),
    "#0a0a02": ("var(--s2)", "#c2410c"),
    "#0a0a03": ("var(--s3)", "#157347"),
    "#0a0a04": ("var(--s4)", "#7c3aed"),
    "#0a0a05": ("var(--s5)", "#8a5a00"),
    "#0a0a06": ("var(--s6)", "#be185d"),
}
INK, QUIET, HALLUCINATED, FAITHFUL, *_OTHERS = COLOURS
#: Colours of the verdicts certified, rejected and inconclusive; and of what is told apart.
VERDICT_COLOURS: Final = _OTHERS[:3]
SERIES: Final = _OTHERS[3:]

#: What joins two parts of a label, by whether the figure is narrow.
_NEXT: Final = (" ", "\n")

#: Limits of the curve's axes, in percent: left, right, bottom, top.
CURVE_RANGE: Final = (-1.0, 101.0, -1.0, 103.0)

#: Groups that a figure shows at most.
MOST_GROUPS: Final = 30


def distributions_svg(
    hallucinated: NDArray[np.float64],
    faithful: NDArray[np.float64],
    threshold: float | None,
    name: str,
    narrow: bool = False,
) -> str:
    """Draw the two classes' test scores as histograms with the threshold between them.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores, higher = more likely hallucinated; undefined (NaN) ones are left out.
    threshold : float or None
        Answers at or right of it are flagged; no line if None.
    name : str
        Name of the score, for the axis.
    narrow : bool
        Draw for a phone: stack what else stands side by side.

    Returns
    -------
    str
        An ``<svg>`` element that inherits its colours from the page; the same input gives the
        same text. Values beyond the 0.2 % and 99.8 % quantiles are drawn in the outermost bars.
    """
    classes = [values[np.isfinite(values)] for values in (hallucinated, faithful)]
    low, high = drawn_range(hallucinated, faithful, threshold)
    edges = np.linspace(low, high, 49)
    with drawing(*((4.1, 3.0) if narrow else (7.2, 3.1))) as (figure, axes):
        shown = (("hallucinated", HALLUCINATED), ("faithful", FAITHFUL))
        for values, (label, colour) in zip(classes, shown, strict=True):
            if len(values) == 0:
                continue
            counts, _ = np.histogram(np.clip(values, low, high), bins=edges)
            heights = 100.0 * counts / len(values)
            axes.stairs(heights, edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(
                heights, edges, color=colour, linewidth=1.4, label=f"{label} (n = {len(values):,})"
            )
        axes.set_ylim(0.0, max(1.0, axes.get_ylim()[1]) * 1.22)
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=1.4, linestyle=(0, (4, 3)))
            right = (threshold - low) / (high - low) > 0.7
            axes.annotate(
                f"flagged from {number(threshold)}",
                (threshold, 0.99),
                xycoords=("data", "axes fraction"),
                xytext=(-5 if right else 5, 0),
                textcoords="offset points",
                ha="right" if right else "left",
                va="top",
                color=INK,
            )
        axes.set_xlim(low, high)
        axes.set_xlabel(
            f"{axis_text(name)} score{_NEXT[narrow]}(higher = more likely hallucinated)"
        )
        axes.set_ylabel("% of the class")
        if any(len(values) for values in classes):
            figure.legend(
                loc="upper center",
                ncols=1 if narrow else 2,
                frameon=False,
                labelcolor=INK,
                bbox_to_anchor=(0.5, 1.2 if narrow else 1.08),
            )
        return as_svg(figure, "Histogram of the test scores of hallucinated and faithful answers.")


def curve_svg(
    curve: Mapping[str, Any],
    at: Mapping[str, Any],
    max_fpr: float | None,
    narrow: bool = False,
) -> str:
    """Draw coverage against FPR over all thresholds, each with its simultaneous band.

    Parameters
    ----------
    curve : mapping
        ``calibrail.evaluation.sections.curve.operating_curve``.
    at : mapping
        ``coverage`` and ``fpr`` of the threshold in use, marked in the figure.
    max_fpr : float or None
        Highest acceptable FPR, drawn as a line.
    narrow : bool
        Draw for a phone.
    """
    coverage, fpr = curve["coverage"], curve["fpr"]
    x, y = (100 * np.array([1.0, *part["estimate"], 0.0]) for part in (fpr, coverage))
    with drawing(*((4.1, 3.4) if narrow else (7.2, 3.8))) as (figure, axes):
        # The true curve runs between the two: more caught for fewer alarms, and the reverse.
        best = (100 * np.array(fpr["lower"]), 100 * np.array(coverage["upper"]))
        worst = (100 * np.array(fpr["upper"]), 100 * np.array(coverage["lower"]))
        outline = [np.concatenate([a, b[::-1]]) for a, b in zip(best, worst, strict=True)]
        axes.fill(*outline, color=HALLUCINATED, alpha=0.16, linewidth=0)
        axes.plot(x, y, color=HALLUCINATED, linewidth=1.6)
        axes.plot([0, 100], [0, 100], color=QUIET, linewidth=1.0, linestyle=(0, (1, 3)))
        point = (100 * at["fpr"]["estimate"], 100 * at["coverage"]["estimate"])
        axes.plot([point[0]], [point[1]], "o", color=INK, markersize=6)
        left = point[0] > 70
        axes.annotate(
            "this threshold",
            point,
            xytext=(-8 if left else 8, -12),
            textcoords="offset points",
            ha="right" if left else "left",
            color=INK,
        )
        if max_fpr is not None:
            axes.axvline(100 * max_fpr, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_xlim(*CURVE_RANGE[:2])
        axes.set_ylim(*CURVE_RANGE[2:])
        axes.set_xlabel("false alarms, % of faithful answers")
        axes.set_ylabel("caught, % of hallucinations")
        return as_svg(
            figure, "Coverage against false positive rate over all thresholds, with band."
        )


def groups_svg(section: Mapping[str, Any], narrow: bool = False) -> str:
    """Draw what is caught and wrongly flagged in each group, with exact bounds.

    Parameters
    ----------
    section : mapping
        ``evaluation.sections.by_group.by_group``; the first ``MOST_GROUPS`` rows are drawn.
    narrow : bool
        Draw for a phone.
    """
    rows = section["rows"][:MOST_GROUPS]
    with drawing(4.1 if narrow else 7.2, 1.3 + 0.42 * max(1, len(rows))) as (figure, axes):
        for place, row in enumerate(rows):
            for key, colour, shift, mark in (
                ("coverage", HALLUCINATED, -0.14, "o"),
                ("fpr", FAITHFUL, 0.14, "s"),
            ):
                label = {"coverage": "caught", "fpr": "false alarms"}[key]
                draw_interval(axes, place + shift, row[key], colour, mark, label, scale=100.0)
            limits = (("min_coverage", HALLUCINATED, -0.32), ("max_fpr", FAITHFUL, 0.32))
            for key, colour, reach in limits:
                if row.get(key) is not None:
                    axes.plot(
                        [100 * row[key]] * 2,
                        [place, place + reach],
                        color=colour,
                        linewidth=1.2,
                        linestyle=(0, (2, 1.5)),
                    )
        axes.set_yticks(range(len(rows)), [axis_text(row["group"]) or "(none)" for row in rows])
        axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
        axes.set_xlim(-1.0, 101.0)
        axes.set_xlabel(f"% of the class,{_NEXT[narrow]}exact bounds over all groups")
        if axes.get_legend_handles_labels()[1]:
            figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=INK)
        return as_svg(figure, "Share caught and false alarms in each group, with bounds.")


def shift_svg(content: Mapping[str, Any], narrow: bool = False) -> str:
    """Draw the caught share of every test of a drift audit with its interval, and the promise.

    Parameters
    ----------
    content : mapping
        The content of ``shift.json``.
    narrow : bool
        Drawn the same for a phone.
    """
    tests = [item for item in content["tests"] if item["coverage"]["estimate"] is not None]
    with drawing(7.2, 0.9 + 0.34 * max(1, len(tests))) as (figure, axes):
        for place, item in enumerate(tests):
            colour = HALLUCINATED if item["finding"] == "broken" else FAITHFUL
            draw_interval(axes, place, item["coverage"], colour, scale=100.0)
        promised = 100 * (1 - content["alpha"])
        axes.axvline(promised, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(tests)), [axis_text(str(item["tested_on"])) for item in tests])
        axes.set_ylim(max(1, len(tests)) - 0.5, -0.5)
        axes.set_xlim(-1.0, 101.0)
        axes.set_xlabel("caught, % of hallucinated answers")
        return as_svg(figure, "Share of hallucinated answers caught in every test.")


def drawn_range(
    hallucinated: NDArray[np.float64], faithful: NDArray[np.float64], threshold: float | None
) -> tuple[float, float]:
    """Return the scores at which the histogram of ``distributions_svg`` begins and ends."""
    values = np.concatenate([hallucinated, faithful])
    return _limits(values[np.isfinite(values)], threshold)


@contextmanager
def drawing(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """Give an empty figure whose every colour is a stand-in."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "calibrail",
        "font.family": "sans-serif",
        "font.size": 11.0,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": INK,
        "text.parse_math": False,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.unicode_minus": True,
    }
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def draw_interval(
    axes: Axes,
    place: float,
    value: Mapping[str, Any] | None,
    colour: str,
    mark: str = "o",
    label: str | None = None,
    *,
    scale: float = 1.0,
    size: float = 6.0,
) -> None:
    """Draw an estimate on its interval, level with ``place``; nothing where there is none.

    Of marks that bear one label the first alone stands in the legend; a small mark has a thin line.
    """
    if not value or value["estimate"] is None:
        return
    if value["lower"] is not None:
        ends = [scale * value["lower"], scale * value["upper"]]
        axes.plot(ends, [place, place], color=colour, linewidth=2.0 if size > 5.0 else 1.0)
    if label in axes.get_legend_handles_labels()[1]:
        label = None
    axes.plot(
        [scale * value["estimate"]], [place], mark, color=colour, markersize=size, label=label
    )


def as_svg(figure: Figure, label: str) -> str:
    """Return the figure as one inline element without date, metadata or addresses."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
    )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<!--.*?-->", "", text, flags=re.DOTALL)
    opening = re.match(r"<svg[^>]*>", text)
    box = re.search(r'viewBox="([^"]*)"', text)
    if opening is None or box is None:
        raise ValueError("matplotlib wrote a figure without a view box")
    head = f'<svg viewBox="{box[1]}" role="img" aria-label="{label}">'
    text = head + text[opening.end() :].replace("xlink:href", "href")
    for stand_in, (variable, _) in COLOURS.items():
        text = text.replace(stand_in, variable)
    return text.rstrip() + "\n"


def _limits(values: NDArray[np.float64], threshold: float | None) -> tuple[float, float]:
    """Return the range to draw: nearly all values, and the threshold."""
    bound = 1e150  # far beyond it, sums and products that matplotlib forms overflow
    points = np.quantile(values, [0.002, 0.998]).tolist() if len(values) else [0.0, 1.0]
    if threshold is not None:
        points.append(threshold)
    low, high = max(-bound, min(points)), min(bound, max(points))
    margin = 0.03 * (high - low) or max(abs(high) * 0.1, 0.5)
    return low - margin, high + margin


def axis_text(text: str) -> str:
    """Return a name that fits the figure."""
    flat = plain(text)
    return flat if len(flat) <= 32 else flat[:29] + "..."
