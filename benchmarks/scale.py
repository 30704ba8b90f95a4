"""What does a row cost, at ten thousand rows and at ten million, from each engine?

Writes answers of made-up words to Parquet and gives them to ``calibrail score`` in a process of
its own: from one process, with shards, from several processes, on Ray with one node and with two.
What a row costs is taken of the work alone: less what the smallest file takes, which is start-up.
Then a run is killed halfway and started again. Parts are arguments: ``python benchmarks/scale.py
growth engines ray kill``, and ``growth:10000000`` adds a size.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import write

SMALLEST = 10_000
SIZES = (SMALLEST, 100_000, 1_000_000)
#: What is scored: reading alone but for a subtraction, and words compared.
SCORES = ("length", "novelty")
ENGINES = {
    "one process": [],
    "one process, shards": ["--shards", "SHARDS"],
    "1 process beside": ["--engine", "processes", "--workers", "1", "--shards", "SHARDS"],
    "2 processes beside": ["--engine", "processes", "--workers", "2", "--shards", "SHARDS"],
}
_WRITTEN = 20_000
_WORDS = np.array([f"w{number:x}ord" for number in range(20_000)])


class Taken(NamedTuple):
    """What a command took.

    Attributes
    ----------
    wall, processor : float
        Seconds; the processor's of all its processes.
    peak, beside : int
        Bytes that the process held at most, and that the largest of its children held.
    """

    wall: float
    processor: float
    peak: int
    beside: int


def generate(path: Path, rows: int) -> None:
    """Write answers: a question of 8 words, two contexts of 20, a response of 12."""
    rng, writer = np.random.default_rng(0), None
    for start in range(0, rows, _WRITTEN):
        n = min(_WRITTEN, rows - start)
        words = _WORDS[rng.integers(0, len(_WORDS), (n, 60))]
        words[:, 48:54] = words[:, 8:14]
        texts = [" ".join(row) for row in words[:, :8]], [" ".join(row) for row in words[:, 48:]]
        contexts = [[" ".join(row[:20]), " ".join(row[20:])] for row in words[:, 8:48]]
        table = pa.table(
            {
                "id": [f"answer-{row}" for row in range(start, start + n)],
                "question": texts[0],
                "contexts": contexts,
                "response": texts[1],
                "label": (rng.random(n) < 0.3).astype(np.int8),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def command(path: Path, score: str, options: Sequence[str], folder: Path) -> list[str]:
    """Return the command that scores a file, with fresh shards where it keeps any."""
    shards = folder / "shards"
    shutil.rmtree(shards, ignore_errors=True)
    given = [str(shards) if option == "SHARDS" else option for option in options]
    return ["score", str(path), "--score", score, *given, "-o", str(folder / "scores.parquet")]


def taken(arguments: Sequence[str]) -> Taken:
    """Run a command in a process of its own, and return what it took."""
    started = time.perf_counter()
    asked = [sys.executable, __file__, "run", *arguments]
    output = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    wall = time.perf_counter() - started
    return Taken(wall, *json.loads(output.splitlines()[-1]))


def run(arguments: Sequence[str]) -> None:
    """Run a command in this process, and print what it took."""
    from calibrail.cli import main as started

    sys.argv = ["calibrail", *arguments]
    with suppress(SystemExit):
        started()
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    processor = sum(usage.ru_utime + usage.ru_stime for usage in (own, children))
    # Not ru_maxrss of this process, which counts what the one that started it held.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    print(json.dumps([processor, peak, children.ru_maxrss * 1024]))


def row(name: Sequence[str], rows: int, now: Taken, base: Taken) -> str:
    """Return a line of a table; what a row costs is less what the smallest file takes."""
    more = rows - SMALLEST
    each = (
        ("", "")
        if not more
        else (
            f"{1e6 * (now.processor - base.processor) / more:.1f}",
            f"{1e6 * (now.wall - base.wall) / more:.1f}",
        )
    )
    cells = (*name, f"{rows:,}", f"{now.wall:.1f}", f"{now.processor:.1f}", *each)
    return (
        "| " + " | ".join((*cells, f"{now.peak / 2**20:.0f}", f"{now.beside / 2**20:.0f}")) + " |"
    )


_HEAD = (
    "| rows | seconds | processor seconds | processor µs a row | µs a row | peak MiB | of a child |"
)


def growth(folder: Path, further: Sequence[int]) -> list[str]:
    """Measure time and memory against rows, in one process and with shards."""
    lines = ["## Rows against time and memory", "", f"| score | engine {_HEAD}", "|---" * 9 + "|"]
    bases: dict[tuple[str, str], Taken] = {}
    for rows in (*SIZES, *further):
        generate(path := folder / "answers.parquet", rows)
        for score in SCORES if rows <= 1_000_000 else SCORES[:1]:
            for name in ("one process", "one process, shards"):
                now = taken(command(path, score, ENGINES[name], folder))
                base = bases.setdefault((score, name), now)
                lines.append(row((score, name), rows, now, base))
                print(lines[-1], flush=True)
        path.unlink()
    return lines


def engines(folder: Path, rows: int = 200_000) -> list[str]:
    """Measure the engines of one machine beside each other."""
    lines = ["## Engines of one machine", "", f"| score | engine {_HEAD}", "|---" * 9 + "|"]
    files = {n: folder / f"{n}.parquet" for n in (SMALLEST, rows)}
    for n, path in files.items():
        generate(path, n)
    for name, options in ENGINES.items():
        base, now = (taken(command(path, SCORES[1], options, folder)) for path in files.values())
        lines.append(row((SCORES[1], name), rows, now, base))
        print(lines[-1], flush=True)
    return lines


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Start a Ray cluster of nodes on this machine; yield its address."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            made.add_node(num_cpus=4)
        yield str(made.address)
    finally:
        made.shutdown()


def ray(folder: Path, rows: int = 100_000) -> list[str]:
    """Measure what Ray costs: its start, each shard, and a second node of the same machine."""
    lines = [
        "## Ray",
        "",
        "| nodes | shards of 250 rows | seconds | ms more a shard |",
        "|---|---|---|---|",
    ]
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    few, many = 4, rows // 250
    files = {n: folder / f"ray-{n}.parquet" for n in (few, many)}
    for n, path in files.items():
        generate(path, 250 * n)
    kinds = {"none (one process)": ["--shards", "SHARDS"]}
    for nodes in (1, 2):
        kinds[str(nodes)] = ["--engine", "ray", "--workers", "2", "--shards", "SHARDS"]
    for name, options in kinds.items():
        if name.isdigit():
            with cluster(int(name)) as address:
                given = [*options, "--ray-address", address, "--shard-rows", "250"]
                walls = [
                    taken(command(path, "length", given, folder)).wall for path in files.values()
                ]
        else:
            given = [*options, "--shard-rows", "250"]
            walls = [taken(command(path, "length", given, folder)).wall for path in files.values()]
        each = 1000 * (walls[1] - walls[0]) / (many - few)
        lines.append(f"| {name} | {few} | {walls[0]:.1f} | |")
        lines.append(f"| {name} | {many} | {walls[1]:.1f} | {each:.1f} |")
        print(*lines[-2:], sep="\n", flush=True)
    return lines


def kill(folder: Path, rows: int = 100_000) -> list[str]:
    """Kill a run halfway, start it again, and measure what that cost."""
    generate(path := folder / "killed.parquet", rows)
    lines = [
        "## A run that is killed halfway",
        "",
        "| engine | seconds undisturbed | until the kill | the second run | lost |",
        "|---|---|---|---|---|",
    ]
    for name in ("one process, shards", "2 processes beside"):
        whole = taken(command(path, SCORES[1], ENGINES[name], folder)).wall
        kept = (folder / "scores.parquet").read_bytes()
        arguments = command(path, SCORES[1], ENGINES[name], folder)
        results = folder / "shards" / "results"
        started = time.perf_counter()
        half = rows // 4096 // 2
        with subprocess.Popen([sys.executable, "-m", "calibrail", *arguments], stderr=-3) as first:
            while sum(1 for _ in results.rglob("*.parquet")) < half:
                time.sleep(0.05)
            first.send_signal(signal.SIGKILL)
        until = time.perf_counter() - started
        asked = [sys.executable, __file__, "run", *arguments]
        started = time.perf_counter()
        subprocess.run(asked, check=True, capture_output=True)
        again = time.perf_counter() - started
        assert (folder / "scores.parquet").read_bytes() == kept
        lost = until + again - whole
        lines.append(f"| {name} | {whole:.1f} | {until:.1f} | {again:.1f} | {lost:.1f} |")
        print(lines[-1], flush=True)
    return lines


def main(parts: Sequence[str]) -> None:
    """Measure the parts that are named, or all."""
    lines = [
        f"Start-up is taken off by a file of {SMALLEST:,} rows. Shards hold 4,096 rows. Every row",
        "has 68 words. Load of the machine at the start: "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
    ]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part in parts or ("growth", "engines", "ray", "kill"):
            name, _, sizes = part.partition(":")
            match name:
                case "growth":
                    further = [int(size) for size in sizes.split(",") if size]
                    found = growth(folder, further)
                case "engines":
                    found = engines(folder)
                case "ray":
                    found = ray(folder)
                case _:
                    found = kill(folder)
            lines += ["", *found]
    write("scale", "Rows, engines and kills", lines, ["numpy", "pyarrow"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    else:
        main(sys.argv[1:])
