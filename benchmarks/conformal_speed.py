"""What do threshold, p-values and certificate cost beside sorting, and beside MAPIE?

Per size, each operation and ``numpy.sort`` of the same array take turns in one process. Goals: at
most 1.5 times the sort, and at least 50 times faster than MAPIE's
``BinaryClassificationController`` (its default grid of 100 thresholds, recall and FPR) at 10^5
labelled scores.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from mapie.risk_control import BinaryClassificationController
from numpy.typing import NDArray
from results import write

from calibrail.conformal import calibrate, certify_counts, flags, p_values

SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
MAPIE_SIZE = 10**5
ALPHA, MAX_FPR, CONFIDENCE = 0.1, 0.3, 0.9

Floats = NDArray[np.float64]


def main() -> None:
    rng = np.random.default_rng(0)
    lines = [
        "N hallucinated scores are calibrated. Then N fresh scores get their p-values against "
        "those N, and N labelled scores (half of each class) their certificate: flags, counts, "
        "bounds, verdict. Seconds: minimum (median) of the repeats; ratio: of the minima, to "
        "`numpy.sort` of the same N scores. Goal: at most 1.5.",
        "",
        "| N | repeats | `numpy.sort` | threshold | ratio | p-values | ratio | certificate "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|",
        *(size_row(n, rng) for n in SIZES),
        "",
        f"Against MAPIE at {MAPIE_SIZE:,} labelled scores (goal: at least 50 times faster):",
        "",
        "| what | seconds | MAPIE / calibrail |",
        "|---|---|---|",
        *mapie_rows(rng),
    ]
    write("conformal_speed", "Threshold, p-values, certificate", lines, ("numpy", "scipy", "mapie"))


def size_row(n: int, rng: np.random.Generator) -> str:
    scores, fresh = rng.normal(1.0, 1.0, n), rng.normal(0.5, 1.0, n)
    calibration = calibrate(scores, ALPHA)
    hallucinated = np.arange(n) % 2 == 0
    repeats = int(min(200, max(5, 10**7 // n)))
    times = in_turn(
        [
            lambda: np.sort(scores),
            lambda: calibrate(scores, ALPHA),
            lambda: p_values(calibration.scores, fresh),
            lambda: certificate(fresh, hallucinated, calibration.threshold),
        ],
        repeats,
    )
    sort, *others = times
    cells = [f"{cell(item)} | {min(item) / min(sort):.2f}" for item in others]
    return f"| {n:,} | {repeats} | {cell(sort)} | {' | '.join(cells)} |"


def certificate(scores: Floats, hallucinated: NDArray[np.bool_], threshold: float) -> str:
    flagged = flags(scores, threshold)
    alarms, n = np.count_nonzero(flagged), len(scores)
    caught, positives = np.count_nonzero(flagged & hallucinated), np.count_nonzero(hallucinated)
    return certify_counts(
        caught, positives, alarms - caught, n - positives, 0.8, MAX_FPR, CONFIDENCE
    ).verdict


def mapie_rows(rng: np.random.Generator) -> list[str]:
    labels = rng.random(MAPIE_SIZE) < 0.3
    scores = rng.normal(labels.astype(np.float64), 1.0)
    shares = 1.0 / (1.0 + np.exp(-scores))

    def ours() -> str:
        calibration = calibrate(scores[labels], ALPHA, "pac", (1 - CONFIDENCE) / 2)
        return certificate(scores, labels, calibration.threshold)

    def theirs() -> object:
        controller = BinaryClassificationController(
            lambda values: np.column_stack([1.0 - values[:, 0], values[:, 0]]),
            risk=["recall", "fpr"],
            target_level=[1.0 - ALPHA, MAX_FPR],
            confidence_level=CONFIDENCE,
        )
        return controller.calibrate(shares[:, None], labels.astype(int))

    with warnings.catch_warnings():
        # MAPIE warns where no threshold of its grid is valid; the time is the same.
        warnings.simplefilter("ignore")
        fast, slow = in_turn([ours, theirs], 5)
    return [
        f"| calibrail: `pac` threshold and certificate | {cell(fast)} | |",
        f"| MAPIE: `calibrate` | {cell(slow)} | {min(slow) / min(fast):.0f} |",
    ]


def in_turn(operations: list[Callable[[], object]], repeats: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in operations]
    for _ in range(repeats):
        for operation, seconds in zip(operations, times, strict=True):
            started = time.perf_counter()
            operation()
            seconds.append(time.perf_counter() - started)
    return times


def cell(times: list[float]) -> str:
    return f"{min(times):.2e} ({statistics.median(times):.2e})"


if __name__ == "__main__":
    main()
