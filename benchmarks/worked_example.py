"""What do the promises look like on real data? Figures of docs/worked-example.md.

Takes FactCG's scores of Reveal's claims (``aggrefact/scores.csv`` in the folder that CALIBRAIL_DATA
names) from a file to a guardrail and to its card, and draws the card's picture. Of the scores that
published metrics gave to FRANK's summaries (``frank/metric_scores.csv``) it takes BERTScore against
the article, and draws the curve of all thresholds with its band, and what one shared threshold does
to each part of the data. Writes results/worked_example.json, which the page quotes, and the first
detector's file: ``python benchmarks/worked_example.py claims.csv``.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from claim_sets import BASE, BLOCKS, read_claims
from matplotlib import rc_context
from matplotlib.figure import Figure
from results import FOLDER, light_and_dark

from calibrail import Guardrail, calibrate, test
from calibrail.pipelines.card import card
from calibrail.scores.registry import build_column

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
SCHEMES: Final = {
    "light": {"ink": "#3a3a3a", "band": "#c8553d", "own": "#2b6cb0"},
    "dark": {"ink": "#d5d9e2", "band": "#ff9b85", "own": "#7db8f5"},
}
#: The subset of LLM-AggreFact that is worked through, and what is required of its claims.
SUBSET: Final = "Reveal"
ALPHA: Final = 0.2
MOST: Final = 0.2
#: The threshold that the model ships with, and the score of a claim that is new.
SHIPPED: Final = 0.5
NEW: Final = 0.03


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
    table, scores = folder / "frank" / "metric_scores.csv", folder / "aggrefact" / "scores.csv"
    if missing := [str(path) for path in (table, scores) if not path.is_file()]:
        there = "CALIBRAIL_DATA names the data, and docs/example-data.md where it is from"
        sys.exit(f"no {', '.join(missing)}; {there}")
    with TemporaryDirectory() as work:
        claims = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(work) / "claims.csv"
        write_claims(scores, claims)
        certified, page = certify(claims, Path(work))
    rejected, pac, by = reject(table)
    content = {"schema": "calibrail.worked-example/1", "claims": certified, "frank": rejected}
    path = FOLDER / "worked_example.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw_card(page, FIGURES / "worked_card.svg")
    for scheme, colours in SCHEMES.items():
        draw_curve(pac, colours, FIGURES / f"frank_curve-{scheme}.svg")
        draw_groups(by["by_group"], colours, FIGURES / f"frank_groups-{scheme}.svg")
    print(f"wrote {path} and {FIGURES}/worked_card-*.svg, frank_curve-*.svg, frank_groups-*.svg")


def write_claims(scores: Path, path: Path) -> None:
    """Write FactCG's scores of a subset's claims, in blocks of neighbours."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["id", "block", "label", BASE])
        for index, row in enumerate(read_claims(scores)[SUBSET]):
            block, label = f"{SUBSET}-{index // BLOCKS[SUBSET]}", 1 - int(row["label_supported"])
            table.writerow([row["id"], block, label, row[BASE]])


def certify(claims: Path, folder: Path) -> tuple[dict[str, Any], str]:
    """Return what the page says of the claims, and the card of their guardrail."""
    score = build_column(BASE, higher="faithful")
    how: dict[str, Any] = {"group_column": "block"}
    run = calibrate(claims, score, alpha=ALPHA, max_fpr=MOST, **how)
    run.freeze().save(folder / "claims.json")
    decision = Guardrail.load(folder / "claims.json").check(columns={BASE: NEW})
    report = run.report.to_dict()
    shipped = test(claims, score=score, threshold=SHIPPED, **how).report.to_dict()["test"]
    paper = card(folder / "claims.json")
    verdict, says = paper.markdown().split("\n\n")[1:3]
    found = {
        "n": report["data"]["n_examples"],
        "n_hallucinated": report["data"]["n_hallucinated"],
        "block": BLOCKS[SUBSET],
        "verdict": report["verdict"],
        "threshold": report["column_threshold"],
        "fpr": rate(report["test"]["fpr"]),
        "fpr_at_most": report["certificate"]["fpr_at_most"],
        "shipped": {"caught": rate(shipped["coverage"]), "fpr": rate(shipped["fpr"])},
        "new": {"outcome": decision.outcome, "reason": decision.reason},
        "card": {"verdict": verdict, "says": says},
    }
    return found, paper.html()


def reject(table: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what the page says of FRANK's summaries, and the reports that it draws."""
    score = build_column("bertscore_p_article", higher="faithful")
    pac, alone, by = (
        calibrate(table, score, alpha=0.1, **how).report.to_dict()
        for how in (
            {"max_fpr": 0.6},
            {"max_fpr": 0.6, "assume_independent": True},
            {"by": "dataset"},
        )
    )
    rates = ("shared_coverage", "coverage", "fpr")
    found = {
        "n": pac["data"]["n_examples"],
        "n_hallucinated": pac["clustering"]["n"],
        "n_articles": pac["clustering"]["n_clusters"],
        "most_of_an_article": pac["clustering"]["largest"],
        "verdict": pac["verdict"],
        "threshold": pac["column_threshold"],
        "fpr": rate(pac["test"]["fpr"]),
        "fpr_at_least": pac["certificate"]["fpr"]["lower"],
        "auroc": pac["test"]["auroc"]["estimate"],
        "assumed_independent": {
            "verdict": alone["verdict"],
            "threshold": alone["column_threshold"],
            "fpr": rate(alone["test"]["fpr"]),
        },
        "by": {
            row["group"]: {name: rate(row[name]) for name in rates}
            | {"p_too_few": row["shared_p_undercovered"]}
            for row in by["by_group"]["rows"]
        },
    }
    return found, pac, by


def rate(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measured share and its counts."""
    return {name: found[name] for name in ("estimate", "count", "n")}


def draw_card(page: str, path: Path) -> None:
    """Write the card's picture, whose words stand on no curve and need no halo."""
    [svg] = re.findall(r"<svg [^>]*data-place.*?</svg>\n?", page, re.DOTALL)
    svg = "".join(svg.splitlines()).replace('stroke="var(--ground)"', 'stroke="none"')
    light_and_dark(svg, path)


def draw_curve(report: dict[str, Any], colours: dict[str, str], path: Path) -> None:
    curve = report["curve"]
    coverage, fpr = curve["coverage"], curve["fpr"]
    # As the column has them: higher = more faithful.
    thresholds = [-value for value in curve["thresholds"]]
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, part, colour in (
        ("caught", coverage, colours["band"]),
        ("false alarms", fpr, colours["own"]),
    ):
        share = [100 * value for value in part["estimate"]]
        low, high = ([100 * value for value in part[end]] for end in ("lower", "upper"))
        axes.fill_between(thresholds, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(thresholds, share, color=colour, label=name)
    axes.axvline(report["column_threshold"], color=colours["ink"], linestyle="--", linewidth=1)
    axes.annotate(
        "pac threshold",
        (report["column_threshold"], 4),
        xytext=(6, 0),
        textcoords="offset points",
        ha="left",
        color=colours["ink"],
    )
    axes.set_xlim(0.82, 0.93)
    axes.set_ylim(0, 101)
    axes.set_xlabel("threshold on BERTScore: flagged where it is this or less")
    axes.set_ylabel("% of the class")
    axes.legend(frameon=False, loc="upper left", labelcolor=colours["ink"])
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
