"""Do the promises hold in simulation? The full grid, 10,000 runs where a run is an array row.

``python -m benchmarks.validity [RUNS]`` writes ``benchmarks/results/validity.md`` and its figure,
and exits with 1 if any count lies outside its limits. Hours of one processor;
``attacks`` states those of all parts.
"""

import os
import sys

from benchmarks.results import FOLDER, write

from .check import failures
from .grid import observe, simulate
from .page import ERROR, RUNS, draw, page
from .resume import keep_parts


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    processes = os.cpu_count() or 1
    if runs >= RUNS:
        keep_parts()
    checks = simulate(runs, processes=processes)
    observations = observe(runs, processes=processes)
    lines = page(checks, observations, runs)
    if runs < RUNS:
        print("\n".join(lines))
    else:
        draw(checks, ERROR / len(checks), FOLDER)
        libraries = ("numpy", "scipy", "mapie")
        write("validity", "The promises in simulation", lines, libraries, "benchmarks/validity")
    return 1 if failures(checks, ERROR) else 0


if __name__ == "__main__":
    sys.exit(main())
