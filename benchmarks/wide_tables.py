"""Does reading grow with a table's columns as it must, and no faster?

Writes Parquet files of 200 rows and more and more columns of numbers, and takes processor seconds
and peak memory of ``diagnose``, which looks at every column, of ``read``, which needs two of them,
and of pyarrow, which turns the same file into Python values, each in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from results import write

COLUMNS = (1_000, 3_000, 10_000)
MODES = ("pyarrow", "read", "diagnose")
ROWS = 200


def generate(path: Path, columns: int) -> None:
    """Write labels and ``columns`` columns of numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, ROWS)
    numbers = {f"feature_{i}": rng.normal(labels * (i % 3), 1.0) for i in range(columns)}
    pq.write_table(pa.table({"label": labels, **numbers}), path)


def run(mode: str, path: Path) -> float:
    """Return the processor seconds of one pass, imports left out."""
    import pyarrow.parquet as pq

    from calibrail import diagnose
    from calibrail.data import read

    began = resource.getrusage(resource.RUSAGE_SELF)
    if mode == "pyarrow":
        pq.read_table(path).to_pylist()
    elif mode == "read":
        assert len(list(read(path, require=(), keep=("feature_1",)))) == ROWS
    else:
        assert len(diagnose(path).numeric_columns) > len(MODES)
    ended = resource.getrusage(resource.RUSAGE_SELF)
    return ended.ru_utime - began.ru_utime + ended.ru_stime - began.ru_stime


def main() -> None:
    """Measure every mode at every width and write the table."""
    lines = [
        "| columns | pass | processor seconds | microseconds a value | of pyarrow | peak MiB |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for columns in COLUMNS:
            path = Path(folder) / f"{columns}.parquet"
            generate(path, columns)
            peer = 0.0
            for mode in MODES:
                command = [sys.executable, __file__, mode, str(path)]
                output = subprocess.run(command, check=True, capture_output=True).stdout.split()
                seconds, peak = float(output[0]), int(output[1]) / 1024
                peer = seconds if mode == "pyarrow" else peer
                each = 1e6 * seconds / (columns * ROWS)
                lines.append(
                    f"| {columns:,} | {mode} | {seconds:.2f} | {each:.2f} "
                    f"| {seconds / peer:.1f} | {peak:.0f} |"
                )
    notes = ["`read` needs the label and one column of numbers; `diagnose` looks at all of them."]
    write("wide_tables", "Tables of many columns", [*notes, "", *lines], ["numpy", "pyarrow"])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        taken = run(sys.argv[1], Path(sys.argv[2]))
        # Linux reports kilobytes.
        print(taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main()
