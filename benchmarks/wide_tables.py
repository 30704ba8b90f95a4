"""Does reading grow with a table's columns as it must, and no faster?

Writes files of 200 rows and more and more columns of numbers, without ids, so that a row is known
by all that it holds. Takes processor seconds and peak memory of opening a file (its names and first
rows), of ``diagnose``, which looks at every column, and of ``calibrate`` by one of them up to the
saved run, next to what turns the same file into Python values and does no more (pyarrow, ``csv``,
``json``), each in a process of its own. The growth is the time a value over that of the narrowest
file: 1 is linear. Further widths are arguments: ``python benchmarks/wide_tables.py 30000``.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from results import write

COLUMNS = (1_000, 3_000, 10_000)
FORMATS = {".parquet": "Parquet", ".csv": "CSV", ".jsonl": "JSON lines"}
MODES = ("peer", "open", "diagnose", "calibrate")
ROWS = 200


def generate(path: Path, columns: int) -> None:
    """Write labels and ``columns`` columns of numbers."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, ROWS)
    numbers = {f"feature_{i}": rng.normal(labels * (i % 3), 1.0) for i in range(columns)}
    table = pa.table({"label": labels, **numbers})
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in table.to_pylist())


def as_values(path: Path) -> int:
    """Return how many rows there are, each of which was turned into Python's numbers."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return len(pq.read_table(path).to_pylist())
    with path.open(encoding="utf-8") as stream:
        if path.suffix == ".csv":
            rows = csv.reader(stream)
            next(rows)
            return sum(1 for row in rows if list(map(float, row)))
        return sum(1 for line in stream if json.loads(line))


def run(mode: str, path: Path) -> float:
    """Return the processor seconds of one pass, imports left out."""
    from calibrail import calibrate, diagnose
    from calibrail.data import read

    began = resource.getrusage(resource.RUSAGE_SELF)
    if mode == "peer":
        assert as_values(path) == ROWS
    elif mode == "open":
        assert read(path, require=(), keep=("feature_1",)).columns.present
    elif mode == "diagnose":
        assert len(diagnose(path).numeric_columns) > len(MODES)
    else:
        score = "column:column=feature_1,higher=hallucinated"
        calibrate(path, score, alpha=0.2, max_fpr=0.9).save(path.with_suffix(".run"))
    ended = resource.getrusage(resource.RUSAGE_SELF)
    return ended.ru_utime - began.ru_utime + ended.ru_stime - began.ru_stime


def table(suffix: str, widths: Sequence[int], folder: Path) -> list[str]:
    """Return the lines of one format, measured at every width."""
    lines, narrowest = [], dict[str, float]()
    for columns in widths:
        path = folder / f"{columns}{suffix}"
        generate(path, columns)
        peer = 0.0
        for mode in MODES:
            command = [sys.executable, __file__, mode, str(path)]
            output = subprocess.run(command, check=True, capture_output=True).stdout.split()
            seconds, peak = float(output[-2]), int(output[-1]) / 1024
            peer = seconds if mode == "peer" else peer
            each = 1e6 * seconds / (columns * ROWS)
            base = narrowest.setdefault(mode, each)
            lines.append(
                f"| {FORMATS[suffix]} | {columns:,} | {mode} | {seconds:.2f} | {each:.2f} "
                f"| {each / base:.1f} | {seconds / peer:.1f} | {peak:.0f} |"
            )
            print(lines[-1], flush=True)
        path.unlink()
    return lines


def main(further: Sequence[int]) -> None:
    """Measure every format at every width and write the table."""
    head = [
        "The peer turns the whole file into Python values and does no more: pyarrow's `to_pylist`,",
        "`csv` with `float`, `json.loads`.",
        "",
        "| file | columns | pass | processor seconds | microseconds a value | growth | of the peer "
        "| peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        # Neither processor seconds nor memory depend on what runs beside.
        widths = (*COLUMNS, *further)
        parts = pool.map(lambda suffix: table(suffix, widths, Path(folder)), FORMATS)
        lines = [line for part in parts for line in part]
    write("wide_tables", "Tables of many columns", [*head, *lines], ["numpy", "pyarrow"])


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].isdigit():
        taken = run(sys.argv[1], Path(sys.argv[2]))
        # Not ru_maxrss, which counts what the process that started this one held.
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        print(taken, status["VmHWM"].split()[0])
    else:
        main([int(columns) for columns in sys.argv[1:]])
