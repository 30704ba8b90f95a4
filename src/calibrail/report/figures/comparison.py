"""Forest, coverage, sweep; audit."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from calibrail.formatting import floor_percent
from calibrail.report.document import Json
from calibrail.report.figures import plot as plots
from calibrail.report.messages import word
from calibrail.report.text import capital, plain, third

#: Told apart without colour, too.
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 3)))
_MARKS: Final = ("o", "s", "^", "D", "v", "P")
#: How a quiet text stands around its point.
_IN_THE_MIDDLE: Final[Mapping[str, Any]] = {"color": plots.QUIET, "ha": "center", "va": "center"}
#: Rows that a forest plot shows at most.
_MOST_ROWS: Final = 40
#: Coverage from which a picture shows what it costs.
LEAST_SHOWN: Final = 0.5

#: Detectors that the pictures of curves show at most.
MOST_SERIES: Final = len(plots.SERIES)


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
        *((b["name"], b, plots.QUIET, "o") for b in comparison["baselines"]),
    ][:_MOST_ROWS]
    height = 0.9 + 0.34 * len(rows)
    with plots.drawing(*((4.1, 2 * height + 0.3) if narrow else (8.2, height + 0.1))) as plot:
        plot.axes.remove()
        subplots = plot.figure.subplots
        panels = subplots(2, 1) if narrow else subplots(1, 2, sharey=True)
        alarms, auroc = (plots.Plot(plot.figure, axes) for axes in panels)
        for panel, key, scale, label in (
            (alarms, "fpr", 100.0, "false alarms, % of faithful answers"),
            (auroc, "auroc", 1.0, "AUROC"),
        ):
            for y, (_, measures, colour, mark) in enumerate(rows):
                panel.interval(y, measures[key], colour, mark, scale=scale)
            panel.rows([plots.axis_text(name, narrow) for name, *_ in rows])
            panel.axes.set(xlabel=label, xlim=(-0.03 * scale, 1.03 * scale))
        auroc.axes.axvline(0.5, color=plots.QUIET, linewidth=1.0, linestyle=plots.DOTTED)
        if (limit := comparison["detectors"][0]["max_fpr"]) is not None:
            alarms.target(100 * limit)
        return plot.svg("False alarms and AUROC of each score with intervals.")


def coverage_svg(comparison: Json, narrow: bool) -> str:
    """Draw what every coverage costs on the test answers, for the first few detectors."""
    detectors = comparison["detectors"][:MOST_SERIES]
    drawn = [(place, item) for place, item in enumerate(detectors) if item.get("curve")]
    with plots.drawing(*size(narrow, len(drawn), 3.8)) as plot:
        least = 100.0 * comparison["partial_auroc"]["least_coverage"]
        plot.axes.axvspan(least, 100.0, color=plots.QUIET, alpha=0.10, linewidth=0)
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
        return plot.svg("False alarms that each share caught of the test answers costs.")


def sweep_svg(comparison: Json, narrow: bool) -> str:
    """Draw the FPR of the first few detectors at every target, and which cannot be promised."""
    sweep = comparison["alpha_sweep"]
    rows = [row for row in sweep_rows(comparison) if not row[1]][:MOST_SERIES]
    order = [item["name"] for item in comparison["detectors"]]
    with plots.drawing(*size(narrow, len(rows), 3.6)) as plot:
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
                axes.axvspan(x - 0.45, x + 0.45, color=plots.QUIET, alpha=0.12, linewidth=0)
                text = f"not with n = {entry['n']:,}"
                axes.text(x, 50, text, size=9.0, rotation=90, **_IN_THE_MIDDLE)
        targets = [floor_percent(1.0 - entry["alpha"]).removesuffix("%") for entry in sweep]
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


def finish(plot: plots.Plot, narrow: bool) -> None:
    """Add what both pictures of false alarms have."""
    plot.axes.set(ylim=(-1.0, 104.0), ylabel="false alarms, %")
    plot.legend(1 if narrow else 3, "outside upper left", handlelength=2.8)


def look(place: int) -> tuple[str, str]:
    """Return colour and mark of the detector at this place."""
    return plots.SERIES[place % MOST_SERIES], _MARKS[_style(place)]


def _style(place: int) -> int:
    """Return which mark and dashes go with the colour, so that no two detectors share them all."""
    return (place + place // MOST_SERIES) % len(_MARKS)


def line_style(place: int, name: str) -> dict[str, Any]:
    """Return how a detector's line is drawn, and named in the legend."""
    text = plots.axis_text(name) or "(none)"
    # A leading underscore would hide it there.
    label = f" {text}" if text.startswith("_") else text
    return {"color": look(place)[0], "linestyle": _DASHES[_style(place)], "label": label}


_WIDTH: Final = 6.0
_ROW: Final = 0.29


