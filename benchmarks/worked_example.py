"""What do the promises look like on real data? Figures of docs/worked-example.md.

Reads the scores that published metrics gave to FRANK's 2,246 summaries (``frank/metric_scores.csv``
in the folder that CALIBRAIL_DATA names) and draws, for BERTScore against the article, the curve of
all thresholds with its band, and what one shared threshold does to each part of the data.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from calibrail import calibrate
from calibrail.scores.registry import build_column

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
COLOURS = {"ink": "#3a3a3a", "band": "#c8553d", "own": "#2b6cb0"}


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
    table = folder / "frank" / "metric_scores.csv"
    if not table.is_file():
        sys.exit(f"no {table}; set CALIBRAIL_DATA to the folder that holds frank/metric_scores.csv")
    score = build_column("bertscore_p_article", higher="faithful")
    pac = calibrate(table, score, alpha=0.1, guarantee="pac", max_fpr=0.6).report.to_dict()
    by = calibrate(table, score, alpha=0.1, by="dataset").report.to_dict()
    FIGURES.mkdir(exist_ok=True)
    draw_curve(pac, FIGURES / "frank_curve.svg")
    draw_groups(by["by_group"], FIGURES / "frank_groups.svg")
    print(f"wrote {FIGURES}/frank_curve.svg and frank_groups.svg")


def draw_curve(report: dict[str, Any], path: Path) -> None:
    curve = report["curve"]
    coverage, fpr = curve["coverage"], curve["fpr"]
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, part, colour in (
        ("caught (coverage)", coverage, COLOURS["band"]),
        ("false alarms (FPR)", fpr, COLOURS["own"]),
    ):
        share = [100 * value for value in part["estimate"]]
        low, high = ([100 * value for value in part[end]] for end in ("lower", "upper"))
        axes.fill_between(curve["thresholds"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(curve["thresholds"], share, color=colour, label=name)
    axes.axvline(report["threshold"], color=COLOURS["ink"], linestyle="--", linewidth=1)
    axes.annotate(
        "pac threshold",
        (report["threshold"], 4),
        xytext=(-6, 0),
        textcoords="offset points",
        ha="right",
        color=COLOURS["ink"],
    )
    axes.set_xlim(-0.93, -0.82)
    axes.set_ylim(0, 101)
    axes.set_xlabel(
        "threshold on the score (BERTScore, negated: higher = more likely hallucinated)"
    )
    axes.set_ylabel("% of the class")
    axes.legend(frameon=False, loc="upper right")
    save(figure, path)


def draw_groups(section: dict[str, Any], path: Path) -> None:
    rows = section["rows"]
    figure = Figure(figsize=(7.0, 1.1 + 0.8 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        for shift, key, colour, name in (
            (-0.14, "shared_coverage", COLOURS["band"], "one shared threshold"),
            (0.14, "coverage", COLOURS["own"], "a threshold of its own"),
        ):
            bound = row[key]
            ends = [100 * bound["lower"], 100 * bound["upper"]]
            axes.plot(ends, [place + shift] * 2, color=colour, linewidth=2)
            axes.plot(
                [100 * bound["estimate"]],
                [place + shift],
                "o",
                color=colour,
                label=name if place == 0 else None,
            )
    axes.axvline(90, color=COLOURS["ink"], linestyle="--", linewidth=1)
    axes.set_yticks(range(len(rows)), [row["group"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("caught, % of hallucinations (dashed: promised)")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    with rc_context({"svg.hashsalt": "calibrail"}):  # the same run draws the same bytes
        figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
