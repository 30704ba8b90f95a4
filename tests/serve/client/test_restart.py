from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from calibrail.client import AsyncClient
from calibrail.guardrail.decision_log.verify import verify
from tests.guardrail.decision_log.logs import decided
from tests.serve.conftest import ANSWER
from tests.serve.process import Service, until

pytest.importorskip("httpx2")


def test_clients_do_not_notice_that_a_service_is_killed_and_started_again(
    surface: Path, tmp_path: Path
) -> None:
    log, stop, done = tmp_path / "log", threading.Event(), list[str]()

    async def ask(client: AsyncClient, name: int) -> None:
        number = 0
        while not stop.is_set():
            decision = await client.check(**{**ANSWER, "id": f"{name}-{number}"})
            done.append(decision.id)
            number += 1

    async def run(url: str) -> None:
        async with AsyncClient(url, timeout=60.0, retries=50) as client:
            await asyncio.gather(*(ask(client, name) for name in range(8)))

    with Service(surface, "--log", log) as service:
        clients = threading.Thread(target=lambda: asyncio.run(run(service.url)))
        clients.start()
        try:
            until(lambda: len(done) >= 50, "50 decisions")
            service.kill()
            before = len(done)
            with Service(surface, "--log", log, port=service.port) as other:
                until(lambda: len(done) >= before + 50, "50 more decisions")
                stop.set()
                clients.join()
                assert other.terminate() == 0
        finally:
            stop.set()
            clients.join()
    # Each client went on where it was: no call failed, and whatever was told is in the log.
    assert len(done) == len(set(done)) and set(done) <= set(decided(log))
    check = verify([log])
    chains = sorted(check.chains, key=lambda chain: str(chain.begins))
    assert check.verdict == "whole" and [chain.closed for chain in chains] == [False, True]