def matched_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC over all pairs, and over pairs that are alike in each surface feature."""
    rows = [row for row in detector["confounds"] if row["verdict"] != "is the score"]
    width, alike = (4.1, "") if narrow else (_WIDTH, "alike in ")
    with plots.drawing(width, 1.15 + 1.25 * _ROW * (len(rows) + 1)) as plot:
        axes = plot.axes
        axes.axvline(0.5, color=plots.QUIET, linewidth=1.0)
        plot.interval(0, detector["auroc"], plots.INK, label="this detector, all pairs")
        for place, row in enumerate(rows, start=1):
            alone = "the feature alone, all pairs"
            plot.interval(place + 0.2, row["feature_auroc"], plots.QUIET, "D", alone, size=4)
            pairs = "this detector, pairs that are alike"
            plot.interval(place - 0.12, row["matched"], plots.HALLUCINATED, label=pairs)
            if row["matched"]["estimate"] is None:
                axes.annotate("too few pairs", (0.5, place - 0.12), size=9, **_IN_THE_MIDDLE)
        axes.axhline(0.5, color=plots.QUIET, linewidth=0.6)
        called = [word("audit.beside_axis", row["feature"], row["called"]) for row in rows]
        features = [f"{alike}{plots.axis_text(name, narrow)}" for name in called]
        plot.rows(["all pairs", *features], 0.4, 0.6)
        measures = [row[key] for row in rows for key in ("matched", "feature_auroc")]
        axes.set(xlim=_limits([detector["auroc"], *measures]), xlabel="AUROC (0.5 = guessing)")
        plot.legend(fontsize=10, handletextpad=0.3, borderaxespad=0.0)
        return plot.svg(
            f"AUROC of {_name(detector)} over all pairs, and over pairs that are alike in each "
            "feature, with intervals."
        )


def strata_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC in every stratum of every division."""
    lines: list[tuple[str, Json | None]] = []
    for division in detector["strata"]:
        lines.append((capital(plots.axis_text(division["called"])), None))
        for row in division["strata"]:
            lines.append((plots.axis_text(third(division["name"], row["name"])), row))
    with plots.drawing(_WIDTH, 0.75 + _ROW * len(lines)) as plot:
        plot.axes.axvline(0.5, color=plots.QUIET, linewidth=1.0)
        if detector["auroc"]["estimate"] is not None:
            plot.target(detector["auroc"]["estimate"], 1.1)
        plot.rows([label for label, _ in lines], 0.4, 0.7)
        ticks = plot.axes.yaxis.get_major_ticks()
        for place, (tick, (_, row)) in enumerate(zip(ticks, lines, strict=True)):
            if row is None:
                tick.label1.set_fontweight("bold")
                tick.tick1line.set_visible(False)
            else:
                colour = plots.FAITHFUL if row["reversed"] else plots.HALLUCINATED
                plot.interval(place, row["auroc"], colour)
        limits = _limits([row["auroc"] for _, row in lines if row is not None])
        plot.axes.set(xlim=limits, xlabel="AUROC (0.5 = guessing; dashed: all answers)")
        return plot.svg(f"AUROC of {_name(detector)} in every stratum, with intervals.")


def reliability_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the rate of hallucinations against what is read as a probability."""
    with plots.drawing(4.6, 4.3) as plot:
        axes = plot.axes
        axes.plot([0, 1], [0, 1], color=plots.QUIET, linewidth=1.0, linestyle=plots.DOTTED)
        for key, colour, style, label in (
            ("isotonic", plots.FAITHFUL, "s-", "after isotonic calibration"),
            ("deciles", plots.HALLUCINATED, "o-", "scores, scaled to 0..1"),
        ):
            if bins := detector["reliability"][key]:
                x, rates = [item["predicted"] for item in bins], [item["rate"] for item in bins]
                plot.upright_intervals(x, rates, colour, 1.2, 1)
                y = [rate["estimate"] for rate in rates]
                axes.plot(x, y, style, color=colour, linewidth=1.0, markersize=5, label=label)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axes.set(xlabel="read as a probability", ylabel="share hallucinated")
        plot.legend()
        return plot.svg(f"Reliability diagram of {_name(detector)}: ten bins of equal frequency.")


def deciles_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the rate of hallucinations in every tenth of the scores."""
    rates = [item["rate"] for item in detector["reliability"]["deciles"]]
    tenths = list(range(1, len(rates) + 1))
    with plots.drawing(4.6, 4.0) as plot:
        heights = [100 * rate["estimate"] for rate in rates]
        plot.axes.bar(tenths, heights, color=plots.HALLUCINATED, alpha=0.35, width=0.8)
        plot.upright_intervals(tenths, rates, plots.HALLUCINATED, 1.6, 100)
        plot.axes.set(xticks=tenths, ylim=(0, 102), ylabel="hallucinated, %")
        plot.axes.set_xlabel("tenth of the answers, least to most suspicious")
        return plot.svg(
            f"Share of hallucinated answers in every tenth of {_name(detector)}'s scores."
        )


def _name(detector: Json) -> str:
    return escape(plain(detector["name"]))


def _limits(measures: Sequence[Json]) -> tuple[float, float]:
    """Return the range to draw: every interval, and a good part of what lies around 0.5."""
    values = [item[end] for item in measures for end in ("estimate", "lower", "upper")]
    ends = [value for value in values if value is not None]
    return max(-0.01, min([0.38, *ends]) - 0.03), min(1.01, max([0.72, *ends]) + 0.03)
