"""How much memory and time does it take to calibrate a million rows of scores?

Writes files of labels and one detector's scores, with ids and without, calibrates each in a process
of its own and saves the run. What a row takes is the peak resident memory less that of 10,000 rows,
divided by the rows. Beside it stand pyarrow and pandas, which only read the same file. Further
sizes are arguments: ``python benchmarks/calibrate_memory.py 10000000`` takes minutes more, and
measures only files without ids, where a row is known by what it holds, which takes most.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from results import write

SIZES = (10_000, 1_000_000)
#: Which files, and whether rows have ids; without them what a row holds is what it is known by.
KINDS = {
    "Parquet": (".parquet", True),
    "Parquet, no ids": (".parquet", False),
    "CSV": (".csv", True),
}
#: Which of them is measured at further sizes, and read by the peers.
WITHOUT_IDS = "Parquet, no ids"
PEERS = ("pyarrow", "pandas")
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
        table = pa.parquet.read_table(path)
        assert table.num_rows
    elif mode == "pandas":
        import pandas as pd

        assert len(pd.read_parquet(path))
    else:
        from calibrail import calibrate

        spec = "column:column=detector,higher=hallucinated"
        calibrate(path, spec, max_fpr=0.3).save(path.with_suffix(".run"))


def measured(mode: str, path: Path) -> tuple[int, float]:
    """Return the peak in bytes and the processor seconds of a process of its own."""
    command = [sys.executable, __file__, mode, str(path)]
    output = subprocess.run(command, check=True, capture_output=True).stdout.split()
    return int(output[-2]), float(output[-1])


def main(further: Sequence[int]) -> None:
    """Measure every kind of file at every size and write the table."""
    lines = [
        "| rows | file | pass | peak MiB | bytes a row | processor seconds |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        smallest: dict[str, int] = {}
        for rows in (*SIZES, *further):
            for kind, (suffix, ids) in KINDS.items():
                if rows in further and kind != WITHOUT_IDS:
                    continue
                path = Path(folder) / f"{rows}-{len(kind)}{suffix}"
                generate(path, rows, ids)
                for mode in ("calibrate", *(PEERS if kind == WITHOUT_IDS else ())):
                    peak, seconds = measured(mode, path)
                    base = smallest.setdefault(f"{kind} {mode}", peak)
                    each = f"{(peak - base) / rows:.0f}" if rows > SIZES[0] else ""
                    lines.append(
                        f"| {rows:,} | {kind} | {mode} | {peak / 2**20:.0f} | {each} "
                        f"| {seconds:.1f} |"
                    )
                    print(lines[-1], flush=True)
                path.unlink()
    goal = "`calibrate` ends with the saved run; the peers only read. Goal: under 150 bytes a row."
    libraries = ["numpy", "scipy", "pyarrow", "pandas"]
    write("calibrate_memory", "Memory of calibrating scores", [goal, "", *lines], libraries)


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
