"""How far can one get? The lowest false-alarm limit that each public set certifies.

A quarter of a set's groups chooses the detector: the one with the fewest false alarms at the
threshold that catches enough of them. The rest, which had no part in that, sets its threshold
(``pac``, delta 0.1) and tests it, split as `calibrail calibrate` splits it. A detector that was
tuned on a set has no result there. Writes results/how_far.md and .json and the figure of
docs/how-far.md; comparisons that the leaderboard keeps under ``runs`` hold the scores, and are made
where missing.

What AUROC a limit takes: scores are normal with equal variance, so that the AUROC is
Phi(d / sqrt 2) and catching c costs Phi(Phi^-1(c) - d) false alarms. From n hallucinated answers a
threshold of rank k misses a share that is Beta(k, n + 1 - k); from as many faithful ones the limit
is the exact bound (97.5 %) on the mean. Nothing is drawn.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from claim_sets import write_claims
from leaderboard.board import smallest_limit
from leaderboard.comparisons import read_compared
from leaderboard_page import checkout, kept
from leaderboard_sets import CLAIMS, COLUMNS
from numpy.typing import NDArray
from results import FOLDER, write
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import beta
from text_sets import DATA, missing, read_texts, write_schemes
from trimming_pays import separation

from calibrail import calibrate
from calibrail.conformal import ClassCounts, minimum_n, rank
from calibrail.data.splits import group_numbers
from calibrail.engine import score_examples
from calibrail.errors import CalibrailError
from calibrail.evaluation.stats.auroc import auroc
from calibrail.report.figures.plot import DASHED, DOTTED, INK, QUIET, SERIES, drawing
from calibrail.scores import build, build_column, parse_spec
from calibrail.scores.registry import BASELINES

SHARES: Final = (0.8, 0.9, 0.95)
DELTA: Final = 0.1
#: One end of an interval at 95 %.
CONFIDENCE: Final = 0.975
#: Groups that choose the detector.
CHOOSING: Final = 0.25
#: A limit that a guardrail can live with.
USEFUL: Final = 0.2
#: Labelled answers of each class, for the curve.
LABELS: Final = (100, 300, 1000)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """A set's answers: labels (1 = hallucinated), groups and scores, higher = hallucinated."""

    name: str
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    columns: Mapping[str, Floats]

    def at(self, rows: NDArray[np.bool_]) -> Scored:
        """Return some of the answers."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Scored(self.name, self.labels[rows], self.groups[rows], columns)


@dataclass(frozen=True)
class Found:
    """What a set certifies at one share caught.

    ``limit`` is None where nothing can be certified, and ``measured``, too, where labels are too
    few: ``needed`` groups with a hallucinated answer calibrate, and ``had`` are there.
    """

    share: float
    detector: str | None = None
    limit: float | None = None
    measured: float | None = None
    auroc: float | None = None
    had: int = 0
    needed: int = 0


def halves(scored: Scored, seed: int = 0) -> tuple[Scored, Scored]:
    """Return the answers that choose, and the others; no group is torn apart."""
    n = int(scored.groups.max()) + 1
    first = np.random.default_rng(seed).permutation(n)[: round(CHOOSING * n)]
    choose = np.isin(scored.groups, first)
    return scored.at(choose), scored.at(~choose)


def choose(scored: Scored, share: float) -> str | None:
    """Return the detector with the fewest false alarms at a share caught; None without a class."""
    if len(np.unique(scored.labels)) < 2:
        return None

    def cost(name: str) -> tuple[float, float]:
        values = np.where(np.isnan(scored.columns[name]), np.inf, scored.columns[name])
        bad, good = values[scored.labels == 1], values[scored.labels == 0]
        threshold = np.sort(bad)[int((1 - share) * len(bad) + 1e-9)]
        return float(np.mean(good >= threshold)), -auroc(bad, good).estimate

    return min(scored.columns, key=cost)


def certified(scored: Scored, detector: str, share: float) -> Found:
    """Return the lowest limit that these answers certify of a detector named beforehand."""
    values = scored.columns[detector]
    rows = [
        {
            "id": str(i),
            "group": f"g{scored.groups[i]}",
            "label": int(scored.labels[i]),
            "score": None if np.isnan(values[i]) else float(values[i]),
        }
        for i in range(len(values))
    ]
    alpha = round(1 - share, 6)
    needed = minimum_n(alpha, "pac", delta=DELTA)
    had = len(np.unique(scored.groups[scored.labels == 1]))
    score = build_column("score", "hallucinated")
    try:
        run = calibrate(rows, score, alpha=alpha, guarantee="pac", delta=DELTA)
    except CalibrailError:
        return Found(share, detector, had=had, needed=needed)
    test = run.report.test
    caught, fpr = test.coverage, test.fpr
    if fpr.n == 0 or fpr.count == fpr.n:
        return Found(share, detector, measured=fpr.estimate, had=had, needed=needed)
    counts = ClassCounts(caught.count, caught.n, fpr.count, fpr.n)
    limit, _ = smallest_limit(counts, share, round(CONFIDENCE - DELTA, 6), DELTA)
    return Found(share, detector, limit, fpr.estimate, test.auroc.estimate, had, needed)


def measured(scored: Scored) -> list[Found]:
    """Return what a set certifies at every share."""
    first, rest = halves(scored)
    found = []
    for share in SHARES:
        name = choose(first, share)
        found.append(Found(share) if name is None else certified(rest, name, share))
    return found


def read_sets() -> list[Scored]:
    """Return the answers of every set: scores that files hold, and words where there are texts."""
    found = []
    for item in COLUMNS:
        if "unwanted" in item.name:
            continue
        folder = kept(item)
        run = read_compared(folder)
        tuned = {name for name, mark in item.marks.items() if mark == "fitted"}
        columns = {
            name.removeprefix("column:"): values
            for name, values in run.columns.items()
            if name not in tuned
        }
        owners = pq.read_table(folder / "scores.parquet", columns=["group"]).column("group")
        groups = group_numbers(owners.to_pylist(), len(run.labels))
        found.append(Scored(item.name, run.labels.astype(np.int64), groups, columns))
    for name in ("RAGTruth QA", "HaluEval QA"):
        examples = read_texts(name)
        table = score_examples(examples, [build(parse_spec(spec)) for spec in BASELINES])
        labels = np.array([example.label for example in examples])
        groups = group_numbers([example.group for example in examples], len(examples))
        found.append(Scored(f"{name}, words alone", labels, groups, dict(table.columns)))
    return found


def false_alarms(auroc: float, share: float, n: int | None = None) -> float:
    """Return what catching a share costs: at best, or on average with n labels and ``pac``."""
    d = separation(auroc)
    if n is None:
        return float(ndtr(ndtri(share) - d))
    k = rank(n, round(1 - share, 6), "pac", delta=DELTA)
    missed = beta(k, n + 1 - k).ppf((np.arange(400) + 0.5) / 400)
    return float(np.mean(ndtr(ndtri(1 - missed) - d)))


def limit_with(auroc: float, share: float, n: int) -> float:
    """Return the limit that n answers of each class certify, at the mean of what they cost."""
    flagged = n * false_alarms(auroc, share, n)
    return float(beta.ppf(CONFIDENCE, flagged + 1, n - flagged)) if flagged < n else 1.0


def needed(share: float, n: int | None = None, limit: float = USEFUL) -> float | None:
    """Return the AUROC from which on a limit can be kept; None where labels are too few."""
    if n is not None and n < minimum_n(round(1 - share, 6), "pac", delta=DELTA):
        return None

    def above(area: float) -> float:
        return (false_alarms(area, share) if n is None else limit_with(area, share, n)) - limit

    return float(brentq(above, 0.5, 1 - 1e-9, xtol=1e-6))


def cell(found: Mapping[str, Any]) -> str:
    """Return what the table shows of one share."""
    if found["limit"] is not None:
        return f"{math.ceil(100 * found['limit'])}% `{found['detector']}`"
    if found["measured"] is None:
        return f"{found['had']} of {found['needed']} groups"
    return "none"


def table(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the page, the lowest limit at 90 % first."""

    def order(item: Mapping[str, Any]) -> tuple[float, ...]:
        limits = [found["limit"] for found in item["found"]]
        return tuple(2.0 if limits[i] is None else limits[i] for i in (1, 0, 2))

    return [
        f"| set | labels, groups | {' | '.join(f'{share:.0%} caught' for share in SHARES)} |",
        "|---" * (2 + len(SHARES)) + "|",
        *(
            f"| {item['name']} | {item['answers']:,}, {item['groups']:,} | "
            + " | ".join(cell(found) for found in item["found"])
            + " |"
            for item in sorted(sets, key=order)
        ),
    ]


