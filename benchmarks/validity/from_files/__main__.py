"""Do the promises hold from a file to a report? Files are written, read, split and judged.

``python -m benchmarks.validity.from_files [RUNS]`` writes
``benchmarks/results/validity_from_files.md``, and exits with 1 if any rate lies beyond its limit.
Hours of one processor; ``attacks`` states those of all parts.
"""

import os
import sys
from collections.abc import Sequence

from benchmarks.results import write

from ..check import Check, MeanCheck, failures
from ..resume import keep_parts
from .grid import simulate_from_files

RUNS = 300
#: Probability that any check at all fails although every promise is true.
ERROR = 1e-3


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    if runs >= RUNS:
        keep_parts()
    checks = simulate_from_files(runs, processes=os.cpu_count() or 1)
    lines = page(checks)
    if runs < RUNS:
        print("\n".join(lines))
    else:
        title = "The promises in simulation, from file to report"
        script = "benchmarks/validity/from_files"
        write("validity_from_files", title, lines, ("numpy", "scipy"), script)
    return 1 if failures(checks, ERROR) else 0


def page(checks: Sequence[Check | MeanCheck]) -> list[str]:
    failed, error = failures(checks, ERROR), ERROR / len(checks)
    lines = [
        "Every run writes labelled answers with known true rates to a file, as CSV or JSON lines, "
        "and reads it with the functions behind the commands: ids, groups, split, thresholds, "
        "verdicts. What they say is compared with the truth about an answer drawn from a new "
        "group.",
        "",
        f"**{len(checks) - len(failed)} of {len(checks)} hold.** A count of runs that failed may "
        "lie above what is promised as far as chance explains (binomial limits); so may a mean of "
        "the true rates that the runs led to (Student's limits). That any check "
        f"fails although all promises are true has a probability of at most {ERROR:g}.",
        "",
        "n counts the groups in a file; answers, where they stand alone. Requirements are those "
        "that the truth only just breaks (wrong: certified) or only just meets (wrong: rejected), "
        "which is where verdicts err most; at stated 0.05 unless promised says otherwise.",
        *(f"\nFAILED: {check}" for check in failed),
    ]
    for what in dict.fromkeys(check.what for check in checks):
        lines += ["", f"## {what[0].upper()}{what[1:]}", ""]
        lines += ["| design | n | runs | promised | observed | 95 % interval | holds |"]
        lines += ["|---" * 7 + "|"]
        lines += [row(check, error) for check in checks if check.what == what]
    return lines


def row(check: Check | MeanCheck, error: float) -> str:
    low, high = check.interval()
    holds = "yes" if check.holds(error) else "NO"
    return (
        f"| {check.design} | {check.n} | {check.runs:,} | {check.promised:.4g} | {check.rate:.4f} "
        f"| {low:.4f} to {high:.4f} | {holds} |"
    )


if __name__ == "__main__":
    sys.exit(main())
