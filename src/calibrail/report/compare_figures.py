"""How does a comparison look as pictures: forest plot, cost of coverage, other targets?"""

from typing import Any, Final, NamedTuple

from calibrail.phrases import percent
from calibrail.report.blocks import Json
from calibrail.report.plot import DOTTED, QUIET, SERIES, Plot, axis_text, drawing

#: Told apart without colour, too.
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 3)))
_MARKS: Final = ("o", "s", "^", "D", "v", "P")
#: Rows that a forest plot shows at most.
_MOST_ROWS: Final = 40
#: Coverage from which a picture shows what it costs.
LEAST_SHOWN: Final = 0.5

#: Detectors that the pictures of curves show at most.
MOST_SERIES: Final = len(SERIES)


def sweep_rows(comparison: Json) -> list[tuple[str, bool, list[Json | None]]]:
    """Return each score, whether it is a baseline, and its row at every alpha.

    A row is None where nothing can be promised. The order is that of the comparison.
    """
    by_alpha = [{row["name"]: row for row in e["rows"]} for e in comparison["alpha_sweep"]]
    baseline = {name: row["baseline"] for rows in by_alpha for name, row in rows.items()}
    order = [item["name"] for part in ("detectors", "baselines") for item in comparison[part]]
    ranked = sorted(baseline, key=lambda name: order.index(name) if name in order else len(order))
    return [(name, baseline[name], [rows.get(name) for rows in by_alpha]) for name in ranked]


def forest_svg(comparison: Json, narrow: bool) -> str:
    """Draw FPR and AUROC of every score with their intervals, the first row on top."""
    rows = [
        *((d["name"], d["test"], *look(i)) for i, d in enumerate(comparison["detectors"])),
        *((b["name"], b, QUIET, "o") for b in comparison["baselines"]),
    ][:_MOST_ROWS]
    height = 0.9 + 0.34 * len(rows)
    with drawing(*((4.1, 2 * height + 0.3) if narrow else (8.2, height + 0.1))) as plot:
        plot.axes.remove()
        subplots = plot.figure.subplots
        panels = subplots(2, 1) if narrow else subplots(1, 2, sharey=True)
        alarms, auroc = (Plot(plot.figure, axes) for axes in panels)
        for panel, key, scale, label in (
            (alarms, "fpr", 100.0, "false alarms, % of faithful answers"),
            (auroc, "auroc", 1.0, "AUROC"),
        ):
            for y, (_, measures, colour, mark) in enumerate(rows):
                panel.interval(y, measures[key], colour, mark, scale=scale)
            panel.rows([axis_text(name, narrow) for name, *_ in rows])
            panel.axes.set(xlabel=label, xlim=(-0.03 * scale, 1.03 * scale))
        auroc.axes.axvline(0.5, color=QUIET, linewidth=1.0, linestyle=DOTTED)
        if (limit := comparison["detectors"][0]["max_fpr"]) is not None:
            alarms.target(100 * limit)
        return plot.svg("False positive rate and AUROC of each score with intervals.")


def coverage_svg(comparison: Json, narrow: bool) -> str:
    """Draw what every coverage costs on the test answers, for the first few detectors."""
    detectors = comparison["detectors"][:MOST_SERIES]
    drawn = [(place, item) for place, item in enumerate(detectors) if item.get("curve")]
    with drawing(*size(narrow, len(drawn), 3.8)) as plot:
        least = 100.0 * comparison["partial_auroc"]["least_coverage"]
        plot.axes.axvspan(least, 100.0, color=QUIET, alpha=0.10, linewidth=0)
        plot.target(100.0 * (1.0 - detectors[0]["alpha"]))
        for place, item in drawn:
            line = curve_line(item["curve"])
            plot.axes.plot(
                [100.0 * point.caught for point in line],
                [100.0 * point.alarms for point in line],
                linewidth=1.8,
                # Between two coverages that a score can reach, the next one has to be paid for.
                drawstyle="steps-pre",
                **line_style(place, item["name"]),
            )
        plot.axes.set(xlim=(100.0 * LEAST_SHOWN, 101.0), xlabel="caught, % of test hallucinations")
        finish(plot, narrow)
        return plot.svg("False alarms that each coverage of the test answers costs.")


