from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrail import calibrate
from calibrail.data import read
from calibrail.guardrail import Guardrail


@pytest.fixture(scope="session")
def facts() -> list[dict[str, Any]]:
    """Answers of the example data as bodies of requests, without ids."""
    return [
        {"question": item.question, "contexts": list(item.contexts), "response": item.response}
        for item in read("example:facts")
    ]


@pytest.fixture(scope="session")
def guardrail() -> Guardrail:
    """One on a surface score, whose decisions differ from answer to answer."""
    return calibrate("example:facts", "novelty", alpha=0.3).freeze()


@pytest.fixture(scope="session")
def file(guardrail: Guardrail, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guardrail") / "facts.json"
    guardrail.save(path)
    return path


@pytest.fixture
def bodies(facts: list[dict[str, Any]], request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Requests without end, each with an id that no other test's has."""

    def endless() -> Iterator[dict[str, Any]]:
        number = 0
        while True:
            for body in facts:
                yield {"id": f"{request.node.name}-{number}", **body}
                number += 1

    return endless()
