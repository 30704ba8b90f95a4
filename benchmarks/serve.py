"""What does `calibrail serve` cost beyond its guardrail, and does it hold under load?

Ratios and differences are those of one run, taken in turns. The load comes from wrk (``apt-get
install wrk`` or https://github.com/wg/wrk), on the same machine: it shares the cores with the
service. Parts can be named: ``python benchmarks/serve.py overhead http``; a run of all writes the
page. ``CALIBRAIL_SERVE_REQUESTS`` is the number of requests over which memory is watched.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from results import write

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from calibrail import Example, Guardrail, ReadOptions, calibrate, read  # noqa: E402
from tests.serve.load import read_answer  # noqa: E402
from tests.serve.process import Service, request_bytes  # noqa: E402

DEFAULT_DATA = HERE.parent / ".." / "shared" / "data"
ROUNDS = 3
CLIENTS = 64
#: Clients among which newcomers ask, and the seconds of a round.
CROWD = 512
CROWDED = 15
#: Answers of each run of the encoder.
ENCODED = 200
REQUESTS = int(os.environ.get("CALIBRAIL_SERVE_REQUESTS", "1_000_000"))
QUEUE = 64

#: A FastAPI route that reads the same body and answers with as many bytes, on the same server.
BARE = """
import sys, uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response

app = FastAPI()

@app.post("/v1/check")
async def check(request: Request) -> Response:
    await request.json()
    return Response(sys.argv[2], media_type="application/json")

uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
"""


def main() -> None:
    if shutil.which("wrk") is None:
        print("skipped: wrk is not installed; apt-get install wrk")
        return
    parts = {
        "overhead": overhead,
        "http": http,
        "throughput": throughput,
        "overload": overload,
        "crowd": crowd,
        "start": start,
        "memory": memory,
    }
    chosen = sys.argv[1:] or list(parts)
    lines = [
        "Load by wrk on the same machine, whose cores it shares with the service; each table's "
        "figures come from one run. The load of the machine by other programs at the start of each "
        "part, as the number of processes that ran or waited over the last minute, stands with it."
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            busy = os.getloadavg()[0]
            part = [*parts[name](Path(folder)), "", f"Load at the start: {busy:.1f}."]
            print("\n".join(part), flush=True)
            lines += ["", *part]
    if chosen == list(parts):
        write("serve", "The service", lines, ["fastapi", "uvicorn", "httptools"])


def overhead(folder: Path) -> list[str]:
    """Measure `Guardrail.check` on a score column against the bare score."""
    lines = [
        "## One decision in a process",
        "",
        "`Guardrail.check` with a score column, medians of 2,000 calls in turns. Goal: at most "
        "100 µs above the bare score.",
        "",
        "| calibrated on | bare score µs | check µs | difference µs |",
        "|---|---|---|---|",
    ]
    for n, options in ((2_000, {}), (2_000, {"beta": 0.1}), (2_000, {"by": "kind"}), (100_000, {})):
        rng = np.random.default_rng(0)
        rows = [
            Example(
                response=f"{row}",
                label=row % 2,
                columns={"risk": float(rng.normal(row % 2)), "kind": "ab"[row // 2 % 2]},
            )
            for row in range(n)
        ]
        run = calibrate(rows, "column:column=risk,higher=hallucinated", alpha=0.1, **options)
        guardrail = run.freeze()
        columns = {"risk": 0.3, "kind": "a"}
        one = [Example("What is it?", ("A chunk.",), "An answer.", columns=columns)]

        def bare(guardrail: Guardrail = guardrail, one: list[Example] = one) -> object:
            return guardrail.score.score(one)

        def check(guardrail: Guardrail = guardrail, columns: Any = columns) -> object:
            return guardrail.check(
                question="What is it?",
                contexts=["A chunk."],
                response="An answer.",
                columns=columns,
            )

        times = medians(bare, check, runs=2_000)
        what = ", ".join(f"{name}={value}" for name, value in options.items())
        lines.append(
            f"| {n:,} answers{', ' + what if what else ''} | {times[0] * 1e6:.0f} | "
            f"{times[1] * 1e6:.0f} | {(times[1] - times[0]) * 1e6:.0f} |"
        )
    return lines


def http(folder: Path) -> list[str]:
    """Measure a surface score over HTTP against the check in process and a bare route."""
    guardrail, bodies = surface(folder)
    answers = cycle([json.loads(line) for line in bodies.read_text().splitlines()])
    in_process = medians(lambda: guardrail.check(**next(answers)), runs=2_000)[0]
    line = guardrail.check(**next(answers)).line()
    found: dict[str, list[float]] = {"service": [], "bare": []}
    with Service(folder / "surface.json") as service, BareRoute(line) as port:
        for _ in range(ROUNDS):
            for name, at in (("service", service.port), ("bare", port)):
                found[name].append(wrk(at, bodies, connections=1, seconds=4)["p50"])
    p50 = {name: statistics.median(values) for name, values in found.items()}
    extra = p50["service"] - p50["bare"] - in_process
    return [
        "## One decision over HTTP",
        "",
        "Surface score (`novelty`), answers of the example data, one connection; p50, median "
        f"of {ROUNDS} rounds of 4 s in turns. Goal: at most 1 ms above the check in process and a "
        "bare FastAPI route of the same payload.",
        "",
        "| what | p50 ms |",
        "|---|---|",
        f"| `POST /v1/check` | {p50['service'] * 1e3:.2f} |",
        f"| bare FastAPI route, same body, as long an answer | {p50['bare'] * 1e3:.2f} |",
        f"| `Guardrail.check` in process | {in_process * 1e3:.2f} |",
        f"| **above both** | **{extra * 1e3:.2f}** |",
    ]


def throughput(folder: Path) -> list[str]:
    """Measure the embedded encoder for many clients against the same answers offline."""
    made = encoder(folder)
    if made is None:
        return [f"## Throughput\n\nSkipped: no data at {data()}; set CALIBRAIL_DATA."]
    path, bodies, examples = made
    online, offline = [], []
    for _ in range(ROUNDS):
        with Service(path) as service:
            found = wrk(service.port, bodies, connections=CLIENTS, seconds=300, answers=ENCODED)
            assert not found["refused"] and not found["broken"], found
            online.append(found["requests"] / found["seconds"])
        offline.append(float(in_new_process(OFFLINE, path, bodies)))
    ratio = statistics.median(a / b for a, b in zip(online, offline, strict=True))
    return [
        "## Throughput with the embedded encoder",
        "",
        f"`rad`, {len(examples):,} answers of HaluEval QA that neither had seen, a new process "
        f"each time, {ROUNDS} rounds in turns; {CLIENTS} clients, one answer a request. The load "
        "tool takes its share of the cores. Goal: at least 0.8 times offline.",
        "",
        "| what | answers a second, by round |",
        "|---|---|",
        f"| `POST /v1/check`, {CLIENTS} clients | {', '.join(f'{x:.1f}' for x in online)} |",
        f"| `Guardrail.stream`, as `check` decides files | "
        f"{', '.join(f'{x:.1f}' for x in offline)} |",
        f"| **median of the ratios** | **{ratio:.2f}** |",
    ]


def overload(folder: Path) -> list[str]:
    """Ask with more clients than the queue holds."""
    made = encoder(folder)
    if made is None:
        return ["## Overload\n\nSkipped: no data; set CALIBRAIL_DATA."]
    path, bodies, _ = made
    lines = bodies.read_text().splitlines()
    with Service(path, "--queue", QUEUE) as service:
        answers = asyncio.run(overwhelm(service.port, lines, connections=4 * QUEUE, seconds=20.0))
        after = service.check(json.loads(lines[0]))
    assert after.status == 200
    taken = [seconds for status, seconds, _ in answers if status == 200]
    refused = [(seconds, retry) for status, seconds, retry in answers if status == 429]
    assert len(taken) + len(refused) == len(answers) and all(retry for _, retry in refused)
    rate = len(taken) / 20.0
    return [
        "## Overload",
        "",
        f"The same guardrail with a queue of {QUEUE}, {4 * QUEUE} clients that send again at once "
        "for 20 s (asyncio, since wrk does not tell refused answers' times from others'). The "
        "queue at the measured rate is the longest that an accepted answer can wait.",
        "",
        "| what | measured |",
        "|---|---|",
        f"| decided | {len(taken):,}, {rate:.1f} a second |",
        f"| p99 of decided answers | {np.percentile(taken, 99):.2f} s |",
        f"| queue / rate | {QUEUE / rate:.2f} s |",
        f"| refused with 429 and Retry-After | {len(refused):,} |",
        f"| p99 of refusals | {np.percentile([s for s, _ in refused], 99):.2f} s |",
        "| anything else | 0 |",
    ]


def crowd(folder: Path) -> list[str]:
    """Let newcomers ask while many clients keep their connections busy."""
    guardrail, bodies = surface(folder)
    lines = bodies.read_text().splitlines()
    line = guardrail.check(**json.loads(lines[0])).line()
    found: dict[str, list[tuple[float, float, float, float]]] = {"service": [], "bare": []}
    with Service(folder / "surface.json") as service, BareRoute(line) as port:
        for _ in range(ROUNDS):
            for name, at in (("service", service.port), ("bare", port)):
                with ThreadPoolExecutor(1) as beside:
                    busy = beside.submit(wrk, at, bodies, connections=CROWD, seconds=CROWDED)
                    new = asyncio.run(arrive(at, lines, seconds=CROWDED - 2.0))
                load = busy.result()
                assert not load["refused"] and not load["broken"], load
                times = (*np.percentile(new, [50, 99]), load["p50"])
                found[name].append((*times, load["requests"] / load["seconds"]))
    rows = {name: np.median(values, axis=0) for name, values in found.items()}
    names = {"service": "`POST /v1/check`", "bare": "bare FastAPI route, as long an answer"}
    shown = [
        f"| {names[name]} | {p50:.2f} | {p99:.2f} | {busy:.2f} | {rate:,.0f} | {p99 / busy:.1f} |"
        for name, (p50, p99, busy, rate) in rows.items()
    ]
    each = ", ".join(f"{p99:.2f}" for _, p99, _, _ in found["service"])
    return [
        "## Newcomers in a crowd",
        "",
        f"Surface score; {CROWD} clients that keep their connections and ask again at once (wrk), "
        f"and a newcomer every 50 ms, who connects and asks once; medians of {ROUNDS} rounds of "
        f"{CROWDED} s in turns. Goal: p99 of newcomers, from connecting to the answer, below "
        "1.5 s.",
        "",
        "| what | newcomers p50 s | newcomers p99 s | others p50 s | others a second "
        "| newcomers p99 / others p50 |",
        "|---|---|---|---|---|---|",
        *shown,
        "",
        f"p99 of the service's newcomers, by round: {each} s.",
    ]


async def arrive(port: int, lines: list[str], *, seconds: float) -> list[float]:
    """Return the seconds that each newcomer waits, from its connection on."""
    found: list[float] = []

    async def newcomer(line: str) -> None:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes(line.encode()))
        answer = await read_answer(reader)
        assert answer.status == 200, answer
        found.append(time.perf_counter() - began)
        writer.close()

    # Once all others are there.
    await asyncio.sleep(1.0)
    async with asyncio.TaskGroup() as group:
        for line in islice(cycle(lines), int(seconds / 0.05)):
            group.create_task(newcomer(line))
            await asyncio.sleep(0.05)
    return found


def start(folder: Path) -> list[str]:
    """Measure from the start of the process to /readyz."""
    made = encoder(folder)
    if made is None:
        return ["## Start\n\nSkipped: no data; set CALIBRAIL_DATA."]
    path = made[0]
    ready: list[tuple[float, float]] = []
    loading: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with Service(path) as service:
            ready.append((time.perf_counter() - began, cores_used(service.process.pid)))
        for program, found in ((LOADING, loading), (MODEL, bare)):
            began, used = time.perf_counter(), os.times()
            in_new_process(program, path)
            after = os.times()
            cores = after.children_user + after.children_system
            cores -= used.children_user + used.children_system
            found.append((time.perf_counter() - began, cores))
    ratios = [
        statistics.median(a[part] / b[part] for a, b in zip(ready, loading, strict=True))
        for part in (0, 1)
    ]
    return [
        "## Start",
        "",
        f"Whole processes, {ROUNDS} rounds in turns. Goal: at most 1.2 times loading the model.",
        "",
        "| what | seconds, by round | core seconds, by round |",
        "|---|---|---|",
        f"| `calibrail serve` to /readyz | {rounds(ready)} |",
        f"| `Guardrail.load`, probed, to its first decision | {rounds(loading)} |",
        f"| bare `SentenceTransformer(folder)`, one sentence | {rounds(bare)} |",
        f"| **serve / load, median** | **{ratios[0]:.2f}** | **{ratios[1]:.2f}** |",
    ]


def memory(folder: Path) -> list[str]:
    """Watch resident memory over many requests."""
    _, bodies = surface(folder)
    samples: list[tuple[int, int]] = []
    step = max(1, REQUESTS // 10)
    began = time.perf_counter()
    with Service(folder / "surface.json", "--log", folder / "log") as service:
        for done in range(0, REQUESTS, step):
            found = wrk(service.port, bodies, connections=32, seconds=3_600, answers=step)
            assert not found["refused"] and not found["broken"], found
            samples.append((done + step, service.memory()))
    seconds = time.perf_counter() - began
    shown = ", ".join(f"{n // 1000:,}k: {kib / 1024:.1f}" for n, kib in samples)
    return [
        "## Memory",
        "",
        f"Surface score, decision log on, 32 clients, {REQUESTS:,} requests in {seconds:.0f} s "
        f"({REQUESTS / seconds:,.0f} a second). Goal: flat.",
        "",
        f"Resident MiB after so many requests: {shown}.",
        "",
        f"From the first tenth to the last: {(samples[-1][1] - samples[0][1]) / 1024:+.1f} MiB.",
    ]


OFFLINE = """
import json, sys, time
from pathlib import Path
from calibrail import Example, Guardrail
guardrail = Guardrail.load(sys.argv[1])
rows = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
examples = [Example(x["question"], tuple(x["contexts"]), x["response"]) for x in rows]
guardrail.check(question="What?", contexts=["A chunk."], response="To open the model.")
began = time.perf_counter()
n = sum(1 for _ in guardrail.stream(examples))
print(n / (time.perf_counter() - began))
"""

LOADING = """
import sys
from calibrail import Guardrail
guardrail = Guardrail.load(sys.argv[1], probe=True)
guardrail.check(question="What?", contexts=["A chunk."], response="To open the model.")
"""

MODEL = """
from sentence_transformers import SentenceTransformer
from calibrail.models.loading import DEFAULT_MODEL, locate
SentenceTransformer(str(locate(DEFAULT_MODEL).folder)).encode(["To open the model."])
"""


def cores_used(pid: int) -> float:
    """Return the core seconds that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rounds(found: list[tuple[float, float]]) -> str:
    """Return both columns of a row."""
    return " | ".join(", ".join(f"{pair[part]:.1f}" for pair in found) for part in (0, 1))


