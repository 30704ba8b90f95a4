"""What does every operation of the conformal core cost beside sorting, and beside MAPIE?

Per size, ``numpy.sort`` and each operation run in turn in one process, as often as ``BUDGET``
allows. An operation whose next size is likely to exceed ``LIMIT`` is skipped there, and the page
says so. Goals: at most 1.5 times the sort for threshold and certificate, 2 times for p-values, and
at least 50 times faster than MAPIE's ``BinaryClassificationController`` (its default grid of 100
thresholds, recall and FPR) at 10^5 labelled scores.
``python benchmarks/conformal_speed.py [LARGEST]``.
"""

from __future__ import annotations

import importlib
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from results import write
from validity.bands import simultaneous_band

from calibrail.conformal import (
    ClassCounts,
    calibrate_clusters,
    calibrate_groups,
    calibrate_threshold,
    calibrate_weighted,
    certify_counts,
    certify_groups,
    conformal_selection,
    discoveries,
    flags,
    flip_tolerance,
    p_values,
    three_way,
)
from calibrail.conformal.bounds import local_level
from calibrail.conformal.false_discovery import shared_level
from calibrail.conformal.power import Assumption, plan
from calibrail.conformal.risk_control import control_risks
from calibrail.options import Promise, Requirement

SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
MAPIE_SIZE = 10**5
ALPHA, DELTA, MAX_FPR, CONFIDENCE = 0.1, 0.1, 0.3, 0.9
#: Seconds an operation may take at a size: in all repeats, and in one.
BUDGET, LIMIT = 1.0, 60.0
#: The most repeats, and the fewest where one takes less than the budget.
MOST, FEWEST = 200, 3
GROUPS, CLUSTER = 10, 5

Floats = NDArray[np.float64]
Operation = Callable[[], object]


def main() -> None:
    # No operation waits for it.
    importlib.import_module("mapie.risk_control")
    largest = int(float(sys.argv[1])) if len(sys.argv) > 1 else SIZES[-1]
    rng = np.random.default_rng(0)
    sizes = [n for n in SIZES if n <= largest]
    seconds: dict[str, dict[int, float]] = {}
    for n in sizes:
        for name, operation in operations(n, rng).items():
            seconds.setdefault(name, {})
            guess = expected(seconds[name], n)
            if guess > LIMIT:
                print(f"{name} at {n:,} skipped: about {guess:.0f} s", flush=True)
                continue
            seconds[name][n] = fastest(operation)
            print(f"{name} at {n:,}: {seconds[name][n]:.3g} s", flush=True)
    sorting = seconds.pop("numpy.sort")
    heads = " | ".join(f"{n:,}" for n in sizes)
    lines = [
        f"Each cell: the shortest processor time of the repeats ({MOST} at most, {BUDGET:g} s in "
        f"all, {FEWEST} at least where one takes less than {BUDGET:g} s) as a multiple of that of "
        "`numpy.sort` of N scores, in the same process. N is the number of scores that an "
        f"operation reads. An operation is skipped where it would take more than {LIMIT:g} s by "
        "its growth so far; the cell then says how long.",
        "",
        f"| operation | {heads} |",
        "|---" * (len(sizes) + 1) + "|",
        "| `numpy.sort`, seconds | " + " | ".join(f"{sorting[n]:.2e}" for n in sizes) + " |",
        *(
            f"| {name} | " + " | ".join(cell(found, sorting, n) for n in sizes) + " |"
            for name, found in seconds.items()
        ),
        "",
        "What does not read scores but counts (flip tolerance, group certificates, planner) does "
        "not grow with the sort. The first Berk-Jones band of an n finds its level once, "
        'which is then kept, and so do the bounds on discoveries: "first" includes it.',
        "",
        f"Against MAPIE at {MAPIE_SIZE:,} labelled scores (goal: at least 50 times faster):",
        "",
        "| what | seconds | MAPIE / calibrail |",
        "|---|---|---|",
        *mapie_rows(rng),
    ]
    if largest >= SIZES[-1]:
        write(
            "conformal_speed", "Every operation beside sorting", lines, ("numpy", "scipy", "mapie")
        )
    else:
        print("\n".join(lines))


