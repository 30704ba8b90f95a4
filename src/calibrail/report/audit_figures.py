"""How does an audit look as pictures: matched pairs, strata, reliability, rates by tenth?"""

from collections.abc import Sequence
from html import escape
from typing import Final

from calibrail.report.blocks import Json
from calibrail.report.documents.audit_words import third
from calibrail.report.phrases import capital, plain
from calibrail.report.plot import DOTTED, FAITHFUL, HALLUCINATED, INK, QUIET, axis_text, drawing

_WIDTH: Final = 6.0
_ROW: Final = 0.29

#: Names that fit beside an axis.
_SHORT: Final = {
    "novelty": "share of new words",
    "novel_count": "number of new words",
    "question_words": "repeated question words",
}


def matched_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC over all pairs, and over pairs that are alike in each surface feature."""
    rows = [row for row in detector["confounds"] if row["verdict"] != "is the score"]
    with drawing(_WIDTH, 1.15 + 1.25 * _ROW * (len(rows) + 1)) as plot:
        axes = plot.axes
        axes.axvline(0.5, color=QUIET, linewidth=1.0)
        plot.interval(0, detector["auroc"], INK, label="this detector, all pairs")
        for place, row in enumerate(rows, start=1):
            alone = "the feature alone, all pairs"
            plot.interval(place + 0.2, row["feature_auroc"], QUIET, "D", alone, size=4)
            alike = "this detector, pairs that are alike"
            plot.interval(place - 0.12, row["matched"], HALLUCINATED, label=alike)
            if row["matched"]["estimate"] is None:
                point = (0.5, place - 0.12)
                axes.annotate("too few pairs", point, color=QUIET, ha="center", va="center", size=9)
        axes.axhline(0.5, color=QUIET, linewidth=0.6)
        features = [axis_text(_SHORT.get(row["feature"], row["called"])) for row in rows]
        plot.rows(["all pairs", *(f"alike in {feature}" for feature in features)], 0.4, 0.6)
        measures = [row[key] for row in rows for key in ("matched", "feature_auroc")]
        limits = _limits([detector["auroc"], *measures])
        axes.set(xlim=limits, xlabel="AUROC (0.5 = guessing)")
        plot.legend(fontsize=10, handletextpad=0.3, borderaxespad=0.0)
        return plot.svg(
            f"AUROC of {_name(detector)} over all pairs, and over pairs that are alike in each "
            "feature, with intervals."
        )


def strata_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC in every stratum of every division."""
    lines: list[tuple[str, Json | None]] = []
    for division in detector["strata"]:
        lines.append((capital(axis_text(division["called"])), None))
        for row in division["strata"]:
            lines.append((axis_text(third(division["name"], row["name"])), row))
    with drawing(_WIDTH, 0.75 + _ROW * len(lines)) as plot:
        plot.axes.axvline(0.5, color=QUIET, linewidth=1.0)
        if detector["auroc"]["estimate"] is not None:
            plot.target(detector["auroc"]["estimate"], 1.1)
        plot.rows([label for label, _ in lines], 0.4, 0.7)
        ticks = plot.axes.yaxis.get_major_ticks()
        for place, (tick, (_, row)) in enumerate(zip(ticks, lines, strict=True)):
            if row is None:
                tick.label1.set_fontweight("bold")
                tick.tick1line.set_visible(False)
            else:
                colour = FAITHFUL if row["reversed"] else HALLUCINATED
                plot.interval(place, row["auroc"], colour)
        limits = _limits([row["auroc"] for _, row in lines if row is not None])
        plot.axes.set(xlim=limits, xlabel="AUROC (0.5 = guessing; dashed: all answers)")
        return plot.svg(f"AUROC of {_name(detector)} in every stratum, with intervals.")


def reliability_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the rate of hallucinations against what is read as a probability."""
    with drawing(4.6, 4.3) as plot:
        axes = plot.axes
        axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1.0, linestyle=DOTTED)
        for key, colour, style, label in (
            ("isotonic", FAITHFUL, "s-", "after isotonic calibration"),
            ("deciles", HALLUCINATED, "o-", "scores, scaled to 0..1"),
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
    with drawing(4.6, 4.0) as plot:
        heights = [100 * rate["estimate"] for rate in rates]
        plot.axes.bar(tenths, heights, color=HALLUCINATED, alpha=0.35, width=0.8)
        plot.upright_intervals(tenths, rates, HALLUCINATED, 1.6, 100)
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
