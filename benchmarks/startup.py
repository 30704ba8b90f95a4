"""How long do ``calibrail --help`` and a client of the service take beyond starting Python?

Whole processes, in turn, with the median of the differences. Goal: ``--help`` takes at most 0.25 s
more than ``python -c pass``. Beside the client stands httpx alone, which it is made of.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from results import write

RUNS = 15
HELP = [str(Path(sys.executable).parent / "calibrail"), "--help"]
CLIENT = [sys.executable, "-c", "import calibrail; calibrail.Client('http://127.0.0.1:8000')"]
HTTPX = [sys.executable, "-c", "import httpx2; httpx2.Client()"]
BARE = [sys.executable, "-c", "pass"]


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
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
            "| what | median s | min s | max s |",
            "|---|---|---|---|",
            row("`calibrail --help`", shown),
            row("`calibrail.Client(...)`", client),
            row("`httpx2.Client()`", httpx),
            row("`python -c pass`", bare),
            row("`--help` beyond Python (goal: at most 0.25)", less(shown, bare)),
            row("client beyond Python", less(client, bare)),
            row("client beyond httpx", less(client, httpx)),
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