def operations(n: int, rng: np.random.Generator) -> dict[str, Operation]:
    """Return every operation on n scores, by name; the sort first."""
    scores, fresh = rng.normal(1.0, 1.0, n), rng.normal(0.5, 1.0, n)
    calibration = calibrate_threshold(scores, Promise(ALPHA))
    both = calibrate_threshold(fresh, Promise(ALPHA)).threshold
    hallucinated = np.arange(n) % 2 == 0
    labels = hallucinated.astype(np.int64)
    names = [str(number) for number in range(GROUPS)] * (n // GROUPS)
    clusters, weights = np.arange(n) // CLUSTER, np.exp(rng.normal(0.0, 0.5, n))
    weighted = calibrate_weighted(scores, weights, ALPHA)
    p = p_values(calibration.scores, fresh)
    crowded, among = np.sort(rng.beta(0.1, 0.1, n)), rng.beta(0.1, 0.1, n)
    found: dict[str, Operation] = {
        "numpy.sort": lambda: np.sort(scores),
        "threshold, marginal": lambda: calibrate_threshold(scores, Promise(ALPHA)),
        "threshold, pac": lambda: calibrate_threshold(scores, Promise(ALPHA, "pac", DELTA)),
        "p-values of N against N": lambda: p_values(calibration.scores, fresh),
        "p-values where scores crowd (beta 0.1, 0.1)": lambda: p_values(crowded, among),
        "certificate": lambda: certificate(fresh, hallucinated, both),
        f"thresholds of {GROUPS} groups": lambda: calibrate_groups(scores, names, Promise(ALPHA)),
        f"clusters of {CLUSTER}, marginal": lambda: calibrate_clusters(
            scores, clusters, Promise(ALPHA)
        ),
        f"clusters of {CLUSTER}, pac": lambda: calibrate_clusters(
            scores, clusters, Promise(ALPHA, "pac", DELTA)
        ),
        "weighted calibration": lambda: calibrate_weighted(scores, weights, ALPHA),
        "weighted p-values of N against N": lambda: weighted.p_value(fresh, weights),
        "select from N": lambda: conformal_selection(p, ALPHA),
        "discoveries among N against N, first": lambda: first_discoveries(p),
        "discoveries among N against N, again": lambda: discoveries(p, n, CONFIDENCE),
        "band, DKW": lambda: simultaneous_band(scores, CONFIDENCE, "dkw"),
        "band, Berk-Jones, first": lambda: first_band(scores),
        "band, Berk-Jones, again": lambda: simultaneous_band(scores, CONFIDENCE),
        "three-way, N / 2 of each class": lambda: three_way(
            scores[hallucinated], fresh[~hallucinated] - 1.0, Promise(ALPHA, beta=ALPHA)
        ),
        "several risks, recall and FPR": lambda: control_risks(
            fresh + labels, labels, ["recall>=0.9", "fpr<=0.3"], CONFIDENCE
        ),
        "several risks, recall and precision": lambda: control_risks(
            fresh + labels, labels, ["recall>=0.9", "precision>=0.6"], CONFIDENCE
        ),
        "flip tolerance, counts of N": lambda: flip_tolerance(
            ClassCounts(int(0.48 * n), n // 2, int(0.1 * n), n // 2),
            Requirement(MAX_FPR, 0.9, CONFIDENCE),
        ),
        f"certificates of {GROUPS} groups, counts of N": lambda: certify_groups(
            {name: group_counts(n) for name in names[:GROUPS]},
            Requirement(MAX_FPR, 0.9, CONFIDENCE),
        ),
        "plan, probabilities at N labels and n for 80 %": lambda: plan(
            Promise(ALPHA, "pac"),
            Requirement(max_fpr=MAX_FPR),
            Assumption(separation=2.0),
            base_rate=0.3,
            n=[n],
        ),
    }
    return found


def first_band(scores: Floats) -> object:
    local_level.cache_clear()
    return simultaneous_band(scores, CONFIDENCE)


def first_discoveries(p: Floats) -> object:
    shared_level.cache_clear()
    return discoveries(p, len(p), CONFIDENCE)


def group_counts(n: int) -> ClassCounts:
    each = n // (2 * GROUPS)
    return ClassCounts(int(0.95 * each), each, int(0.2 * each), each)


def certificate(scores: Floats, hallucinated: NDArray[np.bool_], threshold: float) -> str:
    flagged = flags(scores, threshold)
    alarms, n = int(np.count_nonzero(flagged)), len(scores)
    caught = int(np.count_nonzero(flagged & hallucinated))
    positives = int(np.count_nonzero(hallucinated))
    return certify_counts(
        ClassCounts(caught, positives, alarms - caught, n - positives),
        Requirement(MAX_FPR, 0.8, CONFIDENCE),
    ).verdict


def fastest(operation: Operation) -> float:
    """Return the shortest processor time of some repeats: others may use the machine, too."""
    times: list[float] = []
    began = time.perf_counter()
    while True:
        started = time.thread_time()
        operation()
        times.append(time.thread_time() - started)
        passed = time.perf_counter() - began
        enough = len(times) >= FEWEST or times[0] > BUDGET
        if enough and (len(times) >= MOST or passed > BUDGET):
            return min(times)


def expected(seconds: dict[int, float], n: int) -> float:
    """Return the time to expect at n: it goes on growing as between the last two sizes."""
    if len(seconds) < 2:
        return 0.0
    before, last = sorted(seconds)[-2:]
    growth = max(0.0, math.log(seconds[last] / seconds[before]) / math.log(last / before))
    return seconds[last] * (n / last) ** growth


def cell(found: dict[int, float], sorting: dict[int, float], n: int) -> str:
    if n in found:
        return f"{found[n] / sorting[n]:.3g}"
    return f"skipped (about {expected(found, n):,.0f} s)"


def mapie_rows(rng: np.random.Generator) -> list[str]:
    from mapie.risk_control import BinaryClassificationController

    labels = rng.random(MAPIE_SIZE) < 0.3
    scores = rng.normal(labels.astype(np.float64), 1.0)
    shares = 1.0 / (1.0 + np.exp(-scores))

    def ours() -> str:
        calibration = calibrate_threshold(
            scores[labels], Promise(ALPHA, "pac", (1 - CONFIDENCE) / 2)
        )
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
        f"| calibrail: `pac` threshold and certificate | {spread(fast)} | |",
        f"| MAPIE: `calibrate` | {spread(slow)} | {min(slow) / min(fast):.0f} |",
    ]


def in_turn(operations: list[Operation], repeats: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in operations]
    for _ in range(repeats):
        for operation, seconds in zip(operations, times, strict=True):
            started = time.perf_counter()
            operation()
            seconds.append(time.perf_counter() - started)
    return times


def spread(times: list[float]) -> str:
    return f"{min(times):.2e} ({statistics.median(times):.2e})"


if __name__ == "__main__":
    main()
