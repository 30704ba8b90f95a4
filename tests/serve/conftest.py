from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example, calibrate
from calibrail.guardrail import Guardrail
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.options import ServeOptions
from calibrail.serve.app import application
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.limits import RequestLimits
from calibrail.serve.service import Service
from tests.guardrail.sentences import by_sentence_of_words

httpx = pytest.importorskip("httpx2")

ANSWER = {
    "question": "Which element has the symbol W?",
    "contexts": ["Tungsten is a metal with the symbol W."],
    "response": "Tungsten has the symbol W.",
    "id": "first",
}
NOVEL = {**ANSWER, "response": "Vienna banned cheese in March.", "id": "second"}

#: What a test does with a service, and with a client of it.
Visit = Callable[[Any, Service], Awaitable[None]]


@pytest.fixture(scope="session")
def surface(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail on a surface score."""
    path = tmp_path_factory.mktemp("serve") / "surface.json"
    calibrate("example:facts", "novelty", alpha=0.2).freeze().save(path)
    return path


@pytest.fixture(scope="session")
def column(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail on a score column."""
    path = tmp_path_factory.mktemp("serve") / "column.json"
    rows = [
        Example(response=f"answer {row}", label=row % 2, columns={"risk": row % 2 + row % 7 / 10})
        for row in range(200)
    ]
    run = calibrate(rows, "column:column=risk,higher=hallucinated", alpha=0.1)
    run.freeze(on_failure="review").save(path)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail on the embedded encoder."""
    path = tmp_path_factory.mktemp("serve") / "model.json"
    rows = [
        Example(
            contexts=(f"Tungsten melts at {row * 7} degrees.", "Vienna lies on the Danube."),
            response=f"{'Tungsten melts' if row % 2 else 'Cheese begins'} at {row * 7} degrees.",
            label=1 - row % 2,
        )
        for row in range(40)
    ]
    calibrate(rows, "rad", alpha=0.4).freeze().save(path)
    return path


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guardrail of sentences."""
    path = tmp_path_factory.mktemp("serve") / "words.json"
    by_sentence_of_words().save(path)
    return path


@pytest.fixture
def visit() -> Callable[..., None]:
    """Run a visit to a service without a socket; options are those of ``ServeOptions``."""

    def run(
        go: Visit,
        *paths: Path,
        load: Callable[[Path], Guardrail] = Guardrail.load,
        log: DecisionLog | None = None,
        **options: Any,
    ) -> None:
        async def inside() -> None:
            files = {path.stem: path for path in paths}
            settings = replace(ServeOptions(), **options)
            service = Service(settings, Guardrails(files, load), log)
            transport = httpx.ASGITransport(RequestLimits(application(service), service))
            url = "http://127.0.0.1"
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                await go(client, service)
            assert await service.close()

        asyncio.run(inside())

    return run
