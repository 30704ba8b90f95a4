"""What do scores that come in chunks cost, and how much memory do they need?

Up to 10^8 scores pass through every stream at once: processor time a score, and the peak memory of
the process. The level of a first Berk-Jones band is found again in a process that does nothing
else, which tells its own memory. ``python benchmarks/conformal_streams.py [LARGEST]``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from results import write

from calibrail.conformal import (
    BandStream,
    CountStream,
    PValueStream,
    ThresholdStream,
    calibrate_threshold,
)
from calibrail.conformal.bounds import local_level
from calibrail.options import Promise

SIZES = (10**6, 10**7, 10**8)
ALPHA, DELTA, CONFIDENCE = 0.1, 0.1, 0.9
#: Scores a chunk, scores that p-values are against, and thresholds of the band.
CHUNK, AGAINST, EDGES = 2**16, 10**5, np.linspace(-2.0, 4.0, 100)

Floats = NDArray[np.float64]


def main() -> None:
    if sys.argv[1:2] == ["--all"]:
        every_stream(int(sys.argv[2]))
        return
    if sys.argv[1:2] == ["--level"]:
        level(int(sys.argv[2]))
        return
    largest = int(float(sys.argv[1])) if len(sys.argv) > 1 else SIZES[-1]
    sizes = [n for n in SIZES if n <= largest]
    lines = [
        f"Scores in chunks of {CHUNK:,}, each kind in one pass: nanoseconds of processor a score. "
        f"Threshold: `pac` at {ALPHA:g}; band: {len(EDGES)} thresholds; p-values: against "
        f"{AGAINST:,} scores. Memory: the most that the process held at any time, and with numpy "
        "and calibrail imported only.",
        "",
        "| scores | threshold | counts | band | p-values | peak MiB | imported |",
        "|---" * 7 + "|",
        *(row(n, "--all", "{:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.0f}") for n in sizes),
        "",
        "The level of the first Berk-Jones band of so many scores, which is then kept, in a "
        "process that does nothing else:",
        "",
        "| scores | seconds of processor | peak MiB | imported |",
        "|---" * 4 + "|",
        *(row(n, "--level", "{:.1f} | {:.0f} | {:.0f}") for n in sizes),
    ]
    if largest >= SIZES[-1]:
        write("conformal_streams", "Scores that come in chunks", lines, ("numpy", "scipy"))
    else:
        print("\n".join(lines))


def row(n: int, kind: str, form: str) -> str:
    command = [sys.executable, __file__, kind, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cells = form.format(*map(float, done.stdout.split()))
    return f"| {n:,} | {cells} |"


def every_stream(n: int) -> None:
    """Print what streams of n scores take in this process."""
    imported, rng = peak(), np.random.default_rng(0)
    calibration = calibrate_threshold(rng.normal(1.0, 1.0, AGAINST), Promise(ALPHA))
    finding = ThresholdStream(Promise(ALPHA, "pac", DELTA), n)
    counting, looking = CountStream(calibration), PValueStream(calibration)
    band = BandStream(EDGES, CONFIDENCE)
    seconds = dict.fromkeys(("threshold", "counts", "band", "p"), 0.0)

    def timed(name: str, call: Callable[..., object], *arguments: object) -> None:
        started = time.process_time()
        call(*arguments)
        seconds[name] += time.process_time() - started

    for scores, labels in chunks(n):
        timed("threshold", finding.add, scores)
        timed("counts", counting.add, scores, labels)
        timed("band", band.add, scores)
        timed("p", looking.p_value, scores)
    timed("threshold", finding.threshold)
    band.bounds()
    print(*(spent / n * 1e9 for spent in seconds.values()), peak(), imported)


def level(n: int) -> None:
    """Print what finding the level of a band of n scores takes in this process."""
    imported, started = peak(), time.process_time()
    local_level(n, (1.0 - CONFIDENCE) / 2.0)
    print(time.process_time() - started, peak(), imported)


def chunks(n: int) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    rng = np.random.default_rng(1)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        yield rng.normal(1.0, 1.0, size), np.arange(size) % 2 == 0


def peak() -> float:
    """Return the most memory that this process held, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