def sweep_svg(comparison: Json, narrow: bool) -> str:
    """Draw the FPR of the first few detectors at every target, and which cannot be promised."""
    sweep = comparison["alpha_sweep"]
    rows = [row for row in sweep_rows(comparison) if not row[1]][:MOST_SERIES]
    order = [item["name"] for item in comparison["detectors"]]
    with drawing(*size(narrow, len(rows), 3.6)) as plot:
        axes = plot.axes
        for i, (name, _, cells) in enumerate(rows):
            place = order.index(name) if name in order else i
            shift = 0.1 * (i - (len(rows) - 1) / 2.0)
            rates = {
                x + shift: cell["fpr"]
                for x, cell in enumerate(cells)
                if cell and cell["fpr"] and cell["fpr"]["estimate"] is not None
            }
            colour, mark = look(place)
            plot.upright_intervals([*rates], [*rates.values()], colour, 1.2, 100)
            axes.plot(
                [*rates],
                [100 * rate["estimate"] for rate in rates.values()],
                linewidth=1.4,
                marker=mark,
                markersize=5,
                **line_style(place, name),
            )
        for x, entry in enumerate(sweep):
            if not entry["rank"]:
                axes.axvspan(x - 0.45, x + 0.45, color=QUIET, alpha=0.12, linewidth=0)
                text = f"not with n = {entry['n']:,}"
                axes.text(x, 50, text, color=QUIET, size=9.0, rotation=90, ha="center", va="center")
        targets = [percent(1.0 - entry["alpha"]).removesuffix("%") for entry in sweep]
        axes.set_xticks(range(len(sweep)), targets)
        axes.set(xlim=(len(sweep) - 0.5, -0.5), xlabel="promised, % of hallucinations caught")
        finish(plot, narrow)
        return plot.svg("False alarms at other targets, with intervals.")


class CurvePoint(NamedTuple):
    """What one threshold does on the test part: shares, and the band of the false alarms."""

    caught: float
    alarms: float
    low: float
    high: float


def curve_line(curve: Json, least: float = LEAST_SHOWN) -> list[CurvePoint]:
    """Return what the thresholds of a curve do, from the lowest coverage that is shown."""
    fpr = curve["fpr"]
    columns = (curve["coverage"]["estimate"], *(fpr[key] for key in ("estimate", "lower", "upper")))
    points = {CurvePoint(*row) for row in zip(*columns, strict=True) if row[0] >= least}
    return sorted(points)


def size(narrow: bool, entries: int, height: float) -> tuple[float, float]:
    """Return inches; a narrow figure's legend has a line an entry."""
    return (4.1, height - 0.4 + 0.24 * entries) if narrow else (8.2, height)


def finish(plot: Plot, narrow: bool) -> None:
    """Add what both pictures of false alarms have."""
    plot.axes.set(ylim=(-1.0, 104.0), ylabel="false alarms, %")
    plot.legend(1 if narrow else 3, "outside upper left", handlelength=2.8)


def look(place: int) -> tuple[str, str]:
    """Return colour and mark of the detector at this place."""
    return SERIES[place % MOST_SERIES], _MARKS[_style(place)]


def _style(place: int) -> int:
    """Return which mark and dashes go with the colour, so that no two detectors share them all."""
    return (place + place // MOST_SERIES) % len(_MARKS)


def line_style(place: int, name: str) -> dict[str, Any]:
    """Return how a detector's line is drawn, and named in the legend."""
    text = axis_text(name) or "(none)"
    # A leading underscore would hide it there.
    label = f" {text}" if text.startswith("_") else text
    dashes = _DASHES[_style(place)]
    return {"color": look(place)[0], "linestyle": dashes, "label": label}
