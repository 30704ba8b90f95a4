"""Do the promises hold in simulation? The full grid, at least 10,000 runs a setting.

``python benchmarks/validity.py [RUNS]`` exits with 1 if any count lies outside its limits.
"""

from __future__ import annotations

import sys
import time
from itertools import groupby

from results import write

from calibrail.validity import ALPHAS, KINDS, SIZES, Check, failures, simulate

RUNS = 10_000
#: Probability that any check at all fails although every promise is true.
ERROR = 1e-3


def main() -> int:
    runs = max(RUNS, int(sys.argv[1])) if len(sys.argv) > 1 else RUNS
    started = time.perf_counter()
    checks = simulate(runs)
    seconds = time.perf_counter() - started
    failed = failures(checks, ERROR)
    lines = [
        f"{len(checks)} settings of {runs:,} runs each: n in {list(SIZES)}, alpha in "
        f"{list(ALPHAS)}, scores {', '.join(KINDS)}; {seconds:.0f} s. A setting is left out where "
        "n is below the minimum of its guarantee.",
        "",
        f"**{len(checks) - len(failed)} of {len(checks)} hold.** Limits are binomial quantiles; "
        f"that any true promise falls outside has probability at most {ERROR:g} over all settings. "
        "A failure rate marked `=` is known exactly and checked on both sides, one marked `<=` is "
        "an upper limit.",
    ]
    for promise, group in groupby(checks, key=lambda check: check.promise):
        lines += ["", f"## {promise.capitalize()}", ""]
        lines += ["| scores | n | alpha | failed | promised | limits | holds |", "|---" * 7 + "|"]
        lines += [row(check, ERROR / len(checks)) for check in group]
    write("validity", "The promises in simulation", lines, ("numpy", "scipy"))
    return 1 if failed else 0


def row(check: Check, error: float) -> str:
    least, most = check.limits(error)
    sign = "=" if check.exact else "<="
    return (
        f"| {check.kind} | {check.n} | {check.alpha:g} | {check.failed / check.runs:.4f} | "
        f"{sign} {check.probability:.4f} | {least / check.runs:.4f} to {most / check.runs:.4f} | "
        f"{'yes' if check.holds(error) else 'NO'} |"
    )


if __name__ == "__main__":
    sys.exit(main())