def auroc_table() -> list[str]:
    """Return the AUROC that a useful limit takes, by share caught and labels."""
    head = ["no limit on labels", *(f"{n:,} of each class" for n in LABELS)]
    lines = [f"| caught | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for share in SHARES:
        found = [needed(share), *(needed(share, n) for n in LABELS)]
        cells = ["-" if value is None else f"{value:.3f}" for value in found]
        lines.append(f"| {share:.0%} | {' | '.join(cells)} |")
    return lines


def draw(sets: Sequence[Mapping[str, Any]], narrow: bool) -> str:
    """Draw false alarms over the AUROC, and where the public sets lie at 90 % caught."""
    areas = np.linspace(0.5, 0.995, 100)
    with drawing(*((4.1, 4.6) if narrow else (7.2, 4.4))) as plot:
        for share, colour in zip(SHARES, SERIES, strict=False):
            costs = [100 * false_alarms(area, share) for area in areas]
            label = f"{share:.0%} caught"
            plot.axes.plot(areas, costs, color=colour, linewidth=1.8, label=label)
        certain = [100 * limit_with(area, 0.9, LABELS[0]) for area in areas]
        label = f"limit at 90%, {LABELS[0]} labels of each class"
        plot.axes.plot(
            areas, certain, color=SERIES[1], linewidth=1.2, linestyle=DASHED, label=label
        )
        at = [item["found"][1] for item in sets if item["found"][1]["limit"] is not None]
        plot.axes.plot(
            [found["auroc"] for found in at],
            [100 * found["limit"] for found in at],
            "o",
            color=INK,
            markersize=5.0,
            clip_on=False,
            label="public sets, limit at 90%",
        )
        plot.axes.axhline(100 * USEFUL, color=QUIET, linewidth=0.8, linestyle=DOTTED)
        plot.axes.set(xlim=(0.5, 1.0), ylim=(0.0, 101.0))
        plot.axes.set(xlabel="AUROC", ylabel="false alarms, % of faithful answers")
        plot.legend(1 if narrow else 2)
        return plot.svg("False alarms by the AUROC, and the limits that public sets certify.")


def main() -> None:
    if gone := [*missing(), *(str(DATA / "aggrefact"),) * (not (DATA / "aggrefact").is_dir())]:
        sys.exit(f"nothing was made: no {', no '.join(gone)}; CALIBRAIL_DATA names the data")
    with checkout():
        write_claims(DATA / "aggrefact" / "scores.csv", Path(CLAIMS))
        sets = [
            {
                "name": item.name,
                "answers": len(item.labels),
                "groups": len(np.unique(item.groups)),
                "found": [asdict(found) for found in measured(item)],
            }
            for item in read_sets()
        ]
    content = {"schema": "calibrail.how-far/1", "sets": sets}
    (FOLDER / "how_far.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for narrow, name in ((False, "how_far"), (True, "how_far-narrow")):
        write_schemes(draw(sets, narrow), name)
    write("how_far", "How far can one get?", page(sets))


def page(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the page of results."""
    return [
        f"The lowest certified limit on false alarms, with {CONFIDENCE - DELTA:.1%} confidence, "
        f"and the detector, which {CHOOSING:.0%} of the groups chose; the others set its threshold "
        "and tested it. `3 of 22 groups`: too few hold a hallucinated answer to calibrate. `none`: "
        "the answers contradict what is promised, or the threshold flags all of them.",
        "",
        *table(sets),
        "",
        f"## The AUROC that a limit of {USEFUL:.0%} takes",
        "",
        "Normal scores of equal variance, one answer a group; with so many labelled answers of "
        "each class the limit is certified, at the mean of what a threshold costs.",
        "",
        *auroc_table(),
    ]


if __name__ == "__main__":
    main()