def in_new_process(program: str, *arguments: object) -> str:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def medians(*works: Callable[[], object], runs: int) -> list[float]:
    """Return the median seconds of each, run in turns."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(runs + 100):
        for work, found in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            if turn >= 100:
                found.append(time.perf_counter() - began)
    return [statistics.median(found) for found in times]


def wrk(
    port: int, bodies: Path, *, connections: int, seconds: int, answers: int = 0
) -> dict[str, float]:
    """Run wrk and return what its script prints."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "120s"]
    script = ["-s", str(HERE / "serve.lua"), f"http://127.0.0.1:{port}/v1/check"]
    words = [*command, *script, "--", str(bodies), str(answers)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def overwhelm(
    port: int, lines: list[str], *, connections: int, seconds: float
) -> list[tuple[int, float, str | None]]:
    """Return status, seconds and Retry-After of every answer."""
    until = time.perf_counter() + seconds
    numbered = enumerate(cycle(lines))
    found: list[tuple[int, float, str | None]] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < until:
            number, line = next(numbered)
            # No text is sent twice, so that nothing is known before.
            body = {**json.loads(line), "id": str(number)}
            body["response"] += f" {number}"
            writer.write(request_bytes(json.dumps(body).encode()))
            answer = await read_answer(reader)
            retry = answer.headers.get("retry-after")
            found.append((answer.status, time.perf_counter() - began, retry))
            if answer.status == 429:
                await asyncio.sleep(0.1)
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(client())
    return found


def surface(folder: Path) -> tuple[Guardrail, Path]:
    """Return a guardrail on a surface score, saved, and requests for it."""
    guardrail = calibrate("example:facts", "novelty", alpha=0.3).freeze()
    guardrail.save(folder / "surface.json")
    bodies = folder / "surface.jsonl"
    bodies.write_text("\n".join(map(body_of, read("example:facts"))) + "\n")
    return guardrail, bodies


def encoder(folder: Path) -> tuple[Path, Path, list[Example]] | None:
    """Return a guardrail on the embedded encoder, and answers that it has not seen."""
    source = data() / "halueval" / "qa_data.json"
    if not source.is_file():
        return None
    path, bodies = folder / "encoder.json", folder / "encoder.jsonl"
    examples = list(islice(read(source), 400, 400 + ENCODED))
    if not path.exists():
        calibrate(source, "rad", alpha=0.3, reading=ReadOptions(limit=400)).freeze().save(path)
        bodies.write_text("\n".join(map(body_of, examples)) + "\n")
    return path, bodies, examples


def body_of(example: Example) -> str:
    body = {"question": example.question, "contexts": list(example.contexts)}
    return json.dumps({**body, "response": example.response})


def data() -> Path:
    return Path(os.environ.get("CALIBRAIL_DATA", DEFAULT_DATA))


class BareRoute:
    """A process with the bare route."""

    def __init__(self, line: str) -> None:
        self._line = line

    def __enter__(self) -> int:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        self._process = subprocess.Popen([sys.executable, "-c", BARE, str(port), self._line])
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return port
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


if __name__ == "__main__":
    main()
