"""The picture of a verdict: one detector, one threshold, three limits on false alarms.

Calibrates ``novelty`` on the example data and draws what was required, a corner, and what the data
shows of both rates, a box. Writes docs/figures/verdicts-light.svg and -dark.svg,
and verdicts-narrow-*.svg for phones, with one panel below the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from calibrail import calibrate

FIGURES: Final = Path(__file__).resolve().parents[1] / "docs" / "figures"
ALPHA: Final = 0.2
#: The limits, and what each verdict looks like.
LIMITS: Final = {0.6: "the box fits inside", 0.5: "across an edge", 0.3: "outside"}
#: Ink, quiet ink, and a colour for each verdict.
SCHEMES: Final = {
    "light": (
        ("#1c2330", "#8b93a3"),
        {"certified": "#14734a", "inconclusive": "#8a5a00", "rejected": "#b42318"},
    ),
    "dark": (
        ("#e6e9ef", "#8a94a6"),
        {"certified": "#4cc38a", "inconclusive": "#e6b450", "rejected": "#ff8a7a"},
    ),
}


def reports() -> list[dict[str, Any]]:
    """Return the report of each limit."""
    return [
        calibrate("example:facts", "novelty", alpha=ALPHA, max_fpr=limit).report.to_dict()
        for limit in LIMITS
    ]


def draw(found: list[dict[str, Any]], scheme: str, path: Path, narrow: bool = False) -> None:
    """Draw a panel for each report, on no background: side by side, or narrow, in a column."""
    (ink, quiet), colours = SCHEMES[scheme]
    figure = Figure(figsize=(4.1, 7.6) if narrow else (9.2, 3.3), layout="constrained")
    shape = (len(found), 1) if narrow else (1, len(found))
    panels = figure.subplots(*shape, sharex=narrow, sharey=not narrow)
    for axes, report, says in zip(panels, found, LIMITS.values(), strict=True):
        colour = colours[report["verdict"]]
        title = f"{report['verdict'].capitalize()}: {says}"
        axes.set_title(title, loc="left", color=colour, fontsize=10, fontweight="bold")
        panel(axes, report, (colours["certified"], colour, quiet))
        axes.text(2, 98, "required", color=colours["certified"], fontsize=8.5, va="top")
        if axes.get_subplotspec().is_last_row():
            axes.set_xlabel("false alarms, %", color=ink)
        axes.set(xlim=(0, 100), ylim=(0, 100.5), facecolor="none")
        axes.tick_params(colors=quiet)
        for side, spine in axes.spines.items():
            spine.set_color(quiet)
            spine.set_visible(side in ("left", "bottom"))
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("caught, %", color=ink)
    with rc_context({"svg.hashsalt": "calibrail"}):  # the same run draws the same bytes
        figure.savefig(path, metadata={"Date": None}, transparent=True)


def panel(axes: Axes, report: dict[str, Any], colours: tuple[str, str, str]) -> None:
    """Draw the corner, the curve of all thresholds, and the box of this one."""
    corner, box, quiet = colours
    least, most = 100 * report["min_coverage"], 100 * report["max_fpr"]
    axes.add_patch(Rectangle((0, least), most, 100 - least, color=corner, alpha=0.12, linewidth=0))
    axes.plot([0, most, most], [least, least, 100], color=corner, linewidth=1.2, linestyle="--")
    curve = report["curve"]
    across, up = (
        [100.0, *(100 * value for value in curve[name]["estimate"]), 0.0]
        for name in ("fpr", "coverage")
    )
    axes.plot(across, up, color=quiet, linewidth=1.2)
    region = report["certificate"]["region"]
    left, right = (100 * region["fpr"][end] for end in ("lower", "upper"))
    low, high = (100 * region["coverage"][end] for end in ("lower", "upper"))
    for style in ({"facecolor": box, "alpha": 0.2}, {"fill": False, "edgecolor": box}):
        axes.add_patch(Rectangle((left, low), right - left, high - low, linewidth=1.3, **style))


def main() -> None:
    found = reports()
    FIGURES.mkdir(exist_ok=True)
    for scheme in SCHEMES:
        for narrow, name in ((False, "verdicts"), (True, "verdicts-narrow")):
            draw(found, scheme, FIGURES / f"{name}-{scheme}.svg", narrow)
    for report in found:
        region = report["certificate"]["region"]
        shown = {
            name: (region[name]["lower"], region[name]["upper"]) for name in ("coverage", "fpr")
        }
        print(report["max_fpr"], report["verdict"], shown)


if __name__ == "__main__":
    main()
