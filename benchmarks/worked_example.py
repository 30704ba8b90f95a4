"""What do the promises look like on real data? Figures of docs/worked-example.md.

Reads the scores that published metrics gave to FRANK's 2,246 summaries (``frank/metric_scores.csv``
in the folder that CALIBRAIL_DATA names) and draws, for BERTScore against the article, the curve of
all thresholds with its band, and what one shared threshold does to each part of the data. Writes
the file of the second detector there, too: ``python benchmarks/worked_example.py claims.csv``.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure

from calibrail import calibrate
from calibrail.scores.registry import build_column

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
SCHEMES: Final = {
    "light": {"ink": "#3a3a3a", "band": "#c8553d", "own": "#2b6cb0"},
    "dark": {"ink": "#d5d9e2", "band": "#ff9b85", "own": "#7db8f5"},
}
#: Neighbouring claims that count as one group: six answers to a source, six claims to an answer.
BLOCK: Final = 36


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
    table, scores = folder / "frank" / "metric_scores.csv", folder / "aggrefact" / "scores.csv"
    if missing := [str(path) for path in (table, scores) if not path.is_file()]:
        sys.exit(f"no {', '.join(missing)}; set CALIBRAIL_DATA to the folder of the data")
    if len(sys.argv) > 1:
        write_claims(scores, Path(sys.argv[1]))
    score = build_column("bertscore_p_article", higher="faithful")
    pac = calibrate(table, score, alpha=0.1, guarantee="pac", max_fpr=0.6).report.to_dict()
    by = calibrate(table, score, alpha=0.1, by="dataset").report.to_dict()
    FIGURES.mkdir(exist_ok=True)
    for scheme, colours in SCHEMES.items():
        draw_curve(pac, colours, FIGURES / f"frank_curve-{scheme}.svg")
        draw_groups(by["by_group"], colours, FIGURES / f"frank_groups-{scheme}.svg")
    print(f"wrote {FIGURES}/frank_curve-*.svg and frank_groups-*.svg")


def write_claims(scores: Path, path: Path) -> None:
    """Write FactCG's scores of RAGTruth's claims, in blocks of neighbours."""
    with scores.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["subset"] == "RAGTruth"]
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "block", "label", "factcg_base"])
        for index, row in enumerate(rows):
            label = 1 - int(row["label_supported"])
            table.writerow([row["id"], index // BLOCK, label, row["factcg_base"]])


def draw_curve(report: dict[str, Any], colours: dict[str, str], path: Path) -> None:
    curve = report["curve"]
    coverage, fpr = curve["coverage"], curve["fpr"]
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, part, colour in (
        ("caught", coverage, colours["band"]),
        ("false alarms", fpr, colours["own"]),
    ):
        share = [100 * value for value in part["estimate"]]
        low, high = ([100 * value for value in part[end]] for end in ("lower", "upper"))
        axes.fill_between(curve["thresholds"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(curve["thresholds"], share, color=colour, label=name)
    axes.axvline(report["threshold"], color=colours["ink"], linestyle="--", linewidth=1)
    axes.annotate(
        "pac threshold",
        (report["threshold"], 4),
        xytext=(-6, 0),
        textcoords="offset points",
        ha="right",
        color=colours["ink"],
    )
    axes.set_xlim(-0.93, -0.82)
    axes.set_ylim(0, 101)
    axes.set_xlabel(
        "threshold on the score (BERTScore, negated: higher = more likely hallucinated)"
    )
    axes.set_ylabel("% of the class")
    axes.legend(frameon=False, loc="upper right", labelcolor=colours["ink"])
    save(figure, colours["ink"], path)


def draw_groups(section: dict[str, Any], colours: dict[str, str], path: Path) -> None:
    rows = section["rows"]
    figure = Figure(figsize=(7.0, 1.1 + 0.8 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        for shift, key, colour, name in (
            (-0.14, "shared_coverage", colours["band"], "one shared threshold"),
            (0.14, "coverage", colours["own"], "a threshold of its own"),
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
    axes.axvline(90, color=colours["ink"], linestyle="--", linewidth=1)
    axes.set_yticks(range(len(rows)), [row["group"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("caught, % of hallucinations (dashed: promised)")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, labelcolor=colours["ink"])
    save(figure, colours["ink"], path)


def save(figure: Figure, ink: str, path: Path) -> None:
    """Write the figure on no background, its axes in this ink."""
    for axes in figure.axes:
        axes.set_facecolor("none")
        axes.tick_params(colors=ink)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(ink)
        for spine in axes.spines.values():
            spine.set_color(ink)
    with rc_context({"svg.hashsalt": "calibrail"}):  # the same run draws the same bytes
        figure.savefig(path, metadata={"Date": None}, transparent=True)


if __name__ == "__main__":
    main()
