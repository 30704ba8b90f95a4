"""How many labels does a verdict at any time save against one look after a fixed number?

``python benchmarks/sequential.py`` writes ``results/sequential.md``: labels until a verdict for
simulated streams, and for real answers where they lie beside the project, some of them by the
commands themselves from a file. About five minutes on one core.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy import stats
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from validity.sequential import Learnt

import calibrail
from calibrail.conformal import Assumption, plan
from calibrail.conformal.sequential.betting import FRACTIONS, mixture, wealth_of_counts
from calibrail.conformal.sequential.forecast import Draw, Learner, Units, follow, gaussian
from calibrail.options import Drawing, Promise, Requirement

Floats = NDArray[np.float64]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUNS, SIMULATED_RUNS, JUDGED_RUNS = 1000, 300, 200
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
#: The same of a set that names no groups: neighbours, which share documents, are one.
AGGREFACT, NEIGHBOURS = ("LLM-AggreFact", "aggrefact/scores.csv", -1, "factcg_base", ()), 20
#: The threshold catches this share of the part that sets it, one in so many of the groups; what is
#: required lies so far off the rates of the rest.
CAUGHT, PARTS, MARGINS = 0.9, 5, (0.06, 0.1)
#: A stream is given up after so many times the labels of the fixed number.
PATIENCE = 4
#: How often a judge is right, whatever the answer; a useless one says hallucinated as often as it
#: is so, whatever the answer.
JUDGES = {"right 85 %": 0.85, "useless": None}
#: Answers that simulated streams come from, and values that their score has.
POPULATION, VALUES = 20_000, 100
#: Most answers of a real stream.
MOST_DRAWN = 2_000
BET_RUNS = 500
#: Without the cases that take thousands of labels.
JUDGED_RATES = tuple(rates for rates in RATES if rates[1] - rates[0] > 0.04)
#: How answers are drawn beside a judge.
WITH_JUDGE = Drawing.beside("judge", None)
#: How answers of a file are labelled, the same ones by each way.
WAYS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "score alone": {"drawing": WITH_JUDGE},
    "another detector as judge": {"judge_column": "other"},
    "judge right 85 %": {"judge_column": "right_85"},
    "judge useless": {"judge_column": "useless"},
}


@dataclass(frozen=True)
class Labelled:
    """A set that is labelled from its file.

    The score whose threshold is to catch 1 - ``alpha``, the detector in a judge's place (higher =
    more faithful, both), what is asked, how often, and whether answers are grouped.
    """

    name: str
    file: str
    score: str
    other: str
    alpha: float
    asked: Mapping[str, float]
    runs: int
    grouped: bool = True


LABELLED = (
    Labelled(
        *("FRANK", "frank/metric_scores.csv", "bertscore_p_article", "qags"),
        *(0.15, {"min_caught": 0.75, "max_false_alarms": 0.65}, 22),
    ),
    Labelled(
        *("LLM-AggreFact", "aggrefact/scores.csv", "factcg_base", "factcg_wanli"),
        *(0.1, {"min_caught": 0.8, "max_false_alarms": 0.55}, 5),
    ),
    # Its 75 articles are too few for a verdict: each summary by itself.
    Labelled(
        *("FaithBench", "faithbench/summaries.csv", "hhem_2_1", "gpt_4o"),
        *(0.3, {"min_caught": 0.65, "max_false_alarms": 0.8}, 8, False),
    ),
)
#: Columns of other detectors whose word is a judge's: hallucinated below this score.
OTHERS = {
    "FRANK": {"qags": 0.6},
    "LLM-AggreFact": {"factcg_wanli": 0.5},
    "FaithBench": {"gpt_4o": 0.5, "true_teacher": 0.5},
}


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
    # One look, at the confidence of the streams.
    once = replace(requirement, n_looks=1)
    made = plan(Promise(), once, Assumption(*rates), base_rate=base)
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
    values, label, first = read_set(file, column, more)
    score = sign * values[:, 0]
    flagged, truth = thresholded(score, label, first)
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


def read_set(
    file: str, column: str, more: Sequence[str]
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return columns of a set, which of its answers are hallucinated, and which set thresholds."""
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = [item for item in csv.DictReader(handle) if item[column].strip()]
    label = np.array([item.get("label", item.get("label_supported")) for item in rows], float) == 1
    label = label != ("label_supported" in rows[0])
    values = np.array([[number(item[one]) for one in (column, *more)] for item in rows])
    named = [item.get("group", place // NEIGHBOURS) for place, item in enumerate(rows)]
    groups = np.unique(named, return_inverse=True)[1]
    first = (np.random.default_rng(0).permutation(groups.max() + 1) % PARTS == 0)[groups]
    return values, label, first


def thresholded(
    score: Floats, label: NDArray[np.bool_], first: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of the other answers a threshold from the first part flags, and their labels."""
    threshold = np.quantile(score[first & label], 1.0 - CAUGHT, method="lower")
    return score[~first] >= threshold, label[~first]


def judge_of(truth: NDArray[np.bool_], right: float | None) -> Floats:
    """Return what a judge says that is right so often; None: whatever the answer."""
    rng = np.random.default_rng(7)
    if right is None:
        return (rng.random(len(truth)) < truth.mean()).astype(float)
    return (truth == (rng.random(len(truth)) < right)).astype(float)


def population(
    coverage: float, fpr: float, base: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Floats]:
    """Return flags, labels and scores of answers with just these rates, scores in few values."""
    n_bad = round(base * POPULATION)
    truth = np.arange(POPULATION) < n_bad
    # Quantiles in place of random scores: the rates are what they are said to be.
    places = np.r_[(np.arange(n_bad) + 0.5) / n_bad, (np.arange(POPULATION - n_bad) + 0.5)]
    places[n_bad:] /= POPULATION - n_bad
    score = ndtri(places) + (ndtri(coverage) - ndtri(fpr)) * truth
    threshold = -ndtri(fpr)
    flagged = score >= threshold
    edges = np.quantile(score, np.arange(1, VALUES) / VALUES)
    return flagged, truth, np.searchsorted(edges, score).astype(float)


def endless(flagged: NDArray[np.bool_], truth: NDArray[np.bool_], guess: Floats) -> Draw:
    """Return streams of these answers, each drawn anew whatever was drawn before."""

    def draw(rng: np.random.Generator, streams: int, units: int) -> Units:
        taken = rng.integers(len(truth), size=(streams, units, 1))
        return Units(flagged[taken], truth[taken], guess[taken], np.ones(taken.shape))

    return draw


def judged_simulated() -> list[str]:
    """Return labels until a verdict with judges, and with none."""
    lines = []
    for required, coverage, limit, fpr in JUDGED_RATES:
        for base in BASE_RATES:
            asked = Requirement(limit, required)
            fixed = fixed_number(asked, (coverage, fpr), base)
            flagged, truth, score = population(coverage, fpr, base)
            row_number = np.arange(POPULATION, dtype=float)
            draw = endless(flagged, truth, row_number)
            (uniform, *_), _ = quantiles(draw, asked, Drawing(), fixed)
            medians = [uniform]
            for right in (..., *JUDGES.values()):
                clues = score if right is ... else np.c_[score, judge_of(truth, right)]
                learner = Learnt(clues, JUDGED_RUNS)
                way = quantiles(draw, asked, WITH_JUDGE, fixed, JUDGED_RUNS, learner)
                medians.append(way[0][0])
            head = f"{coverage:g} ({required:g}) | {fpr:g} ({limit:g}) | {base:g}"
            lines.append(judged_row(head, medians))
            print(lines[-1], flush=True)
    return lines


def bets_compared() -> list[str]:
    """Return how soon bets on a coverage are won, and whether too often at the limit."""
    return [bets_row(required, coverage) for required, coverage, *_ in RATES]


def bets_row(required: float, coverage: float) -> str:
    """Return a line of all bets on one coverage."""
    goal, fixed = np.log(20.0), fixed_hits(required, coverage)
    # The fewest labels in the mean that any bet of this error can take (Wald).
    least = goal / stats.entropy([coverage, 1.0 - coverage], [required, 1.0 - required])
    cells, wrong = [f"{coverage:g} ({required:g})", f"{fixed:,}", f"{least:.0f}"], []
    rng = np.random.default_rng(3)
    size = 2 * fixed
    urn = rng.permuted(np.tile(np.arange(size) < round(coverage * size), (BET_RUNS, 1)), axis=1)
    limit_urn = rng.permuted(
        np.tile(np.arange(size) < math.floor(required * size), (BET_RUNS, 1)), axis=1
    )
    many = rng.random((BET_RUNS, 5 * fixed))
    for name, bet in {**BETS, "known": partial(known_bet, coverage=coverage)}.items():
        finite = name == "urn"
        hits = urn if finite else many < coverage
        won = bet(hits.astype(float), required) >= goal
        first = np.where(won.any(axis=1), won.argmax(axis=1) + 1.0, np.inf)
        cells += [shown(float(np.quantile(first, q, method="higher"))) for q in (0.5, 0.8)]
        edge = limit_urn if finite else many < required
        wrong.append(f"{np.mean((bet(edge.astype(float), required) >= goal).any(axis=1)):.1%}")
    return f"| {' | '.join([*cells, ' / '.join(wrong)])} |"


def fixed_hits(required: float, coverage: float) -> int:
    """Return the fewest answers after which one look has 80 % power, and keeps it from there on."""
    n = np.arange(1, 5000)
    least = stats.binom.isf(0.05, n, required) + 1
    power = stats.binom.sf(least - 1, n, coverage)
    return int(n[np.flatnonzero(power < 0.8)[-1] + 1])


def mixture_bet(hits: Floats, limit: float) -> Floats:
    n = np.arange(1, hits.shape[1] + 1)
    count = np.cumsum(hits, axis=1)
    return wealth_of_counts(count, n - count, limit, above=True)


def four_bets(hits: Floats, limit: float) -> Floats:
    stakes = FRACTIONS / limit
    steps = np.log1p(stakes * (hits - limit)[..., None])
    return mixture(np.cumsum(steps, axis=1))


def plug_in(hits: Floats, limit: float) -> Floats:
    """Return the wealth of betting that the rate is what it was so far, with one miss more."""
    n = np.arange(hits.shape[1])
    before = np.cumsum(hits, axis=1) - hits
    rate = np.maximum((before + limit) / (n + 1.0 + limit), limit)
    return np.cumsum(
        np.where(hits > 0.0, np.log(rate / limit), np.log1p(-rate) - np.log1p(-limit)), 1
    )


def known_bet(hits: Floats, limit: float, coverage: float) -> Floats:
    """Return the wealth of betting on the true coverage, which nobody knows."""
    won, lost = np.log(coverage / limit), np.log1p(-coverage) - np.log1p(-limit)
    return np.cumsum(np.where(hits > 0.0, won, lost), axis=1)


def urn_bet(hits: Floats, limit: float) -> Floats:
    """Return the mixture on draws from a set whose rate is at most the limit, none drawn again."""
    size = hits.shape[1]
    before = np.cumsum(hits, axis=1) - hits
    # What is left may hold so many hits at most, if the claim bet against is true.
    left = np.clip((limit * size - before) / (size - np.arange(size)), 0.0, 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(32)
    stakes = (nodes + 1.0) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        won = np.log1p(stakes * (1.0 / left[..., None] - 1.0))
    steps = np.where(hits[..., None] > 0.0, won, np.log1p(-stakes))
    # A hit where none may be left refutes the claim; a bet on what is certain wins nothing.
    steps = np.where(left[..., None] >= 1.0, 0.0, steps)
    path = np.cumsum(steps, axis=1) + np.log(weights / 2.0)
    return np.asarray(np.logaddexp.reduce(path, axis=-1))


BETS = {"mixture": mixture_bet, "four bets": four_bets, "plug-in": plug_in, "urn": urn_bet}


def judged_row(head: str, medians: Sequence[float]) -> str:
    """Return a line: labels of the first way, and of the others with what they save against it."""
    first, others = medians[0], medians[1:]
    saved = (
        f"{shown(other)} ({1.0 - other / first:+.0%})"
        if np.isfinite(first) and np.isfinite(other)
        else shown(other)
        for other in others
    )
    return f"| {head} | {shown(first)} | {' | '.join(saved)} |"


def judged_real(name: str, file: str, sign: int, column: str, _: tuple[str, ...]) -> list[str]:
    """Return the same of real answers, replayed, with their own other detectors as judges, too."""
    others = OTHERS[name]
    values, label, first = read_set(file, column, tuple(others))
    score = sign * values[:, 0]
    flagged, truth = thresholded(score, label, first)
    rates = float(flagged[truth].mean()), float(flagged[~truth].mean())
    n = min(len(truth), MOST_DRAWN)
    judges = {key: judge_of(truth, JUDGES[key]) for key in JUDGES}
    for place, (other, below) in enumerate(others.items(), start=1):
        judges[other] = (values[~first, place] < below).astype(float)
    # The score in few values: streams differ by what is drawn, not by its last digit.
    edges = np.quantile(score[~first], np.arange(1, VALUES) / VALUES)
    coarse = np.searchsorted(edges, score[~first]).astype(float)
    lines = []
    for margin in MARGINS[1:]:
        asked = Requirement(round(rates[1] + margin, 2), round(rates[0] - margin, 2))
        draw = pool(flagged, truth, np.arange(len(truth), dtype=float))
        (uniform, *_), *_ = replayed(draw, asked, Drawing(), n)
        for judge, says in {"none": None, **judges}.items():
            clues = coarse if says is None else np.c_[coarse, says]
            learner = Learnt(clues, JUDGED_RUNS)
            (half, _most, drawn), done, _ = replayed(
                draw, asked, WITH_JUDGE, n, learner, JUDGED_RUNS
            )
            right = "" if says is None else f"{np.mean((says == 1) == truth):.0%}"
            head = (
                f"{name} {column} | {rates[0]:.3f} ({asked.min_coverage:g}) | "
                f"{rates[1]:.3f} ({asked.max_fpr:g}) | {truth.mean():.2f} | {judge} | {right}"
            )
            lines.append(f"{judged_row(head, (uniform, half))} {shown(drawn)} | {done:.0%} |")
            print(lines[-1], flush=True)
    return lines


def labelled_rows(item: Labelled) -> list[dict[str, str]]:
    """Return a set's rows with both scores, and a text each that is like no other: it has none."""
    with (DATA / item.file).open(encoding="utf-8", newline="") as handle:
        rows = [*csv.DictReader(handle)]
    kept = [row for row in rows if row[item.score].strip() and row[item.other].strip()]
    truth = np.array([row.get("label") == "1" or row.get("label_supported") == "0" for row in kept])
    right, useless = judge_of(truth, 0.85), judge_of(truth, None)
    return [
        {
            "id": row["id"],
            # Neighbours share documents where none are named.
            "group": row.get("group", f"b{place // NEIGHBOURS}"),
            "label": f"{truth[place]:d}",
            "score": row[item.score].strip(),
            "other": row[item.other].strip(),
            "right_85": f"{right[place]:.0f}",
            "useless": f"{useless[place]:.0f}",
            "response": own_text(row["id"]),
        }
        for place, row in enumerate(kept)
    ]


def own_text(id: str) -> str:
    """Return ten words that no other answer has, so that it is a near copy of none."""
    digest = hashlib.sha256(id.encode()).hexdigest()
    return " ".join(digest[i : i + 6] for i in range(0, 60, 6))


def write_rows(path: Path, rows: Iterable[Mapping[str, str]], *without: str) -> None:
    """Write rows as CSV, without some columns."""
    kept = [{name: cell for name, cell in row.items() if name not in without} for row in rows]
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, [*kept[0]])
        writer.writeheader()
        writer.writerows(kept)


def labelled_by_hand(
    item: Labelled,
    rows: Sequence[Mapping[str, str]],
    seed: int,
    way: Mapping[str, Any],
    folder: Path,
) -> tuple[int, str, int]:
    """Label answers of a file until their verdict falls; return labels, verdict, answers drawn.

    A fifth of the groups sets the threshold; the rest are the traces, whose labels are told as
    they are handed out. The verdict is what `certify` reads off the folder.
    """
    groups = sorted({row["group"] for row in rows})
    first = {*np.random.default_rng(seed).permutation(groups)[: len(groups) // PARTS].tolist()}
    alone = () if item.grouped else ("group",)
    write_rows(folder / "labelled.csv", (row for row in rows if row["group"] in first), *alone)
    traces = (row for row in rows if row["group"] not in first)
    write_rows(folder / "traces.csv", traces, "label", *alone)
    score = "column:column=score,higher=faithful"
    run = calibrail.calibrate(folder / "labelled.csv", score, alpha=item.alpha, baselines=False)
    file, labels = folder / "guardrail.json", folder / "labels"
    run.freeze().save(file)
    truth = {row["id"]: int(row["label"]) for row in rows}
    asked: dict[str, Any] = {"guardrail": file, "looks": False, "seed": seed, **item.asked}
    n = 0
    with calibrail.label(folder / "traces.csv", labels, **asked, **way) as session:
        while not session.counts("ada").decided and (task := session.next("ada")) is not None:
            session.put("ada", task.order, truth[task.id])
            n += 1
        drawn = session.counts("ada").drawn
    return n, calibrail.certify(file, labels=labels, looks=False).verdict, drawn


def from_files(item: Labelled) -> list[str]:
    """Return a line a way, with the standard error of means, and of what is saved by each pair."""
    rows = labelled_rows(item)
    found: dict[str, list[tuple[int, str, int]]] = {name: [] for name in WAYS}
    for seed in range(100, 100 + item.runs):
        for name, way in WAYS.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(labelled_by_hand(item, rows, seed, way, Path(folder)))
            print(item.name, seed, name, *found[name][-1], flush=True)
    asked = ", ".join(f"{value:g}" for value in item.asked.values())
    return [f"| {item.name} ({asked}) {line}" for line in file_lines(found)]


def file_lines(found: Mapping[str, Sequence[tuple[int, str, int]]]) -> list[str]:
    """Return the lines of what each way took, of the same seeds; saved where both ended."""
    lines, base = [], np.array([n for n, *_ in found["uniform"]], float)
    ended = np.array([item[1] != "inconclusive" for item in found["uniform"]])
    for name, every in found.items():
        labels, verdicts = np.array([n for n, *_ in every], float), [item[1] for item in every]
        both = ended & (np.array(verdicts) != "inconclusive")
        saved, root = (1.0 - labels / base)[both], math.sqrt(len(every))
        cells = [name, str(len(every)), f"{np.median(labels):.0f}"]
        cells.append(f"{labels.mean():.0f} ± {labels.std(ddof=1) / root:.0f}")
        # One pair has no standard error.
        error = f" ± {saved.std(ddof=1) / math.sqrt(len(saved)):.0%}" if len(saved) > 1 else ""
        cells.append(f"{saved.mean():+.0%}{error} ({len(saved)})" if len(saved) else "- (0)")
        cells.append(f"{np.median([drawn for *_, drawn in every]):.0f}")
        kinds = ("certified", "rejected", "inconclusive")
        cells.append(" / ".join(str(verdicts.count(kind)) for kind in kinds))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


#: What the section of files says.
FROM_FILE = (
    "As a user labels: `calibrate` on one group in 5, `label --guardrail` on the others, of which "
    "one answer a group is drawn, with labels told until the verdict falls, `certify --labels`. "
    "Groups are FRANK's articles and 20 neighbours of LLM-AggreFact, which names no documents; "
    "FaithBench's 75 articles are too few, so that each summary counts by itself. In brackets: the "
    "least caught and the most false alarms, as required, about 0.1 or 0.15 off the truth of a "
    "typical split; those of LLM-AggreFact and FaithBench were set after six of the splits had "
    "been looked at. The same splits and seeds each way: "
    "every answer drawn is labelled (uniform), as the score alone tells (`--design active --floor "
    "0.2`), with another detector's number as judge (`--judge-column`: FRANK's qags, factcg_wanli, "
    "gpt_4o), and with judges that are right in 85 % by lot, or no more often than a lot is. "
    "± is the standard error. A run that is through with all answers has no verdict, and counts "
    "with the labels that these took; saved: mean over the pairs (their number) in which both ways "
    "ended."
)


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
    names = " | ".join(f"judge {name}" for name in JUDGES)
    lines += section(
        "With a judge",
        f"Labels that half of {JUDGED_RUNS} streams ({RUNS:,} of uniform ones) need with "
        "`calibrail label --judge-column`: "
        "people label by a guess that is learnt on the way from their labels, the score that is "
        "certified and what a judge says of every answer; (saved) against labelling every answer "
        "drawn. A useless one says hallucinated as often as it is so, whatever the answer.",
        f"coverage | FPR | base rate | uniform | score alone | {names}",
        judged_simulated,
    )
    lines += section(
        "Bets on every answer",
        "Labels of hallucinated answers after which the bet on a kept coverage has won 20-fold, in "
        f"half and in 80 % of {BET_RUNS:,} streams, and after which one look at the exact bound "
        "shows it with 80 % probability (fixed). Mixture: the bets of `uniform`, all rates beyond "
        "the limit alike. Four bets: of `active`. Plug-in: the best bet for the rate so far, with "
        "one miss more (Kelly; GRAPA). Urn: the mixture on draws without replacement from a set of "
        "twice the fixed number, for a verdict about that set and no other answer. Known: the bet "
        "on the true coverage, which nobody knows; least: as many labels, log 20 by its relative "
        "entropy to the limit, takes any bet in the mean that sees these labels alone (Wald 1945). "
        "At the limit: how often each is ever won there, where 5 % is allowed.",
        "coverage | fixed | least | mixture half | 80 % | four bets half | 80 % | plug-in half "
        "| 80 % | urn half | 80 % | known half | 80 % | at the limit",
        bets_compared,
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
        every = {item[0]: item for item in (*REAL, AGGREFACT)}
        sets = [every[name] for name in OTHERS if (DATA / every[name][1]).exists()]
        lines += section(
            "Real answers with a judge",
            f"The same answers and thresholds ({JUDGED_RUNS} streams, {RUNS:,} of uniform ones, of "
            f"at most {MOST_DRAWN:,} answers). Judges: ones that are right as often as said, by "
            "lot, and columns of other detectors as they are. Right: how often the judge says what "
            "people say.",
            "detector | coverage | FPR | base rate | judge | right | uniform half "
            "| with the guess (saved) | drawn | certified",
            lambda: [line for item in sets for line in judged_real(*item)],
        )
        lines += section(
            "From a file to its verdict",
            FROM_FILE,
            "set (required) | way | runs | labels: half | mean | saved | drawn: half "
            "| certified / rejected / none",
            lambda: [
                line
                for item in LABELLED
                if (DATA / item.file).exists()
                for line in from_files(item)
            ],
        )
    else:
        lines += ["", f"Real answers: no data at {DATA.name}; CALIBRAIL_DATA names its folder."]
    write("sequential", "Labels until a verdict", lines, ("numpy", "scipy", "scikit-learn"))


if __name__ == "__main__":
    main()
