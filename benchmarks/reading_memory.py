"""Does reading a million rows keep memory flat, and what does it cost beside bare JSON?

Writes JSON lines of generated answers (about 600 bytes each, some of them broken), reads them in
a process of its own, and reports the peak resident memory and the rows a second, next to a loop of
``json.loads`` over the same file. What grows with the rows is the set of ids that were seen.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from results import write

SIZES = (10_000, 100_000, 1_000_000)
MODES = ("interpreter", "json.loads", "read", "read + sketch")
_WORDS = ("river", "planet", "element", "country", "mountain", "engine", "library", "harbour")


def generate(path: Path, rows: int) -> None:
    """Write ``rows`` lines, one in a thousand of them broken in one way or another."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(_WORDS), (1000, 80))
    texts = [" ".join(_WORDS[i] for i in row) for row in picks]
    bad = ("{broken", '{"id": 1}', "[]")
    with path.open("w", encoding="utf-8") as stream:
        for i in range(rows):
            if i % 1000 == 999:
                stream.write(bad[i // 1000 % 3] + "\n")
                continue
            row = {
                "id": f"answer-{i}",
                "question": f"Question {i} {texts[i % 1000][:60]}?",
                "contexts": [texts[(i + 1) % 1000][:150], texts[(i + 2) % 1000][:150]],
                "response": f"Answer {i}: {texts[(i + 3) % 1000][:120]}.",
                "label": i % 2,
                "group": f"source-{i // 4}",
            }
            stream.write(json.dumps(row) + "\n")


def run(mode: str, path: Path) -> tuple[int, float]:
    """Return (rows read, seconds) of one pass."""
    # Imports belong to the process, not to the pass.
    from calibrail.data import read
    from calibrail.data.duplicates import Sketcher

    start = time.perf_counter()
    count = 0
    if mode == "json.loads":
        with path.open("rb") as lines:
            for line in lines:
                count += 1
                if line.startswith(b'{"id": "'):
                    json.loads(line)
    elif mode.startswith("read"):
        sketcher = Sketcher() if "sketch" in mode else None
        reading = read(path)
        for example in reading:
            if sketcher is not None:
                sketcher.add(example)
        if sketcher is not None:
            sketcher.finish()
        count = reading.n_rows
        assert reading.n_examples + reading.n_quarantined == count
    return count, time.perf_counter() - start


def main() -> None:
    """Measure every mode at every size and write the table."""
    lines = [
        "| rows | file MiB | pass | peak MiB | seconds | rows/s |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for rows in SIZES:
            path = Path(folder) / f"{rows}.jsonl"
            generate(path, rows)
            for mode in MODES:
                command = [sys.executable, __file__, mode, str(path)]
                output = subprocess.run(command, check=True, capture_output=True).stdout.split()
                peak, seconds = int(output[0]) / 1024, float(output[1])
                rate = f"{rows / seconds:,.0f}" if mode != "interpreter" else ""
                lines.append(
                    f"| {rows:,} | {path.stat().st_size / 2**20:.0f} | {mode} | {peak:.0f} "
                    f"| {seconds:.2f} | {rate} |"
                )
            path.unlink()
    notes = [
        "`interpreter` only imports the package. `read` grows by the set of ids (16 MiB at 10^6,",
        "24 MiB for a moment while it grows), `read + sketch` by 290 bytes a row besides.",
    ]
    write("reading_memory", "Memory and speed of reading", [*notes, "", *lines], ["numpy"])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        _, taken = run(sys.argv[1], Path(sys.argv[2]))
        # Linux reports kilobytes.
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, taken)
    else:
        main()
