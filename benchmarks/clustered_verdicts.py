"""One answer of each group and exact bounds, or the mean of each group and a bet?

``python benchmarks/clustered_verdicts.py`` writes ``results/clustered_verdicts.md``: how often each
certifies what is true, and what each bounds on real answers where they lie beside the project.
About a minute on one core.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.stats import beta

Floats = NDArray[np.float64]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Each end of an interval errs with this probability at most.
ERROR = 0.05
RUNS = 2000
ALIKE = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)
#: Groups, true share, required share.
DESIGNS = ((120, 0.95, 0.9), (120, 0.85, 0.75), (400, 0.93, 0.9), (400, 0.8, 0.75))
LARGEST_GROUP = 15
#: Bets are made for this variance of a group's mean, relative to that of a single answer.
SPREADS = (0.3, 0.6)
REAL = (
    ("FRANK", "frank/metric_scores.csv", -1, ("feqa", "qags", "bertscore_p_article", "rouge_l")),
    ("WikiBio", "wikibio/sentences_237.csv", 1, ("selfcheck_qwen_9b", "selfcheck_gemma_31b")),
    ("FaithBench", "faithbench/summaries.csv", -1, ("hhem_1", "hhem_2_1", "hhem_2_1_english")),
)
#: Share of all hallucinated answers that the thresholds on real answers catch.
CAUGHT = 0.9


def exact(drawn: NDArray[np.int64], n: int) -> Floats:
    """Return Clopper and Pearson's lower bounds for counts of n."""
    return np.where(drawn == 0, 0.0, beta.ppf(ERROR, np.maximum(drawn, 1), n - drawn + 1))


def proven(means: Floats, share: float, spread: float) -> NDArray[np.bool_]:
    """Return whether bets against "the mean is at most this share" win enough: shape (runs,).

    The bet of Waudby-Smith and Ramdas (2024) for a fixed number K of means, shape (runs, K).
    """
    goal = np.log(1.0 / ERROR)
    best = np.sqrt(2.0 * goal / (means.shape[-1] * spread * share * (1.0 - share)))
    bet = min(best, 0.95 / share)
    won: NDArray[np.bool_] = np.log1p(bet * (means - share)).sum(axis=-1) >= goal
    return won


def by_betting(means: Floats, spread: float) -> float:
    """Return the lower bound of a bet at every share."""
    shares = np.linspace(0.001, 0.999, 999)
    held = [bool(proven(means, float(share), spread)) for share in shares]
    return float(shares[held.index(False)]) if False in held else 1.0


def simulated(groups: int, truth: float, required: float) -> list[str]:
    """Return how often each method proves the required share, one row for each likeness."""
    rows = []
    for alike in ALIKE:
        rng = np.random.default_rng([groups, round(100 * truth), round(10 * alike)])
        rates = np.full((RUNS, groups), truth)
        if 0.0 < alike < 1.0:
            total = 1.0 / alike - 1.0
            rates = rng.beta(truth * total, (1.0 - truth) * total, (RUNS, groups))
        elif alike == 1.0:
            rates = (rng.random((RUNS, groups)) < truth).astype(float)
        sizes = rng.integers(1, LARGEST_GROUP + 1, (RUNS, groups))
        caught = rng.binomial(sizes, rates)
        one = (rng.random((RUNS, groups)) < caught / sizes).sum(axis=1)
        power = [float(np.mean(exact(one, groups) > required))]
        power += [float(np.mean(proven(caught / sizes, required, item))) for item in SPREADS]
        rows.append(
            f"| {groups} | {truth:g} | {required:g} | {alike:g} | "
            + " | ".join(f"{item:.2f}" for item in power)
            + " |"
        )
    return rows


def real(name: str, file: str, sign: int, detectors: tuple[str, ...]) -> list[str]:
    """Return what each method bounds on public answers."""
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    lines = []
    for detector in detectors:
        kept = [row for row in rows if row[detector].strip()]
        scores = sign * np.array([float(row[detector]) for row in kept])
        hallucinated = np.array([float(row["label"]) == 1.0 for row in kept])
        threshold = np.quantile(scores[hallucinated], 1.0 - CAUGHT)
        for label, what in ((True, "caught"), (False, "passed")):
            right = (scores >= threshold) == label
            groups: dict[str, list[bool]] = defaultdict(list)
            for row, is_of_class, value in zip(kept, hallucinated, right, strict=True):
                if is_of_class == label:
                    groups[row["group"]].append(bool(value))
            means = np.array([np.mean(values) for values in groups.values()])
            share, n = float(means.mean()), len(means)
            # What one answer of each group shows on average over which it is.
            counts = np.arange(n + 1)
            mass = _poisson_binomial(means)
            bounds = [float(mass @ exact(counts, n)), *(by_betting(means, s) for s in SPREADS)]
            lines.append(
                f"| {name} {detector} | {what} | {sum(map(len, groups.values())):,} | {n} | "
                f"{means.var() / (share * (1.0 - share)):.2f} | {share:.1%} | "
                + " | ".join(f"{item:.1%}" for item in bounds)
                + " |"
            )
    return lines


def _poisson_binomial(shares: Floats) -> Floats:
    """Return the law of how many of the groups show a right answer: shape (n + 1,)."""
    mass = np.ones(1)
    for share in shares:
        mass = np.convolve(mass, [1.0 - share, share])
    return mass


def main() -> None:
    bets = " | ".join(f"bet ({spread:g})" for spread in SPREADS)
    lines = [
        "A verdict on groups of answers may count one answer of each group (exact bounds by "
        "Clopper and Pearson) or the mean of each group (a bet on every mean, Waudby-Smith and "
        "Ramdas, 2024, made for the variance in brackets relative to that of a single answer). "
        f"Both keep their promise; every bound errs with {ERROR:g}. calibrail counts one of each.",
        "",
        "## How often the required share is proven",
        "",
        f"Groups of 1 to {LARGEST_GROUP} answers, {RUNS:,} runs; alike is the correlation within a "
        "group.",
        "",
        f"| groups | true share | required | alike | one of each | {bets} |",
        "|---" * (5 + len(SPREADS)) + "|",
    ]
    for design in DESIGNS:
        lines += simulated(*design)
    there = [item for item in REAL if (DATA / item[1]).exists()]
    lines += ["", "## Lower bounds on public answers", ""]
    if there:
        lines += [
            f"At the threshold that catches {CAUGHT:.0%} of all hallucinated answers. For one of "
            "each: the mean of the bound over which answer it is.",
            "",
            "| detector | share that is | answers | groups | variance of the means | share | "
            f"one of each | {bets} |",
            "|---" * (7 + len(SPREADS)) + "|",
        ]
        for item in there:
            lines += real(*item)
    else:
        lines += [f"Not measured: no data at {DATA.name}; CALIBRAIL_DATA names its folder."]
    write("clustered_verdicts", "Verdicts on groups of answers", lines, ("numpy", "scipy"))


if __name__ == "__main__":
    main()
