"""How many labels does a threshold need that costs the same, drawn uniformly or by a cheap score?

Three ways to the same promise: the rank among hallucinated answers that are labelled as they come;
the ceiling, above which only a share of the answers is labelled (``label_ceiling.py``); and bets on
weighted answers at every threshold, from the lowest up, whose guess is the true P(hallucinated) and
whose probabilities are made for the best threshold: an upper limit.
Some minutes on one core.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from label_ceiling import ceiling_rank
from numpy.typing import NDArray
from results import write
from scipy.special import expit, ndtri
from scipy.stats import norm

from calibrail.conformal.sequential.audited_calibration import informative
from calibrail.conformal.sequential.betting import FRACTIONS, largest_bets, mixture
from calibrail.data.reading import read_all
from calibrail.evaluation.stats.auroc import auroc
from calibrail.options import Drawing, Guarantee
from calibrail.scores.registry import build, parse_spec

Floats = NDArray[np.float64]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUNS, COST_RUNS, BET_RUNS = 1000, 200_000, 150
DELTA = 0.1
SHARES = (0.5, 0.3, 0.2, 0.1)
#: Ranks of the thresholds that are compared: the fewest labels that a promise needs, and more.
RANKS, SHOWN = (1, 2, 3, 4, 6, 8), (1, 4)
#: A threshold that flags more of the faithful answers is compared with none.
USELESS = 0.98
AUROCS, BASE_RATES = (0.8, 0.9, 0.95), (0.02, 0.1, 0.3)
PROMISES: tuple[tuple[Guarantee, float], ...] = (
    ("marginal", 0.05),
    ("marginal", 0.1),
    ("pac", 0.05),
    ("pac", 0.1),
)


@dataclass(frozen=True)
class Answers:
    """Scores to draw from: quantiles, and how much of each class lies below a value."""

    quantile: Callable[[Floats], Floats]
    hallucinated_below: Callable[[Floats], Floats]
    faithful_below: Callable[[Floats], Floats]
    base_rate: float


def gaussian(area: float, base_rate: float) -> Answers:
    distance = math.sqrt(2.0) * float(ndtri(area))
    return Answers(
        lambda level: ndtri(level) + distance,
        lambda value: norm.cdf(value - distance),
        norm.cdf,
        base_rate,
    )


def of_scores(scores: Floats, label: NDArray[np.bool_]) -> Answers:
    bad, good = np.sort(scores[label]), np.sort(scores[~label])
    return Answers(
        lambda level: bad[np.minimum((level * len(bad)).astype(np.int64), len(bad) - 1)],
        lambda value: np.searchsorted(bad, value) / len(bad),
        lambda value: np.searchsorted(good, value) / len(good),
        float(label.mean()),
    )


def point(answers: Answers, share: float, k: int, promise: tuple[Guarantee, float]) -> Floats:
    """Return the mean FPR and the mean number of labels of thresholds at a rank, and n."""
    n = smallest(share, k, promise)
    rng = np.random.default_rng([k, n, round(100 * share)])

    def drawn_in_all(runs: int) -> NDArray[np.int64]:
        return n + (rng.negative_binomial(n, share, runs) if share < 1.0 else np.zeros(runs, int))

    # The k-th smallest of T has a share of Beta(k, T + 1 - k) of its class below it.
    thresholds = answers.quantile(rng.beta(k, drawn_in_all(COST_RUNS) + 1 - k))
    fpr = float(np.mean(1.0 - answers.faithful_below(thresholds)))
    total, between = drawn_in_all(RUNS), 1.0 / answers.base_rate - 1.0
    lowest, labels = np.full((RUNS, k), np.inf), np.zeros(RUNS)
    for drawn in range(int(total.max())):
        going, top = drawn < total, lowest[:, -1]
        faithful, bad = answers.faithful_below(top), answers.hallucinated_below(top)
        asked = between * (faithful + (1.0 - faithful) * share) + bad + (1.0 - bad) * share
        labels += going * asked
        score = np.where(going, answers.quantile(rng.random(RUNS)), np.inf)
        lowest = np.sort(np.column_stack([lowest, score]), axis=1)[:, :k]
    return np.array([fpr, labels.mean(), n])


def smallest(share: float, k: int, promise: tuple[Guarantee, float]) -> int:
    guarantee, alpha = promise
    n = k
    while ceiling_rank(n, share, alpha, guarantee, DELTA) < k:
        n += 1
    return n


def bets(area: float, base_rate: float, alpha: float, drawn: int) -> Floats:
    """Return the mean FPR and the mean number of labels where thresholds are bet on."""
    rng, distance = np.random.default_rng(drawn), math.sqrt(2.0) * float(ndtri(area))
    drawing, coverage = Drawing("active"), 1.0 - alpha
    target = distance + float(ndtri(alpha))
    stakes = float(largest_bets(np.array(coverage), drawing.floors)[0]) * FRACTIONS
    costs, labels = [], []
    for _ in range(BET_RUNS):
        bad = rng.random(drawn) < base_rate
        score = rng.standard_normal(drawn) + distance * bad
        bad, score = bad[order := np.argsort(score)], score[order]
        prior = math.log(base_rate / (1.0 - base_rate))
        guess = expit(prior + distance * score - distance**2 / 2.0)
        known = (base_rate, (True, False))
        q = informative(score >= target, guess, (coverage, 0.5), drawing.floors, known)
        labelled = rng.random(drawn) < q
        weight = guess + labelled / q * (bad - guess)
        above = np.log1p(weight[:, None] * alpha * stakes)
        passed = np.where(score < target, weight, 0.0)
        below = np.log1p(-passed[:, None] * coverage * stakes)
        # The wealth won at the i-th smallest score, which is flagged as all above it are.
        wealth = mixture(above.sum(axis=0) + np.cumsum(below - above, axis=0) - (below - above))
        won = wealth >= math.log(1.0 / DELTA)
        # The floors hold up to the best threshold, and lower ones must all have been shown.
        last = min(int(np.argmin(np.append(won, False))), int(np.sum(score < target)))
        costs.append(1.0 if last == 0 else float(norm.sf(score[last - 1])))
        labels.append(float(labelled.sum()))
    return np.array([np.mean(costs), np.mean(labels)])


def same_cost(points: Sequence[Floats], fpr: float) -> float:
    """Return the labels at which a way has this FPR; NaN where none of its points is near."""
    rates, labels = np.array([item[:2] for item in points]).T
    order = np.argsort(rates)
    if not rates.min() - 1e-3 <= fpr <= rates.max() + 1e-3:
        return math.nan
    return float(np.exp(np.interp(fpr, rates[order], np.log(labels[order]))))


def saved(labels: float, fixed: float) -> str:
    return "-" if math.isnan(labels) else f"{1.0 - labels / fixed:+.0%}"


def rows(answers: Answers, head: str, promise: tuple[Guarantee, float]) -> list[str]:
    """Return what each share of labels above the ceiling saves, for thresholds of the same FPR."""
    ways = {share: [point(answers, share, k, promise) for k in RANKS] for share in (1.0, *SHARES)}
    lines = []
    for k in SHOWN:
        fpr, labels, n = ways[1.0][RANKS.index(k)]
        if fpr > USELESS:
            continue
        cells = [saved(same_cost(ways[share], fpr), labels) for share in SHARES]
        guarantee, alpha = promise
        lines.append(
            f"| {head} | {guarantee} {alpha:g} | {n:.0f} | {fpr:.2f} | {labels:,.0f} | "
            f"{' | '.join(cells)} |"
        )
        print(lines[-1], flush=True)
    return lines


def simulated() -> list[str]:
    return [
        line
        for promise in PROMISES
        for area in AUROCS
        for base in BASE_RATES
        for line in rows(gaussian(area, base), f"{area:g} | {base:g}", promise)
    ]


def betting() -> list[str]:
    """Return what the bets need, for the FPR that uniform labels have."""
    lines = []
    for area in AUROCS:
        for base in (0.1, 0.3):
            for k in SHOWN:
                fpr, labels, n = point(gaussian(area, base), 1.0, k, ("pac", 0.05))
                sizes = np.geomspace(1.0, 40.0, 9) * n / base
                tried = [bets(area, base, 0.05, round(size)) for size in sizes]
                needed = same_cost(tried, fpr)
                lines.append(
                    f"| {area:g} | {base:g} | {n:.0f} | {fpr:.2f} | {labels:,.0f} | "
                    f"{'-' if math.isnan(needed) else f'{needed:,.0f}'} | {saved(needed, labels)} |"
                )
                print(lines[-1], flush=True)
    return lines


def real_answers() -> list[tuple[str, Floats, NDArray[np.bool_]]]:
    """Return cheap scores of labelled answers that are there."""
    found = []
    path = DATA / "frank" / "metric_scores.csv"
    if path.exists():
        with path.open(encoding="utf-8", newline="") as handle:
            items = list(csv.DictReader(handle))
        label = np.array([float(item["label"]) == 1.0 for item in items])
        for column in ("rouge_l", "bertscore_p_article"):
            scores = -np.array([float(item[column] or "nan") for item in items])
            known = ~np.isnan(scores)
            found.append((f"FRANK {column}", scores[known], label[known]))
    sources: tuple[tuple[str, Path, str, dict[str, str]], ...] = (
        ("RAGTruth QA", DATA / "ragtruth", "novelty", {"task": "QA"}),
        ("HaluEval QA", DATA / "halueval" / "qa_data.json", "novelty", {}),
    )
    for name, path, score, options in sources:
        if path.exists():
            examples, _ = read_all(path, options=options or None)
            scored = build(parse_spec(score)).score(examples)
            values = np.asarray(scored.values, np.float64)
            label = np.array([example.label == 1 for example in examples])
            known = ~np.isnan(values)
            found.append((f"{name} {score}", values[known], label[known]))
    return found


def real(found: Sequence[tuple[str, Floats, NDArray[np.bool_]]]) -> list[str]:
    lines = []
    for name, scores, label in found:
        area = auroc(scores[label], scores[~label]).estimate
        head = f"{name} | {len(label):,} | {area:.2f} | {label.mean():.2f}"
        for promise in PROMISES[::2]:
            lines += rows(of_scores(scores, label), head, promise)
    return lines


def section(title: str, text: str, heads: str, lines: Sequence[str]) -> list[str]:
    columns = heads.count("|") + 1
    return ["", f"## {title}", "", text, "", f"| {heads} |", "|---" * columns + "|", *lines]


def main() -> None:
    shares = " | ".join(f"{share:g} above" for share in SHARES)
    lines = [
        "Labels until a threshold keeps its promise (delta = 0.1), and what is saved where answers "
        "above the ceiling are labelled with a known probability only: mean labels for the same "
        f"mean FPR, interpolated; {RUNS:,} calibrations each. Uniform: so many hallucinated "
        "answers (n), labelled as they come.",
        "",
        "The labels below the ceiling say what a threshold misses. They do not say what it flags: "
        "the report measures that on a test part of answers drawn uniformly, as large as the "
        "calibration part unless one says otherwise. Of all labels of a run, half of what stands "
        "here is saved.",
        "",
        "So labels are drawn uniformly to calibrate. Under marginal, the default, the ceiling "
        "saves a fifth at best where the AUROC is 0.8, and often costs labels; under pac at 0.05 "
        "it saves a quarter to a half of what calibrates there, and a tenth or so where the AUROC "
        "is 0.95; bets need 1.8 to 3.5 times as many labels.",
    ]
    lines += section(
        "The ceiling, simulated",
        "Gaussian scores of this AUROC, by the score that is calibrated itself.",
        f"AUROC | base rate | promise | n | FPR | uniform | {shares}",
        simulated(),
    )
    if found := real_answers():
        lines += section(
            "The ceiling, on real answers",
            "Drawn at random with replacement; without thresholds that flag everything.",
            f"score | answers | AUROC | base rate | promise | n | FPR | uniform | {shares}",
            real(found),
        )
    else:
        lines += ["", f"Real answers: no data at {DATA.name}; CALIBRAIL_DATA names its folder."]
    lines += section(
        "Bets on weighted answers",
        "Every threshold is bet on, from the lowest up, with the floor of the design active (pac "
        f"0.05; {BET_RUNS} calibrations). The guess is the true P(hallucinated), and what is "
        "labelled is chosen for the best threshold, which nobody knows beforehand: an upper limit "
        "of what a guess can save.",
        "AUROC | base rate | n | FPR | uniform | by bets | saved",
        betting(),
    )
    write("label_calibrate", "Labels until a threshold", lines, ("numpy", "scipy"))


if __name__ == "__main__":
    main()
