"""How does a comparison look as pictures: forest plot, cost of coverage, other targets?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calibrail.phrases import percent
from calibrail.report.blocks import Json
from calibrail.report.figures import INK, QUIET, SERIES, as_svg, axis_text, draw_interval, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Told apart without colour, too.
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 3)))
_MARKS: Final = ("o", "s", "^", "D", "v", "P")
#: Rows that a forest plot shows at most.
_MOST_ROWS: Final = 40
#: Coverage from which a picture shows what it costs.
_LEAST_SHOWN: Final = 0.5

#: Detectors that the pictures of curves show at most.
MOST_SERIES: Final = len(SERIES)


def sweep_rows(comparison: Json) -> list[tuple[str, bool, list[Json | None]]]:
    """Return each score, whether it is a baseline, and its row at every alpha.

    A row is None where nothing can be promised. The order is that of the comparison.
    """
    sweep = comparison["alpha_sweep"]
    baseline = {row["name"]: row["baseline"] for entry in sweep for row in entry["rows"]}
    order = [item["name"] for part in ("detectors", "baselines") for item in comparison[part]]
    ranked = sorted(baseline, key=lambda name: order.index(name) if name in order else len(order))
    return [
        (
            name,
            baseline[name],
            [next((row for row in e["rows"] if row["name"] == name), None) for e in sweep],
        )
        for name in ranked
    ]


def forest_svg(comparison: Json, narrow: bool) -> str:
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
                place = row["place"]
                colour = QUIET if place is None else _colour(place)
                mark = "o" if place is None else _MARKS[place % len(_MARKS)]
                draw_interval(panel, y, row[key], colour, mark, scale=scale)
            panel.set_yticks(range(len(rows)), [axis_text(row["name"]) for row in rows])
            panel.set_ylim(len(rows) - 0.5, -0.5)
            panel.set_xlabel(label)
            panel.set_xlim(-0.03 * scale, 1.03 * scale)
        panels[1].axvline(0.5, color=QUIET, linewidth=1.0, linestyle=(0, (1, 3)))
        if limit is not None:
            panels[0].axvline(100 * limit, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        return as_svg(figure, "False positive rate and AUROC of each score with intervals.")


def coverage_svg(comparison: Json, narrow: bool) -> str:
    """Draw what every coverage costs on the test answers, for the first few detectors."""
    shown = [
        (place, item)
        for place, item in enumerate(comparison["detectors"][:MOST_SERIES])
        if item.get("curve")
    ]
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
                [c for c, _ in line],
                [f for _, f in line],
                color=_colour(place),
                linewidth=1.8,
                linestyle=_DASHES[place],
                label=_entry(item["name"]),
                # Between two coverages that a score can reach, the next one has to be paid for.
                drawstyle="steps-pre",
            )
        axes.set_xlim(100.0 * _LEAST_SHOWN, 101.0)
        axes.set_ylim(-1.0, 104.0)
        axes.set_xlabel("caught, % of test hallucinations")
        axes.set_ylabel("false alarms, %")
        _legend(figure, axes, narrow)
        return as_svg(figure, "False alarms that each coverage of the test answers costs.")


def sweep_svg(comparison: Json, narrow: bool) -> str:
    """Draw the FPR of the first few detectors at every target, and which cannot be promised."""
    sweep = comparison["alpha_sweep"]
    rows = [row for row in sweep_rows(comparison) if not row[1]][:MOST_SERIES]
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
                [x for x, _ in found],
                [100 * fpr["estimate"] for _, fpr in found],
                color=colour,
                linewidth=1.4,
                linestyle=_DASHES[place % len(_DASHES)],
                marker=_MARKS[place % len(_MARKS)],
                markersize=5,
                label=_entry(name),
            )
        for x, entry in enumerate(sweep):
            if not entry["rank"]:
                axes.axvspan(x - 0.45, x + 0.45, color=QUIET, alpha=0.12, linewidth=0)
                axes.text(
                    x,
                    50.0,
                    f"not with n = {entry['n']:,}",
                    rotation=90,
                    ha="center",
                    va="center",
                    color=QUIET,
                    fontsize=9.0,
                )
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
        handles,
        labels,
        loc="outside upper left",
        ncols=1 if narrow else 3,
        frameon=False,
        labelcolor=INK,
        handlelength=2.8,
    )


def _entry(name: str) -> str:
    """Return a name for a legend, where a leading underscore would hide it."""
    text = axis_text(name) or "(none)"
    return f" {text}" if text.startswith("_") else text


def _colour(place: int) -> str:
    return SERIES[place] if place < MOST_SERIES else INK
