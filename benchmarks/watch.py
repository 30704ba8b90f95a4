"""How fast does a watch take in what was decided, and how much does it keep?

``python benchmarks/watch.py [ROWS]`` writes ``results/watch.md``: updates a second beside one bare
numpy pass over the same arrays and MAPIE's online martingale, bytes of the state, memory of a
process of its own over as many as ROWS rows (10^8), and lines a second of ``calibrail monitor``
beside bare ``json.loads`` and SHA-256. About ten minutes on one core.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from results import write

import calibrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.monitoring.history import Rows

SIZES = (10**6, 10**7, 10**8)
ROUNDS, ROWS = 7, 500_000
#: Rows of one call of ``update``.
CALLS = (1, 64, 4096, 65_536)
LINES = 100_000
SCORE = "column:column=risk,higher=hallucinated"
MAPIE_ROWS = (2_000, 8_000)
ONE_CORE = {**os.environ, "OMP_NUM_THREADS": "1"}

MEMORY = """
import resource, sys, time
sys.path.insert(0, sys.argv[3])
import calibrail, watch
path, total = sys.argv[1], int(sys.argv[2])
monitor, seconds, step, largest = calibrail.Monitor(path), 0.0, 100_000, 0
for start in range(0, total, step):
    rows = watch.traffic(step, seed=start, start=start)
    started = time.process_time()
    monitor.update(rows)
    seconds += time.process_time() - started
    if start % 1_000_000 == 0 or start + step >= total:
        largest = max(largest, len(monitor.to_state()))
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, largest)
print(len(monitor.traffic()["alarms"]))
"""


def traffic(n: int, seed: int = 0, start: int = 0) -> Rows:
    """Return rows of independent answers with every feature, two a second."""
    rng = np.random.default_rng(seed)
    undefined = rng.random(n) < 0.03
    score = np.where(undefined, np.nan, rng.standard_normal(n))
    languages = np.array(["en", "de", "fr", "es", None], object)
    return Rows.of(
        score,
        score > 1.0,
        time=1.75e9 + 0.5 * (start + np.arange(n)),
        question_length=np.floor(rng.lognormal(4.0, 0.6, n)),
        response_length=np.floor(rng.lognormal(6.0, 0.5, n)),
        chunks=rng.integers(1, 9, n).astype(np.float64),
        language=languages[rng.choice(5, n, p=[0.7, 0.15, 0.08, 0.05, 0.02])].tolist(),
    )


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of processor that work takes, in this process and those it waits for."""
    started = processor()
    work()
    return processor() - started


def processor() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def bare_pass(rows: Rows) -> Callable[[], object]:
    """Return the least that can be done with the columns: each is read once."""
    columns = (rows.score, rows.question_length, rows.response_length, rows.chunks, rows.time)
    flags = (rows.undefined, rows.failed, rows.flagged)

    def work() -> None:
        for column in columns:
            np.isnan(column).sum()
        for flag in flags:
            flag.sum()

    return work


def bare_bins(rows: Rows) -> Callable[[], object]:
    """Return a binning of the four columns of numbers with numpy, and nothing more."""
    columns = (rows.score, rows.question_length, rows.response_length, rows.chunks)
    edges = [np.nanquantile(column[:1000], np.linspace(0.0, 1.0, 31)) for column in columns]

    def work() -> None:
        for column, cuts in zip(columns, edges, strict=True):
            np.bincount(np.searchsorted(cuts, column), minlength=32)

    return work


def updates(guardrail: Path) -> list[str]:
    rows = traffic(ROWS)
    lines = ["| what | rows a second | against the watch |", "|---|---|---|"]
    timed: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        monitor = calibrail.Monitor(guardrail)
        work = {
            "`Monitor.update`, 65,536 rows a call": lambda m=monitor: in_calls(m, rows, 65_536),
            "numpy: into bins and counted, four columns": bare_bins(rows),
            "numpy: every column read once": bare_pass(rows),
        }
        for name, one in work.items():
            timed.setdefault(name, []).append(seconds_of(one))
    ours, *_ = timed.values()
    for name, found in timed.items():
        ratio = statistics.median(mine / one for mine, one in zip(ours, found, strict=True))
        rate = ROWS / statistics.median(found)
        lines.append(f"| {name} | {rate:,.0f} | {ratio:.2f} |")
    base = ROWS / statistics.median(ours)
    for size in CALLS[:-1]:
        n = min(ROWS, 2_000 * size)
        part = rows.part(0, n)
        found = [
            seconds_of(partial(in_calls, calibrail.Monitor(guardrail), part, size))
            for _ in range(3)
        ]
        rate = n / statistics.median(found)
        word = "row" if size == 1 else "rows"
        lines.append(
            f"| `Monitor.update`, {size:,} {word} a call | {rate:,.0f} | {rate / base:.2f} |"
        )
    for n in MAPIE_ROWS:
        rate = n / seconds_of(martingale(rows.score[:n]))
        lines.append(
            f"| MAPIE's `OnlineMartingaleTest`, score alone, its first {n:,} rows | {rate:,.0f} | "
            f"{rate / base:.4f} |"
        )
    return lines


def in_calls(monitor: calibrail.Monitor, rows: Rows, size: int) -> None:
    for start in range(0, len(rows), size):
        monitor.update(rows.part(start, start + size))


