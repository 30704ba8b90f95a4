"""How does a comparison look as pictures: forest plot, cost of coverage, other targets?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from calibrail.evaluation.stats.phrases import percent
from calibrail.report.compare_story import sweep_cells
from calibrail.report.figures import INK, QUIET, as_svg, axis_text, drawing
from calibrail.report.svg import standing_alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Dict = Mapping[str, Any]

#: What detectors are drawn with: a stand-in, the page's name for it, the colour on white.
_SERIES: Final = (
    ("#0a0a01", "var(--s1)", "#0b62a4"),
    ("#0a0a02", "var(--s2)", "#c2410c"),
    ("#0a0a03", "var(--s3)", "#157347"),
    ("#0a0a04", "var(--s4)", "#7c3aed"),
    ("#0a0a05", "var(--s5)", "#8a5a00"),
    ("#0a0a06", "var(--s6)", "#be185d"),
)
#: Told apart without colour, too.
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 3)))
_MARKS: Final = ("o", "s", "^", "D", "v", "P")
#: Rows that a forest plot shows at most.
_MOST_ROWS: Final = 40
#: Coverage from which a picture shows what it costs.
_LEAST_SHOWN: Final = 0.5


def draw_compare(comparison: _Dict, *, narrow: bool = False) -> dict[str, str]:
    """Return every figure of a comparison, by a name that can be a file's.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    narrow : bool
        Draw for a phone.

    Returns
    -------
    dict of str to str
        ``<svg>`` elements that take their colours from the page: ``forest``, ``coverage`` and
        ``alpha_sweep``, each where there is something to draw. The same comparison gives the same
        text.
    """
    if not comparison["detectors"]:
        return {}
    drawn = {
        "forest": _forest(comparison, narrow),
        "coverage": _coverage(comparison, narrow),
        "alpha_sweep": _sweep(comparison, narrow),
    }
    return {name: _named(svg) for name, svg in drawn.items() if svg}


def compare_picture(svg: str) -> str:
    """Return a figure of ``draw_compare`` as a file that stands alone, dark on white."""
    for _, variable, colour in _SERIES:
        svg = svg.replace(variable, colour)
    return standing_alone(svg)


def _named(svg: str) -> str:
    for stand_in, variable, _ in _SERIES:
        svg = svg.replace(stand_in, variable)
    return svg


def _forest(comparison: _Dict, narrow: bool) -> str:
    """Draw FPR and AUROC of every score with their intervals, the first row on top."""
    rows = [
        *(
            {"name": d["name"], "fpr": d["test"]["fpr"], "auroc": d["test"]["auroc"], "place": i}
            for i, d in enumerate(comparison["detectors"])
        ),
        *(
            {"name": b["name"], "fpr": b["fpr"], "auroc": b["auroc"], "place": None}
            for b in comparison["baselines"]
        ),
    ][:_MOST_ROWS]
    high = 0.9 + 0.34 * len(rows)
    size = (4.1, 2 * high + 0.3) if narrow else (8.2, high + 0.1)
    with drawing(*size) as (figure, axes):
        axes.remove()
        panels = figure.subplots(2, 1) if narrow else figure.subplots(1, 2, sharey=True)
        limit = comparison["detectors"][0]["max_fpr"]
        for panel, key, scale, label in (
            (panels[0], "fpr", 100.0, "false alarms, % of faithful answers"),
            (panels[1], "auroc", 1.0, "AUROC"),
        ):
            for y, row in enumerate(rows):
                value, place = row[key], row["place"]
                if not value or value["estimate"] is None:
                    continue
                colour = QUIET if place is None else _colour(place)
                ends = [scale * value["lower"], scale * value["upper"]]
                panel.plot(ends, [y, y], color=colour, linewidth=2)
                mark = "o" if place is None else _MARKS[place % len(_MARKS)]
                panel.plot([scale * value["estimate"]], [y], mark, color=colour, markersize=6)
            panel.set_yticks(range(len(rows)), [axis_text(row["name"]) for row in rows])
            panel.set_ylim(len(rows) - 0.5, -0.5)
            panel.set_xlabel(label)
            panel.set_xlim(-0.03 * scale, 1.03 * scale)
        panels[1].axvline(0.5, color=QUIET, linewidth=1.0, linestyle=(0, (1, 3)))
        if limit is not None:
            panels[0].axvline(100 * limit, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        return as_svg(figure, "False positive rate and AUROC of each score with intervals.")


def _coverage(comparison: _Dict, narrow: bool) -> str:
    """Draw what every coverage costs on the test answers, for the first few detectors."""
    shown = [
        (place, item)
        for place, item in enumerate(comparison["detectors"][: len(_SERIES)])
        if item.get("curve")
    ]
    if not shown:
        return ""
    with drawing(*_size(narrow, len(shown), 3.8)) as (figure, axes):
        target = 100.0 * (1.0 - comparison["detectors"][0]["alpha"])
        least = 100.0 * comparison["partial_auroc"]["least_coverage"]
        axes.axvspan(least, 100.0, color=QUIET, alpha=0.10, linewidth=0)
        axes.axvline(target, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        for place, item in shown:
            curve = item["curve"]
            pairs = zip(curve["coverage"]["estimate"], curve["fpr"]["estimate"], strict=True)
            line = sorted({(100.0 * c, 100.0 * f) for c, f in pairs if c >= _LEAST_SHOWN})
            axes.plot(
                [c for c, _ in line], [f for _, f in line], color=_colour(place), linewidth=1.8,
                linestyle=_DASHES[place], label=_entry(item["name"]),
                # Between two coverages that a score can reach, the next one has to be paid for.
                drawstyle="steps-pre",
            )  # fmt: skip
        axes.set_xlim(100.0 * _LEAST_SHOWN, 101.0)
        axes.set_ylim(-1.0, 104.0)
        axes.set_xlabel("caught, % of test hallucinations")
        axes.set_ylabel("false alarms, %")
        _legend(figure, axes, narrow)
        return as_svg(figure, "False alarms that each coverage of the test answers costs.")


def _sweep(comparison: _Dict, narrow: bool) -> str:
    """Draw the FPR of the first few detectors at every target, and which cannot be promised."""
    sweep = comparison["alpha_sweep"]
    rows = [row for row in sweep_cells(comparison) if not row[1]][: len(_SERIES)]
    if not rows:
        return ""
    order = [item["name"] for item in comparison["detectors"]]
    with drawing(*_size(narrow, len(rows), 3.6)) as (figure, axes):
        for i, (name, _, cells) in enumerate(rows):
            place = order.index(name) if name in order else i
            found = [
                (x + 0.1 * (i - (len(rows) - 1) / 2.0), cell["fpr"])
                for x, cell in enumerate(cells)
                if cell and cell["fpr"] and cell["fpr"]["estimate"] is not None
            ]
            colour = _colour(place)
            for x, fpr in found:
                ends = [100 * fpr["lower"], 100 * fpr["upper"]]
                axes.plot([x, x], ends, color=colour, linewidth=1.2)
            axes.plot(
                [x for x, _ in found], [100 * fpr["estimate"] for _, fpr in found],
                color=colour, linewidth=1.4, linestyle=_DASHES[place % len(_DASHES)],
                marker=_MARKS[place % len(_MARKS)], markersize=5, label=_entry(name),
            )  # fmt: skip
        for x, entry in enumerate(sweep):
            if not entry["rank"]:
                axes.axvspan(x - 0.45, x + 0.45, color=QUIET, alpha=0.12, linewidth=0)
                axes.text(
                    x, 50.0, f"not with n = {entry['n']:,}", rotation=90, ha="center", va="center",
                    color=QUIET, fontsize=9.0,
                )  # fmt: skip
        labels = [percent(1.0 - entry["alpha"]).removesuffix("%") for entry in sweep]
        axes.set_xticks(range(len(sweep)), labels)
        axes.set_xlim(len(sweep) - 0.5, -0.5)
        axes.set_ylim(-1.0, 104.0)
        axes.set_xlabel("promised, % of hallucinations caught")
        axes.set_ylabel("false alarms, %")
        _legend(figure, axes, narrow)
        return as_svg(figure, "False alarms at other targets, with intervals.")


def _size(narrow: bool, entries: int, height: float) -> tuple[float, float]:
    """Return inches; a narrow figure's legend has a line an entry."""
    return (4.1, height - 0.4 + 0.24 * entries) if narrow else (8.2, height)


def _legend(figure: Figure, axes: Axes, narrow: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=1 if narrow else 3, frameon=False,
        labelcolor=INK, handlelength=2.8,
    )  # fmt: skip


def _entry(name: str) -> str:
    """Return a name for a legend, where a leading underscore would hide it."""
    text = axis_text(name) or "(none)"
    return f" {text}" if text.startswith("_") else text


def _colour(place: int) -> str:
    return _SERIES[place][0] if place < len(_SERIES) else INK


def detectors_drawn(comparison: _Dict) -> Sequence[str]:
    """Return the detectors that the pictures of curves show."""
    return [item["name"] for item in comparison["detectors"][: len(_SERIES)]]
