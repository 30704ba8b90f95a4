"""How much memory and time does it take to calibrate a million rows of scores?

Writes files of labels and one detector's scores, with ids and without, and gives each to
``calibrail calibrate`` in a process of its own, up to the saved run. What a row takes is the peak
resident memory less that of 10,000 rows, divided by the rows. Beside it stand pyarrow and pandas,
which only read the same file. Further sizes are arguments: ``python
benchmarks/calibrate_memory.py 10000000 100000000`` takes a quarter of an hour more. CSV, which is
read row by row, is measured up to a million rows, and Parquet with ids up to ten million.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from results import write

SIZES = (10_000, 1_000_000)
#: Which files, and whether rows have ids; without them what a row holds is what it is known by.
KINDS = {
    "Parquet, no ids": (".parquet", False),
    "Parquet": (".parquet", True),
    "CSV, no ids": (".csv", False),
}
#: How many rows of a kind are measured at most.
LARGEST = {"Parquet": 10_000_000, "CSV, no ids": 1_000_000}
MODES = ("calibrate", "pyarrow", "pandas")
NOTES = (
    "`calibrate` is the command, up to the saved run; the peers only read. Goal: under 60 bytes",
    "and 2.5 microseconds a row of Parquet without ids, 150 bytes for others. Parquet is read as",
    "columns, CSV row by row. The columns that a run holds take 19 bytes a row (score 8, digest",
    "8, label, part, and how a row is known 1 each) and 4 more than the text of an id; to order",
    "them takes 16 to 24 more for a moment.",
)
#: Measured at a time; neither memory nor processor seconds depend on it.
_TOGETHER = 2
_WRITTEN = 500_000


def generate(path: Path, rows: int, ids: bool) -> None:
    """Write labels and scores, half a million rows at a time."""
    rng, writer = np.random.default_rng(0), None
    for start in range(0, rows, _WRITTEN):
        n = min(_WRITTEN, rows - start)
        labels = (rng.random(n) < 0.3).astype(np.int8)
        columns = {"detector": rng.normal(1.2 * labels, 1.0), "label": labels}
        names = {"id": [f"answer-{i}" for i in range(start, start + n)]} if ids else {}
        table = pa.table({**names, **columns})
        if writer is None:
            kind = pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter
            writer = kind(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def run(mode: str, path: Path) -> None:
    """Calibrate the file and save the run, or read it as a peer does."""
    if mode == "pyarrow":
        read = pa.csv.read_csv if path.suffix == ".csv" else pa.parquet.read_table
        assert read(path).num_rows
    elif mode == "pandas":
        import pandas as pd

        assert len((pd.read_csv if path.suffix == ".csv" else pd.read_parquet)(path))
    else:
        from calibrail.cli import main as command

        folder = path.with_suffix(".run")
        asked = ("--score-column", "detector", "--higher", "hallucinated", "--max-fpr", "0.3")
        sys.argv = ["calibrail", "calibrate", str(path), *asked, "-o", str(folder)]
        # It ends with the verdict's exit code.
        with suppress(SystemExit):
            command()
        assert (folder / "calibration.json").is_file()


def measured(mode: str, path: Path) -> tuple[int, float]:
    """Return the peak in bytes and the processor seconds of a process of its own."""
    command = [sys.executable, __file__, mode, str(path)]
    output = subprocess.run(command, check=True, capture_output=True).stdout.split()
    return int(output[-2]), float(output[-1])


def cell(kind: str, rows: int, folder: Path) -> list[tuple[int, float]]:
    """Return what every mode takes for one file."""
    suffix, ids = KINDS[kind]
    path = folder / f"{rows}-{len(kind)}{suffix}"
    generate(path, rows, ids)
    taken = [measured(mode, path) for mode in MODES]
    path.unlink()
    print(kind, rows, taken, flush=True)
    return taken


def main(further: Sequence[int]) -> None:
    """Measure every kind of file at every size and write the table."""
    lines = [
        "| rows | file | pass | peak MiB | bytes a row | processor seconds |",
        "|---|---|---|---|---|---|",
    ]
    asked = [
        (kind, rows)
        for rows in (*SIZES, *further)
        for kind in KINDS
        if rows <= LARGEST.get(kind, rows)
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_TOGETHER) as pool:
        # The largest first: they take longest.
        running = {(kind, n): pool.submit(cell, kind, n, Path(folder)) for kind, n in asked[::-1]}
        results = {key: future.result() for key, future in running.items()}
    for kind, rows in asked:
        smallest = results[kind, SIZES[0]]
        for mode, (peak, seconds), (base, _) in zip(
            MODES, results[kind, rows], smallest, strict=True
        ):
            each = f"{(peak - base) / rows:.0f}" if rows > SIZES[0] else ""
            lines.append(
                f"| {rows:,} | {kind} | {mode} | {peak / 2**20:.0f} | {each} | {seconds:.1f} |"
            )
    libraries = ["numpy", "scipy", "pyarrow", "pandas"]
    write("calibrate_memory", "Memory of calibrating scores", [*NOTES, "", *lines], libraries)


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].isdigit():
        run(sys.argv[1], Path(sys.argv[2]))
        # Not ru_maxrss, which counts what the process that started this one held.
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        print(int(status["VmHWM"].split()[0]) * 1024, time.process_time())
    else:
        main([int(rows) for rows in sys.argv[1:]])
