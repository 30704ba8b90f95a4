"""How many labels does a verdict at any time save against one look after a fixed number?

``python benchmarks/sequential.py`` writes ``results/sequential.md``: labels until a verdict for
simulated streams, and for real answers where they lie beside the project. About three minutes on
one core.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from calibrail.conformal import Assumption, plan
from calibrail.conformal.sequential.audited_calibration import features, fitted
from calibrail.conformal.sequential.forecast import Draw, Learner, Units, follow, gaussian
from calibrail.options import Drawing, Promise, Requirement

Floats = NDArray[np.float64]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUNS, SIMULATED_RUNS = 1000, 300
#: Required coverage, its true value, limit on the FPR, its true value.
RATES = (
    (0.9, 0.95, 0.2, 0.1),
    (0.9, 0.97, 0.2, 0.15),
    (0.95, 0.97, 0.2, 0.1),
    (0.9, 0.93, 0.3, 0.2),
    (0.8, 0.95, 0.3, 0.1),
)
BASE_RATES = (0.1, 0.3, 0.5)
FLOORS = (0.05, 0.1, 0.2, 0.4)
#: File, sign of the score that is certified (1: higher = more likely hallucinated), the score, and
#: the columns that a better guess is made from.
REAL = (
    ("FRANK", "frank/metric_scores.csv", -1, "bertscore_p_article", ("feqa", "qags", "rouge_l")),
    ("FaithBench", "faithbench/summaries.csv", -1, "hhem_2_1", ("true_teacher", "gpt_4o")),
    ("RAGTruth ReDeEP", "ragtruth/llama2_7b_redeep.csv", 1, "redeep_out_of_fold", ()),
)
#: The threshold catches this share of the part that sets it, one in so many of the groups; what is
#: required lies so far off the rates of the rest.
CAUGHT, PARTS, MARGINS = 0.9, 5, (0.06, 0.1)
#: A stream is given up after so many times the labels of the fixed number.
PATIENCE = 4


def quantiles(
    draw: Draw,
    requirement: Requirement,
    drawing: Drawing,
    fixed: int,
    runs: int = RUNS,
    learner: Learner | None = None,
) -> tuple[list[float], float]:
    """Return median and 80th percentile of the labels, the median drawn, and how many certify."""
    labels = PATIENCE * fixed
    found = follow(
        draw,
        requirement,
        drawing,
        streams=runs,
        units=int(2 * labels / min(drawing.floors)),
        labels=labels,
        seed=1,
        learner=learner,
    )
    certified, rejected = found.decided(found.labelled)
    spent = np.minimum(certified, rejected)
    drawn = np.minimum(*found.decided(found.drawn))
    shares = [np.quantile(spent, share, method="higher") for share in (0.5, 0.8)]
    return [*map(float, shares), float(np.median(drawn))], float(np.isfinite(certified).mean())


def replayed(
    draw: Draw,
    requirement: Requirement,
    drawing: Drawing,
    n: int,
    learner: Learner | None = None,
    runs: int = RUNS,
) -> tuple[list[float], float, float]:
    """Return ``quantiles`` of streams that end once n are drawn, and how many have no verdict."""
    found = follow(draw, requirement, drawing, streams=runs, units=n, seed=1, learner=learner)
    certified, rejected = found.decided(found.labelled)
    spent = np.minimum(certified, rejected)
    drawn = np.minimum(*found.decided(found.drawn))
    middle = [np.quantile(values, 0.5, method="higher") for values in (spent, drawn)]
    most = np.quantile(spent, 0.8, method="higher")
    ways = [float(value) for value in (middle[0], most, middle[1])]
    return ways, float(np.isfinite(certified).mean()), float(np.isinf(spent).mean())


def real_row(head: str, fixed: int, n: int, ways: list[tuple[list[float], float, float]]) -> str:
    """Return a line; what is saved only where there are as many answers as the fixed number."""
    cells = [shown(value) for way, *_ in ways for value in way[:2]]
    medians = [way[0] for way, *_ in ways]
    saved = [
        f"{1.0 - median / fixed:+.0%}" if fixed <= n and np.isfinite(median) else "-"
        for median in medians
    ]
    both = (" / ".join(f"{way[i]:.0%}" for way in ways) for i in (1, 2))
    drawn = shown(ways[-1][0][2])
    return f"| {head} | {fixed:,} | {' | '.join([*cells, drawn, *saved, *both])} |"


def shown(value: float) -> str:
    return f"{value:,.0f}" if np.isfinite(value) else "-"


def row(head: str, fixed: int, ways: list[tuple[list[float], float]]) -> str:
    """Return a line with the labels of every way, and the share that the last one saves."""
    cells = [shown(value) for way, _ in ways for value in way[:2]]
    medians = [way[0] for way, _ in ways]
    saved = " | ".join(f"{1.0 - median / fixed:+.0%}" for median in medians)
    drawn = shown(ways[-1][0][2])
    return (
        f"| {head} | {fixed:,} | {' | '.join(cells)} | {drawn} | {saved} | "
        f"{' / '.join(f'{share:.0%}' for _, share in ways)} |"
    )


def fixed_number(requirement: Requirement, rates: tuple[float, float], base: float) -> int:
    made = plan(Promise(), requirement, Assumption(*rates), base_rate=base)
    assert made.n is not None
    return made.n


def simulated() -> list[str]:
    """Return labels until a verdict of Gaussian streams."""
    lines = []
    for required, coverage, limit, fpr in RATES:
        for base in BASE_RATES:
            asked = Requirement(limit, required)
            fixed = fixed_number(asked, (coverage, fpr), base)
            draw = gaussian(coverage, fpr, base)
            ways = [quantiles(draw, asked, Drawing(), fixed, SIMULATED_RUNS)]
            for way in (without_guess(draw, base), draw):
                ways.append(quantiles(way, asked, Drawing("active"), fixed, SIMULATED_RUNS))
            head = f"{coverage:g} ({required:g}) | {fpr:g} ({limit:g}) | {base:g}"
            lines.append(row(head, fixed, ways))
            print(lines[-1], flush=True)
    return lines


def without_guess(draw: Draw, base: float) -> Draw:
    """Return the same answers with the base rate as the guess of each."""

    def same(rng: np.random.Generator, streams: int, units: int) -> Units:
        unit = draw(rng, streams, units)
        return unit._replace(guess=np.full(unit.guess.shape, base))

    return same


def floors() -> list[str]:
    """Return what a lower or a higher floor does."""
    lines = []
    for required, coverage, limit, fpr in RATES:
        asked = Requirement(limit, required)
        fixed = fixed_number(asked, (coverage, fpr), 0.1)
        draw = gaussian(coverage, fpr, 0.1)
        cells = []
        for floor in FLOORS:
            way = Drawing("active", floor)
            (median, most, drawn), _ = quantiles(draw, asked, way, fixed, SIMULATED_RUNS)
            cells.append(f"{shown(median)} / {shown(most)} ({shown(drawn)})")
        lines.append(f"| {coverage:g} ({required:g}) | {fpr:g} ({limit:g}) | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def real(name: str, file: str, sign: int, column: str, more: tuple[str, ...]) -> list[str]:
    """Return labels until a verdict about a threshold from one part, replayed from the rest."""
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = [item for item in csv.DictReader(handle) if item[column].strip()]
    label = np.array([float(item["label"]) == 1.0 for item in rows])
    values = np.array([[number(item[one]) for one in (column, *more)] for item in rows])
    groups = np.unique([item["group"] for item in rows], return_inverse=True)[1]
    first = (np.random.default_rng(0).permutation(groups.max() + 1) % PARTS == 0)[groups]
    score = sign * values[:, 0]
    threshold = np.quantile(score[first & label], 1.0 - CAUGHT, method="lower")
    flagged, truth = score[~first] >= threshold, label[~first]
    coverage, fpr = float(flagged[truth].mean()), float(flagged[~truth].mean())
    base, n = float(truth.mean()), len(truth)
    guesses = {"own score, learnt on the way": np.arange(n, dtype=np.float64)}
    for columns in sorted({1, values.shape[1]}):
        by = "own score" if columns == 1 else f"and {', '.join(more)}"
        guesses[by] = guessed(values[:, :columns], label, first)[~first]
    lines = []
    for margin in MARGINS:
        asked = Requirement(round(fpr + margin, 2), round(coverage - margin, 2))
        fixed = fixed_number(asked, (coverage, fpr), base)
        uniform = replayed(pool(flagged, truth, np.full(n, base)), asked, Drawing(), n)
        for by, guess in guesses.items():
            learner = Learnt(score[~first], RUNS) if by.endswith("on the way") else None
            found = replayed(pool(flagged, truth, guess), asked, Drawing("active"), n, learner)
            head = (
                f"{name} {column} | {by} | {n:,} | {base:.2f} | "
                f"{coverage:.3f} ({asked.min_coverage:g}) | {fpr:.3f} ({asked.max_fpr:g})"
            )
            lines.append(real_row(head, fixed, n, [uniform, found]))
            print(lines[-1], flush=True)
    return lines


def number(text: str) -> float:
    return float(text) if text.strip() else np.nan


def guessed(values: Floats, label: NDArray[np.bool_], first: NDArray[np.bool_]) -> Floats:
    """Return P(hallucinated) by a logistic regression on the half that set the threshold."""
    filled = np.where(np.isnan(values), np.nanmedian(values[first], axis=0), values)
    scaler = StandardScaler().fit(filled[first])
    model = LogisticRegression().fit(scaler.transform(filled[first]), label[first])
    chance: Floats = model.predict_proba(scaler.transform(filled))[:, 1]
    return chance


def pool(flagged: NDArray[np.bool_], truth: NDArray[np.bool_], guess: Floats) -> Draw:
    """Return streams of these answers in random order, each drawn once until all are drawn."""
    order, done = np.empty((0, 0), np.int64), 0

    def draw(rng: np.random.Generator, streams: int, units: int) -> Units:
        nonlocal order, done
        if order.shape[0] != streams or done + units > len(truth):
            every = np.tile(np.arange(len(truth)), (streams, 1))
            order, done = rng.permuted(every, axis=1), 0
        taken = order[:, done : done + units, None]
        done += units
        return Units(flagged[taken], truth[taken], guess[taken], np.ones(taken.shape))

    return draw


class Learnt:
    """What ``learnt_guess`` says in many streams of one pool, whose guess is its row.

    Fitted again whenever a tenth more is drawn.
    """

    def __init__(self, score: Floats, streams: int) -> None:
        self._value = np.unique(score, return_inverse=True)[1]
        size = (streams, int(self._value.max()) + 1)
        self._labels = np.zeros((2, *size))
        self._seen = np.zeros(size)
        self._chance = np.full(size, 0.5)
        self._drawn = self._again = 0

    def guess(self, going: NDArray[np.int64], unit: Units) -> Floats:
        """Return the chances of the rows drawn, by what was labelled so far."""
        if self._drawn >= self._again:
            high = np.cumsum(self._seen[going], axis=1)
            ranks = (2.0 * high - self._seen[going] + 1.0) / (2.0 * high[:, -1:] + 2.0)
            rows = features(ranks)
            slopes = fitted(rows, self._labels[1, going], self._labels[0, going])
            self._chance[going] = expit(np.einsum("snf,sf->sn", rows, slopes))
            self._again = 1 + int(1.1 * self._drawn)
        return self._chance[going[:, None, None], self._of(unit)]

    def told(self, going: NDArray[np.int64], unit: Units, labelled: NDArray[np.bool_]) -> None:
        """Take in which rows were drawn, and the labels of some."""
        streams = np.broadcast_to(going[:, None, None], labelled.shape)
        value = self._of(unit)
        np.add.at(self._seen, (streams, value), 1.0)
        kind = unit.hallucinated[labelled].astype(np.int64)
        np.add.at(self._labels, (kind, streams[labelled], value[labelled]), 1.0)
        self._drawn += labelled.shape[1]

    def _of(self, unit: Units) -> NDArray[np.int64]:
        return self._value[unit.guess.astype(np.int64)]


def section(title: str, text: str, heads: str, lines: Callable[[], list[str]]) -> list[str]:
    columns = heads.count("|") + 1
    return ["", f"## {title}", "", text, "", f"| {heads} |", "|---" * columns + "|", *lines()]


def main() -> None:
    lines = [
        f"Labels until a verdict that is looked for after every label, {SIMULATED_RUNS:,} "
        f"simulated streams each and {RUNS:,} of real answers, at 95 % confidence; beside them the "
        "number of labels after which one look certifies with 80 % probability (fixed). Half and "
        "80 %: so many streams have a verdict by then. Saved: by the median against the fixed "
        "number, uniform first. Drawn: median of the answers looked at by the last way. Certified: "
        "share of the streams in the order of the columns.",
    ]
    lines += section(
        "Simulated",
        "True (required) coverage and FPR. The guess is P(hallucinated) given a Gaussian score "
        "whose threshold is certified: as good as one can be that knows no more. Blind: every "
        "answer has the base rate as its guess.",
        "coverage | FPR | base rate | fixed | uniform half | 80 % | blind half | 80 % "
        "| active half | 80 % | drawn | saved: uniform | blind | active | certified",
        simulated,
    )
    lines += section(
        "The floor",
        "Labels that half and 80 % of the streams need, and (median) answers drawn, at a base rate "
        "of 0.1.",
        "coverage | FPR | " + " | ".join(f"floor {floor:g}" for floor in FLOORS),
        floors,
    )
    there = [item for item in REAL if (DATA / item[1]).exists()]
    if there:
        lines += section(
            "Real answers",
            f"The threshold catches {CAUGHT:.0%} of the hallucinated answers of one group in "
            f"{PARTS}, on which the guess is fitted, too. All other answers are replayed in random "
            f"order, {RUNS:,} times, each answer at most once: a stream that is through with them "
            f"runs out. Required is {' or '.join(f'{margin:g}' for margin in MARGINS)} less "
            "coverage and as much more FPR than is true there. Saved: only where there are as many "
            "answers as the fixed number. Learnt on the way: what `calibrail label --design "
            "active` guesses by itself, from the labels so far and the score that is certified. "
            "Below it, a guess fitted beforehand on that score, then on further columns, too.",
            "detector | guess by | answers | base rate | coverage | FPR | fixed | uniform half "
            "| 80 % | active half | 80 % | drawn | saved: uniform | active | certified | run out",
            lambda: [line for item in there for line in real(*item)],
        )
    else:
        lines += ["", f"Real answers: no data at {DATA.name}; CALIBRAIL_DATA names its folder."]
    write("sequential", "Labels until a verdict", lines, ("numpy", "scipy", "scikit-learn"))


if __name__ == "__main__":
    main()