def martingale(score: np.ndarray) -> Callable[[], object]:
    """Return MAPIE's jumper martingale over scores, which are the residuals of a constant model."""
    from mapie.exchangeability_testing import OnlineMartingaleTest
    from mapie.regression import SplitConformalRegressor
    from sklearn.dummy import DummyRegressor

    score = np.nan_to_num(score)
    nothing = np.zeros((len(score), 1))
    model = DummyRegressor(strategy="constant", constant=0.0).fit(nothing[:2], score[:2])
    test = OnlineMartingaleTest(
        SplitConformalRegressor(model, prefit=True), task="regression", warn=False, random_state=0
    )

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.update(nothing, score)

    return work


def memory(guardrail: Path, most: int) -> list[str]:
    lines = [
        "| rows | most memory, MiB | rows a second | largest state, KiB | alarms kept |",
        "|---|---|---|---|---|",
    ]
    for n in (size for size in SIZES if size <= most):
        command = [sys.executable, "-c", MEMORY, str(guardrail), str(n), str(Path(__file__).parent)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=ONE_CORE)
        seconds, peak, state, alarms = map(float, done.stdout.split())
        lines.append(
            f"| {n:,} | {peak:.0f} | {n / seconds:,.0f} | {state / 1024:.0f} | {alarms:.0f} |"
        )
        print(lines[-1], flush=True)
    return lines


def log_lines(folder: Path) -> list[str]:
    """Return lines a second of the command beside the bare work on the same bytes."""
    guardrail = folder / "column.json"
    labelled = [answer(row, row % 2 + row % 7 / 10.0, label=row % 2) for row in range(200)]
    calibrail.calibrate(labelled, SCORE, alpha=0.1).freeze().save(guardrail)
    write_log(calibrail.Guardrail.load(guardrail), folder / "log")
    files = sorted((folder / "log").glob("*"))
    timed: dict[str, list[float]] = {"monitor": [], "bare": [], "empty": []}
    for turn in range(5):
        watch = folder / f"watch-{turn}"
        timed["monitor"].append(seconds_of(lambda at=watch: command(guardrail, folder, at)))
        # The same again: nothing new in the log.
        timed["empty"].append(seconds_of(lambda at=watch: command(guardrail, folder, at)))
        timed["bare"].append(seconds_of(lambda: bare_lines(files)))
    middle = {name: statistics.median(found) for name, found in timed.items()}
    alone = statistics.median(
        one - other for one, other in zip(timed["monitor"], timed["empty"], strict=True)
    )
    rows = {
        "`calibrail monitor`, whole command": middle["monitor"],
        "`calibrail monitor`, less what it takes where nothing is new": alone,
        "bare `json.loads` and SHA-256 of each line": middle["bare"],
    }
    lines = ["| what | lines a second | times the bare work |", "|---|---|---|"]
    for name, seconds in rows.items():
        lines.append(f"| {name} | {LINES / seconds:,.0f} | {seconds / middle['bare']:.2f} |")
    return [*lines, "", f"Where nothing is new the command takes {middle['empty']:.2f} s."]


def answer(row: int, risk: float, label: int | None = None) -> calibrail.Example:
    return calibrail.Example(
        "How many?",
        ("One.", "Two."),
        f"It is {row:06}.",
        id=f"t{row}",
        label=label,
        columns={"risk": risk},
    )


def write_log(guardrail: calibrail.Guardrail, log: Path) -> None:
    risks = np.random.default_rng(0).normal(0.5, 0.5, LINES).round(4).tolist()
    with DecisionLog(log) as out:
        for start in range(0, LINES, 1024):
            part = [answer(start + at, risk) for at, risk in enumerate(risks[start : start + 1024])]
            decisions = guardrail.decide(part)
            out.write([Entry.of(guardrail, *pair) for pair in zip(part, decisions, strict=True)])


def command(guardrail: Path, folder: Path, output: Path) -> None:
    words = [sys.executable, "-m", "calibrail", "monitor", guardrail, folder / "log", "-o", output]
    subprocess.run(list(map(str, words)), check=True, capture_output=True, env=ONE_CORE)


def bare_lines(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                json.loads(line)
                hashlib.sha256(line).hexdigest()


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        guardrail = folder / "guardrail.json"
        run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
        run.freeze().save(guardrail)
        fast = updates(guardrail)
        read = log_lines(folder)
        flat = memory(guardrail, most)
    lines = [
        "Seconds of processor on one core. All six features (score, undefined, two lengths, "
        "chunks, language), time and time line of a watch with its default options; "
        f"{ROWS:,} rows, medians of {ROUNDS} rounds in which the first three rows take turns. "
        "Making the rows' arrays is not counted. MAPIE's test watches one column, keeps all of it "
        "and compares each new row with all rows before.",
        "",
        *fast,
        "",
        "## Memory and state",
        "",
        "Each in a process of its own, in calls of 100,000 rows; two answers a second, so that "
        "10^8 rows are 19 months. Alarms are false ones: the traffic never changes, and the mean "
        "run length stated is 100,000 rows. At most 100 are kept.",
        "",
        *flat,
        "",
        "## Lines of a log",
        "",
        f"{LINES:,} lines that `DecisionLog` wrote; medians of 5 rounds in turn. The command "
        "verifies the chain of hashes, decides each line again, follows its traffic, and writes "
        "status, state and page.",
        "",
        *read,
    ]
    if most < SIZES[-1]:
        print("\n".join(lines))
    else:
        write("watch", "A watch: speed, state, memory", lines, ("numpy", "mapie"))


if __name__ == "__main__":
    main()
