"""Attacks on comparisons: the best of many equals, and what is certified after a look at all.

A reference that is the best of all on the very answers that test it has won that lot; a table that
holds every answer lets who reads it choose by all of them.
"""

import shlex
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

import calibrail
from calibrail.conformal import ClassCounts, certify_counts
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.evaluation.compare import compare_detectors
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.winner import CONFIRMING, halve
from calibrail.options import Promise, Requirement
from calibrail.options.fields import cli_spelling
from calibrail.report.documents.doctor import document
from calibrail.scores.registry import ColumnScore

from .attack import Attack, Try


def answers(
    rng: np.random.Generator, detectors: int, n: int, step: float
) -> list[dict[str, object]]:
    """Return answers with scores of equal detectors, in steps where given."""
    labels, common = rng.random(n) < 0.35, rng.normal(size=n)
    rows: list[dict[str, object]] = [
        {"id": f"a{row}", "label": "hallucinated" if labels[row] else "faithful"}
        for row in range(n)
    ]
    for place in range(detectors):
        values = np.sqrt(0.4) * common + np.sqrt(0.6) * rng.normal(size=n) + 1.5 * labels
        values = np.round(values / step) * step if step else values
        for row, value in zip(rows, values.tolist(), strict=True):
            row[f"s{place}"] = value
    return rows


def best_of(detectors: int, step: float = 0.0) -> Try:
    """Return an attack that compares equals: any claim about a pair of them is wrong."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        rows = answers(rng, detectors, 400, step)
        scores = [
            ColumnScore(column=f"s{place}", higher="hallucinated") for place in range(detectors)
        ]
        run = calibrail.compare(rows, scores, alpha=0.1, baselines=False).to_dict()
        level, paired = run["winner"]["level"], run["paired"]["against_best"]
        return any(
            test[kind]["p_adjusted"] <= level for test in paired for kind in ("fpr", "auroc")
        )

    return attempt


def best_row_again(rng: np.random.Generator, folder: Path) -> bool | None:
    """Test the best row of a table without a winner on the half that is said to be untouched.

    All thresholds are the same, and all detectors flag a little more than the limit allows.
    """
    n, limit, names = 800, 0.3, [f"s{place}" for place in range(12)]
    labels = (np.arange(n) % 2).astype(np.int8)
    split = np.where(np.arange(n) // 2 % 4 == 0, CALIBRATION, TEST).astype(np.int8)
    setting = (split == CALIBRATION) & (labels == 1)
    samples = {}
    for name in names:
        scores = rng.random(n) + labels
        scores[setting] = 0.695 + np.arange(setting.sum()) / setting.sum()
        # The threshold at rank 1 of those that set it: every other answer above it is flagged.
        samples[name] = Sample(scores, labels, split)
    alpha = 1.01 / (setting.sum() + 1)
    asked = Requirement(limit, 0.5)
    content = compare_detectors(samples, Promise(alpha, "marginal"), asked).to_dict()
    if content["leader"] is not None:
        return None
    best = content["detectors"][0]
    again = halve(labels, split, np.arange(n)) == CONFIRMING
    flagged = samples[best["name"]].values >= best["threshold"]
    caught, alarms = (flagged[again & (labels == label)] for label in (1, 0))
    counts = ClassCounts(int(caught.sum()), len(caught), int(alarms.sum()), len(alarms))
    return certify_counts(counts, asked).verdict == "certified"


#: Questions of two systems that are equally often wrong, and how many of them are labelled.
_QUESTIONS, _LABELLED = 600, (40, 60, 90, 130, 180, 250, 350, 500)


def two_systems(rng: np.random.Generator, more: float) -> tuple[list[dict[str, Any]], ...]:
    """Return answers of A, which is wrong by ``more`` more often, and of B, with a judge's word."""
    hard, order = rng.random(_QUESTIONS) < 0.5, rng.permutation(_QUESTIONS)
    lot, systems = rng.random(_QUESTIONS), []
    for rate in (0.25 + more, 0.25):
        wrong = np.where(hard, lot < rate, rng.random(_QUESTIONS) < rate)
        said = np.where(rng.random(_QUESTIONS) < 0.85, wrong, ~wrong).astype(int).tolist()
        rows = [{"id": f"q{row}", "judge": said[row]} for row in range(_QUESTIONS)]
        systems.append([row | {"human": int(wrong[at])} for at, row in enumerate(rows)])
    return tuple([rows[at] for at in order] for rows in systems)


