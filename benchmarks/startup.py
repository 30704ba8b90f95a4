"""How long do ``calibrail --help``, a client of the service and a first test take?

Processor time of whole processes, in turn: a busy machine hardly changes it. Goals: ``--help``
takes at most 0.25 s more than ``python -c pass``; ``calibrail test FILE --threshold 0.7`` at most
1.5 times as long by the clock as reading the file with pandas, the medians, on an idle machine.
Its processor time holds threads of the linear algebra, too, which start beside the rest. Beside the
client stands httpx alone, which it is made of.

``python benchmarks/startup.py ENV/bin/python`` runs the test in an environment that has calibrail's
core and pandas, and nothing else.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from results import write

RUNS = 11
HELP = [str(Path(sys.executable).parent / "calibrail"), "--help"]
CLIENT = [sys.executable, "-c", "import calibrail; calibrail.Client('http://127.0.0.1:8000')"]
HTTPX = [sys.executable, "-c", "import httpx2; httpx2.Client()"]
BARE = [sys.executable, "-c", "pass"]


def seconds(command: list[str]) -> float:
    return both_times(command)[0]


def both_times(command: list[str]) -> tuple[float, float]:
    """Return the seconds of a process: of the processors, and by the clock."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, ended - begun


DATA = Path(__file__).parents[1] / "src/calibrail/data/examples/judge.csv"


def first_test(python: str) -> list[str]:
    """Return rows of the table: the first command, and its peer, in a fresh environment."""
    commands = {
        "`calibrail test FILE --threshold 0.7`": ["-m", "calibrail", "test", str(DATA)],
        "`pandas.read_csv(FILE)`": ["-c", f"import pandas; pandas.read_csv({str(DATA)!r})"],
        "`import scipy.special`": ["-c", "import scipy.special"],
    }
    commands["`calibrail test FILE --threshold 0.7`"] += ["--threshold", "0.7"]
    rounds = [[both_times([python, *words]) for words in commands.values()] for _ in range(RUNS)]
    result = []
    for kind, (of, goal) in enumerate((("", ""), (", by the clock", " (goal: at most 1.5)"))):
        columns = [[a_round[place][kind] for a_round in rounds] for place in range(len(commands))]
        result += [row(f"{name}{of}", c) for name, c in zip(commands, columns, strict=True)]
        test, peer = columns[:2]
        ratios = statistics.median(test) / statistics.median(peer), min(test) / min(peer)
        result.append(
            f"| the first beside the second{of}{goal} | {ratios[0]:.2f} | {ratios[1]:.2f} | |"
        )
    return result


def main() -> None:
    in_fresh = first_test(sys.argv[1]) if sys.argv[1:] else []
    commands = (HELP, CLIENT, HTTPX, BARE)
    for command in commands:
        seconds(command)
    rounds = [[seconds(command) for command in commands] for _ in range(RUNS)]
    shown, client, httpx, bare = ([row[place] for row in rounds] for place in range(4))
    loaded = subprocess.run(
        [*CLIENT[:2], CLIENT[2] + "; import sys; print(len(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    write(
        "startup",
        "Starting the command line, and a client",
        [
            "| processor time of | median s | min s | max s |",
            "|---|---|---|---|",
            row("`calibrail --help`", shown),
            row("`calibrail.Client(...)`", client),
            row("`httpx2.Client()`", httpx),
            row("`python -c pass`", bare),
            row("`--help` beyond Python (goal: at most 0.25)", less(shown, bare)),
            row("client beyond Python", less(client, bare)),
            row("client beyond httpx", less(client, httpx)),
            *in_fresh,
            "",
            f"With a client, {int(loaded.stdout)} modules are loaded, those of Python and httpx "
            "included; neither numpy nor scipy, torch or pydantic is among them "
            "(`tests/serve/client/test_client.py`).",
        ],
    )


def less(values: list[float], others: list[float]) -> list[float]:
    return [value - other for value, other in zip(values, others, strict=True)]


def row(name: str, values: list[float]) -> str:
    return f"| {name} | {statistics.median(values):.3f} | {min(values):.3f} | {max(values):.3f} |"


if __name__ == "__main__":
    main()
