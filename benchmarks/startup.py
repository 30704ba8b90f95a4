"""How long does ``calibrail --help`` take beyond starting Python?

Whole processes, in turn, with the median of the differences. Goal: at most 0.25 s more than
``python -c pass``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from results import write

RUNS = 15
HELP = [str(Path(sys.executable).parent / "calibrail"), "--help"]
BARE = [sys.executable, "-c", "pass"]


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    for command in (HELP, BARE):
        seconds(command)
    pairs = [(seconds(HELP), seconds(BARE)) for _ in range(RUNS)]
    extra = [with_help - bare for with_help, bare in pairs]
    write(
        "startup",
        "Starting the command line",
        [
            "| what | median s | min s | max s |",
            "|---|---|---|---|",
            row("`calibrail --help`", [a for a, _ in pairs]),
            row("`python -c pass`", [b for _, b in pairs]),
            row("difference (goal: at most 0.25)", extra),
        ],
    )


def row(name: str, values: list[float]) -> str:
    return f"| {name} | {statistics.median(values):.3f} | {min(values):.3f} | {max(values):.3f} |"


if __name__ == "__main__":
    main()