def versus(systems: tuple[list[dict[str, Any]], ...], n: int, folder: Path, **more: Any) -> Any:
    """Compare two systems of whose questions the first n are labelled."""
    known = (
        [row | ({} if at < n else {"human": ""}) for at, row in enumerate(rows)] for rows in systems
    )
    asked: dict[str, Any] = {"label_column": "human", "judge_column": "judge", **more}
    return calibrail.versus(*known, looks=folder / "looks.json", **asked).to_dict()


def until_better(rng: np.random.Generator, folder: Path) -> bool:
    """Label more and more questions of equals, until one of them is called better."""
    systems = two_systems(rng, 0.0)
    said = (versus(systems, n, folder)["outcome"] for n in _LABELLED)
    return any(outcome in ("better", "worse") for outcome in said)


def margin_read_off(rng: np.random.Generator, folder: Path) -> bool:
    """Ask with the margin that a first look has shown, to a tenth of a point: it is exceeded."""
    more = 0.03
    systems = two_systems(rng, more)
    margin = ceil(1000.0 * versus(systems, 200, folder)["difference"]["upper"]) / 1000.0
    if margin <= 0.0:
        return True
    kept = versus(systems, 200, folder, margin=margin)["outcome"] in ("better", "non-inferior")
    return bool(kept and margin < more)


#: Columns of a file whose names say nothing, and by how much each tells hallucinated answers.
_COLUMNS, _TOLD = 30, 1.5


def as_doctor_says(rng: np.random.Generator, folder: Path) -> bool:
    """Run the command that `doctor` prints, with a limit: a broken threshold is certified."""
    labels, names = np.arange(300) % 2, [f"s{place}" for place in range(_COLUMNS)]
    scores = {name: rng.normal(_TOLD * labels) for name in names}
    table = pd.DataFrame({"id": [f"a{row}" for row in range(300)], "label": labels} | scores)
    table.to_csv(folder / "scores.csv", index=False)
    with cli_spelling():
        step = document(calibrail.diagnose(folder / "scores.csv").to_dict()).next_step
    # Hallucinated answers have the higher scores here; the other command is not for them.
    words = shlex.split(step[step.index("calibrail ") :].partition("\nor, if")[0])
    named = [name for word, name in pairwise(words) if word == "--score-column"]
    specs = [f"column:column={name},higher=hallucinated" for name in named]
    alpha, limit = 0.2, 0.36
    asked: dict[str, Any] = {"alpha": alpha, "max_false_alarms": limit, "baselines": False}
    if words[1] == "calibrate":
        run = calibrail.calibrate(folder / "scores.csv", specs[0], **asked)
        certified, threshold = run.verdict == "certified", run.calibration.threshold
    else:
        made = calibrail.compare(folder / "scores.csv", specs, **asked).comparison
        winner = made.winner.name
        if winner is None:
            return False
        certified = (made.winner.certificate or {}).get("verdict") == "certified"
        threshold = dict(made.detectors)[winner].threshold or 0.0
    missed, flagged = ndtr(threshold - _TOLD), ndtr(-threshold)
    return bool(certified and (missed > alpha or flagged > limit))


ATTACKS = [
    Attack("the best of 30 equals", "400 answers, 5 %", 0.05, (10, 30), best_of(30), 100),
    Attack(
        "the best of 10 equals with ties",
        "400 answers, scores in halves, 5 %",
        0.05,
        (8, 40),
        best_of(10, step=0.5),
        200,
    ),
    Attack(
        "the best row of a table without a winner, on the other half",
        "12 equal detectors that flag 30.5 % where 30 % is allowed, 5 %",
        0.05,
        (8, 36),
        best_row_again,
    ),
    Attack(
        "the column that doctor names is certified",
        f"{_COLUMNS} equal columns of 300 answers, 80 % caught, a limit that half of them keep",
        0.05,
        (16, 100),
        as_doctor_says,
        100,
    ),
    Attack(
        "versus: one of two equals is better, or worse, in any of eight looks at more labels",
        f"{_QUESTIONS} questions, {_LABELLED[0]} to {_LABELLED[-1]} labelled, a judge",
        0.05,
        None,
        until_better,
        100,
    ),
    Attack(
        "versus: not worse by more than a margin read off the first look, though it is",
        f"{_QUESTIONS} questions, 200 labelled, a judge, 3 points worse",
        0.025,
        None,
        margin_read_off,
        100,
    ),
]
