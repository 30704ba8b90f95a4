"""How does an audit look as pictures: matched pairs, strata, reliability, rates by tenth?"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from calibrail.report.blocks import Json
from calibrail.report.documents.audit_words import third
from calibrail.report.figures import (
    FAITHFUL,
    HALLUCINATED,
    INK,
    QUIET,
    as_svg,
    axis_text,
    draw_interval,
    drawing,
)
from calibrail.report.phrases import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_WIDTH: Final = 6.0
_ROW: Final = 0.29


def matched_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC over all pairs, and over pairs that are alike in each surface feature."""
    rows = [row for row in detector["confounds"] if row["verdict"] != "is the score"]
    with drawing(_WIDTH, 1.15 + 1.25 * _ROW * (len(rows) + 1)) as (figure, axes):
        _reference(axes, None)
        draw_interval(axes, 0, detector["auroc"], INK, label="this detector, all pairs")
        labels = ["all pairs"]
        for place, row in enumerate(rows, start=1):
            labels.append(_alike(row["feature"], row["called"]))
            alone = "the feature alone, all pairs"
            draw_interval(axes, place + 0.2, row["feature_auroc"], QUIET, "D", alone, size=4)
            if row["matched"]["estimate"] is None:
                axes.annotate(
                    "too few pairs",
                    (0.5, place - 0.12),
                    color=QUIET,
                    ha="center",
                    va="center",
                    fontsize=9,
                )
                continue
            name = "this detector, pairs that are alike"
            draw_interval(axes, place - 0.12, row["matched"], HALLUCINATED, label=name)
        axes.axhline(0.5, color=QUIET, linewidth=0.6)
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.set_xlim(*_limits([detector["auroc"], *_measures(rows)]))
        axes.set_xlabel("AUROC (0.5 = guessing)")
        figure.legend(
            loc="outside upper center",
            ncols=1,
            frameon=False,
            labelcolor=INK,
            fontsize=10,
            handletextpad=0.3,
            borderaxespad=0.0,
        )
        name = escape(plain(detector["name"]))
        return as_svg(
            figure,
            f"AUROC of {name} over all pairs, and over pairs that are alike in each feature, with "
            "intervals.",
        )


def strata_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the AUROC in every stratum of every division."""
    lines: list[tuple[str, Json | None]] = []
    for division in detector["strata"]:
        lines.append((_first(division["called"]), None))
        for row in division["strata"]:
            lines.append((f"{axis_text(third(division['name'], row['name']))}", row))
    with drawing(_WIDTH, 0.75 + _ROW * len(lines)) as (figure, axes):
        _reference(axes, detector["auroc"]["estimate"])
        for place, (_, row) in enumerate(lines):
            if row is not None and row["auroc"]["estimate"] is not None:
                colour = FAITHFUL if row["reversed"] else HALLUCINATED
                draw_interval(axes, place, row["auroc"], colour)
        axes.set_yticks(range(len(lines)), [label for label, _ in lines])
        for tick, (_, row) in zip(axes.get_yticklabels(), lines, strict=True):
            if row is None:
                tick.set_fontweight("bold")
        for mark, (_, row) in zip(axes.yaxis.get_major_ticks(), lines, strict=True):
            if row is None:
                mark.tick1line.set_visible(False)
        axes.set_ylim(len(lines) - 0.4, -0.7)
        axes.set_xlim(*_limits([row["auroc"] for _, row in lines if row is not None]))
        axes.set_xlabel("AUROC (0.5 = guessing; dashed: all answers)")
        name = escape(plain(detector["name"]))
        return as_svg(figure, f"AUROC of {name} in every stratum, with intervals.")


def reliability_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the rate of hallucinations against what is read as a probability."""
    section = detector["reliability"]
    with drawing(4.6, 4.3) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1.0, linestyle=(0, (1, 3)))
        kinds = (
            ("isotonic", FAITHFUL, "s", "after isotonic calibration"),
            ("deciles", HALLUCINATED, "o", "scores, scaled to 0..1"),
        )
        for key, colour, marker, label in kinds:
            bins = section[key]
            if bins:
                _rates(axes, [item["predicted"] for item in bins], bins, colour, marker, label)
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("read as a probability")
        axes.set_ylabel("share hallucinated")
        figure.legend(loc="outside upper center", ncols=1, frameon=False, labelcolor=INK)
        name = escape(plain(detector["name"]))
        return as_svg(figure, f"Reliability diagram of {name}: ten bins of equal frequency.")


def deciles_svg(detector: Json, narrow: bool = False) -> str:
    """Draw the rate of hallucinations in every tenth of the scores."""
    section = detector["reliability"]
    bins = section["deciles"]
    with drawing(4.6, 4.0) as (figure, axes):
        places = list(range(1, len(bins) + 1))
        rates = [100 * item["rate"]["estimate"] for item in bins]
        axes.bar(places, rates, color=HALLUCINATED, alpha=0.35, width=0.8)
        for place, item in zip(places, bins, strict=True):
            ends = [100 * item["rate"][end] for end in ("lower", "upper")]
            axes.plot([place, place], ends, color=HALLUCINATED, linewidth=1.6)
        axes.set_xticks(places)
        axes.set_ylim(0, 102)
        axes.set_xlabel("tenth of the scores, lowest to highest")
        axes.set_ylabel("hallucinated, %")
        name = escape(plain(detector["name"]))
        return as_svg(figure, f"Share of hallucinated answers in every tenth of {name}'s scores.")


def _rates(
    axes: Axes, x: Sequence[float], bins: Sequence[Json], colour: str, marker: str, label: str
) -> None:
    for place, item in zip(x, bins, strict=True):
        axes.plot(
            [place, place],
            [item["rate"]["lower"], item["rate"]["upper"]],
            color=colour,
            linewidth=1.2,
        )
    axes.plot(
        x,
        [item["rate"]["estimate"] for item in bins],
        marker=marker,
        color=colour,
        linewidth=1.0,
        markersize=5,
        label=label,
    )


def _reference(axes: Axes, overall: float | None) -> None:
    axes.axvline(0.5, color=QUIET, linewidth=1.0)
    if overall is not None:
        axes.axvline(overall, color=INK, linewidth=1.1, linestyle=(0, (4, 3)))


def _measures(rows: Sequence[Json]) -> list[Json]:
    return [row[key] for row in rows for key in ("matched", "feature_auroc")]


def _limits(measures: Sequence[Json]) -> tuple[float, float]:
    """Return the range to draw: every interval, and a good part of what lies around 0.5."""
    ends = [
        item[end]
        for item in measures
        for end in ("estimate", "lower", "upper")
        if item[end] is not None
    ]
    return max(-0.01, min([0.38, *ends]) - 0.03), min(1.01, max([0.72, *ends]) + 0.03)


def _alike(feature: str, called: str) -> str:
    return f"alike in {axis_text(_SHORT.get(feature, called))}"


#: Names that fit beside an axis.
_SHORT: Final = {
    "novelty": "share of new words",
    "novel_count": "number of new words",
    "question_words": "repeated question words",
}


def _first(text: str) -> str:
    flat = axis_text(text)
    return flat[:1].upper() + flat[1:]
