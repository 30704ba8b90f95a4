"""How much does each method of selection release, and how much of it is hallucinated?

``python benchmarks/selection.py [RUNS]`` writes ``results/selection.md``. Some minutes on one core.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from results import write
from scipy.special import rel_entr
from validity.check import KINDS, Kind, draw

import calibrail
from calibrail.conformal import conformal_selection, labelled_share, p_values, storey_share
from calibrail.guardrail import Guardrail
from calibrail.pipelines.select import METHODS
from calibrail.scores.registry import build_column

RUNS = 200
#: Probability that any setting at all lies beyond its limit although every promise is kept.
ERROR = 1e-3
SIZES = (19, 30, 100, 600)
BATCHES = (20, 200, 1000)
SHARES = (0.05, 0.1, 0.3, 0.5, 0.9)
RATES = (0.05, 0.1, 0.2)
#: Distance between the classes in standard deviations: AUROC 0.92 and 0.98.
DETECTORS = (2.0, 3.0)
#: Runs through files, split and guardrail: labelled answers, batch, share, rate.
THROUGH_FILES = ((400, 200, 0.1, 0.05), (400, 200, 0.1, 0.1), (200, 100, 0.5, 0.1))
#: Batches whose scores rise and fall together: answers a question, and how alike they are.
ALIKE = ((1, 0.0), (10, 0.5), (50, 0.5), (200, 0.3))


@dataclass(frozen=True)
class Outcome:
    """Means over runs: false discovery proportion, and power."""

    rate: float
    power: float

    def __str__(self) -> str:
        return f"{self.power:.2f} ({self.rate:.3f})"


def outcome(runs: list[tuple[float, float]]) -> Outcome:
    return Outcome(*np.mean(runs, axis=0))


def counted(released: NDArray[np.bool_], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the hallucinated share of the released, and the released share of the faithful."""
    wrong = np.count_nonzero(released & labels)
    faithful = max(1, np.count_nonzero(~labels))
    n = np.count_nonzero(released)
    return wrong / max(1, n), (n - wrong) / faithful


