"""How does a leaderboard look as pictures: every row at one target, and what coverage costs?"""

from calibrail.report.document import Json
from calibrail.report.figures.comparison import (
    LEAST_SHOWN,
    curve_line,
    finish,
    line_style,
    look,
    size,
)
from calibrail.report.figures.plot import QUIET, axis_text, drawing
from calibrail.report.text import named


def forest_svg(board: Json, narrow: bool) -> str:
    """Draw the false alarms of every detector at the first target, data set by data set."""
    rows: list[tuple[str, Json | None, Json]] = []
    for item in board["data_sets"]:
        rows.append((axis_text(item["name"]), None, item))
        detectors = [row for row in item["rows"] if not row["baseline"]]
        against = next((row["against"]["name"] for row in detectors if row["against"]), None)
        best = [row for row in item["rows"] if row["baseline"] and row["name"] == against]
        rows += [(axis_text(named(row["name"])), row, item) for row in (*detectors, *best)]
    height = 0.8 + 0.27 * len(rows)
    with drawing(4.1 if narrow else 8.2, height) as plot:
        axes = plot.axes
        for y, (_, row, _item) in enumerate(rows):
            if row is None:
                axes.axhline(y - 0.5, color=QUIET, linewidth=0.5)
                continue
            target = row["targets"][0]
            colour = QUIET if row["baseline"] else look(0)[0]
            if target["state"] == "flags_all":
                axes.plot([100.0], [y], "o", color=colour, markersize=6.0, fillstyle="none")
            elif target["fpr"] is not None:
                plot.interval(y, target["fpr"], colour, scale=100.0)
                if target["limit"] is not None and not row["baseline"]:
                    axes.plot([100.0 * target["limit"]], [y], "|", color=colour, markersize=11.0)
        most = 18 if narrow else 32
        plot.rows([name if len(name) <= most else f"{name[: most - 3]}..." for name, *_ in rows])
        for label, (_, row, _item) in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if row is None else "normal")
        axes.set(xlabel="false alarms, % of faithful answers", xlim=(-2.0, 103.0))
        return plot.svg("False alarms of every detector, with intervals.")


def cost_svg(item: Json, shaded: int, narrow: bool) -> str:
    """Draw what each share caught costs on one data set, with bands for the first detectors."""
    rows = [row for row in item["rows"] if row["name"] in item["curves"]]
    shipped = [row["shipped"]["caught"]["estimate"] or 0.0 for row in rows if row["shipped"]]
    least = max(0.0, min([LEAST_SHOWN, *(share - 0.05 for share in shipped)]))
    # A yes/no detector has no curve to see but for where its own answer lies.
    drawn = [row for row in rows if row["shipped"] or row["targets"][0]["state"] != "flags_all"]
    height = 3.8
    with drawing(*size(narrow, len(drawn), height)) as plot:
        axes = plot.axes
        for place, row in enumerate(drawn):
            curve = item["curves"][row["name"]]
            line = curve_line(curve, least)
            caught = [100.0 * point.caught for point in line]
            axes.plot(
                caught,
                [100.0 * point.alarms for point in line],
                linewidth=1.8,
                drawstyle="steps-pre",
                **line_style(place, named(row["name"])),
            )
            if place < shaded:
                axes.fill_between(
                    caught,
                    [100.0 * point.low for point in line],
                    [100.0 * point.high for point in line],
                    step="pre",
                    color=look(place)[0],
                    alpha=0.12,
                    linewidth=0,
                )
            if (at := row["shipped"]) and at["caught"]["estimate"] is not None:
                point = [100.0 * at["caught"]["estimate"]], [100.0 * at["fpr"]["estimate"]]
                axes.plot(*point, "X", color=look(place)[0], markersize=8.0)
        against = next((row["against"]["name"] for row in item["rows"] if row["against"]), None)
        for row in item["rows"]:
            if row["baseline"] and row["name"] == against:
                known = [t for t in row["targets"] if t["state"] == "set"]
                at = [100.0 * t["caught"]["estimate"] for t in known]
                rates = [t["fpr"] for t in known]
                plot.upright_intervals(at, rates, QUIET, 1.2, 100)
                heights = [100.0 * rate["estimate"] for rate in rates]
                label = axis_text(named(row["name"]))
                axes.plot(at, heights, "o", color=QUIET, markersize=5, label=label)
        axes.set(xlim=(100.0 * least, 101.0), xlabel="caught, % of test hallucinations")
        finish(plot, narrow)
        return plot.svg("False alarms that each coverage of the test answers costs.")
