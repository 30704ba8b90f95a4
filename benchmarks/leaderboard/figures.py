"""How does a leaderboard look as pictures: shipped thresholds, rows at one target, curves?"""

from calibrail.formatting import percent
from calibrail.report.document import Json
from calibrail.report.figures.comparison import (
    LEAST_SHOWN,
    curve_line,
    finish,
    line_style,
    look,
    size,
)
from calibrail.report.figures.plot import DOTTED, QUIET, SERIES, axis_text, drawing
from calibrail.report.text import named

#: Faithful answers flagged, hallucinations caught.
_PRICE, _CAUGHT = SERIES[1], SERIES[0]


def best_known(board: Json) -> list[tuple[Json, list[Json]]]:
    """Return detectors that ship a threshold, each on its largest data set, by data set.

    The cheapest at the first target comes first; what cannot be set to it comes last.
    """
    known: dict[str, tuple[Json, Json]] = {}
    for item in board["data_sets"]:
        for row in item["rows"]:
            if row["shipped"] and row["targets"][0]["state"] in ("set", "flags_all"):
                at = known.get(row["name"])
                if at is None or item["n_examples"] > at[0]["n_examples"]:
                    known[row["name"]] = item, row
    return [
        (item, sorted((row for at, row in known.values() if at is item), key=_price))
        for item in board["data_sets"]
        if any(at is item for at, _ in known.values())
    ]


def _price(row: Json) -> tuple[bool, float]:
    """Return whether a threshold flags every answer, and what it costs."""
    target = row["targets"][0]
    return target["state"] == "flags_all", target["fpr"]["estimate"]


def shipped_svg(board: Json, narrow: bool) -> str:
    """Draw what shipped thresholds catch beside the false alarms that the first target costs."""
    sets = best_known(board)
    rows: list[tuple[str, Json | None]] = []
    for item, detectors in sets:
        rows.append((axis_text(item["name"], narrow), None))
        rows += [(axis_text(named(row["name"]), narrow), row) for row in detectors]
    goal = percent(board["data_sets"][0]["rows"][0]["targets"][0]["coverage"])
    width, height = (4.1, 1.5) if narrow else (8.2, 1.1)
    with drawing(width, height + 0.27 * len(rows)) as plot:
        for y, (_, row) in enumerate(rows):
            if row is None:
                continue
            caught = 100.0 * row["shipped"]["caught"]["estimate"]
            stuck, price = _price(row)
            ends = [caught, 100.0 * price]
            plot.axes.plot(ends, [y, y], color=QUIET, linewidth=0.8, linestyle=DOTTED)
            for place, colour, mark, label, hollow in (
                (ends[0], _CAUGHT, "o", "hallucinations caught as shipped", False),
                (ends[1], _PRICE, "D", f"false alarms that {goal} caught costs", stuck),
            ):
                known = plot.axes.get_legend_handles_labels()[1]
                plot.axes.plot(
                    [place],
                    [y],
                    mark,
                    color=colour,
                    markersize=7.0,
                    fillstyle="none" if hollow else "full",
                    clip_on=False,
                    label=None if hollow or label in known else label,
                )
        plot.target(100.0 * board["data_sets"][0]["rows"][0]["targets"][0]["coverage"])
        plot.rows([name for name, _ in rows])
        for tick, (_, row) in zip(plot.axes.get_yticklabels(), rows, strict=True):
            tick.set_fontweight("bold" if row is None else "normal")
        plot.axes.set(xlim=(-2.0, 103.0), xlabel="%")
        plot.legend(1 if narrow else 2)
        return plot.svg("What shipped thresholds catch, and what catching enough costs.")


def forest_svg(item: Json, narrow: bool) -> str:
    """Draw the false alarms of a data set's detectors, and its best baseline, at the first target.

    A bar to the right is the smallest limit that is certified.
    """
    detectors = [row for row in item["rows"] if not row["baseline"]]
    against = next((row["against"]["name"] for row in detectors if row["against"]), None)
    best = [row for row in item["rows"] if row["baseline"] and row["name"] == against]
    rows = [*detectors, *best]
    with drawing(4.1 if narrow else 8.2, 0.8 + 0.27 * len(rows)) as plot:
        axes = plot.axes
        for y, row in enumerate(rows):
            target = row["targets"][0]
            colour = QUIET if row["baseline"] else look(0)[0]
            if target["state"] == "flags_all":
                hollow = axes.plot([100.0], [y], "o", color=colour, markersize=6.0, clip_on=False)
                hollow[0].set_fillstyle("none")
            elif target["fpr"] is not None:
                plot.interval(y, target["fpr"], colour, scale=100.0)
                if target["limit"] is not None and not row["baseline"]:
                    axes.plot([100.0 * target["limit"]], [y], "|", color=colour, markersize=11.0)
        plot.rows([axis_text(named(row["name"]), narrow) for row in rows])
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
