"""What becomes of a threshold on another data set, and what does an AUROC mean at a threshold?

A published threshold that catches 95 % on Natural Questions, whose hallucinations are made up,
catches 11 % on RAGTruth, whose are real; neither that paper nor its scores are among our files.
Here calibrail's own detectors, both ways, with what ``calibrail shift`` says of it. Writes
results/papers_drift.md and .json.

Figures that are published without data are turned into what they would cost: with normal scores of
equal variance an AUROC is Phi(d / sqrt 2), and catching c costs Phi(Phi^-1(c) - d) false alarms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from natural_questions import swapped_answers
from sources import Setup, parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from how_far import CONFIDENCE, DELTA, LABELS, false_alarms, limit_with
from results import FOLDER, write

import calibrail
from calibrail.data import Example, read_all

ALPHA: Final = 0.05
SCORES: Final = ("rouge_l", "novelty", "novel_count")
SETS: Final[Mapping[str, str]] = {
    "Natural Questions": "natural_questions/nq_open_gold.jsonl",
    "RAGTruth QA": "ragtruth",
}
#: Published without answers: a judge's AUROC and its expected calibration error.
JEV: Final[Mapping[str, float]] = {"auroc": 0.906, "ece": 0.128}


def main(arguments: Sequence[str] | None = None) -> None:
    setup = parse("drift", "What becomes of a threshold on another data set?", arguments)
    sets = read_sets(setup)
    rows = [
        moved(sets, score, home, there)
        for home in sets
        for there in sets
        if home != there
        for score in SCORES
    ]
    content = {"schema": "calibrail.papers-drift/1", "alpha": ALPHA, "rows": rows}
    (FOLDER / "papers_drift.json").write_text(json.dumps(content, indent=1) + "\n")
    write("papers_drift", "Thresholds on another data set", page(rows), script=setup.command)


def read_sets(setup: Setup) -> dict[str, list[Example]]:
    """Return the answers of both sets, or end with what is missing."""
    found = {}
    for name, place in SETS.items():
        path = setup.file(place)
        if isinstance(path, str):
            sys.exit(f"nothing was made: {path}")
        read = swapped_answers(path) if path.is_file() else read_all(path)[0]
        found[name] = list(read[: setup.most])
    return found


def moved(
    sets: Mapping[str, Sequence[Example]], score: str, home: str, there: str
) -> dict[str, Any]:
    """Return what a threshold of one set does on the other, as ``calibrail shift`` has it."""
    run = calibrail.shift(sets[home], score, test=sets[there], alpha=ALPHA)
    [test] = run.to_dict()["tests"]

    def ends(value: Mapping[str, Any]) -> list[float]:
        return [value["estimate"], value["lower"], value["upper"]]

    return {
        "score": score,
        "home": home,
        "there": there,
        "n": [test["coverage"]["n"], test["fpr"]["n"]],
        "caught": ends(test["coverage"]),
        "false_alarms": ends(test["fpr"]),
        "at_home": ends(test["home_fpr"]),
        "finding": test["finding"],
        "needed": ends(test["needed"]["fpr"]),
        "weighted": [ends(test["weighted"][key]) for key in ("coverage", "fpr")],
        "told_apart": ends(test["weighted"]["told_apart"])[0],
    }


def shown(value: Sequence[float]) -> str:
    """Return a share with its interval."""
    return f"{100 * value[0]:.0f}% ({100 * value[1]:.0f} to {100 * value[2]:.0f})"


def page(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the page of results."""
    lines = [
        f"Thresholds set to catch {1 - ALPHA:.0%} on all answers of one set, tested on one "
        "hallucinated and one faithful answer of each source of the other, with Wilson's "
        "intervals. Natural Questions: right answers and those of other questions, on gold "
        "passages; RAGTruth QA: what models wrote. Finding: whether the promise is broken, "
        "corrected for the one test of each run. Needed: the false alarms there of the threshold "
        f"that would catch {1 - ALPHA:.0%} there. Weighted: what the threshold catches and flags "
        "once the answers at home are weighted towards those there.",
        "",
        "| set on | used on | score | false alarms at home | caught there | false alarms there | "
        "finding | needed | weighted: caught | weighted: false alarms |",
        "|---" * 10 + "|",
    ]
    for row in rows:
        cells = [row["home"], row["there"], f"`{row['score']}`", shown(row["at_home"])]
        cells += [shown(row["caught"]), shown(row["false_alarms"]), row["finding"]]
        cells += [shown(row["needed"]), *(shown(value) for value in row["weighted"])]
        lines.append(f"| {' | '.join(cells)} |")
    at, n = JEV["auroc"], LABELS[0]
    lines += [
        "",
        "## What an AUROC means at a threshold",
        "",
        f"An AUROC of {at} (Jev, published with an ECE of {JEV['ece']}) costs, if scores are "
        f"normal with equal variance, {false_alarms(at, 0.9):.1%} false alarms at 90% caught and "
        f"{false_alarms(at, 0.95):.1%} at 95%. A threshold that {n} labelled answers of each class "
        f"set costs {false_alarms(at, 0.9, n):.1%} on average; at this mean they certify a limit "
        f"of {limit_with(at, 0.9, n):.1%} at 90% ({CONFIDENCE - DELTA:.1%} confidence).",
    ]
    return lines


if __name__ == "__main__":
    main()
