"""How near does judging come to what an endpoint allows, and does memory stay flat?

A server in a process of its own takes 200 ms for every call. With 32 calls in flight, 1,000 answers
take at least 1,000 / 32 x 0.2 s = 6.25 s. Goal: at most 1.3 times that. Then answers by the
thousand, answered at once: the peak memory must not grow with their number. The same once more by
the provider's name, through litellm: what that library costs a call.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from results import write

from calibrail import CallLimits, Example, limit_calls
from calibrail.engine import score_examples
from calibrail.scores import build
from calibrail.scores.registry import ScoreSpec

N, CONCURRENCY, LATENCY = 1000, 32, 0.2
ROUNDS = 3
SIZES = (2_000, 10_000)


def body() -> bytes:
    """Return one verdict with its 20 alternatives, as an endpoint words it."""
    top = [{"token": f"t{i}", "logprob": -9.0 - i, "bytes": None} for i in range(18)]
    top = [
        {"token": "faith", "logprob": -0.4, "bytes": None},
        {"token": "hall", "logprob": -1.2, "bytes": None},
        *top,
    ]
    position = {"token": "faith", "logprob": -0.4, "bytes": None, "top_logprobs": top}
    rest = {"token": "ful", "logprob": -0.01, "bytes": None, "top_logprobs": []}
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "faithful"},
                    "logprobs": {"content": [position, rest]},
                }
            ],
            "usage": {"prompt_tokens": 200, "completion_tokens": 2, "total_tokens": 202},
        }
    ).encode()


async def serve(latency: float) -> None:
    """Answer every request after ``latency`` seconds; print the address first."""
    answer = body()
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
        + str(len(answer)).encode()
        + b"\r\n\r\n"
    )

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in request.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                await asyncio.sleep(latency)
                writer.write(head + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


@contextmanager
def endpoint(latency: float) -> Iterator[str]:
    """Run the server beside this process."""
    command = [sys.executable, __file__, "serve", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def examples(n: int, start: int = 0) -> Iterator[Example]:
    """Yield answers of about 900 characters with their context."""
    text = "The river rises in the mountains and flows through four countries to the sea. " * 10
    for row in range(start, start + n):
        yield Example(
            id=str(row),
            question=f"Where does river number {row} flow?",
            contexts=(text,),
            response=f"River {row} flows to the sea.",
        )


def judge(url: str, n: int, start: int = 0, named: bool = False) -> float:
    """Return the seconds that ``n`` new answers take; ``named`` asks through litellm."""
    where = {"model": "m", "base_url": url}
    if named:
        where = {"model": "openai/m", "base_url": "openai"}
    os.environ.update(OPENAI_API_BASE=url, OPENAI_API_KEY="none")
    score = build(ScoreSpec("judge", {**where, "mode": "logprob"}))
    started = time.perf_counter()
    with limit_calls(CallLimits(concurrency=CONCURRENCY)):
        table = score_examples(examples(n, start), [score])
    assert not any(table.reasons.values())
    return time.perf_counter() - started


def peak(url: str, n: int, folder: str) -> float:
    """Return the peak resident memory, in MiB, of a process that judges ``n`` answers."""
    environment = {**os.environ, "CALIBRAIL_CACHE": str(Path(folder) / f"{n}.sqlite")}
    command = [sys.executable, __file__, "judge", url, str(n)]
    found = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(found.stdout)


def imported() -> float:
    """Return the seconds that a new process takes to import litellm, as calibrail does."""
    code = "from calibrail.models.llm.providers import ProviderTransport as P; P('openai')"
    plain = "from calibrail.models.llm import providers"
    spent = []
    for program in (plain, code):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        spent.append(time.perf_counter() - started)
    return spent[1] - spent[0]


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(float(sys.argv[2])))
        return
    if sys.argv[1:2] == ["judge"]:
        judge(sys.argv[2], int(sys.argv[3]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CALIBRAIL_CACHE"] = str(Path(folder) / "answers.sqlite")
        ideal = N / CONCURRENCY * LATENCY
        with endpoint(0.0) as url:
            judge(url, 64, start=10**6)
            again = judge(url, 2 * N)
            known = judge(url, 2 * N)
            # A process counts the memory of the one that started it: so before litellm is loaded.
            peaks = [peak(url, n, folder) for n in SIZES]
        seconds, by_name = [], []
        with endpoint(LATENCY) as url:
            judge(url, 64, start=10**6)
            judge(url, 64, start=10**6, named=True)
            for turn in range(ROUNDS):
                seconds.append(judge(url, N, start=N * turn))
                by_name.append(judge(url, N, start=N * turn, named=True))
        with endpoint(0.0) as url:
            again_by_name = judge(url, 2 * N, start=10**7, named=True)
    ratio = sorted(seconds)[ROUNDS // 2] / ideal
    named = sorted(by_name)[ROUNDS // 2]
    lines = [
        f"An endpoint that takes {1000 * LATENCY:.0f} ms for every call, {CONCURRENCY} calls at "
        f"the same time, {N:,} answers, every one written to the cache. Ideal: {ideal:.2f} s.",
        "",
        "| | seconds | times the ideal | goal |",
        "|---|---|---|---|",
        f"| judging {N:,} answers (median of {ROUNDS}) | {sorted(seconds)[ROUNDS // 2]:.2f} "
        f"({min(seconds):.2f} to {max(seconds):.2f}) | {ratio:.2f} | 1.3 |",
        f"| the same by the provider's name, through litellm | {named:.2f} ({min(by_name):.2f} to "
        f"{max(by_name):.2f}) | {named / ideal:.2f} | |",
        "",
        f"The library takes {named / sorted(seconds)[ROUNDS // 2]:.2f} times as long as the direct "
        f"path at this latency, and {again_by_name / again:.1f} times without any: "
        f"{1000 * again_by_name / (2 * N):.1f} ms a call. Importing it takes "
        f"{imported():.1f} s, once, where a provider is named.",
        "",
        f"Without latency a call costs {1000 * again / (2 * N):.1f} ms of our "
        f"own work; an answer that is known {1000 * known / (2 * N):.2f} ms.",
        "",
        "| answers judged | peak memory |",
        "|---|---|",
        *(f"| {n:,} | {value:.0f} MiB |" for n, value in zip(SIZES, peaks, strict=True)),
    ]
    write("judge_throughput", "Judging: throughput and memory", lines, ["openai", "litellm"])


if __name__ == "__main__":
    main()