def simulated(
    kind: Kind, n: int, m: int, pi: float, distance: float, runs: int
) -> dict[tuple[str, float], Outcome]:
    """Return for each method and rate what happens to batches with labels drawn by lot.

    n hallucinated answers calibrate on average, half of all that are labelled.
    """
    rng = np.random.default_rng([n, m, round(100 * pi), round(distance), KINDS.index(kind)])
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    labelled = round(2 * n / pi)
    for _ in range(runs):
        hallucinated = int(rng.binomial(labelled, pi))
        calibration = np.sort(draw(rng, kind, max(1, hallucinated // 2)))
        labels = rng.random(m) < pi
        p = p_values(calibration, draw(rng, kind, m, -distance * ~labels))
        shares = (1.0, storey_share(p, len(calibration)), labelled_share(hallucinated, labelled))
        for method, share in zip(METHODS, shares, strict=True):
            for q in RATES:
                released = conformal_selection(p, q, share).released
                found.setdefault((method, q), []).append(counted(released, labels))
    return {key: outcome(values) for key, values in found.items()}


def through_files(n: int, m: int, pi: float, q: float, runs: int) -> dict[str, Outcome]:
    """Return the same from files, through the split, the run, the guardrail's file and select."""
    rng = np.random.default_rng([n, m, round(100 * pi), round(100 * q)])
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    column = build_column("detector", higher="hallucinated")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def answers(size: int, prefix: str, *, labelled: bool) -> tuple[Path, NDArray[np.bool_]]:
            labels = rng.random(size) < pi
            path = folder / f"{prefix}.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for i, score in enumerate(rng.normal(2.0 * labels)):
                    row = {"id": f"{prefix}{i}", "detector": float(score)}
                    file.write(json.dumps(row | ({"label": int(labels[i])} if labelled else {})))
                    file.write("\n")
            return path, labels

        for _ in range(runs):
            source, _ = answers(n, "labelled", labelled=True)
            run = calibrail.calibrate(source, column, alpha=0.2, allow_flag_all=True)
            run.save(folder / "run")
            calibrail.Run.load(folder / "run").freeze().save(folder / "guardrail.json", force=True)
            guardrail = Guardrail.load(folder / "guardrail.json")
            batch, labels = answers(m, "batch", labelled=False)
            for method in METHODS:
                released = calibrail.select(guardrail, batch, fdr=q, method=method).selection
                found[method].append(counted(released.released, labels))
    return {method: outcome(values) for method, values in found.items()}


def alike(size: int, likeness: float, runs: int) -> dict[str, Outcome]:
    """Return the rates of a batch of 200 with a part of its scores shared by each question."""
    rng, n, m, pi, q = np.random.default_rng(size), 100, 200, 0.5, 0.1
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for _ in range(runs):
        calibration, labels = np.sort(rng.standard_normal(n)), rng.random(m) < pi
        shared = np.repeat(rng.standard_normal(m // size), size) * likeness**0.5
        own = rng.standard_normal(m) * (1.0 - likeness) ** 0.5
        p = p_values(calibration, shared + own - 3.0 * ~labels)
        for method, share in zip(METHODS, (1.0, storey_share(p, n), pi), strict=True):
            released = conformal_selection(p, q, share).released
            found[method].append(counted(released, labels))
    return {method: outcome(values) for method, values in found.items()}


def table(head: list[str], rows: list[list[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
    yield ""


def page(runs: int) -> list[str]:
    started = time.process_time()
    cells = {
        (kind, n, m, pi, distance): simulated(kind, n, m, pi, distance, runs)
        for kind in KINDS
        for n in SIZES
        for m in BATCHES
        for pi in SHARES
        for distance in DETECTORS
        # The largest batches take longest, and add least.
        if m < max(BATCHES) or (kind, distance) == ("continuous", DETECTORS[0])
    }
    total = len(cells) * len(RATES)
    beyond = dict.fromkeys(METHODS, 0)
    for (_, _, _, pi, _), cell in cells.items():
        for (method, q), seen in cell.items():
            allowed = q * pi if method == "bh" else q
            beyond[method] += improbable(seen.rate, allowed, runs) < ERROR / (3 * total)
    lines = [
        f"Power (released among the faithful) and in brackets the false discovery rate, over "
        f"{runs:,} calibration sets and batches a row. Normal scores, classes 2 or 3 standard "
        "deviations apart (AUROC 0.92, 0.98); n hallucinated calibration answers on average; a "
        "batch of 200 answers, each hallucinated with probability pi. bh promises a rate of at "
        "most q pi, storey and both-classes at most q.",
        "",
    ]
    head = ["n", "pi", "apart", *(f"{method}, q = {q}" for q in RATES[:2] for method in METHODS)]
    rows: list[list[object]] = [
        [n, pi, distance, *(cells["continuous", n, 200, pi, distance][k] for k in keys)]
        for keys in [[(method, q) for q in RATES[:2] for method in METHODS]]
        for n in SIZES
        for pi in SHARES
        for distance in DETECTORS
    ]
    lines += table(head, rows)
    lines += [
        f"In {total:,} settings (scores {', '.join(KINDS)}, n in {list(SIZES)}, batches of "
        f"{list(BATCHES)}, pi in {list(SHARES)}, q in {list(RATES)}) the rate lies beyond what "
        "chance explains of a kept promise (Hoeffding's bound; any at all with probability at "
        f"most {ERROR:g}): "
        + ", ".join(f"{method} in {count}" for method, count in beyond.items())
        + ".",
        "",
        "## Through files, split and guardrail",
        "",
        "The same with classes 2 standard deviations apart, from files by calibrate, freeze and "
        f"select; {runs // 2:,} runs a row.",
        "",
    ]
    lines += table(
        ["labelled", "batch", "pi", "q", *METHODS],
        [
            [n, m, pi, q, *through_files(n, m, pi, q, runs // 2).values()]
            for n, m, pi, q in THROUGH_FILES
        ],
    )
    lines += [
        "## Batches whose scores are alike",
        "",
        "What storey needs and the others do not: 200 answers, pi = 0.5, q = 0.1, n = 100, with "
        "scores that share a part in each question; the calibration answers are independent. "
        f"{10 * runs:,} runs a row.",
        "",
    ]
    lines += table(
        ["answers a question", "correlation", *METHODS],
        [[size, rho, *alike(size, rho, 10 * runs).values()] for size, rho in ALIKE],
    )
    return [*lines, f"{time.process_time() - started:.0f} s of one core."]


def improbable(mean: float, allowed: float, runs: int) -> float:
    """Return the most likely that means of values in [0, 1] get so high (Hoeffding, 1963)."""
    if mean <= allowed:
        return 1.0
    return float(np.exp(-runs * (rel_entr(mean, allowed) + rel_entr(1 - mean, 1 - allowed))))


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    lines = page(runs)
    if runs < RUNS:
        print("\n".join(lines))
    else:
        write("selection", "What each method of selection releases", lines, ("numpy",))


if __name__ == "__main__":
    main()
