"""How many labels does it take to admit a judge, and how often is a bad one admitted?

``python benchmarks/admission.py`` writes ``results/admission.md``. ``calibrail test`` admits by
exact one-sided bounds of both rates (intersection-union, Berger 1982), after a number of labels
that is fixed beforehand; ``calibrail label`` by bets, looked at after every label. Beside them
stands the rule of tools that gate judges: the lower ends of the 95 % Wilson intervals of both rates
reach their bars (llm-judge-agreement on PyPI does so, at 80 % of failures and 90 % of good
outputs), after a fixed number of labels, or looked at after every label until they do.

Labels come in pairs, one of each class. About a minute on one core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.stats import binom

from calibrail.conformal import ClassCounts, certify_counts
from calibrail.conformal.sequential.sequential_test import SequentialTest
from calibrail.options import Drawing, Requirement

Ints = NDArray[np.int64]

#: Bars of the share of hallucinated answers caught and of good ones passed.
BARS = ((0.8, 0.8), (0.8, 0.9), (0.9, 0.9))
#: True rates of judges that deserve to be admitted.
GOOD = ((0.9, 0.95), (0.95, 0.97), (0.97, 0.99))
STREAMS, BETS, MOST, POWER, Z = 20_000, 400, 400, 0.8, 1.959964


def wilson(n: Ints, bar: float) -> Ints:
    """Return the fewest successes of n whose Wilson interval begins at a bar, n + 1 for none."""
    k = np.arange(n.max() + 2)
    with np.errstate(invalid="ignore"):
        p = k / n[:, None]
        middle = p + Z**2 / (2 * n[:, None])
        half = Z * np.sqrt(p * (1 - p) / n[:, None] + (Z / (2 * n[:, None])) ** 2)
        low = (middle - half) / (1 + Z**2 / n[:, None])
    reached = (low >= bar) & (k <= n[:, None])
    return np.where(reached.any(axis=1), reached.argmax(axis=1), n + 1)


def exact(n: Ints, bar: float, caught: bool) -> Ints:
    """Return the fewest successes of n that ``certify`` takes for a bar, n + 1 for none."""
    asked = Requirement(
        max_fpr=0.999 if caught else 1.0 - bar, min_coverage=bar if caught else 0.001
    )

    def admits(k: int, m: int) -> bool:
        counts = ClassCounts(k, m, 0, 10_000) if caught else ClassCounts(10_000, 10_000, m - k, m)
        return certify_counts(counts, asked).verdict == "certified"

    least = []
    for m in n.tolist():
        low, high = 0, m + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if middle > m or admits(middle, m) else (middle + 1, high)
        least.append(low)
    return np.array(least)


def power(least: tuple[Ints, Ints], rates: tuple[float, float], n: Ints) -> NDArray[np.float64]:
    """Return the probability that both rates reach their bars, by the labels a class."""
    chances = (binom.sf(k - 1, n, rate) for k, rate in zip(least, rates, strict=True))
    return np.prod(list(chances), axis=0)


def fewest(least: tuple[Ints, Ints], rates: tuple[float, float], n: Ints) -> int:
    """Return the labels a class from which on a judge is admitted with 80 % probability."""
    short = np.flatnonzero(power(least, rates, n) < POWER)
    return int(n[short[-1]]) + 1 if len(short) else int(n[0])


def bets(bars: tuple[float, float], rates: tuple[float, float], seed: int) -> Ints:
    """Return after how many labels a class each stream is admitted by bets; MOST + 1 for none."""
    asked = Requirement(max_fpr=round(1.0 - bars[1], 6), min_coverage=bars[0], confidence=0.95)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(BETS):
        right = rng.random((MOST, 2)) < rates
        flagged = np.stack([right[:, 0], ~right[:, 1]], axis=1).ravel()
        labels = np.tile([1.0, 0.0], MOST)
        test = SequentialTest(asked, Drawing()).update(flagged, labels)
        certified = test.verdict == "certified" and test.decided is not None
        found.append(-(-test.decided.labelled // 2) if certified else MOST + 1)
    return np.array(found)


def until(least: tuple[Ints, Ints], rates: tuple[float, float], most: int) -> NDArray[np.float64]:
    """Return after how many labels a class streams are admitted that are looked at every time."""
    rng = np.random.default_rng(1)
    found = np.full(STREAMS, np.inf)
    for begin in range(0, STREAMS, 2_000):
        right = rng.random((2, 2_000, most)) < np.array(rates)[:, None, None]
        met = np.all(right.cumsum(axis=2) >= np.array(least)[:, None, :most], axis=0)
        found[begin : begin + 2_000] = np.where(met.any(axis=1), met.argmax(axis=1) + 1, np.inf)
    return found


def main() -> None:
    n = np.arange(1, MOST + 1)
    spent, errors = [], []
    for bars in BARS:
        ours = exact(n, bars[0], True), exact(n, bars[1], False)
        theirs = wilson(n, bars[0]), wilson(n, bars[1])
        bar = f"{bars[0]:.0%} caught, {bars[1]:.0%} passed"
        for rates in GOOD:
            if min(rate - b for rate, b in zip(rates, bars, strict=True)) < 0.04:
                continue
            fixed = [fewest(least, rates, n) for least in (ours, theirs)]
            by_bets = bets(bars, rates, 2)
            every = until(theirs, rates, MOST)
            middle = [np.quantile(found, POWER, method="higher") for found in (by_bets, every)]
            shown = [f"{value:.0f}" if value <= MOST else f"over {MOST}" for value in middle]
            spent.append(
                f"| {bar} | {rates[0]:.0%}, {rates[1]:.0%} | {fixed[0]} | {fixed[1]} | {shown[0]} "
                f"| {shown[1]} |"
            )
        for at in (41, 107):
            worst = [
                max(power(least, rates, n)[at - 1] for rates in ((bars[0], 1.0), (1.0, bars[1])))
                for least in (ours, theirs)
            ]
            looked = max(
                np.isfinite(until(theirs, rates, at)).mean()
                for rates in ((bars[0], 1.0), (1.0, bars[1]))
            )
            betted = max(
                (bets(bars, rates, 3) <= at).mean() for rates in ((bars[0], 1.0), (1.0, bars[1]))
            )
            errors.append(
                f"| {bar} | {at} | {worst[0]:.1%} | {worst[1]:.1%} | {betted:.1%} | {looked:.1%} |"
            )
    write(
        "admission",
        "Labels to admit a judge, and the bad ones that are admitted",
        [
            "Labels of each class with which a judge of these true rates is admitted with 80 % "
            "probability: `calibrail test` (exact one-sided bounds of both rates at 95 %, one "
            "look), the lower ends of two 95 % Wilson intervals (one look), `calibrail label` "
            f"(bets at 95 %, a look after every label, {BETS} streams), and the Wilson rule looked "
            f"at after every label ({STREAMS:,} streams).",
            "",
            "| bars | judge catches, passes | `test` | Wilson, one look | `label`, every look "
            "| Wilson, every look |",
            "|---|---|---|---|---|---|",
            *spent,
            "",
            "Judges that only just miss: one rate lies at its bar, the other is perfect, the worse "
            "of both ways. Share that is admitted with so many labels a class; stated are at most "
            "5 %.",
            "",
            "| bars | labels a class | `test` | Wilson, one look | `label`, every look "
            "| Wilson, every look |",
            "|---|---|---|---|---|---|",
            *errors,
        ],
        ("numpy", "scipy"),
    )


if __name__ == "__main__":
    main()
