"""What does a logged decision cost beside the bare write of its bytes?

In turn, in one process and on one disk: lines of decisions through ``DecisionLog.write``, and as
many bytes through ``os.write``, with ``os.fsync`` where the log syncs. Then what of it the language
takes, by the length of the answer, and what loading its model takes; ``verify`` and ``export``:
lines a second, and the most memory that a process of its own takes, on a log and on one of ten
times as many lines. ``python benchmarks/decision_log.py [FOLDER]`` measures another disk.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from results import write

from calibrail.guardrail import Decision
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.text.words import language_of

#: Decisions that are written together: one request, and what a busy service has in a batch.
BATCHES = (1, 16, 64)
ROUNDS = 21
#: Decisions of a round, without and with sync.
LINES = {False: 6400, True: 640}
LOGS = (20_000, 200_000)
DIGEST = "sha256:" + "a" * 64
#: Answers of these lengths, in characters, have their language told.
LENGTHS = (60, 200, 400, 100_000)
QUESTION = "Which element has the symbol W, and what is it used for?"
ANSWER = (
    "Tungsten has the symbol W and atomic number 74. It melts at 3,422 degrees, higher than any "
    "other metal, which is why lamps, tools and rockets are made with it. "
)
REASON = "score 0.4213 is at least the threshold 0.3817"

WORK = """
import sys, time
from pathlib import Path
from calibrail.guardrail.decision_log.verify import export
from calibrail.guardrail.decision_log.verify import verify
folder, task = Path(sys.argv[1]), sys.argv[2]
started = time.perf_counter()
if task == "verify":
    assert verify([folder]).verdict == "whole"
else:
    export([folder], folder / "log.parquet")
seconds = time.perf_counter() - started
# Not ru_maxrss: it counts what the process that started this one held.
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(seconds, int(peak) / 1024)
"""


LOADING = """
import time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
import calibrail.guardrail.decision_log
import numpy
from calibrail.text.words import languages_known
before, started = resident(), time.perf_counter()
assert languages_known()
print(time.perf_counter() - started, resident() - before)
"""


def main() -> None:
    place = sys.argv[1] if len(sys.argv) > 1 else None
    rows = []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for sync in (False, True):
            for batch in BATCHES:
                rows.append(writing(Path(folder), batch, sync=sync))
                print(rows[-1], flush=True)
        rows += ["", "| language of characters | \N{MICRO SIGN}s |", "|---|---|"]
        rows += map(telling, LENGTHS)
        rows += ["", "| loading what tells languages | |", "|---|---|", *loading()]
        rows += ["", "| what | lines | lines per second | most memory, MiB |", "|---|---|---|---|"]
        for n in LOGS:
            log = Path(folder) / str(n)
            with DecisionLog(log) as out:
                for start in range(0, n, 64):
                    out.write([entry(number) for number in range(start, min(n, start + 64))])
            for task in ("verify", "export"):
                rows.append(reading(log, task, n))
                print(rows[-1], flush=True)
    write(
        "decision_log",
        "A logged decision beside a bare write",
        [
            f"Medians of {ROUNDS} rounds, in each of which the log and the bare writes take turns "
            "on the same disk; ratios are medians of the rounds' ratios. A bare write puts as many "
            "bytes into a file as a batch of lines has. Each answer has a question, a context and "
            f"{len(ANSWER)} characters, whose lengths and language are logged.",
            "",
            "| sync | decisions per write | decisions per second | \N{MICRO SIGN}s per decision | "
            "bare write | times a bare write |",
            "|---|---|---|---|---|---|",
            *rows,
        ],
        ("pyarrow",),
    )


def telling(length: int) -> str:
    """Return a row: what telling the language of an answer takes."""
    text = (ANSWER * (length // len(ANSWER) + 1))[:length]
    work = partial(language_of, text)
    seconds = statistics.median(timed(work, 200) for _ in range(ROUNDS))
    return f"| {length:,} | {1e6 * seconds:.0f} |"


def loading() -> list[str]:
    """Return rows: what a process takes to load the model that tells languages."""
    command = [sys.executable, "-c", LOADING]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = map(float, done.stdout.split())
    return [f"| seconds | {seconds:.2f} |", f"| MiB | {memory:.0f} |"]


def entry(number: int) -> Entry:
    decision = Decision(f"request-{number}", "flag", 0.4213, 0.3817, 0.0412, REASON)
    texts = {"question": QUESTION, "contexts": (ANSWER,), "response": ANSWER}
    return Entry(decision, DIGEST, "faq", **texts)


def writing(folder: Path, batch: int, *, sync: bool) -> str:
    """Return a row: the log beside bare writes."""
    entries = [entry(number) for number in range(batch)]
    with DecisionLog(folder / f"log-{sync}-{batch}", sync=sync, max_bytes=1 << 34) as log:
        (path,) = log.folder.iterdir()
        before = path.stat().st_size
        log.write(entries)
        raw = bytes(path.stat().st_size - before)
        handle = os.open(folder / f"bare-{sync}-{batch}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def bare() -> None:
            os.write(handle, raw)
            if sync:
                os.fsync(handle)

        n = LINES[sync] // batch
        rounds = [(timed(lambda: log.write(entries), n), timed(bare, n)) for _ in range(ROUNDS)]
        os.close(handle)
    logged, alone = (
        1e6 * statistics.median(column) / batch for column in zip(*rounds, strict=True)
    )
    ratio = statistics.median(one / other for one, other in rounds)
    return (
        f"| {'yes' if sync else 'no'} | {batch} | {1e6 / logged:,.0f} | {logged:.1f} | "
        f"{alone:.2f} | {ratio:.2f} |"
    )


def timed(work: Callable[[], None], n: int) -> float:
    """Return the seconds of one call, of ``n`` in a row."""
    started = time.perf_counter()
    for _ in range(n):
        work()
    return (time.perf_counter() - started) / n


def reading(log: Path, task: str, n: int) -> str:
    command = [sys.executable, "-c", WORK, str(log), task]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = map(float, done.stdout.split())
    return f"| {task} | {n:,} | {n / seconds:,.0f} | {memory:.0f} |"


if __name__ == "__main__":
    main()
