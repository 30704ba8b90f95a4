"""How much memory does it take to read and calibrate a million rows?

Generates CSV files of scores and labels, calibrates each in a process of its own, and reports the
peak resident memory. Goal: under 600 MiB at 10^6 rows.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from results import write

SIZES = (10_000, 100_000, 1_000_000)


def generate(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, rows)
    scores = rng.normal(labels, 1.0)
    with path.open("w", encoding="utf-8") as file:
        file.write("id,group,label,detector\n")
        for index in range(rows):
            score = float(scores[index])
            file.write(f"answer-{index},source-{index // 2},{labels[index]},{score!r}\n")


def calibrate(path: Path, output: Path) -> None:
    from calibrail import ReadOptions, calibrate

    run = calibrate(
        str(path),
        "column:column=detector,higher=hallucinated",
        alpha=0.05,
        max_fpr=0.9,
        reading=ReadOptions(format="csv"),
    )
    run.save(output)


def main() -> None:
    lines = ["| rows | file MiB | peak MiB | seconds |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for rows in SIZES:
            path = Path(folder) / f"{rows}.csv"
            generate(path, rows)
            started = time.perf_counter()
            command = [sys.executable, __file__, str(path), str(Path(folder) / f"run-{rows}")]
            peak = int(subprocess.run(command, check=True, capture_output=True).stdout)
            lines.append(
                f"| {rows:,} | {path.stat().st_size / 2**20:.1f} | {peak / 1024:.0f} "
                f"| {time.perf_counter() - started:.1f} |"
            )
    write(
        "calibrate_memory",
        "Memory of reading and calibrating",
        ["Goal: under 600 MiB at 1,000,000 rows.", "", *lines],
        ["numpy", "scipy", "pyarrow"],
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        calibrate(Path(sys.argv[1]), Path(sys.argv[2]))
        # Linux reports kilobytes.
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main()
