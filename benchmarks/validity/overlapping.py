"""Do the promises of groups that overlap hold in simulation, at full size?

``python -m benchmarks.validity.overlapping [RUNS]`` writes
``benchmarks/results/validity_overlapping.md``: the settings of the grid that are about such groups,
with its seeds and so its counts, and exits with 1 if any count lies outside its limits. Fewer than
``LEAST`` runs write nothing. A run takes about 0.05 seconds of one core.
"""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.results import write

from . import groups
from .check import KINDS, Check, Observation, Setting, failures
from .grid import ALPHAS, OTHERS, PROMISES, SIZES, Simulation
from .page import ERROR, RUNS, row, summary

#: Runs from which on the page is written.
LEAST = 2_000


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    started = time.process_time()
    checks = list(results(PROMISES, groups.overlapping_marginal, runs))
    others = list(results(OTHERS, groups.overlapping_beside, runs))
    lines = page(checks, others, time.process_time() - started)
    if runs < LEAST:
        print("\n".join(lines))
    else:
        script = "benchmarks/validity/overlapping.py"
        title = "Groups that overlap in simulation"
        write("validity_overlapping", title, lines, ("numpy",), script)
    return 1 if failures(checks, ERROR) else 0


def results(grid: Sequence[Simulation[Any]], simulation: Any, runs: int) -> Iterator[Any]:
    """Yield what one simulation found in all of its settings."""
    for item in grid:
        for n, alpha, kind in product(SIZES, ALPHAS, KINDS):
            if item.run is simulation and item.includes(n, alpha, kind):
                print(f"{simulation.__name__} n = {n}, {kind}", file=sys.stderr, flush=True)
                yield from item.run(Setting(kind, n, alpha, math.ceil(runs / item.each)))


def page(checks: Sequence[Check], others: Sequence[Observation], seconds: float) -> list[str]:
    failed = failures(checks, ERROR)
    lines = [
        "Answers are of one of two models (large, small) on one of two topics (law, news), and "
        "both columns are groups. The rarer model is the hard one, and worst where it writes "
        "least. Each run draws n hallucinated calibration answers, makes the thresholds with "
        "`calibrate_overlapping`, and draws one new hallucinated answer of each group; it fails "
        "where that answer is missed although its group has a promise.",
        "",
        f"{max(check.runs for check in checks):,} runs with continuous scores and n = 100; "
        f"{min(check.runs for check in checks):,} in the other settings, as each run solves "
        f"regressions; {seconds:.0f} s of one core.",
        "",
        f"**{len(checks) - len(failed)} of {len(checks)} hold.** Limits are binomial quantiles at "
        "the number of runs; that any true promise falls outside has probability at most "
        f"{ERROR:g} over all checks. Each row sums up the settings of one group, and shows the one "
        "whose count was the least likely.",
        *(f"\nFAILED: {check}" for check in failed),
        "",
        "| group | scores | settings | runs each | least likely at | promised | failed "
        "| probability | limits | all hold |",
        "|---" * 10 + "|",
    ]
    error = ERROR / len(checks)
    for design, kind in dict.fromkeys((check.design, check.kind) for check in checks):
        part = [check for check in checks if (check.design, check.kind) == (design, kind)]
        lines.append(summary(design, kind, part, error))
    lines += [
        "",
        "## What is not promised, and what other thresholds do",
        "",
        f"{max(item.runs for item in others):,} runs. Nothing is promised where a model meets a "
        "topic, by one threshold for all, or by a threshold for each combination in a group of one "
        "column. A combination with too few calibration answers takes the threshold of all.",
        "",
        "| what failed | n | alpha | runs | observed | 95 % interval | wanted |",
        "|---" * 7 + "|",
    ]
    return lines + [row(item, None).rsplit("|", 2)[0] + "|" for item in others]


if __name__ == "__main__":
    sys.exit(main())
